"""How the numbers of all planes lie in one array, and the penalties of each plane."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

AXES = "xyztuvwp"  # names of the axes; the last of dynamic scenes is the time
SPACE_START = (0.1, 0.5)  # planes of space begin uniform in this range, those of time at one


@dataclass(frozen=True)
class Plane:
    """A grid over two axes, stored as [second axis, first axis, feature] from `offset` on."""

    scale: int
    first: int
    second: int
    offset: int
    shape: tuple[int, int, int]

    @property
    def name(self) -> str:
        return AXES[self.first] + AXES[self.second]


@dataclass(frozen=True)
class Layout:
    """Planes of all pairs of axes at several scales, one behind the other.

    Parameters
    ----------
    sizes : tuple of tuples of int
        Nodes of each axis, for each scale. Node i of n stands at i / (n - 1).
    features : int
        Of each plane.
    multiplies : bool
        Whether the planes of a scale are multiplied or added.
    timed : bool
        Whether the last axis is the time.
    """

    sizes: tuple[tuple[int, ...], ...]
    features: int
    multiplies: bool = True
    timed: bool = False

    @property
    def axes(self) -> int:
        return len(self.sizes[0])

    @property
    def width(self) -> int:
        """Features of all scales."""
        return len(self.sizes) * self.features

    @cached_property
    def planes(self) -> tuple[Plane, ...]:
        found, offset = [], 0
        for scale, sizes in enumerate(self.sizes):
            for first, second in itertools.combinations(range(self.axes), 2):
                shape = (sizes[second], sizes[first], self.features)
                found.append(Plane(scale, first, second, offset, shape))
                offset += shape[0] * shape[1] * shape[2]
        return tuple(found)

    @property
    def parameters(self) -> int:
        last = self.planes[-1]
        return last.offset + last.shape[0] * last.shape[1] * last.shape[2]

    @property
    def native(self) -> tuple[list[list[int]], int, bool]:
        """What the compiled core takes."""
        return [list(sizes) for sizes in self.sizes], self.features, self.multiplies

    def views(self, parameters: Tensor) -> Iterator[tuple[Plane, Tensor]]:
        """Each plane, and its part of the array."""
        for plane in self.planes:
            size = plane.shape[0] * plane.shape[1] * plane.shape[2]
            yield plane, parameters[plane.offset : plane.offset + size].view(plane.shape)

    def is_time(self, plane: Plane) -> bool:
        """Whether the time is an axis of a plane."""
        return self.timed and plane.second == self.axes - 1

    def start(self, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Parameters to begin with: the planes of space uniform, those of time one."""
        parameters = torch.ones(self.parameters, dtype=dtype)
        low, high = SPACE_START
        for plane, view in self.views(parameters):
            if not self.is_time(plane):
                view.copy_(low + (high - low) * torch.rand(plane.shape, generator=generator, dtype=dtype))
        return parameters


def space_planes(layout: Layout, parameters: Tensor) -> tuple[Layout, Tensor]:
    """The planes of space alone, which give what all planes give where those of time are one."""
    space = Layout(tuple(sizes[:3] for sizes in layout.sizes), layout.features, layout.multiplies)
    kept = [view.reshape(-1) for plane, view in layout.views(parameters) if not layout.is_time(plane)]
    return space, torch.cat(kept)


@dataclass(frozen=True)
class PenaltyWeights:
    """Weights of total variation (8.4), bends in time (8.5) and distances to one of the planes of time (8.6)."""

    variation: float = 0.0
    smoothness: float = 0.0
    transients: float = 0.0


def penalties(layout: Layout, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Total variation, bends in time and distances to one of the planes of time: (8.4), (8.5) and (8.6).

    With C planes of n₁ × n₂ nodes each,

        TV = 1/C Σ_c 1/(n₁n₂) Σ_ij ‖P(i, j) - P(i-1, j)‖² + ‖P(i, j) - P(i, j-1)‖²,

    where planes of time count along space only,

        smooth = 1/C Σ_c 1/(n₁n₂) Σ_it ‖P(i, t-1) - 2 P(i, t) + P(i, t+1)‖², and sep = Σ_c ‖1 - P‖₁

    over the planes of time. The last is a sum over all entries, as printed; public code of the papers takes means
    instead, whose weights are larger by the number of entries of a plane.
    """
    count = len(layout.planes)
    timed = max(1, sum(layout.is_time(plane) for plane in layout.planes))
    variation, bends, ones = (parameters.new_zeros(()) for _ in range(3))
    for plane, view in layout.views(parameters):
        nodes = view.shape[0] * view.shape[1]
        variation = variation + view.diff(dim=1).square().sum() / (count * nodes)
        if layout.is_time(plane):
            bends = bends + view.diff(n=2, dim=0).square().sum() / (timed * nodes)
            ones = ones + (1 - view).abs().sum()
        else:
            variation = variation + view.diff(dim=0).square().sum() / (count * nodes)
    return variation, bends, ones


def penalty_slopes(layout: Layout, weights: PenaltyWeights) -> Tensor:
    """Factors of the derivatives of `penalties` for the pass over the parameters, a row for each plane."""
    count = len(layout.planes)
    timed = max(1, sum(layout.is_time(plane) for plane in layout.planes))
    rows = []
    for plane in layout.planes:
        nodes = plane.shape[0] * plane.shape[1]
        along = 2 * weights.variation / (count * nodes)
        if layout.is_time(plane):
            bends = 2 * weights.smoothness / (timed * nodes)
            rows.append((along, 0.0, bends, weights.transients))
        else:
            rows.append((along, along, 0.0, 0.0))
    return torch.tensor(rows, dtype=torch.float64)
