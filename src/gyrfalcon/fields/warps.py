"""Unbounded space in a bounded one: contraction, and normalized device coordinates of scenes that lie ahead."""

from __future__ import annotations

import torch
from torch import Tensor


def contract(points: Tensor) -> Tensor:
    """Map space into the cube of half width two: x where ‖x‖ ≤ 1, and (2 - 1/‖x‖) x/‖x‖ beyond, in the maximum norm.

    Parameters
    ----------
    points : tensor of shape (..., d)

    Examples
    --------
    >>> import torch
    >>> from gyrfalcon.fields import contract
    >>> contract(torch.tensor([[0.5, 0.0, 0.0], [4.0, 0.0, 2.0]]))
    tensor([[0.5000, 0.0000, 0.0000],
            [1.7500, 0.0000, 0.8750]])
    """
    size = points.abs().amax(-1, keepdim=True).clamp(min=1)
    return points * ((2 - 1 / size) / size)


def uncontract(points: Tensor) -> Tensor:
    """The inverse of `contract`, for points inside the cube of half width two.

    Parameters
    ----------
    points : tensor of shape (..., d)

    Examples
    --------
    >>> import torch
    >>> from gyrfalcon.fields import contract, uncontract
    >>> uncontract(contract(torch.tensor([[4.0, 0.0, 2.0]])))
    tensor([[4., 0., 2.]])
    """
    size = points.abs().amax(-1, keepdim=True).clamp(min=1)
    return points / (size * (2 - size))


def normalized_device_rays(
    origins: Tensor, directions: Tensor, focal: tuple[float, float], shape: tuple[int, int], near: float
) -> tuple[Tensor, Tensor]:
    """Rays in normalized device coordinates, where the view ahead from `near` to infinity is the cube [-1, 1]³.

    Origins move to the plane z = -near first; t from 0 to 1 then covers all depths up to infinity.

    Parameters
    ----------
    origins, directions : tensors of shape (n, 3)
        In the coordinates of a camera that looks along -z.
    focal : pair of float
        In pixels, horizontal and vertical.
    shape : pair of int
        Height and width of the pictures.
    near : float
        Distance of the near plane.

    Examples
    --------
    >>> import torch
    >>> from gyrfalcon.fields import normalized_device_rays
    >>> ahead = torch.tensor([[0.0, 0.0, -1.0]])
    >>> o, d = normalized_device_rays(torch.zeros(1, 3), ahead, (50.0, 50.0), (100, 100), 1.0)
    >>> o + d  # at infinity
    tensor([[0., 0., 1.]])
    """
    t = -(near + origins[:, 2:]) / directions[:, 2:]
    o, d = origins + t * directions, directions
    across = torch.tensor([2 * focal[0] / shape[1], 2 * focal[1] / shape[0]], dtype=o.dtype, device=o.device)
    start = o[:, :2] / o[:, 2:]
    moved = torch.cat([-across * start, 1 + 2 * near / o[:, 2:]], 1)
    turned = torch.cat([-across * (d[:, :2] / d[:, 2:] - start), -2 * near / o[:, 2:]], 1)
    return moved, turned
