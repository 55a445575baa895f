"""The sections about time and about how to reproduce the model."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

import numpy as np
import torch

from gyrfalcon.estimators.target_transform import fitted_to
from gyrfalcon.version import __version__

from . import page
from .evidence import Evidence, rows_of
from .page import Section
from .text import number, seconds

LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")
_PARTS = {"right_side": "right side", "factor": "factors", "iterate": "iterations"}


def times(evidence: Evidence) -> Section:
    return times_of(evidence.estimator, rows_of(evidence.X), evidence.seconds)


def times_of(estimator: Any, rows: int, predicting: float) -> Section:
    """How long a fit took, and predictions of so many rows."""
    record = getattr(estimator, "record_", None)
    spent = {}
    tuning = getattr(getattr(estimator, "tuning_", None), "seconds", 0.0)
    if tuning:
        spent["tuning"] = tuning
    for part, time in ({} if record is None else record.seconds).items():
        spent[f"fit: {_PARTS.get(part, part.replace('_', ' '))}"] = time
    spent[f"predict {rows:,} rows"] = predicting
    body = page.bars([(name, time, seconds(time)) for name, time in spent.items()])
    if record is not None:
        said = {"Solver": record.solver, "Why": record.reason, "Ended": record.message}
        body += page.facts({name: text for name, text in said.items() if text})
    return Section("Time", body)


def reproduce(evidence: Evidence, command: str | None) -> Section:
    return reproduce_model(evidence.model, evidence.estimator, command)


def reproduce_model(model: Any, estimator: Any, command: str | None) -> Section:
    """What makes a model again, and what its estimator is."""
    if command is None:
        command = f"import gyrfalcon as gf\n\nmodel = {_written(model)}\nmodel.fit(X_train, y_train)\n"
        command += "gf.report.write_report('report.html', model, X_test, y_test)"
    fitted = {
        "Kernel": repr(estimator.kernel_) if hasattr(estimator, "kernel_") else "–",
        "Penalty": number(getattr(estimator, "penalty_", getattr(estimator, "penalty", float("nan"))), 6),
        "Centers": f"{rows_of(estimator.centers_):,}" if hasattr(estimator, "centers_") else "–",
        "Parameters": ", ".join(f"{name}={value!r}" for name, value in estimator.get_params(deep=False).items()),
    }
    if (words := fitted_to(estimator)) != "y":
        fitted["Fitted to"] = words
    leaves = getattr(estimator, "partition_", None)
    if leaves is not None:
        largest = getattr(estimator.partition, "leaf_rows", int(np.diff(leaves.offsets).max()))
        fitted["Leaves"] = f"{leaves.n_leaves:,} of at most {largest:,} rows, solved exactly"
        if leaves.kernel is not estimator.kernel_:
            fitted["Kernel of the leaves"] = repr(leaves.kernel)
    return reproduction(command, fitted)


def reproduction(command: str, fitted: dict[str, str]) -> Section:
    """What makes the model again, what it is, and with what it was made."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    made = {
        "Versions": f"gyrfalcon {__version__}, Python {platform.python_version()}, {versions}",
        "Machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} of {os.cpu_count()} threads",
    }
    return Section("Reproduce", page.code(command) + page.facts({**{k: v[:2000] for k, v in fitted.items()}, **made}))


def _written(model: Any) -> str:
    text = str(model.__repr__(N_CHAR_MAX=2000))
    package, _, room = type(model).__module__.rpartition(".")[0].partition(".")
    if package != "gyrfalcon":
        return text
    return f"gf.{room}.{text}" if room in ("online", "dynamics") else f"gf.{text}"
