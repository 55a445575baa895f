"""What `gyrfalcon.plan` says of fits with default arguments, beside what such fits then take, on one thread."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import gyrfalcon as gf

from . import machine, report
from .families import SYNTHETIC

Array = np.ndarray[Any, Any]

ROWS, QUICK_ROWS = (500, 2000, 5000, 12_000, 50_000, 200_000, 1_000_000), (500,)
FAMILIES = ("friedman", "smooth", "customers", "five classes", "words")
WIDE = ((500, 1), (20_000, 1), (1000, 300), (2000, 2000), (6000, 500))  # rows and features of a few sines
CLASSES = ((1000, 10), (5000, 100), (6000, 300), (20_000, 30))  # rows and classes
ASKED = 2.0  # times what was planned, that no fit is to exceed


@dataclass(frozen=True)
class Row:
    """Seconds that were planned, with their interval, and CPU seconds that the fit took."""

    data: str
    rows: int
    features: int
    outputs: int
    planned: float
    low: float
    high: float
    took: float

    @property
    def ratio(self) -> float:
        return self.took / self.planned

    def __str__(self) -> str:
        verdict = "" if self.ratio <= ASKED else " MISSED"
        return (
            f"{self.data:>14} {self.rows:>9,} x {self.features:<4} {self.outputs:>3} outputs: planned "
            f"{self.planned:6.2f} s, from {self.low:.2f} to {self.high:.2f}, took {self.took:6.2f} s, "
            f"{self.ratio:.2f} of it{verdict}"
        )


def run(quick: bool) -> None:
    machine.take_one_thread()
    described = machine.describe()
    print(machine.headline(described), "CPU seconds of default fits beside those that were planned", sep="\n")
    rows: list[Row] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, X, y in _tables(quick):
            rows.append(_measure(name, X.astype(np.float32), y))
            print(rows[-1], flush=True)
            content = [asdict(row) | {"ratio": row.ratio} for row in rows]
            report.write_json(report.FOLDER / "planned.json", {"machine": described, "rows": content})
    ratios = [row.ratio for row in rows]
    print(
        f"{sum(ratio <= ASKED for ratio in ratios)} of {len(rows)} took at most {ASKED:g} times what was planned; "
        f"geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.2f}, from {min(ratios):.2f} to "
        f"{max(ratios):.2f}; {sum(row.low <= row.took <= row.high for row in rows)} are inside the interval"
    )


def _tables(quick: bool) -> Iterator[tuple[str, Array, Array]]:
    for n in QUICK_ROWS if quick else ROWS:
        for name in FAMILIES[:2] if quick else FAMILIES:
            yield name, *SYNTHETIC[name](np.random.default_rng(len(name)), n)
    random = np.random.default_rng(0)
    for n, d in () if quick else WIDE:
        X = random.normal(size=(n, d))
        yield "sines", X, np.sin(2 * X[:, 0]) + X[:, :5].sum(1) + 0.2 * random.normal(size=n)
    for n, count in () if quick else CLASSES:
        labels = random.integers(count, size=n)
        yield "clouds", random.normal(size=(count, 20))[labels] + 0.5 * random.normal(size=(n, 20)), labels


def _measure(name: str, X: Array, y: Array) -> Row:
    classes = y.dtype.kind != "f"
    count = len(np.unique(y)) if classes else 1
    outputs = count if count > 2 else 1
    plan = gf.plan(*X.shape, t=outputs)
    began = time.process_time()
    (gf.KernelClassifier if classes else gf.KernelRegressor)(random_state=0, verbose=False).fit(X, y)
    took = time.process_time() - began
    return Row(name, *X.shape, outputs, plan.total, *plan.interval, took)
