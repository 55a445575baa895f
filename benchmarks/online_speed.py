"""One row at a time and in blocks, beside river's Bayesian linear regression; how long a row takes."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

import numpy as np

import gyrfalcon as gf

from .timing import Contender, race

Array = np.ndarray[Any, Any]

WIDTHS = {200: 512, 784: 256}  # features, and rows of one turn: short, so that some turns are not disturbed
RATIO = 10.0  # that is asked over river
EQUAL = 1e-9  # largest difference between predictions, over their spread
LATENCY = (1e-3, 2e-3)  # seconds for predicting and learning one row: median, 99th percentile
FEATURES = 500
BLOCKS = (1, 4, 16, 32, 64, 96, 128, 256, 1024)


def measure(quick: bool) -> dict[str, Any]:
    return {"river": _beside_river(quick), "latency": _latency(quick), "blocks": _blocks(quick)}


def _beside_river(quick: bool) -> list[dict[str, Any]]:
    if find_spec("river") is None:
        print("\nbeside river: left out, river is not installed")
        return []
    from river import linear_model

    print("\nLearning one row at a time, rows per second of processor time, one thread")
    print(f"{'d':>5} {'river':>10} {'learn_one':>10} {'partial_fit, 256':>17} {'ratios':>14} {'difference':>11}")
    found = []
    for d, rows in WIDTHS.items():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(rows, d))
        y = X @ rng.normal(size=d) + rng.normal(size=rows)
        names = [str(place) for place in range(d)]  # the same objects in every row, as readers of files make them
        dicts = [dict(zip(names, row, strict=True)) for row in X.tolist()]
        theirs = linear_model.BayesianLinearRegression(alpha=1, beta=1)
        ours, blocks = (gf.online.RecursiveRegressor(penalty=1.0, fit_intercept=False) for _ in range(2))

        def one_by_one(model: Any, dicts: Any = dicts, y: Array = y) -> float:
            begin = time.thread_time()
            for x, target in zip(dicts, y.tolist(), strict=True):
                model.learn_one(x, target)
            return (time.thread_time() - begin) * 1e9 / len(dicts)

        def in_blocks(X: Array = X, y: Array = y, model: Any = blocks) -> float:
            begin = time.thread_time()
            for start in range(0, len(X), 256):
                model.partial_fit(X[start : start + 256], y[start : start + 256])
            return (time.thread_time() - begin) * 1e9 / len(X)

        for row, target in zip(dicts, y.tolist(), strict=True):
            theirs.learn_one(row, target)
            ours.learn_one(row, target)
        at = rng.normal(size=(20, d))
        asked = [dict(zip(names, row, strict=True)) for row in at.tolist()]
        pairs = np.array([[ours.predict_one(x), theirs.predict_one(x)] for x in asked])
        difference = float(np.abs(pairs[:, 0] - pairs[:, 1]).max() / np.abs(pairs).max())
        times = race(
            [
                Contender("river", lambda model=theirs: one_by_one(model)),
                Contender("learn_one", lambda model=ours: one_by_one(model)),
                Contender("partial_fit", in_blocks),
            ],
            rounds=3 if quick else 30,
            patience=60,
        )
        speed = {name: 1e9 / times[name] for name in ("river", "learn_one", "partial_fit")}
        ratio, block_ratio = speed["learn_one"] / speed["river"], speed["partial_fit"] / speed["river"]
        met = times.verdict(ratio >= RATIO and difference <= EQUAL)
        print(
            f"{d:5} {speed['river']:10,.0f} {speed['learn_one']:10,.0f} {speed['partial_fit']:17,.0f} "
            f"{ratio:6.1f} {block_ratio:7.1f} {difference:11.1e} | {met}",
            flush=True,
        )
        found.append({"d": d, "rows_per_second": speed, "ratio": ratio, "difference": difference, "verdict": met})
    return found


def _latency(quick: bool) -> list[dict[str, Any]]:
    """Predicting and then learning one row, on 500 features of 20 inputs."""
    print(f"\nPredict and learn one row, {FEATURES} features; asked: median ≤ 1 ms, 99th percentile ≤ 2 ms")
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(2000, 20)), rng.normal(size=(2000, FEATURES))
    features = gf.RandomFeatures(n_features=FEATURES, length_scale=4.0, random_state=0).fit(X)
    found = []
    for name, model, rows in (
        ("raw features", gf.online.RecursiveRegressor(), Z),
        ("random features", gf.online.RecursiveRegressor(features), X),
        ("random features, ten classes", gf.online.RecursiveClassifier(features), X),
        ("forgetting 0.999", gf.online.RecursiveRegressor(features, forgetting=0.999), X),
        ("window 1000, mean", gf.online.RecursiveRegressor(features, window=1000), X),
    ):
        y = rng.integers(10, size=2000) if "classes" in name else rows[:, 0]
        model.fit(rows[:1000], y[:1000])
        seconds = []
        for row, target in zip(rows[1000 : 1100 if quick else 2000], y[1000:].tolist(), strict=False):
            begin = time.thread_time()
            model.predict_one(row)
            model.learn_one(row, target)
            seconds.append(time.thread_time() - begin)
        median, late, mean = np.median(seconds), np.quantile(seconds, 0.99), np.mean(seconds)
        met = "met" if median <= LATENCY[0] and late <= LATENCY[1] else "MISSED"
        print(f"{name:>30}: median {median * 1e3:.3f} ms, 99 % {late * 1e3:.3f} ms, mean {mean * 1e3:.3f} ms | {met}")
        found.append({"name": name, "median": float(median), "late": float(late), "mean": float(mean)})
    return found


def _blocks(quick: bool) -> list[dict[str, Any]]:
    """Microseconds for a row by reflections and by LAPACK: where blocks should begin."""
    from gyrfalcon.online import factor

    print("\nMicroseconds for a row, by rows of a block: reflections / LAPACK")
    found = []
    for d in (100, 500) if quick else (100, 500, 1000):
        line = []
        for count in BLOCKS:
            rng = np.random.default_rng(0)
            X, y = rng.normal(size=(count, d)), rng.normal(size=(count, 1))
            times = {}
            for name, most in (("reflections", 10**9), ("LAPACK", 0)):
                kept, factor.BLOCK_ROWS = factor.BLOCK_ROWS, most
                try:
                    state = factor.Factor(np.ones(d), 1)
                    best = np.inf
                    for _ in range(3):
                        begin = time.thread_time()
                        state.add(X, y)
                        best = min(best, time.thread_time() - begin)
                    times[name] = best / count * 1e6
                finally:
                    factor.BLOCK_ROWS = kept
            line.append({"rows": count, **times})
        found.append({"d": d, "times": line})
        print(f"{d:5}: " + ", ".join(f"{one['rows']}: {one['reflections']:.0f}/{one['LAPACK']:.0f}" for one in line))
    return found
