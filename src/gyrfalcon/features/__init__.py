"""Random features: explicit coordinates in which a linear model is nearly a kernel machine."""

from .random_features import RandomFeatures

__all__ = ["RandomFeatures"]
