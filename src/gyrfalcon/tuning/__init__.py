"""Penalty, kernel and centers learned by gradient."""

from .exact import Exact
from .feature_map import gradient_outer_product
from .folds import Folds
from .objectives import (
    GCV,
    OBJECTIVES,
    SGPR,
    ComplexityRegularization,
    Criterion,
    Evaluation,
    Gradient,
    HoldOut,
    KFold,
    LeaveOneOut,
    Objective,
    Proposed,
    Statistics,
)
from .parameters import Parameters
from .path import Grid, PenaltyPath, cross_validate
from .plots import plot_path, plot_relevance, plot_trace, relevance
from .settings import Recipe, Tuning
from .stochastic import Stochastic
from .trace import Candidate, Stage, Step, Trace
from .tuner import Tuned, tune

__all__ = [
    "GCV",
    "OBJECTIVES",
    "SGPR",
    "Candidate",
    "ComplexityRegularization",
    "Criterion",
    "Evaluation",
    "Exact",
    "Folds",
    "Gradient",
    "Grid",
    "HoldOut",
    "KFold",
    "LeaveOneOut",
    "Objective",
    "Parameters",
    "PenaltyPath",
    "Proposed",
    "Recipe",
    "Stage",
    "Statistics",
    "Step",
    "Stochastic",
    "Trace",
    "Tuned",
    "Tuning",
    "cross_validate",
    "gradient_outer_product",
    "plot_path",
    "plot_relevance",
    "plot_trace",
    "relevance",
    "tune",
]
