"""What tuning found, as facts that JSON can hold and arrays, and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from torch import Tensor

from gyrfalcon.kernels import Kernel
from gyrfalcon.persistence import pack_points, unpack_points
from gyrfalcon.solvers import Snapshot

from .automatic import Learned
from .path import Grid
from .trace import Candidate, Stage, Step, Trace

Array = np.ndarray[Any, Any]


def pack(learned: Learned) -> Snapshot | None:
    """Everything, exactly; None for a kernel that is a Python function or holds tensors, which only its owner has."""
    if any(isinstance(value, Tensor) for value in learned.kernel.parameters().values()):
        return None
    try:
        facts: dict[str, Any] = {"kernel": learned.kernel.to_dict(), "noise": learned.noise}
    except TypeError:
        return None
    arrays = {} if learned.centers is None else pack_points(learned.centers, "centers")
    if isinstance(learned.trace, Trace):
        facts["trace"], found = _pack_trace(learned.trace)
        arrays |= found
    elif isinstance(learned.trace, Grid):
        arrays |= {f"grid.{field.name}": getattr(learned.trace, field.name) for field in dataclasses.fields(Grid)}
    return facts, arrays


def unpack(facts: dict[str, Any], arrays: dict[str, Array]) -> Learned:
    """What `pack` packed; centers come as arrays or CSR."""
    centers = unpack_points(arrays, "centers") if {"centers", "centers.shape"} & arrays.keys() else None
    trace: Trace | Grid | None = None
    if "trace" in facts:
        trace = _unpack_trace(facts["trace"], arrays)
    elif "grid.errors" in arrays:
        trace = Grid(**{field.name: arrays[f"grid.{field.name}"] for field in dataclasses.fields(Grid)})
    return Learned(Kernel.from_dict(facts["kernel"]), facts["noise"], centers, trace)


def _pack_trace(trace: Trace) -> Snapshot:
    facts = {
        field.name: getattr(trace, field.name)
        for field in dataclasses.fields(Trace)
        if field.name not in ("stages", "steps", "state")
    }
    facts["stages"] = [dataclasses.asdict(stage) for stage in trace.stages]
    facts["steps"] = [{**vars(step), "parameters": list(step.parameters)} for step in trace.steps]
    arrays = {f"state.{name}": array for name, array in trace.state.items()}
    for place, step in enumerate(trace.steps):
        arrays |= {f"parameters.{place}.{name}": np.array(value) for name, value in step.parameters.items()}
    return facts, arrays


def _unpack_trace(facts: dict[str, Any], arrays: dict[str, Array]) -> Trace:
    steps = []
    for place, step in enumerate(facts.pop("steps")):
        parameters = {name: _nested(arrays[f"parameters.{place}.{name}"].tolist()) for name in step["parameters"]}
        steps.append(Step(**step | {"parameters": parameters}))
    state = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
    stages = [
        Stage(**stage | {"candidates": [Candidate(**one) for one in stage["candidates"]]})
        for stage in facts.pop("stages")
    ]
    return Trace(**facts, steps=steps, state=state, stages=stages)


def _nested(value: Any) -> Any:
    """Kernels hold their parameters as tuples."""
    return tuple(_nested(v) for v in value) if isinstance(value, list) else value
