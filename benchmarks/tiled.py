"""Cholesky and LAUUM of a matrix in a file, by tiles in a quarter of its size, beside LAPACK in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import lapack

from gyrfalcon.linalg.strips import tiled_solve
from gyrfalcon.linalg.tiled import tiled_cholesky, tiled_lauum

from . import THREADS, machine, report
from .process import in_fresh_process, peak_beyond
from .timing import Race, race, timed

FULL, QUICK = (5000, 10_000, 20_000), (1000, 2000)
SHARE = 4  # the matrix is that many times as large as the budget
TARGET = 0.6
RIGHT_SIDES = 4
OPERATIONS = ("cholesky", "lauum")
HEADER = f"{'m':>7} {'operation':>10} {'LAPACK':>8} {'tiled':>8} {'ratio':>6} {'budget':>8} {'peak':>8}   asked"


@dataclass(frozen=True)
class Row:
    size: int
    operation: str
    lapack_gflops: float
    tiled_gflops: float
    ratio: float
    budget: int
    peak: int
    error: float
    disturbed: bool

    def line(self) -> str:
        fast = "not judged: disturbed" if self.disturbed else "met" if self.ratio >= TARGET else "MISSED"
        small = "met" if self.peak <= self.budget else "MISSED"
        return (
            f"{self.size:>7,} {self.operation:>10} {self.lapack_gflops:8.1f} {self.tiled_gflops:8.1f} "
            f"{self.ratio:6.2f} {self.budget / 1e6:5.0f} MB {self.peak / 1e6:5.0f} MB   "
            f"speed {fast}, memory {small}, differs by {self.error:.0e}"
        )


def run(quick: bool) -> None:
    print(
        f"\nTiled: float32, {THREADS} threads, GFLOP/s counting m³/3, one run each.\n"
        f"  tiled: in place on a memory map, with a budget of 1/{SHARE} of the file; peak: growth of the process in "
        f"the call, mapped pages included\n  LAPACK: SciPy's, in place on an array in memory\n"
        f"Asked: at least {TARGET} of LAPACK's speed, peak within the budget.\n"
        f"{HEADER}"
    )
    rows: list[Row] = []
    solves = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrix"
        for size in QUICK if quick else FULL:
            budget = 4 * size**2 // SHARE
            for operation in OPERATIONS:
                rows.append(_row(path, size, operation, budget))
                print(rows[-1].line(), flush=True)
            seconds, peak = in_fresh_process(_solve, path, size, budget)
            solves.append({"size": size, "seconds": seconds, "peak": peak})
            print(
                f"{size:>7,} {'solve':>10} {RIGHT_SIDES} right-hand sides: {seconds:.2f} s, "
                f"{2 * size**2 / seconds / 1e9:.1f} GB/s of the triangle; peak {peak / 1e6:.0f} MB"
            )
    content = {"rows": [asdict(row) for row in rows], "solves": solves, "target": TARGET}
    report.write_json(report.FOLDER / "tiled.json", {"machine": machine.describe(), **content})


def _row(path: Path, size: int, operation: str, budget: int) -> Row:
    ours, peak = in_fresh_process(_tiled, path, size, operation, budget)
    theirs, error = in_fresh_process(_lapack, path, size, operation)
    speeds = [size**3 / 3 / found[operation] for found in (theirs, ours)]
    return Row(
        size, operation, *speeds, speeds[1] / speeds[0], budget, peak, error, any((ours.disturbed, theirs.disturbed))
    )


def _fill(matrix: np.ndarray) -> None:
    """Its lower triangle is that of a positive definite matrix: eigenvalues of the noise are within ±√(4m/3)."""
    random = np.random.default_rng(0)
    for row in matrix:
        random.random(dtype=np.float32, out=row)
        row *= 2
        row -= 1
    matrix.flat[:: len(matrix) + 1] = 2 * np.sqrt(len(matrix))


def _once(name: str, call: Callable[[], object]) -> Race:
    return race([timed(name, call, 1, least=0)], rounds=1, patience=0)


def _tiled(path: Path, size: int, operation: str, budget: int) -> tuple[Race, int]:
    machine.set_threads()
    matrix = np.memmap(path, np.float32, "w+", shape=(size, size))
    _fill(matrix)
    del matrix  # and with it the pages that filling left in this process
    matrix = np.memmap(path, np.float32, "r+", shape=(size, size))
    function = {"cholesky": tiled_cholesky, "lauum": tiled_lauum}[operation]
    return peak_beyond(lambda: _once(operation, lambda: function(matrix, memory_budget=budget)))


def _lapack(path: Path, size: int, operation: str) -> tuple[Race, float]:
    """The time, and by how much the file's triangle differs, relative to the largest entry."""
    machine.set_threads()
    matrix = np.empty((size, size), dtype=np.float32)
    _fill(matrix)
    transposed: Any = matrix.T  # its upper triangle, in the order of LAPACK
    calls: dict[str, Callable[[], Any]] = {
        "cholesky": lambda: lapack.spotrf(transposed, lower=0, overwrite_a=1, clean=0),
        "lauum": lambda: lapack.slauum(transposed, lower=0, overwrite_c=1),
    }
    found = _once(operation, calls[operation])
    tiled = np.memmap(path, np.float32, "r", shape=(size, size))
    differences = (np.abs(tiled[row, : row + 1] - matrix[row, : row + 1]).max() for row in range(size))
    largest = max(np.abs(matrix[row, : row + 1]).max() for row in range(size))
    return found, float(max(differences) / largest)


def _solve(path: Path, size: int, budget: int) -> tuple[float, int]:
    machine.set_threads()
    matrix = np.memmap(path, np.float32, "r", shape=(size, size))
    right = np.ones((size, RIGHT_SIDES), dtype=np.float32)
    found, peak = peak_beyond(lambda: _once("solve", lambda: tiled_solve(matrix, right, memory_budget=budget)))
    return found["solve"] / 1e9, peak
