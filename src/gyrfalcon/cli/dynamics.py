"""`gyrfalcon dynamics`: linear dynamics of functions of the state, from a table of runs."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import gyrfalcon as gf

from .options import MODEL_ENDINGS, REPORT_ENDINGS, CheckpointFolder, Data, Delimiter, Drop, Json, Seed, TestFraction
from .session import check_output, listing, tell

if TYPE_CHECKING:
    import numpy as np

    from gyrfalcon.dynamics import Koopman

    Array = np.ndarray[Any, Any]

EXAMPLES = """
Examples:

gyrfalcon dynamics runs.csv --trajectory run --lag 10 --out runs.safetensors

gyrfalcon dynamics car.parquet --trajectory run --input steer --input throttle --tune --out car.safetensors
"""

SHOWN = 8  # eigenvalues
STEPS = (1, 2, 5, 10, 20)


class Method(StrEnum):
    """How the operator is estimated."""

    rrr = "rrr"
    pcr = "pcr"
    krr = "krr"


def command(
    data: Data,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The model file to write (.safetensors).", show_default=False)
    ],
    trajectory: Annotated[
        str | None, typer.Option("--trajectory", help="The column that says which run a row belongs to.")
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="A column of what acts on the system. Can be repeated.")
    ] = None,
    drop: Drop = None,
    lag: Annotated[int, typer.Option("--lag", min=1, help="Frames between a state and the one it becomes.")] = 1,
    method: Annotated[
        Method, typer.Option("--method", help="Reduced rank, principal components or ridge.")
    ] = Method.rrr,
    rank: Annotated[int | None, typer.Option("--rank", min=1, help="Of rrr and pcr; 10 if not given.")] = None,
    centers: Annotated[int, typer.Option("--centers", min=1, help="How many frames become centers.")] = 300,
    dt: Annotated[float, typer.Option("--dt", help="The time between frames.")] = 1.0,
    tuned: Annotated[
        bool, typer.Option("--tune", help="Tune length scale, penalty and rank by left-out runs.")
    ] = False,
    test_fraction: TestFraction = 0.2,
    seed: Seed = 0,
    checkpoint: CheckpointFolder = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a report of the test runs here (.html).")
    ] = None,
    delimiter: Delimiter = None,
    json: Json = False,
) -> None:
    """Fit a Koopman operator to runs, and forecast runs that were set aside.

    The rows of a run follow each other in time. The last runs are set aside, or the end of a single run. Rows with
    missing values drop the pairs they belong to.
    """
    check_output(out, MODEL_ENDINGS)
    check_output(report, REPORT_ENDINGS)
    began = time.perf_counter()
    names, states, acts, labels = _read(data, trajectory, inputs or [], drop or [], delimiter)
    train = _training(labels, test_fraction)
    known: dict[str, Any] = {"trajectory": labels[train], "inputs": None if acts is None else acts[train]}
    model = gf.dynamics.Koopman(str(method), n_centers=centers, rank=rank, lag=lag, random_state=seed)
    if tuned:
        model = gf.dynamics.tune(model, states[train], **known).model
    model.fit(states[train], checkpoint=checkpoint, **known).save(out)
    facts: dict[str, Any] = {"command": "dynamics", "data": data, "out": out, "variables": names}
    facts |= {"runs": len(set(labels.tolist())), "pairs": model.n_pairs_, "kernel": repr(model.kernel_)}
    facts |= {"penalty": model.penalty_, "rank": model.rank_, "eigenvalues": _described(model, dt), "report": report}
    if not train.all():
        held: dict[str, Any] = {"trajectory": labels[~train], "inputs": None if acts is None else acts[~train]}
        steps = _possible(labels[~train], lag)
        errors = model.errors(states[~train], steps, **held)
        facts["test"] = {
            "steps": steps,
            "error": errors.normalized,
            "persistence": errors.normalized_persistence,
        }
        if report is not None:
            from gyrfalcon.report import write_dynamics_report

            again = shlex.join(_again(locals()))
            title = f"dynamics of {data.name}"
            write_dynamics_report(
                report, model, states[~train], steps=steps, dt=dt, title=title, reproduce=again, **held
            )
    elif report is not None:
        raise ValueError("--report needs test runs: set --test-fraction above 0")
    facts["seconds"] = time.perf_counter() - began
    tell(facts, json, lambda console: _show(console, facts))


def _read(
    data: Path, trajectory: str | None, inputs: list[str], drop: list[str], delimiter: str | None
) -> tuple[list[str], Array, Array | None, Array]:
    """Names and values of the variables, inputs, and labels of runs."""
    import numpy as np

    table = gf.tables.read_table(data, delimiter=delimiter)
    for option, wanted in (("--trajectory", [trajectory] if trajectory else []), ("--input", inputs), ("--drop", drop)):
        if missing := [name for name in wanted if name not in table]:
            raise ValueError(f"{option}: there is no column {missing[0]!r} in {data}")
    names = [name for name in table if name not in (trajectory, *inputs, *drop)]
    if not names:
        raise ValueError(f"{data} has no columns left for the state")
    rows = len(next(iter(table.values())))
    labels = np.zeros(rows, dtype=np.int64)
    if trajectory is not None:
        labels = np.unique(np.asarray([str(cell) for cell in table[trajectory]]), return_inverse=True)[1]
    return names, _numbers(table, names), _numbers(table, inputs) if inputs else None, labels


def _numbers(table: dict[str, Any], names: list[str]) -> Array:
    import numpy as np

    from gyrfalcon.encoding.columns import as_column

    columns = [as_column(name, table[name]) for name in names]
    for column in columns:
        if column.kind == "category":
            raise ValueError(f"column {column.name!r} holds text, and states are numbers: leave it out with --drop")
    return np.stack([column.as_numbers() for column in columns], 1)


def _training(labels: Array, share: float) -> Array:
    """Which rows to learn from: all but the last runs, or all but the end of the only one."""
    import numpy as np

    starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    rows = np.arange(len(labels))
    if share == 0:
        return np.ones(len(labels), dtype=bool)
    if len(starts) == 1:
        return np.asarray(rows < round((1 - share) * len(labels)))
    kept = min(len(starts) - 1, max(1, round((1 - share) * len(starts))))
    return np.asarray(rows < starts[kept])


def _possible(labels: Array, lag: int) -> list[int]:
    """Steps that the longest of the test runs has room for."""
    longest = max(Counter(labels.tolist()).values())
    steps = [step for step in STEPS if step * lag < longest]
    if not steps:
        raise ValueError(f"--lag {lag}: the longest test run has {longest} frames; choose a smaller lag")
    return steps


def _described(model: Koopman, dt: float) -> list[dict[str, float]]:
    import numpy as np

    values = model.eigenvalues_[:SHOWN]
    scales = gf.dynamics.timescales(values, model.lag, dt, warn=False)
    return [
        {"modulus": float(abs(value)), "angle": float(np.angle(value)), "timescale": float(scale)}
        for value, scale in zip(values, scales, strict=True)
    ]


def _again(given: dict[str, Any]) -> list[str]:
    """The command line that makes the report again."""
    words = ["gyrfalcon", "dynamics", str(given["data"]), "--out", str(given["out"]), "--report", str(given["report"])]
    for option, name in (
        ("--trajectory", "trajectory"),
        ("--rank", "rank"),
        ("--delimiter", "delimiter"),
        ("--lag", "lag"),
        ("--method", "method"),
        ("--centers", "centers"),
        ("--dt", "dt"),
        ("--test-fraction", "test_fraction"),
        ("--seed", "seed"),
    ):
        words += [] if given[name] is None else [option, str(given[name])]
    for option, name in (("--input", "inputs"), ("--drop", "drop")):
        words += [word for value in given[name] or [] for word in (option, value)]
    return [*words, *(["--tune"] if given["tuned"] else [])]


def _show(console: Console, facts: dict[str, Any]) -> None:
    head = {name: facts[name] for name in ("runs", "pairs", "kernel", "penalty", "rank")}
    console.print(listing("Koopman operator", head))
    modes = {
        f"λ{place}": f"modulus {mode['modulus']:.4f}, angle {mode['angle']:+.3f}, time scale {mode['timescale']:.4g}"
        for place, mode in enumerate(facts["eigenvalues"])
    }
    console.print(listing("eigenvalues", modes))
    if "test" in facts:
        test = facts["test"]
        rows = {
            f"after {step} steps": f"{error:.4f} (persistence {still:.4f})"
            for step, error, still in zip(test["steps"], test["error"], test["persistence"], strict=True)
        }
        console.print(listing("errors of test runs, in deviations", rows))
    console.print(*[f"written: {facts[name]}" for name in ("out", "report") if facts[name] is not None], sep="\n")
