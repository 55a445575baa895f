"""How an estimator is tuned."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

from .objectives import OBJECTIVES, Objective
from .path import PenaltyPath


@dataclass(frozen=True)
class Tuning:
    """What an estimator's `tune` may be, besides the name of an objective.

    Parameters
    ----------
    objective : "auto", str or Objective
        "auto" is the evidence of a Gaussian process up to 500 rows; of more, generalized cross-validation with few
        centers, then leave-one-out on few rows that are all centers; the better of the two, its noise and a common
        factor of its length scales by rows held out of 4,500.
    per_feature : "auto" or bool
        Whether each feature gets a length scale of its own; "auto" where there are 30 rows for each.
    feature_map : bool
        Whether to learn a linear map of the inputs instead, from the average outer product of the gradients of the
        fitted function: directions that matter, which length scales cannot say.
    rounds : int
        How often at most the map is made again from the function fitted with the last one.
    centers : bool
        Whether to tune the centers too, which then are those of the model.
    rows : "auto" or int
        How many rows are looked at, chosen at random; "auto" is 3,000 at most, and 4,500 to judge by.
    n_centers : "auto" or int
        How many centers are used while tuning; "auto" is a tenth of the rows, and every row if there are 500 or fewer.
    optimizer : "lbfgs" or "adam"
    method : "auto", "exact" or "stochastic"
        How the objective is evaluated; "auto" is exact up to 30 million entries of K.
    steps : int
    seconds : float, optional
        Budgets.
    tolerance : float
        L-BFGS ends when the objective falls by less than this part of itself.
    learning_rate, patience
        Of Adam.
    probes : int
        Of the stochastic method.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> model = gf.KernelRegressor(tune=gf.tuning.Tuning("sgpr", centers=True), n_centers=50)
    """

    objective: str | Objective = "auto"
    per_feature: Any = "auto"
    feature_map: bool = False
    rounds: int = 4
    centers: bool = False
    rows: Any = "auto"
    n_centers: Any = "auto"
    optimizer: str = "lbfgs"
    method: str = "auto"
    steps: int = 40
    seconds: float | None = None
    tolerance: float = 1e-4
    learning_rate: float = 0.05
    patience: int = 10
    probes: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.objective, Objective) and self.objective not in ("auto", *OBJECTIVES):
            raise ValueError(f"objective must be 'auto', an Objective or one of {sorted(OBJECTIVES)}")
        if self.optimizer not in ("adam", "lbfgs"):
            raise ValueError(f"optimizer must be 'adam' or 'lbfgs', got {self.optimizer!r}")
        if self.method not in ("auto", "exact", "stochastic"):
            raise ValueError(f"method must be 'auto', 'exact' or 'stochastic', got {self.method!r}")
        if self.per_feature not in ("auto", True, False):
            raise ValueError(f"per_feature must be 'auto', True or False, got {self.per_feature!r}")
        for name in ("rows", "n_centers"):
            value = getattr(self, name)
            if value != "auto" and (not isinstance(value, numbers.Integral) or value < 1):
                raise ValueError(f"{name} must be 'auto' or a positive whole number, got {value!r}")
        for name in ("steps", "patience", "probes", "rounds"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name} must be a positive whole number, got {value!r}")
        for name in ("learning_rate", "seconds", "tolerance"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, numbers.Real) and float(value) > 0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")


def read(tune: Any) -> Tuning | PenaltyPath | None:
    """The settings that an estimator's `tune` stands for: None for no tuning."""
    if tune is None or tune is False:
        return None
    if isinstance(tune, Tuning | PenaltyPath):
        return tune
    if tune == "map":
        return Tuning(feature_map=True)
    if tune is True or tune == "auto":
        return Tuning()
    if isinstance(tune, Objective) or (isinstance(tune, str) and tune in OBJECTIVES):
        return Tuning(tune)
    names = ["auto", "map", *sorted(OBJECTIVES)]
    raise ValueError(f"tune must be None, one of {names}, an Objective, a Tuning or a PenaltyPath, got {tune!r}")
