"""Published numbers of kernel machines themselves: EigenPro 3, two theses, tuning, Koopman operators, Falkon's rate."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from . import THREADS, adult, koopman, mnist, objectives, online_rare_classes, regressor, report, simplex
from .datasets import why_absent
from .seeds_row import Row

RECORDED = Path(__file__).parents[1] / "docs" / "results"
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
# Draws of the centers, by their number. The largest takes up to half an hour, so its rows are the recorded ones.
CENTERS = {100: 3, 1000: 1}
# Five of the sets of `python -m benchmarks objectives`, and two draws.
TUNING_SIZE = objectives.Settings(
    5000, 5000, 100, 200, 2, ("uci_elevators", "uci_protein", "uci_pumadyn32nm", "uci_kin40k", "magic")
)
ADULT_DRAWS = {1000: 10, None: 1}


def found_in(path: str) -> Any:
    """What a benchmark wrote."""
    return json.loads((report.FOLDER / path).read_text())


def eigenpro(quick: bool) -> Iterator[Row]:
    if quick:  # EigenPro itself takes a minute where other programs run, so its rows are the recorded ones
        mnist.run(quick, draws={100: 1}, methods=["falkon"])
    else:
        mnist.run(quick, draws=CENTERS)
    found = found_in("mnist.json")
    yield from eigenpro_rows(found["rows"])
    for (name, method), numbers in mnist.PUBLISHED.items():
        if name in found["skipped"]:
            for m, published in zip(mnist.CENTERS, numbers, strict=True):
                what = f"{mnist.TITLES[name]}, {method}, {m:,} centers"
                note = "Fashion-MNIST: its files are not given"
                yield Row(EIGENPRO3, what, "% right", published, None, 0.5, True, "", note)


def eigenpro_rows(measured: list[dict[str, Any]]) -> Iterator[Row]:
    """What was measured now, and the recorded rows of other methods and numbers of centers."""
    recorded = json.loads((RECORDED / "mnist.json").read_text())
    note = f"recorded in docs/results on {recorded['machine']['date'][:10]}, two threads, with wall times"
    known = {(row["method"], row["m"]) for row in measured}
    others = [row | {"note": note} for row in recorded["rows"] if (row["method"], row["m"]) not in known]
    for row in [*measured, *others]:
        what = f"{mnist.TITLES[row['data']]}, {row['method']}, {row['m']:,} centers"
        numbers = row["published"], row["accuracy"], 0.5, True, row["data"]
        yield Row(EIGENPRO3, what, "% right", *numbers, note=row.get("note", ""), seconds=row["fit_seconds"])


def sgd(quick: bool) -> Iterator[Row]:
    if not why_absent(adult.NAME):
        yield from _adult(quick)
    for what, published in (
        ("SGM, constant", 1.5),
        ("SGM, decaying", 1.7),
        ("SIGM, constant", 4.7),
        ("SIGM, decaying", 9.5),
    ):
        yield Row(REGULARIZATION + ", table 6.2", f"ijcnn1, {what}", "% wrong", published, None, 0, False, "", ABSENT)


def _adult(quick: bool) -> Iterator[Row]:
    adult.run(quick, None if quick else ADULT_DRAWS)
    for row in found_in("adult.json")["rows"]:
        what = f"adult, {row['n']:,} rows, {row['name']}"
        numbers = row["published_error"], row["error"], max(row["published_deviation"], adult.MARGIN), False, "a9a"
        note = (
            f"all rows of adult: {ADULT_DRAWS[None]} draw, there 10"
            if row["n"] > max(filter(None, ADULT_DRAWS))
            else ""
        )
        yield Row(REGULARIZATION + ", table 6.2", what, "% wrong", *numbers, note=note, seconds=row["seconds"])


def rare_classes(quick: bool) -> Iterator[Row]:
    torch.set_num_threads(1)
    with threadpool_limits(1):
        found = online_rare_classes.measure(quick)
    if "rare_classes" not in found:
        return
    results = found["rare_classes"]["accuracies"]
    mean = 100 * np.mean(results, 0)
    for place, count in enumerate(online_rare_classes.RARE):
        for way, name in enumerate(online_rare_classes.WAYS):
            published = online_rare_classes.SEED[count][way]
            for kind, column in (("all classes", 0), ("rare class", 1)):
                what = f"{count} {'row' if count == 1 else 'rows'} of a rare digit, {name}: {kind}"
                ours = float(mean[place, way, column])
                margin = 2.0 if column == 0 else 5.0
                source = REGULARIZATION + ", table 7.1"
                yield Row(source, what, "% right", published[column], ours, margin, True, "mnist")


def simplex_codes(quick: bool) -> Iterator[Row]:
    simplex.run(quick)
    found = found_in("simplex.json")
    source = THESIS + ", figures 5.5 and 5.6"
    for curve in found["sizes"]:
        what = f"{curve['loss']}, margin {curve['margin']}: how straight the log of the error is in n"
        straight = curve["errors_line"]["r2"]
        yield Row(source, what, "R²", 1.0, straight, 0.05, True, "synthetic", "figure 5.5 is a picture")
    what = "slope of the error in the exponent of the margin"
    note = "the slope that is predicted; the thesis saw -0.35"
    yield Row(source, what, "", -0.5, found["trend"]["slope"], 0.15, False, "synthetic", note)


def tuning(quick: bool) -> Iterator[Row]:
    size = objectives.QUICK if quick else TUNING_SIZE
    if all(map(why_absent, size.sets)):
        return
    objectives.run(quick, size)
    rows = [objectives.Row(**row) for row in found_in("objectives.json")["rows"]]
    source = TUNING + ", figure 4"
    for row in rows:
        if row.objective == "proposed":
            rival = next(one for one in rows if one.data == row.data and one.objective == "sgpr")
            what = f"{row.data}: error of the proposed criterion over that of SGPR"
            note = (
                "figure 4 is a picture of other sets, on which the two are close and each is better on some; here "
                f"{size.rows:,} rows, {size.centers} centers, {size.steps} steps of Adam at most and {size.seeds} draws"
            )
            seconds = row.milliseconds * float(np.mean(row.steps)) / 1e3
            yield Row(source, what, "", 1.0, row.mean / rival.mean, 0.1, False, row.data, note, seconds=seconds)
    ranks = objectives.ranks(rows)
    for name in objectives.OBJECTIVES:
        average = float(np.mean([place[name] for place in ranks.values()]))
        note = "ranks: bound is the proposed criterion as it is printed, without the mean that its program takes"
        what = f"{name}: rank by test error among {len(objectives.OBJECTIVES)}, over {len(ranks)} data sets"
        yield Row(source, what, "rank", None, average, 0.5, False, ", ".join(ranks), note)


def koopman_operators(quick: bool) -> Iterator[Row]:
    koopman.run(quick, ("lorenz", "alanine"))
    found = found_in("koopman.json")
    sizes = found["lorenz"]["sizes"]
    n = max(row["n"] for row in sizes if row["exact"])
    for method, margin in (("pcr", 0.03), ("rrr", 0.1)):
        exact, sketched = (
            next(row for row in sizes if (row["n"], row["method"], row["exact"]) == (n, method, kind))
            for kind in (True, False)
        )
        note = "figure 1 is a picture, of which the text says identical for PCR and close for RRR"
        what = f"Lorenz-63, {method}, {n:,} frames: error with 250 centers over that of all"
        numbers = 1.0, sketched["error"] / exact["error"], margin, False, "simulated"
        yield Row(KOOPMAN + ", figure 1", what, "", *numbers, note=note, seconds=sketched["seconds"])
        what = f"Lorenz-63, {method}, {n:,} frames: times faster than all frames as centers"
        numbers = None, exact["seconds"] / sketched["seconds"], 0, True, "simulated"
        yield Row(KOOPMAN + ", figure 1", what, "×", *numbers, note=note)
    curves = {row["method"]: row for row in found["lorenz"]["lags"]}
    late = [place for place, lag in enumerate(curves["pcr"]["lags"]) if lag >= 51]
    ratio = float(np.mean([curves["rrr"]["errors"][place] / curves["pcr"]["errors"][place] for place in late]))
    note = "figure 2 is a picture, of which the text says that RRR is slightly better"
    what = "Lorenz-63, rank 50, half a second ahead and more: error of RRR over PCR"
    yield Row(KOOPMAN + ", figure 2", what, "", None, ratio, 0, False, "simulated", note)
    if found["alanine"]:
        note = "alanine: another simulation, of 30 ns where the paper has 750 ns"
        scale = found["alanine"]["timescales"][-1]
        what = "alanine dipeptide, time scale of ψ"
        yield Row(KOOPMAN + ", figure 3", what, "ps", 69.0, scale, 0, True, "alanine", note, comparable=False)


def falkon_rate(quick: bool) -> Iterator[Row]:
    """Kernel entries a nanosecond in conjugate gradients, each iteration of which makes all of K twice."""
    settings = regressor.QUICK if quick else regressor.FULL
    began = time.process_time()
    race = regressor.compare_iterations("float32, without an intercept", "float32", False, settings)
    seconds = time.process_time() - began
    ours = 2 * settings.n * settings.m * regressor.ITERATIONS / race["seconds"]["falkon"] / 1e9
    note = (
        f"two Titan Xp GPUs there, {THREADS} CPU core(s) and other data here: the machine is compared, not the method"
    )
    for name, n, m, iterations, taken in PUBLISHED_TIMES:
        published = 2 * n * m * iterations / taken / 1e9
        what = f"{name}: {n:.3g} rows, {m:.3g} centers, {iterations} iterations in {taken:,} s"
        numbers = published, ours, 0, True, "synthetic"
        yield Row(THESIS + ", table 3.3", what, "1/ns", *numbers, note=note, comparable=False, seconds=seconds)


ABSENT = "the data are not among those at hand"


def absent(quick: bool) -> Iterator[Row]:
    """Published numbers whose data are not to be had here."""
    for name, error in (("insurance", 0.2318), ("CPU", 2.85), ("CT slices", 7.11), ("MSD", 0.1047)):
        source = REGULARIZATION + ", table 4.1"
        yield Row(source, f"incremental Nyström, {name}", "RMSE", error, None, 0, False, "", ABSENT)
    for name, unit, error in (("MSD", "error", 4.48e-3), ("SUSY", "% wrong", 19.67), ("HIGGS", "1 - AUC", 0.180)):
        yield Row(THESIS + ", table 3.3", f"Falkon, {name}", unit, error, None, 0, False, "", ABSENT)
    for name, unit, error in (
        ("flights", "MSE", 0.794),
        ("flights, two classes", "% wrong", 32.2),
        ("HIGGS", "1 - AUC", 0.191),
    ):
        note = "flights: those at hand are of another year and have other columns"
        yield Row(
            TUNING + ", table 1",
            f"proposed criterion, {name}",
            unit,
            error,
            None,
            0,
            False,
            "",
            note if "flights" in name else ABSENT,
        )
    for name, error in (("e01", 2.662), ("b08", 1.413), ("d08", 2.061), ("d05a", 2.135)):
        yield Row(THESIS + ", table 7.1", f"wind, kernel zm→s, {name}", "m/s", error, None, 0, False, "", ABSENT)
    for hours, error in ((6, 1.814), (12, 2.205), (18, 2.317), (24, 2.369)):
        yield Row(THESIS + ", table 7.1", f"wind, kernel zm→s, {hours} h", "m/s", error, None, 0, False, "", ABSENT)
