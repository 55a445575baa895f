"""Solvers: small values with their own settings that prepare a state once and solve for many targets and penalties."""

from .choice import SOLVERS, as_solver, choose
from .direct import Direct, DirectState
from .eigenpro import EigenPro, eigenpro_stream
from .exact import Exact
from .falkon import Falkon
from .filters import KernelCG, NuMethod, Nytro, SpectralCutoff
from .newton import Newton, SmoothedNewton
from .paths import (
    NystromPath,
    RandomFeaturePath,
    nystrom_path,
    plot_filter,
    plot_surface,
    random_feature_path,
)
from .problem import LeastSquares
from .risk import Risk
from .sgd import SGD
from .solution import FilterPath, Keep, Record, Snapshot, Solution, Step
from .solver import Run, Solver, State, Traits, solve
from .stopping import EarlyStopping

__all__ = [
    "SGD",
    "SOLVERS",
    "Direct",
    "DirectState",
    "EarlyStopping",
    "EigenPro",
    "Exact",
    "Falkon",
    "FilterPath",
    "Keep",
    "KernelCG",
    "LeastSquares",
    "Newton",
    "NuMethod",
    "NystromPath",
    "Nytro",
    "RandomFeaturePath",
    "Record",
    "Risk",
    "Run",
    "SmoothedNewton",
    "Snapshot",
    "Solution",
    "Solver",
    "SpectralCutoff",
    "State",
    "Step",
    "Traits",
    "as_solver",
    "choose",
    "eigenpro_stream",
    "nystrom_path",
    "plot_filter",
    "plot_surface",
    "random_feature_path",
    "solve",
]
