"""Dynamical systems: Koopman operators from runs, and inverse dynamics of robots, learned while they move."""

from .control import Regulator
from .forecast import ForecastErrors, Score
from .implied import ImpliedTimescales, fit_lags, implied_timescales
from .inverse_dynamics import InverseDynamics
from .koopman import Koopman, RankWarning
from .motion_features import MotionFeatures
from .plots import plot_eigenfunction, plot_forecast, plot_spectrum, plot_timescales
from .rigid_body import RigidBody
from .runs import RunWarning
from .spectrum import DefectiveError, Spectrum, TimescaleWarning, timescales
from .states import MetastableStates, states
from .tuning import KoopmanCandidate, KoopmanSearch, tune

__all__ = [
    "DefectiveError",
    "ForecastErrors",
    "ImpliedTimescales",
    "InverseDynamics",
    "Koopman",
    "KoopmanCandidate",
    "KoopmanSearch",
    "MetastableStates",
    "MotionFeatures",
    "RankWarning",
    "Regulator",
    "RigidBody",
    "RunWarning",
    "Score",
    "Spectrum",
    "TimescaleWarning",
    "fit_lags",
    "implied_timescales",
    "plot_eigenfunction",
    "plot_forecast",
    "plot_spectrum",
    "plot_timescales",
    "states",
    "timescales",
    "tune",
]
