"""Dynamical systems: Koopman operators from runs, and inverse dynamics of robots, learned while they move."""

from .control import Regulator
from .forecast import ForecastErrors, Score
from .inverse_dynamics import InverseDynamics
from .koopman import Koopman, RankWarning
from .rigid_body import RigidBody
from .runs import RunWarning
from .spectrum import DefectiveError, Spectrum, TimescaleWarning, timescales

__all__ = [
    "DefectiveError",
    "ForecastErrors",
    "InverseDynamics",
    "Koopman",
    "RankWarning",
    "Regulator",
    "RigidBody",
    "RunWarning",
    "Score",
    "Spectrum",
    "TimescaleWarning",
    "timescales",
]
