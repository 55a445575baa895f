"""The least a kernel entry can cost here: its flops at the speed of the best GEMM, and one exponential."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence

import torch

from . import THREADS
from .contenders import HAS_CORE
from .timing import Contender, Race, race, timed

GEMM_SIZES = (768, 1024, 1536)
EXP, TORCH_EXP = "exp in registers", "torch.exp"
TORCH_EXP_COUNT = 1 << 18  # fits the second caches of two cores in float32; PyTorch shares out no fewer elements well


def race_with_peaks(contenders: Sequence[Contender], dtype: torch.dtype, rounds: int, patience: float) -> Race:
    """The contenders and the machine's peaks in the same rounds, so that the bound belongs to the same moments."""
    return race([*contenders, *_peaks(dtype)], rounds, patience)


def _peaks(dtype: torch.dtype) -> list[Contender]:
    """GEMMs (ns per flop) and exponentials (ns per element, all threads)."""
    probes = [_gemm(size, dtype) for size in GEMM_SIZES]
    probes.append(_torch_exponential(dtype))
    if HAS_CORE:
        core = importlib.import_module("gyrfalcon._native")
        single = dtype == torch.float32
        probes.append(Contender(EXP, lambda: core.exponential_nanoseconds(single) / THREADS, rest=0))
    return probes


def gemm_gflops(found: Race) -> float:
    return 1 / min(found[f"GEMM {size}"] for size in GEMM_SIZES)


def exponential_ns(found: Race) -> float:
    return found[EXP if HAS_CORE else TORCH_EXP]


def bound_ns(found: Race, d: int, t: int) -> float:
    """2 (d + t) flop at the measured GEMM peak, and one exponential: nanoseconds per entry."""
    return 2 * (d + t) / gemm_gflops(found) + exponential_ns(found)


def _gemm(size: int, dtype: torch.dtype) -> Contender:
    A, B = torch.randn(size, size, dtype=dtype), torch.randn(size, size, dtype=dtype)
    out = torch.mm(A, B)
    return timed(f"GEMM {size}", lambda: torch.mm(A, B, out=out), 2 * size**3, rest=0)


def _torch_exponential(dtype: torch.dtype, repeats: int = 20) -> Contender:
    exponents = torch.linspace(-10, 0, TORCH_EXP_COUNT, dtype=dtype)
    values = exponents.clone()

    def sample() -> float:
        best = float("inf")
        for _ in range(repeats):
            values.copy_(exponents)
            start = time.perf_counter()
            values.exp_()
            best = min(best, time.perf_counter() - start)
        return best * 1e9 / TORCH_EXP_COUNT

    return Contender(TORCH_EXP, sample, rest=0)
