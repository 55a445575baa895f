"""What neighbors tell of each other: tables whose rows come in groups, fitted with and without asking them.

CPU seconds of one thread, in one process, so that ratios hold on a machine that has other work too.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any
from unittest import mock

import numpy as np

import gyrfalcon as gf

from . import machine, report
from .families import SYNTHETIC
from .many_rows import TEST_ROWS, fit, rival

GROUPED = ("years of people", "households", "storms")
ALONE = ("friedman", "rules")  # whose rows have nothing to do with each other: nothing should change
ROWS = (3000, 15_000)
QUICK = ("years of people", "friedman")
ASK = tuple(f"gyrfalcon.estimators.{place}.ask_neighbors" for place in ("choices", "partitioned"))


@dataclass(frozen=True)
class Row:
    """Errors and CPU seconds of one table: by default, without asking neighbors, and of LightGBM."""

    data: str
    rows: int
    errors: dict[str, float]
    seconds: dict[str, float]
    leaves: int


def run(quick: bool) -> None:
    machine.take_one_thread()
    described = machine.describe() | {"threads": 1}
    print(machine.headline(described), "Error, CPU seconds.", sep="\n")
    found: list[Row] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in ROWS[:1] if quick else ROWS:
            for name in QUICK if quick else (*GROUPED, *ALONE):
                found.append(_compare(name, n))
                print(_line(found[-1]), flush=True)
    report.write_json(report.FOLDER / "neighbors.json", {"machine": described, "rows": [asdict(row) for row in found]})


def _compare(name: str, n: int) -> Row:
    X, y = SYNTHETIC[name](np.random.default_rng(len(name)), n + TEST_ROWS)
    X = X.astype(np.float32)
    classes = y.dtype.kind != "f"
    make = gf.KernelClassifier if classes else gf.KernelRegressor
    results: dict[str, tuple[float, float]] = {}
    asks: Any = make(random_state=0, verbose=False)
    results["asked"] = fit(asks, X, y, n)
    with mock.patch(ASK[0], return_value=None), mock.patch(ASK[1], return_value=None):
        results["not asked"] = fit(make(random_state=0, verbose=False), X, y, n)
    if (trees := rival(classes)) is not None:
        results["LightGBM"] = fit(trees, X, y, n)
    errors, seconds = ({label: one[part] for label, one in results.items()} for part in (0, 1))
    return Row(name, n, errors, seconds, 0 if asks.partition_ is None else asks.partition_.n_leaves)


def _line(row: Row) -> str:
    told = ", ".join(f"{label} {row.errors[label]:.4f} in {row.seconds[label]:.2f} s" for label in row.errors)
    return f"{row.data:>16} {row.rows:>7,}: {told}; {row.leaves} leaves"
