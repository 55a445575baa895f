"""Pictures of `python -m benchmarks koopman`."""

from __future__ import annotations

from typing import Any

from . import figure, report

COLORS = {"pcr": "blue", "rrr": "ours", "krr": "green", "persistence": "grey"}


def draw(sizes: list[dict[str, Any]], lags: list[dict[str, Any]]) -> None:
    """Errors and times by the number of frames, and errors by the lag."""
    figure.require_matplotlib()

    def fill(page: Any, theme: figure.Theme) -> None:
        panels = page.subplots(1, 3)
        for method in ("pcr", "rrr", "krr"):
            color = getattr(theme, COLORS[method])
            for exact, style in ((False, "o-"), (True, "s:")):
                rows = [row for row in sizes if row["method"] == method and row["exact"] == exact]
                n = [row["n"] for row in rows]
                label = f"{method.upper()}, exact" if exact else method.upper()
                panels[0].plot(n, [row["error"] for row in rows], style, color=color, label=label)
                panels[1].plot(n, [row["seconds"] for row in rows], style, color=color)
        for line in lags:
            color = getattr(theme, COLORS[line["method"]])
            style = ":" if line["method"] == "persistence" else "o-"
            panels[2].plot(
                [0.01 * lag for lag in line["lags"]], line["errors"], style, color=color, label=line["method"]
            )
        labels = (("frames", "nRMSE at lag 0.4 s"), ("frames", "CPU seconds"), ("lag, s", "nRMSE"))
        for panel, (x, y) in zip(panels, labels, strict=True):
            panel.set_xlabel(x)
            panel.set_ylabel(y)
            figure.clean(panel, theme)
        for panel in panels[:2]:
            panel.set_xscale("log")
        panels[1].set_yscale("log")
        panels[0].legend(fontsize=9)
        panels[2].legend(fontsize=9)

    drawn = figure.draw(report.FOLDER / "koopman", "Lorenz", "Errors by frames and by lag", (14, 4.2), fill)
    print(f"\nDrawn: {drawn.light} and {drawn.dark}")
