"""How the price of a trial's choice was chosen: defaults on synthetic tables of many rows, beside LightGBM.

CPU seconds of one thread, in one process, so that ratios hold on a machine that has other work too.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any
from unittest import mock

import numpy as np

import gyrfalcon as gf

from . import machine, report
from .families import SYNTHETIC

Array = np.ndarray[Any, Any]

ROWS, TEST_ROWS = (25_000, 100_000), 10_000
FAMILIES = ("friedman", "smooth", "steps", "counts", "few of many, two classes", "categories", "words", "rules")
QUICK = ("friedman", "words")
EXPONENTS = (0.25, 0.5, 1.0)  # of the price of what goes beyond the time that is allowed, those that are compared
EXPONENT = "gyrfalcon.estimators.trial.PRICE_BEYOND"


@dataclass(frozen=True)
class Row:
    """Error and CPU seconds of one fit, both over those of LightGBM if it is installed, and what was taken."""

    data: str
    rows: int
    exponent: float
    error: float
    seconds: float
    error_ratio: float
    time_ratio: float
    taken: str


def run(quick: bool) -> None:
    machine.take_one_thread()
    described = machine.describe()
    print(machine.headline(described), "Error and CPU seconds, and both over those of LightGBM.", sep="\n")
    found: list[Row] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in ROWS[:1] if quick else ROWS:
            for name in QUICK if quick else FAMILIES:
                found += _compare(name, n, (None,) if quick else EXPONENTS)
                content = {"machine": described, "rows": [asdict(row) for row in found]}
                report.write_json(report.FOLDER / "many_rows.json", content)
    for exponent in sorted({row.exponent for row in found}):
        chosen = [row for row in found if row.exponent == exponent]
        errors, times = (
            [getattr(row, kind) for row in chosen if math.isfinite(getattr(row, kind))]
            for kind in ("error_ratio", "time_ratio")
        )
        if errors:
            mean = math.exp(np.mean(np.log(errors)))
            print(f"price exponent {exponent:g}: errors {mean:.3f} of LightGBM's, time {np.median(times):.1f} times")


def _compare(name: str, n: int, exponents: tuple[float | None, ...]) -> list[Row]:
    X, y = SYNTHETIC[name](np.random.default_rng(len(name)), n + TEST_ROWS)
    X = X.astype(np.float32)
    classes = y.dtype.kind != "f"
    trees = rival(classes)
    base = (math.nan, math.nan) if trees is None else fit(trees, X, y, n)
    found = []
    for exponent in exponents:
        model = (gf.KernelClassifier if classes else gf.KernelRegressor)(random_state=0, verbose=False)
        used = gf.estimators.trial.PRICE_BEYOND if exponent is None else exponent
        with mock.patch(EXPONENT, used):
            error, seconds = fit(model, X, y, n)
        leaves = "" if model.partition_ is None else f" and {model.partition_.n_leaves} leaves"
        taken = f"{len(model.centers_):,} centers{leaves}"
        found.append(Row(name, n, used, error, seconds, error / base[0], seconds / base[1], taken))
        ratios = f"error {error / base[0]:.3f}, time {seconds / base[1]:.1f} times LightGBM's"
        print(f"{name:>28} {n:>8,} {used:5g}: {error:.4f} in {seconds:5.2f} s; {ratios}; {taken}", flush=True)
    return found


def rival(classes: bool) -> Any:
    try:
        import lightgbm
    except ImportError:
        print("LightGBM is left out: pip install lightgbm")
        return None
    return (lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor)(random_state=0, n_jobs=1, verbose=-1)


def fit(model: Any, X: Array, y: Array, n: int) -> tuple[float, float]:
    """The error on the rows after the first n, and CPU seconds of the fit to those."""
    began = time.process_time()
    model.fit(X[:n], y[:n])
    seconds = time.process_time() - began
    predicted, truth = np.asarray(model.predict(X[n:])), y[n:]
    if y.dtype.kind != "f":
        return float(np.mean(predicted != truth)), seconds
    return math.sqrt(np.mean((predicted - truth) ** 2)) / float(truth.std()), seconds
