"""Kernels of the scaled inner product: k(x, c) = profile(⟨x / length_scale, c / length_scale⟩)."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from .base import LOGARITHMIC, Kernel, Parameter, as_number, as_tensor, parameter, scale_inputs
from .native import NativeForm


@dataclass(frozen=True, eq=False, repr=False)
class DotKernel(Kernel):
    """Base of the kernels that depend on the points through their scaled inner product; override `profile`.

    Parameters
    ----------
    length_scale : float or sequence of floats
        One for all features or one for each.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from gyrfalcon.kernels import DotKernel
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class Exponential(DotKernel):
    ...     positive_definite = True
    ...
    ...     def profile(self, product):
    ...         return product.exp()
    >>> Exponential()([[0.0], [1.0]]).round(3).tolist()
    [[1.0, 1.0], [1.0, 2.718]]
    """

    length_scale: Parameter = field(default=1.0, metadata=LOGARITHMIC)

    def __post_init__(self) -> None:
        scale = parameter(self.length_scale, "length_scale", positive=True, dimensions=(0, 1))
        object.__setattr__(self, "length_scale", scale)

    @abstractmethod
    def profile(self, product: Tensor) -> Tensor:
        """The kernel's value at a scaled inner product."""

    def block(self, X: Tensor, C: Tensor) -> Tensor:
        return self.profile(scale_inputs(X, self.length_scale) @ scale_inputs(C, self.length_scale).T)

    def diagonal(self, X: Tensor) -> Tensor:
        return self.profile(scale_inputs(X, self.length_scale).square().sum(1))


@dataclass(frozen=True, eq=False, repr=False)
class Linear(DotKernel):
    """The linear kernel, k(x, c) = ⟨x, c⟩ / σ².

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, one for all features or one for each.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    def profile(self, product: Tensor) -> Tensor:
        return product

    def native(self) -> NativeForm:
        return NativeForm("linear")

    @property
    def positive_definite(self) -> bool:
        return True


@dataclass(frozen=True, eq=False, repr=False)
class Polynomial(DotKernel):
    """The polynomial kernel, k(x, c) = (⟨x, c⟩ / σ² + offset)^degree.

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, one for all features or one for each; σ = γ^-½ in scikit-learn's notation.
    degree : int
    offset : float

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.Polynomial(degree=2, offset=1.0)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    """

    constants: ClassVar[tuple[str, ...]] = ("degree",)
    degree: int = 3
    offset: Parameter = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "offset", parameter(self.offset, "offset"))
        if not isinstance(self.degree, numbers.Integral) or not 1 <= self.degree <= 64:
            raise ValueError(f"degree must be an integer from 1 to 64, got {self.degree!r}")
        object.__setattr__(self, "degree", int(self.degree))

    def profile(self, product: Tensor) -> Tensor:
        return (product + as_tensor(self.offset, product)).pow(self.degree)

    def native(self) -> NativeForm:
        return NativeForm("polynomial", constants=(as_number(self.offset), self.degree))

    @property
    def positive_definite(self) -> bool:
        return float(self.offset) >= 0  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, repr=False)
class Sigmoid(DotKernel):
    """The sigmoid kernel, k(x, c) = tanh(⟨x, c⟩ / σ² + offset); not positive definite.

    Parameters
    ----------
    length_scale : float or sequence of floats
        σ, one for all features or one for each; σ = γ^-½ in scikit-learn's notation.
    offset : float

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.kernels.Sigmoid(offset=0.0)([[1.0, 0.0]], [[0.5, 2.0]]).round(4)
    array([[0.4621]])
    """

    offset: Parameter = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "offset", parameter(self.offset, "offset"))

    def profile(self, product: Tensor) -> Tensor:
        return torch.tanh(product + as_tensor(self.offset, product))

    def native(self) -> NativeForm:
        return NativeForm("sigmoid", constants=(as_number(self.offset),))

    @property
    def positive_definite(self) -> bool:
        return False
