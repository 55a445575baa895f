"""The picture of the product: time per kernel entry against the number of features, above the roofline."""

from __future__ import annotations

from collections.abc import Sequence

from gyrfalcon.report import page
from gyrfalcon.report.plot import Plot
from gyrfalcon.report.scale import Scale

from .product import Row

_LINES = {"numpy_ns": ("NumPy", "soft"), "torch_ns": ("PyTorch, tuned", "other"), "gyrfalcon_ns": ("Gyrfalcon", "ours")}


def product_figure(rows: Sequence[Row]) -> str:
    rows = sorted(rows, key=lambda row: row.d)
    times = {field: [float(getattr(row, field)) for row in rows] for field in ("roofline_ns", *_LINES)}
    d = [row.d for row in rows]
    plot = Plot(
        Scale.of(d, log=True, room=0.08),
        Scale.of(*times.values(), log=True, room=0.1),
        "features",
        "nanoseconds per kernel entry",
        height=340,
    )
    plot.band(d, [plot.y.low] * len(d), times["roofline_ns"], "soft")
    plot.line(d, times["roofline_ns"], "soft", dashed=True)
    for field, (_, kind) in _LINES.items():
        plot.line(d, times[field], kind)
        plot.dots(d, times[field], kind, size=7)
    for row in rows:
        if not row.disturbed:  # no claim from a time that others lengthened
            ratio = f"{row.ratio_torch:.{1 if row.ratio_torch >= 2 else 2}f}×"
            plot.note(row.d * 1.06, row.gyrfalcon_ns / 1.35, ratio, kind="ours")
    caption = (
        f"K(X, C) @ v, Gaussian kernel, {rows[0].dtype}, {rows[0].m:,} centers; K is never stored. Numbers: how many "
        "times faster than PyTorch. Roofline: the entry's flops at this run's fastest torch.mm, plus one exponential."
    )
    keys = dict(reversed(_LINES.values())) | {"roofline": "soft dashed"}
    return page.figure("The product underneath", plot.svg("time per kernel entry over features"), caption, keys)
