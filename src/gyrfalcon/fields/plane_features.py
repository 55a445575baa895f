"""The interpolated product of planes alone, in any dimension: a module of PyTorch, and features for scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from gyrfalcon.arrays import Array

from .engine import AdamState, Engine, engine_for
from .layout import Layout, PenaltyWeights, penalty_slopes

RATE, LAST_RATE = 0.05, 0.01  # of Adam, and the share that is left at the end
BATCH = 256


class _Interpolation(torch.autograd.Function):
    """Features by an engine, whose derivatives it computes again."""

    @staticmethod
    def forward(ctx: Any, engine: Engine, layout: Layout, planes: Tensor, points: Tensor) -> Tensor:
        ctx.engine, ctx.layout = engine, layout
        ctx.save_for_backward(planes, points)
        return engine.features(layout, planes, points)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[None, None, Tensor, Tensor | None]:
        planes, points = ctx.saved_tensors
        found = torch.zeros_like(planes)
        wanted = ctx.needs_input_grad[3]
        in_points = ctx.engine.features_backward(
            ctx.layout, planes, points, slopes[0].contiguous(), found, in_points=wanted
        )
        return None, None, found, in_points


class PlaneFeatures(TransformerMixin, BaseEstimator, torch.nn.Module):  # type: ignore[misc]
    """Products of planes, f(q) = ∏_c ψ(P_c, π_c(q)), over all pairs of `dim` axes, the scales side by side.

    As a module it maps points of the unit cube to features, with derivatives in the planes and in the points. As a
    transformer it moves data to the unit cube, and learns its planes so that a linear function of the features predicts
    y; without y they stay random.

    Parameters
    ----------
    dim : int
        Axes, from 2 to 8.
    resolutions : tuple of int
        Nodes along each axis, for each scale.
    features : int
        Of each scale.
    combine : {"product", "sum"}
    variation : float
        Weight of the total variation of the planes, when they are learned from y.
    epochs : int
        Passes over the data, when they are learned from y.
    random_state : int, RandomState or None

    Attributes
    ----------
    planes : torch.nn.Parameter
        The numbers of all planes.

    Examples
    --------
    >>> import torch
    >>> from gyrfalcon.fields import PlaneFeatures
    >>> features = PlaneFeatures(dim=4, resolutions=(8, 16), features=4, random_state=0)
    >>> features(torch.rand(10, 4)).shape
    torch.Size([10, 8])
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> y = np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1])
    >>> model = make_pipeline(PlaneFeatures(dim=2, resolutions=(8, 16), random_state=0), Ridge(1e-3)).fit(X, y)
    >>> model.score(X, y) > 0.99
    True
    """

    def __init__(
        self,
        dim: int = 3,
        resolutions: tuple[int, ...] = (32, 64),
        features: int = 16,
        *,
        combine: str = "product",
        variation: float = 1e-4,
        epochs: int = 30,
        random_state: Any = None,
    ):
        torch.nn.Module.__init__(self)
        self.dim = dim
        self.resolutions = resolutions
        self.features = features
        self.combine = combine
        self.variation = variation
        self.epochs = epochs
        self.random_state = random_state
        self._begin()

    def _begin(self) -> None:
        if not 2 <= self.dim <= 8:
            raise ValueError(f"dim={self.dim!r} must be from 2 to 8")
        if self.combine not in ("product", "sum"):
            raise ValueError(f"combine={self.combine!r} is unknown: use 'product' or 'sum'")
        if not self.resolutions or min(self.resolutions) < 2 or self.features < 1:
            raise ValueError(
                f"resolutions={self.resolutions!r} and features={self.features!r}: at least 2 nodes, 1 feature"
            )
        sizes = tuple((int(r),) * self.dim for r in self.resolutions)
        self.layout = Layout(sizes, int(self.features), self.combine == "product")
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        generator = torch.Generator().manual_seed(seed)
        # Around one, so that products of many planes neither vanish nor grow.
        drawn = torch.rand(self.layout.parameters, generator=generator)
        self.planes = torch.nn.Parameter(0.5 + drawn)

    def forward(self, points: Tensor) -> Tensor:
        """Features of points of the unit cube; points outside are moved to its border."""
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ValueError(f"points have shape {tuple(points.shape)}, and (n, {self.dim}) is needed")
        planes = self.planes.to(points)
        engine = engine_for(points.device)
        return _Interpolation.apply(engine, self.layout, planes, points)  # type: ignore[no-any-return, no-untyped-call]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the range of the data, and learn the planes from y if it is given.

        Parameters
        ----------
        X : array of shape (n, dim)
        y : array of shape (n,) or (n, outputs), optional
        """
        X = validate_data(self, X, dtype=np.float32)
        if X.shape[1] != self.dim:
            raise ValueError(f"X has {X.shape[1]} features, and dim={self.dim}: set dim to their number")
        self._begin()
        self.low_, self.high_ = X.min(0), X.max(0)
        if y is not None:
            target = np.asarray(y, dtype=np.float32).reshape(len(X), -1)
            if not np.isfinite(target).all():
                raise ValueError("y contains NaN or infinity")
            self._learn(self._inside(X), torch.from_numpy((target - target.mean(0)) / (target.std(0) + 1e-12)))
        return self

    def transform(self, X: Any) -> Array:
        """Features of each row, of shape (n, scales × features)."""
        check_is_fitted(self, "low_")
        X = validate_data(self, X, dtype=np.float32, reset=False)
        with torch.no_grad():
            found: Array = self(self._inside(X)).numpy()
        return found

    def _inside(self, X: Array) -> Tensor:
        return torch.from_numpy((X - self.low_) / np.maximum(self.high_ - self.low_, np.finfo(np.float32).tiny))

    def _learn(self, points: Tensor, targets: Tensor) -> None:
        """Adam on the planes and on a linear function of the features."""
        engine = engine_for(points.device)
        generator = torch.Generator().manual_seed(0)
        planes = AdamState.of(self.planes.data)
        weights = torch.randn((self.layout.width, targets.shape[1]), generator=generator) / self.layout.width
        readout = AdamState.of(weights)
        slopes = penalty_slopes(self.layout, PenaltyWeights(self.variation))
        batches = max(1, len(points) // BATCH)
        total = self.epochs * batches
        for step in range(total):
            if step % batches == 0:
                order = torch.randperm(len(points), generator=generator)
            rows = order[step % batches :: batches]
            features = engine.features(self.layout, planes.parameters, points[rows])
            errors = (features @ weights - targets[rows]) * (2 / targets[rows].numel())
            engine.features_backward(self.layout, planes.parameters, points[rows], errors @ weights.T, planes.gradient)
            rate = RATE * (LAST_RATE + (1 - LAST_RATE) * (1 - step / total))
            engine.update(self.layout, planes, slopes, rate)
            readout.advance(features.T @ errors, rate)
