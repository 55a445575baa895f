"""How an estimator is tuned."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

from .objectives import OBJECTIVES, Objective
from .path import PenaltyPath


@dataclass(frozen=True)
class Recipe:
    """The settings of automatic tuning, a field of `Tuning`, chosen by `python -m benchmarks defaults`.

    Parameters
    ----------
    screening_rows, screening_steps : int
        The rows on which every kernel is tried, with a common factor of its length scales, and the steps for each.
    finalists : int
        The kernels whose length scales are then tuned feature by feature; see also `both_metrics`.
    search_rows, search_steps : int
        The rows and steps for that. Every row is a center.
    few_rows, folds_of_few : int
        Cross-validation is what is minimized, with so many folds up to so many rows and with two beyond.
    rows_per_scale : int
        With fewer rows for each feature, gradients do not move single length scales.
    shrinkage : float
        The price of moving the logarithm of a length scale by one, as a part of the error, times the rows searched on.
    judging_rows, fitted_rows : int
        The rows that are held out to choose by, and the most rows that are fitted to predict them.
    judging_share : float
        The largest share of all rows to hold out. If fewer than `least_judging_rows` would be, folds of all rows are
        used instead, of which tuning has seen some.
    least_judging_rows : int
    least_rows : int
        With fewer rows, only a common factor of the length scales is tuned.
    optimism : float
        Errors of folds are raised by this times the number of features over that of rows for length scales from the
        fitted function, and by twice that for those from the error: tuning has seen these rows.
    learned : float
        If the screened kernel leaves more than this share of the variance unexplained, length scales are tuned from
        where screening began: it may have led to a function that is constant.
    tie : float
        Errors that differ by less than this part of themselves are called equal, and the simpler kernel is taken.
    noise_factors : tuple of floats
        The noise is chosen once more by the rows held out: among what was found and these multiples of it, in their
        order, as long as the error falls.
    most_rows : int
        The rows that are looked at, for all of this together.
    batch_rows, batch_steps : int
    batch_rate : float
    batches : int
        If there are rows for so many batches of so many rows besides those held out, each step of the search by
        gradients of the error looks at another batch, and the mean of the last steps is kept: what small fits to many
        rows have in common. The rate is that of Adam. With fewer rows, `search_rows` and `search_steps` count.
    sums : bool
        Whether the sum of the best kernels of each kind is tried. Each has the share of the ratio of signal to noise
        that it has alone.
    both_metrics : bool
        Whether one more kernel goes on if all finalists have the same metric: the best with the other one, which is
        the sum of absolute differences or the Euclidean distance, unless it errs 20 % more than the best.
    asks_neighbors : bool
        Of many rows, those looked at so far lie far apart. Whether length scales and noise are then tuned on rows that
        are next to each other, and taken if rows of other neighborhoods are predicted better.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> recipe = gf.tuning.Recipe(finalists=3, search_rows=1000)
    >>> model = gf.KernelRegressor(tune=gf.tuning.Tuning(recipe=recipe))
    """

    screening_rows: int = 400
    screening_steps: int = 8
    finalists: int = 2
    search_rows: int = 700
    search_steps: int = 15
    few_rows: int = 300
    folds_of_few: int = 4
    rows_per_scale: int = 5
    shrinkage: float = 8.0
    judging_rows: int = 1200
    fitted_rows: int = 800
    judging_share: float = 1 / 3
    least_judging_rows: int = 300
    least_rows: int = 40
    optimism: float = 0.5
    learned: float = 0.9
    tie: float = 0.01
    noise_factors: tuple[float, ...] = (0.064, 0.16, 0.4, 2.5)
    most_rows: int = 26_000
    batch_rows: int = 600
    batch_steps: int = 40
    batch_rate: float = 0.15
    batches: int = 2
    sums: bool = True
    both_metrics: bool = True
    asks_neighbors: bool = True


@dataclass(frozen=True)
class Tuning:
    """What an estimator's `tune` may be, besides the name of an objective.

    Parameters
    ----------
    objective : "auto", str or Objective
        "auto" follows the `recipe`: cross-validation on a few hundred rows that are all centers, judged by rows held
        out.
    per_feature : "auto" or bool
        Whether each feature gets a length scale of its own; "auto" where rows held out say so.
    feature_map : bool
        Whether to learn a linear map of the inputs instead, from the average outer product of the gradients of the
        fitted function: directions that matter, which length scales cannot say.
    rounds : int
        How often at most the map is made again from the function fitted with the last one.
    centers : bool
        Whether to tune the centers too, which then are those of the model.
    rows : "auto" or int
        How many rows are looked at, chosen at random; "auto" is 3,000 at most, or `most_rows` of the recipe where that
        counts, but no more than five million numbers.
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
    recipe : Recipe
        Of the automatic objective.

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
    recipe: Recipe = Recipe()

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

    @property
    def follows_recipe(self) -> bool:
        """Whether kernel and penalty are searched for as the recipe says, and nothing else is tuned."""
        return self.objective == self.n_centers == "auto" and not (self.feature_map or self.centers)


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
