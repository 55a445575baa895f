"""How the defaults of automatic tuning were chosen: alternatives of its recipe, ranked beside gradient boosting.

Errors are those of rows held out of the training rows, of the tables that are for choosing constants, from the folder
in $GYRFALCON_DATA, and of synthetic families. Test rows of no table are looked at.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import average_precision_score, log_loss

import gyrfalcon as gf
from gyrfalcon.tuning import Recipe

from . import datasets, machine, report
from .families import SYNTHETIC

Array = np.ndarray[Any, Any]

REGRESSION = ("uci_airfoil", "uci_concrete", "uci_energy", "uci_gas", "uci_sml", "uci_skillcraft")
CLASSIFICATION = ("fault", "waveform", "spambase", "landsat", "campaign")
KEPT = 0.75
COVERAGE = 0.9  # of intervals
SPLITS = 2
PRESENT = "as it is"
UNTRANSFORMED = "no transforms of targets"
QUICK = ("friedman", "steps of two classes")
ALTERNATIVES: dict[str, Recipe] = {
    PRESENT: Recipe(),
    "no steps for single features": replace(Recipe(), least_rows=10**9),
    "one kernel goes on": replace(Recipe(), finalists=1),
    "three kernels go on": replace(Recipe(), finalists=3),
    "half the price of a move": replace(Recipe(), shrinkage=4.0),
    "twice the price of a move": replace(Recipe(), shrinkage=16.0),
    "no price": replace(Recipe(), shrinkage=0.0),
    "fewer rows": replace(Recipe(), search_rows=400, fitted_rows=500),
    "more rows": replace(Recipe(), search_rows=1200, fitted_rows=1500),
    "twice the steps": replace(Recipe(), search_steps=30),
    "one smaller noise": replace(Recipe(), noise_factors=(0.4, 2.5)),
    "the noise as found": replace(Recipe(), noise_factors=()),
    "no sums of kernels": replace(Recipe(), sums=False),
    "one metric": replace(Recipe(), both_metrics=False),
    "the same rows at each step": replace(Recipe(), batches=10**6),
    "batches of 400 rows": replace(Recipe(), batch_rows=400),
    "neighbors are not asked": replace(Recipe(), asks_neighbors=False),
    "fewer steps on batches": replace(Recipe(), batch_steps=25),
    UNTRANSFORMED: Recipe(),
}


class Split(NamedTuple):
    X: Array
    y: Array
    X_held: Array
    y_held: Array
    classes: bool


@dataclass(frozen=True)
class Score:
    """The root of the mean squared error over the deviation, or the rate of errors; CPU seconds of the fit.

    Of two classes also the logarithmic loss and one less the average precision, and of our regressions the share of
    rows inside intervals of 90 %.
    """

    error: float
    seconds: float
    log_loss: float | None = None
    missed_precision: float | None = None
    covered: float | None = None


def run(quick: bool, only: Sequence[str] = (), splits: int = SPLITS) -> None:
    """Rank alternatives, all or `only` some beside the defaults; a study that is cut is not written to a file."""
    unknown = [label for label in only if label not in ALTERNATIVES]
    if unknown:
        raise SystemExit(f"no alternative {unknown[0]!r}: there are {', '.join(ALTERNATIVES)}")
    every = not (quick or only)
    chosen = [label for label in ALTERNATIVES if every or label == PRESENT or label in only]
    described = machine.describe()
    print(
        machine.headline(described),
        "Ratios of errors to the better of the rivals; wins; CPU seconds of one fit.",
        sep="\n",
    )
    scores: dict[str, dict[str, Score]] = {}
    kinds: dict[str, bool] = {}
    for name, split in _splits(quick, splits):
        contenders, kinds[name] = _contenders(split.classes, chosen), split.classes
        scores[name] = {label: _score(make(), split) for label, make in contenders.items()}
        mine, rivals = scores[name][PRESENT], _rivals(scores[name])
        others = "".join(f", {label} {scores[name][label].error:.4f}" for label in chosen if only and label != PRESENT)
        print(f"{name:>28}: {mine.error:.4f} in {mine.seconds:.2f} s, rivals {rivals:.4f}{others}", flush=True)
    if every and splits == SPLITS:
        saved = {each: {label: asdict(one) for label, one in found.items()} for each, found in scores.items()}
        report.write_json(report.FOLDER / "defaults.json", {"machine": described, "scores": saved})
    for heading, classes in (("Regression", False), ("Classification", True)):
        print(heading)
        for label in chosen:
            print(_summary(label, {name: found for name, found in scores.items() if kinds[name] == classes}))


def _summary(label: str, scores: dict[str, dict[str, Score]]) -> str:
    ratios = [math.log(max(found[label].error, 1e-3) / max(_rivals(found), 1e-3)) for found in scores.values()]
    wins = sum(ratio <= 0 for ratio in ratios)
    seconds = np.mean([found[label].seconds for found in scores.values()])
    told = f"{label:>28}: ratio {math.exp(np.mean(ratios)):.3f}, {wins} of {len(ratios)}, {seconds:.2f} s"
    covered = [found[label].covered for found in scores.values() if found[label].covered is not None]
    if covered:
        told += f"; {COVERAGE:.0%} intervals hold {np.median(covered):.1%} in the median"
    for name, kind in (("log_loss", "log loss"), ("missed_precision", "1 - average precision")):
        values = [_over_rivals(found, label, name) for found in scores.values() if getattr(found[label], name)]
        if values:
            told += f"; {kind} over that of the rivals {np.median(values):.3f} in the median"
    return told


def _over_rivals(found: dict[str, Score], label: str, name: str) -> float:
    rivals = [getattr(score, name) for other, score in found.items() if other not in ALTERNATIVES]
    return float(getattr(found[label], name)) / max(min(rivals), 1e-3)


def _rivals(found: dict[str, Score]) -> float:
    return min(score.error for label, score in found.items() if label not in ALTERNATIVES)


def _contenders(classes: bool, alternatives: Sequence[str]) -> dict[str, Callable[[], Any]]:
    ours = gf.KernelClassifier if classes else gf.KernelRegressor
    boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    found: dict[str, Callable[[], Any]] = {
        label: lambda label=label, settings=settings: ours(
            tune=gf.tuning.Tuning(recipe=settings),
            random_state=0,
            verbose=False,
            **({"target_transform": None} if label == UNTRANSFORMED and not classes else {}),
        )
        for label, settings in ALTERNATIVES.items()
        if label in alternatives
    }
    found["HistGradientBoosting"] = lambda: boosting(random_state=0)
    try:
        import lightgbm
    except ImportError:
        return found
    trees = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
    found["LightGBM"] = lambda: trees(random_state=0, n_jobs=1, verbose=-1)
    return found


def _score(model: Any, split: Split) -> Score:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        fitted = model.fit(split.X, split.y)
        seconds = time.process_time() - began
        predicted = np.asarray(fitted.predict(split.X_held))
        if not split.classes:
            error = math.sqrt(np.mean((predicted - split.y_held) ** 2)) / float(split.y_held.std())
            return Score(error, seconds, covered=covered(fitted, split.X_held, split.y_held))
        chances = fitted.predict_proba(split.X_held)
        likelihood = log_loss(split.y_held, np.clip(chances, 1e-15, 1))
    missed = 1 - average_precision_score(split.y_held, chances[:, 1]) if chances.shape[1] == 2 else None
    return Score(float(np.mean(predicted != split.y_held)), seconds, float(likelihood), missed)


def covered(model: Any, X: Array, y: Array) -> float | None:
    """The share of rows that were not in the fit which are in intervals of 90 %, if the model has them."""
    if not isinstance(model, gf.KernelRegressor):
        return None
    try:
        low, high = model.predict_interval(X, coverage=COVERAGE)
    except ValueError:  # the solver left nothing to make deviations of
        return None
    return float(np.mean((low <= y) & (y <= high)))


def _splits(quick: bool, splits: int) -> Iterator[tuple[str, Split]]:
    tables = [] if quick else [*REGRESSION, *CLASSIFICATION]
    for name in [*tables, *(QUICK if quick else SYNTHETIC)]:
        found = _table(name) if name in tables else SYNTHETIC[name](np.random.default_rng(len(name)))
        if found is None:
            print(f"{name:>28}: left out, it is not in $GYRFALCON_DATA")
            continue
        X, y = found
        for seed in range(1 if quick else splits):
            order = np.random.default_rng(1000 + seed).permutation(len(y))
            kept, held = np.split(order, [int(KEPT * len(y))])
            yield f"{name}, split {seed}", Split(X[kept], y[kept], X[held], y[held], y.dtype.kind != "f")


def _table(name: str) -> tuple[Array, Array] | None:
    """The training rows of a table."""
    if not datasets.development_file(name).exists():
        return None
    X, y = datasets.development(name, 0)[:2]
    return X, y.astype(int if name in CLASSIFICATION else np.float64)
