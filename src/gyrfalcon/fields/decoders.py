"""From features of points to density and color: a learned basis of colors, or small networks.

A decoder keeps all of its numbers in one tensor, so that one optimizer's pass, one file entry and one digest hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .engine import Engine, Samples
from .harmonics import COUNT as HARMONICS
from .harmonics import spherical_harmonics
from .layout import Layout

HIDDEN = 64  # units of a layer
GEOMETRY = 15  # features that the density network hands to the color network


@dataclass(frozen=True)
class Layers:
    """A network with rectified units: the widths of its layers, and where its numbers begin."""

    widths: tuple[int, ...]
    offset: int

    @property
    def end(self) -> int:
        return self.offset + sum((1 + a) * b for a, b in zip(self.widths, self.widths[1:], strict=False))

    def start(self, numbers: Tensor, generator: torch.Generator) -> None:
        """Weights of variance 2 over the inputs, and 1 over them in the last layer; no offsets."""
        at = self.offset
        for layer, (inputs, outputs) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            spread = (2.0 if layer + 2 < len(self.widths) else 1.0) / inputs
            drawn = torch.randn((outputs, inputs), generator=generator, dtype=numbers.dtype)
            numbers[at : at + outputs * inputs] = (spread**0.5 * drawn).reshape(-1)
            numbers[at + outputs * inputs : at + outputs * (inputs + 1)] = 0
            at += outputs * (inputs + 1)

    def __call__(self, numbers: Tensor, x: Tensor) -> Tensor:
        at = self.offset
        for layer, (inputs, outputs) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            weights = numbers[at : at + outputs * inputs].view(outputs, inputs)
            offsets = numbers[at + outputs * inputs : at + outputs * (inputs + 1)]
            x = torch.nn.functional.linear(torch.relu(x) if layer else x, weights, offsets)
            at += outputs * (inputs + 1)
        return x


class Decoder(Protocol):
    """What fields need of a decoder."""

    @property
    def size(self) -> int:
        """How many numbers."""

    def start(self, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Numbers to begin with."""

    def outputs(
        self,
        engine: Engine,
        layout: Layout,
        planes: Tensor,
        numbers: Tensor,
        samples: Samples,
        directions: Tensor,
        codes: Tensor | None,
        shift: float,
        in_planes: Tensor | None = None,
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Density and color of samples before their nonlinearities, and what takes their derivatives backward.

        Backward adds derivatives to `in_planes`, and to the `grad` of the numbers and codes.
        """

    def density(self, engine: Engine, layout: Layout, planes: Tensor, numbers: Tensor, points: Tensor) -> Tensor:
        """The first of the outputs alone."""


@dataclass(frozen=True)
class ExplicitDecoder:
    """Color ⟨f(q), b(d)⟩ in a basis that a network learns as a function of the direction; density ⟨f(q), b_σ⟩."""

    width: int
    codes: int = 0

    @property
    def network(self) -> Layers:
        return Layers((HARMONICS + self.codes, HIDDEN, 3 * self.width), self.width)

    @property
    def size(self) -> int:
        return self.network.end

    def start(self, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        numbers = torch.zeros(self.size, dtype=dtype)
        numbers[: self.width] = torch.randn(self.width, generator=generator, dtype=dtype) / self.width**0.5
        self.network.start(numbers, generator)
        return numbers

    def basis(self, numbers: Tensor, directions: Tensor, codes: Tensor | None) -> Tensor:
        """Three rows of the basis for each ray."""
        inputs = spherical_harmonics(directions)
        if codes is not None:
            inputs = torch.cat([inputs, codes], 1)
        return self.network(numbers, inputs).view(-1, 3, self.width)

    def outputs(
        self,
        engine: Engine,
        layout: Layout,
        planes: Tensor,
        numbers: Tensor,
        samples: Samples,
        directions: Tensor,
        codes: Tensor | None,
        shift: float,
        in_planes: Tensor | None = None,
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        basis = self.basis(numbers, directions, codes)
        density = numbers[: self.width]
        outputs, counts = engine.decode(
            layout, planes, samples.points, samples.offsets, basis, density, lengths=samples.lengths, shift=shift
        )

        def backward(slope: Tensor) -> None:
            assert in_planes is not None
            in_basis, in_density = engine.decode_backward(
                layout, planes, samples.points, samples.offsets, counts, basis, density, slope, in_planes
            )
            assert in_basis is not None
            torch.autograd.backward(basis, in_basis)
            if density.requires_grad:
                torch.autograd.backward(density, in_density)

        return outputs, backward

    def density(self, engine: Engine, layout: Layout, planes: Tensor, numbers: Tensor, points: Tensor) -> Tensor:
        offsets = torch.arange(len(points) + 1, device=points.device)
        outputs, _ = engine.decode(layout, planes, points, offsets, None, numbers[: self.width])
        return outputs[:, 0]


@dataclass(frozen=True)
class HybridDecoder:
    """Two small networks: (σ, f̂) = g_σ(f(q)) and color = g_RGB(f̂, γ(d)) with spherical harmonics γ."""

    width: int
    codes: int = 0

    @property
    def density_network(self) -> Layers:
        return Layers((self.width, HIDDEN, 1 + GEOMETRY), 0)

    @property
    def color_network(self) -> Layers:
        return Layers((GEOMETRY + HARMONICS + self.codes, HIDDEN, HIDDEN, 3), self.density_network.end)

    @property
    def size(self) -> int:
        return self.color_network.end

    def start(self, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        numbers = torch.zeros(self.size, dtype=dtype)
        self.density_network.start(numbers, generator)
        self.color_network.start(numbers, generator)
        return numbers

    def outputs(
        self,
        engine: Engine,
        layout: Layout,
        planes: Tensor,
        numbers: Tensor,
        samples: Samples,
        directions: Tensor,
        codes: Tensor | None,
        shift: float,
        in_planes: Tensor | None = None,
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        features = engine.features(layout, planes, samples.points)
        features.requires_grad_(in_planes is not None)
        first = self.density_network(numbers, features)
        known = spherical_harmonics(directions)
        if codes is not None:
            known = torch.cat([known, codes], 1)
        colors = self.color_network(numbers, torch.cat([first[:, 1:], known[samples.rays]], 1))
        outputs = torch.cat([first[:, :1], colors], 1)

        def backward(slope: Tensor) -> None:
            assert in_planes is not None
            outputs.backward(slope)  # type: ignore[no-untyped-call]
            assert features.grad is not None
            engine.features_backward(layout, planes, samples.points, features.grad, in_planes)

        return outputs, backward

    def density(self, engine: Engine, layout: Layout, planes: Tensor, numbers: Tensor, points: Tensor) -> Tensor:
        return self.density_network(numbers, engine.features(layout, planes, points))[:, 0]


DECODERS: dict[str, type[ExplicitDecoder] | type[HybridDecoder]] = {
    "explicit": ExplicitDecoder,
    "hybrid": HybridDecoder,
}
