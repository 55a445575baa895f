"""Losses with a kink made smooth: a corner that is rounded over a given width."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from .base import Loss, MarginLoss, ProfileLoss, ResidualLoss


@dataclass(frozen=True)
class Smoothed(ProfileLoss):
    """φ(u) + jump·width·log(1 + exp(-abs(u - kink)/width)), for φ of two straight pieces that meet at the kink.

    It is the mean of φ over logistic noise of that width in u: smooth, convex, and above φ by jump·width·log 2 at most.
    `smoothed` makes it.

    Parameters
    ----------
    loss : ProfileLoss
        Of residuals or of margins, with a `kink`.
    width : float

    Examples
    --------
    >>> import torch, gyrfalcon.losses as gl
    >>> near = gl.smoothed(gl.Hinge(), 0.1)
    >>> near.value(torch.tensor([[1.0], [3.0]]), torch.ones(2, 1)).round(decimals=4)
    tensor([0.0693, 0.0000], dtype=torch.float64)
    """

    loss: ProfileLoss
    width: float

    name: ClassVar[str] = "smoothed"

    def phi(self, u: Tensor) -> Tensor:
        return self.loss.phi(u) + self.loss.jump * self.width * softplus(-self._distance(u).abs())

    def slope(self, u: Tensor) -> Tensor:
        return self._left + self.loss.jump * torch.sigmoid(self._distance(u))

    def bend(self, u: Tensor) -> Tensor:
        share = torch.sigmoid(self._distance(u))
        return self.loss.jump / self.width * share * (1 - share)

    @abstractmethod
    def arguments(self, F: Tensor, Y: Tensor) -> Tensor:
        """The numbers u that φ is taken of."""

    def distances(self, F: Tensor, Y: Tensor) -> Tensor:
        """How far the arguments of φ are from the kink, in widths."""
        return self._distance(self.arguments(F, Y)).abs()

    def gap(self, F: Tensor, Y: Tensor) -> Tensor:
        """The loss with its kink, minus the tangent below it that has the slope of this one, of shape (n,).

        At the minimizer of the smoothed risk, the mean over the rows is the duality gap: no function has a risk with
        the kink that is lower by more.
        """
        distance = self.distances(F, Y)
        return (self.loss.jump * self.width * distance * torch.sigmoid(-distance)).sum(1)

    def _distance(self, u: Tensor) -> Tensor:
        return (u - self._kink) / self.width

    @property
    def _kink(self) -> float:
        assert self.loss.kink is not None
        return self.loss.kink

    @property
    def _left(self) -> float:
        """The slope to the left of the kink."""
        return float(self.loss.slope(torch.tensor(self._kink - 1, dtype=torch.float64)))


class _SmoothedResidual(Smoothed, ResidualLoss):
    def arguments(self, F: Tensor, Y: Tensor) -> Tensor:
        return F.double() - Y.double()


class _SmoothedMargin(Smoothed, MarginLoss):
    def arguments(self, F: Tensor, Y: Tensor) -> Tensor:
        return (F.double() * Y.double()).sum(1, keepdim=True)

    def log_odds(self, u: Tensor) -> Tensor:
        return -torch.log(-self.slope(u))


def has_kink(loss: Loss) -> bool:
    """Whether `smoothed` takes the loss.

    >>> import gyrfalcon.losses as gl
    >>> [name for name, loss in gl.LOSSES.items() if gl.has_kink(loss)]
    ['absolute', 'quantile', 'hinge']
    """
    return isinstance(loss, ResidualLoss | MarginLoss) and loss.kink is not None


def smoothed(loss: Loss, width: float) -> Smoothed:
    """The loss with its kink rounded over a width, in the units of residuals or margins.

    Parameters
    ----------
    loss : Loss
        `Hinge`, `Absolute`, `Quantile`, or another loss of residuals or margins that names its `kink` and `jump`.
    width : float

    Examples
    --------
    >>> import torch, gyrfalcon.losses as gl
    >>> gl.smoothed(gl.Absolute(), 0.5).curvature(torch.zeros(1, 1), torch.zeros(1, 1))
    tensor([[1.]], dtype=torch.float64)
    """
    if not has_kink(loss):
        raise ValueError(f"loss: the {loss.name} loss names no kink that could be rounded")
    if not width > 0:
        raise ValueError(f"width must be positive, got {width!r}")
    return _SmoothedResidual(loss, width) if isinstance(loss, ResidualLoss) else _SmoothedMargin(loss, width)  # type: ignore[arg-type]
