"""Kinds of kernels that automatic tuning compares, and the sum of the best of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from gyrfalcon.kernels import Kernel, ProductLaplacian, Warped

from .judging import Judged

Kind = tuple[type[Kernel], ...]


def kind_of(kernel: Kernel) -> Kind:
    """What kernels are compared within: their type and, of one that is warped, that of its part."""
    return (type(kernel), *(kind_of(kernel.kernel) if isinstance(kernel, Warped) else ()))


def is_absolute(kind: Kind) -> bool:
    """Whether the distance of such kernels is the sum of absolute differences, and not the Euclidean one."""
    return ProductLaplacian in kind


def summed(parts: Sequence[Judged]) -> tuple[Kernel, float]:
    """The sum of kernels, and its noise: each has the share of the ratio of signal to noise that it has alone."""
    ratios = np.array([1 / one.noise for one in parts])
    shares = [float(f"{share:.1e}") for share in ratios / ratios.sum()]
    kernels = [_scaled(one.tuned.problem.K.kernel, share) for one, share in zip(parts, shares, strict=True)]
    return reduce(add, kernels), len(parts) / float(ratios.sum())


def _scaled(kernel: Kernel, factor: float) -> Kernel:
    """Inside of a map of features: so the compiled core knows both."""
    return replace(kernel, kernel=factor * kernel.kernel) if isinstance(kernel, Warped) else factor * kernel
