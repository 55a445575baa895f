"""The picture of the product: time per kernel entry against the number of features, above the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .figure import Picture, Theme, clean, draw
from .product import Row

_LINES = (
    ("gyrfalcon_ns", "Gyrfalcon", "ours", "o"),
    ("torch_ns", "PyTorch, tuned", "blue", "s"),
    ("numpy_ns", "NumPy", "green", "^"),
)
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)


def product_figure(rows: Sequence[Row], stem: Path) -> Picture:
    first = rows[0]
    caption = (
        f"K(X, C) @ v, Gaussian kernel, {first.dtype}, {first.m:,} centres; K is never stored. Numbers: how many times "
        "faster than PyTorch. Roofline: the entry's flops at this run's fastest torch.mm, plus one exponential."
    )
    if any(row.disturbed for row in rows):
        caption += " Hollow: other work ran on the machine meanwhile, times may be too long."
    ordered = sorted(rows, key=lambda row: row.d)
    return draw(
        stem, "The product underneath", caption, (7.2, 4.6), lambda figure, theme: _fill(figure, theme, ordered)
    )


def _fill(figure: Any, theme: Theme, rows: Sequence[Row]) -> None:
    panel = figure.add_subplot()
    values = [getattr(row, field) for row in rows for field in ("roofline_ns", *(line[0] for line in _LINES))]
    limits = min(values) / 1.7, max(values) * 1.5
    d, bound = [row.d for row in rows], [row.roofline_ns for row in rows]
    panel.set(xscale="log", yscale="log", xlabel="features d", ylabel="nanoseconds per kernel entry", ylim=limits)
    panel.set_xticks(d, [str(value) for value in d])
    panel.set_yticks([tick for tick in _TICKS if limits[0] < tick < limits[1]])
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.minorticks_off()
    clean(panel, theme)
    panel.margins(x=0.08)
    for field, label, colour, marker in _LINES:
        _line(panel, theme, rows, field, label, getattr(theme, colour), marker)
    panel.plot(d, bound, color=theme.grey, linewidth=1.4, linestyle=(0, (4, 2)), label="roofline", zorder=3)
    panel.fill_between(d, bound, limits[0], color=theme.grey, alpha=0.16, linewidth=0, zorder=1)
    panel.legend(loc="upper left")
    for row in rows:
        if not row.disturbed:  # no claim from a time that others lengthened
            _ratio(panel, theme, row, last=row is rows[-1])


def _line(panel: Any, theme: Theme, rows: Sequence[Row], field: str, label: str, colour: str, marker: str) -> None:
    values = [getattr(row, field) for row in rows]
    ours = field == "gyrfalcon_ns"
    order, size = (5, 9) if ours else (4, 7)
    rim = {"marker": marker, "markersize": size, "markeredgecolor": theme.paper}
    panel.plot(
        [row.d for row in rows], values, color=colour, linewidth=3 if ours else 1.8, label=label, zorder=order, **rim
    )
    hollow = [(row.d, value) for row, value in zip(rows, values, strict=True) if row.disturbed]
    if hollow:
        rim |= {"markersize": size - 1, "markerfacecolor": theme.paper, "markeredgecolor": colour}
        panel.plot(*zip(*hollow, strict=True), linestyle="none", markeredgewidth=1.8, zorder=order, **rim)


def _ratio(panel: Any, theme: Theme, row: Row, last: bool) -> None:
    from matplotlib import patheffects

    panel.annotate(
        f"{row.ratio_torch:.{1 if row.ratio_torch >= 2 else 2}f}×",
        (row.d, row.gyrfalcon_ns),
        xytext=(14, -13) if last else (9, -9),
        textcoords="offset points",
        ha="right" if last else "left",
        va="top",
        color=theme.ours,
        fontweight="bold",
        path_effects=[patheffects.withStroke(linewidth=3, foreground=theme.paper)],
        zorder=6,
    )
