"""What a regression answers as the Gaussian process whose mean it is: intervals, samples and the evidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm
from sklearn.utils import check_random_state

from gyrfalcon.arrays import Array, as_kind
from gyrfalcon.data import Points
from gyrfalcon.data.dask_source import is_dask
from gyrfalcon.matrix import KernelMatrix

from .dask_predictions import by_partition
from .data import hand_back, read_points, refuse_gradients
from .target_transform import TargetTransform
from .uncertainty import UncertaintyMixin


class GaussianProcessMixin(UncertaintyMixin):
    """For an estimator with coefficients and targets."""

    coefficients_: Array
    if TYPE_CHECKING:  # methods of the estimator, which comes after the mixin in the order of bases

        def _outputs(self, X: Any) -> Array: ...

        def _handed_back(self, values: Array, X: Any) -> Any: ...

    def predict_interval(self, X: Any, coverage: float = 0.95) -> tuple[Any, Any]:
        """The lower and the upper ends of intervals that hold a new observation with some probability.

        They are mean ∓ z·std, with the normal quantile z and the deviation of `predict(return_std=True)`. Where the
        targets were transformed, they are such ends of what the targets were transformed to, transformed back: as many
        observations are between them, and they do not lie symmetrically around the mean. Outside of the values that
        training targets have, they move along a straight line as the mean does.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
        coverage : float
            Between 0 and 1.

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.linspace(0, 6, 100)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=100)
        >>> low, high = gf.KernelRegressor().fit(X, y).predict_interval(X, coverage=0.9)
        >>> bool(0.8 < np.mean((low < y) & (y < high)) <= 1)
        True
        """
        z = normal_quantile(coverage)
        if is_dask(X):
            low, high = (by_partition(self, X, "_interval_end", deviations=side) for side in (-z, z))
            return low, high
        refuse_gradients(self, X)
        values, spreads = self._outputs(X), self._spreads(X)
        return self._ended(values, -z * spreads, X), self._ended(values, z * spreads, X)

    def _interval_end(self, X: Any, deviations: float) -> Any:
        return self._ended(self._outputs(X), deviations * self._spreads(X), X)

    def _ended(self, values: Array, away: Array, X: Any) -> Any:
        """Quantiles of new observations, so far from what the function says."""
        return self._handed_back(self._targets.each(TargetTransform.quantile, values, values + away), X)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Functions drawn from the posterior, at the rows of X, without noise; of shape (n, n_samples).

        With several outputs the shape is (n, t, n_samples). The n × n covariance is made for it. Where the targets were
        transformed, functions are transformed back as they are drawn: they are medians of observations, not means.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
        n_samples : int
        random_state : int, RandomState or None

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.linspace(0, 6, 50)[:, None]
        >>> model = gf.KernelRegressor().fit(X, np.sin(X[:, 0]))
        >>> model.sample_y(X, 3).shape
        (50, 3)
        """
        mean, covariance = self._joint(X)
        random = check_random_state(random_state)
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        spread = np.sqrt(self._evidence["prior"] * self._widening) * self._targets.unit
        draws = root @ random.standard_normal((len(mean), len(spread) * n_samples))
        out = mean[:, :, None] + draws.reshape(len(mean), len(spread), n_samples) * spread[:, None]
        if any(self._targets.transforms):
            draws = np.moveaxis(out, 2, 0)
            out = np.stack([self._targets.each(TargetTransform.quantile, mean, draw) for draw in draws], 2)
        return np.asarray(out[:, 0] if self.coefficients_.ndim == 1 else out)

    def log_marginal_likelihood(self) -> float:
        """The logarithm of the evidence of the training targets, given the fitted kernel, noise and intercept.

        For n rows of unit weight, y - b ~ N(0, s²(K̃ + n·penalty·I)) with the Nyström approximation K̃ of the kernel
        matrix, which is the matrix itself if every row is a center. s² is that of maximum likelihood, and the result is
        -n/2·(1 + log 2πs²) - ½ log det(K̃ + n·penalty·I), the sum over the outputs. Of targets that were transformed it
        is that of what they were transformed to, which says nothing about the transform.

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.linspace(0, 6, 50)[:, None]
        >>> short, good = (gf.KernelRegressor(gf.kernels.Gaussian(s)).fit(X, np.sin(X[:, 0])) for s in (0.01, 1.0))
        >>> good.log_marginal_likelihood() > short.log_marginal_likelihood()
        True
        """
        posterior = self._ready_posterior("log_marginal_likelihood")
        noise, prior = self._evidence["noise"], self._evidence["prior"]
        n = float(np.mean(noise / (prior * self.penalty_)))  # the sum of the weights
        unit = self._targets.unit
        determinant = n * math.log(n * self.penalty_) + posterior.log_determinant()
        return float(np.sum(-n / 2 * (1 + np.log(2 * np.pi * prior * unit**2)) - determinant / 2))

    def _with_covariance(self, X: Any, mean: Any) -> tuple[Any, Array]:
        """What `predict` returns with `return_cov`: the covariance of new observations, noise included."""
        outputs, covariance = self._joint(X)
        scales, noise = self._targets.unit**2 * self._widening, np.eye(len(covariance))
        transforms = self._targets.transforms or (None,) * len(scales)
        each = []
        for place, (transform, scale) in enumerate(zip(transforms, scales, strict=True)):
            prior, level = self._evidence["prior"][place], self._evidence["noise"][place]
            own = (covariance * prior + noise * level) * scale
            each.append(own if transform is None else transform.covariance(outputs[:, place], own))
        return mean, each[0] if self.coefficients_.ndim == 1 else np.stack(each, 2)

    def _joint(self, X: Any) -> tuple[Array, Array]:
        """The means of the outputs, of shape (n, t), and the covariance of f in units of the prior's variance."""
        posterior = self._ready_posterior("return_cov")
        points = as_kind(read_points(self, X, reset=False), self.centers_)
        K = self._toward_centers(points)
        square = KernelMatrix(self.kernel_, Points(points), cache=False)
        every = slice(0, K.shape[0])
        covariance = posterior.covariance(K.wide_block(every), square.wide_block(every))
        return self._outputs(X), covariance


def normal_quantile(coverage: float) -> float:
    """How many deviations around the mean hold such a share of a normal distribution.

    >>> round(normal_quantile(0.95), 2)
    1.96
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}")
    return float(norm.ppf((1 + coverage) / 2))


def in_columns(values: Any, name: str, outputs: list[str]) -> dict[str, Array]:
    """Values of one output under a name, of several under names with those of the outputs after them."""
    array = np.asarray(hand_back(values, None, outputs, "default"))
    if array.ndim == 1:
        return {name: array}
    return {f"{name}_{output}": column for output, column in zip(outputs, array.T, strict=True)}
