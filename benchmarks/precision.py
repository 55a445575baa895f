"""Float32 speed, float64 answer: test error and time of Falkon in float32, beside float64 and a plain float32 run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh

import gyrfalcon as gf
from gyrfalcon.solvers import Falkon, LeastSquares, Solution, solve

from . import THREADS, machine, report, synthetic
from .plain_falkon import plain_falkon
from .timing import race, timed

Array = np.ndarray[Any, Any]

LENGTH_SCALES = (0.5, 1.0)  # k(C, C) is singular in float32 with either; with the second, in float64 nearly so
ITERATIONS = (20, 50, 100)
TIMED_ITERATIONS, TIMED_PENALTY = 20, 1e-6
ERROR_TARGET, TIME_TARGET = 1.01, 1.3


@dataclass(frozen=True)
class Settings:
    n: int
    n_test: int
    m: int
    penalties: tuple[float, ...]
    rounds: int
    patience: float


FULL = Settings(n=20_000, n_test=10_000, m=1000, penalties=tuple(10.0**-k for k in range(2, 10)), rounds=7, patience=60)
QUICK = Settings(n=4_000, n_test=2_000, m=300, penalties=(1e-3, 1e-6, 1e-9), rounds=3, patience=6)


@dataclass(frozen=True)
class Row:
    """Test RMSE for one penalty; the lists go with ITERATIONS."""

    length_scale: float
    penalty: float
    dense: float
    float32: list[float]
    plain_float32: list[float]
    float64: list[float]
    default_float32: float  # as a user gets it
    default_iterations: int

    def ratio(self, who: str, place: int) -> float:
        return float(getattr(self, who)[place] / self.dense)


class Task:
    """The problem in both types, and its dense solution."""

    def __init__(self, settings: Settings, length_scale: float):
        self.kernel = gf.kernels.Gaussian(length_scale)
        self.length_scale = length_scale
        self.split = synthetic.three_dimensional(settings.n, settings.n_test)
        self.m, self.penalties = settings.m, settings.penalties

    def points(self, dtype: Any) -> tuple[Array, Array, Array, Array]:
        """X, C, y and X_test."""
        X, y, X_test, _ = (part.astype(dtype) for part in self.split)
        return X, X[: self.m].copy(), y, X_test

    @cached_property
    def _spectrum(self) -> tuple[Array, Array, Array]:
        """Features of test points, eigenvalues and targets in a basis where every penalty is a diagonal.

        Whitened by the eigenvectors of k(C, C) the penalty becomes the identity, and the eigenvectors of what then is
        the covariance serve all penalties. Directions below the rounding of k(C, C) are left out: far below 1e-9.
        """
        X, C, y, X_test = self.points(np.float64)
        values, vectors = eigh(gf.KernelMatrix(self.kernel, C).to_dense())
        kept = values > len(C) * np.finfo(float).eps * values[-1]
        whiten = vectors[:, kept] / np.sqrt(values[kept])
        features = gf.KernelMatrix(self.kernel, X, C).to_dense() @ whiten
        spectrum, basis = eigh(features.T @ features / len(X))
        test = gf.KernelMatrix(self.kernel, X_test, C).to_dense() @ (whiten @ basis)
        return test, spectrum, basis.T @ (features.T @ y / len(X))

    def dense(self, penalty: float) -> float:
        """Test RMSE of the dense float64 Nyström solution."""
        test, spectrum, targets = self._spectrum
        return synthetic.rmse(test @ (targets / (np.maximum(spectrum, 0) + penalty)), self.split.y_test)

    def rmse(self, coefficients: Array, dtype: Any) -> float:
        """Test RMSE of predictions made in a type."""
        _, C, _, X_test = self.points(dtype)
        return synthetic.rmse(gf.KernelMatrix(self.kernel, X_test, C) @ coefficients.astype(dtype), self.split.y_test)


def run(quick: bool) -> None:
    settings = QUICK if quick else FULL
    described = machine.describe()
    print(machine.headline(described), legend(settings), sep="\n")
    rows: list[Row] = []
    for length_scale in LENGTH_SCALES:
        task = Task(settings, length_scale)
        print(header(task))
        for row in measure(task):
            rows.append(row)
            print(line(row), flush=True)
    worst = {count: max(row.ratio("float32", place) for row in rows) for place, count in enumerate(ITERATIONS)}
    default = max(row.default_float32 / row.dense for row in rows)
    print("\nWorst ratio of float32 to the dense float64 solution over all penalties and length scales:")
    for name, ratio in [*((f"{count} iterations", worst[count]) for count in ITERATIONS), ("default", default)]:
        verdict = "met" if ratio <= ERROR_TARGET else "MISSED"
        print(f"  {name:>14}: {ratio:.4f} (asked: at most {ERROR_TARGET}, {verdict})")
    content = {"settings": asdict(settings), "rows": [asdict(row) for row in rows], "worst": worst, "default": default}
    times = measure_time(Task(settings, LENGTH_SCALES[0]), settings)
    report.write_json(report.FOLDER / "precision.json", {"machine": described, **content, "time": times})


def measure(task: Task) -> Iterator[Row]:
    for penalty in task.penalties:
        X, C, y, _ = task.points(np.float32)
        plain = plain_falkon(task.kernel, X, C, y, penalty, ITERATIONS)
        usual = gf.KernelRegressor(task.kernel, centers=C, penalty=penalty, fit_intercept=False, solver="falkon")
        usual.fit(X, y)
        yield Row(
            length_scale=task.length_scale,
            penalty=penalty,
            dense=task.dense(penalty),
            float32=_errors(task, penalty, np.float32),
            plain_float32=[task.rmse(plain[count][:, 0], np.float32) for count in ITERATIONS],
            float64=_errors(task, penalty, np.float64),
            default_float32=synthetic.rmse(usual.predict(task.points(np.float32)[3]), task.split[3]),
            default_iterations=usual.n_iter_,
        )


def _errors(task: Task, penalty: float, dtype: Any) -> list[float]:
    """As a user gets them, predictions included."""
    X, C, y, X_test = task.points(dtype)
    return [
        synthetic.rmse(
            gf.KernelRegressor(
                task.kernel,
                centers=C,
                penalty=penalty,
                fit_intercept=False,
                solver=Falkon(tolerance=0.0, max_iterations=count),
            )
            .fit(X, y)
            .predict(X_test),
            task.split[3],
        )
        for count in ITERATIONS
    ]


def measure_time(task: Task, settings: Settings) -> dict[str, Any]:
    """Whole fits, from points to coefficients."""
    X, C, y, _ = task.points(np.float32)

    def ours() -> Solution:
        K = gf.KernelMatrix(task.kernel, X, C)
        problem = LeastSquares(K, torch.from_numpy(y[:, None]), TIMED_PENALTY)
        return solve(problem, Falkon(tolerance=0.0, max_iterations=TIMED_ITERATIONS))

    def plain() -> dict[int, Array]:
        return plain_falkon(task.kernel, X, C, y, TIMED_PENALTY, (TIMED_ITERATIONS,))

    iterations = ours().record.iterations
    found = race([timed("ours", ours, 1e9), timed("plain", plain, 1e9)], settings.rounds, settings.patience)
    ratio = found["ours"] / found["plain"]
    print(
        f"\nTime of a float32 fit of {iterations} iterations, penalty {TIMED_PENALTY:g}, best of {found.rounds} "
        f"interleaved rounds: ours {found['ours']:.3f} s, plain float32 {found['plain']:.3f} s, ratio {ratio:.2f} "
        f"(asked: at most {TIME_TARGET}, {found.verdict(ratio <= TIME_TARGET)})"
    )
    seconds = {name: found[name] for name in ("ours", "plain")}
    return {"seconds": seconds, "ratio": ratio, "rounds": found.rounds, "disturbed": found.disturbed}


def legend(settings: Settings) -> str:
    return (
        f"\nPrecision: a smooth function of 3 features plus noise, n = {settings.n:,}, m = {settings.m:,}, "
        f"{settings.n_test:,} test points, Gaussian kernel, {THREADS} threads.\n"
        "dense: test RMSE of the dense float64 Nyström solution; then the test RMSE of each run over that, after "
        f"{', '.join(map(str, ITERATIONS))} iterations (tolerance 0).\n"
        "ours: KernelRegressor(solver='falkon'); plain: the same algorithm with every sum, triangle and iterate in "
        "float32, jitter 1e-5·m left in; default: ours on float32 data with the default tolerance, and the "
        "iterations it took."
    )


def header(task: Task) -> str:
    groups = "".join(f" | {name:^23}" for name in ("float32, ours", "float32, plain", "float64, ours"))
    counts = "".join(" | " + " ".join(f"{count:>7}" for count in ITERATIONS) for _ in range(3))
    return f"\n{task.kernel!r}\n{'':8} {'':8}{groups} | default\n{'penalty':>8} {'dense':>8}{counts} |"


def line(row: Row) -> str:
    places = range(len(ITERATIONS))
    ratios = "".join(
        " | " + " ".join(f"{row.ratio(who, place):7.4f}" for place in places)
        for who in ("float32", "plain_float32", "float64")
    )
    default = f"{row.default_float32 / row.dense:7.4f} ({row.default_iterations})"
    return f"{row.penalty:8.0e} {row.dense:8.5f}{ratios} | {default}"
