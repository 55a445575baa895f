"""Fits that are killed with SIGKILL at random moments and called again: whether they end with the same bits."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import gyrfalcon as gf
from gyrfalcon import checkpoints

from . import machine, report

KILLS = 6  # for each of the fits: twenty and more in all, though one may end before its kill
EVERY_SECONDS = 0.2  # so that fits of a few seconds are written often
SIZES = {False: 30_000, True: 2_000}  # rows, quick or not


def run(quick: bool) -> None:
    n = SIZES[quick]
    print(
        f"\nFits of {n:,} rows in processes of their own, killed with SIGKILL at {KILLS} random moments each and "
        "called again.\nseconds: undisturbed, so with a checkpoint, killed (all runs together, imports not counted)\n"
        f"{'fit':<24} {'plain':>8} {'kept':>8} {'killed':>8} {'kills':>6}  in the middle of           same bits"
    )
    rows = [_measure(kind, n) for kind in FITS]
    for row in rows:
        row["met"] = row["same"] and row["kills"] > 0
    same = all(row["met"] for row in rows)
    print(f"{sum(row['kills'] for row in rows)} kills (asked: the same bits always, {'met' if same else 'MISSED'})")
    report.write_json(report.FOLDER / "checkpoints.json", {"machine": machine.describe(), "n": n, "rows": rows})


def _measure(kind: str, n: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out, kept = Path(folder) / "out.npz", Path(folder) / "kept"
        plain, whole = _finish(kind, n, out, "")
        with_checkpoint, _ = _finish(kind, n, out, str(kept))
        seconds, kills, stages = 0.0, 0, []
        for _ in range(KILLS):
            used = _kill(kind, n, out, str(kept), random.uniform(0.1, 0.6) * plain)
            kills += used is not None
            seconds += used or 0.0
            names = sorted(path.name.split("-")[1].split(".")[0] for path in kept.iterdir())
            stages.append("solver" if "solver" in names else "tuning" if "evaluations" in names else "between")
        last, pieces = _finish(kind, n, out, str(kept))
        same = all(np.array_equal(whole[name], pieces[name]) for name in whole)
        shutil.rmtree(kept)
    places = ", ".join(f"{stages.count(stage)} {stage}" for stage in dict.fromkeys(stages))
    print(
        f"{kind:<24} {plain:8.1f} {with_checkpoint:8.1f} {seconds + last:8.1f} {kills:6}  {places:<26} "
        f"{'yes' if same else 'NO'}",
        flush=True,
    )
    return {
        "fit": kind,
        "plain": plain,
        "kept": with_checkpoint,
        "killed": seconds + last,
        "kills": kills,
        "same": same,
    }


def _start(kind: str, n: int, out: Path, checkpoint: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.checkpoints", kind, str(n), str(out), checkpoint]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it has imported everything
    return process


def _finish(kind: str, n: int, out: Path, checkpoint: str) -> tuple[float, dict[str, Any]]:
    process = _start(kind, n, out, checkpoint)
    began = time.perf_counter()
    process.communicate()
    seconds = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"{kind}: the fit ended with code {process.returncode}")
    with np.load(out) as found:
        return seconds, dict(found)


def _kill(kind: str, n: int, out: Path, checkpoint: str, after: float) -> float | None:
    """The seconds it had, or None if it was over before."""
    process = _start(kind, n, out, checkpoint)
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return after if process.returncode == -signal.SIGKILL else None


def _falkon(X: Any, y: Any, more: dict[str, Any]) -> Any:
    return gf.Falkon("gaussian", length_scale=1.5, penalty=1e-9, n_centers=500, max_iterations=80, **more).fit(X, y)


def _early(X: Any, y: Any, more: dict[str, Any]) -> Any:
    solver = gf.solvers.Falkon(tolerance=0.0, max_iterations=40)
    stopping = gf.solvers.EarlyStopping(validation=0.1, patience=40, tolerance=0.0)
    model = gf.KernelRegressor("matern", length_scale=1.5, penalty=1e-8, n_centers=300, solver=solver, tune=None)
    model.set_params(early_stopping=stopping, **more)
    return model.fit(X, np.stack([y, X[:, 2], y**2], 1))


def _softmax(X: Any, y: Any, more: dict[str, Any]) -> Any:
    model = gf.LogisticFalkon("gaussian", length_scale=1.5, penalty=1e-4, n_centers=100, **more)
    return model.fit(X, np.digitize(y, [0.3, 1.5]))


def _tuned(X: Any, y: Any, more: dict[str, Any]) -> Any:
    settings = gf.tuning.Tuning("gcv", optimizer="adam", steps=15, patience=15, rows=1000, centers=True)
    return gf.KernelRegressor("gaussian", tune=settings, n_centers=60, solver="falkon", **more).fit(X, y)


FITS = {"falkon, float32": _falkon, "early stopping": _early, "softmax by newton": _softmax, "tuned by Adam": _tuned}


def _child(kind: str, n: int, out: str, checkpoint: str) -> None:
    machine.set_threads()
    checkpoints.EVERY_SECONDS = EVERY_SECONDS
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)
    print("ready", flush=True)
    model = FITS[kind](X, y, {"random_state": 0, "checkpoint": checkpoint or None})
    temporary = f"{out}.part.npz"
    np.savez(temporary, coefficients=model.coefficients_, centers=model.centers_)
    os.replace(temporary, out)


if __name__ == "__main__":
    _child(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
