"""Learning that never stops: exact least squares on streams, with classes that appear at any time."""

from .classifier import RecursiveClassifier
from .clusters import fit_partitions
from .prequential import Prequential, prequential
from .regressor import RecursiveRegressor
from .streams import batches
from .to_river import to_river

__all__ = [
    "Prequential",
    "RecursiveClassifier",
    "RecursiveRegressor",
    "batches",
    "fit_partitions",
    "prequential",
    "to_river",
]
