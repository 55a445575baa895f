"""Pictures of `python -m benchmarks simplex`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import report

if TYPE_CHECKING:
    from .simplex import Curve, Line, Rate

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#8c8c8c", "#222222")


def draw(by_epoch: list[Curve], by_size: list[Curve], rates: list[Rate], trend: Line) -> None:
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("the figures are drawn with matplotlib: pip install 'gyrfalcon[plot]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    report.FOLDER.mkdir(parents=True, exist_ok=True)
    pages = {"figure-5-5": _curves(by_epoch, "epoch"), "figure-5-5-rows": _curves(by_size, "n")}
    for stem, page in (pages | {"figure-5-6": _rates(rates, trend)}).items():
        path = report.FOLDER / f"{stem}.png"
        page.savefig(path, dpi=150)
        pyplot.close(page)
        print(f"Drawn: {path}")


def _curves(curves: list[Curve], unit: str) -> Any:
    """A column for each loss: the surrogate above, the 0-1 error below, with its exponential where that was fitted."""
    from matplotlib import pyplot

    names = list(dict.fromkeys(curve.loss for curve in curves))
    margins = sorted({curve.margin for curve in curves})
    page, panels = pyplot.subplots(2, len(names), figsize=(10, 6), sharex=True, squeeze=False, layout="constrained")
    for curve in curves:
        upper, lower = panels[:, names.index(curve.loss)]
        color = COLOURS[margins.index(curve.margin)]
        upper.plot(curve.x, curve.surrogates, color=color, label=f"margin {curve.margin:g}")
        errors = np.array(curve.errors)
        lower.plot(curve.x, np.where(errors > 0, errors, np.nan), color=color)
        if unit == "n":
            fitted = np.exp(curve.errors_line.offset + curve.errors_line.slope * np.array(curve.x))
            lower.plot(curve.x, fitted, ":", color=color, label=f"{curve.errors_line.slope:.3f}·n")
            lower.legend()
        upper.set_title(curve.loss)
        lower.set_xlabel(unit)
    for panel in panels.flat:
        panel.set_yscale("log")
        panel.grid(alpha=0.3)
    panels[0, 0].set_ylabel("surrogate, unseen points")
    panels[1, 0].set_ylabel("0-1 error, unseen points")
    panels[0, -1].legend()
    return page


def _rates(rates: list[Rate], trend: Line) -> Any:
    """Errors against n for each α, and their slopes in an inset."""
    from matplotlib import pyplot

    page, panel = pyplot.subplots(figsize=(7, 5), layout="constrained")
    for rate, color in zip(rates, COLOURS, strict=True):
        panel.loglog(rate.sizes, rate.errors, "o", color=color, label=f"α = {rate.alpha:g}: {rate.line.slope:.2f}")
        fitted = np.exp(rate.line.offset) * np.array(rate.sizes, float) ** rate.line.slope
        panel.loglog(rate.sizes, fitted, color=color, linewidth=1)
    panel.set_xlabel("n")
    panel.set_ylabel("0-1 error, unseen points")
    panel.grid(alpha=0.3)
    panel.legend(loc="lower left", title="slope")
    inset = panel.inset_axes((0.68, 0.72, 0.3, 0.24))
    alphas = np.array([rate.alpha for rate in rates])
    inset.plot(alphas, [rate.line.slope for rate in rates], "o", color=COLOURS[1])
    inset.plot(alphas, trend.offset + trend.slope * alphas, color=COLOURS[3])
    inset.set_title(f"slope against α: {trend.slope:.2f}", fontsize=9)
    inset.tick_params(labelsize=8)
    return page
