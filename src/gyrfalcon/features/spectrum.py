"""Which frequencies make up a shift-invariant kernel: k(x, y) = variance · E cos⟨A(x - y), w⟩."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from gyrfalcon import kernels
from gyrfalcon.kernels import Kernel

Array = np.ndarray[Any, Any]
Mixture = Callable[[Any, int, np.random.Generator], Array]

# Each is a mixture of Gaussian kernels of all widths: given s, w is normal with deviation s. By exact type, because a
# subclass has a profile of its own. For Matérn kernels w has a multivariate t distribution with 2ν degrees of freedom.
_MIXTURES: dict[type[Kernel], Mixture] = {
    kernels.Gaussian: lambda kernel, count, random: np.ones(count),
    kernels.Laplacian: lambda kernel, count, random: random.chisquare(1, count) ** -0.5,
    kernels.Matern: lambda kernel, count, random: (random.chisquare(2 * kernel.nu, count) / (2 * kernel.nu)) ** -0.5,
    kernels.RationalQuadratic: lambda kernel, count, random: np.sqrt(
        random.gamma(float(kernel.alpha), size=count) / float(kernel.alpha)
    ),
    kernels.Cauchy: lambda kernel, count, random: np.sqrt(2 * random.exponential(size=count)),
}


@dataclass(frozen=True)
class Spectrum:
    """The distribution of the frequencies of a kernel of length scale one, after a map A of the inputs.

    Attributes
    ----------
    kernel : Kernel
        Whose length scale does not count.
    map : array of shape (features,) or (mapped, features)
        A: one factor per feature, or a matrix.
    variance : float
        k(x, x).
    """

    kernel: Kernel
    map: Array
    variance: float = 1.0

    @classmethod
    def of(cls, kernel: Kernel, features: int) -> Spectrum:
        """That of a kernel of points with so many features."""
        return cls._of(kernel, np.ones(features))

    @classmethod
    def _of(cls, kernel: Kernel, outer: Array) -> Spectrum:
        match kernel:
            case kernels.Scaled():
                inner, scale = cls._of(kernel.kernel, outer), float(kernel.scale)  # type: ignore[arg-type]
                if not scale > 0:
                    raise ValueError(f"kernel: random features need a positive scale, got {kernel!r}")
                return replace(inner, variance=scale * inner.variance)
            case kernels.Mapped():
                matrix = _array(kernel.matrix)
                _check("matrix", matrix.shape[1], len(outer))
                return cls._of(kernel.kernel, matrix * outer if outer.ndim == 1 else matrix @ outer)
        if type(kernel) not in _MIXTURES:
            known = ", ".join(sorted(known.__name__ for known in _MIXTURES))
            raise ValueError(f"kernel: random features are known of {known}, scaled or mapped, got {kernel!r}")
        length_scale = _array(kernel.length_scale)  # type: ignore[attr-defined]
        if length_scale.ndim:
            _check("length_scale", len(length_scale), len(outer))
            length_scale = length_scale if outer.ndim == 1 else length_scale[:, None]
        return cls(kernel, outer / length_scale)

    @property
    def width(self) -> int:
        """Features after the map."""
        return len(self.map)

    def deviations(self, count: int, random: np.random.Generator) -> Array:
        """s for so many frequencies, each of them s times a standard normal vector."""
        return _MIXTURES[type(self.kernel)](self.kernel, count, random)

    def before_map(self, frequencies: Array) -> Array:
        """Frequencies v with ⟨x, v⟩ = ⟨A x, w⟩."""
        return frequencies * self.map if self.map.ndim == 1 else frequencies @ self.map


def _array(value: Any) -> Array:
    return np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value, dtype=np.float64)


def _check(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"kernel: {name} has {found} entries but the points have {expected} features")
