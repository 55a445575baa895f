"""The appearance of new pictures in a field that stays as it is."""

from __future__ import annotations

import torch
from torch import Tensor

from .engine import AdamState
from .field import Field
from .rays import Rays

RATE = 0.02
RAYS = 2048  # of a step


def adapted_code(field: Field, rays: Rays, start: Tensor, steps: int, seed: int) -> Tensor:
    """The appearance vector with the least squared error on rays, from `start` on."""
    if steps < 1:
        raise ValueError(f"steps={steps!r} must be a positive integer")
    generator = torch.Generator().manual_seed(seed)
    code = start.detach().clone().requires_grad_()
    state = AdamState.of(code)
    unused = torch.zeros_like(field.planes)
    for step in range(steps):
        indices = torch.randint(rays.pixels, (min(RAYS, rays.pixels),), generator=generator)
        bundle = rays.at(indices).to(field.planes)
        jitter = torch.rand(len(indices), generator=generator).to(field.planes)
        batch = field.space.rays(bundle.origins, bundle.directions, jitter, None)
        with torch.no_grad():
            samples = field.sampler.samples(field, batch)
        codes = code.expand(len(indices), -1)
        outputs, backward = field.look(samples, bundle.directions, codes, unused)
        outputs = outputs.detach()
        backdrop = field.backdrop(len(indices))
        seen = field.engine.composite(samples, outputs, field.shift, backdrop)
        errors = seen.color - bundle.colors
        backward(
            field.engine.composite_backward(samples, outputs, field.shift, backdrop, errors * (2 / errors.numel()))
        )
        assert code.grad is not None
        state.advance(code.grad, RATE * (1 - step / steps))
        code.grad = None
    return code.detach()
