"""Accuracy on MNIST and Fashion-MNIST beside published numbers, with the time and memory it takes."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import gyrfalcon as gf

from . import THREADS, machine, report
from .datasets import why_absent
from .process import in_fresh_process, peak_beyond

LENGTH_SCALE = 5.0
PENALTY = 1e-6
CENTERS = (100, 1000, 10000)
SEEDS = {100: 5, 1000: 3, 10000: 1}  # draws of the centers: with few of them the accuracy depends on which
EPOCHS = 10  # of EigenPro
# What a method needs beside a number of centers, how far below the published accuracy it may be, and that accuracy in
# percent by number of centers: table 2 of "Toward Large Kernel Models" (EigenPro 3), Laplacian kernel, σ = 5.
EIGENPRO = {"solver": gf.solvers.EigenPro(max_iterations=EPOCHS), "penalty": 0.0}
METHODS: dict[str, tuple[dict[str, Any], float]] = {
    "falkon": ({}, 0.4),
    "eigenpro": (EIGENPRO, 0.5),
    "eigenpro, k-means": (EIGENPRO | {"centers": "kmeans"}, 0.5),
}
PUBLISHED = {
    ("mnist", "falkon"): (88.43, 95.39, 97.64),
    ("mnist", "eigenpro"): (87.24, 94.96, 97.31),
    ("mnist", "eigenpro, k-means"): (91.89, 95.96, 97.69),
    ("fashion_mnist", "falkon"): (77.33, 85.15, 88.27),
    ("fashion_mnist", "eigenpro"): (76.24, 84.59, 87.84),
    ("fashion_mnist", "eigenpro, k-means"): (78.66, 85.55, 88.13),
}
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}


@dataclass(frozen=True)
class Row:
    data: str
    method: str
    m: int
    accuracies: list[float]  # one for each draw of the centers
    accuracy: float  # their mean
    published: float
    met: bool
    fit_seconds: float
    predict_seconds: float
    extra_bytes: int
    seconds: dict[str, float]  # of the last fit, by part
    solver: str
    iterations: int
    message: str


def run(
    quick: bool, penalty: float = PENALTY, draws: dict[int, int] | None = None, methods: Collection[str] | None = None
) -> None:
    draws = draws or {m: 1 if quick else count for m, count in SEEDS.items() if not quick or m < max(CENTERS)}
    described = machine.describe()
    print(machine.headline(described), legend(penalty), sep="\n")
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    for (name, method), accuracies in PUBLISHED.items():
        missing = why_absent(name)
        if missing:
            if name not in skipped:
                print(f"{TITLES[name]}: skipped, {missing}")
            skipped[name] = missing
            continue
        if methods is not None and method not in methods:
            continue
        print(HEADER)
        for m, published in zip(CENTERS, accuracies, strict=True):
            if m not in draws:
                print(f"{TITLES[name]:>13} {m:>6} | left out")
                continue
            rows.append(in_fresh_process(_fit, name, method, m, draws[m], published, penalty))
            print(line(rows[-1]), flush=True)
    content = {"penalty": penalty, "rows": [asdict(row) for row in rows], "skipped": skipped}
    report.write_json(report.FOLDER / "mnist.json", {"machine": described, **content})


def _fit(name: str, method: str, m: int, seeds: int, published: float, penalty: float) -> Row:
    machine.set_threads()
    data = gf.datasets.load(name, split=True)
    X, X_test = data.X / np.float32(255), data.X_test / np.float32(255)
    y, y_test = data.y, data.y_test
    model = gf.KernelClassifier("laplacian", length_scale=LENGTH_SCALE, penalty=penalty, n_centers=m)
    settings, margin = METHODS[method]
    model.set_params(fit_intercept=False, verbose=False, **settings)
    accuracies, fits, predictions, peaks = [], [], [], []
    for seed in range(seeds):
        model.set_params(random_state=seed)
        started = time.perf_counter()
        peaks.append(peak_beyond(lambda: model.fit(X, y))[1])
        fits.append(time.perf_counter() - started)
        accuracies.append(100 * float(np.mean(model.predict(X_test) == y_test)))
        predictions.append(time.perf_counter() - started - fits[-1])
    accuracy = float(np.mean(accuracies))
    return Row(
        data=name,
        method=method,
        m=m,
        accuracies=accuracies,
        accuracy=accuracy,
        published=published,
        met=accuracy >= published - margin,
        fit_seconds=min(fits),
        predict_seconds=min(predictions),
        extra_bytes=peaks[0],
        seconds=model.record_.seconds,
        solver=model.record_.solver,
        iterations=model.record_.iterations,
        message=model.record_.message,
    )


def legend(penalty: float) -> str:
    draws = ", ".join(f"{seeds} at m = {m}" for m, seeds in SEEDS.items())
    return (
        f"\nMNIST: Laplacian kernel, length scale {LENGTH_SCALE:g}, pixels in [0, 1], float32, one-hot squared loss, m "
        f"centers, no intercept, {THREADS} threads; each m in a fresh process. falkon: the solver that is chosen, "
        f"penalty {penalty:g}, random centers; eigenpro: {EPOCHS} epochs, no penalty, random or k-means centers.\n"
        f"Mean accuracy and best times over draws of the centers: {draws}; one each with --quick.\n"
        "asked: the published accuracy less 0.4 (falkon) or 0.5 points (eigenpro), or better. memory: largest resident "
        "size during fit less that before."
    )


HEADER = (
    f"\n{'':13} {'m':>6} | {'accuracy':>8} {'published':>9} {'':6} | {'fit':>8} {'predict':>8} | {'memory':>8} | solver"
)


def line(row: Row) -> str:
    return (
        f"{TITLES[row.data]:>13} {row.m:>6} | {row.accuracy:6.2f} % {row.published:7.2f} % "
        f"{'met' if row.met else 'MISSED':6} | {row.fit_seconds:6.1f} s {row.predict_seconds:6.1f} s | "
        f"{row.extra_bytes / 1e6:5.0f} MB | {row.method}: {row.solver}, {row.iterations} iterations, {row.message}"
    )
