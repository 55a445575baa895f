"""What a Koopman model chooses before it learns: the kernel, the centers, the penalty and the rank."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state

from gyrfalcon.centers import select
from gyrfalcon.estimators.length_scale import resolve_kernels
from gyrfalcon.kernels import Kernel
from gyrfalcon.kernels.explicit import refuse_explicit
from gyrfalcon.moments import LaggedMoments

from .lift import Lift, check_input_form
from .operator import METHODS
from .runs import Runs

if TYPE_CHECKING:
    from .koopman import Koopman

DEFAULT_RANK = 10
AUTO_PENALTY = 1e-6  # of E ‖z‖²
SAMPLED, SAMPLED_PER_CENTER = 20_000, 20  # frames that the length scale and the centers are chosen from, at least


def check(model: Koopman) -> None:
    """Refuse parameters that no data could make sense of."""
    if model.method not in METHODS:
        raise ValueError(f"method must be 'rrr', 'pcr' or 'krr', got {model.method!r}")
    for name in ("n_centers", "lag") if model.rank is None else ("n_centers", "lag", "rank"):
        value = getattr(model, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(f"{name} must be a positive whole number, got {value!r}")
    if model.method == "krr" and model.rank is not None:
        raise ValueError(f"rank={model.rank} does not go with method='krr', which has no rank: leave it out")
    number = isinstance(model.penalty, numbers.Real) and not isinstance(model.penalty, bool)
    if model.penalty != "auto" and (not number or not 0 <= model.penalty < np.inf):
        raise ValueError(f"penalty must be 'auto' or a number that is not negative, got {model.penalty!r}")
    check_input_form(model.input_form)


def choose(model: Koopman, runs: Runs) -> tuple[Kernel, Lift]:
    """The kernel and the features, chosen from a sample of the frames."""
    random = np.random.default_rng(check_random_state(model.random_state).randint(2**31))
    sample = runs.sample(max(SAMPLED, SAMPLED_PER_CENTER * int(model.n_centers)), random)
    if isinstance(model.kernel, Kernel):
        refuse_explicit(model.kernel, "Koopman cannot fit it")
    kernel = resolve_kernels(model.kernel, model.length_scale, sample, None, random)[0]
    budget = model.memory_budget
    centers = select(model.centers, kernel, sample, int(model.n_centers), random=random, memory_budget=budget)
    lift = Lift(kernel, np.asarray(centers), memory_budget=budget)
    if lift.rank == 0:
        raise ValueError(
            f"kernel: {kernel!r} is zero at all centers, so that there is nothing to learn: choose another"
        )
    return kernel, lift


def penalty(model: Koopman, moments: LaggedMoments) -> float:
    """What the parameter `penalty` means for these moments."""
    if model.penalty != "auto":
        return float(model.penalty)
    features = moments.cross.between.shape[1]
    size = float(moments.cross.before.diagonal()[:features].sum()) / moments.cross.weight
    return 0.0 if model.method == "pcr" else AUTO_PENALTY * size


def rank(model: Koopman) -> int | None:
    """What the parameter `rank` means: None for all."""
    if model.method == "krr":
        return None
    return DEFAULT_RANK if model.rank is None else int(model.rank)
