"""How the defaults of automatic tuning were chosen: alternatives of its recipe, ranked beside gradient boosting.

Errors are those of rows held out of the training rows, of the tables that are for choosing constants, from the folder
in $GYRFALCON_DATA, and of synthetic families. Test rows of no table are looked at.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import average_precision_score, log_loss

import gyrfalcon as gf
from gyrfalcon.tuning import Recipe

from . import machine, report

Array = np.ndarray[Any, Any]

REGRESSION = ("uci_airfoil", "uci_concrete", "uci_energy", "uci_gas", "uci_sml", "uci_skillcraft")
CLASSIFICATION = ("fault", "waveform", "spambase", "landsat", "campaign")
SYNTHETIC_ROWS, KEPT = 3000, 0.75
SPLITS = 2
QUICK = ("friedman", "steps of two classes")
ALTERNATIVES: dict[str, Recipe] = {
    "as it is": Recipe(),
    "no steps for single features": replace(Recipe(), least_rows=10**9),
    "one kernel goes on": replace(Recipe(), finalists=1),
    "three kernels go on": replace(Recipe(), finalists=3),
    "half the price of a move": replace(Recipe(), shrinkage=4.0),
    "twice the price of a move": replace(Recipe(), shrinkage=16.0),
    "no price": replace(Recipe(), shrinkage=0.0),
    "fewer rows": replace(Recipe(), search_rows=400, fitted_rows=500),
    "more rows": replace(Recipe(), search_rows=1200, fitted_rows=1500),
    "twice the steps": replace(Recipe(), search_steps=30),
    "the noise as found": replace(Recipe(), noise_factors=()),
    "no sums of kernels": replace(Recipe(), sums=False),
    "not again on more rows": replace(Recipe(), rows_per_feature=0),
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


def run(quick: bool) -> None:
    described = machine.describe()
    print(
        machine.headline(described),
        "Ratios of errors to the better of the rivals; wins; CPU seconds of one fit.",
        sep="\n",
    )
    scores: dict[str, dict[str, Score]] = {}
    for name, split in _splits(quick):
        contenders = _contenders(split.classes, quick)
        scores[name] = {label: _score(make(), split) for label, make in contenders.items()}
        mine, rivals = scores[name]["as it is"], _rivals(scores[name])
        print(f"{name:>28}: {mine.error:.4f} in {mine.seconds:.2f} s, rivals {rivals:.4f}", flush=True)
        saved = {each: {label: asdict(one) for label, one in found.items()} for each, found in scores.items()}
        report.write_json(report.FOLDER / "defaults.json", {"machine": described, "scores": saved})
    for label in ALTERNATIVES if not quick else ("as it is",):
        print(_summary(label, scores))


def _summary(label: str, scores: dict[str, dict[str, Score]]) -> str:
    ratios = [math.log(max(found[label].error, 1e-3) / max(_rivals(found), 1e-3)) for found in scores.values()]
    wins = sum(ratio <= 0 for ratio in ratios)
    seconds = np.mean([found[label].seconds for found in scores.values()])
    told = f"{label:>28}: ratio {math.exp(np.mean(ratios)):.3f}, {wins} of {len(ratios)}, {seconds:.2f} s"
    covered = [found[label].covered for found in scores.values() if found[label].covered is not None]
    if covered:
        told += f"; 90 % intervals hold {np.median(covered):.1%} in the median"
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


def _contenders(classes: bool, quick: bool) -> dict[str, Callable[[], Any]]:
    ours = gf.KernelClassifier if classes else gf.KernelRegressor
    boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    found: dict[str, Callable[[], Any]] = {
        label: lambda settings=settings: ours(tune=gf.tuning.Tuning(recipe=settings), random_state=0)
        for label, settings in ALTERNATIVES.items()
        if not quick or label == "as it is"
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
            return Score(error, seconds, covered=_covered(fitted, split))
        chances = fitted.predict_proba(split.X_held)
        likelihood = log_loss(split.y_held, np.clip(chances, 1e-15, 1))
    missed = 1 - average_precision_score(split.y_held, chances[:, 1])
    return Score(float(np.mean(predicted != split.y_held)), seconds, float(likelihood), float(missed))


def _covered(model: Any, split: Split) -> float | None:
    """The share of held-out rows in intervals of 90 %, if the model has them."""
    if not isinstance(model, gf.KernelRegressor):
        return None
    try:
        low, high = model.predict_interval(split.X_held, coverage=0.9)
    except ValueError:  # the solver left nothing to make deviations of
        return None
    return float(np.mean((low <= split.y_held) & (split.y_held <= high)))


def _splits(quick: bool) -> Iterator[tuple[str, Split]]:
    tables = [] if quick else [*REGRESSION, *CLASSIFICATION]
    for name in [*tables, *(QUICK if quick else SYNTHETIC)]:
        found = _table(name) if name in tables else SYNTHETIC[name](np.random.default_rng(len(name)))
        if found is None:
            print(f"{name:>28}: left out, it is not in $GYRFALCON_DATA")
            continue
        X, y = found
        for seed in range(1 if quick else SPLITS):
            order = np.random.default_rng(1000 + seed).permutation(len(y))
            kept, held = np.split(order, [int(KEPT * len(y))])
            yield f"{name}, split {seed}", Split(X[kept], y[kept], X[held], y[held], y.dtype.kind != "f")


def _table(name: str) -> tuple[Array, Array] | None:
    """The training rows of a table."""
    path = Path(os.environ.get("GYRFALCON_DATA", ""), name, "data.npz")
    if not path.exists():
        return None
    with np.load(path) as file:
        X, y = file["X"].astype(np.float64), file["y"].ravel()
        train = np.random.default_rng(0).random(len(y)) < 0.8
        if "test_mask" in file.files:
            train = ~file["test_mask"][:, 0].astype(bool)
    return X[train], y[train].astype(int) if name in CLASSIFICATION else y[train].astype(np.float64)


def _friedman(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = random.random((rows, 10))
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, signal + random.normal(size=rows)


def _few_of_many(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = random.normal(size=(rows, 30))
    signal = np.sin(2 * X[:, 0]) * X[:, 1] + np.abs(X[:, 2]) + X[:, 3] * X[:, 4]
    return X, signal + 0.3 * random.normal(size=rows)


def _steps(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = np.round(random.gamma(2, 2, size=(rows, 12)), 1)
    signal = 2.0 * (X[:, 0] > 3) + (X[:, 1] > X[:, 2]) + 0.3 * X[:, 3] * (X[:, 4] > 4)
    return X, signal + 0.3 * random.normal(size=rows)


def _smooth(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = random.random((rows, 8))
    directions, phases = 2 * random.normal(size=(8, 20)), 6 * random.random(20)
    return X, np.sin(X @ directions + phases) @ random.normal(size=20) + 0.05 * random.normal(size=rows)


def _noise(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    return random.normal(size=(rows, 8)), random.normal(size=rows)


def _lognormal(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    logarithms = random.normal(size=(rows, 8))
    signal = logarithms[:, 0] * logarithms[:, 1] + np.sin(2 * logarithms[:, 2]) + (logarithms[:, 3] > 0)
    return np.exp(3 * logarithms), signal + 0.2 * random.normal(size=rows)


def _rarely_huge(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = random.normal(size=(rows, 10))
    present = random.random((rows, 4)) < 0.03
    X[:, :4] = np.where(present, np.exp(3 * random.normal(size=(rows, 4)) + 5), 0.0)
    signal = 2.0 * present[:, 0] + 2 * present[:, 1] * X[:, 5] + np.sin(2 * X[:, 4]) + X[:, 6] * X[:, 7]
    return X, signal + 0.2 * random.normal(size=rows)


def _counts(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = random.poisson(np.exp(1.5 * random.normal(size=(rows, 10)))).astype(float)
    signal = np.log1p(X[:, 0]) + (X[:, 1] == 0) * np.log1p(X[:, 2]) + np.minimum(X[:, 3], 3)
    return X, signal + 0.2 * random.normal(size=rows)


def _raw_tails(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = np.exp(random.normal(size=(rows, 8)))
    return X, (np.sqrt(X[:, 0]) * X[:, 1] + X[:, 2]) * (1 + 0.05 * random.normal(size=rows))


def _halved(make: Callable[..., tuple[Array, Array]]) -> Callable[..., tuple[Array, Array]]:
    def classes(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
        X, y = make(random, rows)
        return X, (y > np.median(y)).astype(int)

    return classes


def _mixture(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Two classes of six normal clouds each."""
    labels, cloud = random.integers(2, size=rows), random.integers(6, size=rows)
    middles = 1.3 * random.normal(size=(2, 6, 12))
    return middles[labels, cloud] + random.normal(size=(rows, 12)), labels


def _words(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Frequencies of words, most of them zero, in two kinds of text."""
    labels = (random.random(rows) < 0.4).astype(int)
    rates = np.exp(random.normal(size=40) - 2.5)[None] * np.exp(0.8 * random.normal(size=(2, 40)))[labels]
    length = np.exp(4 + 0.8 * random.normal(size=(rows, 1)))
    return 100 * random.poisson(rates * length / 50) / length, labels


def _categories(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Four categories as columns of zeros and ones, beside six numbers; one class is rarer."""
    codes, numbers = random.integers(8, size=(rows, 4)), random.normal(size=(rows, 6))
    effects = random.normal(size=(4, 8))
    score = sum(effects[j, codes[:, j]] for j in range(4)) + (codes[:, 0] > 4) * numbers[:, 0] + np.abs(numbers[:, 1])
    X = np.concatenate([np.eye(8)[codes].reshape(rows, -1), numbers], 1)
    return X, (score + 0.7 * random.normal(size=rows) > np.quantile(score, 0.8)).astype(int)


def _rules(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """The votes of ten rules of two thresholds each, and one label of twenty is wrong."""
    X = np.round(random.gamma(2, 2, size=(rows, 15)), 1)
    votes = np.zeros(rows)
    for _ in range(10):
        first, second = random.choice(15, 2, replace=False)
        votes += random.normal() * (X[:, first] > random.gamma(2, 2)) * (X[:, second] > random.gamma(2, 2))
    wrong = random.random(rows) < 0.05
    return X, ((votes > np.median(votes)) ^ wrong).astype(int)


def _rare(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """One row of twenty in the class that is looked for."""
    X, y = _few_of_many(random, rows)
    return X, (y > np.quantile(y, 0.95)).astype(int)


SYNTHETIC: dict[str, Callable[..., tuple[Array, Array]]] = {
    "friedman": _friedman,
    "few of many features": _few_of_many,
    "steps": _steps,
    "smooth": _smooth,
    "noise": _noise,
    "lognormal features": _lognormal,
    "features that are rarely huge": _rarely_huge,
    "counts": _counts,
    "signal in the tails": _raw_tails,
    "rarely huge, two classes": _halved(_rarely_huge),
    "few of many, two classes": _halved(_few_of_many),
    "steps of two classes": _halved(_steps),
    "mixtures of two classes": _mixture,
    "words": _words,
    "categories": _categories,
    "rules": _rules,
    "a rare class": _rare,
}
