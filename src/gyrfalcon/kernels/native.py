"""How a kernel says what the compiled core should evaluate."""

from __future__ import annotations

import math
from dataclasses import dataclass

LOG2_E = math.log2(math.e)  # the core's exponentials are powers of two


@dataclass(frozen=True)
class NativeForm:
    """A kernel as the compiled core reads it: k(x, c) = profile(gain · s), with constants of the profile.

    s is what the family is a function of, in points over their length scales: a squared distance, a sum of
    absolute differences, or an inner product.

    Parameters
    ----------
    family : str
        A name in the core's list of families, native/families.hpp.
    gain : float
    constants : tuple of at most two floats

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.RationalQuadratic(alpha=2.0).native()
    NativeForm(family='rational_quadratic', gain=0.25, constants=(2.0,))
    """

    family: str
    gain: float = 1.0
    constants: tuple[float, ...] = ()
