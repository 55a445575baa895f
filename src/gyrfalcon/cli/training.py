"""Fit a model to a file and test it on rows that were set aside, as `fit` and `tune` do."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

import gyrfalcon as gf
from gyrfalcon.data import Source
from gyrfalcon.matrix.plan import default_budget
from gyrfalcon.tables.files import read_table
from gyrfalcon.tables.model import estimator_scores, rows_of
from gyrfalcon.tables.targets import read_target, task_of, values_of

from .budget import estimator_for
from .options import Task
from .session import note
from .summary import parts, summary

Array = np.ndarray[Any, Any]

FLOAT32_ROWS = 50_000  # from which on features are float32: half the memory and the time
COMPRESSED = {".gz": 5, ".parquet": 3, ".pq": 3, ".npz": 3}  # how much larger files usually are in memory


@dataclass(frozen=True)
class Request:
    """The arguments of a fit."""

    data: Path
    target: str
    task: Task
    seconds: float
    test_fraction: float
    seed: int
    delimiter: str | None = None
    categorical: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    stream: bool | None = None
    objective: str = "auto"
    updatable: bool = False


@dataclass(frozen=True)
class Trained:
    """A fitted model, the features and targets of training and test rows, scores of the latter, and the facts."""

    model: Any
    train: tuple[Any, Array]
    test: tuple[Any, Array] | None
    facts: dict[str, Any]


def train(request: Request) -> Trained:
    """Read the file, set test rows aside, choose an estimator that fits the time budget, fit it and test it."""
    began = time.monotonic()
    streamed = is_large(request.data) if request.stream is None else request.stream
    done = _streamed(request) if streamed else _in_memory(request)
    estimator, _, task, _ = parts(done.model)
    facts = {
        "data": request.data,
        "target": request.target,
        "task": task,
        "streamed": streamed,
        "train_rows": len(done.train[1]),
        "test_rows": 0 if done.test is None else len(done.test[1]),
        **done.facts,
        "test": None if done.test is None else estimator_scores(estimator, *done.test),
        "model": summary(estimator),
        "seconds": round(time.monotonic() - began, 2),
    }
    return Trained(done.model, done.train, done.test, facts)


def is_large(path: Path) -> bool:
    """Whether the columns of a file would take more than a quarter of the free memory."""
    size = os.path.getsize(path) if path.is_file() else 0
    return size * COMPRESSED.get(path.suffix.lower(), 1) > default_budget(torch.device("cpu"))


def _in_memory(request: Request) -> Trained:
    columns = read_table(request.data, delimiter=request.delimiter)
    column = read_target(columns, request.target)
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
    trained, tested = _split(np.arange(len(y)), y, task, request)
    seen: list[Array] = []

    def choose(X: Array, labels: Array) -> Any:
        seen.append(X)
        classes = len(np.unique(labels)) if task == "classification" else 1
        return _estimator(request, task, X.shape, classes, dtype=preprocessor.dtype)

    preprocessor = gf.TablePreprocessor(
        categorical=request.categorical, dtype="float32" if len(trained) > FLOAT32_ROWS else "float64"
    )
    model = gf.TableModel(choose, task=task, preprocessor=preprocessor)
    model.fit(rows_of(columns, present[trained]), request.target)
    dropped = model.preprocessor_.dropped_
    for name, why in list(dropped.items())[:10]:
        note(f"column {name!r} is not used: {why}")
    test = (model.features(rows_of(columns, present[tested])), y[tested]) if len(tested) else None
    return Trained(model, (seen[0], y[trained]), test, {"skipped_rows": skipped, "dropped": dropped})


def _estimator(request: Request, task: str, shape: tuple[int, ...], classes: int, **given: str) -> Any:
    wishes = {"seconds": request.seconds, "seed": request.seed, "objective": request.objective}
    wishes |= {"updatable": request.updatable}
    return estimator_for(task, shape[0], shape[1], classes, **wishes, **given)  # type: ignore[arg-type]


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
    if request.categorical or request.delimiter:
        raise ValueError("--categorical and --delimiter do not go with files that are read in passes: see --no-stream")
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
    estimator = _estimator(request, task, (kept, X.shape[1]), classes, dtype="float32", storage="parquet")
    training: tuple[Source, Array] = X[:kept], y[:kept]
    model = estimator.fit(gf.data.Table(*training))
    model._target_names = [request.target]
    return Trained(model, training, (X[kept:], y[kept:]) if count else None, {"skipped_rows": 0, "dropped": {}})


def _few_whole_numbers(y: Array) -> bool:
    different = np.unique(y)
    return len(different) <= 10 and bool((different == np.floor(different)).all())
