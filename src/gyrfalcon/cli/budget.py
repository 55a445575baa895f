"""The estimator of a table: the default one, or one that a time budget allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import gyrfalcon as gf
from gyrfalcon.centers import automatic_count
from gyrfalcon.estimators.base import KernelEstimator
from gyrfalcon.matrix.plan import default_budget
from gyrfalcon.tables.model import LOGISTIC, default_estimator
from gyrfalcon.tables.targets import TASKS

from .session import note

TUNING, FITTING = 0.4, 0.5  # shares of the time
SHORT = 20.0  # seconds that are too few for tuning on as many rows as usual
SHORT_ROWS = 1000
QUICK = 5000  # rows times outputs that are fitted at once, whatever the machine
FEWEST = 100  # centers, below which the number is not reduced
PASSES = {"squared": 20, "logistic": 100}  # of falkon, and of newton to where predictions settle


def estimator_for(
    task: str,
    rows: int,
    features: int,
    classes: int,
    *,
    seconds: float | None,
    given: Mapping[str, Any],
    dtype: str = "float64",
    storage: str = "memory",
    objective: str = "auto",
) -> KernelEstimator:
    """The estimator of a table, which depends on nothing but the table and what is given, unless time is short.

    With a time budget, tuning ends in time, and the planned fit takes no longer than the rest: classification uses the
    squared loss where there is no time for the logistic one, and the number of centers is halved until the planned time
    is short enough, unless it is given. A note says what was cut.
    """
    settings = dict(given)
    if seconds is None:
        if objective != "auto":
            settings["tune"] = gf.tuning.Tuning(objective)
        return default_estimator(task, rows, classes, **settings)
    few = seconds < SHORT and rows > SHORT_ROWS
    settings["tune"] = gf.tuning.Tuning(objective, seconds=TUNING * seconds, rows=SHORT_ROWS if few else "auto")
    if few:
        note(f"time budget: tuning looks at {SHORT_ROWS:,} rows")
    outputs = 1 if task == TASKS[0] or classes == 2 else classes
    if rows * outputs <= QUICK:
        return default_estimator(task, rows, classes, **settings)
    usual = automatic_count(rows, np.dtype(dtype).itemsize, default_budget(torch.device("cpu")), outputs)
    wish = int(settings.get("n_centers", usual))

    def planned(m: int, loss: str) -> float:
        passes = PASSES[loss]
        return gf.plan(rows, features, m, outputs, dtype=dtype, iterations=passes, storage=storage).interval[1]

    loss = "squared"
    if task != TASKS[0]:
        usual_loss = getattr(default_estimator(task, rows, classes, **given), "loss", loss)
        quick = planned(wish, "logistic") <= FITTING * seconds and not settings.get("updatable")
        loss = "logistic" if quick else "squared"
        settings |= LOGISTIC if loss == "logistic" else {"loss": "squared"}
        if usual_loss != loss == "squared":
            note("time budget: squared loss instead of the logistic one")
    m = wish
    while "n_centers" not in settings and m > FEWEST and planned(m, loss) > FITTING * seconds:
        m = max(FEWEST, m // 2)
    if m < wish:
        note(f"time budget: {wish:,} → {m:,} centers")
    if (takes := planned(m, loss)) > FITTING * seconds:
        note(f"{m:,} centers may take {takes:.0f} s, longer than the time budget: give more time or fewer rows")
    return default_estimator(task, rows, classes, **settings | {"n_centers": m})
