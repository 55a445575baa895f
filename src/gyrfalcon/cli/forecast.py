"""`gyrfalcon forecast`: forecasts of a series from a table, and how good they were."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import gyrfalcon as gf

from .options import MODEL_ENDINGS, REPORT_ENDINGS, Data, Delimiter, Json, Seed
from .session import check_output, listing, tell

if TYPE_CHECKING:
    from gyrfalcon.forecasting import Forecast, Series, Study

EXAMPLES = """
Examples:

gyrfalcon forecast series.csv --time t --target speed --horizons 1,3,6 --report wind.html

gyrfalcon forecast mast.parquet --time utc --speed ws --direction deg --grid --split 2018-01-01 --report wind.html
"""

LEVEL = 90.0


def command(
    data: Data,
    stamps: Annotated[str, typer.Option("--time", help="The column of time stamps.", show_default=False)],
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column to forecast; the speed of a wind if not given.")
    ] = None,
    speed: Annotated[str | None, typer.Option("--speed", help="The column of the speed of a wind.")] = None,
    direction: Annotated[
        str | None, typer.Option("--direction", help="Where the wind comes from, in degrees; goes with --speed.")
    ] = None,
    u: Annotated[str | None, typer.Option("--u", help="The column of the component to the east.")] = None,
    v: Annotated[str | None, typer.Option("--v", help="The column of the component to the north.")] = None,
    horizons: Annotated[str, typer.Option("--horizons", help="How many steps ahead, with commas.")] = "1,3,6,12,18,24",
    memory: Annotated[
        str, typer.Option("--memory", help="How many values a forecast sees; with commas, the best is chosen.")
    ] = "24",
    grid: Annotated[bool, typer.Option("--grid", help="Try memories of 2, 6, 24, 48 and 72 and all designs.")] = False,
    split: Annotated[
        str | None, typer.Option("--split", help="Where the test begins; after three quarters if not given.")
    ] = None,
    retrain: Annotated[
        list[str] | None,
        typer.Option("--retrain", help="static, online, incremental or online-90D. Can be repeated."),
    ] = None,
    every: Annotated[str, typer.Option("--every", help="How often models are trained again.")] = "28D",
    step: Annotated[str | None, typer.Option("--step", help="Between stamps, such as 1h; found if not given.")] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", help="That of local times, such as Europe/Rome.")
    ] = None,
    centers: Annotated[
        int | None, typer.Option("--centers", min=1, help="How many windows become centers; 10 √n if not given.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="A folder from which a killed run goes on.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the model of the whole series here (.safetensors).")
    ] = None,
    seed: Seed = 0,
    report: Annotated[Path | None, typer.Option("--report", help="Write a report of the test here (.html).")] = None,
    delimiter: Delimiter = None,
    json: Json = False,
) -> None:
    """Forecast a series, after a test of forecasts of its end.

    Memory, design and model are chosen on the stamps before the test. The chosen configuration is then fitted to the
    whole series and forecasts what comes after it, with 90 % intervals.
    """
    from gyrfalcon.forecasting.study import MEMORIES

    check_output(out, MODEL_ENDINGS)
    check_output(report, REPORT_ENDINGS)
    began = time.perf_counter()
    if grid and memory != "24":
        raise ValueError(f"--memory {memory} and --grid exclude each other: leave one out")
    table = gf.tables.read_table(data, delimiter=delimiter)
    named = {"speed": speed, "direction": direction, "u": u, "v": v}
    roles = {role: column for role, column in named.items() if column is not None}
    channels = dict.fromkeys(column for column in (target, speed, u, v) if column is not None and column in table)
    others = [name for name in table if name != stamps]
    if target is None and not channels and len(others) > 1:
        raise ValueError(f"--target must name one of {', '.join(others)}, or --speed and --direction, or --u and --v")
    series = gf.forecasting.Series(
        table, time=stamps, target=target, channels=list(channels) or None, step=step, timezone=timezone, **roles
    )
    model = gf.forecasting.KernelForecaster(n_centers="auto" if centers is None else centers, random_state=seed)
    found = gf.forecasting.study(
        series,
        horizons=_numbers("--horizons", horizons),
        memories=MEMORIES if grid else _numbers("--memory", memory),
        designs=None if grid else ["auto"],
        split=split,
        retrain=retrain or ["static"],
        every=every,
        forecaster=model,
        checkpoint=checkpoint,
    )
    chosen = found.chosen(series.target)
    model.set_params(horizons=list(found.horizons), **chosen._asdict()).fit(series)
    last = series.times[model.problem_.origins(series)[-1]]  # before the end if that has a gap or NaN
    facts = _facts(found, series, model.predict(origin=last, level=LEVEL))
    facts |= {"command": "forecast", "data": data, "out": out, "report": report}
    if out is not None:
        model.save(out)
    if report is not None:
        found.report(report, title=f"forecasts of {series.target}, {data.name}", reproduce=shlex.join(_again(locals())))
    facts["seconds"] = time.perf_counter() - began
    tell(facts, json, lambda console: _show(console, facts))


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be whole numbers with commas, such as 1,3,6, got {text!r}") from None


def _facts(found: Study, series: Series, forecast: Forecast) -> dict[str, Any]:
    trial = found.trial(series.target, found.chosen(series.target))
    lower, upper = forecast.intervals[LEVEL]
    test = [
        {"horizon": horizon, "nrmse": error, "gamma": gamma}
        for horizon, error, gamma in zip(found.horizons, trial.nrmse.tolist(), trial.gamma.tolist(), strict=True)
    ]
    ahead = [
        {"time": str(moment), "forecast": mean, "lower": low, "upper": high}
        for moment, mean, low, high in zip(
            forecast.times[0].astype("datetime64[s]"),
            forecast.mean[0].tolist(),
            lower[0].tolist(),
            upper[0].tolist(),
            strict=True,
        )
    ]
    tests = found.retrained[series.target].items()
    return {
        "series": repr(series),
        "chosen": trial.configuration._asdict(),
        "split": str(found.splits[series.target]),
        "test": test,
        "retrained": {mode: test.nrmse.tolist() for mode, test in tests},
        "forecasts": ahead,
    }


def _again(given: dict[str, Any]) -> list[str]:
    """The command line that makes the report again."""
    words = ["gyrfalcon", "forecast", str(given["data"]), "--time", given["stamps"], "--report", str(given["report"])]
    for name in ("target", "speed", "direction", "u", "v", "horizons", "split", "every", "step", "timezone", "centers"):
        words += [] if given[name] is None else [f"--{name}", str(given[name])]
    for name in ("seed", "delimiter"):
        words += [] if given[name] is None else [f"--{name}", str(given[name])]
    words += [word for mode in given["retrain"] or [] for word in ("--retrain", mode)]
    return [*words, *(["--grid"] if given["grid"] else ["--memory", given["memory"]])]


def _show(console: Console, facts: dict[str, Any]) -> None:
    head = {"series": facts["series"], "test from": facts["split"]} | facts["chosen"]
    console.print(listing("forecasts", head))
    rows = {
        f"horizon {row['horizon']}": f"nrmse {row['nrmse']:.4f}, {row['gamma']:.3f} of persistence"
        for row in facts["test"]
    }
    console.print(listing("errors of the test", rows))
    ahead = {
        row["time"]: f"{row['forecast']:.4g} ({row['lower']:.4g} to {row['upper']:.4g})" for row in facts["forecasts"]
    }
    console.print(listing("what comes, and 90 % intervals", ahead))
    console.print(*[f"written: {facts[name]}" for name in ("out", "report") if facts[name] is not None], sep="\n")
