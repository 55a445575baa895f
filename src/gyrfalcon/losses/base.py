"""What a loss is: a convex function of the predictions of one point, with its derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .coding import Simplex


@dataclass(frozen=True)
class Loss(ABC):
    """ℓ(f, y) for predictions F and targets Y, both of shape (n, t), one point a row.

    Everything is computed and returned in float64, on the device of F, and is finite for predictions up to 10⁶. A loss
    with kinks is not `smooth`: its gradient is a subgradient there, its second derivative is zero elsewhere, and
    solvers that need one refuse it.

    Examples
    --------
    >>> import torch
    >>> from gyrfalcon.losses import LOSSES
    >>> F, Y = torch.tensor([[3.0]]), torch.tensor([[1.0]])
    >>> LOSSES["squared"].value(F, Y).tolist(), LOSSES["squared"].gradient(F, Y).tolist()
    ([4.0], [[4.0]])
    """

    name: ClassVar[str]
    smooth: ClassVar[bool] = True
    relative: ClassVar[bool] = False  # whether only differences of outputs matter
    native: ClassVar[str | None] = None  # its name in the compiled core, which makes stochastic steps; see native_name

    @property
    def native_parameter(self) -> float:
        """The number that the loss in the compiled core depends on, if it depends on one."""
        return 0.0

    def native_name(self) -> str | None:
        """Its name in the compiled core, if its own class gives one; a subclass may have other formulas."""
        name: str | None = vars(type(self)).get("native")
        return name

    @abstractmethod
    def value(self, F: Tensor, Y: Tensor) -> Tensor:
        """ℓ of each point, of shape (n,)."""

    @abstractmethod
    def gradient(self, F: Tensor, Y: Tensor) -> Tensor:
        """∂ℓ/∂f, of shape (n, t)."""

    def by_output(self, F: Tensor, Y: Tensor) -> Tensor:
        """ℓ of each point in the outputs that it is a sum over, of shape (n, t); of shape (n, 1) if it is none."""
        return self.value(F, Y)[:, None]

    @abstractmethod
    def hessian_product(self, F: Tensor, Y: Tensor, V: Tensor) -> Tensor:
        """The t × t second derivative of each point times its row of V, of shape (n, t)."""

    def hessian_at(self, F: Tensor, Y: Tensor, *, like: Tensor) -> Callable[[Tensor], Tensor]:
        """V ↦ `hessian_product(F, Y, V)` for many V of the type and the memory order of `like`, which it keeps."""
        return lambda V: self.hessian_product(F, Y, V).to(like.dtype)

    @abstractmethod
    def curvature(self, F: Tensor, Y: Tensor) -> Tensor:
        """The mean of the diagonal of each point's second derivative, of shape (n, 1): ℓ'' itself for one output."""

    def check_targets(self, Y: Tensor) -> None:  # noqa: B027 - any numbers will do, unless a loss says otherwise
        """Raise a ValueError for targets that the loss is not made for."""


class ProfileLoss(Loss):
    """A loss made of a function φ of one number, with its slope φ' and its bend φ''.

    One of two straight pieces says where they meet and how much the slope grows there; `smoothed` rounds that corner.
    """

    kink: ClassVar[float | None] = None
    jump: ClassVar[float] = 0.0

    @abstractmethod
    def phi(self, u: Tensor) -> Tensor:
        """φ(u)."""

    @abstractmethod
    def slope(self, u: Tensor) -> Tensor:
        """φ'(u)."""

    @abstractmethod
    def bend(self, u: Tensor) -> Tensor:
        """φ''(u)."""


class ResidualLoss(ProfileLoss):
    """ℓ(f, y) = Σₖ φ(fₖ - yₖ), for regression.

    Examples
    --------
    >>> import torch
    >>> from gyrfalcon.losses import ResidualLoss
    >>> class Quartic(ResidualLoss):
    ...     name = "quartic"
    ...
    ...     def phi(self, u):
    ...         return u**4
    ...
    ...     def slope(self, u):
    ...         return 4 * u**3
    ...
    ...     def bend(self, u):
    ...         return 12 * u**2
    >>> Quartic().gradient(torch.tensor([[3.0]]), torch.tensor([[1.0]])).tolist()
    [[32.0]]
    """

    def value(self, F: Tensor, Y: Tensor) -> Tensor:
        return self.by_output(F, Y).sum(1)

    def by_output(self, F: Tensor, Y: Tensor) -> Tensor:
        return self.phi(F.double() - Y.double())

    def gradient(self, F: Tensor, Y: Tensor) -> Tensor:
        return self.slope(F.double() - Y.double())

    def hessian_product(self, F: Tensor, Y: Tensor, V: Tensor) -> Tensor:
        return self.bend(F.double() - Y.double()) * V.double()

    def curvature(self, F: Tensor, Y: Tensor) -> Tensor:
        return self.bend(F.double() - Y.double()).mean(1, keepdim=True)


class MarginLoss(ProfileLoss):
    """ℓ(f, y) = φ(⟨f, y⟩), for classes coded as unit vectors: ±1 for two, a simplex for more; see `Simplex`.

    Examples
    --------
    >>> import torch
    >>> from gyrfalcon.losses import Logistic, MarginLoss, Simplex
    >>> isinstance(Logistic(), MarginLoss)
    True
    >>> F = torch.from_numpy(3 * Simplex(3).encode([1]))  # far on the side of class 1
    >>> Logistic().probabilities(F).argmax(1).tolist()
    [1]
    """

    def value(self, F: Tensor, Y: Tensor) -> Tensor:
        return self.phi(_margins(F, Y))[:, 0]

    def gradient(self, F: Tensor, Y: Tensor) -> Tensor:
        return self.slope(_margins(F, Y)) * Y.double()

    def hessian_product(self, F: Tensor, Y: Tensor, V: Tensor) -> Tensor:
        return self.bend(_margins(F, Y)) * _margins(V, Y) * Y.double()

    def curvature(self, F: Tensor, Y: Tensor) -> Tensor:
        return self.bend(_margins(F, Y)) * Y.double().square().mean(1, keepdim=True)

    def probabilities(self, F: Tensor) -> Tensor:
        """Of each class, of shape (n, t + 1): at the best f, the probability of a class is proportional to
        -1/φ' of its margin, for then the gradients of all classes, whose codes add up to zero, balance.
        """
        codes = torch.from_numpy(Simplex(F.shape[1] + 1).codes).to(F.device)
        return torch.softmax(self.log_odds(F.double() @ codes.T), 1)

    @abstractmethod
    def log_odds(self, u: Tensor) -> Tensor:
        """log(-1/φ'(u))."""

    def check_targets(self, Y: Tensor) -> None:
        if not torch.allclose(Y.double().norm(dim=1), torch.ones(len(Y), dtype=torch.float64, device=Y.device)):
            raise ValueError(
                f"Y must hold -1 and 1, or the unit vectors of a simplex, for the {self.name} loss: "
                "encode classes with gyrfalcon.losses.Simplex"
            )


def _margins(F: Tensor, Y: Tensor) -> Tensor:
    return (F.double() * Y.double()).sum(1, keepdim=True)
