"""One model fitted to one task in a process of its own: error, time, memory, and what the figures need."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from . import machine
from .process import in_fresh_process, peak_beyond
from .synthetic import Split, rmse
from .tasks import TASKS, Task

Array = np.ndarray[Any, Any]

SHORT, REPEATS = 2.0, 3  # fits shorter than so many seconds are repeated, and the best counts


@dataclass(frozen=True)
class Trial:
    name: str
    note: str
    rows: int
    all_rows: int
    seconds: float
    extra_bytes: int
    error: float  # RMSE, or the share of wrong classes
    log_loss: float | None
    prediction: Array
    deviation: Array | None
    probabilities: Array | None
    residuals: list[float]
    summary: str  # what the model says of its own fit

    @property
    def subsampled(self) -> bool:
        return self.rows < self.all_rows

    def numbers(self) -> dict[str, Any]:
        """What goes into the JSON report."""
        kept = ("name", "note", "rows", "seconds", "extra_bytes", "error", "log_loss", "residuals", "summary")
        return {key: getattr(self, key) for key in kept}


def measure(task: str, place: int, rows: int | None = None) -> Trial:
    """The contestant at that place of a task; with `rows`, on no more than so many of them."""
    return in_fresh_process(_measure, task, place, rows)


def _measure(name: str, place: int, limit: int | None) -> Trial:
    machine.set_threads()
    task = TASKS[name]
    contestant = task.contestants[place]
    split = task.load()
    rows = min(contestant.rows or len(split.X), limit or len(split.X))
    X, y = split.X[:rows], split.y[:rows]
    seconds: list[float] = []

    def fit() -> Any:
        model = contestant.make()
        started = time.perf_counter()
        model.fit(X, y)
        seconds.append(time.perf_counter() - started)
        return model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, grown = peak_beyond(fit)
        while seconds[0] < SHORT and len(seconds) < REPEATS:
            fit()
    return Trial(
        name=contestant.name,
        note=contestant.note,
        rows=rows,
        all_rows=min(limit or len(split.X), len(split.X)),
        seconds=min(seconds),
        extra_bytes=grown,
        **_judge(task, split, model),
    )


def _judge(task: Task, split: Split, model: Any) -> dict[str, Any]:
    """The part of a trial that comes after the fit."""
    X, truth = split.X_test, split.y_test
    inner = getattr(model, "best_estimator_", model)
    record = getattr(inner, "record_", None)
    prediction = np.asarray(model.predict(X))
    probabilities = model.predict_proba(X) if task.classes and hasattr(model, "predict_proba") else None
    sure = not task.classes and record is not None and record.solver == "exact"  # then the model keeps what it takes
    return {
        "error": float(np.mean(prediction != truth)) if task.classes else rmse(prediction, truth),
        "log_loss": None if probabilities is None else float(log_loss(truth, probabilities)),
        "prediction": prediction,
        "deviation": inner.predict(X, return_std=True)[1] if sure else None,
        "probabilities": probabilities,
        "residuals": [] if record is None else list(record.residuals),
        "summary": "" if record is None else f"{record.solver}, {record.iterations} iterations: {record.message}",
    }
