"""Pictures of regularization paths: errors along the iterations, and over centers and penalties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..solution import FilterPath
from .size_path import SizePath

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_filter(solution: Any, ax: Axes | None = None) -> Axes:
    """The training objective and the validation error along a regularization path, and the step that was chosen.

    Parameters
    ----------
    solution : Solution, Record or FilterPath
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 200, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=0.0)
    >>> gf.solvers.plot_filter(gf.solvers.solve(problem, "kernel_cg")).get_xlabel()
    'iteration'
    """
    record = getattr(solution, "record", solution)
    path = getattr(record, "path", record)
    if not isinstance(path, FilterPath):
        raise ValueError("solution has no path: take one of nytro, nu_method, kernel_cg or spectral_cutoff")
    ax = axes(ax)
    ax.plot(path.steps, path.objectives, label="training objective", color="C0")
    if path.errors:
        ax.plot(path.steps, path.errors, label="validation error", color="C1", linewidth=2)
        ax.plot(path.chosen, path.errors[path.chosen], "ko")
    ax.set_xscale("symlog", linthresh=1)
    ax.set_yscale("log")
    ax.set_xlabel(path.unit)
    ax.legend()
    return ax


def plot_surface(path: SizePath, ax: Axes | None = None) -> Axes:
    """Validation errors over the number of centers or features and the penalty, in levels of their logarithm; the best
    is marked.

    Parameters
    ----------
    path : NystromPath or RandomFeaturePath
        Of two sizes and two penalties at least.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 200, dtype=torch.float64)[:, None]
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X, X[::10]), torch.sin(X), penalty=0.0)
    >>> gf.solvers.plot_surface(gf.solvers.nystrom_path(problem)).get_xlabel()
    'number of centers'
    """
    if not isinstance(path, SizePath) or min(path.errors.shape) < 2:
        raise ValueError("path must be a NystromPath or a RandomFeaturePath of two sizes and two penalties at least")
    ax = axes(ax)
    roots = np.sqrt(np.maximum(path.errors, np.finfo(float).tiny))
    filled = ax.contourf(path.sizes, path.penalties, np.log10(roots).T, levels=20, cmap="viridis")
    ax.figure.colorbar(filled, ax=ax, label="log₁₀ of the root mean squared validation error")
    ax.plot(*path.best, "o", color="white", markeredgecolor="black", label="lowest error")
    ax.plot(*path.smallest(), "s", color="white", markeredgecolor="black", label=f"fewest {path.unit} within 1 %")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(f"number of {path.unit}")
    ax.set_ylabel("penalty")
    ax.legend()
    return ax


def axes(ax: Axes | None) -> Axes:
    """Those given, or new ones."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'gyrfalcon[plot]'") from error
    return pyplot.subplots()[1]
