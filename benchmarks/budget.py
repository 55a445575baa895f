"""Wall time of fits that have a `time_budget`, over that budget."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import gyrfalcon as gf

from . import machine
from .synthetic import oblique

BUDGETS = (1.0, 3.0, 10.0)
ROWS = (5_000, 50_000, 300_000)
ALLOWED = 1.2


def run(quick: bool) -> None:
    print(machine.headline(machine.describe()), "Seconds of a fit on the clock over its time budget.", sep="\n")
    for rows in ROWS[:1] if quick else ROWS:
        split = oblique(rows, 5000, np.float64)
        for classes in (False, True):
            y = (split.y > np.median(split.y)).astype(int) if classes else split.y
            truth = (split.y_test > np.median(split.y)).astype(int) if classes else split.y_test
            for budget in BUDGETS[:1] if quick else BUDGETS:
                print(_line(rows, budget, _model(classes, budget), split.X, y, split.X_test, truth), flush=True)


def _model(classes: bool, budget: float) -> Any:
    kind = gf.KernelClassifier if classes else gf.KernelRegressor
    return kind(time_budget=budget, random_state=0, verbose=False)


def _line(rows: int, budget: float, model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        model.fit(X, y)
        ratio = (time.perf_counter() - began) / budget
    kind = "classes" if isinstance(model, gf.KernelClassifier) else "numbers"
    verdict = "met" if ratio <= ALLOWED else "MISSED"
    score = model.score(X_test, y_test)
    return f"{rows:>9,} rows of {kind}, {budget:>4g} s: {ratio:.2f} of it, score {score:.4f}: {verdict}"
