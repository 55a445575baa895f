"""Many lags from one pass: models at each of them, and implied time scales with bands."""

from __future__ import annotations

import operator as operators
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from gyrfalcon.arrays import Array

from . import choices
from .gather import gather, gather_parts
from .koopman import Koopman
from .operator import solve
from .runs import Runs
from .spectrum import Spectrum, timescales

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gyrfalcon.moments import LaggedMoments

GROUPS = 40  # of runs, which the bootstrap draws from; a run is in one of them


def fit_lags(
    model: Koopman, X: Any, lags: Sequence[int], *, trajectory: Any = None, inputs: Any = None
) -> list[Koopman]:
    """Models like one that is given, each with another lag, from one pass over the frames.

    Parameters
    ----------
    model : Koopman
        Its parameters are taken, but for the lag; it is not changed.
    X, trajectory, inputs
        Runs, as for `Koopman.fit`.
    lags : sequence of int

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> t = 0.1 * np.arange(500)
    >>> X = np.stack([np.cos(t), np.sin(t)], 1)
    >>> models = gf.dynamics.fit_lags(gf.dynamics.Koopman(n_centers=30, random_state=0), X, [1, 2, 10])
    >>> [model.n_pairs_ for model in models]
    [499, 498, 490]
    """
    choices.check(model)
    wanted = read_lags(lags)
    runs = Runs.of(X, trajectory=trajectory, inputs=inputs)
    runs.check(max(wanted))
    kernel, lift = choices.choose(model, runs)
    found = gather(runs, lift, wanted, form=model.input_form, verbose=bool(model.verbose))
    widths = (runs.n_features, runs.n_inputs)
    return [
        clone(model).set_params(lag=lag).adopt(kernel, lift, moments, widths)
        for lag, moments in zip(wanted, found, strict=True)
    ]


@dataclass(frozen=True)
class ImpliedTimescales:
    """Time scales at several lags; those that do not change with the lag are believed.

    Attributes
    ----------
    lags : array of shape (lags,)
        In frames.
    dt : float
        The time between frames.
    timescales : array of shape (lags, count)
        The longest first, without that of the stationary function.
    samples : array of shape (bootstrap, lags, count)
        The same for runs that were drawn with replacement.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> x = np.random.default_rng(0).normal(size=(10, 200, 1)).cumsum(1)
    >>> found = gf.dynamics.implied_timescales(list(x), [1, 5], count=2, bootstrap=5, random_state=0)
    >>> found.timescales.shape, found.samples.shape, found.band()[0].shape
    ((2, 2), (5, 2, 2), (2, 2))
    """

    lags: Array
    dt: float
    timescales: Array
    samples: Array

    def band(self, confidence: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper quantiles of the samples, each of shape (lags, count); NaN where there is no time scale."""
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
        if len(self.samples) == 0:
            raise ValueError("there are no samples: call implied_timescales with bootstrap > 0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of all-NaN slices
            low, high = np.nanquantile(self.samples, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
        return low, high

    def plot(self, ax: Axes | None = None, confidence: float = 0.9) -> Axes:
        """Time scales against the lag, with bands, beside the region of processes that are faster than the lag."""
        from .plots import plot_timescales

        return plot_timescales(self, ax, confidence)


def implied_timescales(
    X: Any,
    lags: Sequence[int],
    *,
    dt: float = 1.0,
    model: Koopman | None = None,
    count: int = 5,
    bootstrap: int = 50,
    trajectory: Any = None,
    random_state: Any = None,
) -> ImpliedTimescales:
    """Time scales -lag · dt / log λ at several lags, from one pass, with a bootstrap over runs.

    Runs are drawn with replacement, in at most 40 groups of neighbors. A single run is cut into as many pieces, so
    that what is drawn is longer than the lag. Frames are never drawn one by one.

    Parameters
    ----------
    X, trajectory
        Runs, as for `Koopman.fit`.
    lags : sequence of int
        In frames.
    dt : float
        The time between frames.
    model : Koopman, optional
        Whose parameters to use, but for the lag.
    count : int
        How many time scales, after that of the stationary function.
    bootstrap : int
        How many times runs are drawn; zero for no bands.
    random_state : int, RandomState or None
        Of the bootstrap, and of the centers if no model is given.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> random = np.random.default_rng(1)
    >>> x = np.zeros((20, 500, 1))
    >>> for t in range(499):
    ...     x[:, t + 1] = 0.9 * x[:, t] + random.normal(size=(20, 1))
    >>> found = gf.dynamics.implied_timescales(list(x), [1, 2, 5], count=1, bootstrap=20, random_state=0)
    >>> low, high = found.band()
    >>> bool((low < -1 / np.log(0.9)).all() and (high > -1 / np.log(0.9)).all())
    True
    """
    model = Koopman("rrr", random_state=random_state) if model is None else model
    choices.check(model)
    wanted = read_lags(lags)
    if operators.index(count) < 1 or operators.index(bootstrap) < 0:
        raise ValueError(f"count must be positive and bootstrap not negative, got {count!r} and {bootstrap!r}")
    runs = Runs.of(X, trajectory=trajectory)
    runs.check(max(wanted))
    _, lift = choices.choose(model, runs)
    if len(runs) == 1 and bootstrap:
        runs = runs.cut(min(GROUPS, max(2, int(runs.lengths[0]) // (10 * max(wanted)))))
    groups = min(GROUPS, len(runs)) if bootstrap else 1
    parts = gather_parts(runs, lift, wanted, runs.parts(groups), groups, verbose=bool(model.verbose))
    random = np.random.default_rng(check_random_state(random_state).randint(2**31))
    samples = np.full((bootstrap, len(wanted), count), np.nan)
    found = np.full((len(wanted), count), np.nan)
    for place, lag in enumerate(wanted):
        own = [part[place] for part in parts if part[place].count]
        found[place] = _scales(model, _total(own, np.ones(len(own), int)), lag, dt, count)
        for draw in range(bootstrap if len(own) > 1 else 0):
            times = np.bincount(random.integers(len(own), size=len(own)), minlength=len(own))
            samples[draw, place] = _scales(model, _total(own, times), lag, dt, count)
    return ImpliedTimescales(np.array(wanted), float(dt), found, samples)


def _total(parts: Sequence[LaggedMoments], times: Array) -> LaggedMoments:
    drawn = [part for part, often in zip(parts, times, strict=True) for _ in range(often)]
    total = drawn[0]
    for part in drawn[1:]:
        total = total + part
    return total


def _scales(model: Koopman, moments: LaggedMoments, lag: int, dt: float, count: int) -> Array:
    """Time scales after that of the stationary function; NaN where there are not that many."""
    operator = solve(moments, str(model.method), choices.rank(model), choices.penalty(model, moments))
    values = timescales(Spectrum.of(operator).values[1 : count + 1], lag, dt, warn=False)
    return np.append(values, np.full(count - len(values), np.nan))


def read_lags(lags: Any) -> list[int]:
    """Lags in frames, checked."""
    try:
        found = [operators.index(lag) for lag in lags]
    except TypeError:
        found = []
    if not found or min(found) < 1 or len(set(found)) < len(found):
        raise ValueError(f"lags must be different positive whole numbers, got {lags!r}")
    return found
