"""Kernels made of kernels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from .base import FREE, LOGARITHMIC, Kernel, Parameter, as_tensor, parameter
from .distances import shift_of
from .product_laplacian import ProductLaplacian
from .radial import RadialKernel


def _check_kernel(value: object, name: str) -> None:
    if not isinstance(value, Kernel):
        raise TypeError(f"{name} must be a kernel, got {type(value).__name__}")


def _check_width(matrix: Parameter, width: int, what: str) -> None:
    columns = len(matrix[0])  # type: ignore[index]
    if columns != width:
        raise ValueError(f"matrix has {columns} columns but there are {width} {what}")


@dataclass(frozen=True, eq=False, repr=False)
class _Pair(Kernel):
    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        _check_kernel(self.left, "left")
        _check_kernel(self.right, "right")

    @property
    def positive_definite(self) -> bool:
        return self.left.positive_definite and self.right.positive_definite


@dataclass(frozen=True, eq=False, repr=False)
class Sum(_Pair):
    """The sum of two kernels; written `left + right`.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.Gaussian(1.0) + gf.kernels.Linear()
    Sum(left=Gaussian(length_scale=1), right=Linear(length_scale=1))
    """

    def block(self, X: Tensor, C: Tensor) -> Tensor:
        return self.left.block(X, C) + self.right.block(X, C)

    def diagonal(self, X: Tensor) -> Tensor:
        return self.left.diagonal(X) + self.right.diagonal(X)


@dataclass(frozen=True, eq=False, repr=False)
class Product(_Pair):
    """The product of two kernels; written `left * right`.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> (gf.kernels.Gaussian(1.0) * gf.kernels.Linear())([[2.0]])
    array([[4.]])
    """

    def block(self, X: Tensor, C: Tensor) -> Tensor:
        return self.left.block(X, C) * self.right.block(X, C)

    def diagonal(self, X: Tensor) -> Tensor:
        return self.left.diagonal(X) * self.right.diagonal(X)


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Kernel):
    """A kernel times a number; written `scale * kernel`.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> (0.5 * gf.kernels.Gaussian(1.0))([[2.0]])
    array([[0.5]])
    """

    kernel: Kernel
    scale: Parameter = field(default=1.0, metadata=LOGARITHMIC)

    def __post_init__(self) -> None:
        _check_kernel(self.kernel, "kernel")
        object.__setattr__(self, "scale", parameter(self.scale, "scale"))

    def block(self, X: Tensor, C: Tensor) -> Tensor:
        return as_tensor(self.scale, X) * self.kernel.block(X, C)

    def diagonal(self, X: Tensor) -> Tensor:
        return as_tensor(self.scale, X) * self.kernel.diagonal(X)

    @property
    def positive_definite(self) -> bool:
        return self.kernel.positive_definite and float(self.scale) >= 0  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, repr=False)
class Mapped(Kernel):
    """A kernel after a linear map of its inputs, k(A x, A c).

    Parameters
    ----------
    kernel : Kernel
    matrix : array of shape (mapped features, features)
        A.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> rotated = gf.kernels.Mapped(gf.kernels.Gaussian(1.0), [[1.0, -1.0]])
    >>> rotated([[0.0, 0.0]], [[3.0, 3.0]])
    array([[1.]])
    """

    kernel: Kernel
    matrix: Parameter = field(metadata=FREE)

    def __post_init__(self) -> None:
        _check_kernel(self.kernel, "kernel")
        object.__setattr__(self, "matrix", parameter(self.matrix, "matrix", dimensions=(2,)))

    def block(self, X: Tensor, C: Tensor) -> Tensor:
        inner = self.kernel
        if isinstance(inner, Mapped):
            _check_width(inner.matrix, len(as_tensor(self.matrix, X)), "rows of the outer map")
            return Mapped(inner.kernel, as_tensor(inner.matrix, X) @ as_tensor(self.matrix, X)).block(X, C)
        parts = {place: Mapped(child, self.matrix) for place, child in inner.children()}
        if parts:
            return replace(inner, **parts).block(X, C)
        if isinstance(inner, RadialKernel | ProductLaplacian):  # before the map, where it costs no digits
            shift = shift_of(C.detach())
            X, C = X - shift, C - shift
        return inner.block(self._map(X), self._map(C))

    def diagonal(self, X: Tensor) -> Tensor:
        return self.kernel.diagonal(self._map(X))

    def _map(self, X: Tensor) -> Tensor:
        _check_width(self.matrix, X.shape[1], "features of the points")
        return X @ as_tensor(self.matrix, X).T

    @property
    def positive_definite(self) -> bool:
        return self.kernel.positive_definite
