"""Pictures of Koopman models: the spectrum, eigenfunctions, forecasts and implied time scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.solvers.paths.plots import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .implied import ImpliedTimescales
    from .koopman import Koopman


def plot_spectrum(model: Koopman, ax: Axes | None = None) -> Axes:
    """The eigenvalues in the complex plane, with the unit circle.

    Parameters
    ----------
    model : Koopman
        Fitted.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> t = 0.1 * np.arange(300)
    >>> model = gf.dynamics.Koopman(n_centers=30, random_state=0).fit(np.stack([np.cos(t), np.sin(t)], 1))
    >>> gf.dynamics.plot_spectrum(model).get_xlabel()
    'real part of λ'
    """
    ax = axes(ax)
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color="0.7", linewidth=1)
    ax.axhline(0, color="0.9", linewidth=1)
    ax.axvline(0, color="0.9", linewidth=1)
    values = model.eigenvalues_
    ax.plot(values.real, values.imag, "o", color="C0", markersize=5)
    ax.set_aspect("equal")
    ax.set_xlabel("real part of λ")
    ax.set_ylabel("imaginary part of λ")
    ax.set_title(f"{len(values)} eigenvalues at lag {model.lag}")
    return ax


def plot_eigenfunction(model: Koopman, X: Any, index: int = 1, ax: Axes | None = None) -> Axes:
    """The real part of a Koopman eigenfunction at states: a curve over one variable, or colors over the first two.

    Parameters
    ----------
    model : Koopman
    X : array of shape (n, d)
    index : int
        Of the eigenvalue; the stationary one is 0.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> t = 0.1 * np.arange(300)
    >>> X = np.stack([np.cos(t), np.sin(t)], 1)
    >>> model = gf.dynamics.Koopman(n_centers=30, random_state=0).fit(X)
    >>> gf.dynamics.plot_eigenfunction(model, X).get_ylabel()
    'x₁'
    """
    states = np.asarray(X)
    functions = model.eigenfunctions(states)
    if not -functions.shape[1] <= index < functions.shape[1]:
        raise ValueError(f"index must be below the number of eigenvalues, {functions.shape[1]}, got {index!r}")
    values, found = functions[:, index].real, model.eigenvalues_[index]
    ax = axes(ax)
    if states.shape[1] == 1:
        order = np.argsort(states[:, 0])
        ax.plot(states[order, 0], values[order], color="C0")
        ax.set_ylabel("eigenfunction")
    else:
        limit = float(np.abs(values).max())
        dots = ax.scatter(states[:, 0], states[:, 1], c=values, s=6, cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.figure.colorbar(dots, ax=ax)
        ax.set_ylabel("x₁")
    ax.set_xlabel("x₀")
    ax.set_title(f"λ = {found:.4f}")
    return ax


def plot_forecast(
    model: Koopman,
    run: Any,
    steps: int = 50,
    variable: int = 0,
    dt: float = 1.0,
    inputs: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """The mean forecast of one variable from the first frame of a run, beside what happened.

    Parameters
    ----------
    model : Koopman
    run : array of shape (frames, d)
    steps : int
        Of the operator.
    variable : int
    dt : float
        The time between frames.
    inputs : array of shape (frames, p), optional
        What acted on the run.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> t = 0.1 * np.arange(300)
    >>> X = np.stack([np.cos(t), np.sin(t)], 1)
    >>> model = gf.dynamics.Koopman(n_centers=30, random_state=0).fit(X)
    >>> len(gf.dynamics.plot_forecast(model, X, steps=20).get_lines())
    2
    """
    states, lag = np.asarray(run), int(model.lag)
    ahead = np.arange(1, steps + 1)
    U = None if inputs is None else np.asarray(inputs)[: steps * lag : lag][None]
    forecast: Array = model.predict(states[:1], ahead.tolist(), inputs=U)[0, :, variable]
    ax = axes(ax)
    seen = states[: steps * lag + 1, variable]
    ax.plot(dt * np.arange(len(seen)), seen, color="0.4", label="run")
    ax.plot(dt * lag * np.append(0, ahead), np.append(states[0, variable], forecast), color="C0", label="forecast")
    ax.set_xlabel("time")
    ax.set_ylabel(f"variable {variable}")
    ax.legend()
    return ax


def plot_timescales(found: ImpliedTimescales, ax: Axes | None = None, confidence: float = 0.9) -> Axes:
    """Implied time scales against the lag; below the gray line processes are faster than the lag.

    Parameters
    ----------
    found : ImpliedTimescales
    ax : matplotlib axes, optional
    confidence : float
        Of the bands.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> x = np.random.default_rng(0).normal(size=(10, 200, 1)).cumsum(1)
    >>> found = gf.dynamics.implied_timescales(list(x), [1, 5], count=2, bootstrap=5, random_state=0)
    >>> gf.dynamics.plot_timescales(found).get_yscale()
    'log'
    """
    ax = axes(ax)
    times = found.lags * found.dt
    for place in range(found.timescales.shape[1]):
        ax.plot(times, found.timescales[:, place], "o-", color=f"C{place}", markersize=4)
    if len(found.samples):
        low, high = found.band(confidence)
        for place in range(found.timescales.shape[1]):
            ax.fill_between(times, low[:, place], high[:, place], color=f"C{place}", alpha=0.2)
    ax.plot(times, times, color="0.6", linewidth=1)
    ax.set_yscale("log")
    ax.set_xlabel("lag")
    ax.set_ylabel("implied time scale")
    return ax
