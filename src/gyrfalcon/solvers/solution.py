"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class Record:
    """What happened during a solve.

    Attributes
    ----------
    solver : str
    iterations : int
    residuals : list of floats
        The largest relative residual over the outputs, at the start and after each iteration.
    converged : bool
    message : str
        Why it ended, in words.
    jitter : float
        What was added to the diagonal of k(C, C) to factor it. It conditions the solver and is taken out of the
        problem again, so it does not act as a penalty.
    seconds : dict
        Time by part: "factor", "right_side", "iterate", ...
    """

    solver: str
    iterations: int = 0
    residuals: list[float] = field(default_factory=list)
    converged: bool = True
    message: str = ""
    jitter: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Solution:
    """Coefficients of f(x) = Σⱼ coefficientsⱼ k(x, cⱼ) + intercept, one column per output, in float64."""

    coefficients: Tensor
    intercept: Tensor
    record: Record
