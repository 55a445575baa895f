"""Sparse points with many features, beside what SciPy alone would take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

import gyrfalcon as gf

from . import THREADS, machine, report
from .process import in_fresh_process, peak_beyond
from .timing import Race, race, timed

ROWS, FEATURES, NONZEROS, CENTERS = 100_000, 1_000_000, 50, 1000
MANY_FEATURES = 100_000_000
BLOCKS = (128, 512, 2048)
TARGET = 2.0


def run() -> None:
    print(
        f"\nSparse: n = {ROWS:,}, d = {FEATURES:,}, {NONZEROS} non-zeros a row, m = {CENTERS} (rows of X), float32, "
        f"{THREADS} threads where a library has them; interleaved rounds.\n"
        f"  gyrfalcon: KernelMatrix(Gaussian, X, C, cache=False) @ v, construction included\n"
        f"  SciPy, as asked: X @ C.T, then block by block toarray and exp in place; "
        f"no norms, no product with v\n"
        f"  SciPy, whole: the same with the norms added before exp and the product with v after it"
    )
    seconds, found, error, rows = in_fresh_process(_race)
    ratio = seconds["gyrfalcon"] / seconds["SciPy, as asked"]
    for name, time in seconds.items():
        blocks = "" if name == "gyrfalcon" else f", blocks of {rows} rows"
        print(
            f"{name:>17}: {time:6.3f} s, {time * 1e9 / ROWS / CENTERS:.2f} ns per entry, best of {found.rounds}{blocks}"
        )
    print(
        f"gyrfalcon / SciPy as asked: {ratio:.2f} (asked: at most {TARGET}, {found.verdict(ratio <= TARGET)})"
        f"; gyrfalcon / SciPy whole: "
        f"{seconds['gyrfalcon'] / seconds['SciPy, whole']:.2f}; they differ by {error:.1e} of the largest entry"
    )
    peaks = {}
    for features in (FEATURES, MANY_FEATURES):
        time, peaks[features] = in_fresh_process(_once, features)
        print(
            f"d = {features:>11,}: runs in {time:.2f} s (once, in a fresh process), peak memory beyond inputs and "
            f"result {peaks[features] / 1e6:.0f} MB; X itself has {8 * ROWS * NONZEROS / 1e6:.0f} MB, K would have "
            f"{4 * ROWS * CENTERS / 1e6:.0f} MB, X dense {4 * ROWS * features / 1e9:,.0f} GB"
        )
    content = {
        "seconds": seconds,
        "ratio": ratio,
        "error": error,
        "rounds": found.rounds,
        "disturbed": found.disturbed,
        "extra_bytes": peaks,
    }
    report.write_json(report.FOLDER / "sparse.json", {"machine": machine.describe(), **content})


def _points(features: int) -> tuple[sparse.csr_array, sparse.csr_array, np.ndarray]:
    """Each row has one non-zero in each of 50 equal ranges of features: distinct, sorted, uniform."""
    random = np.random.default_rng(0)
    width = features // NONZEROS
    columns = random.integers(0, width, (ROWS, NONZEROS), dtype=np.int32)
    columns += (np.arange(NONZEROS) * width).astype(np.int32)
    values = random.standard_normal(ROWS * NONZEROS, dtype=np.float32) / np.float32(np.sqrt(NONZEROS))
    ends = np.arange(0, ROWS * NONZEROS + 1, NONZEROS, dtype=np.int32)
    X = sparse.csr_array((values, columns.ravel(), ends), shape=(ROWS, features))
    return X, X[:CENTERS], random.standard_normal(CENTERS, dtype=np.float32)


def _gyrfalcon(X: sparse.csr_array, C: sparse.csr_array, v: np.ndarray) -> np.ndarray:
    result: np.ndarray = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, C, cache=False) @ v
    return result


def _scipy_as_asked(X: sparse.csr_array, C: sparse.csr_array, rows: int) -> None:
    inner = X @ C.T
    for start in range(0, ROWS, rows):
        block = inner[start : start + rows].toarray()
        np.exp(block, out=block)


def _scipy_whole(X: sparse.csr_array, C: sparse.csr_array, v: np.ndarray, rows: int) -> np.ndarray:
    inner = X @ C.T
    x, c = -0.5 * X.multiply(X).sum(axis=1), -0.5 * C.multiply(C).sum(axis=1)
    out = np.empty(ROWS, dtype=np.float32)
    for start in range(0, ROWS, rows):
        block = inner[start : start + rows].toarray()
        block += x[start : start + rows, None]
        block += c
        np.exp(block, out=block)
        np.matmul(block, v, out=out[start : start + rows])
    return out


def _race() -> tuple[dict[str, float], Race, float, int]:
    machine.set_threads()
    X, C, v = _points(FEATURES)
    tuning = race([timed(str(r), partial(_scipy_as_asked, X, C, r), 1) for r in BLOCKS], 2, patience=10)
    rows = min(BLOCKS, key=lambda r: tuning[str(r)])
    ours, theirs = _gyrfalcon(X, C, v), _scipy_whole(X, C, v, rows)
    calls: dict[str, Callable[[], Any]] = {
        "gyrfalcon": lambda: _gyrfalcon(X, C, v),
        "SciPy, as asked": lambda: _scipy_as_asked(X, C, rows),
        "SciPy, whole": lambda: _scipy_whole(X, C, v, rows),
    }
    found = race([timed(name, call, 1) for name, call in calls.items()], rounds=3, patience=40)
    error = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    return {name: found[name] / 1e9 for name in calls}, found, error, rows


def _once(features: int) -> tuple[float, int]:
    machine.set_threads()
    X, C, v = _points(features)
    seconds: list[float] = []

    def call() -> np.ndarray:
        result: list[np.ndarray] = []
        seconds.append(timed("", lambda: result.append(_gyrfalcon(X, C, v)), 1e9, least=0).sample())
        return result[0]

    result, grown = peak_beyond(call)
    return seconds[0], grown - result.nbytes
