"""What the recursive estimators share: from checked rows to features, to the factor that holds all that was seen."""

from __future__ import annotations

import copy
import numbers
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gyrfalcon.data import Source
from gyrfalcon.estimators.data import names_of, read_points, read_weights
from gyrfalcon.persistence import Savable, State

from .class_factors import ClassFactors
from .factor import Factor
from .feature_maps import fit_features, load_features, pack_features, takes_sparse, transform_features
from .single_rows import SingleRowMixin
from .streams import StreamMixin
from .window import Window

Array = np.ndarray[Any, Any]
Memory = Factor | Window | ClassFactors

BLOCK_NUMBERS = 1 << 22  # features that are in memory at once, 32 MB
LARGEST = 1e100  # squares of larger features would overflow in sums


class RecursiveEstimator(SingleRowMixin, StreamMixin, Savable, BaseEstimator):  # type: ignore[misc]
    """Least squares on features whose state is a triangular factor, which takes up rows one at a time or in batches."""

    features: Any
    penalty: float
    forgetting: float
    window: int | None
    fit_intercept: bool

    features_: Any
    n_features_in_: int
    n_seen_: int
    _memory: Memory
    _target_names: list[str] | None
    _keys: list[Any] | None  # keys of dictionaries, in the order of the features

    # What subclasses say.

    def _codes(self, targets: Array, outputs: int) -> Array:
        """Targets of rows as the factor takes them up."""
        raise NotImplementedError

    def _read_y(self, y: Any, rows: int) -> Array:
        raise NotImplementedError

    def _prepare(self, targets: Array, *, reset: bool) -> int:
        """Make the model ready for these targets, once all is checked; returns the number of outputs so far."""
        raise NotImplementedError

    def _new_memory(self, penalties: Array, outputs: int) -> Memory:
        if self.window is not None:
            return Window(penalties, outputs, int(self.window), float(self.forgetting))
        return Factor(penalties, outputs)

    # Learning.

    def _learn(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Self:
        """Check everything, then take up the rows. Whatever is raised on the way leaves the model as it was."""
        before = dict(self.__dict__)
        try:
            self._check_parameters()
            if getattr(getattr(X, "dtype", None), "kind", "f") in "mM":
                raise ValueError(f"X holds moments or durations ({X.dtype}): make numbers of them first")
            points = read_points(self, X, reset=reset)
            targets = self._read_y(y, points.shape[0])
            weights = read_weights(sample_weight, points)
            if weights is not None and not weights.all() and not isinstance(points, Source):
                there = np.flatnonzero(weights)  # rows of weight zero are not there at all
                points, targets, weights = points[there], targets[there], weights[there]
            if reset:
                self._keys, self._target_names = None, names_of(y)
                self.n_seen_ = 0
                self.features_ = fit_features(self.features, points, weights)
            self._take_up_blocks(points, targets, weights, reset=reset)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _take_up_blocks(self, points: Any, targets: Array, weights: Array | None, *, reset: bool) -> None:
        for place, (rows, design) in enumerate(self._designs(points)):
            if place == 0:
                outputs = self._prepare(targets, reset=reset)
                if reset:
                    self._memory = self._new_memory(self._penalties(design.shape[1]), outputs)
                elif design.shape[0] < points.shape[0]:  # more blocks follow, one of which may have to be refused
                    self._own_state()
                self._ready_outputs(outputs)
            self._take_up(design, targets[rows], None if weights is None else weights[rows])

    def _ready_outputs(self, outputs: int) -> None:
        if self._memory.outputs < outputs:
            self._memory.grow(outputs - self._memory.outputs)

    def _take_up(self, design: Array, targets: Array, weights: Array | None) -> None:
        """Checked features and targets of a few rows."""
        Y = self._codes(targets, self._memory.outputs)
        if isinstance(self._memory, Factor):
            self._memory.add(design, Y, weights, forgetting=float(self.forgetting))
        else:
            self._memory.add(design, Y, weights)
        self.n_seen_ += len(design)

    def _penalties(self, width: int) -> Array:
        penalties = np.full(width, float(self.penalty))
        penalties[: int(self.fit_intercept)] = 0.0
        return penalties

    def _designs(self, points: Any) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows with their features in float64, those of an intercept included."""
        if isinstance(points, Source):
            for rows, chunk in points.chunks():
                for some, design in self._designs(chunk):
                    yield slice(rows.start + some.start, rows.start + some.stop), design
            return
        # The number of features is known from the last rows, or seen at the first few.
        known = len(self._memory.penalties) if hasattr(self, "_memory") else None
        count, start = points.shape[0], 0
        step = min(count, 64 if known is None else max(1, BLOCK_NUMBERS // known))
        while start < count:
            stop = min(count, start + step)
            design = self._design(points if stop - start == count else points[start:stop])
            yield slice(start, stop), design
            start, step = stop, max(1, BLOCK_NUMBERS // design.shape[1])

    def _design(self, points: Any) -> Array:
        values = transform_features(self.features_, points)
        first = int(self.fit_intercept)
        design = np.empty((len(values), values.shape[1] + first))
        design[:, :first] = 1.0
        design[:, first:] = values
        if not np.vdot(design, design) <= LARGEST**2:  # NaN is not
            raise ValueError(
                f"the features of X hold NaN, infinity or numbers larger than {LARGEST:g}: leave such rows out, or "
                "scale the features"
            )
        return design

    def _check_parameters(self) -> None:
        _check_number("penalty", self.penalty, lambda value: value > 0, "a positive number")
        _check_number("forgetting", self.forgetting, lambda value: 0 < value <= 1, "in (0, 1]")
        if self.window is not None and (not isinstance(self.window, numbers.Integral) or self.window < 1):
            raise ValueError(f"window must be None or a positive whole number of rows, got {self.window!r}")
        if self.features is not None and not (hasattr(self.features, "fit") and hasattr(self.features, "transform")):
            raise ValueError(f"features must be None or a transformer with fit and transform, got {self.features!r}")

    # Merging.

    def _check_mergeable(self, other: Any) -> None:
        check_is_fitted(self, "_memory")
        if type(other) is not type(self):
            raise TypeError(f"other must be a {type(self).__name__}, got {type(other).__name__}")
        check_is_fitted(other, "_memory")
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        different = [name for name in mine if name != "features" and mine[name] != theirs[name]]
        if different:
            raise ValueError(f"other has another {different[0]}: {theirs[different[0]]!r}, not {mine[different[0]]!r}")
        if self.window is not None:
            raise ValueError("models with a window cannot be merged: which rows came last is known to nobody")
        if self.n_features_in_ != other.n_features_in_ or not self._same_features(other):
            raise ValueError("other has other features: fit them once, and pass the fitted transformer to both models")

    def _same_features(self, other: RecursiveEstimator) -> bool:
        if self.features_ is other.features_:
            return True
        probe = np.random.default_rng(0).normal(size=(4, self.n_features_in_))
        mine, theirs = self._design(probe), other._design(probe)
        return mine.shape == theirs.shape and bool(np.allclose(mine, theirs, rtol=1e-12, atol=1e-12))

    def _twin(self) -> Self:
        """A copy that learns on its own."""
        twin = copy.copy(self)
        twin._own_state()
        return twin

    def _own_state(self) -> None:
        """Replace what is changed in place by copies."""
        self._memory = self._memory.copy()

    # Questions.

    def _factor(self) -> Factor:
        check_is_fitted(self, "_memory")
        return self._memory if isinstance(self._memory, Factor) else self._memory.factor()

    def _outputs(self, X: Any) -> Array:
        """Values of the linear model, of shape (n, outputs)."""
        check_is_fitted(self, "_memory")
        points, factor = read_points(self, X, reset=False), self._factor()
        out = np.empty((points.shape[0], factor.outputs))
        for rows, design in self._designs(points):
            out[rows] = factor.predict(design)
        return out

    @property
    def coefficients_(self) -> Array:
        """Of the features, of shape (d,) for one output and (d, outputs) for several."""
        return self._by_output(self._factor().coefficients()[int(self.fit_intercept) :])

    @property
    def intercept_(self) -> Any:
        """One number, or one for each output; zero without `fit_intercept`."""
        factor = self._factor()
        row = factor.coefficients()[0] if self.fit_intercept else np.zeros(factor.outputs)
        return self._by_output(row[None])[0]

    def _by_output(self, values: Array) -> Array:
        """Columns of outputs as users see them."""
        return values

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_memory")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.features)
        return tags

    @property
    def target_name_(self) -> str | None:
        """The name that the targets of the first batch had, if they were one named column."""
        check_is_fitted(self, "_memory")
        return self._target_names[0] if self._target_names and len(self._target_names) == 1 else None

    def report(self, X: Any, y: Any, path: str | os.PathLike[str] | None = None, **settings: Any) -> Path:
        """Write report.html, or `path`, on the model, tested on rows it has not learned; see `report.write_report`.

        >>> import numpy as np, gyrfalcon as gf, tempfile
        >>> X = np.linspace(0, 6, 100)[:, None]
        >>> features = gf.RandomFeatures(n_features=50, random_state=0)
        >>> model = gf.online.RecursiveRegressor(features).fit(X[::2], np.sin(X[::2, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.report(X[1::2], np.sin(X[1::2, 0]), f"{folder}/sine.html", title="A sine").name
        'sine.html'
        """
        from gyrfalcon.report import write_report  # which is built on the estimators

        return write_report("report.html" if path is None else path, self, X, y, **settings)

    # Files.

    def _state(self) -> State:
        check_is_fitted(self, "_memory")
        described, arrays = pack_features(self.features_)
        names = getattr(self, "feature_names_in_", None)
        values = {
            "n_features_in": self.n_features_in_,
            "n_seen": self.n_seen_,
            "names": None if names is None else [str(name) for name in names],
            "keys": None if self._keys is None else [str(name) for name in self._keys],
            "features": described,
            "target_names": self._target_names,
            "width": self._penalties_of_memory().shape[0],
        }
        return values, arrays | self._memory.arrays("memory")

    def _penalties_of_memory(self) -> Array:
        return self._memory.penalties

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._check_parameters()
        self.n_features_in_, self.n_seen_ = int(values["n_features_in"]), int(values["n_seen"])
        if values["names"] is not None:
            self.feature_names_in_ = np.array(values["names"], dtype=object)
        self._keys, self._target_names = values["keys"], values["target_names"]
        self.features_ = load_features(values["features"], arrays)
        self.features = self.features_
        penalties = self._penalties(int(values["width"]))
        self._memory = self._memory_of(penalties, arrays)

    def _memory_of(self, penalties: Array, arrays: dict[str, Array]) -> Memory:
        if self.window is not None:
            return Window.from_arrays(penalties, int(self.window), float(self.forgetting), arrays, "memory")
        return Factor.from_arrays(penalties, arrays, "memory")


def _check_number(name: str, value: Any, holds: Any, asked: str) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Real)
        or not np.isfinite(float(value))
        or not holds(value)
    ):
        raise ValueError(f"{name} must be {asked}, got {value!r}")
