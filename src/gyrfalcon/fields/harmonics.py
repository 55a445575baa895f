"""Real spherical harmonics of directions, the inputs of decoders."""

from __future__ import annotations

import torch
from torch import Tensor

COUNT = 16  # of degrees zero to three


def spherical_harmonics(directions: Tensor) -> Tensor:
    """The sixteen real spherical harmonics of degree below four at unit vectors.

    They are orthonormal on the sphere, as columns in the order of the degree.
    """
    x, y, z = directions.unbind(1)
    xx, yy, zz = x * x, y * y, z * z
    return torch.stack(
        [
            torch.full_like(x, 0.28209479177387814),
            -0.48860251190291987 * y,
            0.48860251190291987 * z,
            -0.48860251190291987 * x,
            1.0925484305920792 * x * y,
            -1.0925484305920792 * y * z,
            0.31539156525252005 * (3 * zz - 1),
            -1.0925484305920792 * x * z,
            0.5462742152960396 * (xx - yy),
            -0.5900435899266435 * y * (3 * xx - yy),
            2.890611442640554 * x * y * z,
            -0.4570457994644657 * y * (5 * zz - 1),
            0.3731763325901154 * z * (5 * zz - 3),
            -0.4570457994644657 * x * (5 * zz - 1),
            1.445305721320277 * z * (xx - yy),
            -0.5900435899266435 * x * (xx - 3 * yy),
        ],
        1,
    )
