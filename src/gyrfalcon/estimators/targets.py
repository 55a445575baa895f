"""Targets: from what users give to what solvers fit, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.losses import Coding, Loss, Simplex, Squared

from .target_transform import TargetTransform

Coefficients = tuple[Tensor, Tensor]
"""Coefficients of shape (m, t) and intercepts of shape (t,), in the units of the solver."""


class Targets(Protocol):
    """What a fit needs to know of its targets."""

    @property
    def loss(self) -> Loss: ...

    @property
    def unit(self) -> Any:
        """What one unit of the solver is in units of the targets, by output."""
        ...

    def encode(self, y: Array) -> Array:
        """Targets in the units of the solver, of shape (n, t)."""
        ...

    def decode(self, solution: Coefficients) -> tuple[Array, Any]:
        """Fitted coefficients and intercept in the units of the targets, as users see them."""
        ...

    def error(self, outputs: Array, y: Array, weights: Array | None) -> float:
        """How far predictions are from targets on average, given outputs of the function, of shape (n, t)."""
        ...


@dataclass(frozen=True)
class RegressionTargets:
    """Numbers, of which the mean is taken away and the spread becomes one, after a map of those with a long tail.

    Attributes
    ----------
    loss : Loss
    location, scale : arrays of shape (t,)
        The mean, or zero without an intercept, and the root mean square distance from it; one for a loss that has a
        scale of its own. Of targets as they are mapped.
    flat : bool
        Whether there is one output that users see as a vector.
    transforms : tuple of TargetTransform or None
        What each output is mapped by; empty if none is mapped.
    """

    loss: Loss
    location: Array
    scale: Array
    flat: bool
    transforms: tuple[TargetTransform | None, ...] = ()

    @classmethod
    def of(
        cls,
        y: Array,
        weights: Array | None,
        loss: Loss,
        *,
        centered: bool,
        transforms: Sequence[TargetTransform | None] = (),
    ) -> RegressionTargets:
        flat, Z = y.ndim == 1, _mapped(transforms, y.reshape(len(y), -1))
        location, scale = _location_and_scale(Z, weights, centered=centered)
        reached = _reaching(transforms, Z, weights)
        return cls(loss, location, scale if isinstance(loss, Squared) else np.ones_like(scale), flat, reached)

    @property
    def unit(self) -> Array:
        return self.scale

    def encode(self, y: Array) -> Array:
        Y = _mapped(self.transforms, y.reshape(len(y), -1)) - self.location
        Y /= self.scale
        return Y

    def decode(self, solution: Coefficients) -> tuple[Array, Any]:
        beta = as_numpy(solution[0]) * self.scale
        offset = as_numpy(solution[1]) * self.scale + self.location
        return (beta[:, 0], float(offset[0])) if self.flat else (beta, offset)

    def start(self, coefficients: Array, intercept: Any) -> Coefficients:
        """What `decode` made, in the units of the solver again."""
        beta = coefficients.reshape(len(coefficients), -1) / self.scale
        return torch.from_numpy(beta), torch.from_numpy((np.atleast_1d(intercept) - self.location) / self.scale)

    def reaching(self, y: Array, weights: Array | None) -> RegressionTargets:
        """The same, knowing that there are these targets too."""
        Z = _mapped(self.transforms, y.reshape(len(y), -1))
        return replace(self, transforms=_reaching(self.transforms, Z, weights))

    def each(self, change: Callable[..., Any], *columns: Array) -> Array:
        """Columns by output, of which the first are changed by a method of the map where an output has one."""
        if not self.transforms:
            return columns[-1]
        by_output = zip(self.transforms, *(array.T for array in columns), strict=True)
        return np.stack([own[-1] if map is None else change(map, *own) for map, *own in by_output], 1)

    def means(self, outputs: Array) -> Array:
        """The conditional means of the targets, given outputs of the function, of shape (n, t)."""
        return self.each(TargetTransform.mean, outputs)

    def error(self, outputs: Array, y: Array, weights: Array | None) -> float:
        """The root mean square, averaged over the outputs, or the mean of a loss that is not squared."""
        truth = y.reshape(outputs.shape)
        if not isinstance(self.loss, Squared):
            losses = self.loss.value(torch.from_numpy(outputs), torch.from_numpy(truth))
            return float(np.average(as_numpy(losses), weights=weights))
        scale = _peak(truth) if self.transforms else self.scale
        squares = np.average(((self.means(outputs) - truth) / scale) ** 2, axis=0, weights=weights)
        return float((np.sqrt(squares) * scale).mean())


class _Coded:
    """Labels that are fitted as codes, in the units of the solver."""

    @property
    def unit(self) -> float:
        return 1.0

    def decode(self, solution: Coefficients) -> tuple[Array, Any]:
        return as_numpy(solution[0]), as_numpy(solution[1])

    def reaching(self, y: Array, weights: Array | None) -> Self:
        """The same: codes reach no further."""
        return self

    def start(self, coefficients: Array, intercept: Any) -> Coefficients:
        """What `decode` made, as the solver knows it."""
        return torch.from_numpy(coefficients), torch.from_numpy(intercept)


@dataclass(frozen=True)
class ClassTargets(_Coded):
    """Labels, each the code of its class.

    Attributes
    ----------
    loss : Loss
    classes : array of shape (k,)
    coding : Coding
    """

    loss: Loss
    classes: Array
    coding: Coding

    def indices(self, labels: Array, weights: Array | None, name: str = "y") -> Array:
        """The number of each label's class; rows of no weight may have any label."""
        places = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
        unknown = self.classes[places] != labels
        if weights is not None:
            unknown &= weights > 0
        if unknown.any():
            raise ValueError(f"{name} has the label {labels[unknown].tolist()[0]!r}, which is none of the classes of y")
        return places

    def check(self, y: Array, name: str) -> None:
        """Refuse labels that are none of the classes."""
        self.indices(y, None, name)

    def encode(self, y: Array, weights: Array | None = None, name: str = "y") -> Array:
        return self.coding.encode(self.indices(y, weights, name))

    def shares(self, outputs: Array) -> Array:
        """What outputs of least squares say of the probability of each class, of shape (n, k)."""
        scores: Array = outputs @ self.coding.codes.T
        k = len(self.coding.codes)
        return (1 + (k - 1) * scores) / k if isinstance(self.coding, Simplex) else scores

    def outputs_of(self, offsets: Array) -> Array:
        """The change of outputs that changes shares by offsets of zero sum."""
        return np.asarray(self.coding.codes.T @ offsets)

    def judged(self, outputs: Array, y: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Shares, which of them is true, and weights, for a calibration."""
        return self.shares(outputs), self.indices(y, None), weights

    def error(self, outputs: Array, y: Array, weights: Array | None) -> float:
        """The mean loss."""
        codes = self.encode(y, weights, "y_val")
        losses = self.loss.value(torch.from_numpy(outputs), torch.from_numpy(codes))
        return float(np.average(as_numpy(losses), weights=weights))


@dataclass(frozen=True)
class LabelTargets(_Coded):
    """Several labels for each row, 1 where they are there and -1 where they are not.

    Attributes
    ----------
    loss : Loss
    kind : dtype
        Of the indicators, 0 and 1, that users give and get.
    """

    loss: Loss
    kind: np.dtype[Any]

    def check(self, y: Array, name: str) -> None:
        """Nothing is left to check of zeros and ones."""

    def encode(self, y: Array) -> Array:
        return 2.0 * y - 1.0

    def error(self, outputs: Array, y: Array, weights: Array | None) -> float:
        """The mean loss."""
        losses = self.loss.value(torch.from_numpy(outputs), torch.from_numpy(self.encode(y)))
        return float(np.average(as_numpy(losses), weights=weights))

    def shares(self, outputs: Array) -> Array:
        """Of each row and label in turn, what least squares says of the probabilities that it is not there, and is."""
        present = (1 + outputs.reshape(-1, 1)) / 2
        return np.concatenate([1 - present, present], 1)

    def judged(self, outputs: Array, y: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Shares, which of the two is true, and weights, for a calibration that all labels have in common."""
        return self.shares(outputs), y.astype(np.intp).ravel(), np.repeat(weights, y.shape[1])


def check_same_kind(known: Array, labels: Array) -> None:
    """Refuse labels that are text where the classes so far are numbers, or numbers where they are text."""
    if len(known) and len(labels) and _is_text(known) != _is_text(labels):
        raise ValueError(
            f"y holds labels such as {labels.tolist()[0]!r}, but the classes so far are {known[:5].tolist()}: labels "
            "must be all numbers or all text"
        )


def _is_text(labels: Array) -> bool:
    return isinstance(labels.tolist()[0], str | bytes)


def _mapped(transforms: Sequence[TargetTransform | None], Y: Array) -> Array:
    if not transforms:
        return Y
    return np.stack([y if map is None else map.forward(y) for map, y in zip(transforms, Y.T, strict=True)], 1)


def _reaching(
    transforms: Sequence[TargetTransform | None], Z: Array, weights: Array | None
) -> tuple[TargetTransform | None, ...]:
    """Maps that know of the rows with weight, whose mapped targets are Z."""
    present = Z if weights is None else Z[weights > 0]
    return tuple(each and each.reaching(column) for each, column in zip(transforms, present.T, strict=False))


def _peak(Y: Array) -> Array:
    """The largest absolute value of each column; one if there are zeros only."""
    peak = np.abs(Y).max(0)
    return np.where(peak > 0, peak, 1.0)


def _location_and_scale(Y: Array, weights: Array | None, *, centered: bool) -> tuple[Array, Array]:
    """Mean (zero unless centered) and root mean square distance from it of each column, safe from overflow."""
    peak = _peak(Y if weights is None else Y[weights > 0])
    scaled = Y / peak
    mean = np.average(scaled, axis=0, weights=weights) if centered else np.zeros(Y.shape[1])
    spread = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weights))
    return mean * peak, np.where(spread > 4 * np.finfo(float).eps, spread, 1.0) * peak
