"""What every kernel is: an immutable value that can be evaluated, differentiated, combined, compared and stored."""

from __future__ import annotations

import dataclasses
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import as_dense, to_tensor

from .native import NativeForm

Parameter = float | tuple[Any, ...] | Tensor
"""A number, nested tuples of numbers, or a tensor when gradients should flow into it."""

# Metadata of the fields that are tuned: by their logarithms, while they are positive, or as they are.
LOGARITHMIC = {"tuned": "logarithmic"}
FREE = {"tuned": "free"}


def parameter(value: Any, name: str, *, positive: bool = False, dimensions: tuple[int, ...] = (0,)) -> Parameter:
    """Check a kernel parameter and return it as an immutable value; tensors are kept, for their gradients."""
    if isinstance(value, Tensor):
        kept: Parameter = value
        array = value.detach().cpu().double().numpy()
    else:
        if not isinstance(value, numbers.Real | np.ndarray | tuple | list) or isinstance(value, bool):
            raise TypeError(f"{name} must be a number, an array or a tensor, got {type(value).__name__}")
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must hold numbers only, got {value!r}") from error
        kept = _as_tuple(array.tolist())
    if array.ndim not in dimensions or array.size == 0:
        shapes = " or ".join({0: "a number", 1: "a vector", 2: "a matrix"}[n] for n in dimensions)
        raise ValueError(f"{name} must be {shapes}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {_short(value)}")
    if positive and not (array > 0).all():
        raise ValueError(f"{name} must be positive, got {_short(value)}")
    return kept


def _as_tuple(value: Any) -> Parameter:
    """Lists of floats, however deep, as tuples."""
    if not isinstance(value, list):
        return float(value)
    return tuple(map(_as_tuple, value)) if value and isinstance(value[0], list) else tuple(value)


def _short(value: Any) -> str:
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list | np.ndarray):
        return np.array2string(np.asarray(value), separator=", ", threshold=6, precision=6).replace("\n", "")
    return repr(value)


def as_number(value: Parameter) -> float:
    """A scalar parameter as a number, without its gradient."""
    return float(value.detach() if isinstance(value, Tensor) else value)  # type: ignore[arg-type]


def as_tensor(value: Parameter, like: Tensor) -> Tensor:
    """The parameter in the precision and on the device of `like`; differentiable if it was given as a tensor."""
    return torch.as_tensor(value, dtype=like.dtype, device=like.device)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Kernel(ABC):
    """A kernel k(x, c).

    Subclasses are frozen dataclasses whose fields are parameters, numbers that are not differentiated
    (`constants`), or other kernels. They define `block`, `diagonal` and `positive_definite`. The metadata of a field
    says whether and how it is tuned (`tunable`), and `native` what the compiled core should evaluate, if it can.

    Examples
    --------
    >>> from gyrfalcon.kernels import Gaussian, Kernel, Linear
    >>> kernel = 0.5 * Gaussian(2.0) + Linear()
    >>> isinstance(kernel, Kernel), kernel == Kernel.from_dict(kernel.to_dict())
    (True, True)
    """

    registry: ClassVar[dict[str, type[Kernel]]] = {}
    constants: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Kernel.registry[cls.__name__] = cls

    @abstractmethod
    def block(self, X: Tensor, C: Tensor) -> Tensor:
        """The dense matrix k(X, C), differentiable in X, C and the kernel's tensor parameters."""

    @abstractmethod
    def diagonal(self, X: Tensor) -> Tensor:
        """The values k(x, x) of the rows of X."""

    @property
    @abstractmethod
    def positive_definite(self) -> bool:
        """Whether every kernel matrix k(X, X) is positive semi-definite."""

    @property
    def explicit(self) -> bool:
        """Whether k(x, c) are coordinates of an explicit feature map, one for each c, rather than inner products."""
        return bool(self._children) and any(child.explicit for child in self._children.values())

    @property
    def rough(self) -> bool:
        """Whether k(x, c) has at most three derivatives at x = c, so that its spectrum falls slowly."""
        return any(child.rough for _, child in self.children())

    @property
    def parts(self) -> int:
        """How many simple kernels are evaluated for one entry: more than one for sums and products.

        >>> from gyrfalcon.kernels import Gaussian, Matern
        >>> Gaussian().parts, (0.5 * Gaussian() + 0.5 * Matern()).parts
        (1, 2)
        """
        return sum(child.parts for _, child in self.children()) or 1

    def native(self) -> NativeForm | None:
        """How the compiled core reads this kernel; None if it does not know it.

        Only a class that defines this itself is served by the core: a subclass may have another profile.
        """
        return None

    def __call__(self, X: Any, C: Any = None) -> Any:
        """The dense matrix k(X, C); C defaults to X. NumPy in, NumPy out; tensors in, tensors out.

        >>> from gyrfalcon.kernels import Gaussian
        >>> Gaussian(length_scale=2.0)([[0.0], [2.0]]).round(4)
        array([[1.    , 0.6065],
               [0.6065, 1.    ]])
        """
        points = [as_dense(X, "X")] if C is None else [as_dense(X, "X"), as_dense(C, "C")]
        values = self.block(to_tensor(points[0]), to_tensor(points[-1]))
        return values if values.requires_grad or any(isinstance(p, Tensor) for p in points) else values.numpy()

    # Parameters, by dotted name.

    # A kernel is a value: what its fields are is found once.

    @cached_property
    def _children(self) -> dict[str, Kernel]:
        found: dict[str, Kernel] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Kernel):
                found[field.name] = value
        return found

    @cached_property
    def _parameters(self) -> dict[str, Parameter]:
        found: dict[str, Parameter] = {}
        for field in dataclasses.fields(self):
            if field.name in self._children:
                inner = self._children[field.name]._parameters
                found |= {f"{field.name}.{name}": value for name, value in inner.items()}
            elif field.name not in self.constants:
                found[field.name] = getattr(self, field.name)
        return found

    @cached_property
    def _tensors(self) -> list[Tensor]:
        return [value for value in self._parameters.values() if isinstance(value, Tensor)]

    def children(self) -> Iterator[tuple[str, Kernel]]:
        """The kernels that this one is made of, by the names of their places."""
        return iter(self._children.items())

    def parameters(self) -> dict[str, Parameter]:
        """What can be learned, by name; the parameters of a part are prefixed with its place.

        >>> from gyrfalcon.kernels import Gaussian, Linear
        >>> (Gaussian(2.0) + 0.5 * Linear()).parameters()
        {'left.length_scale': 2.0, 'right.kernel.length_scale': 1.0, 'right.scale': 0.5}
        """
        return dict(self._parameters)

    def tunable(self) -> dict[str, str]:
        """How each parameter that can be tuned moves: "logarithmic", by factors, or "free", by any amount.

        >>> from gyrfalcon.kernels import Gaussian, Mapped, Polynomial
        >>> (Mapped(Gaussian(2.0), [[1.0, 0.5]]) + Polynomial()).tunable()
        {'left.kernel.length_scale': 'logarithmic', 'left.matrix': 'free', 'right.length_scale': 'logarithmic'}
        """
        found: dict[str, str] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Kernel):
                found |= {f"{field.name}.{name}": how for name, how in value.tunable().items()}
            elif "tuned" in field.metadata:
                found[field.name] = field.metadata["tuned"]
        return found

    def tensors(self) -> list[Tensor]:
        """The parameters that were given as tensors, into which gradients may flow.

        >>> import torch
        >>> from gyrfalcon.kernels import Gaussian
        >>> Gaussian(2.0).tensors(), len(Gaussian(torch.tensor(2.0)).tensors())
        ([], 1)
        """
        return list(self._tensors)

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """The same kernel with the named parameters replaced.

        >>> from gyrfalcon.kernels import Gaussian
        >>> Gaussian(1.0).with_parameters({"length_scale": 3.0})
        Gaussian(length_scale=3)
        """
        unknown = values.keys() - self._parameters.keys()
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no parameter {sorted(unknown)[0]!r}; it has {list(self._parameters)}"
            )
        if not self._children:
            return dataclasses.replace(self, **values)
        changes: dict[str, Any] = {name: value for name, value in values.items() if "." not in name}
        for place, child in self._children.items():
            inner = {name.removeprefix(place + "."): v for name, v in values.items() if name.startswith(place + ".")}
            if inner:
                changes[place] = child.with_parameters(inner)
        return dataclasses.replace(self, **changes)

    # Value semantics.

    def to_dict(self) -> dict[str, Any]:
        """A description that survives JSON; `Kernel.from_dict` reads it.

        >>> from gyrfalcon.kernels import Kernel, Matern
        >>> description = Matern(length_scale=[1.0, 2.0], nu=2.5).to_dict()
        >>> description
        {'type': 'Matern', 'length_scale': [1.0, 2.0], 'nu': 2.5}
        >>> Kernel.from_dict(description)
        Matern(length_scale=[1., 2.], nu=2.5)
        """
        described: dict[str, Any] = {"type": type(self).__name__}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            described[field.name] = value.to_dict() if isinstance(value, Kernel) else _to_json(value)
        return described

    @staticmethod
    def from_dict(description: Mapping[str, Any]) -> Kernel:
        """The kernel that `to_dict` described."""
        fields = dict(description)
        name = fields.pop("type", None)
        if not isinstance(name, str) or name not in Kernel.registry:
            raise ValueError(f"type must be one of {sorted(Kernel.registry)}, got {name!r}")
        cls = Kernel.registry[name]
        unknown = fields.keys() - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ValueError(f"{name} has no field {sorted(unknown)[0]!r}")
        return cls(**{k: Kernel.from_dict(v) if isinstance(v, Mapping) else v for k, v in fields.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return type(self), *(_frozen(getattr(self, field.name)) for field in dataclasses.fields(self))

    def __repr__(self) -> str:
        shown = (f"{field.name}={_short(getattr(self, field.name))}" for field in dataclasses.fields(self))
        return f"{type(self).__name__}({', '.join(shown)})"

    # Algebra.

    def __add__(self, other: Kernel) -> Kernel:
        from .algebra import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float | Tensor) -> Kernel:
        from .algebra import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, other) if isinstance(other, numbers.Real | Tensor) else NotImplemented

    __rmul__ = __mul__


def _frozen(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _as_tuple(value.detach().cpu().double().tolist())
    return value._key() if isinstance(value, Kernel) else value


def _to_json(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu().double().tolist()
    if isinstance(value, tuple):
        return [_to_json(v) for v in value]
    return value


def scale_inputs(points: Tensor, length_scale: Parameter, name: str = "length_scale") -> Tensor:
    """points / length_scale, entrywise along the features."""
    scale = as_tensor(length_scale, points)
    if scale.ndim == 1 and len(scale) != points.shape[1]:
        raise ValueError(f"{name} has {len(scale)} entries but the points have {points.shape[1]} features")
    return points / scale


def exponent(length_scale: Parameter) -> int:
    """The power of two at or below a scalar; dividing by it is exact and keeps squares in range."""
    return math.frexp(float(length_scale))[1] - 1  # type: ignore[arg-type]
