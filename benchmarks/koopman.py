"""Koopman operators: spectra that are known, Lorenz's attractor, a molecule, a race car, and peers.

Real frames come from the folder in $GYRFALCON_DATA. Peers run in an environment of their own, whose Python is named in
$GYRFALCON_KOOPMAN_PEERS (`python -m venv peers && peers/bin/pip install kooplearn deeptime`).
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import gyrfalcon as gf
from gyrfalcon.dynamics import Koopman

from . import koopman_beside, koopman_figures, machine, process, report
from .inverse_dynamics import load_frames
from .koopman_beside import solved, timed, verdict
from .koopman_systems import DECAY, PRINZ, lorenz, ornstein_uhlenbeck, prinz

Array = np.ndarray[Any, Any]
PARTS = ("truth", "lorenz", "alanine", "f1tenth", "peers", "memory")


def run(quick: bool, parts: tuple[str, ...] = PARTS) -> None:
    torch.set_num_threads(1)
    described = machine.describe()
    print(machine.headline(described))
    found: dict[str, Any] = {"machine": described}
    parts_of = (_truth, _lorenz, _alanine, _race_car, koopman_beside.measure, _memory)
    measures = dict(zip(PARTS, parts_of, strict=True))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", gf.dynamics.TimescaleWarning)
        for name in parts:
            found[name] = measures[name](quick)
    report.write_json(report.FOLDER / "koopman.json", found)


# Spectra that are known.


def _truth(quick: bool) -> dict[str, Any]:
    """Errors of eigenvalues after the first, and the largest modulus over seeds and numbers of centers."""
    seeds = 2 if quick else 5
    frames = 1001 if quick else 10_001
    process_errors, wells_errors = [], []
    for seed in range(seeds):
        runs = list(ornstein_uhlenbeck(frames, 10, seed))
        values = Koopman(n_centers=100, rank=6, random_state=seed).fit(runs).eigenvalues_
        process_errors.append(np.abs(values[:4] - DECAY ** np.arange(4)))
        runs = list(prinz(11 if quick else 201, 2000, seed))
        values = Koopman(length_scale=0.2, n_centers=100, rank=6, random_state=seed).fit(runs).eigenvalues_
        wells_errors.append(np.abs(values[:4] - PRINZ))
    one, two = np.max(process_errors, 0), np.max(wells_errors, 0)
    print(f"\nLargest errors of eigenvalues over {seeds} seeds")
    print(f"  Ornstein-Uhlenbeck: {_shown(one[1:])} (asked .012 .02 .05) | "
          f"{verdict(bool((one[1:] <= [0.012, 0.02, 0.05]).all()))}")  # fmt: skip
    print(f"  Prinz, four wells:  {_shown(two[1:])} (asked .002 .01 .01) | "
          f"{verdict(bool((two[1:] <= [0.002, 0.01, 0.01]).all()))}")  # fmt: skip
    largest = 0.0
    runs = list(prinz(101, 50, 99))
    for seed in range(3 if quick else 20):
        for m in (50, 100, 300):
            model = Koopman(length_scale=0.2, n_centers=m, rank=10, random_state=seed).fit(runs)
            largest = max(largest, float(np.abs(model.eigenvalues_).max()))
    print(
        f"  largest modulus over seeds and m = 50, 100, 300: {largest:.5f} (asked 1.002) | {verdict(largest <= 1.002)}"
    )
    return {"ornstein_uhlenbeck": one.tolist(), "prinz": two.tolist(), "largest_modulus": largest}


def _shown(values: Array) -> str:
    return " ".join(f"{value:.4f}" for value in values)


# Lorenz 1963.


def _lorenz(quick: bool) -> dict[str, Any]:
    X = lorenz(32_000 if quick else 75_000)
    found: dict[str, Any] = {"one_step": _one_step(X)}
    sizes = [1000, 2000] if quick else [1000, 2000, 4000, 10_000]
    lags = [1, 51, 201] if quick else [1, 21, 51, 101, 151, 201, 251, 301, 351, 396]
    tests = [X[start : start + 10_000] for start in range(10_000 + 400, len(X) - 10_000 + 1, 10_000)][:5]
    found["sizes"] = _by_size(X, tests, sizes, seeds=2 if quick else 5)
    found["tuned"] = _by_penalty(X[: max(sizes) + 40], tests, seeds=2 if quick else 5)
    found["lags"] = _by_lag(X[:10_000], tests, lags)
    koopman_figures.draw(found["sizes"], found["lags"])
    return found


def _one_step(X: Array) -> dict[str, Any]:
    """Standardized units, 5,000 frames, rank 25."""
    train = X[:5001]
    X = (X - train.mean(0)) / train.std(0)
    test = X[6000:16_001]
    still = float(np.sqrt(np.mean(np.square(test[1:] - test[:-1]))))
    print(f"\nLorenz, one step in standardized units: persistence {still:.4f}")
    found = {"persistence": still}
    for m, asked in ((250, 0.0441), (500, 0.0438)):
        model, seconds = timed(lambda m=m: solved(Koopman(n_centers=m, rank=25, random_state=0).fit(X[:5001])))
        error = float(np.sqrt(np.mean(np.square(model.predict(test[:-1]) - test[1:]))))
        met = verdict(error <= asked and seconds <= 0.5)
        print(f"  RRR, m = {m}: {error:.4f} (asked {asked}) in {seconds:.3f} CPU-s (asked 0.5) | {met}")
        found[str(m)] = error
    return found


def _model(method: str, rank: int, lag: int, m: int, seed: int) -> Koopman:
    rank_of = None if method == "krr" else rank
    penalty = "auto" if method == "pcr" else 1e-4
    kernel = gf.kernels.Gaussian(3.5)
    return Koopman(method, kernel=kernel, n_centers=m, rank=rank_of, penalty=penalty, lag=lag, random_state=seed)


def _first_variable(model: Koopman, tests: list[Array]) -> float:
    """The error of the first variable over its deviation, as a mean over test sets."""
    lag = model.lag
    ratios = [
        np.sqrt(np.mean(np.square(model.predict(test[:-lag])[:, 0] - test[lag:, 0]))) / test[:, 0].std()
        for test in tests
    ]
    return float(np.mean(ratios))


def _by_size(X: Array, tests: list[Array], sizes: list[int], seeds: int) -> list[dict[str, Any]]:
    """Figure 1: r = 25, lag 40, m = 250 beside all frames as centers."""
    print("\nLorenz, lag 40, rank 25, penalty 1e-4: error of the first variable and CPU-s")
    found = []
    for n in sizes:
        for method in ("pcr", "rrr", "krr"):
            for exact in (False, True):
                if exact and n > 2000:
                    continue
                errors, seconds = [], []
                for seed in range(1 if exact else seeds):
                    start = time.process_time()
                    model = solved(_model(method, 25, 40, n if exact else 250, seed).fit(X[: n + 40]))
                    seconds.append(time.process_time() - start)
                    errors.append(_first_variable(model, tests))
                row = {"n": n, "method": method, "exact": exact, "error": float(np.mean(errors))}
                row |= {"deviation": float(np.std(errors)), "seconds": float(np.median(seconds))}
                found.append(row)
                kind, shown = "exact" if exact else "m = 250", f"{row['error']:.3f} ± {row['deviation']:.3f}"
                print(f"  n = {n:6d} {method} {kind:>8}: {shown} {row['seconds']:7.3f} s")
    return found


def _by_penalty(train: Array, tests: list[Array], seeds: int) -> dict[str, float]:
    """The same, with the penalty that forecasts of left-out blocks of the training frames choose."""
    found = {}
    for method, asked in (("krr", 0.15), ("rrr", 0.31)):
        ranks = None if method == "krr" else [25]
        penalties = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3]
        errors, chosen = [], []
        for seed in range(seeds):
            model = _model(method, 25, 40, 250, seed)
            best = gf.dynamics.tune(model, train, multiples=[1.0], ranks=ranks, penalties=penalties).model.fit(train)
            errors.append(_first_variable(best, tests))
            chosen.append(f"{best.penalty:.0e}")
        found[method] = float(np.mean(errors))
        shown = f"{found[method]:.3f} ± {np.std(errors):.3f} over {seeds} sets of centers"
        print(
            f"  {method}, penalty chosen by left-out blocks ({', '.join(chosen)}): {shown} (asked {asked}) | "
            f"{verdict(found[method] <= asked)}"
        )
    return found


def _by_lag(train: Array, tests: list[Array], lags: list[int]) -> list[dict[str, Any]]:
    """Figure 2: r = 50, m = 250, and a model for each lag, all of them from one pass."""
    print("\nLorenz, rank 50, m = 250, a model for each lag from one pass: error of the first variable")
    found = []
    for method in ("pcr", "rrr", "krr"):
        start = time.process_time()
        models = gf.dynamics.fit_lags(_model(method, 50, 1, 250, 0), train, lags)
        errors = [_first_variable(solved(model), tests) for model in models]
        found.append({"method": method, "lags": lags, "errors": errors, "seconds": time.process_time() - start})
        print(
            f"  {method}: "
            + " ".join(f"{0.01 * lag:.2f} s {error:.3f}" for lag, error in zip(lags, errors, strict=True))
        )
    still = [
        float(np.mean([np.sqrt(np.mean(np.square(t[lag:, 0] - t[:-lag, 0]))) / t[:, 0].std() for t in tests]))
        for lag in lags
    ]
    print("  persistence: " + " ".join(f"{error:.3f}" for error in still))
    found.append({"method": "persistence", "lags": lags, "errors": still, "seconds": 0.0})
    return found


# Real frames.


def _alanine(quick: bool) -> dict[str, Any]:
    data = load_frames("alanine")
    if data is None:
        return {}
    lags = [5, 10, 20, 50]
    start = time.process_time()
    models = gf.dynamics.fit_lags(Koopman(n_centers=300, rank=10, random_state=0), data["X"].astype(np.float64), lags)
    scales = [float(model.timescales(count=3)[2]) for model in models]
    seconds = time.process_time() - start
    met = all(abs(scale - 20) <= 1.5 for scale in scales[:3])
    shown = ", ".join(f"{scale:.2f} ps at {lag}" for scale, lag in zip(scales, lags, strict=True))
    print(f"\nalanine, time scale of ψ: {shown} (asked 20 ± 1.5 at 5, 10, 20) in {seconds:.2f} CPU-s | {verdict(met)}")
    return {"lags": lags, "timescales": scales, "seconds": seconds}


def _race_car(quick: bool) -> dict[str, Any]:
    """Every fourth run is test; parameters are tuned on the others."""
    data = load_frames("f1tenth")
    if data is None:
        return {}
    names = np.unique(data["traj"])
    X, U = (data[key].astype(np.float64) for key in ("X", "U"))
    learn = np.isin(data["traj"], [name for place, name in enumerate(names) if place % 4 != 3])
    X = (X - X[learn].mean(0)) / X[learn].std(0)
    runs, inputs = ([part[data["traj"] == name] for name in names] for part in (X, U))
    test = slice(3, None, 4)
    rest = [place for place in range(len(names)) if place % 4 != 3]
    train, acts = [runs[place] for place in rest], [inputs[place] for place in rest]
    steps = [1, 5, 10, 20, 40]
    start = Koopman("krr", n_centers=200, random_state=0)
    penalties = [1e-8, 1e-6] if quick else [1e-9, 1e-8, 1e-7, 1e-6, 1e-5]
    search = gf.dynamics.tune(start, train, inputs=acts, penalties=penalties, horizon=[5, 20], folds=3 if quick else 5)
    errors = search.model.fit(train, inputs=acts).errors(runs[test], steps, inputs=inputs[test])
    linear = Koopman("krr", kernel="linear", penalty=1e-10)
    constant = [np.column_stack([run, np.ones(len(run))]) for run in runs]
    dmdc = {
        "DMDc": linear.fit(train, inputs=acts).errors(runs[test], steps, inputs=inputs[test]),
        "DMDc with a constant": linear.fit([constant[place] for place in rest], inputs=acts).errors(
            constant[test], steps, inputs=inputs[test]
        ),
    }
    table = {"Koopman, affine": errors.normalized, "persistence": errors.normalized_persistence}
    table |= {name: found.normalized for name, found in dmdc.items()}
    print(f"\nf1tenth, errors after {steps} steps of 25 ms, runs that were left out ({search!r})")
    for name, values in table.items():
        print(f"  {name:>20}: {_shown(values)}")
    ours = table.pop("Koopman, affine")
    met = all((ours[1:] < values[1:]).all() for values in table.values())
    print(f"  below all others at several steps | {verdict(met)}")
    return {"steps": steps, "koopman": ours.tolist()} | {name: values.tolist() for name, values in table.items()}


# Memory.


def _memory(quick: bool) -> dict[str, Any]:
    """Frames in a file, read once: what the process grows by."""
    found = {}
    print("\nMemory of a fit to a file, m = 100, lags as they come")
    for rows in (100_000, 1_000_000) if quick else (1_000_000, 10_000_000):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "runs.npy")
            _write(path, rows)
            grown, seconds, pairs = process.in_fresh_process(_fit_file, path)
        found[str(rows)] = {"bytes": grown, "seconds": seconds}
        print(f"  {rows:>11,} frames: {grown / 2**20:6.0f} MB, {seconds:6.1f} CPU-s, {pairs:,} pairs")
    grown = [row["bytes"] for row in found.values()]
    print(f"  ten times the frames: {grown[1] / grown[0]:.2f} times the memory | {verdict(grown[1] < 1.5 * grown[0])}")
    return found


def _write(path: Path, rows: int) -> None:
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, 4))  # type: ignore[no-untyped-call]
    random = np.random.default_rng(0)
    for start in range(0, rows, 100_000):
        t = 0.01 * np.arange(start, min(rows, start + 100_000))
        states = [np.sin(t), np.cos(1.3 * t), np.sin(0.7 * t)]
        noisy = [state + 0.1 * random.normal(size=len(t)) for state in states]
        out[start : start + len(t)] = np.stack([*noisy, t // 500], 1)
    out.flush()


def _fit_file(path: Path) -> tuple[int, float, int]:
    torch.set_num_threads(1)
    start = time.process_time()
    settings = Koopman(n_centers=100, rank=10, lag=10, random_state=0, memory_budget=100 << 20)
    with threadpool_limits(1):
        model, grown = process.peak_beyond(lambda: settings.fit(path, trajectory=3))
    return grown, time.process_time() - start, model.n_pairs_
