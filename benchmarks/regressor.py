"""KernelRegressor beside scikit-learn's Nystroem + Ridge, and its iterations beside the bare products they need."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import gyrfalcon as gf
from gyrfalcon.solvers import Falkon, LeastSquares, Record, solve

from . import THREADS, machine, report, synthetic
from .process import in_fresh_process, peak_beyond
from .timing import Race, race, timed

LENGTH_SCALE, PENALTY = 3.0, 1e-5
ITERATIONS = 20
SPEED_TARGET, MEMORY_TARGET, OVERHEAD_TARGET = 7.0, 1 / 6, 1.25
EQUAL = 1.002  # test errors differ by that much from one draw of the centers to the next
DTYPES = ("float64", "float32")
OURS, THEIRS = "gyrfalcon", "scikit-learn"


@dataclass(frozen=True)
class Settings:
    n: int
    n_test: int
    m: int
    rounds: int
    patience: float


FULL = Settings(n=100_000, n_test=20_000, m=2000, rounds=3, patience=150)
QUICK = Settings(n=10_000, n_test=5_000, m=500, rounds=2, patience=8)


def run(quick: bool) -> None:
    settings = QUICK if quick else FULL
    described = machine.describe()
    print(machine.headline(described), legend(settings), sep="\n")
    content: dict[str, Any] = {"settings": asdict(settings), "fit": {}, "iterations": {}}
    for dtype in DTYPES:
        content["fit"][dtype] = _compare(dtype, settings)
        report.write_json(report.FOLDER / "regressor.json", {"machine": described, **content})
    print(
        f"\n{ITERATIONS} iterations of solvers.Falkon (tolerance 0) beside as many bare gram_mv with sums in float64:"
    )
    for dtype in DTYPES:
        for intercept in (False, True):
            name = f"{dtype}, {'with' if intercept else 'without'} an intercept"
            content["iterations"][name] = compare_iterations(name, dtype, intercept, settings)
    report.write_json(report.FOLDER / "regressor.json", {"machine": described, **content})
    print(f"Written: {report.FOLDER / 'regressor.json'}")


def legend(settings: Settings) -> str:
    return (
        f"\nRegressor: n = {settings.n:,}, d = 10, a smooth function along oblique directions plus noise of deviation "
        f"0.2; Gaussian kernel, length scale {LENGTH_SCALE:g}, penalty {PENALTY:g}, m = {settings.m:,} random rows; "
        f"{THREADS} threads.\n"
        f"  {OURS}: KernelRegressor(n_centers={settings.m}), everything else by default\n"
        f"  {THEIRS}: make_pipeline(Nystroem(n_components={settings.m}, gamma=1/2σ²), Ridge(alpha=n·penalty))\n"
        f"Seconds of fit, best of interleaved rounds; memory: largest resident size during fit less that before, each "
        "in a fresh process."
    )


def model(who: str, settings: Settings, seed: int = 0) -> Any:
    if who == OURS:
        kernel = gf.kernels.Gaussian(LENGTH_SCALE)
        return gf.KernelRegressor(kernel, penalty=PENALTY, n_centers=settings.m, random_state=seed, verbose=False)
    gamma = 1 / (2 * LENGTH_SCALE**2)
    features = Nystroem(gamma=gamma, n_components=settings.m, random_state=seed)
    return make_pipeline(features, Ridge(alpha=settings.n * PENALTY))


def _compare(dtype: str, settings: Settings) -> dict[str, Any]:
    found = in_fresh_process(_race, dtype, settings)
    alone = {who: in_fresh_process(_once, who, dtype, settings) for who in (OURS, THEIRS)}
    speed = found[THEIRS] / found[OURS]
    memory = alone[OURS]["extra_bytes"] / alone[THEIRS]["extra_bytes"]
    excess = alone[OURS]["rmse"] / alone[THEIRS]["rmse"]
    print(f"\n{dtype:>14} {'fit':>9} {'test RMSE':>10} {'memory':>10}")
    for who, numbers in alone.items():
        print(f"{who:>14} {found[who]:7.2f} s {numbers['rmse']:10.5f} {numbers['extra_bytes'] / 1e6:7.0f} MB")
    print(
        f"{'':>14} {speed:.1f} times faster (asked: at least {SPEED_TARGET:g}, "
        f"{found.verdict(speed >= SPEED_TARGET)}); test error {excess:.4f} of theirs (asked: at most {EQUAL}, "
        f"{_verdict(excess <= EQUAL)}); memory 1/{1 / memory:.1f} (asked: at most 1/{1 / MEMORY_TARGET:.0f}, "
        f"{_verdict(memory <= MEMORY_TARGET)}); ours: {alone[OURS]['message']}",
        flush=True,
    )
    return {
        "seconds": {who: found[who] for who in (OURS, THEIRS)},
        "alone": alone,
        "speed": speed,
        "memory": memory,
        "rmse_ratio": excess,
        "rounds": found.rounds,
        "disturbed": found.disturbed,
    }


def _race(dtype: str, settings: Settings) -> Race:
    machine.set_threads()
    X, y, _, _ = synthetic.oblique(settings.n, settings.n_test, dtype)

    def fit(who: str) -> Any:
        return model(who, settings).fit(X, y)

    contenders = [timed(who, partial(fit, who), 1e9) for who in (OURS, THEIRS)]
    return race(contenders, settings.rounds, settings.patience)


def _once(who: str, dtype: str, settings: Settings) -> dict[str, Any]:
    machine.set_threads()
    X, y, X_test, y_test = synthetic.oblique(settings.n, settings.n_test, dtype)
    started = time.perf_counter()
    fitted, grown = peak_beyond(lambda: model(who, settings).fit(X, y))
    seconds = time.perf_counter() - started
    record = getattr(fitted, "record_", None)
    message = f"{record.solver}, {record.iterations} iterations, {record.message}" if record else ""
    error = synthetic.rmse(fitted.predict(X_test), y_test)
    return {"seconds": seconds, "extra_bytes": grown, "rmse": error, "message": message}


def compare_iterations(name: str, dtype: str, intercept: bool, settings: Settings) -> dict[str, Any]:
    found, parts = in_fresh_process(_race_iterations, dtype, intercept, settings)
    bare = ITERATIONS * found["gram_mv"] + parts["factor"] + parts["right_side"]
    ratio = found["falkon"] / bare
    print(
        f"  {name}: {found['falkon']:.3f} s, beside {ITERATIONS} × {found['gram_mv']:.4f} s + preconditioner "
        f"{parts['factor']:.3f} s + right side {parts['right_side']:.3f} s = {bare:.3f} s: ratio {ratio:.3f} (asked: "
        f"at most {OVERHEAD_TARGET}, {found.verdict(ratio <= OVERHEAD_TARGET)})",
        flush=True,
    )
    seconds = {who: found[who] for who in ("falkon", "gram_mv")}
    return {"seconds": seconds, "parts": parts, "ratio": ratio, "rounds": found.rounds, "disturbed": found.disturbed}


def _race_iterations(dtype: str, intercept: bool, settings: Settings) -> tuple[Race, dict[str, float]]:
    """The race, and the least time that each part of the solve took in any turn."""
    machine.set_threads()
    X, y, _, _ = synthetic.oblique(settings.n, settings.n_test, dtype)
    C, Y = X[: settings.m].copy(), torch.from_numpy(y[:, None])
    kernel = gf.kernels.Gaussian(LENGTH_SCALE)
    parts: dict[str, float] = {}

    def run_falkon() -> Record:
        problem = LeastSquares(gf.KernelMatrix(kernel, X, C), Y, PENALTY, intercept=intercept)
        record = solve(problem, Falkon(tolerance=0.0, max_iterations=ITERATIONS)).record
        for part, seconds in record.seconds.items():
            parts[part] = min(seconds, parts.get(part, math.inf))
        if record.iterations != ITERATIONS:
            raise AssertionError(f"falkon made {record.iterations} iterations, not {ITERATIONS}: nothing to compare")
        return record

    K = gf.KernelMatrix(kernel, X, C)
    V = torch.randn(settings.m, 1, dtype=getattr(torch, dtype))
    bare: Callable[[], Any] = lambda: [K.gram_mv(V, dtype=torch.float64) for _ in range(ITERATIONS)]  # noqa: E731
    contenders = [timed("falkon", run_falkon, 1e9), timed("gram_mv", bare, 1e9 * ITERATIONS)]
    return race(contenders, settings.rounds, settings.patience / 2), parts


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"
