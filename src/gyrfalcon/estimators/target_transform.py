"""Targets with a long tail: maps that draw it in, and what a fit to mapped targets says of the targets themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch

from gyrfalcon.arrays import Array

MOST_SPREAD = 3.0  # of a logarithm: the deviation is then 90 times the mean, and beyond it soon overflows
MOST_EXPONENT = 300.0  # e to this power has a square that is finite


@dataclass(frozen=True)
class TargetTransform:
    """z = arsinh((y - origin) / scale) or log(y / scale): what a model is fitted to instead of one of its targets y.

    arsinh is linear where y is within `scale` of `origin` and grows like a logarithm beyond. Both maps are undone by
    y = origin + scale·(a eᶻ - b e⁻ᶻ), with a = b = ½ for arsinh, and a = 1, b = 0 for the logarithm.

    Where the model says f(x), the target is that of z = f(x) + r with some residual r, so that the conditional mean is
    origin + scale·(a growth e^f - b decay e^-f), with growth and decay the means of eʳ and e⁻ʳ over residuals of rows
    that were left out. Outside of the values that training targets have, this goes on as a straight line.

    Attributes
    ----------
    name : "arsinh" or "log"
    origin, scale : float
        In units of y.
    low, high : float
        Between these values of z the mean is as above.
    growth, decay : float

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.estimators.target_transform import TargetTransform
    >>> z = np.random.default_rng(0).normal(size=10_000)
    >>> logarithm = TargetTransform("log").reaching(z).with_residuals(z, np.ones(10_000))
    >>> bool(logarithm.back(0.0) == 1.0), bool(abs(logarithm.mean(0.0) - np.exp(0.5)) < 0.1)
    (True, True)
    """

    name: str
    origin: float = 0.0
    scale: float = 1.0
    low: float = -math.inf
    high: float = math.inf
    growth: float = 1.0
    decay: float = 1.0

    parts: ClassVar[dict[str, tuple[float, float]]] = {"arsinh": (0.5, 0.5), "log": (1.0, 0.0)}  # a and b

    def __post_init__(self) -> None:
        numbers = (self.origin, self.scale, self.growth, self.decay)
        if self.name not in self.parts or not all(map(math.isfinite, numbers)) or min(numbers[1:]) <= 0:
            raise ValueError(f"not a map of targets: {self!r}")

    def __str__(self) -> str:
        return (
            f"log(y / {self.scale:.4g})"
            if self.name == "log"
            else f"arsinh((y - {self.origin:.4g}) / {self.scale:.4g})"
        )

    def forward(self, y: Array) -> Array:
        """z of targets; of what has no logarithm, which only rows of no weight may be, that of the least number."""
        if self.name == "log":
            return np.asarray(np.log(np.maximum(y, np.finfo(float).tiny)) - math.log(self.scale))
        return np.asarray(np.arcsinh((y - self.origin) / self.scale))

    def back(self, z: Any) -> Any:
        """y of values of z; quantiles stay quantiles."""
        a, b = self.parts[self.name]
        z = _clipped(z, -MOST_EXPONENT, MOST_EXPONENT)
        return self.origin + self.scale * (a * np.exp(z) - b * np.exp(-z))

    def mean(self, z: Any) -> Any:
        """The conditional mean of y where the model says z; arrays and tensors."""
        a, b = self.parts[self.name]
        exp, inside = torch.exp if isinstance(z, torch.Tensor) else np.exp, self._inside(z)
        rising, falling = a * self.growth * exp(inside), b * self.decay * exp(-inside)
        beyond = _clipped(z - inside, -math.inf if b else 0.0, math.inf)
        return self.origin + self.scale * (rising - falling + (rising + falling) * beyond)

    def quantile(self, z: Array, end: Array) -> Array:
        """The quantile of y that z has at `end` where the model says z; beyond the targets it moves with the mean."""
        inside = self._inside(z)
        return np.asarray(self.back(end + (inside - z)) + (self.mean(z) - self.mean(inside)))

    def deviation(self, z: Array, spread: Array) -> Array:
        """The standard deviation of y where z is normal with that mean and spread."""
        own = self._covariance(z, z, spread, spread, np.minimum(spread, MOST_SPREAD) ** 2)
        return np.asarray(self.scale * np.sqrt(own))  # the scale comes last: its square may overflow

    def covariance(self, z: Array, covariance: Array) -> Array:
        """Covariances of y, where those of z, which are jointly normal with some means, are given."""
        spread = np.sqrt(covariance.diagonal())
        shrunk = MOST_SPREAD / np.maximum(spread, MOST_SPREAD)
        shared = covariance * shrunk[:, None] * shrunk
        return self.scale * (self.scale * self._covariance(z[:, None], z, spread[:, None], spread, shared))

    def _covariance(self, z: Array, others: Array, spread: Array, spreads: Array, shared: Array) -> Array:
        """In units of the scale."""
        a, b = self.parts[self.name]
        z, others = self._inside(z), self._inside(others)
        half = (np.minimum(spread, MOST_SPREAD) ** 2 + np.minimum(spreads, MOST_SPREAD) ** 2) / 2
        alike = a**2 * np.exp(z + others + half) + b**2 * np.exp(half - z - others)
        opposite = a * b * (np.exp(z - others + half) + np.exp(others - z + half))
        return np.asarray(alike * np.expm1(shared) - opposite * np.expm1(-shared))

    def _inside(self, z: Any) -> Any:
        """z, or the end of the training targets that is nearest; below them a logarithm needs no care."""
        low = -MOST_EXPONENT if self.name == "log" else max(self.low, -MOST_EXPONENT)
        return _clipped(z, low, min(self.high, MOST_EXPONENT))

    def reaching(self, z: Array) -> Self:
        """The same, knowing that there are targets with these values of z."""
        ends = [float(z.min()), float(z.max())]
        if math.isfinite(self.high):
            ends += [self.low, self.high]
        return replace(self, low=min(ends), high=max(ends))

    def with_residuals(self, residuals: Array, weights: Array) -> Self:
        """The same with the residuals of z of some rows that were left out."""
        residuals = np.clip(residuals, -MOST_EXPONENT, MOST_EXPONENT)
        growth, decay = (float(np.average(np.exp(values), weights=weights)) for values in (residuals, -residuals))
        return replace(self, growth=growth, decay=decay)


def _clipped(z: Any, low: float, high: float) -> Any:
    return z.clamp(low, high) if isinstance(z, torch.Tensor) else np.clip(z, low, high)


def fitted_to(estimator: Any) -> str:
    """What a regression is fitted to, in words: "y", or each output as it is transformed."""
    found = getattr(estimator, "target_transform_", None)
    if found is None:
        return "y"
    return ", ".join("y" if each is None else str(each) for each in (found if isinstance(found, list) else [found]))
