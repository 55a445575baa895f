"""What the estimators share: a scikit-learn face on the pipeline that fits, and on the predictor that it leaves."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted

from gyrfalcon import data
from gyrfalcon.arrays import AnyPoints, Array, device_of, to_tensor
from gyrfalcon.centers.rows import take
from gyrfalcon.data import Source
from gyrfalcon.data.points import as_points
from gyrfalcon.encoding import TablePreprocessor
from gyrfalcon.kernels import Kernel
from gyrfalcon.kernels.explicit import refuse_explicit
from gyrfalcon.losses import Squared
from gyrfalcon.matrix.predictor import WIDE_ROWS, Predictor
from gyrfalcon.partition import LocalFunction, Partition
from gyrfalcon.persistence import Savable, State, build, describe, pack_points, unpack_points
from gyrfalcon.solvers import Direct, EarlyStopping, Record, Solver, Step, as_solver
from gyrfalcon.solvers.rounding import rounding_shows
from gyrfalcon.solvers.solver import solver_from_dict
from gyrfalcon.tuning import Grid, Trace
from gyrfalcon.tuning.settings import read as tuning_settings

from .batches import fit_batches
from .beginning import Beginning
from .callbacks import CallbackSupportMixin, callbacks_end, tell_callbacks
from .data import read_points
from .deadline import check_time_budget
from .interrupts import keeps_the_old_model
from .partitioned import asks_neighbors, check_partition
from .pipeline import Chosen, Fitted, Known, Settings, Validation, devices_of, fit_function, seeded
from .streams import is_stream, source_of
from .targets import ClassTargets, Coefficients, LabelTargets, RegressionTargets
from .transform_trial import check_target_transform
from .updates import UpdateMixin, check_updatable
from .wrong_names import explains_wrong_names, remedy

# What predictions may be, and what their columns are called in files.
_METHODS = {
    "predict": "prediction",
    "predict_proba": "probability",
    "predict_log_proba": "log_probability",
    "decision_function": "score",
}
ESTIMATOR_STOPPING = EarlyStopping(validation=0.1, patience=5, tolerance=0.0)  # what early_stopping=True means


class KernelEstimator(UpdateMixin, Savable, CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """f(x) = Σⱼ coefficientsⱼ k(x, cⱼ) + intercept, fitted to outputs that a subclass makes of its targets."""

    takes_tables: ClassVar[bool] = True  # missing values, categories and dates: see `encoder_`

    kernel: Any
    length_scale: Any
    penalty: Any
    centers: Any
    n_centers: Any
    loss: Any
    solver: Any
    fit_intercept: bool
    early_stopping: Any
    warm_start: bool
    tune: Any
    partition: Any = "auto"
    target_transform: Any = None
    updatable: bool = False
    time_budget: Any = None
    checkpoint: Any
    memory_budget: int | None
    device: Any
    random_state: Any
    verbose: bool

    kernel_: Kernel
    centers_: AnyPoints
    coefficients_: Array
    intercept_: Any
    penalty_: float
    record_: Record
    tuning_: Trace | Grid | None
    partition_: LocalFunction | None = None
    n_iter_: int
    n_features_in_: int
    encoder_: TablePreprocessor | None = None
    _targets: RegressionTargets | ClassTargets | LabelTargets
    _output_container: str | None = None
    _predictor: Predictor | None = None
    _target_names: list[str] | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = explains_wrong_names(cls.__init__)  # type: ignore[method-assign]

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as in scikit-learn.

        Parameters
        ----------
        **params
        """
        known = self.get_params(deep=True)
        for name, value in params.items():
            if name not in known and "__" not in name and (words := remedy(name, value, known)):
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}: {words}")
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags

    @property
    def kernel_feature_names(self) -> list[str]:
        """The names of the features that the kernel sees: those of X, or those that `encoder_` makes of it."""
        if self.encoder_ is not None:
            return list(self.encoder_.get_feature_names_out())
        names = getattr(self, "feature_names_in_", None)
        return [f"x{place}" for place in range(self.n_features_in_)] if names is None else names.tolist()

    def behind_encoder(self) -> Self:
        """The same model for the features that `encoder_` makes, which it no longer makes itself."""
        if self.encoder_ is None:
            return self
        model = copy.copy(self)
        model.n_features_in_, model.encoder_ = len(self.kernel_feature_names), None
        model.__dict__.pop("feature_names_in_", None)
        return model

    def before_encoder(self, known: Self) -> Self:
        """The same model for the rows that the encoder of `known` takes; the opposite of `behind_encoder`."""
        model = copy.copy(self)
        for name in ("encoder_", "n_features_in_", "feature_names_in_"):
            if hasattr(known, name):
                setattr(model, name, getattr(known, name))
        return model

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        state.pop("_predictor", None)  # made again where it is needed
        return state

    def set_output(self, *, transform: str | None = None) -> Self:
        """What predictions come as: "default" (NumPy), "pandas", "polars"; without it they come as X came.

        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.arange(6.0)[:, None]
        >>> model = gf.KernelRegressor().set_output(transform="pandas").fit(X, X[:, 0])
        >>> type(model.predict(X)).__name__
        'Series'
        """
        if transform not in (None, "default", "pandas", "polars"):
            raise ValueError(f"transform must be 'default', 'pandas' or 'polars', got {transform!r}")
        if transform is not None:
            self._output_container = transform
        return self

    # Fitting.

    @keeps_the_old_model
    def fit_stream(self, batches: Iterable[tuple[Any, Any]], *, first_rows: int = 5000) -> Self:
        """Fit to batches (X, y) that come once and are not kept, such as data that are augmented on the way.

        `fit` is called with the first rows: they decide the kernel, the centers, the classes and a first model. Every
        batch after them is one step of EigenPro, and the average of what it goes through is the model. For the squared
        loss; the intercept stays that of the first rows.

        Parameters
        ----------
        batches : iterable of (X, y)
            Each like what `fit` takes; some hundred rows each are best.
        first_rows : int

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> random = np.random.default_rng(0)
        >>> def batches():
        ...     for _ in range(50):
        ...         X = random.uniform(-3, 3, size=(200, 1))
        ...         yield X, np.sin(X[:, 0]) + 0.1 * random.normal(size=200)
        >>> model = gf.KernelRegressor(n_centers=50, random_state=0).fit_stream(batches(), first_rows=400)
        >>> X = np.linspace(-3, 3, 100)[:, None]
        >>> bool(np.abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.05)
        True
        """
        if not isinstance(self.loss, Squared) and self.loss != "squared":
            raise ValueError(f"fit_stream fits the squared loss only, but loss={self.loss!r}")
        if self.partition not in (None, "auto"):
            raise ValueError(
                f"partition={self.partition!r} needs all rows at once, but fit_stream keeps none: call fit"
            )
        fit_batches(self, batches, first_rows)
        return self

    def _read_y(self, y: Any, rows: int) -> Array:
        """Targets of so many rows, checked."""
        raise NotImplementedError

    def _read(self, X: Any, *, reset: bool) -> AnyPoints:
        points = read_points(self, X, reset=reset)
        here = devices_of(self.device, points) is None and self.device is not None
        if here and torch.device(self.device) != device_of(points):
            if sparse.issparse(points):
                raise ValueError(f"device={self.device!r} does not take sparse X: leave device out")
            points = to_tensor(points).to(self.device)
        return points

    def _settings(self, points: AnyPoints, seed: int) -> Settings:
        """The parameters, checked; a solver that is named gets the estimator's seed."""
        if isinstance(self.kernel, Kernel):
            refuse_explicit(self.kernel, f"{type(self).__name__} cannot fit it")
        if self.penalty != "auto":
            _number(self.penalty, "penalty", least=0)
        if self.n_centers != "auto" and (not isinstance(self.n_centers, numbers.Integral) or self.n_centers < 1):
            raise ValueError(f"n_centers must be 'auto' or a positive whole number, got {self.n_centers!r}")
        partition, on_trial = check_partition(self)
        return Settings(
            kernel=self.kernel,
            length_scale=self.length_scale,
            penalty="auto" if self.penalty == "auto" else float(self.penalty),
            centers=self.centers,
            n_centers="auto" if self.n_centers == "auto" else int(self.n_centers),
            solver=self._solver(seed),
            fit_intercept=bool(self.fit_intercept),
            early_stopping=self._stopping(),
            tune=self.tune,
            devices=devices_of(self.device, points),
            partition=partition,
            partition_on_trial=on_trial,
            asks_neighbors=asks_neighbors(self, on_trial=on_trial),
            target_transform=check_target_transform(self),
        )

    def _check_parameters(self) -> None:
        """Refuse parameters that no data could make sense of."""
        self._settings(np.empty((0, 0)), 0)
        tuning_settings(self.tune)
        check_updatable(self)
        check_time_budget(self.time_budget)
        if self.time_budget is not None and isinstance(self.partition, Partition):
            raise ValueError(
                f"time_budget={self.time_budget!r} does not go with partition={self.partition!r}: leave one of them out"
            )
        if self.memory_budget is not None:
            _number(self.memory_budget, "memory_budget", least=1)
        if self.checkpoint is not None and not isinstance(self.checkpoint, str | os.PathLike):
            raise ValueError(f"checkpoint must be the path of a directory or None, got {self.checkpoint!r}")

    def _solver(self, seed: int) -> Solver[Any] | None:
        if isinstance(self.solver, str) and self.solver == "auto":
            return Direct() if self.updatable else None
        solver = as_solver(self.solver)
        return seeded(solver, seed) if isinstance(self.solver, str) else solver

    def _stopping(self) -> EarlyStopping | None:
        if isinstance(self.early_stopping, EarlyStopping):
            share = self.early_stopping.validation
            if not isinstance(share, numbers.Real) or isinstance(share, numbers.Integral):
                raise ValueError(
                    "early_stopping: estimators hold out a share of the rows, so validation must be a number between 0 "
                    f"and 1, got {self.early_stopping.validation!r}"
                )
            return self.early_stopping
        if self.early_stopping not in (True, False):
            raise ValueError(f"early_stopping must be True, False or an EarlyStopping, got {self.early_stopping!r}")
        return ESTIMATOR_STOPPING if self.early_stopping else None

    def _hold_out(
        self, points: AnyPoints, y: Array, weights: Array | None, seed: int, labels: Array | None = None
    ) -> tuple[AnyPoints, Array, Array | None, Validation | None]:
        """Training and validation parts: a random share of the rows, if early stopping wants one."""
        stopping = self._stopping()
        if stopping is None:
            return points, y, weights, None
        rows = np.arange(points.shape[0]) if weights is None else np.flatnonzero(weights)
        if len(rows) < 2:
            raise ValueError("early_stopping needs more than one sample: switch it off, or pass X_val and y_val")
        strata = None if labels is None else labels[rows]
        assert stopping.validation is not None
        held = max(1, round(stopping.validation * len(rows)))
        if strata is not None:
            counts = np.unique(strata, return_counts=True)[1]
            strata = strata if counts.min() > 1 and len(counts) <= min(held, len(rows) - held) else None
        kept, held_rows = train_test_split(rows, test_size=held, random_state=seed, stratify=strata)
        kept = np.sort(kept)
        part = None if weights is None else weights[held_rows]
        if isinstance(points, Source):  # the others are not to be gathered in memory, and these with the sample
            weights = np.ones(len(y)) if weights is None else weights.copy()
            weights[held_rows] = 0.0
            return points, y, weights, Validation(points, y[held_rows], part, held_rows)
        validation = Validation(take(points, held_rows), y[held_rows], part)
        return take(points, kept), y[kept], None if weights is None else weights[kept], validation

    def _check_validation(self, X_val: Any, y_val: Any) -> None:
        """Refuse one half of validation data."""
        if X_val is None and y_val is not None:
            raise ValueError("y_val was given without X_val: pass both, or neither")
        if X_val is not None and y_val is None and not is_stream(X_val):
            raise ValueError("y_val is missing: pass it with X_val")

    def _known(self) -> Known | None:
        """The last fit, if this one goes on from it."""
        if not (self.warm_start and hasattr(self, "coefficients_")):
            return None
        start = self._targets.start(self.coefficients_, self.intercept_)
        return Known(self.kernel_, self.centers_, self.penalty_, start)

    def _fit_outputs(
        self,
        points: AnyPoints,
        y: Array,
        weights: Array | None,
        targets: RegressionTargets | ClassTargets | LabelTargets,
        beginning: Beginning,
        *,
        given: tuple[Any, Any],
        validation: Validation | None,
        callback: Callable[[Step], Any] | None = None,
    ) -> Fitted:
        """Fit, and set the fitted attributes that do not depend on the task."""
        known = self._known()

        def attributes(solution: Coefficients, chosen: Any) -> dict[str, Any]:
            names = ("coefficients_", "intercept_", "_targets")
            return dict(zip(names, (*chosen.decode(solution), chosen), strict=True))

        def notify(solver: Solver[Any], chosen: Chosen) -> Any:
            after_iteration = tell_callbacks(self, *given, int(getattr(solver, "max_iterations", 1)))
            known_now = {"kernel_": chosen.kernel, "centers_": chosen.centers, "penalty_": chosen.penalty}
            known_now |= {"record_": Record(solver.name), "_predictor": None, "partition_": None}
            return lambda solution: after_iteration(lambda: known_now | attributes(solution(), chosen.targets))

        settings = self._settings(points, beginning.solver_seed)
        if known is not None and settings.partition_on_trial:  # what an earlier fit has decided
            leaves = self.partition_
            own = leaves is not None and leaves.kernel is not self.kernel_  # which neighbors are asked for again
            settings = dataclasses.replace(
                settings,
                partition=None if leaves is None or own else settings.partition,
                partition_on_trial=False,
                asks_neighbors=settings.asks_neighbors and own,
            )
        fitted = fit_function(
            settings,
            points,
            y,
            weights,
            targets,
            beginning,
            known=known,
            validation=validation,
            notify=notify,
            callback=callback,
        )
        self.kernel_, self.centers_, self.penalty_ = fitted.kernel, fitted.centers, fitted.penalty
        self.partition_ = fitted.local
        if known is None:
            self.tuning_ = fitted.tuning
        self.__dict__.update(attributes((fitted.solution.coefficients, fitted.solution.intercept), fitted.targets))
        self.record_, self._predictor = fitted.record, None
        self._predictor = self._function()
        self.n_iter_ = max(1, self.record_.iterations)
        self.__dict__.pop("moments_", None)
        if self.updatable:
            self._keep_moments(fitted, points.shape[0])
        callbacks_end(self, *given)
        if beginning.checkpoint is not None and not fitted.interrupted:
            beginning.checkpoint.clear()
        return fitted

    # Predicting.

    def _function(self) -> Predictor:
        """The fitted function, prepared."""
        if self._predictor is None or not self._predictor.of(self.coefficients_, self.intercept_):
            columns = self.coefficients_.reshape(len(self.coefficients_), -1)
            objective = np.array(self.record_.objective or [0.0])
            self._predictor = Predictor(
                self.kernel_,
                self.centers_,
                self.coefficients_,
                self.intercept_,
                wide=rounding_shows(columns / self._targets.unit, objective, 1.0),
                memory_budget=self.memory_budget,
                devices=list(self.device) if isinstance(self.device, list | tuple) else None,
            )
        return self._predictor

    def _outputs(self, X: Any) -> Array:
        """f at the rows of X, of shape (n, t), in float64."""
        if not hasattr(self, "coefficients_"):
            check_is_fitted(self)
        points = read_points(self, X, reset=False)
        values = self._function()(points)
        return values if self.partition_ is None else values + self.partition_.local(points)

    def prediction_columns(self, X: Any) -> dict[str, Array]:
        """Predictions as the columns of a table."""
        raise NotImplementedError

    def write_predictions(
        self, X: Any, path: str | os.PathLike[str], *, method: str = "predict", **columns: Any
    ) -> int:
        """Write predictions for data of any size to a file, chunk by chunk; returns the number of rows.

        Parameters
        ----------
        X : path, Source, Dask collection, or whatever `predict` takes
            Of a file with named columns those of the fit are read; there may be others.
        path : path
            Ends in .parquet, .feather, .csv or .npy. It appears when it is complete.
        method : str
            "predict", or of a classifier "predict_proba", "predict_log_proba" or "decision_function".
        columns
            What `predict` writes beside the column `prediction`, as for `prediction_columns`: `return_std=True` and
            `interval=0.95` of a regression, `probabilities=True` of a classification.

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf, tempfile
        >>> X = np.arange(6.0)[:, None]
        >>> model = gf.KernelRegressor().fit(X, X[:, 0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/new.npy", X)
        ...     model.write_predictions(f"{folder}/new.npy", f"{folder}/predicted.npy", return_std=True)
        6
        """
        check_is_fitted(self)
        if not callable(getattr(self, method, None)) or method not in _METHODS:
            raise ValueError(f"method must be one of {sorted(_METHODS)} that {type(self).__name__} has, got {method!r}")
        if method != "predict" and columns:
            raise ValueError(f"{next(iter(columns))} does not go with method={method!r}: leave one of them out")
        source = source_of(X, getattr(self, "feature_names_in_", None)) if is_stream(X) else X
        step = source.chunk_rows() if isinstance(source, Source) else WIDE_ROWS
        rows = source.shape[0] if hasattr(source, "shape") else len(source)
        if rows == 0:
            raise ValueError("X has no rows to predict")
        chunks = (source[a : min(rows, a + step)] for a in range(0, rows, step))
        parts = (self._columns_of(chunk, method, columns) for chunk in chunks)
        first = next(parts)
        return data.write(path, list(first), itertools.chain([first], parts))

    def _columns_of(self, X: Any, method: str, columns: Mapping[str, Any]) -> dict[str, Array]:
        if method == "predict":
            return self.prediction_columns(X, **columns)
        values = np.asarray(getattr(self, method)(X))
        if values.ndim == 1:
            return {_METHODS[method]: values}
        names = self._names(values.shape[1])
        return {f"{_METHODS[method]}_{name}": column for name, column in zip(names, values.T, strict=True)}

    def report(self, X: Any, y: Any, path: str | os.PathLike[str] | None = None, **settings: Any) -> Path:
        """Write report.html, or `path`, on the model, tested on rows it was not fitted to; see `report.write_report`.

        >>> import numpy as np, gyrfalcon as gf, tempfile
        >>> X = np.linspace(0, 6, 100)[:, None]
        >>> model = gf.KernelRegressor().fit(X[::2], np.sin(X[::2, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.report(X[1::2], np.sin(X[1::2, 0]), f"{folder}/sine.html", title="A sine").name
        'sine.html'
        """
        from gyrfalcon.report import write_report  # which is built on the estimators

        return write_report("report.html" if path is None else path, self, X, y, **settings)

    # Model files.

    def _state(self) -> State:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        values = {
            "kernel": self.kernel_.to_dict(),
            "penalty": self.penalty_,
            "n_features": self.n_features_in_,
            "feature_names": None if names is None else names.tolist(),
            "record": dataclasses.asdict(self.record_),
            "encoder": None if self.encoder_ is None else describe(self.encoder_)[0],
        }
        facts, arrays = self._packed_moments()
        values, arrays = values | facts, arrays | pack_points(self.centers_, "centers")
        if self.partition_ is not None:
            arrays |= {f"partition.{name}": array for name, array in self.partition_.to_arrays().items()}
            if self.partition_.kernel is not self.kernel_:
                values |= {"partition_kernel": self.partition_.kernel.to_dict()}
        return values, arrays | {"coefficients": self.coefficients_, "intercept": np.asarray(self.intercept_)}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.kernel_ = Kernel.from_dict(values["kernel"])
        self.penalty_ = float(values["penalty"])
        self.n_features_in_ = int(values["n_features"])
        if values["feature_names"] is not None:
            self.feature_names_in_ = np.array(values["feature_names"], dtype=object)
        encoder = values.get("encoder")  # files of versions before had none
        self.encoder_ = None if encoder is None else read_encoder(encoder)
        self.record_ = Record(**values["record"])
        self.n_iter_ = max(1, self.record_.iterations)
        self.centers_ = as_points(unpack_points(arrays, "centers"), "centers")
        self.coefficients_, intercept = arrays["coefficients"], arrays["intercept"]
        if {self.coefficients_.dtype, intercept.dtype} != {np.dtype(np.float64)} or self.coefficients_.ndim not in (
            1,
            2,
        ):
            raise ValueError("coefficients and intercept must be float64 vectors or matrices")
        self.intercept_ = float(intercept) if intercept.ndim == 0 else intercept
        columns = self.coefficients_.reshape(len(self.coefficients_), -1).shape[1]
        features = len(self.kernel_feature_names)
        if self.centers_.shape != (len(self.coefficients_), features) or intercept.size != columns:
            raise ValueError("the centers, coefficients and intercept do not fit together")
        leaves = {name[10:]: array for name, array in arrays.items() if name.startswith("partition.")}
        own = values.get("partition_kernel")  # files of versions before had none
        kernel = self.kernel_ if own is None else _own_kernel(own, features)
        self.partition_ = LocalFunction.from_arrays(kernel, leaves, columns) if leaves else None
        if self.partition_ is not None and self.partition_.points.shape[1] != features:
            raise ValueError("the leaves of the partition have another number of features")

    def _describe_parameter(self, name: str, value: Any) -> Any:
        if isinstance(value, Solver):
            return value.to_dict()
        if isinstance(value, EarlyStopping | Partition):
            return dataclasses.asdict(value)
        return super()._describe_parameter(name, value)

    def _read_parameter(self, name: str, value: Any) -> Any:
        if name == "solver" and isinstance(value, Mapping):
            return solver_from_dict(value)
        if name == "partition" and isinstance(value, Mapping):
            return Partition(**value)
        if name == "early_stopping" and isinstance(value, Mapping):
            return EarlyStopping(**value)
        return super()._read_parameter(name, value)


def read_encoder(description: Any) -> TablePreprocessor:
    """The encoder that a model file holds."""
    encoder = build(description, {})
    if not isinstance(encoder, TablePreprocessor):
        raise ValueError(f"the encoder is a {type(encoder).__name__}, not a TablePreprocessor")
    return encoder


def _number(value: Any, name: str, *, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not least <= float(value) < math.inf:
        raise ValueError(f"{name} must be a finite number, {least} or more, got {value!r}")
    return float(value)


def _own_kernel(described: Any, features: int) -> Kernel:
    """The kernel that leaves have of their own, checked."""
    if not isinstance(described, dict):
        raise ValueError(f"partition_kernel must describe a kernel, got {described!r}")
    kernel, point = Kernel.from_dict(described), np.zeros((1, features))
    kernel(point, point)  # refuses another number of features
    return kernel
