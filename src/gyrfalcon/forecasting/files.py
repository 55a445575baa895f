"""Fitted forecasters as what model files hold: of the training series, the end that the next windows need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.kernels import Kernel
from gyrfalcon.moments import Moments
from gyrfalcon.persistence import State

from .designs import Design
from .problem import Problem
from .regression import Basis, Regression
from .series import Series, Wind

if TYPE_CHECKING:
    from .forecaster import KernelForecaster


def pack(model: KernelForecaster, regression: Regression | None, moments: Moments | None) -> State:
    """Values that JSON can hold, and arrays."""
    problem, series = model.problem_, model.series_
    tail = slice(max(0, len(series) - problem.reach), None)
    design = problem.design
    values: dict[str, Any] = {
        "inputs": design.inputs,
        "n_exogenous": design.n_exogenous,
        "outputs": design.outputs,
        "memory": problem.memory,
        "horizons": problem.horizons,
        "calendar": problem.calendar,
        "difference": problem.difference,
        "names": series.names,
        "target": series.target,
        "step": int(series.step.astype(np.int64)),
        "wind": series.wind,
        "n_windows": model.n_windows_,
    }
    arrays = {"tail.times": series.times[tail].astype(np.int64), "tail.values": series.values[tail]}
    if model.errors_ is not None:
        arrays["errors"] = model.errors_
    if regression is not None and moments is not None:
        facts, sums = moments.pack()
        values |= {"moments": facts, "kernel": regression.basis.kernel.to_dict()}
        values |= {"length_scale": model.length_scale_, "decay": model.decay_, "remoteness": model.remoteness_}
        arrays |= {f"moments.{name}": array for name, array in sums.items()}
        arrays |= {"centers": regression.basis.centers, "penalties": regression.penalties}
        arrays |= {"coefficients": regression.coefficients, "intercepts": regression.intercepts}
    return values, arrays


def unpack(
    model: KernelForecaster, values: dict[str, Any], arrays: dict[str, Array]
) -> tuple[Regression | None, Moments | None]:
    """What `pack` packed, if it fits together."""
    wind = None if values["wind"] is None else Wind(*values["wind"])
    times = arrays["tail.times"].astype("datetime64[us]")
    tail = arrays["tail.values"]
    names = [str(name) for name in values["names"]]
    exogenous = int(values.get("n_exogenous", 0))  # files of version 0.2 do not say
    design = Design(tuple(values["inputs"]), tuple(values["outputs"]), values["target"], exogenous)
    horizons = tuple(int(horizon) for horizon in values["horizons"])
    known = set(names)
    if tail.shape != (len(times), len(names)) or not {*design.inputs, *design.outputs, design.target} <= known:
        raise ValueError("the end of the series does not fit the channels")
    step = np.timedelta64(int(values["step"]), "us")
    model.series_ = Series.of(times, tail, names, target=values["target"], step=step, wind=wind)
    model.problem_ = Problem(
        design, int(values["memory"]), horizons, tuple(values["calendar"]), bool(values["difference"])
    )
    model.n_windows_ = int(values["n_windows"])
    model.errors_ = arrays.get("errors")
    if model.errors_ is not None and model.errors_.shape[1:] != (len(horizons),):
        raise ValueError("the errors do not fit the horizons")
    if "moments" not in values:
        return None, None
    moments = Moments.unpack(
        values["moments"],
        {name.removeprefix("moments."): array for name, array in arrays.items() if name.startswith("moments.")},
    )
    model.length_scale_, model.decay_ = float(values["length_scale"]), float(values["decay"])
    model.remoteness_ = float(values.get("remoteness", 1.0))
    basis = Basis(Kernel.from_dict(values["kernel"]), arrays["centers"], moments.whitening, model.memory_budget)
    regression = Regression(basis, arrays["penalties"], arrays["coefficients"], arrays["intercepts"])
    outputs = len(horizons) * len(design.outputs)
    width = len(design.inputs) * int(values["memory"]) + 2 * len(values["calendar"])
    shapes = (basis.centers.shape, regression.coefficients.shape, regression.intercepts.shape, moments.origin.shape)
    m = moments.whitening.size
    if shapes != ((m, width), (m, outputs), (outputs,), (outputs,)) or regression.penalties.shape != (outputs,):
        raise ValueError("the coefficients do not fit the centers and horizons")
    return regression, moments
