"""What each objective of tuning is worth: the protocol of figure 4 of the paper that proposes one of them."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata

import gyrfalcon as gf
from gyrfalcon.solvers import Direct, LeastSquares, solve
from gyrfalcon.tuning import HoldOut, Objective, Proposed

from . import THREADS, datasets, machine, report
from .synthetic import Split, rmse

Array = np.ndarray[Any, Any]

REGRESSION = (
    "uci_bike",
    "uci_elevators",
    "uci_keggundirected",
    "uci_kin40k",
    "uci_pol",
    "uci_protein",
    "uci_pumadyn32nm",
    "houseelectric",
)
CLASSIFICATION = ("magic", "shuttle", "skin", "a9a", "usps")
OBJECTIVES = ("holdout", "gcv", "creg", "sgpr", "proposed", "bound")  # the last: the proposed one as it is printed
UNBIASED, BIASED = ("gcv", "creg"), ("sgpr", "proposed")
VALIDATION = 0.6  # of the rows, for hold-out: with so many parameters to tune, a small part is soon learned by heart
LEARNING_RATE = 0.05
RISE = 1.05  # of the test error over its least along the way: beyond, the objective was overfitted


@dataclass(frozen=True)
class Settings:
    rows: int
    test_rows: int
    centers: int
    steps: int
    seeds: int
    sets: tuple[str, ...]


FULL = Settings(5000, 5000, 100, 200, 5, (*REGRESSION, *CLASSIFICATION))
QUICK = Settings(1000, 1000, 50, 20, 2, ("uci_pumadyn32nm", "magic"))


@dataclass(frozen=True)
class Run:
    """One objective on one draw of the rows: test errors before each step, and that of the point that was kept."""

    errors: list[float]
    kept: float
    penalty: float
    seconds: float  # without those of the test errors
    message: str


@dataclass(frozen=True)
class Row:
    """One objective on one data set, over the draws."""

    data: str
    objective: str
    test_errors: list[float]
    mean: float
    deviation: float
    curve: list[float]  # mean test error before each step; a run that has ended counts with the point it kept
    rise: float  # of the mean test error, over the least of the curve
    steps: list[int]
    milliseconds: float  # a step
    penalties: list[float]


def run(quick: bool, settings: Settings | None = None) -> None:
    settings = settings or (QUICK if quick else FULL)
    described = machine.describe()
    print(machine.headline(described), legend(settings), sep="\n")
    skipped = {name: missing for name in settings.sets if (missing := datasets.why_absent(name))}
    for name, missing in skipped.items():
        print(f"{name}: skipped, {missing}")
    rows: list[Row] = []
    present = [name for name in settings.sets if name not in skipped]
    print(HEADER)
    # One thread each: matrices of a hundred rows gain nothing from two.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(THREADS, mp_context=context, initializer=machine.take_one_thread) as pool:
        pending = {
            name: [pool.submit(_tune_all, name, seed, settings) for seed in range(settings.seeds)] for name in present
        }
        for name, futures in pending.items():
            runs = [future.result() for future in futures]
            rows += [_row(name, objective, [found[objective] for found in runs]) for objective in OBJECTIVES]
            print(line(rows[-len(OBJECTIVES) :]), flush=True)
            content = {"settings": asdict(settings), "rows": [asdict(row) for row in rows], "skipped": skipped}
            report.write_json(report.FOLDER / "objectives.json", {"machine": described, **content})
    if rows:
        print(summary(rows))
        print(f"Written: {report.FOLDER / 'objectives.json'}")


def _tune_all(name: str, seed: int, settings: Settings) -> dict[str, Run]:
    """Every objective from the same start."""
    prepare = datasets.encoded if name in CLASSIFICATION else datasets.standardized
    split = prepare(datasets.load(name, seed, settings.rows, settings.test_rows))
    n, d = split.X.shape
    kernel = gf.kernels.Gaussian([datasets.median_distance(split.X)] * d)
    K = gf.KernelMatrix(kernel, split.X, split.X[: settings.centers].copy(), cache=False)
    start = LeastSquares(K, torch.from_numpy(split.y.reshape(n, -1)), penalty=1 / n)
    error = _judge(split, classes=name in CLASSIFICATION)
    return {objective: _tune(start, _objective(objective, seed), error, settings) for objective in OBJECTIVES}


def _objective(name: str, seed: int) -> str | Objective:
    special: dict[str, Objective] = {"holdout": HoldOut(VALIDATION, seed), "bound": Proposed("trace")}
    return special.get(name, name)


def _tune(start: LeastSquares, objective: str | Objective, error: Callable[..., float], settings: Settings) -> Run:
    judged = 0.0

    def validate(problem: LeastSquares) -> float:
        nonlocal judged
        began = time.perf_counter()
        found = error(problem)
        judged += time.perf_counter() - began
        return found

    began = time.perf_counter()
    tuned = gf.tuning.tune(
        start,
        objective,
        optimizer="adam",
        steps=settings.steps,
        learning_rate=LEARNING_RATE,
        centers=True,
        validate=validate,
    )
    seconds = time.perf_counter() - began - judged
    errors = [float(step.validation_error) for step in tuned.trace.steps]
    return Run(errors, error(tuned.problem), tuned.problem.penalty, seconds, tuned.trace.message)


def _judge(split: Split, *, classes: bool) -> Callable[[LeastSquares], float]:
    """The test error of the solution of a problem: RMSE over the deviation of the targets, or the share of mistakes."""

    def error(problem: LeastSquares) -> float:
        solution = solve(problem, Direct())
        values = gf.KernelMatrix(problem.K.kernel, split.X_test, problem.K.centers) @ solution.coefficients.numpy()
        if not classes:
            return rmse(values, split.y_test)
        found = values.argmax(1) if values.shape[1] > 1 else values[:, 0] > 0
        return float(np.mean(found != split.y_test))

    return error


def _row(data: str, objective: str, runs: Sequence[Run]) -> Row:
    length = max(len(run.errors) for run in runs)
    curve = np.mean([run.errors + [run.kept] * (length + 1 - len(run.errors)) for run in runs], 0)
    kept = [run.kept for run in runs]
    steps = [len(run.errors) for run in runs]
    return Row(
        data=data,
        objective=objective,
        test_errors=kept,
        mean=float(np.mean(kept)),
        deviation=float(np.std(kept)),
        curve=[float(f"{error:.4g}") for error in curve],
        rise=float(np.mean(kept) / max(curve.min(), np.finfo(float).tiny)),
        steps=steps,
        milliseconds=1e3 * sum(run.seconds for run in runs) / sum(steps),
        penalties=[run.penalty for run in runs],
    )


def ranks(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """The rank of each objective by mean test error, for each data set; ties share theirs."""
    found: dict[str, dict[str, float]] = {}
    for data in dict.fromkeys(row.data for row in rows):
        here = [row for row in rows if row.data == data]
        places = rankdata([row.mean for row in here])
        found[data] = {row.objective: float(place) for row, place in zip(here, places, strict=True)}
    return found


def summary(rows: Sequence[Row]) -> str:
    places = ranks(rows)
    average = {name: float(np.mean([place[name] for place in places.values()])) for name in OBJECTIVES}
    lines = ["", "rank by mean test error" + "".join(f" {name:>9}" for name in OBJECTIVES)]
    for data, place in places.items():
        lines.append(f"{data:>23}" + "".join(f" {place[name]:9.1f}" for name in OBJECTIVES))
    lines.append(f"{'average':>23}" + "".join(f" {average[name]:9.2f}" for name in OBJECTIVES))
    worst = max(average, key=lambda name: average[name])
    lines += ["", f"Worst on average: {worst} ({'as' if worst == 'holdout' else 'NOT as'} in the paper: hold-out)"]
    overfitted = {name: [row for row in rows if row.objective == name and row.rise > RISE] for name in OBJECTIVES}
    lines.append(f"The test error ends more than {RISE - 1:.0%} above its least along the way:")
    for name, some in overfitted.items():
        sets = ", ".join(f"{row.data} (+{row.rise - 1:.0%})" for row in some)
        lines.append(f"{name:>10}: {sets or 'nowhere'}")
    prone = {row.data for name in UNBIASED for row in overfitted[name]}
    for name in BIASED:
        spared = sorted(prone - {row.data for row in overfitted[name]})
        lines.append(f"{name} avoids it on {len(spared)} of the {len(prone)} sets where {' or '.join(UNBIASED)} has it")
    return "\n".join(lines)


def legend(settings: Settings) -> str:
    return (
        f"\nObjectives: {settings.centers} centers, one length scale per feature and the penalty tuned together, exact "
        f"evaluation, Adam with rate {LEARNING_RATE}, at most {settings.steps} steps, stopped when the objective has "
        f"not fallen for 10.\nFrom random rows, the median distance and 1/n. At most {settings.rows:,} training and "
        f"{settings.test_rows:,} test rows, standardized; targets of unit variance, ±1 or one-hot. Hold-out: "
        f"{VALIDATION:.0%} of the rows.\nTest RMSE over the deviation of the targets, or share of mistakes in percent, "
        f"of the direct solution on all training rows: mean ± deviation over {settings.seeds} draws of rows and "
        "centers; then steps taken and milliseconds a step on one thread."
    )


HEADER = f"\n{'':18} |" + "".join(f" {name:^15} |" for name in OBJECTIVES) + f" {'steps':^24} | ms a step"


def line(rows: Sequence[Row]) -> str:
    factor = 100 if rows[0].data in CLASSIFICATION else 1
    errors = "".join(f" {factor * row.mean:7.4f} ± {factor * row.deviation:5.3f} |" for row in rows)
    steps = " ".join(f"{np.mean(row.steps):4.0f}" for row in rows)
    return f"{rows[0].data:>18} |{errors} {steps} | {' '.join(f'{row.milliseconds:3.0f}' for row in rows)}"
