"""Falkon's two triangles for more centers than memory holds: each phase, its memory, and its speed beside LAPACK."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
from scipy.linalg import lapack

import gyrfalcon as gf
from gyrfalcon.linalg.cg import conjugate_gradients
from gyrfalcon.linalg.square import OnDisk, Square
from gyrfalcon.linalg.triangles import TrianglePair

from . import THREADS, machine, report
from .process import in_fresh_process, peak, peak_beyond
from .timing import Others

R = TypeVar("R")

FEATURES, LENGTH_SCALE, PENALTY, JITTER = 10, 3.0, 1e-6, 1e-8
ITERATIONS = 3


@dataclass(frozen=True)
class Case:
    centers: int
    rows: int
    budget: int
    lapack_centers: int


CASES = {
    "quick": Case(2000, 4000, 8_000_000, 1000),
    "half": Case(20_000, 30_000, 500_000_000, 10_000),
    "full": Case(40_000, 60_000, 2_000_000_000, 10_000),
}
HEADER = f"{'phase':>28} {'seconds':>9} {'GFLOP/s':>8} {'of LAPACK':>10} {'grown by':>10} {'others':>8}"


@dataclass(frozen=True)
class Phase:
    """One step: by how many bytes the process grew at its largest moment, how many it then had, libraries and data
    included, and the CPU seconds that others took in each second."""

    name: str
    seconds: float
    flops: float
    grown: int
    resident: int
    others: float

    def line(self, rates: dict[str, float]) -> str:
        rate = self.flops / self.seconds / 1e9
        speed = f"{rate:8.1f} {rate / rates[self.name]:10.2f}" if self.name in rates else f"{'':8} {'':10}"
        return f"{self.name:>28} {self.seconds:9.2f} {speed} {self.grown / 1e6:7.0f} MB {self.others:8.2f}"


def run(name: str) -> None:
    case = CASES[name]
    m, size = case.centers, 8 * case.centers**2
    print(
        f"\nTrianglePair for m = {m:,} in float64, {size / 1e9:.3g} GB, in a file under a budget of "
        f"{case.budget / 1e9:.3g} GB; {THREADS} threads, one run each.\n"
        f"  grown by: the largest resident size in the phase, mapped pages included, less that before it\n"
        f"  of LAPACK: GFLOP/s, counting m³/3, over those of the same routine in memory at m = "
        f"{case.lapack_centers:,}, before the run and after; others: CPU seconds they took in each second\n"
        f"{HEADER}",
        flush=True,
    )
    before = in_fresh_process(_lapack, case.lapack_centers)
    phases = in_fresh_process(_pair, case, before)
    after = in_fresh_process(_lapack, case.lapack_centers)
    grown, resident = (max(getattr(phase, name) for phase in phases) for name in ("grown", "resident"))
    rate = min(min(before[key], after[key]) for key in before), max(max(before[key], after[key]) for key in before)
    met = "met" if grown <= case.budget else "MISSED"
    print(
        f"LAPACK at m = {case.lapack_centers:,}: {rate[0]:.0f} to {rate[1]:.0f} GFLOP/s\n"
        f"largest growth in a phase {grown / 1e6:.0f} MB (asked: within {case.budget / 1e6:.0f} MB, {met}); "
        f"with libraries and data the process had {resident / 1e6:.0f} MB"
    )
    content = {"case": asdict(case), "phases": [asdict(phase) for phase in phases]}
    content |= {"lapack_gflops": {"before": before, "after": after}}
    report.write_json(report.FOLDER / f"mapped_pair_{name}.json", {"machine": machine.describe(), **content})


def _lapack(m: int) -> dict[str, float]:
    """GFLOP/s of each routine in memory."""
    machine.set_threads()
    calls: dict[str, Callable[[np.ndarray], Any]] = {
        "Cholesky of k(C, C)": lambda matrix: lapack.dpotrf(matrix, lower=0, overwrite_a=1, clean=0),
        "LAUUM": lambda matrix: lapack.dlauum(matrix, lower=1, overwrite_c=1),
        "Cholesky of A": lambda matrix: lapack.dpotrf(matrix, lower=1, overwrite_a=1, clean=0),
    }
    rates = {}
    for name, call in calls.items():
        matrix = np.asfortranarray(np.random.default_rng(0).uniform(-1, 1, size=(m, m)))
        np.fill_diagonal(matrix, 2 * np.sqrt(m))
        start = time.perf_counter()
        _, failed = call(matrix)
        rates[name] = m**3 / 3 / (time.perf_counter() - start) / 1e9
        assert failed == 0
    return rates


class _Clock:
    """Runs phases, prints a line after each, and keeps them."""

    def __init__(self, rates: dict[str, float]):
        self.phases: list[Phase] = []
        self._rates = rates

    def __call__(self, name: str, call: Callable[[], R], flops: float = 0.0) -> R:
        others, start = Others(), time.perf_counter()
        result, grown = peak_beyond(call)
        seconds = time.perf_counter() - start
        self.phases.append(Phase(name, seconds, flops, grown, peak(), others.taken() / seconds))
        print(self.phases[-1].line(self._rates), flush=True)
        return result


class _Timed(OnDisk):
    """A square that times each of its parts in making a pair."""

    clock: _Clock

    def mirror(self, *, from_lower: bool) -> None:
        self.clock("mirror", lambda: super(_Timed, self).mirror(from_lower=from_lower))

    def change_lower(self, change: Any) -> None:
        self.clock("scale", lambda: super(_Timed, self).change_lower(change))

    def factor(self, *, lower: bool) -> bool:
        name = "Cholesky of A" if lower else "Cholesky of k(C, C)"
        return self.clock(name, lambda: super(_Timed, self).factor(lower=lower), len(self) ** 3 / 3)

    def square_lower(self) -> None:
        self.clock("LAUUM", super().square_lower, len(self) ** 3 / 3)


def _pair(case: Case, rates: dict[str, float]) -> list[Phase]:
    machine.set_threads()
    clock, random = _Clock(rates), np.random.default_rng(0)
    X = random.standard_normal((case.rows, FEATURES))
    Y = np.sin(X.sum(1, keepdims=True))
    C, kernel = X[: case.centers], gf.kernels.Gaussian(LENGTH_SCALE)
    between = gf.KernelMatrix(kernel, C, memory_budget=case.budget // 8, cache=False)
    made = clock(
        "fill with k(C, C)",
        lambda: Square.fitting(
            case.centers,
            lambda start, stop: between.wide_block(slice(start, stop)).T,
            memory_budget=case.budget,
        ),
    )
    assert isinstance(made, OnDisk)
    square = _Timed(made.array, memory_budget=case.budget)
    square.clock = clock
    pair = TrianglePair(square, PENALTY, JITTER)
    v = random.standard_normal((case.centers, 1))
    for turn in ("first", "second"):
        inner, outer = clock(f"both solves, {turn} time", lambda: pair.solve_both(v))
        clock(f"transposed, {turn} time", lambda inner=inner, outer=outer: pair.solve_both_transposed(outer, inner))
    _check(pair, between, v)
    _iterate(case, gf.KernelMatrix(kernel, X, C, memory_budget=case.budget // 8, cache=False), Y, pair, clock)
    return clock.phases


def _check(pair: TrianglePair, between: gf.KernelMatrix, v: np.ndarray) -> None:
    """TᵀT v beside k(C, C) v, with Tᵀ undone: T⁻ᵀ(k(C, C) + jitter) v must be T v."""
    left = pair.solve_t_transposed(between @ v + pair.jitter * v)
    right = pair.multiply_t(v)
    print(f"{'T⁻ᵀk(C, C)v is Tv to':>28} {np.abs(left - right).max() / np.abs(right).max():9.1e}")


def _iterate(case: Case, K: gf.KernelMatrix, Y: np.ndarray, pair: TrianglePair, clock: _Clock) -> None:
    """A few iterations of Falkon, as its solver makes them."""

    def operator(gamma: np.ndarray) -> np.ndarray:
        inner, beta = pair.solve_both(gamma)
        return pair.solve_both_transposed(np.asarray(K.gram_mv(beta)) / case.rows, PENALTY * inner)

    right = pair.solve_both_transposed(np.asarray(K.T @ Y) / case.rows)
    found = clock(
        f"{ITERATIONS} iterations, n = {case.rows:,}",
        lambda: conjugate_gradients(
            operator,
            right,
            tolerance=0.0,
            max_iterations=ITERATIONS,
            values_at_zero=np.array([float(np.mean(Y**2))]),
        ),
    )
    print(f"{'objective':>28} {' '.join(f'{value:.4g}' for value in found.values.sum(1))}")
