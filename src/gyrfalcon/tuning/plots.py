"""Pictures of tuning: where the objective went, which features matter, the grid of a path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from gyrfalcon.kernels import Kernel, Mapped, Warped
from gyrfalcon.solvers.paths.plots import axes

from .parameters import as_array
from .path import Grid
from .trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray[Any, Any]


def plot_trace(model: Any, ax: Axes | None = None) -> Axes:
    """The objective, its terms, the penalty and the validation error, if there is one, against the step.

    Parameters
    ----------
    model : a fitted estimator or its `tuning_`
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = gf.KernelRegressor().fit(X, np.sin(X[:, 0]))
    >>> gf.tuning.plot_trace(model).get_xlabel()
    'step'
    """
    trace = getattr(model, "tuning_", model)
    if not isinstance(trace, Trace):
        raise ValueError("model was not tuned by gradient: fit it with tune='auto' or the name of an objective")
    ax = axes(ax)
    steps = np.arange(len(trace.steps))
    ax.plot(steps, trace.values, label=trace.objective, color="C0", linewidth=2)
    for place, name in enumerate(trace.steps[0].terms):
        if len(trace.steps[0].terms) > 1:
            ax.plot(steps, [step.terms[name] for step in trace.steps], label=name, color=f"C{place + 1}", alpha=0.6)
    errors = [np.nan if step.validation_error is None else step.validation_error for step in trace.steps]
    if not np.isnan(errors).all():
        ax.plot(steps, errors, label="validation error", color="black", linestyle=":")
    ax.plot(trace.best, trace.values[trace.best], "o", color="C0")
    ax.set_xlabel("step")
    ax.set_ylabel("objective")
    if min(trace.values) > 0 and max(trace.values) > 10 * min(trace.values):
        ax.set_yscale("log")
    other = ax.twinx()
    other.plot(steps, [step.penalty for step in trace.steps], color="0.6", linestyle="--", label="penalty (right)")
    other.set_yscale("log")
    other.set_ylabel("penalty")
    lines = [*ax.get_lines()[:-1], *other.get_lines()]
    ax.legend(lines, [str(line.get_label()) for line in lines])
    return ax


def relevance(model: Any) -> Array:
    """How nonlinear the function may be in each feature: spread over the centers / length scale, the largest being one.

    Of several kernels, as in a sum, it is that of the part which is most nonlinear in the feature.

    A long length scale means that the function is smooth in the feature, not that the feature is unimportant: what is
    linear in a feature that matters most has the longest. What each feature is worth is in `gyrfalcon.report`.

    Parameters
    ----------
    model : a fitted estimator with dense centers

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = gf.KernelRegressor(random_state=0).fit(X, np.sin(3 * X[:, 0]))
    >>> relevance = gf.tuning.relevance(model)
    >>> bool(relevance[0] == 1 and relevance[1] < 0.2)
    True
    """
    if sparse.issparse(model.centers_):
        raise ValueError("model has sparse centers: relevance needs dense ones")
    C = as_array(model.centers_)
    weight = _moves(model.kernel_, C)
    if weight is None:
        raise ValueError(f"{model.kernel_!r} has no length scale to read relevance from")
    top = float(weight.max(initial=0.0))
    return np.asarray(weight / top if top > 0 else weight)


def _moves(kernel: Kernel, C: Array, matrix: Array | None = None) -> Array | None:
    """How far a kernel, or the part of it that moves them most, moves points whose feature changes by its deviation.

    The matrix is what the points are multiplied by before the kernel sees them.
    """
    if isinstance(kernel, Warped) and matrix is None:
        return _moves(kernel.kernel, as_array(kernel.warp(C)))
    if isinstance(kernel, Mapped):
        return _moves(kernel.kernel, C, as_array(kernel.matrix) @ (np.eye(C.shape[1]) if matrix is None else matrix))
    scale = getattr(kernel, "length_scale", None)
    if scale is None:
        moves = [found for _, part in kernel.children() if (found := _moves(part, C, matrix)) is not None]
        return np.max(moves, axis=0) if moves else None
    matrix = np.eye(C.shape[1]) if matrix is None else matrix
    scales = np.broadcast_to(as_array(scale), len(matrix))
    return np.asarray(C.std(0) * np.linalg.norm(matrix / scales[:, None], axis=0))


def plot_relevance(model: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Features by spread over length scale, as bars; see `relevance`.

    A short bar is a long length scale: the function is smooth in that feature, which does not make it unimportant.

    Parameters
    ----------
    model : a fitted estimator
    ax : matplotlib axes, optional
    most : int
        How many features to show.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> ax = gf.tuning.plot_relevance(gf.KernelRegressor(random_state=0).fit(X, np.sin(3 * X[:, 0])))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0', 'x1']
    """
    values = relevance(model)
    names = model.kernel_feature_names
    order = np.argsort(-values)[:most]
    ax = axes(ax)
    ax.barh(np.arange(len(order)), values[order], color="C0")
    ax.set_yticks(np.arange(len(order)), [str(names[i]) for i in order])
    ax.invert_yaxis()
    ax.set_xlabel("relevance (spread / length scale)")
    return ax


def plot_path(model: Any, ax: Axes | None = None) -> Axes:
    """Cross-validated errors against the penalty, a line for each length scale.

    Parameters
    ----------
    model : an estimator fitted with a `PenaltyPath`, or its `tuning_`
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = gf.KernelRegressor(tune=gf.tuning.PenaltyPath()).fit(X, np.sin(X[:, 0]))
    >>> len(gf.tuning.plot_path(model).get_lines())
    6
    """
    grid = getattr(model, "tuning_", model)
    if not isinstance(grid, Grid):
        raise ValueError("model was not tuned on a grid: fit it with tune=PenaltyPath()")
    ax = axes(ax)
    for place, factor in enumerate(grid.length_scales):
        ax.plot(grid.penalties, grid.errors[place], label=f"length scale × {factor:g}", color=f"C{place}")
    row, column = grid.best
    ax.plot(grid.penalties[column], grid.errors[row, column], "ko")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("penalty")
    ax.set_ylabel("cross-validated error")
    ax.legend()
    return ax
