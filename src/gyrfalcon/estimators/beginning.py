"""What a fit begins with and a resumed one must have again: what was drawn at random, and the memory it may take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gyrfalcon.arrays import AnyPoints, device_of
from gyrfalcon.checkpoints import Checkpoint
from gyrfalcon.matrix.plan import default_budget

from .deadline import Deadline, check_time_budget
from .fingerprint import fingerprint


@dataclass(frozen=True)
class Beginning:
    """Seeds, the memory budget, which block sizes and choices depend on, and where the fit is kept, if it is.

    Attributes
    ----------
    solver_seed : int
        For the solver, and the rows that early stopping sets aside.
    seeds : list of int
        For everything else.
    budget : int
        In bytes.
    checkpoint : Checkpoint, optional
    deadline : Deadline, optional
        When the fit has to end.
    """

    solver_seed: int
    seeds: list[int]
    budget: int
    checkpoint: Checkpoint | None = None
    deadline: Deadline | None = None

    def random(self) -> np.random.Generator:
        return np.random.default_rng(self.seeds)


def draw_seed(estimator: Any) -> int:
    return int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max))


def begin(estimator: Any, points: AnyPoints, data: Mapping[str, Any]) -> Beginning:
    """Draw what has to be drawn and open the checkpoint; what it holds of an earlier fit to the same data is taken.

    Parameters
    ----------
    estimator : KernelEstimator
    points : array, tensor or CSR
        X.
    data : mapping
        All that is given to `fit`, by name.
    """
    wish = estimator.memory_budget
    facts: dict[str, Any] = {
        "solver_seed": draw_seed(estimator),
        "seeds": check_random_state(estimator.random_state).randint(2**31, size=4).tolist(),
        "budget": default_budget(device_of(points)) if wish is None else int(wish),
    }
    seconds = check_time_budget(estimator.time_budget)
    deadline = None if seconds is None else Deadline(seconds, time.monotonic())
    if estimator.checkpoint is None:
        return Beginning(**facts, deadline=deadline)
    if estimator.warm_start and hasattr(estimator, "coefficients_"):
        names = ("kernel_", "centers_", "penalty_", "coefficients_", "intercept_")
        data = {**data, **{name: getattr(estimator, name) for name in names}}
    checkpoint = Checkpoint(estimator.checkpoint, fingerprint(estimator, {"X": points, **data}))
    return Beginning(**checkpoint.begin(facts), checkpoint=checkpoint, deadline=deadline)
