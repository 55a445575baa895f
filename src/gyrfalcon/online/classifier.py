from __future__ import annotations

import numbers
import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gyrfalcon.estimators.data import read_labels
from gyrfalcon.persistence import State

from .base import Memory, RecursiveEstimator
from .class_factors import ClassFactors
from .class_scores import ClassScores
from .classes import Classes
from .factor import Factor
from .recoding import HeldOut

Array = np.ndarray[Any, Any]


class RecursiveClassifier(ClassifierMixin, ClassScores, RecursiveEstimator):  # type: ignore[misc]
    """Classification that learns from a stream, in which new classes may appear at any time.

    Least squares on one-hot codes: column t of W minimizes Σᵢ wᵢ (1[yᵢ = t] - z(xᵢ)'Wₜ - bₜ)² + penalty ‖Wₜ‖². A class
    that was never seen has codes of zero in all rows before, so that it is added without touching them, and the model
    is at every moment the exact solution for all rows seen, in whatever order they came. See `RecursiveRegressor` for
    how it learns.

    Parameters
    ----------
    features : None or transformer
        What the model is linear in: X itself, or what `RandomFeatures` or any transformer of scikit-learn makes of it.
        One that is not fitted yet is fitted to the first batch.
    penalty : float
        On the sum of the squares, not on their mean.
    forgetting : float
        Each row multiplies the weights of all rows before it by this number; the penalty does not fade.
    window : int, optional
        Learn from the last so many rows only. They are kept.
    recode : float in [0, 1] or "auto"
        α: scores of a class are multiplied by (n / nₜ)^α, the inverse share of its rows, so that rare classes are not
        ignored. "auto" holds out every sixth row and takes the largest α for which the well-represented classes are
        recognized as well as with α = 0, up to a standard error.
    rebalance : bool
        Weigh the loss of each row by n / nₜ. Exact, for the memory of one factor for each class.
    fit_intercept : bool
        Add a constant, which is not penalized.

    Attributes
    ----------
    classes_ : array
        All labels seen so far, sorted.
    counts_ : array
        The weights of the rows of each class, forgotten ones left out: their numbers, without weights and forgetting.
    recode_ : float
        α as it is now.
    coefficients_ : array of shape (d, classes)
    intercept_ : array of shape (classes,)
    n_seen_ : int
        Rows learned from.
    features_ : transformer
        The fitted one.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> random = np.random.default_rng(0)
    >>> model = gf.online.RecursiveClassifier()
    >>> for label, center in {"cup": (0, 3), "ball": (3, 0), "book": (-3, -3)}.items():
    ...     model = model.partial_fit(random.normal(center, size=(50, 2)), [label] * 50)
    >>> model.predict([[3.0, 0.0], [-3.0, -3.0]]).tolist(), model.classes_.tolist()
    (['ball', 'book'], ['ball', 'book', 'cup'])
    """

    _classes: Classes

    def __init__(
        self,
        features: Any = None,
        *,
        penalty: float = 1e-3,
        forgetting: float = 1.0,
        window: int | None = None,
        recode: float | str = 0.0,
        rebalance: bool = False,
        fit_intercept: bool = True,
    ):
        self.features = features
        self.penalty = penalty
        self.forgetting = forgetting
        self.window = window
        self.recode = recode
        self.rebalance = rebalance
        self.fit_intercept = fit_intercept

    # Learning.

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget all that was learned, and learn from these rows.

        Parameters
        ----------
        X : array, data frame, tensor, sparse matrix or file of shape (n, features)
        y : labels of shape (n,)
        sample_weight : array of shape (n,), optional
        """
        return self._learn(X, y, sample_weight, reset=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows, as many as there are; labels never seen before are welcome.

        Parameters
        ----------
        X : array, data frame, tensor, sparse matrix or file of shape (n, features)
        y : labels of shape (n,)
        classes : labels, optional
            Some that will come. They need not be named, but are in `classes_` if they are.
        sample_weight : array of shape (n,), optional
        """
        self._announced = None if classes is None else np.unique(np.asarray(classes))
        try:
            return self._learn(X, y, sample_weight, reset=not hasattr(self, "_memory"))
        finally:
            self.__dict__.pop("_announced", None)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.recode != "auto" and (
            isinstance(self.recode, bool) or not isinstance(self.recode, numbers.Real) or not 0 <= self.recode <= 1
        ):
            raise ValueError(f"recode must be 'auto' or a number in [0, 1], got {self.recode!r}")
        if self.rebalance and (self.recode == "auto" or float(self.recode) > 0):
            raise ValueError("rebalance and recode do the same in two ways: leave one of them out")
        if self.rebalance and self.window is not None:
            raise ValueError("rebalance does not go with a window: use recode")

    def _new_memory(self, penalties: Array, outputs: int) -> Memory:
        if not self.rebalance:
            return super()._new_memory(penalties, outputs)
        memory = ClassFactors(penalties, float(self.forgetting))
        memory.grow(outputs)
        return memory

    def _read_y(self, y: Any, rows: int) -> Array:
        labels = read_labels(y, rows=rows)
        with warnings.catch_warnings():  # as many classes as rows are nothing odd at the beginning of a stream
            warnings.simplefilter("ignore", UserWarning)
            check_classification_targets(labels)
        if labels.dtype.kind == "S":
            labels = labels.astype(str)
        known = getattr(self, "_classes", Classes())
        known.with_labels(labels)  # refuses labels of another kind
        return labels

    def _prepare(self, targets: Array, *, reset: bool) -> int:
        before = Classes() if reset else self._classes
        if reset:
            self._totals, self._held_out = np.zeros(0), None
        announced = self.__dict__.get("_announced")
        classes = before if announced is None else before.with_labels(announced)
        classes = classes.with_labels(targets)
        if classes is not before:
            self._classes = classes
            self.classes_ = classes.sorted
            self._totals = np.concatenate([self._totals, np.zeros(len(classes) - len(before))])
        return len(classes)

    def _codes(self, targets: Array, outputs: int) -> Array:
        columns = self._classes.columns_of(targets)
        if self.rebalance:
            return columns
        Y = np.zeros((len(columns), outputs))
        Y[np.arange(len(columns)), columns] = 1.0
        return Y

    def _take_up(self, design: Array, targets: Array, weights: Array | None) -> None:
        if self.recode == "auto":
            design, targets, weights = self._hold_out(design, targets, weights)
        if len(design):
            super()._take_up(design, targets, weights)
            self._count(targets, weights)

    def _hold_out(self, design: Array, targets: Array, weights: Array | None) -> tuple[Array, Array, Array | None]:
        """The rows that are learned from; every sixth is kept to judge by."""
        if self._held_out is None:
            self._held_out = HeldOut(design.shape[1])
        chosen = self._held_out.split(len(design))
        self._held_out.add(design[chosen], self._classes.columns_of(targets[chosen]), len(design))
        return design[~chosen], targets[~chosen], None if weights is None else weights[~chosen]

    def _count(self, targets: Array, weights: Array | None) -> None:
        forgetting, count = float(self.forgetting), len(targets)
        own = np.ones(count) if weights is None else weights
        if forgetting != 1.0:
            own = own * forgetting ** np.arange(count - 1.0, -1.0, -1.0)
        columns = self._classes.columns_of(targets)
        self._totals = forgetting**count * self._totals + np.bincount(columns, own, minlength=len(self._classes))

    def _read_one(self, y: Any) -> Array:
        labels = np.asarray([y])
        if labels.ndim != 1 or (labels.dtype.kind == "f" and not np.isfinite(labels[0])) or labels.dtype == object:
            raise ValueError(f"y must be a label, a number or text, got {y!r}")
        if labels.tolist()[0] not in self._classes.column:
            return self._read_y(labels, 1)
        return labels

    def remove_class(self, label: Any) -> Self:
        """Forget a class: it is predicted no more.

        With `rebalance` its rows are forgotten as well, as if they had never come. Otherwise they stay as examples of
        what the other classes are not.

        Parameters
        ----------
        label : the label of a class

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.arange(6.0)[:, None]
        >>> model = gf.online.RecursiveClassifier().fit(X, list("aabbcc"))
        >>> model.remove_class("b").classes_.tolist()
        ['a', 'c']
        """
        check_is_fitted(self, "_memory")
        key = label.item() if isinstance(label, np.generic) else label
        if key not in self._classes.column:
            raise ValueError(f"label must be one of the classes {self.classes_[:10].tolist()}, got {label!r}")
        if len(self._classes) == 1:
            raise ValueError(f"{label!r} is the only class: fit the model anew instead")
        column = self._classes.column[key]
        self._memory.drop(column)
        self._classes, self._totals = self._classes.without(key), np.delete(self._totals, column)
        if self._held_out is not None:
            self._held_out.drop(column)
        self.classes_ = self._classes.sorted
        return self

    def merge(self, other: RecursiveClassifier) -> RecursiveClassifier:
        """A model of the rows of both, as if it had learned from all of them; neither is changed.

        Parameters
        ----------
        other : RecursiveClassifier
            With the same parameters and features; its classes may be others.

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.arange(6.0)[:, None]
        >>> one = gf.online.RecursiveClassifier().fit(X[:4], list("aabb"))
        >>> two = gf.online.RecursiveClassifier().fit(X[4:], list("cc"))
        >>> merged, both = one.merge(two), gf.online.RecursiveClassifier().fit(X, list("aabbcc"))
        >>> bool(np.allclose(merged.coefficients_, both.coefficients_))
        True
        """
        self._check_mergeable(other)
        merged = self._twin()
        merged._classes = self._classes.with_labels(other._classes.labels)
        merged._memory.grow(len(merged._classes) - len(self._classes))
        columns = merged._classes.columns_of(other._classes.labels)
        if isinstance(merged._memory, ClassFactors):
            assert isinstance(other._memory, ClassFactors)
            merged._memory.merge(other._memory, columns)
        else:
            assert isinstance(merged._memory, Factor)
            assert isinstance(other._memory, Factor)
            merged._memory.merge(other._memory.spread(columns, len(merged._classes)))
        merged._totals = np.concatenate([self._totals, np.zeros(len(merged._classes) - len(self._classes))])
        merged._totals[columns] += other._totals
        if merged._held_out is not None and other._held_out is not None:
            theirs = other._held_out
            merged._held_out.add(theirs.X, columns[theirs.columns], theirs.met)
        merged.classes_, merged.n_seen_ = merged._classes.sorted, self.n_seen_ + other.n_seen_
        return merged

    def _own_state(self) -> None:
        super()._own_state()
        self._held_out = None if self._held_out is None else self._held_out.copy()

    # Files.

    def _state(self) -> State:
        values, arrays = super()._state()
        arrays["totals"] = self._totals
        if self._held_out is not None:
            arrays |= self._held_out.arrays("held_out")
        return values | {"classes": self._classes.pack()}, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._set_state(values, arrays)
        self._classes, self._totals, self._held_out = Classes.unpack(values["classes"]), arrays["totals"], None
        self.classes_ = self._classes.sorted
        if self._memory.outputs != len(self._classes) or self._totals.shape != (len(self._classes),):
            raise ValueError("the classes do not fit the factor")
        if "held_out.X" in arrays:
            width = len(self._memory.penalties)
            self._held_out = HeldOut.from_arrays(width, len(self._classes), arrays, "held_out")

    def _memory_of(self, penalties: Array, arrays: dict[str, Array]) -> Memory:
        if self.rebalance:
            return ClassFactors.from_arrays(penalties, float(self.forgetting), arrays, "memory")
        return super()._memory_of(penalties, arrays)
