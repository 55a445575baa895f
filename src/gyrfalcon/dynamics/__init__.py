"""Dynamical systems: inverse dynamics of robots, learned while they move."""

from .inverse_dynamics import InverseDynamics
from .motion_features import MotionFeatures
from .rigid_body import RigidBody

__all__ = ["InverseDynamics", "MotionFeatures", "RigidBody"]
