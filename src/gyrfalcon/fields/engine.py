"""What every engine of fields computes; the compiled one serves processors, the other any device of PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gyrfalcon.arrays import Array
from gyrfalcon.native import core

from .layout import Layout

OPAQUE = 9.2  # optical depth behind which a ray is not followed: one part in ten thousand is left
FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.99, 1e-15  # of Adam
LARGEST_LOG_DENSITY, LARGEST_LOG_SLOPE = 30.0, 15.0  # density is truncated, its derivative sooner


@dataclass(frozen=True)
class Samples:
    """Points along rays. Those of ray r are [offsets[r], offsets[r + 1]); `points` lie in the unit cube."""

    offsets: Tensor
    distances: Tensor
    lengths: Tensor
    points: Tensor

    @property
    def rays(self) -> Tensor:
        """Which ray each sample belongs to."""
        counts = self.offsets.diff()
        return torch.arange(len(counts), device=counts.device).repeat_interleave(counts)


@dataclass(frozen=True)
class RayBatch:
    """Rays in coordinates where the scene is the cube [-1, 1]³, or all of space if it is contracted.

    `distances` along a ray are those of the world, so directions are not of unit length here.
    """

    origins: Tensor
    directions: Tensor
    nearest: Tensor
    farthest: Tensor
    jitter: Tensor
    times: Tensor | None = None


@dataclass(frozen=True)
class Gathered:
    """What rays gather from their samples."""

    color: Tensor
    depth: Tensor
    opacity: Tensor
    weights: Tensor


@dataclass
class AdamState:
    """Parameters of all planes, their gradient and its running means."""

    parameters: Tensor
    gradient: Tensor
    mean: Tensor
    square: Tensor
    step: int = 0

    @classmethod
    def of(cls, parameters: Tensor) -> AdamState:
        gradient, mean, square = (torch.zeros_like(parameters, requires_grad=False) for _ in range(3))
        return cls(parameters, gradient, mean, square)

    @torch.no_grad()
    def advance(self, gradient: Tensor, rate: float) -> None:
        """One step of Adam."""
        self.step += 1
        self.mean.lerp_(gradient, 1 - FIRST_DECAY)
        self.square.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1 - SECOND_DECAY)
        root = (self.square / (1 - SECOND_DECAY**self.step)).sqrt_().add_(EPSILON)
        self.parameters.addcdiv_(self.mean, root, value=-rate / (1 - FIRST_DECAY**self.step))

    def pack(self, *, training: bool) -> dict[str, Array]:
        """The parameters, and with `training` what the next step needs besides."""
        names = ("parameters", "mean", "square") if training else ("parameters",)
        return {name: getattr(self, name).detach().cpu().numpy() for name in names}

    @torch.no_grad()
    def take(self, arrays: dict[str, Array], step: int) -> None:
        """What `pack` packed."""
        for name, array in arrays.items():
            own: Tensor = getattr(self, name)
            if array.shape != tuple(own.shape):
                raise ValueError(f"{name} has shape {array.shape}, and {tuple(own.shape)} is needed")
            own.copy_(torch.from_numpy(array))
        self.step = step


class Engine(Protocol):
    """Fused operations on planes and rays, with derivatives that are computed again rather than stored."""

    def features(self, layout: Layout, parameters: Tensor, points: Tensor) -> Tensor:
        """f(q) of each point, the scales side by side."""

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
        """Add the derivatives in the parameters to `in_parameters`; those in the points, if wanted."""

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
        """⟨f(q), b⟩ for the density basis and the three color bases of the ray, and how many samples were evaluated.

        With `lengths`, rays are not followed behind what is opaque; outputs there are -∞ and zeros.
        """

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
        """Add the derivatives in the parameters; those in the bases."""

    def update(self, layout: Layout, state: AdamState, slopes: Tensor, rate: float) -> None:
        """One step of Adam on loss and penalties, in one pass; the gradient is zero then."""

    def march(self, rays: RayBatch, occupied: Tensor, step: float, contracted: bool) -> Samples:
        """Samples every `step` along the rays, in occupied cells only."""

    def composite(self, samples: Samples, outputs: Tensor, shift: float, background: Tensor | None) -> Gathered:
        """The rendering equation (8.1) with its background."""

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
        """Derivatives in the outputs."""

    def distortion(self, samples: Samples, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Σ_ij w_i w_j |m_i - m_j| + ⅓ Σ_i w_i² δ_i of each ray, and its derivatives in the weights."""


def engine_for(device: torch.device) -> Engine:
    """The compiled engine for processors, if it was compiled, and else that of PyTorch."""
    if device.type == "cpu" and core is not None:
        from .native_engine import NativeEngine

        return NativeEngine()
    from .torch_engine import TorchEngine

    return TorchEngine()
