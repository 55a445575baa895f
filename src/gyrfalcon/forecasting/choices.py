"""What a forecaster chooses before it learns: kernel, centers and penalties, by purged blocks of its series."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from gyrfalcon.arrays import Array
from gyrfalcon.centers import select
from gyrfalcon.data import Source
from gyrfalcon.estimators.length_scale import spreads
from gyrfalcon.kernels import Kernel, Linear, from_name
from gyrfalcon.kernels.explicit import refuse_explicit
from gyrfalcon.kernels.names import NAMES

from .folds import Folds
from .lags import CYCLES
from .problem import Problem
from .regression import Basis

if TYPE_CHECKING:
    from .forecaster import KernelForecaster

MODELS = ("kernel", "linear", "persistence")
DECAYS = (0.0, 0.5, 1.0, 1.5)
MULTIPLES = ((0.5, 2.0), (0.71, 1.41))  # of the best length scale so far, in two steps
PENALTIES = 10.0 ** np.arange(-9.0, 0.5, 1.0)
FINE = 10.0 ** np.array([-0.5, 0.0, 0.5])  # around the best of these
SEARCH_CENTERS = 300
SAMPLED = 20_000  # windows that spreads and centers are taken of, at least
SAMPLED_PER_CENTER = 20
CENTERS_PER_ROOT = 10  # n_centers="auto" is 10 √n


def check(model: KernelForecaster) -> None:
    """Refuse parameters that no series could make sense of."""
    if model.model not in MODELS:
        raise ValueError(f"model must be 'kernel', 'linear' or 'persistence', got {model.model!r}")
    _count("memory", model.memory)
    _count("folds", model.folds, least=2)
    if model.n_centers != "auto":
        _count("n_centers", model.n_centers)
    for name in ("penalty", "decay"):
        value = getattr(model, name)
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if value != "auto" and (not number or not 0 <= value < math.inf):
            raise ValueError(f"{name} must be 'auto' or a number that is not negative, got {value!r}")
    given = isinstance(model.kernel, Kernel)
    if not given and (not isinstance(model.kernel, str) or model.kernel not in NAMES):
        raise ValueError(f"kernel must be a kernel or one of {sorted(NAMES)}, got {model.kernel!r}")
    if given:
        refuse_explicit(model.kernel, "KernelForecaster cannot fit it")
    scale = model.length_scale
    automatic = isinstance(scale, str) and scale == "auto"
    if not automatic and (not isinstance(scale, numbers.Real) or not 0 < float(scale) < math.inf):
        raise ValueError(f"length_scale must be 'auto' or a positive multiple of the automatic one, got {scale!r}")
    for name, unset in (("length_scale", automatic), ("decay", model.decay == "auto")):
        if not unset and (given or model.model != "kernel"):
            raise ValueError(f"{name} goes with model='kernel' and a kernel that is given by name: leave it out")
    calendar(model)


def tuned(model: KernelForecaster) -> bool:
    """Whether anything is to be chosen by rows held out."""
    by_name = model.model == "kernel" and isinstance(model.kernel, str)
    shape = by_name and (isinstance(model.length_scale, str) or model.decay == "auto")
    return bool(model.model != "persistence" and (model.penalty == "auto" or shape))


def calendar(model: KernelForecaster) -> tuple[str, ...]:
    """The cycles whose phases are features."""
    cycles = () if model.calendar is None else model.calendar
    if isinstance(cycles, str) or any(cycle not in CYCLES for cycle in cycles):
        raise ValueError(f"calendar must be a list of 'day', 'week' and 'year', or None, got {model.calendar!r}")
    return tuple(cycles)


def horizons(model: KernelForecaster) -> tuple[int, ...]:
    """In ascending order."""
    given = [model.horizons] if isinstance(model.horizons, numbers.Integral) else list(model.horizons)
    for horizon in given:
        _count("horizons", horizon)
    if not given or len(set(given)) < len(given):
        raise ValueError(f"horizons must be different numbers of steps, got {model.horizons!r}")
    return tuple(sorted(int(horizon) for horizon in given))


def _count(name: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


@dataclass(frozen=True)
class Chosen:
    """A basis, penalties for each output, the moments of all blocks if they were needed, and what was found."""

    basis: Basis
    penalties: Array
    folds: Folds
    multiple: float
    decay: float


class Chooser:
    """Chooses for one forecaster and its training rows.

    Parameters
    ----------
    model : KernelForecaster
    problem : Problem
    X : Source
    Y : array of shape (n, t)
    labels : array of int
        Of purged blocks.
    """

    def __init__(self, model: KernelForecaster, problem: Problem, X: Source, Y: Array, labels: Array):
        self.model, self.problem, self.X, self.Y, self.labels = model, problem, X, Y, labels
        self.parts = int(labels.max()) // 2 * 2 + 2
        self.origin = Y.mean(0)
        self.random = np.random.default_rng(check_random_state(model.random_state).randint(2**31))
        n = len(X)
        auto = model.n_centers == "auto"
        self.n_centers = min(n, math.ceil(CENTERS_PER_ROOT * math.sqrt(n)) if auto else int(model.n_centers))
        size = min(n, max(SAMPLED, SAMPLED_PER_CENTER * self.n_centers))
        self.sample = X.take(np.sort(self.random.choice(n, size, replace=False, shuffle=False)))
        self.spread = spreads(self.sample, None)

    def choose(self) -> Chosen:
        model = self.model
        if (
            model.model == "linear"
        ):  # coordinates are their own centers: the features are the inputs in units of spreads
            scales = tuple((self.spread * math.sqrt(len(self.spread))).tolist())
            return self._finished(Linear(scales), np.diag(self.spread), 1.0, 0.0)
        if isinstance(model.kernel, Kernel):
            return self._finished(model.kernel, self._centers(model.kernel, self.n_centers), 1.0, 0.0)
        multiple, decay = self._search()
        kernel = self.kernel(multiple, decay)
        return self._finished(kernel, self._centers(kernel, self.n_centers), multiple, decay)

    def kernel(self, multiple: float, decay: float) -> Kernel:
        """The named kernel whose length scales grow with the age of a lag, as (1 + j)^decay."""
        lagged = len(self.problem.design.inputs)
        age = np.repeat(1.0 + np.arange(self.problem.memory), lagged) ** decay
        growth = np.concatenate([age, np.ones(len(self.spread) - len(age))])
        distance = math.sqrt(2 * float((1 / growth**2).sum()))  # the root mean square between two rows
        return from_name(self.model.kernel, length_scale=tuple((multiple * distance * growth * self.spread).tolist()))

    def _centers(self, kernel: Kernel, count: int) -> Array:
        budget = self.model.memory_budget
        return np.asarray(
            select(self.model.centers, kernel, self.sample, count, random=self.random, memory_budget=budget)
        )

    def _search(self) -> tuple[float, float]:
        """In two steps: decays at the automatic length scale and multiples of it, then finer multiples."""
        scale, decay = self.model.length_scale, self.model.decay
        decays = DECAYS if decay == "auto" else (float(decay),)
        first = 1.0 if isinstance(scale, str) else float(scale)
        if not isinstance(scale, str) and len(decays) == 1:
            return first, decays[0]
        tried = {(first, one): self._tried(first, one) for one in decays}
        best = min(tried, key=tried.__getitem__)
        for factors in MULTIPLES if isinstance(scale, str) else ():
            near = sorted((best[0] * factor, best[1]) for factor in factors)
            tried |= {key: self._tried(*key) for key in near}
            best = min(tried, key=tried.__getitem__)
        return best

    def _tried(self, multiple: float, decay: float) -> float:
        """The error of rows held out over that of their mean, averaged over outputs, with the best penalties."""
        centers = self.sample[:: max(1, len(self.sample) // SEARCH_CENTERS)][:SEARCH_CENTERS]
        basis = Basis.of(self.kernel(multiple, decay), np.ascontiguousarray(centers), self.model.memory_budget)
        penalties = PENALTIES if self.model.penalty == "auto" else np.array([float(self.model.penalty)])
        errors = self._folds(basis).errors(penalties).min(0)
        return float((errors / np.square(self.Y - self.origin).sum(0)).mean())

    def _folds(self, basis: Basis) -> Folds:
        parts = basis.parts(self.X, self.Y, self.labels, self.parts, self.origin)
        return Folds(parts, basis.inverse_gram)

    def _finished(self, kernel: Kernel, centers: Array, multiple: float, decay: float) -> Chosen:
        """With penalties on a grid of decades, and then on a finer one around the best of each output."""
        basis = Basis.of(kernel, centers, self.model.memory_budget)
        folds = self._folds(basis)
        if self.model.penalty != "auto":
            return Chosen(basis, np.full(self.Y.shape[1], float(self.model.penalty)), folds, multiple, decay)
        rough = np.unique(PENALTIES[folds.errors(PENALTIES).argmin(0)])
        penalties = np.unique(np.outer(FINE, rough))
        penalties = penalties[np.append(True, np.diff(np.log(penalties)) > 0.1)]
        return Chosen(basis, penalties[folds.errors(penalties).argmin(0)], folds, multiple, decay)
