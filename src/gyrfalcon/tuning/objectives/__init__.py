"""What tuning minimizes; one file each."""

from .base import Criterion, Evaluation, Gradient, Method, Objective, Statistics
from .complexity import ComplexityRegularization
from .gcv import GCV
from .hold_out import HoldOut
from .k_fold import KFold
from .leave_one_out import LeaveOneOut
from .proposed import Proposed
from .sgpr import SGPR

OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (HoldOut(), KFold(), LeaveOneOut(), GCV(), ComplexityRegularization(), SGPR(), Proposed())
}

__all__ = [
    "GCV",
    "OBJECTIVES",
    "SGPR",
    "ComplexityRegularization",
    "Criterion",
    "Evaluation",
    "Gradient",
    "HoldOut",
    "KFold",
    "LeaveOneOut",
    "Method",
    "Objective",
    "Proposed",
    "Statistics",
]
