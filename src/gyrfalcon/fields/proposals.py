"""Where along a ray to look: where small fields of their own propose to (Barron et al. 2022).

The first looks at a fixed number of intervals of each ray, the second at intervals where the first saw something, and
the field at intervals where the second did. They learn to bound the weights that the field finds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gyrfalcon.arrays import Array

from .cube import clip
from .engine import AdamState, RayBatch, Samples
from .layout import Layout, PenaltyWeights, penalty_slopes, space_planes
from .warps import contract

if TYPE_CHECKING:
    from .field import Field

RESOLUTIONS, FEATURES = (64, 128), 8
COUNTS, LAST_COUNT = (256, 128), 48  # intervals of the proposals, and of the field
UNIFORM = 0.01  # share of the samples that go anywhere
RATE = 0.02
TINY = 1e-7


@dataclass
class Stage:
    """A small field of densities."""

    layout: Layout
    planes: AdamState
    basis: AdamState
    slopes: Tensor

    def without_time(self) -> Stage:
        layout, planes = space_planes(self.layout, self.planes.parameters)
        return Stage(layout, AdamState.of(planes), self.basis, self.slopes)


@dataclass
class Proposed:
    """What a stage saw: edges of intervals along each ray, samples in their middles, and weights."""

    edges: Tensor
    samples: Samples
    outputs: Tensor
    weights: Tensor


@dataclass
class ProposalSampler:
    """Samples in intervals that two small fields propose."""

    stages: list[Stage]
    seen: list[Proposed] = field(default_factory=list)

    @classmethod
    def make(
        cls, times: int | None, variation: float, generator: torch.Generator, device: torch.device
    ) -> ProposalSampler:
        stages = []
        for resolution in RESOLUTIONS:
            sizes = (resolution,) * 3 + (() if times is None else (times,))
            layout = Layout((sizes,), FEATURES, timed=times is not None)
            planes = layout.start(generator, torch.float32).to(device)
            basis = torch.randn(FEATURES, generator=generator).to(device) / FEATURES**0.5
            slopes = penalty_slopes(layout, PenaltyWeights(variation))
            stages.append(Stage(layout, AdamState.of(planes), AdamState.of(basis), slopes))
        return cls(stages)

    def samples(self, field: Field, rays: RayBatch, generator: torch.Generator | None = None) -> Samples:
        """Samples of rays; with a generator, those of a step of training."""
        near, far = (rays.nearest, rays.farthest) if field.space.contracted else clip(rays)
        far = torch.maximum(near, far)
        count = len(near)
        edges = torch.linspace(0, 1, COUNTS[0] + 1, device=near.device, dtype=near.dtype).expand(count, -1)
        self.seen = []
        for stage, following in zip(self.stages, (*COUNTS[1:], LAST_COUNT), strict=True):
            samples = _in_intervals(field, rays, near, far, edges)
            outputs, _ = field.engine.decode(
                stage.layout, stage.planes.parameters, samples.points, samples.offsets, None, stage.basis.parameters
            )
            weights = field.engine.composite(samples, outputs, field.shift, None).weights.view(count, -1)
            self.seen.append(Proposed(edges, samples, outputs, weights))
            edges = resample(edges, weights, following, generator)
        self.last = edges
        return _in_intervals(field, rays, near, far, edges)

    def learn(self, field: Field, samples: Samples, weights: Tensor, share: float, generator: torch.Generator) -> None:
        """One step of Adam of each stage on the histogram loss."""
        found = weights.view(len(self.last), -1)
        for stage, seen in zip(self.stages, self.seen, strict=True):
            _, slope = histogram_loss(self.last, found, seen.edges, seen.weights)
            in_outputs = field.engine.composite_backward(
                seen.samples, seen.outputs, field.shift, None, None, in_weights=slope.reshape(-1) / len(found)
            )
            offsets = seen.samples.offsets
            _, in_basis = field.engine.decode_backward(
                stage.layout,
                stage.planes.parameters,
                seen.samples.points,
                offsets,
                offsets.diff(),
                None,
                stage.basis.parameters,
                in_outputs,
                stage.planes.gradient,
            )
            field.engine.update(stage.layout, stage.planes, stage.slopes, RATE * share)
            stage.basis.advance(in_basis, RATE * share)

    def without_time(self) -> ProposalSampler:
        """That of a field without its planes of time."""
        return ProposalSampler([stage.without_time() for stage in self.stages])

    def pack(self, *, training: bool) -> tuple[dict[str, Any], dict[str, Array]]:
        """What model files hold, and with `training` what the next step needs besides."""
        arrays: dict[str, Array] = {}
        for number, stage in enumerate(self.stages):
            for name, state in (("planes", stage.planes), ("basis", stage.basis)):
                arrays |= {f"{number}.{name}.{part}": array for part, array in state.pack(training=training).items()}
        return {"steps": [stage.planes.step for stage in self.stages]}, arrays

    def take(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """What `pack` packed."""
        for number, (stage, step) in enumerate(zip(self.stages, facts["steps"], strict=True)):
            for name, state in (("planes", stage.planes), ("basis", stage.basis)):
                prefix = f"{number}.{name}."
                state.take({k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)}, int(step))


def _in_intervals(field: Field, rays: RayBatch, near: Tensor, far: Tensor, edges: Tensor) -> Samples:
    """Samples in the middles of intervals, whose edges are from 0 to 1."""
    if field.space.contracted:  # even in the inverse of the distance
        ends = 1 / ((1 - edges) / near[:, None] + edges / far[:, None])
    else:
        ends = near[:, None] + edges * (far - near)[:, None]
    distances = (ends[:, 1:] + ends[:, :-1]) / 2
    points = rays.origins[:, None] + distances[:, :, None] * rays.directions[:, None]
    points = contract(points) / 4 + 0.5 if field.space.contracted else points / 2 + 0.5
    points = points.reshape(-1, 3)
    if rays.times is not None:
        times = rays.times[:, None].expand_as(distances).reshape(-1, 1)
        points = torch.cat([points, times], 1)
    count = distances.shape[1]
    offsets = torch.arange(len(edges) + 1, device=edges.device) * count
    return Samples(offsets, distances.reshape(-1), ends.diff(dim=1).reshape(-1), points)


def resample(edges: Tensor, weights: Tensor, count: int, generator: torch.Generator | None = None) -> Tensor:
    """Edges of `count` intervals that have equal shares of the weights, from 0 to 1; jittered with a generator."""
    shares = weights + UNIFORM * (weights.sum(1, keepdim=True) + TINY) * edges.diff(dim=1)
    sums = torch.nn.functional.pad(shares.cumsum(1), (1, 0))
    sums = sums / sums[:, -1:]
    level = torch.arange(1, count, device=edges.device, dtype=edges.dtype) / count
    level = level.expand(len(edges), -1)
    if generator is not None:
        drawn = torch.rand(level.shape, generator=generator, dtype=edges.dtype).to(edges.device)
        level = level + (drawn - 0.5) / count
    index = torch.searchsorted(sums, level.contiguous(), right=True).clamp(1, edges.shape[1] - 1)
    low, high = sums.gather(1, index - 1), sums.gather(1, index)
    part = ((level - low) / (high - low).clamp(min=TINY)).clamp(0, 1)
    inner = edges.gather(1, index - 1) + part * (edges.gather(1, index) - edges.gather(1, index - 1))
    return torch.cat([torch.zeros_like(inner[:, :1]), inner, torch.ones_like(inner[:, :1])], 1)


def histogram_loss(edges: Tensor, weights: Tensor, wide_edges: Tensor, wide_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_i max(0, w_i - bound_i)² / w_i of each ray, and its derivatives in the weights of the proposal.

    The bound of an interval is the sum of the proposal's weights over all intervals that it meets.
    """
    sums = torch.nn.functional.pad(wide_weights.cumsum(1), (1, 0))
    first = (torch.searchsorted(wide_edges.contiguous(), edges[:, :-1].contiguous(), right=True) - 1).clamp(min=0)
    last = torch.searchsorted(wide_edges.contiguous(), edges[:, 1:].contiguous()).clamp(max=wide_weights.shape[1])
    last = torch.maximum(last, first)
    excess = (weights - (sums.gather(1, last) - sums.gather(1, first))).clamp(min=0)
    pull = -2 * excess / (weights + TINY)
    # Each pull acts on all proposal weights from first to last.
    change = torch.zeros_like(sums).scatter_add_(1, first, pull).scatter_add_(1, last, -pull)
    return (excess.square() / (weights + TINY)).sum(1), change.cumsum(1)[:, :-1]
