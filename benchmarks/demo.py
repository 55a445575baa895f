"""Under three minutes: models and the product underneath beside their peers, as tables, pictures and a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from gyrfalcon.report import page
from gyrfalcon.report.page import Section

from . import machine, model_figures, product, report, trial
from .roofline_figure import product_figure
from .tasks import OURS, TASKS, Task
from .trial import Trial

QUICK_ROWS = 20_000
SETTINGS = product.Settings(
    rows=20_000,
    rows_if_wide=3_000,
    numpy_rows=3_000,
    keops_rows=1_000,
    tuning_rows=4_096,
    outputs=(1,),
    dtypes=(torch.float32,),
    patience=3.5,
)
QUICK = dataclasses.replace(SETTINGS, rows=4_000, tuning_rows=1_024, numpy_rows=1_000, features=(3, 30), patience=0.5)
_TEXTS = {
    "million": "The kernel model sees every row; the matrix it works with would take 4 GB and is never stored.",
    "digits": "Probabilities come from the logistic loss, not from a calibration afterwards.",
    "diabetes": "Few rows: every one is a center and the model is exact. The deviation is that of a Gaussian process.",
}
_FACTS = (
    "Each model is fitted in a fresh process with the same number of threads. Fit: wall time, the best of three where "
    "it is short. Memory: the largest resident size during fit, less that before it, data loaded.",
    "Test error is measured on rows that no model was fitted to. Models that are said to see fewer rows saw the first.",
    "The models have their default settings but for what the tables say.",
)
_COMMANDS = "make demo    # this page\npython -m benchmarks --help    # the full tables"


def run(quick: bool) -> None:
    described = machine.describe()
    print(machine.headline(described))
    sections, content = [], {}
    for name in ("million", "digits", "diabetes"):
        task = TASKS[name]
        trials = _trials(name, task, QUICK_ROWS if quick and name == "million" else None)
        head, _, about = task.title.partition(": ")
        words = page.paragraph(f"{about.capitalize()}. {_TEXTS[name]}")
        sections.append(Section(head, words + _table(task, trials) + page.figures(_pictures(name, task, trials))))
        content[name] = [one.numbers() for one in trials]
    settings = QUICK if quick else SETTINGS
    rows = _product(settings)
    under = page.paragraph(_PRODUCT_TEXT) + _product_table(rows) + page.figures([product_figure(rows)])
    sections.append(Section("The product underneath", under))
    facts = [*_FACTS, *product.legend(settings).splitlines()]
    sections.append(Section("What was measured", "".join(page.paragraph(fact) for fact in facts if fact)))
    versions = ", ".join(f"{name} {version}" for name, version in described["versions"].items())
    sections.append(Section("Reproduce", page.code(_COMMANDS) + page.paragraph(versions, soft=True)))
    report.write_json(report.FOLDER / "demo.json", {"machine": described, "tasks": content})
    report.write_product(report.PRODUCT, described, rows, [])
    home = report.FOLDER / "index.html"
    where = f"{described['cpu']}, {described['threads']} threads, {described['instruction_set']}"
    subtitle = f"Kernel machines beside scikit-learn, in one run · {where} · {described['date']}"
    home.write_text(page.document("Gyrfalcon", subtitle, sections), encoding="utf-8")
    print(f"\nThe report: {home.resolve()}")


def _trials(name: str, task: Task, rows: int | None) -> list[Trial]:
    print(f"\n{task.title}\n{'':>21} {task.error_name:>10} {'fit':>9} {'memory':>9}  rows")
    trials = []
    for place in range(len(task.contestants)):
        one = trial.measure(name, place, rows)
        trials.append(one)
        error, seconds, memory, seen = _cells(task, one)
        print(f"{one.name:>21} {error:>10} {seconds:>9} {memory:>9}  {seen}; {one.note}", flush=True)
    return trials


def _cells(task: Task, one: Trial) -> tuple[str, str, str, str]:
    error = f"{one.error:.2%}" if task.classes else f"{one.error:.4g}"
    seen = f"{one.rows:,}{f' of {one.all_rows:,} only' if one.subsampled else ''}"
    return error, f"{one.seconds:.2f} s", f"{one.extra_bytes / 1e6:,.0f} MB", seen


def _table(task: Task, trials: Sequence[Trial]) -> str:
    heads = ["", task.error_name, *(["log loss"] if task.classes else []), "fit", "peak memory", "rows seen", "model"]
    rows = []
    for one in trials:
        error, *others = _cells(task, one)
        loss = ["–" if one.log_loss is None else f"{one.log_loss:.3f}"] if task.classes else []
        rows.append([one.name, error, *loss, *others, one.note])
    return page.table(heads, rows, words=(0, len(heads) - 1), ours=OURS)


def _pictures(name: str, task: Task, trials: Sequence[Trial]) -> list[str]:
    ours, truth = trials[0], task.load().y_test
    match name:
        case "million":
            drawn = [
                model_figures.costs_figure(trials, task.error_name),
                model_figures.predicted_figure(ours, truth),
            ]
            return [*drawn, model_figures.convergence_figure(ours)] if ours.residuals else drawn
        case "digits":
            return [model_figures.confusion_figure(ours, truth), model_figures.calibration_figure(ours, truth)]
        case _:
            return [model_figures.band_figure(ours, truth)]


_PRODUCT_TEXT = "All of this rests on one product, K(X, C) @ V without K: nanoseconds per entry of K, beside its peers."


def _product(settings: product.Settings) -> list[product.Row]:
    print(f"\n{product.legend(settings)}")
    print(f"\n{'':7} {'d':>4} | {'gyrfalcon':>9} {'PyTorch':>8} {'NumPy':>7} | {'×PyTorch':>8} | roofline")
    rows = []
    for row in product.measure(settings):
        rows.append(row)
        print(
            f"{row.dtype} {row.d:>4} | {row.gyrfalcon_ns:9.3f} {row.torch_ns:8.3f} {row.numpy_ns:7.3f} | "
            f"{row.ratio_torch:8.2f} | {row.roofline_fraction:8.0%}{' *' if row.disturbed else ''}",
            flush=True,
        )
    if any(row.disturbed for row in rows):
        print("*: other processes were busy; run it again on a quiet machine for figures to trust")
    return rows


def _product_table(rows: Sequence[product.Row]) -> str:
    heads = ("", "Gyrfalcon", "PyTorch", "NumPy", "× PyTorch", "× NumPy", "roofline", "share of it")
    body: list[list[Any]] = [
        [
            f"d = {row.d}{' *' if row.disturbed else ''}",
            *(f"{ns:.2f}" for ns in (row.gyrfalcon_ns, row.torch_ns, row.numpy_ns)),
            *(f"{ratio:.1f}" for ratio in (row.ratio_torch, row.ratio_numpy)),
            f"{row.roofline_ns:.2f}",
            f"{row.roofline_fraction:.0%}",
        ]
        for row in rows
    ]
    return page.table(heads, body)
