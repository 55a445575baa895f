"""Solvers: each takes a problem posed on a KernelMatrix and returns a Solution, coefficients and what happened."""

from .automatic import choose
from .cutoff import spectral_cutoff
from .direct import direct, exact
from .eigenpro import eigenpro
from .eigenpro_stream import eigenpro_stream
from .falkon import falkon
from .filters import kernel_cg, nu_method, nytro
from .newton import newton
from .nystrom_path import NystromPath, nystrom_path
from .plots import plot_filter, plot_surface
from .problem import LeastSquares
from .random_feature_path import RandomFeaturePath, random_feature_path
from .risk import Risk
from .sgd import sgd
from .solution import FilterPath, Keep, Record, Snapshot, Solution, Step
from .stopping import EarlyStopping

__all__ = [
    "EarlyStopping",
    "FilterPath",
    "Keep",
    "LeastSquares",
    "NystromPath",
    "RandomFeaturePath",
    "Record",
    "Risk",
    "Snapshot",
    "Solution",
    "Step",
    "choose",
    "direct",
    "eigenpro",
    "eigenpro_stream",
    "exact",
    "falkon",
    "kernel_cg",
    "newton",
    "nu_method",
    "nystrom_path",
    "nytro",
    "plot_filter",
    "plot_surface",
    "random_feature_path",
    "sgd",
    "spectral_cutoff",
]
