"""What happened while tuning, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Step:
    """One evaluation of the objective that the optimiser kept.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> step = gf.tuning.tune(problem, "gcv", steps=3).trace.steps[0]
    >>> round(step.penalty, 9), sorted(step.parameters)
    (1e-06, ['length_scale'])
    """

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

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10]), torch.sin(X), 1e-6)
    >>> trace = gf.tuning.tune(problem, "gcv", steps=3).trace
    >>> trace.objective, trace.values[trace.best] == min(trace.values)
    ('gcv', True)
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
