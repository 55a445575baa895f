"""Kinds of kernels that automatic tuning compares, and the sum of the best of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.kernels import Kernel, ProductLaplacian, Warped

from .judging import Judged

LEAST_SHARE = 0.02  # of a kernel in a sum, below which its entries cost more than they tell

Kind = tuple[type[Kernel], ...]


def kind_of(kernel: Kernel) -> Kind:
    """What kernels are compared within: their type and, of one that is warped, that of its part."""
    return (type(kernel), *(kind_of(kernel.kernel) if isinstance(kernel, Warped) else ()))


def is_absolute(kind: Kind) -> bool:
    """Whether the distance of such kernels is the sum of absolute differences, and not the Euclidean one."""
    return ProductLaplacian in kind


def worth_adding(parts: Sequence[Judged]) -> list[Judged]:
    """The first and those of the others that would have more than a hint of a share in the sum."""
    shares = _shares(parts)
    return [one for place, one in enumerate(parts) if place == 0 or shares[place] >= LEAST_SHARE]


def summed(parts: Sequence[Judged]) -> tuple[Kernel, float]:
    """The sum of kernels, and its noise: each has the share of the ratio of signal to noise that it has alone.

    Kernels after the same map of features are added inside of it, so that points are mapped once and entries are made
    in one pass.
    """
    added: dict[Any, Kernel] = {}  # by the map of features, or None
    outer: dict[Any, Warped] = {}
    for one, share in zip(parts, _shares(parts), strict=True):
        kernel, factor, key = one.tuned.problem.K.kernel, float(f"{share:.1e}"), None
        if isinstance(kernel, Warped):
            key = kernel.columns, kernel.knots, kernel.values
            outer[key], kernel = kernel, kernel.kernel
        added[key] = added[key] + factor * kernel if key in added else factor * kernel
    kernels = [part if key is None else replace(outer[key], kernel=part) for key, part in added.items()]
    return reduce(add, kernels), len(parts) / sum(1 / one.noise for one in parts)


def _shares(parts: Sequence[Judged]) -> Array:
    ratios = np.array([1 / one.noise for one in parts])
    return np.asarray(ratios / ratios.sum())
