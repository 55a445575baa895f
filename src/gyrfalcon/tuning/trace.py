"""What happened while tuning, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Step:
    """One evaluation of the objective that the optimiser kept."""

    seconds: float
    value: float
    terms: dict[str, float]
    penalty: float
    parameters: dict[str, Any]
    validation_error: float | None = None


@dataclass
class Trace:
    """The steps of a run, where it stands, and why it ended; pass it as `resume` to go on from there.

    Attributes
    ----------
    steps : list of Step
    best : int
        The step with the lowest objective, whose parameters are kept.
    evaluations : int
        Of the objective; more than steps where a line search or a retreat needed them.
    message : str
        Why it ended.
    """

    objective: str = ""
    optimizer: str = ""
    steps: list[Step] = field(default_factory=list)
    evaluations: int = 0
    message: str = ""
    state: dict[str, Array] = field(default_factory=dict, repr=False)

    @property
    def values(self) -> list[float]:
        return [step.value for step in self.steps]

    @property
    def best(self) -> int:
        return int(np.argmin(self.values))

    @property
    def seconds(self) -> float:
        return self.steps[-1].seconds if self.steps else 0.0
