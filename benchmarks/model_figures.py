"""The pictures of the fitted models, drawn as reports draw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gyrfalcon.report import classification, learning, page, regression

from .tasks import OURS
from .trial import Trial

Array = np.ndarray[Any, Any]


def costs_figure(trials: Sequence[Trial], error_name: str) -> str:
    """Error, time and memory of each model, as bars."""
    names = [trial.name + (" ᵃ" if trial.subsampled else "") for trial in trials]
    kinds = ["ours" if trial.name.startswith(OURS) else "soft" for trial in trials]
    measures = (
        (error_name, [trial.error for trial in trials], "{:.3f}"),
        ("Fit, seconds", [trial.seconds for trial in trials], "{:.1f}"),
        ("Peak memory, MB", [trial.extra_bytes / 1e6 for trial in trials], "{:,.0f}"),
    )
    drawn = "".join(
        page.paragraph(title)
        + page.bars([(name, value, form.format(value)) for name, value in zip(names, values, strict=True)], kinds=kinds)
        for title, values, form in measures
    )
    caption = "Lower is better, everywhere. Memory: what the process grew by during fit, beyond the data."
    fewer = [trial for trial in trials if trial.subsampled]
    if fewer:
        caption += f" ᵃ fitted to {fewer[0].rows:,} of the {fewer[0].all_rows:,} rows only."
    return page.figure("What each model costs", drawn, caption)


def predicted_figure(trial: Trial, truth: Array) -> str:
    caption = f"{len(truth):,} test points, RMSE {trial.error:.3f}; the noise alone has 0.200."
    drawn = regression.against(truth, trial.prediction)
    return page.figure("Predicted and actual", drawn, caption, {"perfect": "soft dashed"})


def convergence_figure(trial: Trial) -> str:
    caption = f"Conjugate gradients on {trial.rows:,} rows, preconditioned. {trial.summary}."
    return page.figure("Convergence", learning.convergence(trial.residuals), caption)


def band_figure(trial: Trial, truth: Array) -> str:
    assert trial.deviation is not None
    inside = np.abs(truth - trial.prediction) <= 1.96 * trial.deviation
    caption = (
        f"predict(return_std=True) on {len(truth)} test patients: {inside.mean():.0%} lie inside the band that should "
        "hold 95 %."
    )
    low, high = (trial.prediction + side * 1.96 * trial.deviation for side in (-1, 1))
    drawn = regression.band(truth, trial.prediction, low, high, "disease progression after a year")
    return page.figure("How sure it is", drawn, caption, {"predicted, 95 % band": "ours", "actual": "other"})


def confusion_figure(trial: Trial, truth: Array) -> str:
    counts = classification.confusion_counts(truth, trial.prediction, truth.max() + 1)
    wrong = int(counts.sum() - counts.trace())
    drawn = classification.confusion(counts, [str(digit) for digit in range(len(counts))])
    caption = f"{wrong} of {counts.sum()} test digits are wrong. Rows: actual; columns: predicted."
    return page.figure("Which digits it confuses", drawn, caption)


def calibration_figure(trial: Trial, truth: Array) -> str:
    assert trial.probabilities is not None
    return classification.calibration(truth, trial.probabilities)
