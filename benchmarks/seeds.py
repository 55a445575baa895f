"""Every number of the papers behind Gyrfalcon that one machine can check, in one table.

Each part runs a benchmark of its own, takes rows from what it found, and keeps them in `report/seeds/`. A part that is
kept is not run again, so the command continues where it was cut; `--only` runs the named parts anew.
`docs/seeds.py` makes the page from `docs/results/seeds.json`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from . import adult, koopman, machine, mnist, objectives, online_rare_classes, regressor, report, simplex

FOLDER = report.FOLDER / "seeds"
AS_PUBLISHED, BETTER, WORSE, NOT_COMPARABLE = "as published", "better", "worse", "not comparable"


@dataclass(frozen=True)
class Row:
    """One published number, and ours.

    `published` and `ours` are None where there is no such number; `note` then says why. The verdict compares the two
    within `margin`, in the unit of the numbers.
    """

    source: str
    what: str
    unit: str
    published: float | None
    ours: float | None
    margin: float
    higher_is_better: bool
    data: str
    note: str = ""
    comparable: bool = True

    @property
    def verdict(self) -> str:
        if self.published is None or self.ours is None or not self.comparable:
            return NOT_COMPARABLE
        ahead = (self.ours - self.published) * (1 if self.higher_is_better else -1)
        if abs(ahead) <= self.margin:
            return AS_PUBLISHED
        return BETTER if ahead > 0 else WORSE


def run(quick: bool, only: str | None) -> None:
    names = only.split(",") if only else list(PARTS)
    if unknown := set(names) - set(PARTS):
        raise SystemExit(f"--only: unknown parts {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for name in names:
        path = FOLDER / f"{name}{'_quick' if quick else ''}.json"
        if path.exists() and not only:
            continue
        print(f"\n== {name}", flush=True)
        began = time.perf_counter()
        rows = [asdict(row) | {"verdict": row.verdict} for row in PARTS[name](quick)]
        found = {"rows": rows, "seconds": time.perf_counter() - began, "machine": machine.describe()}
        report.write_json(path, found)
    kept = {name: FOLDER / f"{name}{'_quick' if quick else ''}.json" for name in PARTS}
    parts = {name: json.loads(path.read_text()) for name, path in kept.items() if path.exists()}
    for name, part in parts.items():
        print(f"\n{name}, {part['seconds']:.0f} s")
        for row in part["rows"]:
            print(line(row))
    if not quick:
        report.write_json(report.FOLDER / "seeds.json", parts)
        print(f"\nWritten: {report.FOLDER / 'seeds.json'}")


def line(row: dict[str, Any]) -> str:
    numbers = " ".join(f"{'-' if row[key] is None else format(row[key], '.4g'):>8}" for key in ("published", "ours"))
    note = f" ({row['note']})" if row["note"] else ""
    return f"  {row['what']:<58} {numbers} {row['unit']:<8} {row['verdict']}{note}"


def _found(path: str) -> Any:
    """What a benchmark wrote."""
    return json.loads((report.FOLDER / path).read_text())


def _eigenpro(quick: bool) -> Iterator[Row]:
    mnist.run(quick)
    found = _found("mnist.json")
    for row in found["rows"]:
        what = f"{mnist.TITLES[row['data']]}, {row['method']}, {row['m']:,} centers"
        yield Row(EIGENPRO3, what, "% right", row["published"], row["accuracy"], 0.5, True, row["data"])
    for (name, method), numbers in mnist.PUBLISHED.items():
        if name in found["skipped"]:
            for m, published in zip(mnist.CENTERS, numbers, strict=True):
                what = f"{mnist.TITLES[name]}, {method}, {m:,} centers"
                yield Row(EIGENPRO3, what, "% right", published, None, 0.5, True, "", "its files are not given")


def _sgd(quick: bool) -> Iterator[Row]:
    adult.run(quick)
    for row in _found("adult.json")["rows"]:
        what = f"adult, {row['n']:,} rows, {row['name']}"
        published, error = row["published_error"], row["error"]
        yield Row(REGULARIZATION + ", table 6.2", what, "% wrong", published, error, adult.MARGIN, False, "a9a")


def _rare_classes(quick: bool) -> Iterator[Row]:
    torch.set_num_threads(1)
    with threadpool_limits(1):
        found = online_rare_classes.measure(quick)
    if "rare_classes" not in found:
        return
    mean = 100 * np.mean(found["rare_classes"]["accuracies"], 0)
    for place, count in enumerate(online_rare_classes.RARE):
        for way, name in enumerate(online_rare_classes.WAYS):
            published = online_rare_classes.SEED[count][way]
            for kind, column in (("all classes", 0), ("rare class", 1)):
                what = f"{count} rows of a rare digit, {name}: {kind}"
                ours = float(mean[place, way, column])
                margin = 2.0 if column == 0 else 5.0
                source = REGULARIZATION + ", table 7.1"
                yield Row(source, what, "% right", published[column], ours, margin, True, "mnist")


def _simplex(quick: bool) -> Iterator[Row]:
    simplex.run(quick)
    found = _found("simplex.json")
    source = THESIS + ", figures 5.5 and 5.6"
    for curve in found["sizes"]:
        what = f"{curve['loss']}, margin {curve['margin']}: how straight the log of the error is in n"
        straight = curve["errors_line"]["r2"]
        yield Row(source, what, "R²", 1.0, straight, 0.05, True, "synthetic", "a picture in the seed")
    what = "slope of the error in the exponent of the margin"
    yield Row(
        source, what, "", -0.5, found["trend"]["slope"], 0.15, False, "synthetic", "as predicted; seen there: -0.35"
    )


def _objectives(quick: bool) -> Iterator[Row]:
    objectives.run(quick)
    rows = [objectives.Row(**row) for row in _found("objectives.json")["rows"]]
    ranks = objectives.ranks(rows)
    for name in objectives.OBJECTIVES:
        average = float(np.mean([place[name] for place in ranks.values()]))
        note = "the paper shows pictures of other data sets, and no clear winner"
        what = f"{name}: rank by test error among {len(objectives.OBJECTIVES)}, over {len(ranks)} data sets"
        yield Row(TUNING + ", figure 4", what, "rank", None, average, 0.5, False, ", ".join(ranks), note)


def _koopman(quick: bool) -> Iterator[Row]:
    koopman.run(quick)
    found = _found("koopman.json")
    for m, asked in (("250", 0.0441), ("500", 0.0438)):
        what = f"Lorenz-63, one step, {m} centers"
        yield Row(KOOPMAN, what, "RMSE", asked, found["lorenz"]["one_step"][m], 0.0005, False, "simulated")
    for name, asked in (("ornstein_uhlenbeck", 0.02), ("prinz", 0.01)):
        error = max(found["truth"][name][1:3])
        yield Row(KOOPMAN, f"{name}: largest error of λ₁, λ₂", "", asked, error, 0.0, False, "simulated")


def _falkon_rate(quick: bool) -> Iterator[Row]:
    """Kernel entries a nanosecond in conjugate gradients, each iteration of which makes all of K twice."""
    regressor.run(quick)
    found = _found("regressor.json")
    settings, race = found["settings"], found["iterations"]["float32, without an intercept"]
    ours = 2 * settings["n"] * settings["m"] * regressor.ITERATIONS / race["seconds"]["falkon"] / 1e9
    note = "two Titan Xp GPUs there, two CPU cores and other data here: the machine is compared, not the method"
    for name, n, m, iterations, seconds in PUBLISHED_TIMES:
        published = 2 * n * m * iterations / seconds / 1e9
        what = f"{name}: {n:.3g} rows, {m:.3g} centers, {iterations} iterations in {seconds:,} s"
        source = THESIS + ", table 3.3"
        yield Row(source, what, "1/ns", published, ours, 0, True, "synthetic", note, comparable=False)


def _absent(quick: bool) -> Iterator[Row]:
    """Published numbers whose data are not to be had here."""
    note = "the data are not among those at hand"
    for name, error in (("insurance", 0.2318), ("CPU", 2.85), ("CT slices", 7.11), ("MSD", 0.1047)):
        source = REGULARIZATION + ", table 4.1"
        yield Row(source, f"incremental Nyström, {name}", "RMSE", error, None, 0, False, "", note)
    for name, unit, error in (("MSD", "error", 4.48e-3), ("SUSY", "% wrong", 19.67), ("HIGGS", "1 - AUC", 0.180)):
        yield Row(THESIS + ", table 3.3", f"Falkon, {name}", unit, error, None, 0, False, "", note)


THESIS = "Meanti 2023"
REGULARIZATION = "Camoriano 2017"
EIGENPRO3 = "EigenPro 3, table 2"
TUNING = "Meanti et al. 2022"
KOOPMAN = "Meanti et al. 2023 (Koopman)"
# Of table 3.3, with the settings of table 3.2: rows, centers, iterations, seconds on two Titan Xp.
PUBLISHED_TIMES = (
    ("TAXI", 1.15e9, 1e5, 7, 3628),
    ("HIGGS", 1.1e7, 1.2e5, 10, 443),
    ("AIRLINE", 5.93e6, 1e5, 20, 245),
    ("SUSY", 5e6, 3e4, 5, 22),
    ("MSD", 5.1e5, 5e4, 10, 62),
)
PARTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "eigenpro": _eigenpro,
    "sgd": _sgd,
    "rare_classes": _rare_classes,
    "simplex": _simplex,
    "objectives": _objectives,
    "koopman": _koopman,
    "falkon_rate": _falkon_rate,
    "absent": _absent,
}
