"""Tuning of Koopman models by forecasts of runs that were left out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from gyrfalcon.arrays import Array
from gyrfalcon.kernels import Kernel
from gyrfalcon.moments import LaggedMoments

from . import choices
from .forecast import Propagator, forecast_errors
from .gather import gather_parts
from .implied import read_lags
from .koopman import Koopman
from .lift import Lift
from .operator import Operator, solve
from .refinement import movable, refine
from .risk import LeftOutRisk
from .runs import Runs

MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the length scale, to begin with
PENALTIES = tuple(10.0**power for power in range(-10, -1))
RANKS = (2, 5, 10, 20, 40, 80)
GRADIENT_STEPS = 10
EXTENSIONS = 3  # how often the range of length scales is extended, or a gap in it is halved


class KoopmanCandidate(NamedTuple):
    """Parameters, and the error of forecasts of left-out runs in units of the deviation of the states.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.dynamics.KoopmanCandidate(1.0, 1e-6, 10, 1, error=0.2).error
    0.2
    """

    multiple: float
    penalty: float
    rank: int | None
    lag: int
    error: float
    kernel: Kernel | None = None  # that gradient steps led to


@dataclass(frozen=True)
class KoopmanSearch:
    """What tuning found.

    Attributes
    ----------
    model : Koopman
        With the best parameters; not fitted.
    best : KoopmanCandidate
    candidates : tuple of KoopmanCandidate
    persistence : float
        The error of those who say that nothing changes, in the same units.
    horizons : tuple of int
        In frames.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> t = 0.1 * np.arange(400)
    >>> x = np.stack([np.cos(t), np.sin(t)], 1)
    >>> search = gf.dynamics.tune(gf.dynamics.Koopman("krr", n_centers=20), x, multiples=[1.0], penalties=[1e-6, 1e-3])
    >>> len(search.candidates), search.best.error < search.persistence
    (2, True)
    """

    model: Koopman
    best: KoopmanCandidate
    candidates: tuple[KoopmanCandidate, ...]
    persistence: float
    horizons: tuple[int, ...]

    def __repr__(self) -> str:
        best = self.best
        return (
            f"KoopmanSearch(error {best.error:.4g}, persistence {self.persistence:.4g}: length scale × "
            f"{best.multiple:.3g}, penalty {best.penalty:.1e}, rank {best.rank}, lag {best.lag})"
        )


def tune(
    model: Koopman,
    X: Any,
    *,
    multiples: Sequence[float] | None = None,
    penalties: Sequence[float] | None = None,
    ranks: Sequence[int] | None = None,
    lags: Sequence[int] | None = None,
    horizon: int | Sequence[int] | None = None,
    folds: int = 5,
    gradient_steps: int | None = None,
    trajectory: Any = None,
    inputs: Any = None,
) -> KoopmanSearch:
    """Choose length scale, penalty, rank and lag by forecasts of runs that were left out.

    The error is that of the state so many frames ahead, in units of its deviation. Whole runs are left out, or blocks
    of time where there are fewer runs than folds; frames are never split at random. A length scale costs one pass over
    the frames, and all penalties, ranks and lags are questions to its moments. The range of length scales is extended,
    or refined around the best one. From the best candidate a few gradient steps move the penalty and the kernel's
    parameters, each length scale of its own if there are several; they count if they make the error smaller.

    Parameters
    ----------
    model : Koopman
        Where to begin; it is not changed.
    X, trajectory, inputs
        Runs, as for `Koopman.fit`.
    multiples : sequence of float, optional
        Of the model's length scale; (1,) leaves it as it is.
    penalties, ranks : sequences, optional
    lags : sequence of int, optional
        The model's own if not given. Each must divide the horizons.
    horizon : int or sequence of int, optional
        How many frames ahead forecasts are judged: one lag if not given, or the product of the lags.
    folds : int
    gradient_steps : int, optional
        Steps after the grid, each of which costs two to four passes. If not given, ten where length scales and
        penalties are left to the search and there are no inputs, and none otherwise.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> t = 0.05 * np.arange(2000)
    >>> X = np.stack([np.cos(t) + 0.3 * np.cos(3 * t), np.sin(t)], 1)
    >>> search = gf.dynamics.tune(gf.dynamics.Koopman(n_centers=50, random_state=0), X, horizon=20)
    >>> search.best.error < 0.1 * search.persistence
    True
    >>> model = search.model.fit(X)
    """
    choices.check(model)
    wanted = read_lags([model.lag] if lags is None else lags)
    horizons = _horizons(horizon, wanted)
    runs = Runs.of(X, trajectory=trajectory, inputs=inputs)
    if folds < 2:
        raise ValueError(f"folds must be 2 or more, got {folds!r}")
    runs = runs if len(runs) >= folds else runs.cut(folds)
    runs.check(max(horizons))
    grid = _grid(model, penalties, ranks)
    search = _Search(model, runs, wanted, horizons, grid, runs.parts(folds), folds)
    kernel, lift = choices.choose(model, runs)
    steps = _gradient_steps(gradient_steps, kernel, runs, free=multiples is None and penalties is None)
    found: dict[float, list[KoopmanCandidate]] = {}
    for multiple in _multiples(multiples, found):
        if multiple != 1.0:
            scaled = Lift(_scaled(kernel, multiple), lift.centers, memory_budget=model.memory_budget)
        found[multiple] = search.evaluate(lift if multiple == 1.0 else scaled, multiple)
    everything = [candidate for some in found.values() for candidate in some]
    best = min(everything, key=lambda candidate: candidate.error)
    if steps:
        everything.append(search.refined(best, _scaled(kernel, best.multiple), lift.centers, steps))
        best = min(best, everything[-1], key=lambda candidate: candidate.error)
    found_kernel = _scaled(kernel, best.multiple) if best.kernel is None else best.kernel
    chosen = clone(model).set_params(
        kernel=found_kernel, length_scale="auto", penalty=best.penalty, rank=best.rank, lag=best.lag
    )
    return KoopmanSearch(chosen, best, tuple(everything), search.persistence, tuple(horizons))


def _horizons(horizon: Any, lags: Sequence[int]) -> list[int]:
    horizons = [math.lcm(*lags)] if horizon is None else read_lags([horizon] if np.ndim(horizon) == 0 else horizon)
    for lag in lags:
        if any(frames % lag for frames in horizons):
            raise ValueError(f"horizon={horizon!r} must be a multiple of lag={lag}: forecasts go in steps of the lag")
    return horizons


def _gradient_steps(given: int | None, kernel: Kernel, runs: Runs, *, free: bool) -> int:
    """How many there are; refused where there is no gradient."""
    why = "there are inputs" if runs.n_inputs else "" if movable(kernel) else f"{kernel!r} has nothing to move"
    if given is None:
        return GRADIENT_STEPS if free and not why else 0
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(f"gradient_steps must be a whole number that is not negative, got {given!r}")
    if given and why:
        raise ValueError(f"gradient_steps={given} cannot be made, since {why}: pass gradient_steps=0")
    return given


def _grid(model: Koopman, penalties: Any, ranks: Any) -> list[tuple[float, list[int | None]]]:
    """Penalties, each with the ranks to try."""
    if model.method == "krr" and ranks is not None:
        raise ValueError("ranks do not go with method='krr', which has none: leave them out")
    every: list[int | None] = [None] if model.method == "krr" else list(RANKS if ranks is None else ranks)
    default = (0.0,) if model.method == "pcr" else PENALTIES
    return [(float(penalty), every) for penalty in (default if penalties is None else penalties)]


def _multiples(given: Sequence[float] | None, found: dict[float, list[KoopmanCandidate]]) -> Iterator[float]:
    """Those that are given, or a few and then others where the best ones were."""
    yield from MULTIPLES if given is None else given
    for _ in range(EXTENSIONS if given is None else 0):
        errors = {multiple: min(candidate.error for candidate in some) for multiple, some in found.items()}
        ordered = sorted(errors)
        place = ordered.index(min(errors, key=lambda multiple: errors[multiple]))
        if place == 0:
            yield ordered[0] / 2
        elif place == len(ordered) - 1:
            yield ordered[-1] * 2
        else:
            sides = ordered[place - 1], ordered[place + 1]
            better = min(sides, key=lambda multiple: errors[multiple])
            yield math.sqrt(better * ordered[place])


def _scaled(kernel: Kernel, multiple: float) -> Kernel:
    """The kernel with its length scale times a number."""
    if multiple == 1.0:
        return kernel
    names = {field.name for field in dataclasses.fields(kernel)}
    if "length_scale" not in names:
        raise ValueError(f"{kernel!r} has no length scale of its own: pass multiples=(1.0,)")
    scale = np.asarray(kernel.length_scale, dtype=np.float64) * multiple  # type: ignore[attr-defined]
    return dataclasses.replace(kernel, length_scale=float(scale) if scale.ndim == 0 else tuple(scale.tolist()))  # type: ignore[call-arg]


def _ratio(before: Kernel, after: Kernel) -> float:
    """The geometric mean of the factors by which length scales have changed; one if there are none."""
    pairs = zip(before.parameters().items(), after.parameters().values(), strict=True)
    logs = [
        np.log(np.asarray(new, dtype=float)) - np.log(np.asarray(old, dtype=float))
        for (name, old), new in pairs
        if name.split(".")[-1] == "length_scale"
    ]
    return math.exp(float(np.mean(np.concatenate([np.ravel(part) for part in logs])))) if logs else 1.0


class _Search:
    """Errors of candidates, from moments of parts of the runs."""

    def __init__(
        self,
        model: Koopman,
        runs: Runs,
        lags: list[int],
        horizons: list[int],
        grid: list[tuple[float, list[int | None]]],
        parts: Array,
        folds: int,
    ):
        self.model, self.runs, self.lags, self.horizons = model, runs, lags, horizons
        self.grid, self.parts, self.folds = grid, parts, folds
        self.persistence = np.nan

    def evaluate(self, lift: Lift, multiple: float) -> list[KoopmanCandidate]:
        """All penalties, ranks and lags for one kernel."""
        model, every = self.model, sorted({*self.lags, *self.horizons})
        gathered = gather_parts(
            self.runs, lift, every, self.parts, self.folds, form=model.input_form, verbose=bool(model.verbose)
        )
        parts = {lag: [part[place] for part in gathered] for place, lag in enumerate(every)}
        total = {lag: _sum(moments) for lag, moments in parts.items()}
        variance = sum(total[h].sums.variance().sum() for h in self.horizons)
        change = sum(total[h].change.sum() / total[h].count for h in self.horizons)
        self.persistence = math.sqrt(change / variance) if variance > 0 else 0.0
        errors: dict[tuple[float, int | None, int], float] = {}
        for lag in self.lags:
            for fold in range(self.folds):
                if parts[lag][fold].count in (0, total[lag].count):
                    continue
                held = {h: parts[h][fold] for h in self.horizons}
                for (penalty, rank), operator in self._operators(total[lag] - parts[lag][fold]):
                    error = self._error(operator, lift, lag, fold, held)
                    errors[penalty, rank, lag] = errors.get((penalty, rank, lag), 0.0) + error
        counts = sum(total[h].count for h in self.horizons) / len(self.horizons)
        unit = variance * counts if variance > 0 else 1.0
        return [
            KoopmanCandidate(multiple, penalty, rank, lag, math.sqrt(max(error, 0.0) / unit))
            for (penalty, rank, lag), error in errors.items()
        ]

    def refined(self, best: KoopmanCandidate, kernel: Kernel, centers: Array, steps: int) -> KoopmanCandidate:
        """What gradient steps make of a candidate with that kernel."""
        model, budget = self.model, self.model.memory_budget
        risk = LeftOutRisk(
            self.runs, centers, self.parts, self.folds, str(model.method), best.rank, best.lag, self.horizons, budget
        )
        moved, penalty = refine(risk, kernel, best.penalty, steps)
        grid: list[tuple[float, list[int | None]]] = [(penalty, [best.rank])]
        alone = _Search(model, self.runs, [best.lag], self.horizons, grid, self.parts, self.folds)
        multiple = best.multiple * _ratio(kernel, moved)
        return alone.evaluate(Lift(moved, centers, memory_budget=budget), multiple)[0]._replace(kernel=moved)

    def _operators(self, moments: LaggedMoments) -> Iterator[tuple[tuple[float, int | None], Operator]]:
        for penalty, ranks in self.grid:
            largest = None if ranks == [None] else max(rank for rank in ranks if rank is not None)
            operator = solve(moments, str(self.model.method), largest, penalty, self.runs.n_inputs)
            for rank in ranks:
                yield (penalty, rank), operator if rank is None else operator.leading(rank)

    def _error(self, operator: Operator, lift: Lift, lag: int, fold: int, held: dict[int, LaggedMoments]) -> float:
        """The sum of squared errors of forecasts of the part that was left out, over the horizons."""
        steps = [h // lag for h in self.horizons]
        propagator = Propagator(lift, operator, self.runs.n_inputs, self.model.input_form)
        if self.runs.n_inputs == 0 or max(steps) == 1:
            readouts = propagator.readouts(operator.readout, steps)
            parts = [held[h] for h in self.horizons]
            return sum(
                _squared_error(part, operator.factor @ readouts[step]) for part, step in zip(parts, steps, strict=True)
            )
        errors = forecast_errors(propagator, self.runs, steps, lag, self.parts == fold)
        return float((np.square(errors.error).sum(1) * errors.count).sum())


def _squared_error(held: LaggedMoments, V: Array) -> float:
    """Σ ‖x′ - Vᵀz‖² over pairs, from their moments."""
    explained = 2 * np.einsum("ij,ij->", V, held.sums.cross) - np.einsum("ij,ij->", V, held.cross.before @ V)
    return float(max(held.sums.squares.sum() - explained, 0.0))


def _sum(parts: Sequence[LaggedMoments]) -> LaggedMoments:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
