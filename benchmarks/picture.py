"""The picture of README: a fit with its error bars, and what a fit costs, from report/regressor.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import gyrfalcon as gf

from . import report
from .figure import LIGHT, require_matplotlib

SOURCE = report.FOLDER / "regressor.json"
PICTURE = Path("docs/_static/gyrfalcon.svg")


def run(out: Path = PICTURE) -> None:
    if not SOURCE.exists():
        raise SystemExit(f"{SOURCE} is missing: run python -m benchmarks regressor first")
    require_matplotlib()
    from matplotlib import pyplot, rc_context

    look = {
        "svg.hashsalt": "gyrfalcon",  # the same numbers give the same file
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 10,
        "text.color": LIGHT.ink,
        "axes.labelcolor": LIGHT.soft,
        "xtick.color": LIGHT.soft,
        "ytick.color": LIGHT.soft,
        "axes.edgecolor": LIGHT.grid,
    }
    content = json.loads(SOURCE.read_text(encoding="utf-8"))
    with rc_context(look):
        figure = pyplot.figure(figsize=(9.6, 3.4), layout="constrained", facecolor=LIGHT.paper)
        grid = figure.add_gridspec(2, 2, width_ratios=(3, 2))
        _draw_fit(figure.add_subplot(grid[:, 0]))
        settings = content["settings"]
        fits = content["fit"]
        _draw_bars(
            figure.add_subplot(grid[0, 1]),
            f"Seconds to fit {settings['n']:,} rows, {settings['m']:,} centers",
            {dtype: fits[dtype]["seconds"] for dtype in fits},
            "{:.1f} s",
        )
        _draw_bars(
            figure.add_subplot(grid[1, 1]),
            "Memory beyond the data",
            {dtype: {name: run["extra_bytes"] / 1e6 for name, run in fits[dtype]["alone"].items()} for dtype in fits},
            "{:,.0f} MB",
        )
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, metadata={"Date": None})
        pyplot.close(figure)
    print(f"Written: {out}")


def _draw_fit(axes: Any) -> None:
    random = np.random.default_rng(3)
    X = np.sort(np.concatenate([random.uniform(0, 5.4, 90), random.uniform(7.2, 10, 40)]))[:, None]
    y = _truth(X[:, 0]) + 0.25 * random.normal(size=len(X))
    model = gf.KernelRegressor(random_state=0, verbose=False).fit(X, y)
    at = np.linspace(-0.2, 10.2, 400)
    mean, std = model.predict(at[:, None], return_std=True)
    axes.fill_between(at, mean - 1.96 * std, mean + 1.96 * std, color=LIGHT.shades[0], linewidth=0, label="95 % band")
    axes.plot(at, _truth(at), color=LIGHT.grey, linestyle="--", linewidth=1, label="truth")
    axes.plot(at, mean, color=LIGHT.ours, linewidth=2, label="KernelRegressor()")
    axes.plot(X, y, "o", color=LIGHT.ink, markersize=2.5)
    axes.set_title("Nothing set: kernel, length scale and noise are learned", fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=9, ncols=3, loc="lower left")
    axes.set_ylim(-3.2, 2.6)


def _truth(x: Any) -> Any:
    return np.sin(1.7 * x) + 0.7 * np.sin(3.1 * x + 1)


def _draw_bars(axes: Any, title: str, values: dict[str, dict[str, float]], form: str) -> None:
    rows = [(f"{name}, {dtype}", value, name) for dtype in values for name, value in values[dtype].items()][::-1]
    colors = [LIGHT.ours if name == "gyrfalcon" else LIGHT.grey for *_, name in rows]
    bars = axes.barh([label for label, *_ in rows], [value for _, value, _ in rows], color=colors, height=0.7)
    axes.bar_label(bars, [form.format(value) for _, value, _ in rows], padding=3, fontsize=9)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.margins(x=0.18)
