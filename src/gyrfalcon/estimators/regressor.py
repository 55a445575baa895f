"""Kernel regression, by the conventions of scikit-learn."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gyrfalcon import progress
from gyrfalcon.arrays import Array, as_kind
from gyrfalcon.data.dask_source import is_dask
from gyrfalcon.losses import Absolute, Loss, Robust, Squared
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import Moments
from gyrfalcon.persistence import State

from .base import KernelEstimator
from .beginning import begin
from .callbacks import with_callbacks
from .dask_predictions import by_partition
from .data import hand_back, names_of, read_points, read_targets, read_weights, refuse_gradients, wants_gradients
from .gaussian_process import GaussianProcessMixin, in_columns, normal_quantile
from .interrupts import keeps_the_old_model
from .monitor import shows_progress
from .pipeline import Validation
from .streams import opened
from .target_transform import TargetTransform
from .targets import RegressionTargets
from .transform_trial import check_kept, check_positive, check_target_transform, named_transforms
from .uncertainty import evidence_of
from .updates import check_updatable, is_updatable
from .wrong_names import check_loss

LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Absolute(), Robust(), Squared())}


class KernelRegressor(GaussianProcessMixin, RegressorMixin, MultiOutputMixin, KernelEstimator):  # type: ignore[misc]
    """Kernel ridge regression at any scale: min over f, b of Σᵢ wᵢ ℓ(f(xᵢ) + b, yᵢ) / Σᵢ wᵢ + penalty ‖f‖².

    f is a combination of kernels at `n_centers` centers (Nyström). With the defaults there is nothing to scale and
    nothing to set: features are scaled by their spread, and small data are solved exactly.

    Parameters
    ----------
    kernel : str, Kernel or callable
        A name such as "gaussian", "laplacian", "matern"; "auto", which tuning chooses among Gaussian, Matérn and
        product Laplacian kernels and their sums, and which is Gaussian without tuning; one of `gyrfalcon.kernels`,
        which brings its own length scale; or a function of two tensors.
    length_scale : "auto", float or one float per feature
        "auto" is tuned, starting from the spread of each feature times the median distance between points.
    penalty : "auto" or float
        "auto" is tuned; without tuning it is 0.01 over the sum of the weights: for a Gaussian process, noise of a
        hundredth of the variance.
    centers : str, array or callable
        "uniform", "kmeans", "leverage" or "pivoted"; the centers themselves; or a rule of your own.
    n_centers : "auto" or int
    loss : "squared", "robust", "absolute" or one of `gyrfalcon.losses`
        "robust" is log cosh, which grows like the absolute error; `losses.Quantile(0.9)` fits a quantile.
    solver : str or Solver
        "auto" takes the one that is expected to be fastest; `record_` says which and why. Others by name are "exact",
        "direct", "falkon", "eigenpro", "newton", "smoothed_newton", "nytro", "nu_method", "kernel_cg",
        "spectral_cutoff" and "sgd"; with settings of their own they are values of `gyrfalcon.solvers`, such as
        `Falkon(tolerance=1e-5)`. The last five are regularized by when they stop, on rows they hold out, and take a
        penalty of "auto" for none.
    fit_intercept : bool
        Whether to fit b, which is not penalized.
    early_stopping : bool or EarlyStopping
        Whether to stop an iterative solver when the error on validation data no longer falls: a share of the rows set
        aside, or what `fit` is given as X_val and y_val. It is a root mean square, or the mean of a loss that is not
        squared. True sets a tenth aside and waits for five iterations.
    warm_start : bool
        Whether the next `fit` keeps this one's kernel and centers, and begins from its coefficients where the solver
        can begin anywhere.
    tune : "auto", None, str, Objective, Tuning or PenaltyPath
        How what is "auto" is learned; None for not at all, the name of an objective to tune everything by it, "map" to
        learn a linear map of the inputs. On at most 26,000 rows, unless a `Tuning` says otherwise.
    partition : "auto", None or Partition
        Cut the rows into leaves that are solved exactly, on top of one Nyström model of all of them, instead of taking
        more centers. For the squared loss and rows that fit memory; see `Partition`. "auto" tries it on a sample of the
        rows where there are more than 5,000 and everything else is left open, and keeps it if it errs clearly less.
    target_transform : "auto", None, "log" or "arsinh"
        What to fit to instead of targets with a long tail; predictions, deviations and intervals are those of y itself.
        "log" takes positive targets; "arsinh" takes any, is linear near one end of them and grows like a logarithm
        towards the other. "auto" tries some of the latter where the skewness is one or more in absolute value, and
        takes one if the squared error of y is clearly lower on rows that are left out. For the squared loss.
    updatable : bool
        Whether to keep the moments of the rows, two m × m matrices, so that `partial_fit` can add more rows. For the
        squared loss, which is then solved by factorization of the moments.
    uncertainty : "auto" or bool
        Whether to keep what `predict(return_std=True)` needs, an m × m matrix. "auto" keeps it when the solver makes
        it anyway (exact and direct); True makes it with one more pass over the data, for at most 1,000 of the centers,
        with which deviations are rather too large than too small.
    time_budget : float, optional
        Seconds that `fit` may take. Tuning ends early, there are fewer centers, and iterations stop, so that the best
        model so far is there in time; `record_.reason` says what was cut. The time is kept to within a fifth, unless
        even the smallest model takes longer.
    checkpoint : path of a directory, optional
        Where the fit is kept while it runs: killed, it goes on from there when it is called again as it was, and ends
        with the same coefficients. Emptied when the fit is complete; one directory per fit.
    memory_budget : int, optional
        Bytes that temporaries may take; a quarter of the free memory by default.
    device : str or torch.device, optional
        Where to compute; where X is by default.
    random_state : int, RandomState or None
    verbose : bool
        Whether to show a bar, on a terminal, when a fit takes longer than two seconds.

    Attributes
    ----------
    kernel_ : Kernel
    centers_ : array, tensor or sparse matrix of shape (m, d)
    coefficients_ : array of shape (m,) or (m, t)
        In units of the targets or, if these are transformed, of what they are transformed to.
    intercept_ : float or array of shape (t,)
        Likewise.
    penalty_ : float
    tuning_ : Trace, Grid or None
        What tuning did, step by step; None if there was none.
    record_ : Record
        What the solver did: iterations, residuals, objective, times, plan.
    partition_ : LocalFunction or None
        The leaves, which predictions add to Σⱼ coefficientsⱼ k(·, centersⱼ) + intercept; None if there is one only.
    target_transform_ : TargetTransform, list or None
        What the function is fitted to: Σⱼ coefficientsⱼ k(·, centersⱼ) + intercept is `target_transform_.forward` of
        the targets. None for the targets themselves; of several outputs a list, with None for those.
    moments_ : Moments
        With `updatable`, those of all rows so far.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
    encoder_ : TablePreprocessor or None
        What makes features of X if the fit had missing values, categories or dates.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = gf.KernelRegressor(penalty=1e-6).fit(X, y)
    >>> round(model.score(X, y), 4)
    1.0
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> mean.shape, std.shape
    ((3,), (3,))
    """

    _targets: RegressionTargets

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        length_scale: Any = "auto",
        penalty: Any = "auto",
        centers: Any = "uniform",
        n_centers: Any = "auto",
        loss: Any = "squared",
        solver: Any = "auto",
        fit_intercept: bool = True,
        early_stopping: Any = False,
        warm_start: bool = False,
        tune: Any = "auto",
        partition: Any = "auto",
        target_transform: Any = "auto",
        updatable: bool = False,
        uncertainty: Any = "auto",
        time_budget: float | None = None,
        checkpoint: Any = None,
        memory_budget: int | None = None,
        device: Any = None,
        random_state: Any = None,
        verbose: bool = True,
    ):
        self.kernel = kernel
        self.length_scale = length_scale
        self.penalty = penalty
        self.centers = centers
        self.n_centers = n_centers
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.tune = tune
        self.partition = partition
        self.target_transform = target_transform
        self.updatable = updatable
        self.uncertainty = uncertainty
        self.time_budget = time_budget
        self.checkpoint = checkpoint
        self.memory_budget = memory_budget
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks  # type: ignore[untyped-decorator]
    @keeps_the_old_model
    @shows_progress
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: Any = None,
        weight: Any = None,
        features: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        callback: Any = None,
    ) -> Self:
        """Fit the regression.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d), or data larger than memory
            The path of a Parquet, Feather, Zarr, .npy or CSV file, a function that gives an iterator of chunks, what
            `gyrfalcon.data.open` returns, or a Dask array or frame. Rows are read in every pass; targets are kept.
            Missing values of arrays, and missing values, categories and dates of data frames, become features.
        y : array, series or tensor of shape (n,) or (n, t)
        sample_weight : array of shape (n,), optional
            A row of weight two counts like two rows.
        target : str or int, or several, optional
            The columns of X to predict, if X is a file or a Dask frame; y is left out then.
        weight : str or int, optional
            The column of the weights, instead of `sample_weight`.
        features : sequence of str or int, optional
            The columns to predict from; all others if not given.
        X_val, y_val : optional
            Validation data: watched, and used for early stopping if that is on.
        callback : function of a `gyrfalcon.solvers.Step`, optional
            Called after each iteration of the solver, which must be one that iterates; True stops the fit.
        """
        self._check_parameters()
        self._check_validation(X_val, y_val)
        if self.uncertainty not in ("auto", True, False):
            raise ValueError(f"uncertainty must be 'auto', True or False, got {self.uncertainty!r}")
        loss = self._loss()
        if self.uncertainty is True and not isinstance(loss, Squared):
            raise ValueError(f"uncertainty=True needs the squared loss, got loss={self.loss!r}: leave it out")
        named = {"target": target, "weight": weight, "features": features}
        X, y, sample_weight = opened(X, y, sample_weight, **named)
        points = self._read(X, reset=True)
        targets = read_targets(y, rows=points.shape[0])
        weights = read_weights(sample_weight, points)
        given: dict[str, Any] = {"y": targets, "sample_weight": weights}
        validation = None
        if X_val is not None:
            X_val, y_val, _ = opened(X_val, y_val, None, **named)
            held = self._read(X_val, reset=False)
            validation = Validation(held, read_targets(y_val, rows=held.shape[0]))
            given |= {"X_val": validation.points, "y_val": validation.y}
        beginning = begin(self, points, given)
        if validation is None:
            points, targets, weights, validation = self._hold_out(points, targets, weights, beginning.solver_seed)
        outputs = targets.reshape(len(targets), -1).shape[1]
        if self.warm_start and hasattr(self, "coefficients_"):
            before = self.coefficients_.reshape(len(self.coefficients_), -1).shape[1]
            if before != outputs:
                raise ValueError(f"warm_start needs the {before} outputs of the last fit, but y has {outputs}")
        known = self._targets.transforms if self.warm_start and hasattr(self, "coefficients_") else None
        if known is not None:
            check_kept(self, known)
        transforms = named_transforms(check_target_transform(self), targets, weights) if known is None else known
        check_positive(transforms, targets, weights)  # those of an earlier fit know other targets
        coded = RegressionTargets.of(targets, weights, loss, centered=self.fit_intercept, transforms=transforms)
        self._target_names = names_of(y, target)
        narrow = points.dtype in (np.float32, torch.float32) and getattr(y, "dtype", None) in _NARROW
        self._output_type = np.dtype(np.float32 if narrow else np.float64)
        also: dict[str, Any] = {"given": (X, y), "validation": validation, "callback": callback}
        fitted = self._fit_outputs(points, targets, weights, coded, beginning, **also)
        progress.stage("estimating uncertainty")
        self._keep_evidence(fitted)
        self._widen(fitted, points, self._targets.encode(targets), weights)
        return self

    @available_if(is_updatable)  # type: ignore[untyped-decorator]
    @keeps_the_old_model
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, target: Any = None, weight: Any = None
    ) -> Self:
        """Learn from more rows: the result is that of a fit to all rows so far with the same kernel and centers.

        It is exact, not a gradient step, and costs one pass over the new rows and a factorization of m × m numbers. The
        first call is a `fit`: it chooses kernel, centers and penalty. A penalty that was given multiplies the mean loss
        of all rows, as in a fit. One that is "auto" was chosen as the variance of noise, penalty × Σw, which stays as
        it is, so that `penalty_` falls as rows come.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d), or data larger than memory
        y : array of shape (n,) or (n, t)
        sample_weight : array of shape (n,), optional
        target, weight : optional
            Columns of X, as for `fit`.

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.linspace(0, 6, 300)[:, None]
        >>> y = np.sin(X[:, 0])
        >>> model = gf.KernelRegressor("gaussian", centers=X[::10], length_scale=1.0, penalty=1e-6, updatable=True)
        >>> whole = gf.KernelRegressor(**model.get_params()).fit(X, y)
        >>> for rows in (slice(0, 100), slice(100, 300)):
        ...     model = model.partial_fit(X[rows], y[rows])
        >>> bool(np.abs(model.predict(X) - whole.predict(X)).max() < 1e-9)
        True
        """
        if not hasattr(self, "moments_"):
            self.fit(X, y, sample_weight, target=target, weight=weight)
            return self
        check_updatable(self)
        K, y, sample_weight = self._read_more(X, y, sample_weight, target=target, weight=weight)
        targets, outputs = read_targets(y, rows=K.shape[0]), len(self.moments_.origin)
        if targets.ndim != self.coefficients_.ndim or targets.reshape(len(targets), -1).shape[1] != outputs:
            raise ValueError(f"y has shape {targets.shape}, but the model was fitted to {outputs} targets a row")
        weights = read_weights(sample_weight, K)
        check_positive(self._targets.transforms, targets, weights)
        self._targets = self._targets.reaching(targets, weights)
        return self._add_rows(K, self._targets.encode(targets), weights)

    def _kept_moments(self, moments: Moments) -> Moments:
        return moments

    def _asked_moments(self) -> Moments:
        return self.moments_

    @property
    def target_transform_(self) -> Any:
        """What the targets were transformed by before the fit."""
        check_is_fitted(self, "coefficients_")
        transforms = self._targets.transforms
        if not any(transforms):
            return None
        return transforms[0] if self.coefficients_.ndim == 1 else list(transforms)

    def _loss(self) -> Loss:
        if isinstance(self.loss, Loss):
            return self.loss
        check_loss(self.loss, LOSSES)
        return LOSSES[self.loss]

    def _read_y(self, y: Any, rows: int) -> Array:
        targets = read_targets(y, rows=rows)
        check_positive(self._targets.transforms, targets, None)
        return targets

    # Predicting.

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predicted targets, as the kind of X; with `return_std` also the standard deviation of a new observation.

        The deviation is that of the Gaussian process whose mean this is, its noise included; signal and noise have
        the scales of maximum likelihood on the training data. Where the penalty was left to tuning, deviations are then
        multiplied by a factor with which nine of ten rows that are left out fall into their 90 % intervals; the last
        of `tuning_.stages` tells it. Where the targets were transformed, the mean is that of the targets themselves,
        with the residuals of rows that are left out, and the deviation is the one that a target has if what it is
        transformed to is normal: it says less than `predict_interval`, which does not have to be symmetric.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
            A tensor that requires gradients gets predictions that keep them. A Dask array or data frame gets a Dask
            collection, which the workers make when it is computed.
        return_std : bool
        return_cov : bool
            The covariance of new observations instead, of shape (n, n), or (n, n, t) with several outputs.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov: ask for one of them, the diagonal of the second is the square")
        if is_dask(X):
            if return_cov:
                raise ValueError("return_cov needs all rows of X at once, and X is a Dask collection: use return_std")
            mean = by_partition(self, X, "predict")
            return (mean, by_partition(self, X, "_deviations")) if return_std else mean
        if wants_gradients(X):
            if return_std or return_cov:
                raise ValueError("X requires gradients, which only the mean keeps: pass X.detach()")
            return self._differentiable(X)
        values = self._outputs(X)
        mean = self._handed_back(self._targets.means(values), X)
        if return_cov:
            return self._with_covariance(X, mean)
        return (mean, self._deviations(X, values)) if return_std else mean

    def _handed_back(self, values: Array, X: Any) -> Any:
        """One column per output as the kind of X."""
        names, flat = self._names(values.shape[1]), self.coefficients_.ndim == 1
        values = (values[:, 0] if flat else values).astype(self._output_type)
        return hand_back(values, X, names, self._output_container)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², the share of the variance of y that is predicted.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
        y : array of shape (n,) or (n, t)
        sample_weight : array of shape (n,), optional
        """
        if is_dask(X):
            from sklearn.metrics import r2_score  # which takes a while to import

            return float(r2_score(y, self.predict(X).compute(), sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    def _deviations(self, X: Any, outputs: Array | None = None) -> Any:
        """Standard deviations of new observations, as the kind of X."""
        spreads = self._spreads(X)
        if any(self._targets.transforms):
            outputs = self._outputs(X) if outputs is None else outputs
            spreads = self._targets.each(TargetTransform.deviation, outputs, spreads)
        return self._handed_back(spreads, X)

    def _differentiable(self, X: torch.Tensor) -> torch.Tensor:
        """The mean at the rows of a tensor that requires gradients, which it keeps."""
        check_is_fitted(self)
        if self.partition_ is not None:
            raise ValueError("X requires gradients, which a partition does not keep: pass X.detach()")
        read_points(self, X, reset=False)
        centers = torch.as_tensor(as_kind(self.centers_, X.detach())).to(X.device, torch.float64)
        columns = torch.from_numpy(self.coefficients_.reshape(len(self.coefficients_), -1)).to(X.device)
        values: torch.Tensor = KernelMatrix(self.kernel_, X.double(), centers, cache=False) @ columns
        values = values + torch.as_tensor(np.atleast_1d(self.intercept_), device=X.device)
        if any(self._targets.transforms):
            means = zip(self._targets.transforms, values.T, strict=True)
            values = torch.stack([own if each is None else each.mean(own) for each, own in means], 1)
        return (values[:, 0] if self.coefficients_.ndim == 1 else values).to(X.dtype)

    def prediction_columns(
        self, X: Any, *, return_std: bool = False, interval: float | None = None
    ) -> dict[str, Array]:
        """Predictions as the columns of a table: `prediction`, and what is asked for.

        Of several outputs, the names of the columns end in those of the outputs.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
        return_std : bool
            Adds `standard_deviation`.
        interval : float, optional
            Adds `lower` and `upper`, between which so large a share of new observations is expected.

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.arange(6.0)[:, None]
        >>> list(gf.KernelRegressor().fit(X, X[:, 0]).prediction_columns(X, interval=0.9))
        ['prediction', 'lower', 'upper']
        """
        outputs = self._names(1 if self.coefficients_.ndim == 1 else self.coefficients_.shape[1])
        if not return_std and interval is None:
            return in_columns(self.predict(X), "prediction", outputs)
        refuse_gradients(self, X)
        X = X.compute() if is_dask(X) else X
        values, spreads = self._outputs(X), self._spreads(X)
        found = in_columns(self._handed_back(self._targets.means(values), X), "prediction", outputs)
        if return_std:
            deviations = self._targets.each(TargetTransform.deviation, values, spreads)
            found |= in_columns(self._handed_back(deviations, X), "standard_deviation", outputs)
        if interval is not None:
            z = normal_quantile(interval)
            for name, away in (("lower", -z * spreads), ("upper", z * spreads)):
                found |= in_columns(self._ended(values, away, X), name, outputs)
        return found

    def _names(self, outputs: int) -> list[str]:
        given = self._target_names
        return given if given and len(given) == outputs else [f"y{i}" if outputs > 1 else "y" for i in range(outputs)]

    # Model files.

    def _state(self) -> State:
        values, arrays = super()._state()
        values |= {"target_names": self._target_names, "output_type": self._output_type.name}
        numbers = {"scale": self._targets.scale, "location": self._targets.location}
        if any(self._targets.transforms):  # other names of arrays: what does not know transforms must not read it
            values["target_transforms"] = [each and dataclasses.asdict(each) for each in self._targets.transforms]
            numbers = {f"transformed_{name}": array for name, array in numbers.items()}
        arrays = arrays | numbers
        shared = {"triangle", "moments"} if hasattr(self, "moments_") else set()
        return values, arrays | {f"evidence.{name}": self._evidence[name] for name in self._evidence.keys() - shared}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._set_state(values, arrays)
        self._target_names = values["target_names"]
        self._output_type = np.dtype(values["output_type"])
        flat = self.coefficients_.ndim == 1
        described = values.get("target_transforms", ())
        transforms = tuple(None if each is None else TargetTransform(**each) for each in described)
        location, scale = (arrays["transformed_" * bool(transforms) + name] for name in ("location", "scale"))
        if transforms and len(transforms) != scale.size:
            raise ValueError("the transforms of the targets do not fit their number")
        self._targets = RegressionTargets(Squared(), location, scale, flat, transforms)
        self._posterior = None
        self._evidence = {
            name.removeprefix("evidence."): array for name, array in arrays.items() if name.startswith("evidence.")
        }
        self._unpack_moments(values, arrays, self._targets.scale.size)
        if self._evidence and hasattr(self, "moments_"):
            self._evidence |= evidence_of(self.moments_)


_NARROW = (np.float32, np.float16, torch.float32, torch.float16, torch.bfloat16)
