"""What happened while tuning, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Step:
    """One evaluation of the objective that the optimizer kept.

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


@dataclass(frozen=True)
class Candidate:
    """What was tried: a kernel, a penalty in the units of the model, and how good it was by the criterion of its stage.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> stage = gf.KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0])).tuning_.stages[0]
    >>> [candidate.kernel.split("(")[0] for candidate in stage.candidates]
    ['Gaussian', 'Matern', 'ProductLaplacian']
    """

    kernel: str
    penalty: float
    value: float


@dataclass(frozen=True)
class Stage:
    """One decision of automatic tuning: what was compared, by which criterion, what was chosen, and why.

    Attributes
    ----------
    name : str
    criterion : str
        What the values of the candidates are; the lowest is best.
    candidates : list of Candidate
    chosen : int
        The place of the one that was taken.
    reason : str

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> stage = gf.KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0])).tuning_.stages[0]
    >>> stage.name, stage.candidates[stage.chosen].value == min(c.value for c in stage.candidates)
    ('kernel', True)
    """

    name: str
    criterion: str
    candidates: list[Candidate]
    chosen: int
    reason: str

    def in_units_of(self, total_weight: float) -> Stage:
        """The same with the penalties of a model that is fitted to rows of that weight, in place of noises."""
        return replace(self, candidates=[replace(c, penalty=c.penalty / total_weight) for c in self.candidates])

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.reason} ({self.criterion})"]
        for place, candidate in enumerate(self.candidates):
            mark = "*" if place == self.chosen else " "
            lines.append(f"  {mark} {candidate.value:.4g}  penalty {candidate.penalty:.3g}  {candidate.kernel}")
        return "\n".join(lines)


@dataclass
class Trace:
    """The steps of a run, where it stands, and why it ended; pass it as `resume` to go on from there.

    Attributes
    ----------
    steps : list of Step
    best : int
        The step with the lowest objective, whose parameters are kept. Where each step looked at other rows ("batches"),
        the last one: the mean of the last steps is kept then.
    evaluations : int
        Of the objective; more than steps where a line search or a retreat needed them.
    message : str
        Why it ended.
    stages : list of Stage
        The decisions of automatic tuning, in their order; none of a single run.
    total_weight : float
        Of the rows that it was tuned on. Penalties times this are noise, which does not depend on how many rows there
        are.

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
    stages: list[Stage] = field(default_factory=list)
    total_weight: float = 1.0

    def in_units_of(self, total_weight: float) -> Trace:
        """The same with penalties as a model that is fitted to rows of that weight has them."""
        ratio = self.total_weight / total_weight
        steps = [replace(step, penalty=step.penalty * ratio) for step in self.steps]
        stages = [stage.in_units_of(total_weight) for stage in self.stages]
        return replace(self, steps=steps, stages=stages, total_weight=total_weight)

    def scaled(self, factor: float) -> Trace:
        """The same with penalties times a factor: those of a loss that bends so much more than the squared loss."""
        steps = [replace(step, penalty=step.penalty * factor) for step in self.steps]
        return replace(self, steps=steps, stages=[stage.in_units_of(1 / factor) for stage in self.stages])

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages)) or f"{self.objective} by {self.optimizer}: {self.message}"

    @property
    def values(self) -> list[float]:
        return [step.value for step in self.steps]

    @property
    def best(self) -> int:
        return len(self.steps) - 1 if self.optimizer == "batches" else int(np.argmin(self.values))

    @property
    def seconds(self) -> float:
        return self.steps[-1].seconds if self.steps else 0.0
