"""The pictures of the fitted models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .figure import Picture, Theme, clean, draw, shades
from .tasks import OURS
from .trial import Trial

Array = np.ndarray[Any, Any]


def costs_figure(trials: Sequence[Trial], error_name: str, stem: Path) -> Picture:
    """Error, time and memory of each model, as bars."""

    def fill(figure: Any, theme: Theme) -> None:
        names = [trial.name + (" ᵃ" if trial.subsampled else "") for trial in trials]
        measures = (
            (error_name, [trial.error for trial in trials], "{:.3f}"),
            ("fit, seconds", [trial.seconds for trial in trials], "{:.1f}"),
            ("peak memory, MB", [trial.extra_bytes / 1e6 for trial in trials], "{:,.0f}"),
        )
        panels = figure.subplots(3, 1)
        for panel, (title, values, form) in zip(panels, measures, strict=True):
            colours = [theme.ours if trial.name.startswith(OURS) else theme.grey for trial in trials]
            panel.barh(names, values, color=colours, height=0.66)
            panel.bar_label(panel.containers[0], [form.format(value) for value in values], padding=5, color=theme.ink)
            panel.set_title(title, loc="left", fontsize=12, fontweight="bold")
            panel.invert_yaxis()
            panel.margins(x=0.16)
            panel.tick_params(length=0, labelbottom=False, labelcolor=theme.ink)
            panel.spines[["bottom", "left"]].set_visible(False)

    caption = "Lower is better, everywhere. Memory: what the process grew by during fit, beyond the data."
    fewer = [trial for trial in trials if trial.subsampled]
    if fewer:
        caption += f" ᵃ fitted to {fewer[0].rows:,} of the {fewer[0].all_rows:,} rows only."
    return draw(stem, "What each model costs", caption, (7.2, 5.6), fill)


def predicted_figure(trial: Trial, truth: Array, stem: Path) -> Picture:
    """Predicted against actual, as a density: there are too many points for dots."""

    def fill(figure: Any, theme: Theme) -> None:
        panel = figure.add_subplot()
        ends = np.quantile(truth, [0.0005, 0.9995])
        box = (*ends, *ends)
        cells = panel.hexbin(
            truth,
            trial.prediction,
            gridsize=55,
            extent=box,
            mincnt=1,
            bins="log",
            cmap=shades(*theme.shades),
            linewidths=0.1,
        )
        panel.plot(ends, ends, color=theme.ink, linewidth=1, linestyle=(0, (4, 3)))
        panel.set(xlabel="actual", ylabel="predicted", xlim=ends, ylim=ends, aspect="equal")
        panel.tick_params(length=0)
        bar = figure.colorbar(cells, ax=panel, label="test points in a cell", shrink=0.8)
        bar.outline.set_visible(False)

    caption = f"{len(truth):,} test points, RMSE {trial.error:.3f}; the noise alone has 0.200."
    return draw(stem, "Predicted and actual", caption, (6.4, 5.2), fill)


def convergence_figure(trial: Trial, stem: Path) -> Picture:
    def fill(figure: Any, theme: Theme) -> None:
        panel = figure.add_subplot()
        panel.semilogy(range(len(trial.residuals)), trial.residuals, color=theme.ours, linewidth=2.5)
        panel.plot(len(trial.residuals) - 1, trial.residuals[-1], "o", color=theme.ours, markersize=9)
        panel.set(xlabel="iteration, each one pass over all rows", ylabel="relative residual")
        panel.set_xticks(np.unique(np.linspace(0, len(trial.residuals) - 1, 6).round().astype(int)))
        clean(panel, theme)

    caption = f"Conjugate gradients on {trial.rows:,} rows, preconditioned. {trial.summary}."
    return draw(stem, "Convergence", caption, (6.4, 4.4), fill)


def band_figure(trial: Trial, truth: Array, stem: Path) -> Picture:
    """Actual values on top of the predictions, sorted, with the band that should hold 95 % of them."""
    assert trial.deviation is not None
    order = np.argsort(trial.prediction)
    mean, deviation, actual = trial.prediction[order], trial.deviation[order], np.asarray(truth)[order]
    inside = np.abs(actual - mean) <= 1.96 * deviation

    def fill(figure: Any, theme: Theme) -> None:
        panel = figure.add_subplot()
        place = np.arange(len(mean))
        panel.fill_between(
            place, mean - 1.96 * deviation, mean + 1.96 * deviation, color=theme.ours, alpha=0.2, linewidth=0,
            label="95 % band",
        )  # fmt: skip
        panel.plot(place, mean, color=theme.ours, linewidth=2.5, label="predicted")
        panel.plot(place[inside], actual[inside], "o", color=theme.blue, markersize=4.5, label="actual, inside")
        panel.plot(place[~inside], actual[~inside], "X", color=theme.ink, markersize=7, label="actual, outside")
        panel.set(xlabel="test patients, by prediction", ylabel="disease progression after a year")
        panel.legend(loc="upper left", fontsize=10, ncols=2)
        panel.set_ylim(top=panel.get_ylim()[1] * 1.12)
        clean(panel, theme)

    caption = (
        f"predict(return_std=True) on {len(mean)} test patients: {inside.mean():.0%} lie inside the band that should "
        "hold 95 %."
    )
    return draw(stem, "How sure it is", caption, (6.4, 4.6), fill)


def confusion_figure(trial: Trial, truth: Array, stem: Path) -> Picture:
    classes = np.unique(truth)
    counts = np.array([[np.sum((truth == a) & (trial.prediction == b)) for b in classes] for a in classes])

    def fill(figure: Any, theme: Theme) -> None:
        panel = figure.add_subplot()
        shares = counts / counts.sum(1, keepdims=True)
        panel.imshow(
            np.sqrt(shares), cmap=shades(theme.paper, theme.ours), vmin=0, vmax=1
        )  # roots: single errors stay visible
        for (row, column), count in np.ndenumerate(counts):
            if count:
                style = {"color": theme.paper} if row == column else {"color": theme.ink, "fontweight": "bold"}
                panel.text(column, row, count, ha="center", va="center", fontsize=11, **style)
        panel.set(xlabel="predicted digit", ylabel="actual digit")
        panel.set_xticks(range(len(classes)), classes)
        panel.set_yticks(range(len(classes)), classes)
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)

    wrong = int(counts.sum() - counts.trace())
    return draw(stem, "Which digits it confuses", f"{wrong} of {counts.sum()} test digits are wrong.", (5.8, 5.2), fill)


def calibration_figure(trial: Trial, truth: Array, stem: Path) -> Picture:
    """For all digits and classes together: how often what had a probability came true."""
    assert trial.probabilities is not None
    probability = trial.probabilities.ravel()
    came_true = (np.unique(truth) == truth[:, None]).ravel()
    edges = np.linspace(0, 1, 6)
    bins = np.clip(np.digitize(probability, edges) - 1, 0, len(edges) - 2)
    groups = [bins == place for place in range(len(edges) - 1) if (bins == place).any()]
    said = np.array([probability[group].mean() for group in groups])
    was = np.array([came_true[group].mean() for group in groups])
    sizes = np.array([group.sum() for group in groups])
    errors = 1.96 * np.sqrt(np.maximum(was * (1 - was), 0.25 / sizes) / sizes)

    def fill(figure: Any, theme: Theme) -> None:
        panel = figure.add_subplot()
        panel.plot([0, 1], [0, 1], color=theme.grey, linewidth=1.2, linestyle=(0, (4, 3)), label="perfect")
        panel.errorbar(
            said, was, errors, color=theme.ours, marker="o", markersize=8, linewidth=2, capsize=3, label="Gyrfalcon"
        )
        for x, y, size in zip(said, was, sizes, strict=True):
            panel.annotate(
                f"{size:,}", (x, y), xytext=(10, -14), textcoords="offset points", color=theme.soft, fontsize=10
            )
        panel.set(
            xlabel="probability given to a class", ylabel="share that came true", xlim=(-0.04, 1.1), ylim=(-0.1, 1.1)
        )
        panel.legend(loc="upper left")
        clean(panel, theme, grid="both")

    caption = f"Log loss {trial.log_loss:.3f}. Grey numbers: pairs of digit and class in a group; bars: 95 % of chance."
    return draw(stem, "What its probabilities are worth", caption, (5.8, 5.2), fill)
