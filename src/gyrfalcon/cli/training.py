"""Fit a model to a file and test it on rows that were set aside, as `fit` and `tune` do."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

import gyrfalcon as gf
from gyrfalcon.data import Source
from gyrfalcon.data.many import files_of
from gyrfalcon.estimators.interrupts import INTERRUPTED
from gyrfalcon.matrix.plan import default_budget, readable
from gyrfalcon.tables.csv_text import dialect_of
from gyrfalcon.tables.files import ENDINGS, is_csv, read_table
from gyrfalcon.tables.findings import findings
from gyrfalcon.tables.model import model_scores, rows_of
from gyrfalcon.tables.targets import read_target, task_of, values_of

from .budget import estimator_for
from .options import Task
from .session import note
from .summary import parts, summary

Array = np.ndarray[Any, Any]

LARGE_BYTES = 50 << 20  # of a file that takes seconds to read
FLOAT32_ROWS = 50_000  # from which on features are float32: half the memory and the time
COMPRESSED = {".gz": 5, ".parquet": 3, ".pq": 3, ".npz": 3}  # how much larger files usually are in memory


@dataclass(frozen=True)
class Request:
    """The arguments of a fit."""

    data: Path
    target: str
    task: Task = Task.auto
    seconds: float | None = None
    test_fraction: float = 0.2
    seed: int = 0
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    date_format: Any = None
    categorical: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    stream: bool | None = None
    objective: str = "auto"
    updatable: bool = False
    n_centers: int | None = None
    class_weight: str | None = None
    threshold: float | None = None
    positive: str | None = None
    checkpoint: Path | None = None
    folds: int | None = None

    def settings(self, labels: Array | None) -> dict[str, Any]:
        """What is given to the estimator; `labels` are those of a classification."""
        given: dict[str, Any] = {"random_state": self.seed}
        if self.n_centers is not None:
            given["n_centers"] = self.n_centers
        if self.updatable:
            given["updatable"] = True
        if self.checkpoint is not None:
            given["checkpoint"] = str(self.checkpoint)
        if self.class_weight is not None:
            if labels is None:
                raise ValueError("--class-weight is for classifications: leave it out")
            given["class_weight"] = class_weights(self.class_weight, np.unique(labels))
        return given


@dataclass(frozen=True)
class Trained:
    """A fitted model, the features and targets of training and test rows, scores of the latter, and the facts."""

    model: Any
    train: tuple[Any, Array]
    test: tuple[Any, Array] | None
    facts: dict[str, Any]
    interrupted: bool = False


def train(request: Request) -> Trained:
    """Read the file, set test rows aside, choose an estimator, fit it and test it.

    An interrupt while the solver iterates keeps what it had by then.
    """
    began = time.monotonic()
    streamed = is_large(request.data) if request.stream is None else request.stream
    done = _streamed(request) if streamed else _in_memory(request)
    estimator, _, task, _ = parts(done.model)
    interrupted = estimator.record_.message.startswith(INTERRUPTED)
    facts = {
        "data": request.data,
        "target": request.target,
        "task": task,
        "streamed": streamed,
        "train_rows": len(done.train[1]),
        "test_rows": 0 if done.test is None else len(done.test[1]),
        **done.facts,
        "test": None if done.test is None else model_scores(done.model, *done.test),
        "warnings": []
        if done.test is None
        else shortcomings(done.model, *done.test, train_rows=len(done.train[1]), dropped=done.facts["dropped"]),
        "interrupted": interrupted,
        "model": summary(estimator),
        "seconds": round(time.monotonic() - began, 2),
    }
    return Trained(done.model, done.train, done.test, facts, interrupted)


def shortcomings(model: Any, X: Any, y: Array, **known: Any) -> list[str]:
    """What test rows show to be wrong with a model: see `findings`, which takes what is `known`."""
    estimator = parts(model)[0]
    predicted = model.decide(X) if isinstance(model, gf.TableModel) else np.asarray(estimator.predict(X))
    if not is_classifier(estimator):
        return findings(y, predicted, **known)
    return findings(y, predicted, np.asarray(estimator.predict_proba(X)), estimator.classes_, **known)


def class_weights(text: str, classes: Array) -> Any:
    """What --class-weight says: balanced, or the weight of each class, such as yes=10,no=1.

    >>> import numpy as np
    >>> class_weights("yes=10,no=1", np.array(["no", "yes"]))
    {'yes': 10.0, 'no': 1.0}
    """
    if text == "balanced":
        return text
    labels = {str(label): label for label in classes.tolist()}
    found: dict[Any, float] = {}
    for part in text.split(","):
        name, _, weight = part.rpartition("=")
        try:
            found[labels[name.strip()]] = float(weight)
        except (KeyError, ValueError):
            raise ValueError(
                f"--class-weight must be balanced, or a weight for classes such as {next(iter(labels))}=2, got {part!r}"
            ) from None
    return found


def is_large(path: Path) -> bool:
    """Whether the columns of a file would take more than a quarter of the free memory."""
    size = sum(COMPRESSED.get(file.suffix.lower(), 1) * os.path.getsize(file) for file in files(path) if file.is_file())
    return size > default_budget(torch.device("cpu"))


def files(path: Path) -> list[Path]:
    """The file itself, or those that a pattern or a folder stands for."""
    several = files_of(path, ENDINGS)
    return [path] if several is None else [Path(name) for name in several]


def _in_memory(request: Request) -> Trained:
    options: dict[str, Any] = {"delimiter": request.delimiter, "encoding": request.encoding, "sheet": request.sheet}
    decimal = request.decimal
    first = files(request.data)[0]
    if decimal is None and is_csv(first) and first.is_file():
        decimal = dialect_of(first, delimiter=request.delimiter, encoding=request.encoding).decimal
    size = sum(os.path.getsize(file) for file in files(request.data) if file.is_file())
    if size > LARGE_BYTES:
        note(f"reading {request.data}, {readable(size)}")
    columns = read_table(request.data, decimal=decimal, **options)
    column, reading = read_target(columns, request.target, decimal=decimal)
    task = task_of(column) if request.task is Task.auto else request.task.value
    y = values_of(column, task)
    if task == "classification" and (y == y[0]).all():
        raise ValueError(f"the target {request.target!r} has one class only, {y[0]}: a classifier needs two")
    if request.task is Task.auto:
        note(f"{request.target!r} is taken as a {task}: if it is not, say so with --task")
    if unknown := [name for name in request.drop if name not in columns]:
        raise ValueError(f"--drop: there is no column {unknown[0]!r} in {request.data}")
    columns = {name: cells for name, cells in columns.items() if name not in request.drop or name == request.target}
    present = np.flatnonzero(~column.missing)
    if skipped := int(column.missing.sum()):
        note(f"{skipped:,} rows without {request.target!r} are left out")
    given = request.settings(y if task == "classification" else None)

    def fitted(rows: Array) -> tuple[gf.TableModel, Array]:
        seen: list[Array] = []

        def choose(X: Array, labels: Array) -> Any:
            seen.append(X)
            classes = len(np.unique(labels)) if task == "classification" else 1
            return _estimator(request, task, X.shape, classes, given, dtype=preprocessor.dtype)

        preprocessor = gf.TablePreprocessor(
            categorical=request.categorical,
            dtype="float32" if len(rows) > FLOAT32_ROWS else "float64",
            date_format=request.date_format,
            decimal=decimal,
        )
        chosen: dict[str, Any] = {"task": task, "threshold": request.threshold, "positive": request.positive}
        model = gf.TableModel(choose, preprocessor=preprocessor, **chosen)
        return model.fit(rows_of(columns, present[rows]), request.target), seen[0]

    facts: dict[str, Any] = {"skipped_rows": skipped}
    if request.folds is not None:
        facts["folds"] = _cross_validated(request, y, task, fitted, lambda rows: rows_of(columns, present[rows]))
        trained, tested = np.arange(len(y)), np.arange(0)
    else:
        trained, tested = _split(np.arange(len(y)), y, task, request)
    model, X = fitted(trained)
    facts["dropped"] = model.preprocessor_.dropped_
    facts["formats"] = _told(model, {request.target: reading} if reading else {})
    for name, why in list(model.preprocessor_.dropped_.items())[:10]:
        note(f"column {name!r} is not used: {why}")
    test = (model.features(rows_of(columns, present[tested])), y[tested]) if len(tested) else None
    return Trained(model, (X, y[trained]), test, facts)


def _told(model: gf.TableModel, target: Mapping[str, Any]) -> dict[str, str]:
    """How columns of text are read, with a note on each that no warning has told."""
    readings = {**target, **model.preprocessor_.readings_}
    for name, reading in list(readings.items())[:10]:
        if name in target or not (reading.rule or reading.unreadable):
            note(f"column {name!r} is read as {reading}")
    return {name: str(reading) for name, reading in readings.items()}


def _cross_validated(request: Request, y: Array, task: str, fitted: Any, rows: Any) -> dict[str, Any]:
    """Scores of models that are each fitted without one part of the rows: their means and standard deviations."""
    assert request.folds is not None
    if len(y) < 2 * request.folds:
        raise ValueError(f"--cv {request.folds} needs at least {2 * request.folds} rows, and there are {len(y)}")
    few = task == "classification" and np.unique(y, return_counts=True)[1].min() < request.folds
    kind = StratifiedKFold if task == "classification" and not few else KFold
    each = []
    for place, (kept, held) in enumerate(kind(request.folds, shuffle=True, random_state=request.seed).split(y, y)):
        note(f"cross-validation: part {place + 1} of {request.folds}")
        model, _ = fitted(kept)
        each.append(model_scores(model, model.features(rows(held)), y[held]))
    names = [name for name in each[0] if all(name in one for one in each)]
    values = {name: np.array([one[name] for one in each]) for name in names if name != "rows"}
    return {name: {"mean": float(v.mean()), "std": float(v.std(ddof=1))} for name, v in values.items()}


def _estimator(
    request: Request, task: str, shape: tuple[int, ...], classes: int, given: dict[str, Any], **more: str
) -> Any:
    return estimator_for(
        task, shape[0], shape[1], classes, seconds=request.seconds, given=given, objective=request.objective, **more
    )


def _split(rows: Array, y: Array, task: str, request: Request) -> tuple[Array, Array]:
    """Training rows and test rows, stratified by class where possible. A class with one row is for training."""
    count = round(request.test_fraction * len(rows))
    if count == 0 or len(rows) - count < 2:
        if request.test_fraction > 0:
            note(f"{len(rows)} rows are too few to set some aside for a test")
        return rows, rows[:0]
    strata, alone = None, rows[:0]
    if task == "classification":
        _, places, sizes = np.unique(y, return_inverse=True, return_counts=True)
        alone, rows = rows[sizes[places] == 1], rows[sizes[places] > 1]
        count = min(count, len(rows) // 2)
        strata = y[rows] if count >= (sizes > 1).sum() else None
    if count:
        rows, held = train_test_split(rows, test_size=count, random_state=request.seed, stratify=strata)
    return np.sort(np.concatenate([rows, alone])), np.sort(held) if count else rows[:0]


def _streamed(request: Request) -> Trained:
    """Fit a file of numbers in passes, and test on its last rows."""
    unused = {
        "--categorical": request.categorical,
        "--delimiter": request.delimiter,
        "--decimal": request.decimal,
        "--encoding": request.encoding,
        "--sheet": request.sheet,
        "--date-format": request.date_format,
        "--threshold": request.threshold,
        "--positive": request.positive,
        "--cv": request.folds,
    }
    if wrong := [name for name, value in unused.items() if value]:
        raise ValueError(f"{wrong[0]} does not go with files that are read in passes: see --no-stream")
    table = gf.data.open(request.data, target=request.target, drop=request.drop)
    assert table.y is not None
    X, y = table.X, table.y
    kind = "category" if y.dtype.kind in "OU" else "number"
    if request.task is Task.regression and kind == "category":
        raise ValueError(f"the target {request.target!r} holds text such as {y[0]!r}, and regression predicts numbers")
    auto = "classification" if kind == "category" or _few_whole_numbers(y) else "regression"
    task = auto if request.task is Task.auto else request.task.value
    count = round(request.test_fraction * len(X))
    kept = len(X) - count
    if count:
        note(f"the last {count:,} rows are the test: in a file that is read in passes, none are drawn at random")
    classes = len(np.unique(y[:kept])) if task == "classification" else 1
    given = request.settings(y if task == "classification" else None)
    estimator = _estimator(request, task, (kept, X.shape[1]), classes, given, dtype="float32", storage="parquet")
    training: tuple[Source, Array] = X[:kept], y[:kept]
    model = estimator.fit(gf.data.Table(*training))
    model._target_names = [request.target]
    facts: dict[str, Any] = {"skipped_rows": 0, "dropped": {}, "formats": {}}
    return Trained(model, training, (X[kept:], y[kept:]) if count else None, facts)


def _few_whole_numbers(y: Array) -> bool:
    different = np.unique(y)
    return len(different) <= 10 and bool((different == np.floor(different)).all())
