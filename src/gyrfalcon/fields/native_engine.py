"""The compiled engine. Its results are the same bits for any number of threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gyrfalcon.native import core as compiled
from gyrfalcon.threads import threads_to_share

from .engine import EPSILON, FIRST_DECAY, OPAQUE, SECOND_DECAY, AdamState, Gathered, RayBatch, Samples
from .layout import Layout

core: Any = compiled


def _array(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().contiguous().numpy()


def _tensors(arrays: Any) -> list[Tensor]:
    return [torch.from_numpy(array) for array in arrays]


@dataclass(frozen=True)
class NativeEngine:
    """Fused operations on the processor."""

    most_threads: int | None = None

    @property
    def threads(self) -> int:
        """Those that were asked for, or as many as PyTorch has, or had before it was kept to one."""
        return self.most_threads or max(torch.get_num_threads(), threads_to_share())

    def features(self, layout: Layout, parameters: Tensor, points: Tensor) -> Tensor:
        out = parameters.new_empty((len(points), layout.width))
        core.plane_features(_array(parameters), *layout.native, _array(points), out.numpy(), self.threads)
        return out

    def features_backward(
        self,
        layout: Layout,
        parameters: Tensor,
        points: Tensor,
        slope: Tensor,
        in_parameters: Tensor,
        *,
        in_points: bool = False,
    ) -> Tensor | None:
        found = torch.empty_like(points, memory_format=torch.contiguous_format) if in_points else None
        core.plane_features_backward(
            _array(parameters),
            *layout.native,
            _array(points),
            _array(slope),
            in_parameters.numpy(),
            _array(found),
            self.threads,
        )
        return found

    def decode(
        self,
        layout: Layout,
        parameters: Tensor,
        points: Tensor,
        offsets: Tensor,
        basis: Tensor | None,
        density_basis: Tensor,
        *,
        lengths: Tensor | None = None,
        shift: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        out = parameters.new_empty((len(points), 1 if basis is None else 4))
        counts = torch.empty(len(offsets) - 1, dtype=torch.int64)
        core.plane_decode(
            _array(parameters),
            *layout.native,
            _array(points),
            _array(offsets),
            _array(basis),
            _array(density_basis),
            _array(lengths),
            shift,
            OPAQUE,
            out.numpy(),
            counts.numpy(),
            self.threads,
        )
        return out, counts

    def decode_backward(
        self,
        layout: Layout,
        parameters: Tensor,
        points: Tensor,
        offsets: Tensor,
        counts: Tensor,
        basis: Tensor | None,
        density_basis: Tensor,
        slope: Tensor,
        in_parameters: Tensor,
    ) -> tuple[Tensor | None, Tensor]:
        in_basis = None if basis is None else torch.empty_like(basis, memory_format=torch.contiguous_format)
        in_density = torch.empty_like(density_basis)
        core.plane_decode_backward(
            _array(parameters),
            *layout.native,
            _array(points),
            _array(offsets),
            _array(counts),
            _array(basis),
            _array(density_basis),
            _array(slope),
            in_parameters.numpy(),
            _array(in_basis),
            _array(in_density),
            self.threads,
        )
        return in_basis, in_density

    def update(self, layout: Layout, state: AdamState, slopes: Tensor, rate: float) -> None:
        state.step += 1
        sizes, features, _ = layout.native
        core.plane_update(
            *(array.numpy() for array in (state.parameters, state.gradient, state.mean, state.square)),
            sizes,
            features,
            slopes.numpy(),
            rate,
            FIRST_DECAY,
            SECOND_DECAY,
            EPSILON,
            state.step,
            self.threads,
        )

    def march(self, rays: RayBatch, occupied: Tensor, step: float, contracted: bool) -> Samples:
        given = (rays.origins, rays.directions, rays.nearest, rays.farthest, rays.jitter, rays.times)
        return Samples(*_tensors(core.march(*map(_array, given), _array(occupied), step, contracted, self.threads)))

    def composite(self, samples: Samples, outputs: Tensor, shift: float, background: Tensor | None) -> Gathered:
        rays = len(samples.offsets) - 1
        color = outputs.new_empty((rays, 0 if background is None else 3))
        depth, opacity = outputs.new_empty(rays), outputs.new_empty(rays)
        weights = outputs.new_empty(len(outputs))
        core.composite(
            *map(_array, (samples.offsets, samples.distances, samples.lengths, outputs)),
            shift,
            _array(background),
            None if background is None else color.numpy(),
            depth.numpy(),
            opacity.numpy(),
            weights.numpy(),
            self.threads,
        )
        return Gathered(color, depth, opacity, weights)

    def composite_backward(
        self,
        samples: Samples,
        outputs: Tensor,
        shift: float,
        background: Tensor | None,
        in_color: Tensor | None,
        *,
        in_weights: Tensor | None = None,
    ) -> Tensor:
        slope = torch.empty_like(outputs, memory_format=torch.contiguous_format)
        core.composite_backward(
            *map(_array, (samples.offsets, samples.distances, samples.lengths, outputs)),
            shift,
            _array(background),
            _array(in_color),
            None,
            None,
            _array(in_weights),
            slope.numpy(),
            self.threads,
        )
        return slope

    def distortion(self, samples: Samples, weights: Tensor) -> tuple[Tensor, Tensor]:
        values, slope = weights.new_empty(len(samples.offsets) - 1), torch.empty_like(weights)
        core.distortion(
            *map(_array, (samples.offsets, samples.distances, samples.lengths, weights)),
            values.numpy(),
            slope.numpy(),
            self.threads,
        )
        return values, slope
