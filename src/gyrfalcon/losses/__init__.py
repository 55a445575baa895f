"""Losses: what a prediction costs, with its derivatives; and codings, which turn classes into targets for them."""

from .absolute import Absolute
from .base import Loss, MarginLoss, ResidualLoss
from .coding import Coding, OneHot, Simplex
from .exponential import Exponential
from .hinge import Hinge
from .logistic import Logistic
from .multilabel import MultilabelLogistic
from .quantile import Quantile
from .robust import Robust
from .smoothed import Smoothed, has_kink, smoothed
from .softmax import Softmax
from .squared import Squared

LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Squared(),
        Robust(),
        Absolute(),
        Quantile(),
        Logistic(),
        Exponential(),
        Hinge(),
        Softmax(),
        MultilabelLogistic(),
    )
}

__all__ = [
    "LOSSES",
    "Absolute",
    "Coding",
    "Exponential",
    "Hinge",
    "Logistic",
    "Loss",
    "MarginLoss",
    "MultilabelLogistic",
    "OneHot",
    "Quantile",
    "ResidualLoss",
    "Robust",
    "Simplex",
    "Smoothed",
    "Softmax",
    "Squared",
    "has_kink",
    "smoothed",
]
