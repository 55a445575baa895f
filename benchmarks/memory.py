"""Memory that a product takes beyond what the user holds, and how its time grows with n."""

from __future__ import annotations

from functools import partial

import numpy as np

import gyrfalcon as gf

from . import machine, report
from .process import in_fresh_process, peak_beyond
from .timing import Race, race, timed

FEATURES, CENTERS = 10, 1000
LARGEST = 2_000_000
SIZES = tuple(LARGEST >> shift for shift in range(6, -1, -1))  # 31,250 to 2,000,000
MEMORY_TARGET = 64e6
SLOPE_TARGET = 0.05


def run() -> None:
    first = in_fresh_process(_first_product)
    found = in_fresh_process(_seconds)
    seconds = [found[str(n)] / 1e9 for n in SIZES]
    slope = float(np.polyfit(np.log(SIZES), np.log(seconds), 1)[0])
    print(
        f"\nMemory: KernelMatrix(Gaussian, X, C) @ v, n = {LARGEST:,}, d = {FEATURES}, m = {CENTERS}, float32, in a "
        f"fresh process that had made no product before.\nCounted: the largest resident size during construction and "
        f"product, less that before both (inputs touched), less the result of {4 * LARGEST / 1e6:.0f} MB.\n"
        f"beyond inputs and result: {first / 1e6:.1f} MB (asked: under {MEMORY_TARGET / 1e6:.0f} MB, "
        f"{'met' if first < MEMORY_TARGET else 'MISSED'})\n\n"
        f"Time of the product alone, best of {found.rounds} interleaved rounds:"
    )
    for n, time in zip(SIZES, seconds, strict=True):
        print(f"  n = {n:>9,}: {time * 1e3:8.1f} ms, {time * 1e9 / n / CENTERS:.3f} ns per entry")
    print(
        f"slope of log time against log n: {slope:.3f} (asked: 1 ± {SLOPE_TARGET}, "
        f"{found.verdict(abs(slope - 1) <= SLOPE_TARGET)})"
    )
    content = {
        "extra_bytes": first,
        "n": SIZES,
        "seconds": seconds,
        "slope": slope,
        "rounds": found.rounds,
        "disturbed": found.disturbed,
    }
    report.write_json(report.FOLDER / "memory.json", {"machine": machine.describe(), **content})


def _points(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.standard_normal((n, FEATURES), dtype=np.float32)
    return X, X[:CENTERS].copy(), random.standard_normal(CENTERS, dtype=np.float32)


def _first_product() -> int:
    machine.set_threads()
    X, C, v = _points(LARGEST)
    result, grown = peak_beyond(lambda: gf.KernelMatrix(gf.kernels.Gaussian(3.0), X, C, cache=False) @ v)
    return grown - int(result.nbytes)


def _seconds() -> Race:
    machine.set_threads()
    X, C, v = _points(LARGEST)
    matrices = {n: gf.KernelMatrix(gf.kernels.Gaussian(3.0), X[:n], C, cache=False) for n in SIZES}
    contenders = [timed(str(n), partial(K.__matmul__, v), 1) for n, K in matrices.items()]
    return race(contenders, rounds=5, patience=40)
