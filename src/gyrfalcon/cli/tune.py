"""`gyrfalcon tune`: tune and fit a model, and show what tuning chose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import gyrfalcon as gf

from .fit import show as show_fit
from .options import (
    MODEL_ENDINGS,
    OBJECTIVES,
    Budget,
    Categorical,
    Centers,
    Data,
    DateFormats,
    Decimal,
    Delimiter,
    Drop,
    Encoding,
    Json,
    Seed,
    Sheet,
    Stream,
    Target,
    Task,
    TaskOption,
    TestFraction,
    date_formats,
)
from .session import check_output, shown, tell

if TYPE_CHECKING:
    from gyrfalcon.estimators.base import KernelEstimator

EXAMPLES = """
Examples:

gyrfalcon tune homes.csv --target price

gyrfalcon tune homes.csv --target price --objective loocv --out homes.safetensors
"""
FEATURES_SHOWN, STEPS_SHOWN = 20, 12


def command(
    data: Data,
    target: Target,
    task: TaskOption = Task.auto,
    objective: Annotated[
        str,
        typer.Option("--objective", help=f"The objective of tuning: auto, {', '.join(OBJECTIVES)}."),
    ] = "auto",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the model too (.safetensors).")] = None,
    time_budget: Budget = None,
    n_centers: Centers = None,
    test_fraction: TestFraction = 0.2,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    date_format: DateFormats = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    categorical: Categorical = None,
    drop: Drop = None,
    stream: Stream = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Tune penalty, kernel and length scales on a table, and show what was chosen and why.

    It fits and tests the model as `fit` does, with all the steps of the objective.
    """
    from .summary import parts
    from .training import Request, train

    check_output(out, MODEL_ENDINGS)
    if objective not in ("auto", *OBJECTIVES):
        raise typer.BadParameter(f"--objective must be auto or one of {', '.join(OBJECTIVES)}")
    done = train(
        Request(
            data,
            target,
            task,
            time_budget,
            test_fraction,
            seed,
            delimiter=delimiter,
            decimal=decimal,
            encoding=encoding,
            sheet=sheet,
            date_format=date_formats(date_format),
            categorical=categorical or [],
            drop=drop or [],
            stream=stream,
            objective=objective,
            n_centers=n_centers,
        )
    )
    estimator, names, _, _ = parts(done.model)
    if out is not None:
        done.model.save(out)
    facts = {"command": "tune", **done.facts, "out": out, **_chosen(estimator, names)}
    tell(facts, json, lambda console: _show(console, facts))


def _chosen(estimator: KernelEstimator, names: list[str]) -> dict[str, Any]:
    import numpy as np

    from .summary import length_scales

    trace = estimator.tuning_ if isinstance(estimator.tuning_, gf.tuning.Trace) else None
    steps = [] if trace is None else trace.steps
    relevance = gf.tuning.relevance(estimator)
    order = np.argsort(-relevance, kind="stable")
    return {
        "length_scales": length_scales(estimator.kernel_, names),
        "relevance": {names[place]: float(relevance[place]) for place in order},
        "objective": None if trace is None else trace.objective,
        "ended": "there was nothing to tune" if trace is None else trace.message,
        "trace": [{"seconds": step.seconds, "value": step.value, "penalty": step.penalty} for step in steps],
    }


def _show(console: Console, facts: dict[str, Any]) -> None:
    show_fit(console, facts)
    features = Table(
        "feature", "relevance", "length scale", box=None, title_justify="left", title="relevance of the features"
    )
    for name, value in list(facts["relevance"].items())[:FEATURES_SHOWN]:
        features.add_row(name, shown(value), shown(facts["length_scales"].get(name)))
    console.print(features)
    if not facts["trace"]:
        return
    steps = Table("step", "seconds", facts["objective"], "penalty", box=None, title_justify="left", title="tuning")
    every = max(1, -(-len(facts["trace"]) // STEPS_SHOWN))
    for place, step in enumerate(facts["trace"]):
        if place % every == 0 or place == len(facts["trace"]) - 1:
            steps.add_row(str(place), *(shown(step[name]) for name in ("seconds", "value", "penalty")))
    console.print(steps, f"ended: {facts['ended']}")
