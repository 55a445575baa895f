"""What a report is made from: the predictions for the test rows, computed once."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gyrfalcon.encoding.rules import Rule
from gyrfalcon.estimators.data import read_labels, read_points, read_targets
from gyrfalcon.estimators.streams import is_stream
from gyrfalcon.tables import TablePreprocessor
from gyrfalcon.tables.findings import findings
from gyrfalcon.tables.scores import decide, place_of

from .importance import importance

Array = np.ndarray[Any, Any]

MOST_FINDINGS = 5
BAND = 1.96  # deviations around the mean, between which 95 % of normal observations lie
SMALLEST = 1e-300  # deviation that is divided by


@dataclass(frozen=True)
class Evidence:
    """Of a regression, `truth` and `predicted` have a column for each output; of a classification they are numbers of
    the classes, those that the model knows before any that only the test rows have.
    """

    model: Any
    estimator: Any  # the kernel machine itself, where the model is a pipeline
    X: Any  # as given
    y: Array
    points: Any  # what the estimator sees
    names: list[str]  # of its features
    columns: list[str]  # that they were made from
    outputs: list[str]  # of targets, or classes
    truth: Array
    predicted: Array
    probabilities: Array | None
    distance: Array | None  # of the targets from what was predicted, in standard deviations
    band: tuple[Array, Array] | None  # that should hold 95 % of the targets
    without_deviation: str  # why there are no standard deviations
    importance: dict[str, float]  # of the columns, the most important first
    without_importance: str
    X_train: Any
    y_train: Array | None
    seconds: float  # that the predictions took
    rules: dict[str, Rule]  # by column, of a table
    positive: int  # the number of the positive one of two classes
    findings: list[str]  # what the test shows to be wrong with the model

    @property
    def classes(self) -> bool:
        return self.probabilities is not None

    @property
    def by_importance(self) -> list[int]:
        """Features, those of the most important column first; in their own order if importance is unknown."""
        ranks = {column: rank for rank, column in enumerate(self.importance)}
        return sorted(range(len(self.names)), key=lambda place: ranks.get(self.columns[place], 0))

    def column(self, feature: int) -> Array:
        return column(self.points, feature)

    def of_table(self, name: str) -> Array | None:
        """A column of the table that the features were made from: numbers, days or names of categories; None where
        there was no table.
        """
        if name not in self.rules or sparse.issparse(self.points):
            return None
        places = [place for place, column in enumerate(self.columns) if column == name]
        return self.rules[name].values(plain(self.points)[:, places].astype(np.float64))


def gather(
    model: Any,
    X: Any,
    y: Any,
    X_train: Any = None,
    y_train: Any = None,
    feature_names: Any = None,
    columns: Any = None,
    preprocessor: TablePreprocessor | None = None,
    threshold: float | None = None,
    positive: Any = None,
) -> Evidence:
    """Predict the test rows and convert everything to NumPy."""
    check_is_fitted(model)
    if is_stream(X) or is_stream(X_train):
        raise ValueError("a report needs rows in memory: read some, gyrfalcon.data.open(path).X[:10_000] for example")
    if (X_train is None) != (y_train is None):
        raise ValueError("X_train and y_train go together: pass both or none")
    pipeline = isinstance(model, Pipeline)
    estimator = model[-1] if pipeline else model
    seen = model[:-1].transform(X) if pipeline and len(model) > 1 else X
    if getattr(estimator, "encoder_", None) is not None:  # what follows is about the features that it makes
        preprocessor = estimator.encoder_ if preprocessor is None else preprocessor
        if X_train is not None:
            X_train = read_points(estimator, model[:-1].transform(X_train) if pipeline else X_train, reset=False)
        X = seen = read_points(estimator, seen, reset=False)
        model = estimator = estimator.behind_encoder()
        pipeline = False
    points = read_points(estimator, seen, reset=False)
    if preprocessor is None and pipeline and len(model) == 2 and isinstance(model[0], TablePreprocessor):
        preprocessor = model[0]
    if feature_names is None and preprocessor is not None:
        feature_names = preprocessor.get_feature_names_out()
    names = _names(model, estimator, points.shape[1], feature_names)
    columns = _columns(names, preprocessor.sources if columns is None and preprocessor is not None else columns)
    began = time.perf_counter()
    answers: dict[str, Any]
    if is_classifier(model):
        labels = read_labels(y, rows=points.shape[0])
        answers = _classified(model, X, labels, threshold, positive)
        kept = None if y_train is None else read_labels(y_train, rows=rows_of(X_train))
    else:
        if threshold is not None or positive is not None:
            raise ValueError("threshold and positive are for classifications: leave them out")
        labels = read_targets(y, rows=points.shape[0])
        answers = _regressed(model, estimator, X, seen, labels)
        kept = None if y_train is None else read_targets(y_train, rows=rows_of(X_train))
    seconds = time.perf_counter() - began
    found, why = importance(estimator, plain(points) if isinstance(points, Tensor) else points, columns, labels)
    return Evidence(
        model=model,
        estimator=estimator,
        X=X,
        y=labels,
        points=points,
        names=names,
        columns=columns,
        importance=found,
        without_importance=why,
        X_train=X_train,
        y_train=kept,
        seconds=seconds,
        rules={} if preprocessor is None else {rule.name: rule for rule in preprocessor.rules_},
        findings=_findings(answers, kept, preprocessor),
        **answers,
    )


def _findings(answers: dict[str, Any], trained: Array | None, preprocessor: TablePreprocessor | None) -> list[str]:
    known: dict[str, Any] = {"train_rows": None if trained is None else len(trained)}
    known["dropped"] = None if preprocessor is None else preprocessor.dropped_
    truth, predicted, outputs = answers["truth"], answers["predicted"], answers["outputs"]
    if answers["probabilities"] is not None:
        labels = np.array(outputs, dtype=object)
        order = np.argsort(labels, kind="stable")
        return findings(labels[truth], labels[predicted], answers["probabilities"][:, order], labels[order], **known)
    found = []
    for place, name in enumerate(outputs):
        said = findings(truth[:, place], predicted[:, place], **known) if len(truth) > 1 else []
        found += said if len(outputs) == 1 else [f"{name}: {text}" for text in said]
    return found[:MOST_FINDINGS]


def _classified(model: Any, X: Any, labels: Array, threshold: float | None, positive: Any) -> dict[str, Any]:
    known = plain(model.classes_).tolist()
    places = {label: place for place, label in enumerate(known)}
    for label in np.unique(labels).tolist():
        places.setdefault(label, len(places))
    probabilities = plain(model.predict_proba(X)).astype(np.float64)
    others = np.zeros((len(probabilities), len(places) - len(known)))
    two = len(known) == 2
    at = place_of(positive, np.array(known, dtype=object)) if two or positive is not None else 1
    if threshold is None:
        predicted = plain(model.predict(X))
    else:
        predicted = decide(probabilities, np.array(known, dtype=object), threshold, positive)
    return {
        "positive": at,
        "outputs": [str(label) for label in places],
        "truth": np.array([places[label] for label in labels.tolist()]),
        "predicted": np.array([places[label] for label in predicted.tolist()]),
        "probabilities": np.hstack([probabilities, others]),
        "distance": None,
        "band": None,
        "without_deviation": "",
    }


def _regressed(model: Any, estimator: Any, X: Any, seen: Any, targets: Array) -> dict[str, Any]:
    predicted = plain(model.predict(X)).astype(np.float64)
    if predicted.reshape(len(predicted), -1).shape != targets.reshape(len(targets), -1).shape:
        raise ValueError(f"y_test has shape {targets.shape} but the model predicts {predicted.shape}")
    predicted = predicted.reshape(len(predicted), -1)
    truth = targets.reshape(predicted.shape)
    distance, band, why = None, None, ""
    try:
        distance, band = _uncertainty(estimator, seen, truth, predicted)
    except (TypeError, ValueError) as error:
        why = str(error)
    names = getattr(estimator, "_names", lambda count: [f"y{place}" for place in range(count)])
    return {
        "outputs": [str(name) for name in names(predicted.shape[1])],
        "positive": 1,
        "truth": truth,
        "predicted": predicted,
        "probabilities": None,
        "distance": distance,
        "band": band,
        "without_deviation": why,
    }


def _uncertainty(estimator: Any, seen: Any, truth: Array, predicted: Array) -> tuple[Array, tuple[Array, Array]]:
    """How many deviations targets are from predictions, and 95 % bands; of transformed targets, as they are normal."""
    deviation = plain(estimator.predict(seen, return_std=True)[1]).astype(np.float64).reshape(predicted.shape)
    band = predicted - BAND * deviation, predicted + BAND * deviation
    transforms = getattr(estimator, "target_transform_", None)
    if transforms is None:
        return np.abs(truth - predicted) / np.maximum(deviation, SMALLEST), band
    low, high = (plain(end).astype(np.float64).reshape(predicted.shape) for end in estimator.predict_interval(seen))
    distance = np.empty_like(truth)
    for place, transform in enumerate(transforms if isinstance(transforms, list) else [transforms]):
        ends = (values[:, place] for values in (truth, low, high))
        own, left, right = ends if transform is None else map(transform.forward, ends)
        distance[:, place] = np.abs(own - (left + right) / 2) / np.maximum((right - left) / (2 * BAND), SMALLEST)
    return distance, (low, high)


def _names(model: Any, estimator: Any, features: int, given: Any) -> list[str]:
    if given is None:
        given = getattr(estimator, "feature_names_in_", None)
    if given is None and estimator is not model:
        with contextlib.suppress(AttributeError, ValueError):  # steps need not have names to give
            given = model[:-1].get_feature_names_out()
    if given is None:
        given = [f"x{place}" for place in range(features)]
    if len(given) != features:
        raise ValueError(f"feature_names has {len(given)} names but the model has {features} features")
    return [str(name) for name in given]


def _columns(names: list[str], given: Any) -> list[str]:
    if given is None:
        return names
    if len(given) != len(names):
        raise ValueError(f"columns has {len(given)} names but the model has {len(names)} features: name one for each")
    return [str(column) for column in given]


def plain(values: Any) -> Array:
    """Convert to a NumPy array from any library and device."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def rows_of(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def rows(X: Any, places: Array) -> Any:
    """Some rows, in the type of X."""
    if isinstance(X, Tensor):
        return X[places.tolist()]
    return _safe_indexing(X, places)


def column(points: Any, feature: int) -> Array:
    if sparse.issparse(points):
        return np.asarray(points[:, [feature]].toarray()[:, 0], dtype=np.float64)
    return plain(points[:, feature]).astype(np.float64)
