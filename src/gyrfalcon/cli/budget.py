"""Choose an estimator that can be tuned and fitted within the time budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import gyrfalcon as gf
from gyrfalcon.centers import automatic_count
from gyrfalcon.estimators.base import KernelEstimator
from gyrfalcon.matrix.plan import default_budget
from gyrfalcon.tables.model import LOGISTIC
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
    seconds: float,
    seed: int,
    dtype: str = "float64",
    storage: str = "memory",
    objective: str = "auto",
    updatable: bool = False,
) -> KernelEstimator:
    """The estimator whose tuning ends in time and whose planned fit takes no longer than the rest of the time.

    Classification uses the logistic loss if there is time for it, and the squared loss otherwise. The number of centers
    is halved until the planned time is short enough. Models that are to be updated have the squared loss.
    """
    outputs = 1 if task == TASKS[0] or classes == 2 else classes
    tuning = gf.tuning.Tuning(
        objective, seconds=TUNING * seconds, rows="auto" if seconds >= SHORT else min(rows, SHORT_ROWS)
    )
    given: dict[str, Any] = {"tune": tuning, "random_state": seed, "updatable": updatable}
    losses = ["squared"] if task == TASKS[0] or updatable else ["logistic", "squared"]
    if rows * outputs <= QUICK:
        return _estimator(task, losses[0], given | ({"uncertainty": True} if task == TASKS[0] else {}))
    itemsize = np.dtype(dtype).itemsize
    most = automatic_count(rows, itemsize, default_budget(torch.device("cpu")), outputs)
    for loss in losses:
        m = most
        while True:
            planned = gf.plan(
                rows, features, m, outputs, dtype=dtype, iterations=PASSES[loss], storage=storage
            ).interval[1]
            if planned <= FITTING * seconds:
                return _estimator(task, loss, given | {"n_centers": m})
            if m <= FEWEST or loss != losses[-1]:  # fewer centers cost more than another loss does
                break
            m = max(FEWEST, m // 2)
    note(f"{m:,} centers may take {planned:.0f} s, longer than the time budget: give more time or fewer rows")
    return _estimator(task, loss, given | {"n_centers": m})


def _estimator(task: str, loss: str, given: dict[str, Any]) -> KernelEstimator:
    if task == TASKS[0]:
        return gf.KernelRegressor(**given)
    return gf.KernelClassifier(**(LOGISTIC if loss == "logistic" else {}), **given)
