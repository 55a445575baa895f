"""The picture: time per kernel entry against the number of features, above the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .product import Row

# Okabe and Ito's colours; markers differ too, for those who see or print no colours.
_LINES = (
    ("gyrfalcon_ns", "gyrfalcon", "#D55E00", "o"),
    ("torch_ns", "PyTorch, tuned", "#0072B2", "s"),
    ("numpy_ns", "NumPy", "#009E73", "^"),
)
_INK, _SOFT, _GRID, _BOUND = "#222222", "#595959", "#e3e3e3", "#8c8c8c"
_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.edgecolor": _SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
}
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("the demo draws with matplotlib: pip install gyrfalcon[plot]") from error


def draw(rows: Sequence[Row], machine: dict[str, Any], path: Path) -> None:
    require_matplotlib()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    dtypes = sorted({row.dtype for row in rows})
    values = [getattr(row, field) for row in rows for field in ("roofline_ns", *(line[0] for line in _LINES))]
    limits = min(values) / 1.7, max(values) * 1.5
    first = rows[0]
    simd = machine["instruction_set"].upper() if machine["engine"] == "native" else "no compiled core"
    disturbed = any(row.disturbed for row in rows)
    with pyplot.rc_context(_STYLE):
        figure, panels = pyplot.subplots(1, len(dtypes), figsize=(11, 6), sharey=True, squeeze=False)
        for panel, dtype in zip(panels[0], dtypes, strict=True):
            _panel(panel, dtype, sorted((row for row in rows if row.dtype == dtype), key=lambda row: row.d), limits)
        panels[0][0].set_ylabel("nanoseconds per kernel entry, lower is better")
        figure.subplots_adjust(left=0.07, right=0.985, top=0.77, bottom=0.155, wspace=0.06)
        figure.text(0.012, 0.945, f"The kernel product on {machine['cpu']}, {simd}", fontsize=16, fontweight="bold")
        figure.text(
            0.012,
            0.9,
            f"K(X, C) @ v, Gaussian kernel, {first.m:,} centres, {machine['threads']} threads, K never stored. "
            "Numbers: how many times faster than PyTorch.",
            color=_SOFT,
        )
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, ncols=len(labels), frameon=False, loc="upper left", bbox_to_anchor=(0.003, 0.89))
        notes = "Roofline: the entry's flops at this run's fastest torch.mm, plus one exponential at full speed."
        if disturbed:
            notes += " Hollow: other work ran on the machine meanwhile, times may be too long."
        figure.text(0.012, 0.02, notes, fontsize=9, color=_SOFT)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=160, facecolor="white")
        pyplot.close(figure)


def _panel(panel: Any, dtype: str, rows: Sequence[Row], limits: tuple[float, float]) -> None:
    from matplotlib import patheffects

    d = [row.d for row in rows]
    bound = [row.roofline_ns for row in rows]
    panel.set(xscale="log", yscale="log", xlabel="features d", ylim=limits)
    panel.set_title(dtype, loc="left", fontsize=12, fontweight="bold")
    panel.set_xticks(d, [str(value) for value in d])
    panel.set_yticks([tick for tick in _TICKS if limits[0] < tick < limits[1]])
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.minorticks_off()
    panel.tick_params(length=0)
    panel.grid(axis="y", color=_GRID, linewidth=0.8)
    panel.set_axisbelow(True)
    panel.margins(x=0.08)

    for field, label, colour, marker in _LINES:
        values = [getattr(row, field) for row in rows]
        ours = field == "gyrfalcon_ns"
        style = {"color": colour, "linewidth": 3 if ours else 1.8, "zorder": 5 if ours else 4}
        size = 9 if ours else 7
        panel.plot(d, values, marker=marker, markersize=size, markeredgecolor="white", label=label, **style)
        hollow = [(row.d, value) for row, value in zip(rows, values, strict=True) if row.disturbed]
        if hollow:
            rim = {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 1.8, "linestyle": "none"}
            panel.plot(*zip(*hollow, strict=True), marker=marker, markersize=size - 1, zorder=style["zorder"], **rim)
    panel.plot(d, bound, color=_BOUND, linewidth=1.4, linestyle=(0, (4, 2)), label="roofline", zorder=3)
    panel.fill_between(d, bound, limits[0], color=_BOUND, alpha=0.16, linewidth=0, zorder=1)
    for row in rows:
        if row.disturbed:  # no claim from a time that others lengthened
            continue
        panel.annotate(
            f"{row.ratio_torch:.{1 if row.ratio_torch >= 2 else 2}f}×",
            (row.d, row.gyrfalcon_ns),
            xytext=(9, -9) if row is not rows[-1] else (14, -13),
            textcoords="offset points",
            ha="left" if row is not rows[-1] else "right",
            va="top",
            color="#9c4400",
            fontweight="bold",
            path_effects=[patheffects.withStroke(linewidth=3, foreground="white")],
            zorder=6,
        )
