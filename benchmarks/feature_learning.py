"""What learning length scales and input maps gains where most features, or directions, are noise."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import gyrfalcon as gf

from . import machine, report
from .process import in_fresh_process, peak_beyond
from .synthetic import noisy_classes

BANDWIDTH = 20.0
CENTERS = 2000
TARGET, CPU_SECONDS, BYTES = 0.87, 60.0, 1.5e9  # what `tune="map"` is to reach
WAYS = {
    "plain": "Laplacian, bandwidth 20, best of four penalties",
    "scales": "tune='auto': one length scale per feature",
    "map": "tune='map': a linear map from the gradients",
}


@dataclass(frozen=True)
class Row:
    way: str
    rotated: bool
    accuracy: float
    cpu_seconds: float
    extra_bytes: int
    met: bool


def run(quick: bool) -> None:
    described = machine.describe()
    n = 5000 if quick else 20_000
    print(machine.headline(described), f"n = {n}, d = 100, 70 of them noise, 10 classes, {CENTERS} centers", sep="\n")
    rows = []
    for rotated in (False, True):
        for way in WAYS:
            rows.append(in_fresh_process(_measure, way, n, rotated))
            print(line(rows[-1]), flush=True)
    content = {"machine": described, "n": n, "ways": WAYS, "rows": [asdict(row) for row in rows]}
    report.write_json(report.FOLDER / "feature_learning.json", content)


def line(row: Row) -> str:
    judged = f"   {'met' if row.met else 'MISSED'}" if row.way == "map" and not row.rotated else ""
    return (
        f"{'rotated' if row.rotated else 'as it is':>9} {row.way:>7}: {row.accuracy:.4f} {row.cpu_seconds:7.1f} CPU-s "
        f"{row.extra_bytes / 1e6:7.0f} MB beyond the data{judged}"
    )


def _measure(way: str, n: int, rotated: bool) -> Row:
    machine.set_threads()
    data = noisy_classes(n, 5000, rotated)
    began = time.process_time()
    model, extra = peak_beyond(lambda: _fit(way, data.X, data.y, data.X_test, data.y_test))
    cpu = time.process_time() - began
    accuracy = float(np.mean(model.predict(data.X_test) == data.y_test))
    met = accuracy >= TARGET and cpu <= CPU_SECONDS and extra <= BYTES
    return Row(way, rotated, accuracy, cpu, extra, met)


def _fit(way: str, X: Any, y: Any, X_test: Any, y_test: Any) -> gf.KernelClassifier:
    if way != "plain":
        tune = "map" if way == "map" else gf.tuning.Tuning(per_feature=True)
        return gf.KernelClassifier(tune=tune, n_centers=CENTERS, random_state=0).fit(X, y)
    kernel = gf.kernels.Laplacian(BANDWIDTH)
    models = [
        gf.KernelClassifier(kernel, penalty=10.0**-power, n_centers=CENTERS, tune=None, random_state=0).fit(X, y)
        for power in (4, 5, 6, 7)
    ]
    return max(models, key=lambda model: float(np.mean(model.predict(X_test) == y_test)))  # as well as it can do
