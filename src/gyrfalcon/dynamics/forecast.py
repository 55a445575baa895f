"""Forecasts: the operator applied many times, and how far they are off beside persistence."""

from __future__ import annotations

import operator as operators
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array

from .lift import Lift, regressors
from .operator import Operator
from .runs import Runs


def read_steps(steps: Any) -> tuple[list[int], bool]:
    """Numbers of steps, and whether there was one only."""
    one = np.ndim(steps) == 0
    try:
        found = [operators.index(step) for step in ([steps] if one else list(steps))]
    except TypeError:
        found = []
    if not found or min(found) < 1:
        raise ValueError(f"steps must be a positive whole number, or several, got {steps!r}")
    return found, one


@dataclass(frozen=True)
class Propagator:
    """Moves coordinates s = Wᵀz forward by steps of the operator, with inputs or without."""

    lift: Lift
    operator: Operator
    n_inputs: int
    form: str

    def begin(self, Z: Array, U: Array | None) -> Array:
        """s of features, and of the inputs that act during the first step."""
        if U is None:
            return np.asarray(Z @ self.operator.factor)
        return np.asarray(regressors(Z, U, self.form) @ self.operator.factor)

    def advance(self, s: Array, U: Array | None) -> Array:
        """One step on; the inputs are those of the step after it."""
        out = s @ self.operator.core
        if U is not None:
            direct, scaled = self.operator.input_cores(self.n_inputs)
            out += U @ direct
            for j, core in enumerate(scaled):
                out += U[:, j : j + 1] * (s @ core)
        return np.asarray(out)

    def readouts(self, readout: Array, steps: Sequence[int]) -> dict[int, Array]:
        """What turns s into an observable after each of the steps, where there are no inputs."""
        core, found = self.operator.core, {}
        for step in range(1, max(steps) + 1):
            if step in steps:
                found[step] = readout
            readout = core @ readout
        return found

    def forecast(self, X: Array, steps: Sequence[int], readout: Array, U: Array | None) -> Array:
        """Means of an observable after each of the steps, of shape (n, steps, t)."""
        out = np.empty((len(X), len(steps), readout.shape[1]))
        later = self.readouts(readout, steps) if U is None else {}
        for rows, Z in self.lift.blocks(X):
            if U is None:
                s = self.begin(Z, None)
                for place, step in enumerate(steps):
                    out[rows, place] = s @ later[step]
                continue
            s = self.begin(Z, U[rows, 0])
            for step in range(1, max(steps) + 1):
                if step > 1:
                    s = self.advance(s, U[rows, step - 1])
                for place in (place for place, wanted in enumerate(steps) if wanted == step):
                    out[rows, place] = s @ readout
        return out


@dataclass(frozen=True)
class ForecastErrors:
    """How far forecasts of states are off, for each number of steps, beside those who say that nothing changes.

    Attributes
    ----------
    steps : tuple of int
    error : array of shape (steps, d)
        Root mean square errors of the forecasts.
    persistence : array of shape (steps, d)
        The same for the state at the time of the forecast.
    deviation : array of shape (steps, d)
        Standard deviations of the states that were forecast.
    count : tuple of int
        How many forecasts there were.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> t = 0.1 * np.arange(600)
    >>> X = np.stack([np.cos(t), np.sin(t)], 1)
    >>> errors = gf.dynamics.Koopman(n_centers=50, random_state=0).fit(X[:400]).errors(X[400:], steps=[1, 10])
    >>> bool((errors.error < 0.01 * errors.persistence).all())
    True
    """

    steps: tuple[int, ...]
    error: Array
    persistence: Array
    deviation: Array
    count: tuple[int, ...]

    @property
    def normalized(self) -> Array:
        """Errors over all variables in units of their deviations, one for each number of steps."""
        return _relative(self.error, self.deviation)

    @property
    def normalized_persistence(self) -> Array:
        return _relative(self.persistence, self.deviation)

    def __str__(self) -> str:
        lines = ["steps   nRMSE   persistence"]
        for step, error, still in zip(self.steps, self.normalized, self.normalized_persistence, strict=True):
            lines.append(f"{step:5d} {error:7.4f} {still:13.4f}")
        return "\n".join(lines)


class Score(float):
    """A coefficient of determination that knows the errors it is made of.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.sin(0.1 * np.arange(300))[:, None] * [1.0, 0.0] + np.cos(0.1 * np.arange(300))[:, None] * [0.0, 1.0]
    >>> score = gf.dynamics.Koopman(n_centers=30, random_state=0).fit(X).score(X)
    >>> bool(score > 0.999), bool(score > score.persistence)
    (True, True)
    """

    persistence: float
    errors: ForecastErrors

    @classmethod
    def of(cls, errors: ForecastErrors) -> Score:
        squares = np.square(errors.deviation)
        score = cls(_explained(errors.error, squares))
        score.persistence, score.errors = _explained(errors.persistence, squares), errors
        return score

    def __repr__(self) -> str:
        return f"{float(self):.4f} (persistence {self.persistence:.4f})"

    def __reduce__(self) -> Any:
        return Score.of, (self.errors,)


def forecast_errors(
    propagator: Propagator, runs: Runs, steps: Sequence[int], lag: int, chosen: Array | None = None
) -> ForecastErrors:
    """Errors of forecasts from every frame of runs to the frames so many steps of the lag later, in one pass.

    `chosen` says for each run whether it counts; frames of the others are not looked at.
    """
    chosen = np.ones(len(runs), dtype=bool) if chosen is None else chosen
    totals = {step: _Totals(runs.n_features) for step in steps}
    later = propagator.readouts(propagator.operator.readout, steps)
    for window, first in _windows(propagator, runs, chosen, max(steps) * lag):
        for step, total in totals.items():
            j = np.arange(max(first, step * lag), len(window.runs))
            i = j - step * lag
            used = (window.runs[i] == window.runs[j]) & chosen[window.runs[i]]
            for between in range(step + 1):
                used &= window.whole[i + between * lag]
            i, j = i[used], j[used]
            if window.U is None:
                found = window.s[i] @ later[step]
            else:
                s = window.s[i]
                for between in range(1, step):
                    s = propagator.advance(s, window.U[i + between * lag])
                found = s @ propagator.operator.readout
            total.add(found, window.X[i], window.X[j])
    if not all(total.count for total in totals.values()):
        raise ValueError(f"no run has frames that are {max(steps)} steps of lag={lag} apart: give longer runs")
    error, still, deviation = (np.stack([total.means()[k] for total in totals.values()]) for k in range(3))
    return ForecastErrors(tuple(steps), error, still, deviation, tuple(total.count for total in totals.values()))


@dataclass(frozen=True)
class _Window:
    s: Array
    X: Array
    U: Array | None
    runs: Array
    whole: Array

    def joined(self, other: _Window) -> _Window:
        U = None if self.U is None or other.U is None else np.concatenate([self.U, other.U])
        s, X = np.concatenate([self.s, other.s]), np.concatenate([self.X, other.X])
        return _Window(s, X, U, np.concatenate([self.runs, other.runs]), np.concatenate([self.whole, other.whole]))

    def last(self, count: int) -> _Window:
        rows = slice(max(0, len(self.runs) - count), None)
        return _Window(
            self.s[rows], self.X[rows], None if self.U is None else self.U[rows], self.runs[rows], self.whole[rows]
        )


def _windows(propagator: Propagator, runs: Runs, chosen: Array, reach: int) -> Iterator[tuple[_Window, int]]:
    """Frames with their coordinates, preceded by those before them as far as the reach; and where new ones begin."""
    kept: _Window | None = None
    for block in runs.blocks(propagator.lift.block_rows):
        if not chosen[block.runs].any():
            continue
        s = propagator.begin(propagator.lift.block(block.states), block.inputs)
        fresh = _Window(s, block.states.astype(np.float64, copy=False), block.inputs, block.runs, block.whole)
        window = fresh if kept is None else kept.joined(fresh)
        yield window, len(window.runs) - len(block.runs)
        kept = window.last(reach)


class _Totals:
    """Sums over forecasts, about the first state that was forecast."""

    def __init__(self, width: int):
        self.count = 0
        self._origin: Array | None = None
        self._sums = np.zeros((4, width))

    def add(self, found: Array, before: Array, after: Array) -> None:
        if len(after) == 0:
            return
        if self._origin is None:
            self._origin = after[0]
        moved = after - self._origin
        parts = (np.square(found - after), np.square(before - after), np.square(moved), moved)
        self._sums += np.stack([part.sum(0) for part in parts])
        self.count += len(after)

    def means(self) -> tuple[Array, Array, Array]:
        error, still, squares, moved = self._sums / self.count
        return np.sqrt(error), np.sqrt(still), np.sqrt(np.maximum(squares - moved**2, 0.0))


def _relative(error: Array, deviation: Array) -> Array:
    varies = np.square(deviation).sum(1) > 0
    ratio = np.square(error).sum(1) / np.where(varies, np.square(deviation).sum(1), 1.0)
    return np.sqrt(np.where(varies, ratio, np.where(ratio > 0, np.inf, 0.0)))


def _explained(error: Array, squares: Array) -> float:
    """The mean over variables and steps of 1 - error² / variance; one or zero where nothing varies."""
    varies = squares > 0
    exact = np.where(error > 0, 0.0, 1.0)
    return float(np.where(varies, 1 - np.square(error) / np.where(varies, squares, 1.0), exact).mean())
