"""Random features: products without storing them, fast transforms, and ridge regression, beside PyTorch and
scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import gyrfalcon as gf
from gyrfalcon.solvers import LeastSquares, solve

from . import THREADS, machine, report, synthetic
from .process import in_fresh_process, peak_beyond
from .timing import Race, race, timed

Array = np.ndarray[Any, Any]

FUSED, PLAIN, BLOCKED = "gyrfalcon", "torch", "torch, blocks"
STRUCTURED, ORTHOGONAL, SAMPLER = "structured", "orthogonal", "RBFSampler"
SOLVED, PIPELINE, THEIRS = "direct on features", "RandomFeatures + Ridge", "RBFSampler + Ridge"
BLOCK_ROWS = 1024
LENGTH_SCALE, PENALTY = 3.0, 1e-7


class Settings(NamedTuple):
    rows: int = 50_000
    features: int = 2000
    wide_rows: int = 5000
    wide_features: int = 8192
    rounds: int = 5
    patience: float = 20.0


QUICK = Settings(5000, 500, 500, 2048, 2, 5.0)


def run(quick: bool) -> None:
    settings = QUICK if quick else Settings()
    described = machine.describe()
    print(machine.headline(described))
    content = {
        "products": _products(settings),
        "transforms": _transforms(settings),
        "ridge": _ridge(settings),
    }
    report.write_json(report.FOLDER / "random_features.json", {"machine": described, **settings._asdict(), **content})


# Z(X) v.


def _products(settings: Settings) -> list[dict[str, Any]]:
    n, D = settings.rows, settings.features
    print(
        f"\nZ(X) v: n = {n:,}, D = {D:,}, {THREADS} threads; torch: cos(X Wᵀ + b) @ v, at once or {BLOCK_ROWS} rows at "
        "a time. Memory: beyond inputs and result, in a fresh process.\n"
        f"{'':>14}{'d':>5} {'':>14}{'ns/entry':>9} {'MB':>8}"
    )
    rows = []
    for dtype in ("float32", "float64"):
        for d in (10, 100):
            found = in_fresh_process(_race_products, settings, dtype, d)
            memory = {who: in_fresh_process(_memory_of_product, settings, dtype, d, who) for who in (FUSED, PLAIN)}
            for who in (FUSED, PLAIN, BLOCKED):
                size = f"{memory[who] / 1e6:8.1f}" if who in memory else f"{'':>8}"
                print(f"{dtype:>14}{d:>5} {who:>14}{found[who]:9.3f} {size}")
            print(
                f"{'':>19} {found[PLAIN] / found[FUSED]:.1f} and {found[BLOCKED] / found[FUSED]:.1f} times faster"
                f"{_note(found)}",
                flush=True,
            )
            times = {who: found[who] for who in (FUSED, PLAIN, BLOCKED)}
            rows.append({"dtype": dtype, "d": d, "ns": times, "bytes": memory, "disturbed": found.disturbed})
    return rows


def _product_calls(settings: Settings, dtype: str, d: int) -> dict[str, Callable[[], Any]]:
    random = np.random.default_rng(0)
    n, D = settings.rows, settings.features
    X, W, v = (random.standard_normal(shape).astype(dtype) for shape in ((n, d), (D, d), (D, 1)))
    b = torch.from_numpy(random.uniform(0, math.tau, D).astype(dtype))
    points, frequencies, vector = map(torch.from_numpy, (X, W, v))
    Z = gf.KernelMatrix(gf.kernels.Fourier(amplitude=D**-0.5), X, W, cache=False)

    def plain(rows: torch.Tensor = points) -> torch.Tensor:
        return math.sqrt(2 / D) * torch.cos(torch.addmm(b, rows, frequencies.T)) @ vector

    def blocked() -> torch.Tensor:
        return torch.cat([plain(rows) for rows in points.split(BLOCK_ROWS)])

    return {FUSED: lambda: Z @ v, PLAIN: plain, BLOCKED: blocked}


def _race_products(settings: Settings, dtype: str, d: int) -> Race:
    machine.set_threads()
    work = settings.rows * settings.features
    calls = _product_calls(settings, dtype, d)
    return race([timed(who, call, work) for who, call in calls.items()], settings.rounds, settings.patience)


def _memory_of_product(settings: Settings, dtype: str, d: int, who: str) -> int:
    machine.set_threads()
    result, grown = peak_beyond(_product_calls(settings, dtype, d)[who])
    return max(0, grown - int(result.nbytes))


# Z(X) itself, for many features.


def _transforms(settings: Settings) -> list[dict[str, Any]]:
    n, D = settings.wide_rows, settings.wide_features
    print(
        f"\nZ(X): n = {n:,}, D = {D:,}, float32\n{'d':>6}"
        + "".join(f"{who:>14}" for who in TRANSFORMERS)
        + "  ns/entry"
    )
    rows = []
    for d in (64, 256, 784):
        found = in_fresh_process(_race_transforms, settings, d)
        print(
            f"{d:>6}" + "".join(f"{found[who]:14.2f}" for who in TRANSFORMERS) + f"  structured is "
            f"{found[ORTHOGONAL] / found[STRUCTURED]:.1f} times faster than orthogonal, "
            f"{found[SAMPLER] / found[STRUCTURED]:.1f} times than RBFSampler{_note(found)}",
            flush=True,
        )
        rows.append({"d": d, "ns": {who: found[who] for who in TRANSFORMERS}, "disturbed": found.disturbed})
    return rows


TRANSFORMERS: dict[str, Callable[[int], Any]] = {
    STRUCTURED: lambda D: gf.RandomFeatures(n_features=D, length_scale=20.0, sampling="structured", random_state=0),
    ORTHOGONAL: lambda D: gf.RandomFeatures(n_features=D, length_scale=20.0, random_state=0),
    SAMPLER: lambda D: RBFSampler(gamma=1 / 800, n_components=D, random_state=0),
}


def _race_transforms(settings: Settings, d: int) -> Race:
    machine.set_threads()
    n, D = settings.wide_rows, settings.wide_features
    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    fitted = {who: make(D).fit(X) for who, make in TRANSFORMERS.items()}
    contenders = [timed(who, partial(model.transform, X), n * D) for who, model in fitted.items()]
    return race(contenders, settings.rounds, settings.patience)


# Ridge regression.


def _ridge(settings: Settings) -> dict[str, Any]:
    print(
        f"\nRidge regression: n = {settings.rows:,}, d = 10, D = {settings.features:,}, float32, noise 0.2\n"
        f"{'':>24} {'fit s':>8} {'test RMSE':>10} {'MB':>8}"
    )
    found = in_fresh_process(_race_ridge, settings)
    alone = {who: in_fresh_process(_fit_once, settings, who) for who in (SOLVED, PIPELINE, THEIRS)}
    for who, (error, grown) in alone.items():
        print(f"{who:>24} {found[who]:8.2f} {error:10.4f} {grown / 1e6:8.0f}")
    print(
        f"{'':>24} {SOLVED} takes {found[SOLVED] / found[THEIRS]:.1f} of the time of {THEIRS} and "
        f"{alone[SOLVED][1] / alone[THEIRS][1]:.2f} of its memory{_note(found)}"
    )
    return {
        "seconds": {who: found[who] for who in alone},
        "rmse": {who: error for who, (error, _) in alone.items()},
        "bytes": {who: grown for who, (_, grown) in alone.items()},
        "disturbed": found.disturbed,
    }


def _fits(settings: Settings) -> tuple[dict[str, Callable[[], Callable[[Array], Array]]], synthetic.Split]:
    """What fits a model and returns its predictions, by name, and the data."""
    data = synthetic.oblique(settings.rows, 10_000, np.float32)
    n, D = settings.rows, settings.features
    ours = gf.RandomFeatures(n_features=D, length_scale=LENGTH_SCALE, random_state=0)
    theirs = RBFSampler(gamma=1 / (2 * LENGTH_SCALE**2), n_components=D, random_state=0)

    def solved() -> Callable[[Array], Array]:
        features = ours.fit(data.X)
        targets = torch.from_numpy(data.y[:, None])
        solution = solve(LeastSquares(features.matrix(data.X), targets, PENALTY, intercept=True), "direct")
        beta, b = solution.coefficients.numpy().astype(np.float32), solution.intercept.numpy()
        return lambda X: features.matrix(X) @ beta + b

    def pipeline(transformer: Any) -> Callable[[Array], Array]:
        fitted = make_pipeline(transformer, Ridge(n * PENALTY)).fit(data.X, data.y)
        return lambda X: fitted.predict(X)

    calls = {SOLVED: solved, PIPELINE: partial(pipeline, ours), THEIRS: partial(pipeline, theirs)}
    return calls, data


def _race_ridge(settings: Settings) -> Race:
    machine.set_threads()
    calls, _ = _fits(settings)
    return race([timed(who, call, 1e9) for who, call in calls.items()], 2, settings.patience)


def _fit_once(settings: Settings, who: str) -> tuple[float, int]:
    machine.set_threads()
    calls, data = _fits(settings)
    predict, grown = peak_beyond(calls[who])
    return synthetic.rmse(predict(data.X_test), data.y_test), grown


def _note(found: Race) -> str:
    return "; disturbed by other work" if found.disturbed else ""
