"""What a forecaster chooses before it learns: kernel, centers and penalties, by purged blocks of its series."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

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
REMOTENESS = (2.0, 4.0, 1e3)  # the last leaves exogenous channels out
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
    for name in ("penalty", "decay", "remoteness"):
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
    if model.remoteness != "auto" and (model.exogenous is None or model.remoteness == 0):
        raise ValueError(
            f"remoteness={model.remoteness!r} must be positive and goes with exogenous channels: leave it out, or name "
            "them"
        )
    shape = {"length_scale": automatic, "decay": model.decay == "auto", "remoteness": model.remoteness == "auto"}
    for name, unset in shape.items():
        if not unset and (given or model.model != "kernel"):
            raise ValueError(f"{name} goes with model='kernel' and a kernel that is given by name: leave it out")
    calendar(model)


def tuned(model: KernelForecaster) -> bool:
    """Whether anything is to be chosen by rows held out."""
    by_name = model.model == "kernel" and isinstance(model.kernel, str)
    farther = model.remoteness == "auto" and model.exogenous is not None
    shape = by_name and (isinstance(model.length_scale, str) or model.decay == "auto" or farther)
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


class Shape(NamedTuple):
    """How length scales are made of spreads."""

    multiple: float = 1.0
    decay: float = 0.0
    remoteness: float = 1.0


@dataclass(frozen=True)
class Chosen:
    """A basis, penalties for each output, the moments of all blocks if they were needed, and what was found."""

    basis: Basis
    penalties: Array
    folds: Folds
    shape: Shape


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
            return self._finished(Linear(scales), np.diag(self.spread), Shape())
        if isinstance(model.kernel, Kernel):
            return self._finished(model.kernel, self._centers(model.kernel, self.n_centers), Shape())
        shape = self._search()
        kernel = self.kernel(shape)
        return self._finished(kernel, self._centers(kernel, self.n_centers), shape)

    def kernel(self, shape: Shape) -> Kernel:
        """The named kernel whose length scales grow with the age of a lag, as (1 + j)^decay, and are longer for
        exogenous channels."""
        design, memory = self.problem.design, self.problem.memory
        own = len(design.inputs) - design.n_exogenous
        channels = np.append(np.ones(own), np.full(design.n_exogenous, shape.remoteness))
        age = np.outer((1.0 + np.arange(memory)) ** shape.decay, channels).ravel()
        growth = np.concatenate([age, np.ones(len(self.spread) - len(age))])
        distance = math.sqrt(2 * float((1 / growth**2).sum()))  # the root mean square between two rows
        scales = shape.multiple * distance * growth * self.spread
        return from_name(self.model.kernel, length_scale=tuple(scales.tolist()))

    def _centers(self, kernel: Kernel, count: int) -> Array:
        budget = self.model.memory_budget
        return np.asarray(
            select(self.model.centers, kernel, self.sample, count, random=self.random, memory_budget=budget)
        )

    def _search(self) -> Shape:
        """In steps: decays, multiples of the automatic length scale, remoteness, multiples again, then finer ones."""
        scale, decay, remoteness = self.model.length_scale, self.model.decay, self.model.remoteness
        first = Shape(
            1.0 if isinstance(scale, str) else float(scale),
            DECAYS[0] if decay == "auto" else float(decay),
            1.0 if remoteness == "auto" else float(remoteness),
        )
        farther = REMOTENESS if remoteness == "auto" and self.problem.design.n_exogenous else ()
        free = MULTIPLES if isinstance(scale, str) else ()
        if decay != "auto" and not free and not farther:
            return first
        tried: dict[Shape, float] = {}
        best = self._best(tried, [first._replace(decay=one) for one in (DECAYS if decay == "auto" else [first.decay])])
        for place, factors in enumerate(free):
            best = self._best(tried, [best._replace(multiple=best.multiple * factor) for factor in factors])
            if place == 0 and farther:
                near, best = best, self._best(tried, [best._replace(remoteness=one) for one in farther])
                if best != near:
                    best = self._best(tried, [best._replace(multiple=best.multiple * factor) for factor in factors])
        if farther and not free:
            best = self._best(tried, [best._replace(remoteness=one) for one in farther])
        return best

    def _best(self, tried: dict[Shape, float], shapes: list[Shape]) -> Shape:
        """The best of all that were tried, these among them."""
        tried |= {shape: self._tried(shape) for shape in sorted(shapes) if shape not in tried}
        return min(tried, key=tried.__getitem__)

    def _tried(self, shape: Shape) -> float:
        """The error of rows held out over that of their mean, averaged over outputs, with the best penalties."""
        centers = self.sample[:: max(1, len(self.sample) // SEARCH_CENTERS)][:SEARCH_CENTERS]
        basis = Basis.of(self.kernel(shape), np.ascontiguousarray(centers), self.model.memory_budget)
        penalties = PENALTIES if self.model.penalty == "auto" else np.array([float(self.model.penalty)])
        errors = self._folds(basis).errors(penalties).min(0)
        return float((errors / np.square(self.Y - self.origin).sum(0)).mean())

    def _folds(self, basis: Basis) -> Folds:
        parts = basis.parts(self.X, self.Y, self.labels, self.parts, self.origin)
        return Folds(parts, basis.inverse_gram)

    def _finished(self, kernel: Kernel, centers: Array, shape: Shape) -> Chosen:
        """With penalties on a grid of decades, and then on a finer one around the best of each output."""
        basis = Basis.of(kernel, centers, self.model.memory_budget)
        folds = self._folds(basis)
        if self.model.penalty != "auto":
            return Chosen(basis, np.full(self.Y.shape[1], float(self.model.penalty)), folds, shape)
        rough = np.unique(PENALTIES[folds.errors(PENALTIES).argmin(0)])
        penalties = np.unique(np.outer(FINE, rough))
        penalties = penalties[np.append(True, np.diff(np.log(penalties)) > 0.1)]
        return Chosen(basis, penalties[folds.errors(penalties).argmin(0)], folds, shape)
