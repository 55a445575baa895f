"""KernelRegressor and KernelClassifier as they come, beside gradient boosting as it comes, on tabular data.

CPU seconds of one thread are compared, so that ratios hold on a machine that has other work too.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import average_precision_score, log_loss

import gyrfalcon as gf
from gyrfalcon.datasets import Split

from . import datasets, defaults, machine, report
from .process import in_fresh_process

DEVELOPMENT = (*defaults.REGRESSION, *defaults.CLASSIFICATION)  # on whose training rows constants were chosen
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
TABLES = (*DEVELOPMENT, *REGRESSION, *CLASSIFICATION)
QUICK = ("uci_pumadyn32nm", "uci_pol", "magic")
SPLITS = 5  # where the source has no test set; one of more than MANY_ROWS
MANY_ROWS = 100_000
MOST_OF_CATBOOST = 5_000_000  # numbers times outputs, beyond which it takes minutes
MOST_ROWS_OF_XRFM = 12_000  # beyond which it takes minutes, as it solves with all of them
RARE = 0.1  # share of the rarer of two classes, below which ranking counts and not the rate of errors
LEAST_ERROR = 1e-3  # of either side of a ratio: below, errors are a few rows
OURS, RIVALS = "gyrfalcon", ("LightGBM", "HistGB")  # acceptance looks at these
SHOWN = ("CatBoost", "xRFM")  # beside them where they are installed, on the first split of tables that are not large


@dataclass(frozen=True)
class Row:
    """Means over the splits; seconds are medians of CPU time.

    An error is the root of the mean squared error over the deviation, the rate of errors or, if one of two classes is
    rare, one less the average precision.
    """

    data: str
    rows: int
    features: int
    classes: bool
    errors: dict[str, float]
    seconds: dict[str, float]
    log_losses: dict[str, float]
    covered: float | None

    @property
    def rival(self) -> float:
        return min(self.errors[name] for name in RIVALS if name in self.errors)

    @property
    def better(self) -> bool:
        return self.errors[OURS] <= self.rival

    @property
    def ratio(self) -> float:
        return max(self.errors[OURS], LEAST_ERROR) / max(self.rival, LEAST_ERROR)

    @property
    def time_ratio(self) -> float:
        return self.seconds[OURS] / self.seconds.get("LightGBM", math.nan)

    @property
    def in_time(self) -> bool:
        """At most one CPU second for 5,000 rows; beyond, five times that of LightGBM; from 20,000 on, three times."""
        if self.rows <= 5000:
            return self.seconds[OURS] <= 1
        return self.time_ratio <= (5 if self.rows <= 20_000 else 3)


def run(quick: bool, only: Sequence[str] = ()) -> None:
    described = machine.describe() | {"threads": 1}
    print(machine.headline(described), LEGEND, HEADER, sep="\n")
    path = report.FOLDER / "tabular.json"
    before = json.loads(path.read_text("utf-8"))["rows"] if only and path.exists() else []
    found = {row["data"]: Row(**{k: row[k] for k in Row.__dataclass_fields__}) for row in before}
    for name in only or (QUICK if quick else TABLES):
        if why := _why_absent(name):
            print(f"{name:>20}: skipped, {why}")
            continue
        row = in_fresh_process(_measure, name, 1 if quick else SPLITS)
        print(line(row), flush=True)
        found[name] = row
        rows = [found[each] for each in TABLES if each in found]
        saved = [asdict(each) | {"better": each.better, "in_time": each.in_time} for each in rows]
        report.write_json(path, {"machine": described, "rows": saved})
    for title, rows in groups([found[each] for each in TABLES if each in found]):
        print(summary(title, rows))


LEGEND = (
    "No argument but random_state; CPU seconds of one thread. Errors: root mean squared error over the deviation, "
    "share of wrong classes,\nor 1 - average precision of a rare class. Ratios are to the better of LightGBM and "
    "HistGradientBoosting, those of time to LightGBM."
)
HEADER = (
    f"{'data':>20} {'rows':>9} {'d':>4} | {'gyrfalcon':>10} {'LightGBM':>10} {'HistGB':>10} {'CatBoost':>10} "
    f"{'xRFM':>10} | "
    f"{'gyrfalcon':>9} {'LightGBM':>9} s | error and time ratio | log loss ratio, covered"
)


def line(row: Row) -> str:
    errors = " ".join(f"{row.errors.get(name, np.nan):10.5f}" for name in (OURS, *RIVALS, *SHOWN))
    seconds = " ".join(f"{row.seconds.get(name, np.nan):9.2f}" for name in (OURS, "LightGBM"))
    marks = f"{row.ratio:6.3f} {row.time_ratio:6.1f} {'' if row.better else 'WORSE':>6}{'' if row.in_time else ' LATE'}"
    likely = f"{_likelihood(row):.3f}" if row.log_losses else "-"
    covered = "-" if row.covered is None else f"{row.covered:.1%}"
    return f"{row.data:>20} {row.rows:>9} {row.features:>4} | {errors} | {seconds}   | {marks} | {likely}, {covered}"


def _likelihood(row: Row) -> float:
    return row.log_losses[OURS] / row.log_losses.get("LightGBM", math.nan)


def groups(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """All tables, both kinds, and the tables that constants were chosen on apart from the others."""
    chosen = [row.data in DEVELOPMENT for row in rows]
    yield "all", rows
    yield "regression", [row for row in rows if not row.classes]
    yield "classification", [row for row in rows if row.classes]
    yield "development", [row for row, one in zip(rows, chosen, strict=True) if one]
    yield "the others", [row for row, one in zip(rows, chosen, strict=True) if not one]


def summary(title: str, rows: list[Row]) -> str:
    if not rows:
        return f"{title}: no tables"
    mean = math.exp(statistics.mean(math.log(row.ratio) for row in rows))
    told = (
        f"{title}: no worse on {sum(row.better for row in rows)} of {len(rows)}, mean error ratio {mean:.3f}, "
        f"in time on {sum(row.in_time for row in rows)}, median time ratio "
        f"{statistics.median(row.time_ratio for row in rows):.1f}"
    )
    likely = [_likelihood(row) for row in rows if row.log_losses]
    covered = [row.covered for row in rows if row.covered is not None]
    if likely:
        told += f", median log loss ratio {statistics.median(likely):.3f}"
    if covered:
        told += f", {defaults.COVERAGE:.0%} intervals cover {statistics.median(covered):.1%} in the median"
    return told


def _contenders(classes: bool, seed: int) -> dict[str, Any]:
    """One of each; packages that are not installed are left out."""
    ours = gf.KernelClassifier if classes else gf.KernelRegressor
    boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    found: dict[str, Any] = {OURS: ours(random_state=seed, verbose=False), "HistGB": boosting(random_state=seed)}
    try:
        import lightgbm
    except ImportError:
        print("LightGBM is left out: pip install lightgbm")
    else:
        trees = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
        found["LightGBM"] = trees(random_state=seed, n_jobs=1, verbose=-1)
    try:
        import catboost
    except ImportError:
        print("CatBoost is left out: pip install catboost")
    else:
        symmetric = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
        found["CatBoost"] = symmetric(random_state=seed, thread_count=1, verbose=False, allow_writing_files=False)
    try:
        from . import xrfm_models
    except ImportError:
        print("xRFM is left out: pip install xrfm")
    else:
        found["xRFM"] = (xrfm_models.Classifier if classes else xrfm_models.Regressor)(seed)
    return found


def _is_shown(label: str, seed: int, rows: int, numbers: int) -> bool:
    small = rows <= MOST_ROWS_OF_XRFM if label == "xRFM" else numbers <= MOST_OF_CATBOOST
    return label not in SHOWN or (seed == 0 and small)


def _why_absent(name: str) -> str:
    if name in DEVELOPMENT:
        return "" if datasets.development_file(name).exists() else "it is not in the folder that GYRFALCON_DATA names"
    return datasets.why_absent(name)


def _load(name: str, seed: int) -> Split:
    if name not in DEVELOPMENT:
        return datasets.load(name, seed)
    return datasets.development(name, seed)


def _measure(name: str, splits: int) -> Row:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    machine.take_one_thread()
    warnings.simplefilter("ignore")
    classes = name in (*CLASSIFICATION, *defaults.CLASSIFICATION)
    errors: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    likelihoods: dict[str, list[float]] = {}
    covered: list[float] = []
    for seed in range(splits):
        split = _load(name, seed)
        X, X_test = (np.ascontiguousarray(part, dtype=np.float32) for part in (split.X, split.X_test))
        split = split._replace(X=X, X_test=X_test)
        outputs = len(np.unique(split.y)) if classes else 1
        for label, model in _contenders(classes, seed).items():
            if not _is_shown(label, seed, len(X), X.size * outputs):
                continue
            began = time.process_time()
            model.fit(split.X, split.y)
            seconds.setdefault(label, []).append(time.process_time() - began)
            errors.setdefault(label, []).append(_error(model, split, classes))
            if classes:
                chances = np.clip(model.predict_proba(split.X_test), 1e-15, 1)
                loss = log_loss(split.y_test, chances, labels=model.classes_)
                likelihoods.setdefault(label, []).append(float(loss))
            elif label == OURS:
                covered += [] if (share := defaults.covered(model, split.X_test, split.y_test)) is None else [share]
        if len(X) > MANY_ROWS or (name not in DEVELOPMENT and gf.datasets.describe(name).split == "test set"):
            break
    return Row(
        name,
        len(X),
        X.shape[1],
        classes,
        {label: statistics.mean(values) for label, values in errors.items()},
        {label: statistics.median(values) for label, values in seconds.items()},
        {label: statistics.mean(values) for label, values in likelihoods.items()},
        statistics.mean(covered) if covered else None,
    )


def _error(model: Any, split: Split, classes: bool) -> float:
    predicted = np.asarray(model.predict(split.X_test)).ravel()
    if not classes:
        return float(np.sqrt(np.mean((predicted - split.y_test) ** 2)) / np.std(split.y_test))
    if len(model.classes_) == 2 and np.mean(split.y == model.classes_[1]) < RARE:
        chances = np.asarray(model.predict_proba(split.X_test))[:, 1]
        return float(1 - average_precision_score(split.y_test == model.classes_[1], chances))
    return float(np.mean(predicted != split.y_test))
