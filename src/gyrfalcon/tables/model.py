"""A preprocessor and an estimator as one model of tables, in one file."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from gyrfalcon import progress
from gyrfalcon.data.many import files_of
from gyrfalcon.encoding.columns import Array, Column, named_columns
from gyrfalcon.encoding.inference import Reading
from gyrfalcon.encoding.preprocessor import TablePreprocessor
from gyrfalcon.estimators import KernelClassifier, KernelRegressor
from gyrfalcon.estimators.base import KernelEstimator
from gyrfalcon.estimators.data import hand_back
from gyrfalcon.persistence import Savable, State, build, describe
from gyrfalcon.progress import Bar
from gyrfalcon.solvers import Newton

from .files import ENDINGS, is_csv, read_table
from .scores import decide, place_of, scores
from .targets import TASKS, read_target, task_of, values_of

LOGISTIC_ROWS = 50_000  # times classes, up to which the logistic loss takes seconds
# Predictions have settled by then; what later steps gain is seen in the gradient only, and takes most of the time.
LOGISTIC: dict[str, Any] = {"loss": "logistic", "solver": Newton(tolerance=1e-2, max_iterations=20)}


class TableModel(Savable, BaseEstimator):  # type: ignore[misc]
    """Fits a table as it is: numbers, categories, dates and missing values in, predictions of one column out.

    `save` writes preprocessor and estimator to one file, from which `gyrfalcon.load` makes a model that takes tables.

    Parameters
    ----------
    estimator : KernelRegressor, KernelClassifier or a function of (X, y) that makes one, optional
        The first for regression and the second for classification if not given, with the logistic loss where it is
        quick, up to 50,000 rows times classes. The regressor keeps what error bars need.
    task : "auto", "regression" or "classification"
        "auto" is what the estimator does; without one, classification for text, booleans and whole numbers of at most
        ten values.
    preprocessor : TablePreprocessor, optional
    threshold : float, optional
        Of two classes, the positive one is predicted where its probability is at least this. Without it, the more
        likely class is predicted.
    positive : label, optional
        The positive one of two classes; the second in their order if not given.

    Attributes
    ----------
    preprocessor_ : TablePreprocessor
    estimator_ : KernelRegressor or KernelClassifier
    task_ : str
    target_ : str
        The column that is predicted.
    target_reading_ : Reading or None
        How the target is read if it is text that holds numbers, such as $3,380.34.
    skipped_ : int
        Rows of the fit without a target, which were left out.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> table = {"area": [50.0, None, 80.0, 64.0] * 5, "city": ["Rome", "Oslo"] * 10, "rent": [5.0, 6.0, 8.0, 7.5] * 5}
    >>> model = gf.TableModel().fit(table, "rent")
    >>> model.predict({"city": ["Oslo"], "area": [64.0]}).round(1)
    array([7.5])
    >>> sorted(model.evaluate(table))
    ['mae', 'r2', 'rmse', 'rows']
    """

    preprocessor_: TablePreprocessor
    estimator_: KernelEstimator
    task_: str
    target_: str
    target_reading_: Reading | None
    skipped_: int

    def __init__(
        self,
        estimator: Any = None,
        *,
        task: str = "auto",
        preprocessor: Any = None,
        threshold: float | None = None,
        positive: Any = None,
    ):
        self.estimator = estimator
        self.task = task
        self.preprocessor = preprocessor
        self.threshold = threshold
        self.positive = positive

    def fit(self, table: Any, target: str) -> Self:
        """Learn to predict one column from the others.

        Parameters
        ----------
        table : dict of columns, Arrow table, pandas or polars frame
        target : str
            The name of the column. Rows where it is missing are left out.
        """
        with Bar("reading the table", verbose=bool(getattr(self.estimator, "verbose", True))):
            return self._fit(named_columns(table), target)

    def _fit(self, columns: dict[str, Any], target: str) -> Self:
        preprocessor = TablePreprocessor() if self.preprocessor is None else clone(self.preprocessor)
        column, self.target_reading_ = read_target(columns, target, decimal=preprocessor.decimal)
        task = self._task(column)
        y, kept = values_of(column, task), ~column.missing
        check_threshold(task, np.unique(y) if task == "classification" else y[:0], self.threshold, self.positive)
        others = {name: cells for name, cells in columns.items() if name != target}
        X = preprocessor.fit_transform(others if kept.all() else rows_of(others, np.flatnonzero(kept)))
        progress.stage("fitting")
        self.estimator_ = self._estimator(task, X, y).fit(X, y)
        self.estimator_._target_names = [target]
        self.preprocessor_, self.task_, self.target_ = preprocessor, task, target
        self.skipped_ = int((~kept).sum())
        return self

    def partial_fit(self, table: Any, target: str | None = None) -> Self:
        """Learn from more rows, as `fit` would have with all of them; the estimator must be `updatable`.

        Columns are made into features as the first fit has decided: categories that it has not seen are others.

        Parameters
        ----------
        table : dict of columns, Arrow table, pandas or polars frame
            With the target. Rows where it is missing are left out. A class that was not seen before is added.
        target : str, optional
            For the first call, which is a `fit`.

        Examples
        --------
        >>> import gyrfalcon as gf
        >>> table = {"area": [50.0, 64.0, 80.0, 71.0], "rent": [5.0, 6.4, 8.0, 7.1]}
        >>> model = gf.TableModel(gf.KernelRegressor(updatable=True)).fit(table, "rent")
        >>> model.partial_fit({"area": [100.0, 90.0], "rent": [10.0, 9.0]}).estimator_.moments_.count
        6
        """
        if not hasattr(self, "estimator_"):
            if target is None:
                raise ValueError("target is missing: name the column to predict in the first call")
            return self.fit(table, target)
        if target not in (None, self.target_):
            raise ValueError(f"target={target!r} is another column than {self.target_!r}, which the model predicts")
        if not self.estimator_.updatable:
            raise ValueError(
                f"the model keeps nothing that rows could be added to: fit it with "
                f"{type(self.estimator_).__name__}(updatable=True)"
            )
        rows, y = self.truth(table)
        self.estimator_.partial_fit(self.features(rows_of(named_columns(table), rows)), y)
        return self

    def _task(self, column: Column) -> str:
        if self.task not in ("auto", *TASKS):
            raise ValueError(f"task must be 'auto' or one of {TASKS}, got {self.task!r}")
        if not isinstance(self.estimator, KernelEstimator):
            return task_of(column) if self.task == "auto" else self.task
        own = TASKS[is_classifier(self.estimator)]
        if self.task not in ("auto", own):
            raise ValueError(f"task={self.task!r} does not go with {type(self.estimator).__name__}: leave one out")
        return own

    def _estimator(self, task: str, X: Array, y: Array) -> Any:
        if isinstance(self.estimator, KernelEstimator):
            return clone(self.estimator)
        if self.estimator is not None:
            return self.estimator(X, y)
        return default_estimator(task, len(y), len(np.unique(y)) if task == "classification" else 1)

    def predict(self, table: Any, return_std: bool = False) -> Any:
        """Predictions, as a series for a frame; with `return_std` also standard deviations of a regression.

        Parameters
        ----------
        table : dict of columns, Arrow table, pandas or polars frame
        return_std : bool
        """
        X = self.features(table)
        if not return_std:
            return hand_back(self.decide(X), table, [self.target_], None)
        if self.task_ != "regression":
            raise ValueError("return_std is for regression: predict_proba says how sure a classification is")
        both = self.estimator_.predict(X, return_std=True)
        return tuple(hand_back(values, table, [self.target_], None) for values in both)

    def decide(self, X: Array) -> Array:
        """Predictions from features, by the threshold if there is one.

        Parameters
        ----------
        X : array of shape (n, d)
            What `features` gives.
        """
        if self.threshold is None:
            return np.asarray(self.estimator_.predict(X))
        return decide(np.asarray(self.estimator_.predict_proba(X)), self.classes_, self.threshold, self.positive)

    def predict_interval(self, table: Any, coverage: float = 0.95) -> tuple[Any, Any]:
        """The lower and the upper ends of intervals that hold a new observation with some probability.

        Parameters
        ----------
        table : dict of columns, Arrow table, pandas or polars frame
        coverage : float
        """
        if self.task_ != "regression":
            raise ValueError("predict_interval is for regression: predict_proba says how sure a classification is")
        ends = self.estimator_.predict_interval(self.features(table), coverage)
        low, high = (hand_back(end, table, [self.target_], None) for end in ends)
        return low, high

    def predict_proba(self, table: Any) -> Any:
        """Probabilities of the classes, in the order of `classes_`.

        Parameters
        ----------
        table : dict of columns, Arrow table, pandas or polars frame
        """
        X = self.features(table)
        if self.task_ != "classification":
            raise ValueError("a regression has no probabilities: predict with return_std=True says how sure it is")
        names = [str(label) for label in self.classes_]
        return hand_back(self.estimator_.predict_proba(X), table, names, None)

    @property
    def classes_(self) -> Array:
        """The classes that the fit has seen."""
        classes: Array = self.estimator_.classes_
        return classes

    def features(self, table: Any) -> Array:
        """What the estimator sees of a table.

        Parameters
        ----------
        table : dict of columns, Arrow table, pandas or polars frame
        """
        check_is_fitted(self, "estimator_")
        return self.preprocessor_.transform(table)

    def truth(self, table: Any) -> tuple[Array, Array]:
        """The numbers of the rows that have a target, and their targets.

        Parameters
        ----------
        table : dict of columns, Arrow table, pandas or polars frame
        """
        check_is_fitted(self, "estimator_")
        form = None if self.target_reading_ is None else self.target_reading_.format
        column, _ = read_target(named_columns(table), self.target_, decimal=self.preprocessor_.decimal, form=form)
        values = values_of(column, self.task_)
        if self.task_ == "classification" and values.dtype.kind != self.classes_.dtype.kind:
            values = column.as_text()[~column.missing]
            if self.classes_.dtype.kind != "O":
                raise ValueError(
                    f"the target {self.target_!r} holds {values[0]!r}, but the classes are {self.classes_.tolist()[:5]}"
                )
        return np.flatnonzero(~column.missing), values

    def evaluate(self, table: Any) -> dict[str, float]:
        """How well the target of a table is predicted: see `gyrfalcon.tables.scores`.

        Parameters
        ----------
        table : dict of columns, Arrow table, pandas or polars frame
            With the target.
        """
        rows, y = self.truth(table)
        X = self.features(rows_of(named_columns(table), rows))
        return model_scores(self, X, y)

    def read_table(self, path: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
        """The columns of a file, read as those of the fit were: see `gyrfalcon.tables.read_table`.

        Parameters
        ----------
        path : path
        options : delimiter, encoding and sheet, as for `read_table`
        """
        check_is_fitted(self, "estimator_")
        text = [*self.preprocessor_.readings_, *([self.target_] if self.target_reading_ else [])]
        several = files_of(path, ENDINGS)
        if is_csv(several[0] if several else path):
            options = {"decimal": self.preprocessor_.decimal, **options}
        return read_table(path, features=self.preprocessor_.get_feature_names_out().tolist(), text=text, **options)

    def _state(self) -> State:
        check_is_fitted(self, "estimator_")
        preprocessor, _ = describe(self.preprocessor_)
        estimator, arrays = describe(self.estimator_)
        values = {"task": self.task_, "target": self.target_, "skipped": self.skipped_}
        values["reading"] = None if self.target_reading_ is None else self.target_reading_.to_dict()
        return values | {"preprocessor": preprocessor, "estimator": estimator}, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        preprocessor, estimator = build(values["preprocessor"], {}), build(values["estimator"], arrays)
        if not isinstance(preprocessor, TablePreprocessor) or not isinstance(estimator, KernelEstimator):
            raise ValueError("a model of tables is a preprocessor and an estimator")
        self.preprocessor_, self.estimator_ = preprocessor, estimator
        self.task_, self.target_, self.skipped_ = values["task"], str(values["target"]), int(values["skipped"])
        reading = values.get("reading")  # files of versions before had none
        self.target_reading_ = None if reading is None else Reading.from_dict(reading)
        if self.task_ != TASKS[is_classifier(estimator)]:
            raise ValueError(f"a {type(estimator).__name__} does no {self.task_!r}")
        if len(preprocessor.get_feature_names_out()) != estimator.n_features_in_:
            raise ValueError("the preprocessor and the estimator do not fit together")


def default_estimator(task: str, rows: int, classes: int, **given: Any) -> KernelEstimator:
    """The estimator of a table for which none is given."""
    if task == "regression":
        return KernelRegressor(**{"uncertainty": True, **given})
    logistic = rows * classes <= LOGISTIC_ROWS and not given.get("updatable")  # updates need the squared loss
    return KernelClassifier(**{**(LOGISTIC if logistic else {}), **given})


def check_threshold(task: str, classes: Array, threshold: float | None, positive: Any) -> None:
    """Refuse a threshold that cannot be used."""
    if threshold is None and positive is None:
        return
    if task != "classification":
        raise ValueError("threshold and positive are for classifications: leave them out")
    if threshold is not None and not 0 < threshold < 1:
        raise ValueError(f"threshold must lie between 0 and 1, got {threshold!r}")
    place_of(positive, classes)


def model_scores(model: Any, X: Any, y: Array) -> dict[str, float]:
    """`scores` of what an estimator, or a table model, predicts from features."""
    table = isinstance(model, TableModel)
    estimator = model.estimator_ if table else model
    predicted = model.decide(X) if table else np.asarray(estimator.predict(X))
    if not is_classifier(estimator):
        return scores(y, predicted)
    probabilities = np.asarray(estimator.predict_proba(X))
    return scores(y, predicted, probabilities, estimator.classes_, model.positive if table else None)


def rows_of(columns: dict[str, Any], rows: Array) -> dict[str, Any]:
    """Some rows of every column."""
    return {name: _taken(cells, rows) for name, cells in columns.items()}


def _taken(cells: Any, rows: Array) -> Any:
    for way in ("take", "gather"):  # pandas and pyarrow; polars
        if hasattr(cells, way) and not isinstance(cells, np.ndarray):
            return getattr(cells, way)(rows)
    return np.asarray(cells)[rows] if not isinstance(cells, list | tuple) else [cells[row] for row in rows]
