"""Losses: what a prediction costs, with its derivatives; and codings, which turn classes into targets for them."""

from .base import Loss, MarginLoss, ResidualLoss
from .coding import Coding, OneHot, Simplex
from .exponential import Exponential
from .logistic import Logistic
from .robust import Robust
from .softmax import Softmax
from .squared import Squared

LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Squared(), Robust(), Logistic(), Exponential(), Softmax())}

__all__ = [
    "LOSSES",
    "Coding",
    "Exponential",
    "Logistic",
    "Loss",
    "MarginLoss",
    "OneHot",
    "ResidualLoss",
    "Robust",
    "Simplex",
    "Softmax",
    "Squared",
]
