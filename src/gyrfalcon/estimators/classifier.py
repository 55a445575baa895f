"""Kernel classification, by the conventions of scikit-learn."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gyrfalcon import progress
from gyrfalcon.arrays import AnyPoints, Array, as_numpy
from gyrfalcon.data import Source
from gyrfalcon.data.dask_source import is_dask
from gyrfalcon.losses import (
    LOSSES,
    Coding,
    Exponential,
    Hinge,
    Logistic,
    Loss,
    MultilabelLogistic,
    OneHot,
    Simplex,
    Softmax,
    Squared,
)
from gyrfalcon.moments import Moments
from gyrfalcon.persistence import State
from gyrfalcon.threads import one_thread_each
from gyrfalcon.tuning import Trace

from .balance import LEAST_SHARE, balance
from .base import KernelEstimator
from .beginning import begin
from .calibration import Calibration, Judged, judged_rows
from .callbacks import with_callbacks
from .dask_predictions import by_partition
from .data import hand_back, names_of, read_labels, read_weights, refuse_gradients
from .interrupts import keeps_the_old_model
from .monitor import shows_progress
from .partitioned import as_judged
from .pipeline import Fitted, Validation
from .streams import opened
from .targets import ClassTargets, LabelTargets, check_same_kind
from .updates import check_updatable, is_updatable, to_codes, to_indicators
from .wrong_names import check_loss

_PENALIZED = ("direct", "exact", "falkon")  # solvers whose least squares fit is the penalized one
CLASS_LOSSES = ("squared", "logistic", "softmax", "exponential", "hinge")
LABEL_LOSSES: dict[str, Loss] = {"squared": Squared(), "logistic": MultilabelLogistic()}
CODINGS: dict[str, type[Coding]] = {"one-hot": OneHot, "simplex": Simplex}


def _has_probabilities(classifier: KernelClassifier) -> bool:
    return bool(classifier.loss != "hinge")


class KernelClassifier(ClassifierMixin, KernelEstimator):  # type: ignore[misc]
    """Kernel classification at any scale: classes are coded as vectors, which f is fitted to.

    Minimizes Σᵢ wᵢ ℓ(f(xᵢ) + b, code of yᵢ) / Σᵢ wᵢ + penalty ‖f‖² with f a combination of kernels at `n_centers`
    centers, and predicts the class whose code is nearest. Where rows have several labels, each label is an output
    of its own, -1 or 1.

    Parameters
    ----------
    loss : "squared", "logistic", "softmax", "exponential" or "hinge"
        "squared" is the fastest, and its probabilities are calibrated. "logistic" estimates them directly; with more
        than two classes and one-hot coding it is "softmax". "hinge" gives none.
    coding : "auto", "one-hot" or "simplex"
        How more than two classes are coded: k orthogonal vectors, or k vectors of k - 1 dimensions as far from each
        other as can be. Two classes are always -1 and 1. "auto" is "simplex" for "exponential" and "hinge", which take
        no other, and else "one-hot".
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied into `sample_weight`.
    kernel, length_scale, penalty, centers, n_centers, solver, fit_intercept, early_stopping, warm_start, tune, \
partition, updatable, time_budget, checkpoint, memory_budget, device, random_state, verbose
        As in `KernelRegressor`.

    Attributes
    ----------
    classes_ : array of shape (k,)
        Of rows with several labels, the numbers of the labels.
    multilabel_ : bool
        Whether rows have several labels.
    kernel_, centers_, coefficients_, intercept_, penalty_, tuning_, record_, partition_, n_iter_, \
n_features_in_, feature_names_in_, encoder_
        As in `KernelRegressor`; coefficients have one column per output of the coding.
    calibration_ : Calibration or None
        The map from scores to probabilities, fitted to leave-one-out scores of a sample of the rows. None with another
        loss than "squared", which needs none, with `updatable`, for rows that are not in memory, and for solvers that
        stop early instead of penalizing.
    moments_ : Moments
        With `updatable`, those of all rows so far, with indicators of the classes as targets.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = gf.KernelClassifier(loss="logistic", penalty=1e-4).fit(X, y)
    >>> model.score(X, y) > 0.97
    True
    >>> model.predict_proba(X[:1]).round(2)
    array([[1., 0., 0.]])
    """

    classes_: Array
    multilabel_: bool = False
    calibration_: Calibration | None = None
    _targets: ClassTargets | LabelTargets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._refusal_of_labels() is None
        return tags

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        length_scale: Any = "auto",
        penalty: Any = "auto",
        centers: Any = "uniform",
        n_centers: Any = "auto",
        loss: str = "squared",
        coding: str = "auto",
        class_weight: Any = None,
        solver: Any = "auto",
        fit_intercept: bool = True,
        early_stopping: Any = False,
        warm_start: bool = False,
        tune: Any = "auto",
        partition: Any = "auto",
        updatable: bool = False,
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
        self.coding = coding
        self.class_weight = class_weight
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.tune = tune
        self.partition = partition
        self.updatable = updatable
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
        """Fit the classifier.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d), or data larger than memory
            The path of a Parquet, Feather, Zarr, .npy or CSV file, a function that gives an iterator of chunks, what
            `gyrfalcon.data.open` returns, or a Dask array or frame. Rows are read in every pass; targets are kept.
            Missing values of arrays, and missing values, categories and dates of data frames, become features.
        y : array, series or tensor of shape (n,), or zeros and ones of shape (n, k)
            Labels of any kind; or which of k labels each row has, with the squared or the logistic loss.
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
        named = {"target": target, "weight": weight, "features": features}
        X, y, sample_weight = opened(X, y, sample_weight, **named)
        points = self._read(X, reset=True)
        labels = read_labels(y, rows=points.shape[0], several=True)
        check_classification_targets(labels)
        weights = self._weigh(labels, read_weights(sample_weight, points))
        targets = self._targets_of(labels, weights)
        self._target_names = names_of(y, target)
        given: dict[str, Any] = {"y": labels, "sample_weight": weights}
        validation = None
        if X_val is not None:
            X_val, y_val, _ = opened(X_val, y_val, None, **named)
            held = self._read(X_val, reset=False)
            validation = Validation(held, read_labels(y_val, rows=held.shape[0], several=self.multilabel_))
            targets.check(validation.y, "y_val")
            given |= {"X_val": validation.points, "y_val": validation.y}
        beginning = begin(self, points, given)
        if validation is None:
            strata = None if self.multilabel_ else labels
            points, labels, weights, validation = self._hold_out(points, labels, weights, beginning.solver_seed, strata)
        if weights is not None and not self.multilabel_:  # rows of no weight may have any label
            labels = np.where(weights > 0, labels, self.classes_[0])
        also: dict[str, Any] = {"given": (X, y), "validation": validation, "callback": callback}
        fitted = self._fit_outputs(points, labels, weights, targets, beginning, **also)
        self._calibrate(fitted, points, labels, weights)
        return self

    def _targets_of(self, labels: Array, weights: Array | None) -> ClassTargets | LabelTargets:
        """The coding and the loss of labels; sets `classes_`."""
        previous: tuple[Any, bool] = (getattr(self, "classes_", None), self.multilabel_)
        self.multilabel_ = labels.ndim == 2
        if self.multilabel_:
            self.classes_ = np.arange(labels.shape[1])
        else:
            seen = labels if weights is None else labels[weights > 0]
            self.classes_ = np.union1d(seen, self.__dict__.get("_announced", seen))
        same = np.array_equal(previous[0], self.classes_) and previous[1] == self.multilabel_
        if self.warm_start and previous[0] is not None and not same:
            raise ValueError(f"warm_start needs the classes of the last fit, {previous[0]}, but y has {self.classes_}")
        if self.multilabel_:
            return LabelTargets(self._loss_of_labels(), labels.dtype)
        if len(self.classes_) < 2:
            remedy = ", so name those that will come in classes" if self.updatable else ""
            raise ValueError(f"y has one class only, {self.classes_[0]!r}: a classifier needs two{remedy}")
        coding, loss = self._code_and_loss()
        return ClassTargets(loss, self.classes_, coding)

    def _loss_of_labels(self) -> Loss:
        """The loss for several labels per row."""
        check_loss(self.loss, CLASS_LOSSES)
        if refusal := self._refusal_of_labels():
            raise ValueError(refusal)
        return LABEL_LOSSES[self.loss]

    def _refusal_of_labels(self) -> str | None:
        """Why the parameters do not allow several labels per row, if they do not."""
        why = "does not go with several labels per row, which y has"
        if self.loss not in LABEL_LOSSES:
            return f"loss={self.loss!r} {why}: take 'squared' or 'logistic'"
        for name, usual in (("coding", "auto"), ("class_weight", None), ("updatable", False)):
            if (value := getattr(self, name)) != usual:
                return f"{name}={value!r} {why}: leave it out"
        return None

    @one_thread_each
    def _calibrate(self, fitted: Fitted, points: AnyPoints, labels: Array, weights: Array | None) -> None:
        """Fit the map from scores to probabilities, where the fit is least squares on rows that are at hand."""
        self.calibration_ = None
        penalized = self.penalty_ > 0 and self.record_.solver in _PENALIZED and self.kernel_.positive_definite
        at_hand = not (self.updatable or fitted.interrupted or isinstance(points, Source))
        late = fitted.deadline is not None and fitted.deadline.last_call
        if self.loss != "squared" or not penalized or not at_hand or late:
            return
        progress.stage("calibrating probabilities")
        started = time.perf_counter()
        how = as_judged(fitted, points, intercept=bool(self.fit_intercept))
        found = judged_rows(points, labels, weights, self._targets, **how)
        if found is not None:
            open_ = self.tune == "auto" and self.penalty == "auto" and bool(self.fit_intercept)
            if open_ and len(found.labels) >= LEAST_SHARE * points.shape[0] and isinstance(self.tuning_, Trace):
                found = self._balance(found, self.tuning_)
            self.calibration_ = Calibration.of(*found)
        self.record_.seconds["calibrate"] = time.perf_counter() - started

    def _balance(self, found: Judged, trace: Trace) -> Judged:
        """Move the border between classes by the intercept, where rows that were left out ask for it."""
        if not isinstance(self._targets, ClassTargets):
            return found
        offsets, stage = balance(found, self.penalty_)
        trace.stages.append(stage)
        if stage.chosen:
            self.intercept_ = self.intercept_ + self._targets.outputs_of(offsets)
            self._function()  # prepared with the new intercept
        return found._replace(shares=found.shares + offsets)

    @available_if(is_updatable)  # type: ignore[untyped-decorator]
    @keeps_the_old_model
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        target: Any = None,
        weight: Any = None,
    ) -> Self:
        """Learn from more rows: the result is that of a fit to all rows so far with the same kernel and centers.

        Labels never seen before are new classes. See `KernelRegressor.partial_fit` for the penalty.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d), or data larger than memory
        y : labels of shape (n,)
        classes : labels, optional
            Some that will come. They need not be named, unless the first rows have one label only.
        sample_weight : array of shape (n,), optional
        target, weight : optional
            Columns of X, as for `fit`.

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.random.default_rng(0).normal(size=(90, 2)) + np.repeat([[0, 4], [4, 0], [-4, -4]], 30, axis=0)
        >>> y = np.repeat(["cup", "ball", "book"], 30)
        >>> model = gf.KernelClassifier("gaussian", length_scale=3.0, penalty=1e-3, updatable=True)
        >>> model = model.partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
        >>> model.classes_.tolist(), model.score(X, y)
        (['ball', 'book', 'cup'], 1.0)
        """
        announced = None if classes is None else np.unique(np.asarray(classes))
        if not hasattr(self, "moments_"):
            if announced is not None:
                self._announced = announced
            self.fit(X, y, sample_weight, target=target, weight=weight)
            self.__dict__.pop("_announced", None)
            return self
        check_updatable(self)
        K, y, sample_weight = self._read_more(X, y, sample_weight, target=target, weight=weight)
        labels = read_labels(y, rows=K.shape[0])
        check_classification_targets(labels)
        weights = read_weights(sample_weight, K)
        for more in (announced, labels if weights is None else labels[weights > 0]):
            self._grow(more)
        if self.class_weight is not None:
            by_class = np.array([self.class_weight.get(label, 1.0) for label in labels.tolist()], dtype=np.float64)
            weights = by_class if weights is None else by_class * weights
        assert isinstance(self._targets, ClassTargets)
        indicators = np.eye(len(self.classes_))[self._targets.indices(labels, weights)]
        return self._add_rows(K, indicators, weights)

    @available_if(is_updatable)  # type: ignore[untyped-decorator]
    @keeps_the_old_model
    def add_classes(self, labels: Any) -> Self:
        """Add classes that no row has had so far; `partial_fit` does it for labels that it meets.

        Parameters
        ----------
        labels : sequence of labels
            Those that are known already are left as they are.

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.arange(6.0)[:, None]
        >>> model = gf.KernelClassifier("gaussian", updatable=True).fit(X, list("aaabbb"))
        >>> model.add_classes(["c"]).classes_.tolist()
        ['a', 'b', 'c']
        """
        check_is_fitted(self)
        self._grow(np.unique(np.asarray(labels)))
        self._solve_again(self.moments_)
        return self

    def _grow(self, labels: Array | None) -> None:
        """Make room for classes that are new: their indicators were zero in all rows so far."""
        known = self.classes_
        if labels is None or len(labels) == 0 or np.isin(labels, known).all():
            return
        check_same_kind(known, labels)
        self.classes_ = np.union1d(known, labels)
        sums, columns = self.moments_.sums, np.searchsorted(self.classes_, known)
        grown = (np.zeros((*part.shape[:-1], len(self.classes_))) for part in (sums.cross, sums.targets))
        cross, totals = grown
        cross[:, columns], totals[columns] = sums.cross, sums.targets
        wide = dataclasses.replace(sums, cross=cross, targets=totals, squares=totals)
        self.moments_ = dataclasses.replace(self.moments_, sums=wide, origin=np.zeros(len(totals)))
        coding, loss = self._code_and_loss()
        self._targets = ClassTargets(loss, self.classes_, coding)

    def _kept_moments(self, moments: Moments) -> Moments:
        assert isinstance(self._targets, ClassTargets)  # several labels are not updated
        return to_indicators(moments, self._targets.coding.codes)

    def _asked_moments(self) -> Moments:
        assert isinstance(self._targets, ClassTargets)
        return to_codes(self.moments_, self._targets.coding.codes)

    def _weigh(self, labels: Array, weights: Array | None) -> Array | None:
        if self.class_weight is None or labels.ndim == 2:  # which is refused later
            return weights
        own = np.ones(len(labels)) if weights is None else weights
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":  # every class has the same total
            places = np.unique(labels, return_inverse=True)[1]
            totals = np.bincount(places, own)
            present = np.where(totals > 0, totals, np.inf)
            return np.asarray(own * (own.sum() / np.count_nonzero(totals) / present)[places])
        by_class = compute_sample_weight(self.class_weight, labels)
        if not np.isfinite(by_class).all() or (by_class < 0).any() or not (own * by_class).any():
            raise ValueError(
                f"class_weight must hold finite numbers, zero or more and not all zero, got {self.class_weight!r}"
            )
        return np.asarray(own * by_class)

    def _code_and_loss(self) -> tuple[Coding, Loss]:
        k = len(self.classes_)
        if self.coding not in ("auto", *CODINGS):
            raise ValueError(f"coding must be 'auto' or one of {sorted(CODINGS)}, got {self.coding!r}")
        check_loss(self.loss, CLASS_LOSSES)
        margins = {"hinge": Hinge(), "exponential": Exponential()}
        if self.loss in margins and self.coding == "one-hot" and k > 2:
            raise ValueError(f"coding='one-hot' does not go with loss={self.loss!r}: leave it out, or take 'simplex'")
        if self.loss == "softmax" and self.coding == "simplex":
            raise ValueError("coding='simplex' does not go with loss='softmax': leave it out, or take 'logistic'")
        coding = CODINGS["one-hot" if self.coding == "auto" else self.coding](k)
        if self.loss == "squared":
            return (Simplex(k) if k == 2 else coding), Squared()
        if self.loss in margins:
            return Simplex(k), margins[self.loss]
        if self.loss == "logistic" and (k == 2 or self.coding == "simplex"):
            return Simplex(k), Logistic()
        return OneHot(k), Softmax()

    def _read_y(self, y: Any, rows: int) -> Array:
        return read_labels(y, rows=rows)

    # Predicting.

    def decision_function(self, X: Any) -> Any:
        """Scores: one per class, the largest of which is predicted; for two classes one, positive for the second; of
        several labels per row one each, positive for those that are predicted.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
        """
        if is_dask(X):
            return by_partition(self, X, "decision_function")
        scores = self._scores(X)
        names = self._names() if scores.ndim == 2 else [str(self.classes_[1])]
        return hand_back(scores.astype(self._type()), X, names, self._output_container)

    def _scores(self, X: Any) -> Array:
        refuse_gradients(self, X)
        outputs = self._outputs(X)
        if isinstance(self._targets, LabelTargets):
            return outputs
        scores: Array = outputs @ self._targets.coding.codes.T
        return (scores[:, 1] - scores[:, 0]) / (1 + len(outputs.T) % 2) if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        """The most likely class of each row, as the kind of X; of several labels per row zeros and ones.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
        """
        if is_dask(X):
            return by_partition(self, X, "predict")
        scores = self._scores(X.detach() if isinstance(X, torch.Tensor) else X)
        if isinstance(self._targets, LabelTargets):
            return hand_back((scores > 0).astype(self._targets.kind), X, self._names(), self._output_container)
        places = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(1)
        return hand_back(self.classes_[places], X, self._target_names or ["y"], self._output_container)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted; of several labels per row, of rows where all of them are.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
        y : labels of shape (n,), or zeros and ones of shape (n, t)
        sample_weight : array of shape (n,), optional
        """
        if is_dask(X):
            from sklearn.metrics import accuracy_score  # which takes a while to import

            return float(accuracy_score(y, self.predict(X).compute(), sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, of shape (n, k), in the order of `classes_`; of several labels per row, the
        probability that each is there.

        The logistic, softmax and exponential losses have their own link. The least squares fit estimates the
        probabilities themselves, but shrunk towards each other; `calibration_` corrects that, and without it they are
        moved to the nearest ones that are positive and add up to one. The most likely class is what `predict` says.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
        """
        if is_dask(X):
            return by_partition(self, X, "predict_proba")
        return hand_back(self._probabilities(X).astype(self._type()), X, self._names(), self._output_container)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
        """
        if is_dask(X):
            return by_partition(self, X, "predict_log_proba")
        with np.errstate(divide="ignore"):
            logarithms = np.log(self._probabilities(X))
        return hand_back(logarithms.astype(self._type()), X, self._names(), self._output_container)

    def prediction_columns(self, X: Any, *, probabilities: bool = False) -> dict[str, Array]:
        """Predictions as the columns of a table: `prediction`, and if asked for `probability_…` of each class.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, d)
        probabilities : bool

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.arange(6.0)[:, None]
        >>> model = gf.KernelClassifier().fit(X, ["low"] * 3 + ["high"] * 3)
        >>> list(model.prediction_columns(X, probabilities=True))
        ['prediction', 'probability_high', 'probability_low']
        """
        found = {"prediction": np.asarray(self.predict(X))}
        if self.multilabel_:
            columns = found.pop("prediction").T
            found = {f"prediction_{name}": column for name, column in zip(self._names(), columns, strict=True)}
        if probabilities:
            chances = np.asarray(self.predict_proba(X)).T
            found |= {f"probability_{name}": chance for name, chance in zip(self._names(), chances, strict=True)}
        return found

    def _probabilities(self, X: Any) -> Array:
        refuse_gradients(self, X)
        outputs = self._outputs(X)
        loss = self._targets.loss
        if isinstance(loss, Logistic | Exponential | Softmax | MultilabelLogistic):
            return as_numpy(loss.probabilities(torch.from_numpy(outputs)))
        shares, calibration = self._targets.shares(outputs), self.calibration_
        found = nearest_probabilities(shares) if calibration is None else calibration.probabilities(shares)
        return found[:, 1].reshape(outputs.shape) if self.multilabel_ else found

    def _names(self, outputs: int | None = None) -> list[str]:
        if self.multilabel_ and self._target_names:
            return self._target_names
        return [str(label) for label in self.classes_]

    def _type(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.centers_.dtype in (np.float32, torch.float32) else np.float64)

    # Model files.

    def _state(self) -> State:
        values, arrays = super()._state()
        if self.classes_.dtype.kind not in "biufUO" or not all(isinstance(c, _LABELS) for c in self.classes_.tolist()):
            raise ValueError(f"labels of type {self.classes_.dtype} cannot be saved: use numbers or strings")
        if self.calibration_ is not None:
            values |= {"calibration": dataclasses.asdict(self.calibration_)}
        return values | {
            "classes": self.classes_.tolist(),
            "label_type": self.classes_.dtype.str,
            "coding": None if isinstance(self._targets, LabelTargets) else type(self._targets.coding).__name__,
            "indicators": self._targets.kind.str if isinstance(self._targets, LabelTargets) else None,
            "loss": self._targets.loss.name,
            "target_names": self._target_names,
        }, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._set_state(values, arrays)
        self.classes_ = np.array(values["classes"], dtype=values["label_type"])
        k, loss = len(self.classes_), LOSSES[values["loss"]]
        indicators = values.get("indicators")  # files of versions before had none
        self.multilabel_, outputs = indicators is not None, k
        if self.multilabel_:
            self._targets = LabelTargets(loss, np.dtype(indicators))
        else:
            coding = {"OneHot": OneHot, "Simplex": Simplex}[values["coding"]](k)
            self._targets, outputs = ClassTargets(loss, self.classes_, coding), coding.outputs
        self._target_names = values["target_names"]
        self.calibration_ = Calibration(**values["calibration"]) if "calibration" in values else None
        if self.coefficients_.shape[1] != outputs:
            raise ValueError(f"{self.coefficients_.shape[1]} outputs do not code {k} classes")
        self._unpack_moments(values, arrays, k)


_LABELS = (bool, int, float, str)


def nearest_probabilities(scores: Array) -> Array:
    """The nearest rows, in the Euclidean sense, that are non-negative and add up to one.

    >>> import numpy as np
    >>> nearest_probabilities(np.array([[0.5, 0.75, -0.5], [2.0, 0.0, 0.0]]))
    array([[0.375, 0.625, 0.   ],
           [1.   , 0.   , 0.   ]])
    """
    ordered = -np.sort(-scores, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, scores.shape[1] + 1)
    kept = (ordered > excess).sum(axis=1)  # how many stay positive
    return np.maximum(scores - np.take_along_axis(excess, kept[:, None] - 1, axis=1), 0.0)
