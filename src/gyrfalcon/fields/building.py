"""A field to begin with, from the parameters of the estimator and the rays it will see."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gyrfalcon.matrix.plan import free_memory, readable

from .decoders import DECODERS, Decoder
from .engine import engine_for
from .field import Field, Sampler
from .layout import Layout
from .occupancy import Occupancy
from .proposals import ProposalSampler
from .rays import Rays
from .sampling import CELLS, OccupancySampler
from .space import Space

if TYPE_CHECKING:
    from .kplanes import KPlanes

CHOICES = {
    "decoder": tuple(DECODERS),
    "combine": ("product", "sum"),
    "sampler": ("occupancy", "proposal"),
    "importance": ("uniform", "time"),
}
WEIGHTS = ("variation", "time_smoothness", "transients", "distortion")
FINEST = 1 << 15  # nodes along an axis
COPIES = 4  # of each number of the planes while they are trained: itself, its derivative and two means of Adam


def check(model: KPlanes, rays: Rays) -> None:
    """Refuse parameters that mean nothing, or nothing for these rays."""
    check_rays(rays)
    check_parameters(model)
    _check_times(model, rays)


def check_rays(rays: Rays) -> None:
    """Refuse what are no rays, or none at all."""
    if not isinstance(rays, Rays):
        raise TypeError(f"rays is a {type(rays).__name__}: make Rays with Rays.from_poses or read_scene")
    if len(rays) == 0:
        raise ValueError("rays are of no pictures: give one at least")


def check_parameters(model: KPlanes) -> None:
    """Refuse parameters that mean nothing."""
    for name, known in CHOICES.items():
        if getattr(model, name) not in known:
            raise ValueError(f"{name}={getattr(model, name)!r} is unknown: use one of {', '.join(map(repr, known))}")
    for name in WEIGHTS:
        value = getattr(model, name)
        if not (isinstance(value, int | float | np.number) and math.isfinite(value) and value >= 0):
            raise ValueError(f"{name}={value!r} must be a number that is not negative")
    given = model.resolutions
    if not isinstance(given, tuple | list) or not given or not all(_count(r, 2) for r in given):
        raise ValueError(f"resolutions={given!r} must be integers from 2 to {FINEST}")
    for name, value, least in (
        ("features", model.features, 1),
        ("times", model.times, 2),
        ("appearance", model.appearance, 1),
    ):
        if not (_count(value, least) or (value is None and name != "features")):
            raise ValueError(f"{name}={value!r} must be an integer of at least {least}")


def _count(value: Any, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(least <= value <= FINEST)


def _check_times(model: KPlanes, rays: Rays) -> None:
    if model.times is not None and rays.times is None:
        raise ValueError(
            f"times={model.times!r}: the rays have no times: give them to Rays.from_poses, or leave times out"
        )
    if model.times is None:
        if rays.times is not None:
            raise ValueError("times=None: the rays have times: say how many nodes along the time, such as times=50")
        for name in ("time_smoothness", "transients"):
            if getattr(model, name):
                raise ValueError(
                    f"{name}={getattr(model, name)!r} is for fields with times: set times, or leave it out"
                )
        if model.importance == "time":
            raise ValueError("importance='time' is for fields with times: set times, or leave it out")
    if rays.image_ids is not None and model.appearance is None:
        raise ValueError("appearance=None: the rays have image_ids: set appearance, such as 32, or leave them out")


def _check_size(model: KPlanes, layout: Layout, device: torch.device) -> None:
    """Refuse planes that would not fit into memory with what training adds to them."""
    size, free = COPIES * 4 * layout.parameters, free_memory(device)
    if size > free:
        raise ValueError(
            f"resolutions={model.resolutions!r} with features={model.features!r} are {layout.parameters:,} numbers, "
            f"for which training takes {readable(size)} where {readable(free)} are free: choose smaller "
            "resolutions or fewer features"
        )


def layout_of(model: KPlanes) -> Layout:
    """The planes that the parameters ask for."""
    time = () if model.times is None else (int(model.times),)
    sizes = tuple((int(r),) * 3 + time for r in model.resolutions)
    return Layout(sizes, int(model.features), model.combine == "product", model.times is not None)


def new_sampler(model: KPlanes, space: Space, generator: torch.Generator, device: torch.device) -> Sampler:
    """A sampler that knows nothing."""
    if model.sampler == "proposal":
        return ProposalSampler.make(model.times, model.variation, generator, device)
    return OccupancySampler(Occupancy.full(CELLS, device), space.step(max(model.resolutions)))


def new_field(model: KPlanes, rays: Rays, generator: torch.Generator) -> Field:
    """A field that knows nothing."""
    device = torch.device(model.device or "cpu")
    layout = layout_of(model)
    _check_size(model, layout, device)
    decoder: Decoder = DECODERS[model.decoder](layout.width, model.appearance or 0)
    planes = layout.start(generator, torch.float32).to(device)
    numbers_of_decoder = decoder.start(generator, torch.float32).to(device)
    codes = None
    if model.appearance is not None:
        count = len(rays) if rays.image_ids is None else int(rays.image_ids.max()) + 1
        codes = torch.zeros(count, model.appearance, device=device)
    sampler = new_sampler(model, rays.space, generator, device)
    background = rays.background
    return Field(
        rays.space, layout, planes, decoder, numbers_of_decoder, codes, sampler, background, engine_for(device)
    )
