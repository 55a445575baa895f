"""KernelRegressor and KernelClassifier as they come, beside gradient boosting as it comes, on tabular data."""

from __future__ import annotations

import os
import statistics
import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import gyrfalcon as gf

from . import THREADS, datasets, machine, report
from .process import in_fresh_process

REGRESSION = (
    "uci_pumadyn32nm",
    "uci_pol",
    "uci_elevators",
    "uci_bike",
    "uci_kin40k",
    "uci_protein",
    "uci_keggundirected",
    "houseelectric",
    "flights3m",
)
CLASSIFICATION = ("usps", "letter", "magic", "a9a", "shuttle", "skin", "mnist")
QUICK = ("uci_pumadyn32nm", "uci_pol", "magic")
SEEDS = 3  # splits and draws of centers, for data of less than 100,000 rows
SHARE, FACTOR = 2 / 3, 3.0  # of the data sets to be as good on, and the time that may take


@dataclass(frozen=True)
class Row:
    data: str
    rows: int
    features: int
    errors: dict[str, float]  # mean squared error over variance, or the rate of errors; means over the seeds
    seconds: dict[str, float]
    better: bool
    in_time: bool


def run(quick: bool) -> None:
    described = machine.describe()
    print(machine.headline(described), LEGEND, HEADER, sep="\n")
    rows: list[Row] = []
    for name in QUICK if quick else REGRESSION + CLASSIFICATION:
        if datasets.why_absent(name):
            print(f"{name:>20}: skipped, {datasets.why_absent(name)}")
            continue
        rows.append(in_fresh_process(_measure, name, 1 if quick else SEEDS))
        print(line(rows[-1]), flush=True)
        report.write_json(report.FOLDER / "tabular.json", {"machine": described, "rows": [asdict(r) for r in rows]})
    if rows:
        print(summary(rows))


LEGEND = (
    f"No argument but random_state; {THREADS} threads. Errors: mean squared error over the variance of the target, or "
    "share of wrong classes.\nbetter: no worse than the better of the two; in time: at most "
    f"{FACTOR:g} times the mean time of the two."
)
HEADER = (
    f"{'data':>20} {'rows':>9} {'d':>4} | {'gyrfalcon':>10} {'LightGBM':>10} {'HistGB':>10} | "
    f"{'gyrfalcon':>9} {'LightGBM':>9} {'HistGB':>9} s | better, in time"
)


def line(row: Row) -> str:
    errors = " ".join(f"{row.errors.get(name, np.nan):10.5f}" for name in ("gyrfalcon", "LightGBM", "HistGB"))
    seconds = " ".join(f"{row.seconds.get(name, np.nan):9.2f}" for name in ("gyrfalcon", "LightGBM", "HistGB"))
    marks = f"{'yes' if row.better else 'NO':>6}, {'yes' if row.in_time else 'NO'}"
    return f"{row.data:>20} {row.rows:>9} {row.features:>4} | {errors} | {seconds}   | {marks}"


def summary(rows: list[Row]) -> str:
    better, timely = sum(row.better for row in rows), sum(row.in_time for row in rows)
    met = better >= SHARE * len(rows)
    return (
        f"As good or better on {better} of {len(rows)} (asked: two thirds): {'met' if met else 'MISSED'}; "
        f"within {FACTOR:g} times their mean time on {timely} of {len(rows)}"
    )


def _contenders(regression: bool, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "gyrfalcon": (gf.KernelRegressor if regression else gf.KernelClassifier)(random_state=seed),
        "HistGB": (HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier)(random_state=seed),
    }
    try:
        import lightgbm
    except ImportError:
        print("LightGBM is left out: pip install lightgbm")
        return found
    model = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
    return {**found, "LightGBM": model(random_state=seed, n_jobs=THREADS, verbose=-1)}


def _measure(name: str, seeds: int) -> Row:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin would slow the next contender down
    machine.set_threads()
    warnings.simplefilter("ignore")
    errors: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    regression = name in REGRESSION
    for seed in range(seeds):
        split = datasets.load(name, seed)
        X, X_test = (np.ascontiguousarray(part, dtype=np.float32) for part in (split.X, split.X_test))
        for label, model in _contenders(regression, seed).items():
            began = time.perf_counter()
            model.fit(X, split.y)
            seconds.setdefault(label, []).append(time.perf_counter() - began)
            predicted = np.asarray(model.predict(X_test))
            if regression:
                error = float(np.mean((predicted - split.y_test) ** 2) / np.var(split.y_test))
            else:
                error = float(np.mean(predicted != split.y_test))
            errors.setdefault(label, []).append(error)
        if len(X) > 100_000 or name == "mnist":
            break
    means = {label: statistics.mean(values) for label, values in errors.items()}
    times = {label: statistics.median(values) for label, values in seconds.items()}
    rivals = [label for label in means if label != "gyrfalcon"]
    better = means["gyrfalcon"] <= min(means[label] for label in rivals)
    in_time = times["gyrfalcon"] <= FACTOR * statistics.mean(times[label] for label in rivals)
    return Row(name, len(X), X.shape[1], means, times, better, in_time)
