"""Accuracy on MNIST and Fashion-MNIST beside published numbers, with the time and memory it takes."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import numpy as np

import gyrfalcon as gf

from . import THREADS, machine, report
from .datasets import why_absent
from .process import in_fresh_process, peak_beyond

LENGTH_SCALE = 5.0
PENALTY = 1e-6
CENTERS = (100, 1000, 10000)
SEEDS = {100: 5, 1000: 3, 10000: 1}  # draws of the centres: with few of them the accuracy depends on which
# Falkon with random centres, Laplacian kernel, σ = 5, in percent: table 2 of "Toward Large Kernel Models" (EigenPro 3).
PUBLISHED = {"mnist": (88.43, 95.39, 97.64), "fashion_mnist": (77.33, 85.15, 88.27)}
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
MARGIN = 0.4  # percentage points


@dataclass(frozen=True)
class Row:
    data: str
    m: int
    accuracies: list[float]  # one for each draw of the centres
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


def run(quick: bool, penalty: float = PENALTY) -> None:
    described = machine.describe()
    print(machine.headline(described), legend(penalty), sep="\n")
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    for name in PUBLISHED:
        missing = why_absent(name)
        if missing:
            skipped[name] = missing
            print(f"{TITLES[name]}: skipped, {missing}")
            continue
        print(HEADER)
        for m, published in zip(CENTERS, PUBLISHED[name], strict=True):
            if quick and m == max(CENTERS):
                print(f"{TITLES[name]:>13} {m:>6} | left out by --quick")
                continue
            rows.append(in_fresh_process(_fit, name, m, 1 if quick else SEEDS[m], published, penalty))
            print(line(rows[-1]), flush=True)
    content = {"penalty": penalty, "rows": [asdict(row) for row in rows], "skipped": skipped}
    report.write_json(report.FOLDER / "mnist.json", {"machine": described, **content})


def _fit(name: str, m: int, seeds: int, published: float, penalty: float) -> Row:
    machine.set_threads()
    data = gf.datasets.load(name, split=True)
    X, X_test = data.X / np.float32(255), data.X_test / np.float32(255)
    y, y_test = data.y, data.y_test
    model = gf.KernelClassifier("laplacian", length_scale=LENGTH_SCALE, penalty=penalty, n_centers=m)
    model.set_params(fit_intercept=False, verbose=False)
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
        m=m,
        accuracies=accuracies,
        accuracy=accuracy,
        published=published,
        met=accuracy >= published - MARGIN,
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
        f"random centres, no intercept, penalty {penalty:g}, {THREADS} threads; each m in a fresh process.\n"
        f"Mean accuracy and best times over draws of the centres: {draws}; one each with --quick.\n"
        f"asked: the published accuracy of Falkon less {MARGIN} points, or better. memory: largest resident size "
        "during fit less that before."
    )


HEADER = (
    f"\n{'':13} {'m':>6} | {'accuracy':>8} {'published':>9} {'':6} | {'fit':>8} {'predict':>8} | {'memory':>8} | solver"
)


def line(row: Row) -> str:
    return (
        f"{TITLES[row.data]:>13} {row.m:>6} | {row.accuracy:6.2f} % {row.published:7.2f} % "
        f"{'met' if row.met else 'MISSED':6} | {row.fit_seconds:6.1f} s {row.predict_seconds:6.1f} s | "
        f"{row.extra_bytes / 1e6:5.0f} MB | {row.solver}, {row.iterations} iterations, {row.message}"
    )
