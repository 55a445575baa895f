"""Fitted fields as what model files hold."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gyrfalcon.arrays import Array
from gyrfalcon.persistence import State

from .building import check_parameters, layout_of, new_sampler
from .decoders import DECODERS, Decoder
from .engine import engine_for
from .field import Field
from .layout import space_planes
from .rays import Rays
from .space import Space
from .training import Record

if TYPE_CHECKING:
    from .kplanes import KPlanes


@dataclass(frozen=True)
class Cameras:
    """What pictures of a field need to know of the training pictures."""

    shape: tuple[int, int]
    intrinsics: Tensor
    pose: Tensor
    up: Tensor
    time_range: tuple[float, float]

    @classmethod
    def of(cls, rays: Rays) -> Cameras:
        up = rays.poses[:, :3, 1].mean(0)
        if float(up.norm()) < 1e-6:
            up = rays.poses[0, :3, 1]
        return cls(rays.shape, rays.intrinsics.values[0], rays.poses[0], up / up.norm(), rays.time_range)

    def intrinsics_for(self, shape: tuple[int, int]) -> Tensor:
        """Of a picture of another size with the same field of view."""
        down, across = shape[0] / self.shape[0], shape[1] / self.shape[1]
        return self.intrinsics * torch.tensor([across, down, across, down], dtype=torch.float64)


def pack(field: Field, cameras: Cameras, record: Record, code: Tensor | None) -> State:
    """Values that JSON can hold, and arrays."""
    sampler, arrays = field.sampler.pack(training=False)
    arrays = {f"sampler.{name}": array for name, array in arrays.items()}
    arrays |= {"planes": field.planes.cpu().numpy(), "decoder": field.numbers.cpu().numpy()}
    for name, tensor in (("codes", field.codes), ("code", code)):
        if tensor is not None:
            arrays[name] = tensor.detach().cpu().numpy()
    for name in ("intrinsics", "pose", "up"):
        arrays[name] = getattr(cameras, name).numpy()
    return {
        "space": asdict(field.space),
        "background": field.background,
        "shape": cameras.shape,
        "time_range": cameras.time_range,
        "record": asdict(record),
        "sampler": sampler,
    }, arrays


def unpack(
    model: KPlanes, values: dict[str, Any], arrays: dict[str, Array]
) -> tuple[Field, Cameras, Record, Tensor | None]:
    """What `pack` packed, if it fits together."""
    given = values["space"]
    turn = tuple(tuple(float(entry) for entry in row) for row in given["turn"])
    lens = None if given["lens"] is None else tuple(given["lens"])
    space = Space(**given | {"center": tuple(given["center"]), "turn": turn, "lens": lens})
    check_parameters(model)
    device = _device(model.device)
    layout = layout_of(model)
    decoder: Decoder = DECODERS[model.decoder](layout.width, model.appearance or 0)
    planes, numbers = (torch.from_numpy(arrays[name]).to(device) for name in ("planes", "decoder"))
    codes = torch.from_numpy(arrays["codes"]).to(device) if model.appearance is not None else None
    code = torch.from_numpy(arrays["code"]).to(device) if "code" in arrays else None
    fits = planes.shape == (layout.parameters,) and numbers.shape == (decoder.size,)
    own = [one for one in (codes, None if code is None else code[None]) if one is not None]
    if not fits or any(one.shape[1:] != (model.appearance,) for one in own):
        raise ValueError("the planes do not fit the parameters")
    if any(one.dtype != torch.float32 for one in (planes, numbers, *own)):
        raise ValueError("the planes are not of single precision")
    sampler = new_sampler(model, space, torch.Generator(), device)
    prefix = "sampler."
    sampler.take(values["sampler"], {k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)})
    color = None if values["background"] is None else tuple(values["background"])
    field = Field(space, layout, planes, decoder, numbers, codes, sampler, color, engine_for(device))
    intrinsics, pose, up = (torch.from_numpy(arrays[name]) for name in ("intrinsics", "pose", "up"))
    if intrinsics.shape != (4,) or pose.shape != (4, 4) or up.shape != (3,):
        raise ValueError("the cameras do not fit together")
    cameras = Cameras(tuple(values["shape"]), intrinsics, pose, up, tuple(values["time_range"]))
    return field, cameras, Record(**values["record"]), code


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or "cpu")
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"the field was saved for device={name!r}, which cannot be used here ({reason}): where it can, load it, "
            "set_params(device=None) and save it again"
        ) from None
    return device


def without_time(field: Field) -> Field:
    """The field of the planes of space alone, which is that with all planes of time at one."""
    layout, planes = space_planes(field.layout, field.planes)
    return dataclasses.replace(field, layout=layout, planes=planes, sampler=field.sampler.without_time())
