"""Whole paths in the number of centers or features and in the penalty, for little more than the price of one solve."""

from .nystrom import NystromPath, nystrom_path
from .plots import plot_filter, plot_surface
from .random_features import RandomFeaturePath, random_feature_path

__all__ = [
    "NystromPath",
    "RandomFeaturePath",
    "nystrom_path",
    "plot_filter",
    "plot_surface",
    "random_feature_path",
]
