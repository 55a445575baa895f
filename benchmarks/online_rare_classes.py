"""Table 7.1 of Camoriano (2017): nine digits with a thousand rows each and a rare one, in a stream; and figure 7.1."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

import gyrfalcon as gf

from .datasets import why_absent

Array = np.ndarray[Any, Any]

RARE = (1, 5, 10, 50, 100, 500)  # rows of the rare class
ROWS, TEST_ROWS = 1200, 200  # of each other class, one in six held out; of every class
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
SEED = {  # total and rare-class accuracy in percent: plain, rebalanced, recoded
    1: ((79.2, 0.0), (79.7, 7.4), (79.7, 9.5)),
    5: ((79.1, 0.0), (82.5, 39.6), (80.3, 17.5)),
    10: ((79.2, 0.0), (83.6, 49.5), (81.0, 25.1)),
    50: ((79.2, 0.0), (85.5, 73.5), (83.9, 49.1)),
    100: ((79.2, 2.0), (85.9, 75.5), (85.1, 62.7)),
    500: ((85.5, 66.9), (86.2, 78.5), (86.1, 77.8)),
}
WAYS = ("plain", "rebalanced", "recoded")
CLOSE = 2.0  # points that the plain model may be away from the seed


def measure(quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"bayes": bayes_boundaries()}
    if why := why_absent("mnist"):
        print(f"\nrare classes: left out, {why}")
        return found
    X, y, X_test, y_test = gf.datasets.load("mnist", split=True)
    X, X_test = X.astype(np.float64) / 255, X_test.astype(np.float64) / 255
    trials = 2 if quick else 10
    results = np.array([_trial(X, y, X_test, y_test, np.random.default_rng(trial)) for trial in range(trials)])
    _show(results)
    return found | {"rare_classes": {"rows": RARE, "ways": WAYS, "accuracies": results.tolist()}}


def _trial(X: Array, y: Array, X_test: Array, y_test: Array, rng: np.random.Generator) -> Array:
    """Total, rare-class and other-class accuracies of each number of rare rows and each way."""
    rare = int(rng.integers(10))
    common = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:ROWS] for c in range(10) if c != rare])
    common = rng.permutation(common)
    queue = rng.permutation(np.flatnonzero(y == rare))
    test = np.concatenate([rng.permutation(np.flatnonzero(y_test == c))[:TEST_ROWS] for c in range(10)])
    models = [gf.online.RecursiveClassifier(penalty=p, recode="auto").fit(X[common], y[common]) for p in PENALTIES]
    held = np.arange(1, len(common) + 1) % 6 == 0  # what recode="auto" has not learned from
    validation = [np.mean(_plain(model).predict(X[common[held]]) == y[common[held]]) for model in models]
    best = int(np.argmax(validation))
    model = models[best]
    balanced = gf.online.RecursiveClassifier(penalty=10 * PENALTIES[best], rebalance=True)  # weights are ten, about
    balanced.fit(X[common[~held]], y[common[~held]])
    out, used, last = [], 0, 0
    for count in RARE:
        while model.counts_[model.classes_ == rare].sum() < count:
            before = model.n_seen_
            model.learn_one(X[queue[used]], int(rare))
            if model.n_seen_ > before:
                balanced.learn_one(X[queue[used]], int(rare))
            used += 1
        guesses = [one.predict(X_test[test]) for one in (_plain(model), balanced, model)]
        right = np.array(guesses) == y_test[test]
        is_rare = y_test[test] == rare
        out.append([[r.mean(), r[is_rare].mean(), r[~is_rare].mean()] for r in right])
        last = count
    assert last == RARE[-1]
    return np.array(out)


def _plain(model: Any) -> Any:
    """The same model without recoding."""
    plain = copy.copy(model)
    plain.recode = 0.0
    return plain


def _show(results: Array) -> None:
    mean, error = 100 * results.mean(0), 100 * results.std(0, ddof=1) / np.sqrt(len(results))
    print(f"\nRare digits in {len(results)} trials: total / rare / other-class accuracy, the seed's in brackets")
    for place, count in enumerate(RARE):
        line = "  ".join(
            f"{way} {mean[place, w, 0]:.1f} / {mean[place, w, 1]:.1f} / {mean[place, w, 2]:.1f} "
            f"({SEED[count][w][0]} / {SEED[count][w][1]})"
            for w, way in enumerate(WAYS)
        )
        close = abs(mean[place, 0, 0] - SEED[count][0][0]) <= CLOSE
        rare = mean[place, 2, 1] >= mean[place, 0, 1]
        slack = np.hypot(error[place, 0, 2], error[place, 2, 2])
        others = mean[place, 2, 2] >= mean[place, 0, 2] - slack
        verdict = "met" if close and rare and others else f"MISSED (close {close}, rare {rare}, others {others})"
        print(f"{count:4}: {line} | {verdict}", flush=True)


def bayes_boundaries() -> dict[str, float]:
    """Figure 7.1: where Bayes classifiers of two Gaussians cross the axis between the means, plain and rebalanced.

    With densities N((-1, 0), 1) and N((1, 0), 0.3), log γ p₁ = log (1 - γ) p₂ is quadratic in x.
    """
    found = {}
    for share in (0.5, 0.6, 0.7, 0.8, 0.9):
        variances = np.array([1.0, 0.3]) ** 2
        logs = np.log([share, 1 - share]) - np.log(variances)  # two dimensions: 1 / (2πσ²)
        a = 0.5 / variances[1] - 0.5 / variances[0]
        b = -1 / variances[1] - 1 / variances[0]
        c = 0.5 / variances[1] - 0.5 / variances[0] + logs[0] - logs[1]
        found[f"{share}"] = float(np.sort(np.roots([a, b, c]).real)[0])
    return found
