"""Exact leaves beside more centers: which settings of a partition predict best for the CPU time they take.

Everything is cross-validated on training rows: of the tables that are for choosing constants, from the folder in
$GYRFALCON_DATA, and of synthetic functions. Kernel and noise come from a small grid, once for each table, and are the
same for all contenders.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from gyrfalcon import KernelMatrix, Partition, kernels
from gyrfalcon.arrays import as_numpy
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.partition import fit_partition
from gyrfalcon.partition.directions import Direction, generic_direction, leading_direction
from gyrfalcon.solvers import Direct, LeastSquares, solve

from . import machine

Array = np.ndarray[Any, Any]
Function = Callable[[Array], Array]
Fit = Callable[[Kernel, float, Array, Array], Function]

TABLES = ("landsat", "spambase", "uci_sml", "uci_skillcraft", "campaign")
SYNTHETIC = ("waves", "steps", "ridges")
QUICK = ("landsat", "steps")
FOLDS, MOST_ROWS, SYNTHETIC_ROWS = 2, 9000, 9000
TUNING_ROWS = 1500
SCALES, NOISES = (0.25, 0.5, 1.0, 2.0, 4.0), (1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0)
CENTERS = (250, 500, 1000, 1500, 2000)


def widest_feature(rows: Any, coordinates: Array) -> Array:
    """The feature that varies most, in length scales."""
    along = np.zeros(rows.shape[1])
    along[int(np.argmax(rows.var(0) * coordinates**2))] = 1.0
    return along


@dataclass(frozen=True)
class Local:
    """A partition with settings and a direction to split along."""

    leaf_rows: int
    overlap: float
    centers: int
    direction: Direction = leading_direction

    @property
    def name(self) -> str:
        along = "" if self.direction is leading_direction else f", {self.direction.__name__}"
        return f"leaf_rows={self.leaf_rows}, overlap={self.overlap:g}, centers={self.centers}{along}"

    def __call__(self, kernel: Kernel, noise: float, X: Array, Y: Array) -> Function:
        base = Global(self.centers)(kernel, noise, X, Y) if self.centers else None
        settings = Partition(self.leaf_rows, self.overlap)
        return fit_partition(
            kernel, X, Y, noise, settings, base=base, intercept=base is None, direction=self.direction
        ).predict


@dataclass(frozen=True)
class Global:
    """A Nyström model with so many centers."""

    centers: int

    @property
    def name(self) -> str:
        return f"{self.centers} centers"

    def __call__(self, kernel: Kernel, noise: float, X: Array, Y: Array) -> Function:
        C = X[np.random.default_rng(1).permutation(len(X))[: self.centers]]
        problem = LeastSquares(KernelMatrix(kernel, X, C), torch.from_numpy(Y), noise / len(X), None, True)
        found = solve(problem, Direct())
        return Predictor(kernel, C, as_numpy(found.coefficients), as_numpy(found.intercept))


LOCAL = (
    *(Local(rows, 0.1, 500) for rows in (500, 1000, 2000, 4000)),
    *(Local(1000, overlap, 500) for overlap in (0.0, 0.02, 0.05, 0.2)),
    *(Local(1000, 0.1, centers) for centers in (0, 250, 1000)),
    *(Local(2000, 0.1, centers) for centers in (0, 250)),
    *(Local(2000, overlap, 500) for overlap in (0.05, 0.2)),
    Local(1000, 0.1, 500, generic_direction),
    Local(1000, 0.1, 500, widest_feature),
)


@dataclass
class Result:
    """Root mean squared errors and CPU seconds of a fit, by contender."""

    data: str
    rows: int
    errors: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def run(quick: bool) -> None:
    print(machine.headline(machine.describe()))
    print(f"{FOLDS}-fold errors over those of the Nyström model that takes as much CPU time or the next more")
    results = []
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for name in QUICK if quick else TABLES + SYNTHETIC:
            found = _rows(name)
            if found is None:
                print(f"\n{name}: left out, it is not in $GYRFALCON_DATA")
                continue
            for family in ("ProductLaplacian", "Matern"):
                results.append(_measure(name, family, *found))
                print(_lines(results[-1]), flush=True)
    print(summary(results))


def _rows(name: str) -> tuple[Array, Array] | None:
    """Training rows, standardized."""
    if name in SYNTHETIC:
        X, y = _synthetic(name)
    else:
        path = Path(os.environ.get("GYRFALCON_DATA", ""), name, "data.npz")
        if not path.exists():
            return None
        with np.load(path) as file:
            X, y = file["X"].astype(np.float64), file["y"].astype(np.float64).ravel()
            train = np.random.default_rng(0).random(len(y)) < 0.8
            if "test_mask" in file.files:
                train = ~file["test_mask"][:, 0].astype(bool)
        X, y = X[train], y[train]
    kept = np.random.default_rng(1).permutation(len(y))[:MOST_ROWS]
    X, y = X[kept], y[kept]
    return (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0), (y - y.mean()) / y.std()


def _synthetic(name: str) -> tuple[Array, Array]:
    random = np.random.default_rng(2)
    features = {"waves": 4, "steps": 10, "ridges": 20}[name]
    X = random.uniform(-1, 1, (SYNTHETIC_ROWS, features))
    if name == "waves":
        f = np.sin(6 * (X[:, 0] + X[:, 1])) + np.sin(6 * (X[:, 2] - X[:, 3]))
    elif name == "steps":
        f = np.sign(X[:, 0] * X[:, 1]) + np.sign(X[:, 2]) + X[:, 3]
    else:
        f = np.sin(np.pi * X[:, 0] * X[:, 1]) + 2 * X[:, 2] ** 2 + X[:, 3] + X[:, 4] / 2
    return X, f / f.std() + 0.2 * random.normal(size=len(f))


def _measure(name: str, family: str, X: Array, y: Array) -> Result:
    kernel, noise = _tuned(family, X, y)
    fold = np.random.default_rng(3).integers(0, FOLDS, len(y))
    rows = len(y) * (FOLDS - 1) // FOLDS
    result = Result(f"{name}, {family}", rows)
    contenders: list[Global | Local] = [Global(count) for count in CENTERS if count <= rows]
    contenders += [local for local in LOCAL if local.leaf_rows < rows]
    for fit in contenders:
        squares, seconds = [], []
        for held in range(FOLDS):
            train, test = fold != held, fold == held
            started = time.thread_time()
            predict = fit(kernel, noise, X[train], y[train, None])
            seconds.append(time.thread_time() - started)
            squares.append(float(np.mean((predict(X[test])[:, 0] - y[test]) ** 2)))
        result.errors[fit.name] = math.sqrt(statistics.fmean(squares))
        result.seconds[fit.name] = statistics.fmean(seconds)
    return result


def _tuned(family: str, X: Array, y: Array) -> tuple[Kernel, float]:
    """The length scale and the noise that predict a third of some rows best from the others."""
    rows = np.random.default_rng(4).permutation(len(y))[:TUNING_ROWS]
    train, test = rows[: 2 * len(rows) // 3], rows[2 * len(rows) // 3 :]
    tried = []
    for scale in SCALES:
        unit = X.shape[1] if family == "ProductLaplacian" else math.sqrt(X.shape[1])
        kernel = getattr(kernels, family)(scale * unit)
        values, vectors = np.linalg.eigh(kernel(X[train]))
        mean = y[train].mean()
        sides, new = vectors.T @ (y[train] - mean), kernel(X[test], X[train]) @ vectors
        for noise in NOISES:
            gap = new @ (sides / (values + noise)) + mean - y[test]
            tried.append((float(np.mean(gap**2)), len(tried), kernel, noise))
    return min(tried)[2:]


def _as_dear(result: Result, name: str) -> str:
    """The Nyström model of the least centers that takes at least the time of a contender, or the largest."""
    models = [model for model in result.errors if model.endswith(" centers")]
    dearer = [model for model in models if result.seconds[model] >= result.seconds[name]]
    return dearer[0] if dearer else models[-1]


def _lines(result: Result) -> str:
    lines = [f"\n{result.data}, {result.rows:,} rows"]
    for name, error in result.errors.items():
        other = _as_dear(result, name)
        ratio = "" if name == other else f"  ratio {error / result.errors[other]:.3f} to {other}"
        lines.append(f"  {name:<62} error {error:.4f}  {result.seconds[name]:6.2f} CPU-s{ratio}")
    return "\n".join(lines)


def summary(results: Sequence[Result]) -> str:
    """Geometric means over the data that all settings of one size were tried on."""
    lines = [
        "\nGeometric means over the data: error ratio at equal CPU time, error ratio to 1500 centers, time ratio to it"
    ]
    for local in LOCAL:
        shared = [result for result in results if local.name in result.errors and "1500 centers" in result.errors]
        if not shared:
            continue
        equal = [r.errors[local.name] / r.errors[_as_dear(r, local.name)] for r in shared]
        fixed = [r.errors[local.name] / r.errors["1500 centers"] for r in shared]
        spent = [r.seconds[local.name] / r.seconds["1500 centers"] for r in shared]
        means = "  ".join(f"{statistics.geometric_mean(values):.3f}" for values in (equal, fixed, spent))
        better = sum(value < 1 for value in equal)
        lines.append(f"  {local.name:<62} {means}  better on {better} of {len(shared)}")
    return "\n".join(lines)
