"""Predict how long a fit will take and how much memory it will need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gyrfalcon.kernels import Kernel, as_kernel
from gyrfalcon.matrix.choice import as_devices
from gyrfalcon.matrix.plan import default_budget

from .checks import as_count, as_dtype, as_storage
from .cost import Setting
from .fit_plan import FitPlan, predict
from .law import Seconds
from .table import PlanTable
from .tuned import usual_centers

ITERATIONS = 20  # of falkon, where their number is not given

__all__ = ["FitPlan", "PlanTable", "Seconds", "plan"]


def plan(
    n: float,
    d: int,
    m: int | None = None,
    t: int = 1,
    *,
    dtype: Any = "float32",
    kernel: Kernel | str | None = None,
    iterations: int | None = None,
    devices: Sequence[Any] | None = None,
    workers: int = 1,
    storage: str = "memory",
    memory_budget: float | None = None,
) -> FitPlan:
    """Predict the time and the memory of a fit: n rows of d features, m centers, t outputs.

    With a number of centers, the fit is one by falkon with a kernel that is given. Without, it is one of an estimator
    with default arguments, which tunes; see the last paragraph.

    The rates are measured by miniature fits on this machine, with this d, t, type and kernel. This takes a second or
    two the first time. The model is seconds = a + b·n + c·n·m for a pass and b·m² + c·m³ for the factors. The
    prediction uses the fastest repetitions, and the interval uses the typical ones, so call this while the machine is
    as busy as it will be during the fit.

    For a fit with default arguments, one of at most 2,000 rows with this d, t and type is made and timed, and its solve
    is scaled by the estimates that fits themselves decide by. What tuning finds decides how long either takes, so the
    interval is wide.

    Parameters
    ----------
    n, d, m, t : int
        The numbers of rows, features, centers (at most n) and outputs. Whole floats such as 1e9 are accepted. Without
        m, the arguments below that say how a fit by falkon is made have to be left out.
    dtype : "float32" or "float64"
    kernel : Kernel or str
        "gaussian" if it is not given.
    iterations : int
        The number of iterations, with one pass each; 20 if it is not given. Falkon may stop earlier.
    devices : list of str, optional
        The devices of this machine that share the rows, as for `KernelMatrix`.
    workers : int
        The number of machines like this one, each with an equal share of the rows. Products are shared, and the factors
        are computed by one machine. The prediction includes the time to choose centers and to send vectors.
    storage : "memory", "parquet", "feather" or "npy"
        Where the rows are during the fit. Reading is measured with a small file in the temporary directory.
    memory_budget : int, optional
        In bytes, as for `KernelMatrix`; a quarter of the free memory by default.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> fit = gf.plan(1_000_000, 9, 1000, iterations=10)
    >>> print(fit)  # doctest: +ELLIPSIS
    falkon: 1,000,000 × 9 float32 features in memory, 1,000 centers, 1 output, 10 iterations
    time:    ..., between ... and ... (centers ..., factor ..., right side ..., iterations ...)
    memory:  ... MB at most (largest parts: ..., rows 36 MB, ...)
    assumed: ...
    >>> gf.plan(1e9, 9, 1000, workers=8).total < gf.plan(1e9, 9, 1000).total
    True
    >>> print(gf.plan(1000, 9))  # doctest: +ELLIPSIS
    default fit: 1,000 × 9 float32 features in memory, up to 1,000 centers, 1 output
    time:    ..., between ... and ... (tuning ..., solve ...)
    memory:  ...
    assumed: ...
    """
    free = default_budget(torch.device("cpu"))
    budget = free if memory_budget is None else as_count(memory_budget, "memory_budget")
    rows, outputs, kind = as_count(n, "n"), as_count(t, "t"), as_dtype(dtype)
    if m is None:
        _refuse_without_centers(kernel=kernel, iterations=iterations, devices=devices, workers=workers, storage=storage)
    setting = Setting(
        n=rows,
        d=as_count(d, "d"),
        m=usual_centers(rows, outputs, kind, budget) if m is None else as_count(m, "m"),
        t=outputs,
        dtype=kind,
        kernel=as_kernel("gaussian" if kernel is None else kernel),
        iterations=as_count(ITERATIONS if iterations is None else iterations, "iterations", least=0),
        devices=None if devices is None else tuple(map(str, as_devices(devices))),
        workers=as_count(workers, "workers"),
        storage=as_storage(storage),
        memory_budget=budget,
        tuned=m is None,
    )
    if setting.m > setting.n:
        raise ValueError(f"m must be at most n, since centers are chosen among rows, got m={m!r} and n={n!r}")
    return predict(setting)


def _refuse_without_centers(**given: Any) -> None:
    """Refuse what says how a fit by falkon is made, if no such fit is asked for."""
    usual = {"workers": 1, "storage": "memory"}
    for name, value in given.items():
        if value != usual.get(name):
            raise ValueError(f"{name}={value!r} is for fits with a number of centers: give m, or leave {name} out")
