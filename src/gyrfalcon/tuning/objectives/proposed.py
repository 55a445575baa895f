"""The criterion that the tuning paper proposes: a bound on the test error that counts what the centers miss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from .base import Criterion, Statistics


@dataclass(frozen=True)
class Proposed(Criterion):
    """2/n · degrees of freedom + 2/(nλ) · D · risk + 2 risk, for targets of unit variance.

    D is what the centers miss of K. The bound that the paper proves has D = Tr(K - K̃), because the trace is at least
    the norm of K - K̃. It may be n times as large, and the second term then drives the penalty up until little is
    learned. The program that the paper was published with divides the trace by n.

    Parameters
    ----------
    defect : "mean" or "trace"
        D is the mean of the diagonal of K - K̃, as in the paper's program, or its sum, as in its theorem.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=1e-4)
    >>> round(gf.tuning.Proposed().evaluate(problem, gf.tuning.Exact()).value, 3)
    0.183
    >>> round(gf.tuning.Proposed(defect="trace").evaluate(problem, gf.tuning.Exact()).value, 3)
    0.188
    """

    defect: Literal["mean", "trace"] = "mean"

    name: ClassVar[str] = "proposed"
    needs: ClassVar[frozenset[str]] = frozenset({"risk", "freedom", "defect"})

    def __post_init__(self) -> None:
        if self.defect not in ("mean", "trace"):
            raise ValueError(f"defect must be 'mean' or 'trace', got {self.defect!r}")

    def terms(self, s: Statistics) -> dict[str, Tensor]:
        missed = s.defect / s.total if self.defect == "mean" else s.defect
        return {
            "variance": 2 * s.freedom / s.total,
            "approximation": 2 * missed * s.risk / (s.total * s.penalty),
            "fit": 2 * s.risk,
        }
