from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gyrfalcon.estimators.data import hand_back, read_points, read_targets
from gyrfalcon.native import core
from gyrfalcon.persistence import State

from .base import LARGEST, RecursiveEstimator
from .factor import Factor

Array = np.ndarray[Any, Any]


class RecursiveRegressor(RegressorMixin, RecursiveEstimator):  # type: ignore[misc]
    """Regression that learns from a stream and is at every moment the exact solution for all rows seen.

    It minimizes Σᵢ wᵢ ‖yᵢ - W'z(xᵢ) - b‖² + penalty ‖W‖², where z(x) are features of x. The state is the triangular
    factor of the stacked rows, in float64 whatever the data are; its size does not depend on the number of rows, an
    update costs the square of the number of features, and the order of rows or how they are cut into batches does not
    matter.

    Parameters
    ----------
    features : None or transformer
        What the model is linear in: X itself, or what `RandomFeatures` or any transformer of scikit-learn makes of it.
        One that is not fitted yet is fitted to the first batch, so let that be large enough, or pass a fitted one.
    penalty : float
        On the sum of the squares, not on their mean as elsewhere in this library: a prior that does not grow with the
        stream.
    forgetting : float
        Each row multiplies the weights of all rows before it by this number; the penalty does not fade.
    window : int, optional
        Learn from the last so many rows only. They are kept.
    fit_intercept : bool
        Add a constant, which is not penalized.

    Attributes
    ----------
    coefficients_ : array of shape (d,) or (d, outputs)
        W.
    intercept_ : float or array
    noise_variance_ : float or array
        The variance of the noise that makes the rows most likely.
    n_seen_ : int
        Rows learned from.
    features_ : transformer
        The fitted one.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> random = np.random.default_rng(0)
    >>> model = gf.online.RecursiveRegressor(gf.RandomFeatures(n_features=100, random_state=0))
    >>> for _ in range(20):
    ...     X = random.uniform(-3, 3, size=(50, 1))
    ...     model = model.partial_fit(X, np.sin(X[:, 0]) + 0.1 * random.normal(size=50))
    >>> mean, std = model.predict(np.array([[1.0], [9.0]]), return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 0.05), bool(std[1] > 2 * std[0])
    (True, True)
    """

    _flat: bool
    _slots: tuple[Array, list[Array]] | None = None  # rows that wait, and the places of the features in them

    def __init__(
        self,
        features: Any = None,
        *,
        penalty: float = 1e-3,
        forgetting: float = 1.0,
        window: int | None = None,
        fit_intercept: bool = True,
    ):
        self.features = features
        self.penalty = penalty
        self.forgetting = forgetting
        self.window = window
        self.fit_intercept = fit_intercept

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget all that was learned, and learn from these rows.

        Parameters
        ----------
        X : array, data frame, tensor, sparse matrix or file of shape (n, features)
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional
        """
        return self._learn(X, y, sample_weight, reset=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from more rows, as many as there are.

        Parameters
        ----------
        X : array, data frame, tensor, sparse matrix or file of shape (n, features)
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional
        """
        return self._learn(X, y, sample_weight, reset=not hasattr(self, "_memory"))

    def learn_one(self, x: Any, y: Any) -> None:
        if not self._learn_quickly(x, y):
            super().learn_one(x, y)

    learn_one.__doc__ = RecursiveEstimator.learn_one.__doc__

    def _learn_quickly(self, x: Any, y: Any) -> bool:
        """Learn from a dictionary of plain features, whose numbers go straight to where rows wait to be taken up."""
        memory = self.__dict__.get("_memory")
        if type(memory) is not Factor or type(x) is not dict or self._keys is None or core is None:
            return False
        if self.features_ is not None or self.forgetting != 1.0 or not self._flat:
            return False
        if self._slots is None or self._slots[0] is not memory.pending:
            memory.pending[:, : int(self.fit_intercept)] = 1.0
            self._slots = memory.pending, [row[int(self.fit_intercept) : -1] for row in memory.pending]
        place = memory.slot
        if not (core.read_row(x, self._keys, self._slots[1][place], LARGEST) and -LARGEST <= y <= LARGEST):
            return False  # the longer way says what is wrong
        memory.pending[place, -1] = y
        memory.push()
        self.n_seen_ += 1
        return True

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicted targets, as the kind of X; with `return_std` also the standard deviation of a new observation.

        The deviation is that of Bayesian linear regression, its noise included; the prior of W is that which the
        penalty stands for, and the noise has the variance of maximum likelihood.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, features)
        return_std : bool
        """
        if not return_std:
            return self._handed_back(self._outputs(X), X)
        check_is_fitted(self, "_memory")
        points, factor = read_points(self, X, reset=False), self._factor()
        mean = np.empty((points.shape[0], factor.outputs))
        variance = np.empty(points.shape[0])
        for rows, design in self._designs(points):
            V, mean[rows] = factor.project(design)
            variance[rows] = factor.variances(V)
        deviation = np.sqrt((1.0 + variance[:, None]) * self._noise())
        return self._handed_back(mean, X), self._handed_back(deviation, X)

    def predict_one(self, x: Any, with_std: bool = False) -> Any:
        """The prediction for one row, zero before any was learned: see `learn_one`.

        Parameters
        ----------
        x : mapping of str to float, or sequence of floats
        with_std : bool
            Also give the standard deviation.
        """
        if not hasattr(self, "_memory"):
            return (0.0, np.inf) if with_std else 0.0
        V, values = (factor := self._factor()).project(self._design_of_one(x))
        mean = float(values[0, 0]) if self._flat else values[0]
        if not with_std:
            return mean
        deviation = np.sqrt((1.0 + factor.variances(V)[0]) * self._noise())
        return mean, float(deviation[0]) if self._flat else deviation

    def merge(self, other: RecursiveRegressor) -> RecursiveRegressor:
        """A model of the rows of both, as if it had learned from all of them; neither is changed.

        Parameters
        ----------
        other : RecursiveRegressor
            With the same parameters and features.

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X, y = np.arange(12.0).reshape(6, 2) ** 0.5, np.arange(6.0)
        >>> one, two = (gf.online.RecursiveRegressor().fit(X[rows], y[rows]) for rows in (slice(0, 3), slice(3, 6)))
        >>> both = gf.online.RecursiveRegressor().fit(X, y)
        >>> bool(np.allclose(one.merge(two).coefficients_, both.coefficients_))
        True
        """
        self._check_mergeable(other)
        if self._factor().outputs != other._factor().outputs:
            raise ValueError(f"other has {other._factor().outputs} outputs, this model has {self._factor().outputs}")
        merged = self._twin()
        assert isinstance(merged._memory, Factor)
        assert isinstance(other._memory, Factor)
        merged._memory.merge(other._memory)
        merged.n_seen_ += other.n_seen_
        return merged

    @property
    def noise_variance_(self) -> Any:
        noise = self._noise()
        return float(noise[0]) if self._flat else noise

    def _noise(self) -> Array:
        factor = self._factor()
        return np.asarray(factor.objective() / factor.weight)

    def _by_output(self, values: Array) -> Array:
        return values[:, 0] if self._flat else values

    def _names(self, outputs: int) -> list[str]:
        given = self._target_names
        return given if given and len(given) == outputs else [f"y{i}" if outputs > 1 else "y" for i in range(outputs)]

    def _handed_back(self, values: Array, X: Any) -> Any:
        return hand_back(values[:, 0] if self._flat else values, X, self._names(values.shape[1]), None)

    def _read_y(self, y: Any, rows: int) -> Array:
        targets = read_targets(y, rows=rows)
        if np.abs(targets).max(initial=0.0) > 1e100:
            raise ValueError("y holds numbers larger than 1e100, whose squares overflow in sums: scale y")
        return targets

    def _prepare(self, targets: Array, *, reset: bool) -> int:
        outputs = 1 if targets.ndim == 1 else targets.shape[1]
        if reset:
            self._flat = targets.ndim == 1
        elif self._memory.outputs != outputs or self._flat != (targets.ndim == 1):
            shape = "one target" if self._flat else f"{self._memory.outputs} targets"
            raise ValueError(f"y has shape {targets.shape}, but the model was fitted with {shape} for each row")
        return outputs

    def _codes(self, targets: Array, outputs: int) -> Array:
        return targets.reshape(len(targets), outputs)

    def _read_one(self, y: Any) -> Array:
        targets = np.asarray([y], dtype=np.float64)
        if targets.ndim > 2 or not np.abs(targets).max(initial=0.0) <= 1e100:
            raise ValueError(f"y must be a finite number or a few of them, got {y!r}")
        return targets

    def _state(self) -> State:
        values, arrays = super()._state()
        return values | {"flat": self._flat}, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._set_state(values, arrays)
        self._flat = bool(values["flat"])
        if self._flat and self._memory.outputs != 1:
            raise ValueError("a model of one target has one output")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
