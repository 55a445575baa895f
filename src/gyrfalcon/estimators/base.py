"""What the estimators share: from checked data to a fitted function, and its values at new points."""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gyrfalcon import centers as center_rules
from gyrfalcon import data
from gyrfalcon.arrays import Points, as_kind, as_points, device_of, to_tensor, torch_dtype
from gyrfalcon.centers.rows import take
from gyrfalcon.data import Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.kernels.explicit import refuse_explicit
from gyrfalcon.losses import Loss, Squared
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.persistence import Savable, State, pack_points, unpack_points
from gyrfalcon.solvers import LeastSquares, Record, Risk, Solution, automatic
from gyrfalcon.solvers.problem import as_numpy
from gyrfalcon.solvers.rounding import drowned
from gyrfalcon.tuning import Grid, Trace
from gyrfalcon.tuning.rows import Data
from gyrfalcon.tuning.settings import read as tuning_settings

from .batches import fit_batches
from .beginning import Beginning
from .callbacks import CallbackSupportMixin, callbacks_end, tell_callbacks
from .choices import Choices
from .data import read_points
from .interrupts import keeps_the_old_model, what_was_reached
from .monitor import Monitor
from .resuming import resume_solve
from .streams import is_stream, source_of

Array = np.ndarray[Any, Any]

WIDE_ROWS = 1 << 16  # rows converted to float64 together
_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


class KernelEstimator(Savable, CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """f(x) = Σⱼ coefficientsⱼ k(x, cⱼ) + intercept, fitted to outputs that a subclass makes of its targets."""

    kernel: Any
    length_scale: Any
    penalty: Any
    centers: Any
    n_centers: Any
    loss: Any
    solver: str
    fit_intercept: bool
    tolerance: float | None
    max_iterations: int
    early_stopping: bool
    validation_fraction: float
    patience: int
    warm_start: bool
    tune: Any
    checkpoint: Any
    memory_budget: int | None
    device: Any
    random_state: Any
    verbose: bool

    kernel_: Kernel
    centers_: Points
    coefficients_: Array
    intercept_: Any
    penalty_: float
    record_: Record
    tuning_: Trace | Grid | None
    n_iter_: int
    n_features_in_: int
    _output_container: str | None = None
    _target_names: list[str] | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

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

        `fit` is called with the first rows: they decide the kernel, the centres, the classes and a first model. Every
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
        fit_batches(self, batches, first_rows)
        return self

    def _coded(self, y: Any, rows: int) -> Array:
        """Targets of so many rows as the model predicts them, of shape (rows, t)."""
        raise NotImplementedError

    def _read(self, X: Any, *, reset: bool) -> Points:
        points = read_points(self, X, reset=reset)
        if self._devices(points) is None and self.device is not None and torch.device(self.device) != device_of(points):
            if sparse.issparse(points):
                raise ValueError(f"device={self.device!r} does not take sparse X: leave device out")
            points = to_tensor(points).to(self.device)
        return points

    def _devices(self, points: Points) -> list[Any] | None:
        """The devices that share the rows, if they are not all on one: blocks of rows go there, X stays where it is."""
        if isinstance(self.device, list | tuple):
            return list(self.device)
        return [self.device] if self.device is not None and isinstance(points, Source) else None

    def _check_parameters(self) -> None:
        if self.solver not in ("auto", *automatic.SOLVERS):
            raise ValueError(f"solver must be 'auto' or one of {sorted(automatic.SOLVERS)}, got {self.solver!r}")
        if isinstance(self.kernel, Kernel):
            refuse_explicit(self.kernel, f"{type(self).__name__} cannot fit it")
        if self.penalty != "auto":
            _number(self.penalty, "penalty", least=0)
        if self.n_centers != "auto" and (not isinstance(self.n_centers, numbers.Integral) or self.n_centers < 1):
            raise ValueError(f"n_centers must be 'auto' or a positive whole number, got {self.n_centers!r}")
        if self.tolerance is not None:
            _number(self.tolerance, "tolerance", least=0)
        for name in ("max_iterations", "patience"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name} must be a positive whole number, got {value!r}")
        if not 0 < _number(self.validation_fraction, "validation_fraction", least=0) < 1:
            raise ValueError(f"validation_fraction must lie between 0 and 1, got {self.validation_fraction!r}")
        tuning_settings(self.tune)
        if self.memory_budget is not None:
            _number(self.memory_budget, "memory_budget", least=1)
        if self.checkpoint is not None and not isinstance(self.checkpoint, str | os.PathLike):
            raise ValueError(f"checkpoint must be the path of a directory or None, got {self.checkpoint!r}")

    def _hold_out(
        self, points: Points, y: Array, weights: Array | None, validation: Any, seed: int, labels: Array | None = None
    ) -> tuple[Points, Array, Array | None, Any]:
        """Training and validation parts: what was given as validation data, or a random fraction of the rows."""
        if validation is not None or not self.early_stopping:
            return points, y, weights, validation
        rows = np.arange(points.shape[0]) if weights is None else np.flatnonzero(weights)
        if len(rows) < 2:
            raise ValueError("early_stopping needs more than one sample: switch it off, or pass X_val and y_val")
        strata = None if labels is None else labels[rows]
        held = max(1, round(self.validation_fraction * len(rows)))
        if strata is not None:
            counts = np.unique(strata, return_counts=True)[1]
            strata = strata if counts.min() > 1 and len(counts) <= min(held, len(rows) - held) else None
        kept, held_rows = train_test_split(rows, test_size=held, random_state=seed, stratify=strata)
        kept = np.sort(kept)
        part = None if weights is None else weights[held_rows]
        held_out = (take(points, held_rows), y[held_rows], part)
        if isinstance(points, Source):  # the others are not to be gathered in memory
            weights = np.ones(len(y)) if weights is None else weights.copy()
            weights[held_rows] = 0.0
            return points, y, weights, held_out
        return take(points, kept), y[kept], None if weights is None else weights[kept], held_out

    def _fit_outputs(
        self,
        points: Points,
        Y: Array,
        weights: Array | None,
        *,
        loss: Loss,
        beginning: Beginning,
        given: tuple[Any, Any],
        attributes: Callable[[Tensor, Tensor], dict[str, Any]],
        validate: Callable[[], float] | None,
    ) -> None:
        """Choose kernel, centres and solver, solve, and set the fitted attributes that do not depend on the task.

        `attributes` turns coefficients and intercept into the fitted attributes of the estimator; `validate`, called
        once they are set, gives the error on validation data.
        """
        total = float(points.shape[0] if weights is None else weights.sum())
        again = self.warm_start and hasattr(self, "coefficients_")
        if again:
            kernel, C, group = self.kernel_, as_kind(self.centers_, points), None
            penalty = self.penalty_ if self.penalty == "auto" else float(self.penalty)
        else:
            choices = Choices(self, Data(points, Y, weights), loss, beginning)
            learned = choices.kernel_and_noise()
            self.tuning_ = learned.trace
            kernel, penalty = learned.kernel, learned.noise / total
            if self.penalty == "auto" and (self.solver in automatic.UNPENALISED or not loss.smooth):
                penalty = 0.0
            C, group = (
                choices.centers(kernel, penalty)
                if learned.centers is None
                else (as_kind(learned.centers, points), None)
            )
        problem = self._pose((kernel, points, C), Y, weights, group, penalty, loss, beginning.budget)
        name, reason = automatic.choose(problem, self.max_iterations) if self.solver == "auto" else (self.solver, "")
        self.kernel_, self.centers_, self.penalty_ = kernel, C, penalty
        start = self._start() if again else None
        self.__dict__.pop("record_", None)  # an earlier fit's has no say in how validation data are evaluated

        def error(coefficients: Tensor, intercept: Tensor) -> float:
            self.__dict__.update(attributes(coefficients, intercept))
            assert validate is not None
            return validate()

        after_iteration = tell_callbacks(self, *given, self.max_iterations)
        tolerance = automatic.TOLERANCE[name] if self.tolerance is None else float(self.tolerance)
        with Monitor(
            total=self.max_iterations,
            residual=tolerance if name == "newton" else max(10 * tolerance, 1e-12),
            verbose=bool(self.verbose),
            validate=None if validate is None else error,
            patience=self.patience if self.early_stopping else None,
            notify=lambda solution: after_iteration(lambda: attributes(*solution())),
        ) as monitor:
            try:
                solution = automatic.solve(
                    problem,
                    name,
                    tolerance=tolerance,
                    max_iterations=int(self.max_iterations),
                    start=start,
                    callback=monitor,
                    seed=beginning.solver_seed,
                    **resume_solve(beginning.checkpoint, problem, monitor),
                )
                interrupted = False
            except KeyboardInterrupt:
                if monitor.latest is None:
                    raise
                solution = what_was_reached(name, monitor.latest, Y.shape[1])
                interrupted = True
        if self.early_stopping and monitor.best is not None:
            solution = Solution(*monitor.best, solution.record)
        self.__dict__.update(attributes(solution.coefficients, solution.intercept))
        message = f"stopped early: {monitor.stopped}" if monitor.stopped else solution.record.message
        self.record_ = dataclasses.replace(
            solution.record,
            message=message,
            reason=reason,
            plan=str(problem.K.plan()),
            validation_errors=monitor.errors,
        )
        self.n_iter_ = max(1, self.record_.iterations)
        self._total_weight = total
        self._keep(problem, solution)
        callbacks_end(self, *given)
        if beginning.checkpoint is not None and not interrupted:
            beginning.checkpoint.clear()

    def _pose(
        self,
        K: tuple[Kernel, Points, Points],
        Y: Array,
        weights: Array | None,
        group: Array | None,
        penalty: float,
        loss: Loss,
        budget: int,
    ) -> LeastSquares | Risk:
        kernel, points, C = K
        floor: Any = 0.0
        if group is not None and isinstance(loss, Squared):  # the same problem with one row for each centre
            Y, weights, floor = center_rules.merge(Y, weights, group, C.shape[0])
            points = C
        if weights is not None and weights.min() == weights.max():
            weights = None
        own = points is C and (weights is None or self.solver != "eigenpro")  # which weighs rows beside their centres
        dtype, device = torch_dtype(points), device_of(points)
        targets = torch.from_numpy(np.ascontiguousarray(Y)).to(device, dtype)
        w = None if weights is None else torch.from_numpy(weights / weights.max())[:, None].to(device, dtype)
        matrix = KernelMatrix(
            kernel, points, None if own else C[:], memory_budget=budget, devices=self._devices(points)
        )
        if isinstance(loss, Squared):
            return LeastSquares(matrix, targets, penalty, w, self.fit_intercept, floor=floor)
        return Risk(matrix, targets, penalty, loss, w, self.fit_intercept)

    def _start(self) -> tuple[Tensor, Tensor]:
        """Coefficients and intercept of the last fit, as the solver knows them."""
        raise NotImplementedError

    def _keep(self, problem: LeastSquares | Risk, solution: Solution) -> None:
        """What a subclass wants to remember of the problem."""

    # Predicting.

    def _outputs(self, X: Any) -> Array:
        """f at the rows of X, of shape (n, t), in float64."""
        check_is_fitted(self)
        points = read_points(self, X, reset=False)
        if isinstance(points, Source):
            return np.concatenate([self._evaluate(as_kind(chunk, self.centers_)) for _, chunk in points.chunks()])
        return self._evaluate(as_kind(points, self.centers_))

    def _evaluate(self, points: Points, memory_budget: int | None = None) -> Array:
        coefficients = self.coefficients_.reshape(len(self.coefficients_), -1)
        peak = float(np.abs(coefficients).max(initial=0.0))
        scale = math.ldexp(1.0, math.frexp(peak)[1] - 1) if peak > 0 else 1.0  # so that float32 holds them all
        budget = self.memory_budget if memory_budget is None else memory_budget
        K = KernelMatrix(self.kernel_, points, self.centers_, memory_budget=budget, devices=self._devices(points))
        V = torch.from_numpy(coefficients / scale).to(K.device)
        if K.dtype == torch.float32 and self._needs_float64(coefficients):
            blocks = [slice(start, start + WIDE_ROWS) for start in range(0, K.shape[0], WIDE_ROWS)]
            values = np.concatenate([as_numpy(K.widened(rows) @ V) for rows in blocks])
        else:
            values = as_numpy(K @ V.to(K.dtype)).astype(np.float64)
        return np.asarray(values * scale + np.atleast_1d(self.intercept_))

    def _needs_float64(self, coefficients: Array) -> bool:
        """Whether large coefficients make the rounding of float32 entries of K visible beside the model's own error."""
        objective = self.record_.objective if hasattr(self, "record_") else []
        return drowned(coefficients / self._unit(), np.array(objective or [0.0]), 1.0)

    def _unit(self) -> Any:
        """What one is, for the solver, in units of the targets."""
        return 1.0

    def write_predictions(self, X: Any, path: str | os.PathLike[str], *, method: str = "predict") -> int:
        """Write predictions for data of any size to a file, chunk by chunk; returns the number of rows.

        Parameters
        ----------
        X : path, Source, Dask collection, or whatever `predict` takes
            Of a file with named columns those of the fit are read; there may be others.
        path : path
            Ends in .parquet, .feather, .csv or .npy. It appears when it is complete.
        method : str
            "predict", or of a classifier "predict_proba", "predict_log_proba" or "decision_function".

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf, tempfile
        >>> X = np.arange(6.0)[:, None]
        >>> model = gf.KernelRegressor().fit(X, X[:, 0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/new.npy", X)
        ...     model.write_predictions(f"{folder}/new.npy", f"{folder}/predicted.npy")
        6
        """
        check_is_fitted(self)
        if not callable(getattr(self, method, None)) or method not in _METHODS:
            raise ValueError(f"method must be one of {_METHODS} that {type(self).__name__} has, got {method!r}")
        source = source_of(X, getattr(self, "feature_names_in_", None)) if is_stream(X) else X
        step = source.chunk_rows() if isinstance(source, Source) else WIDE_ROWS
        rows = source.shape[0] if hasattr(source, "shape") else len(source)
        if rows == 0:
            raise ValueError("X has no rows to predict")
        parts = (np.asarray(getattr(self, method)(source[a : min(rows, a + step)])) for a in range(0, rows, step))
        first = next(parts)
        names = [*(self._target_names or ["y"])] if first.ndim == 1 else self._names(first.shape[1])
        return data.write(path, names, itertools.chain([first], parts))

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
        }
        arrays = pack_points(self.centers_, "centers")
        return values, arrays | {"coefficients": self.coefficients_, "intercept": np.asarray(self.intercept_)}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.kernel_ = Kernel.from_dict(values["kernel"])
        self.penalty_ = float(values["penalty"])
        self.n_features_in_ = int(values["n_features"])
        if values["feature_names"] is not None:
            self.feature_names_in_ = np.array(values["feature_names"], dtype=object)
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
        if self.centers_.shape != (len(self.coefficients_), self.n_features_in_) or intercept.size != columns:
            raise ValueError("the centres, coefficients and intercept do not fit together")


def _number(value: Any, name: str, *, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not least <= float(value) < math.inf:
        raise ValueError(f"{name} must be a finite number, {least} or more, got {value!r}")
    return float(value)
