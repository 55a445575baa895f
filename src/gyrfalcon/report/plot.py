"""Small SVG figures that take their colors from the page, so that they work in the light and the dark theme."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np

from .scale import Scale
from .text import short

Array = np.ndarray[Any, Any]

WIDTH = 400
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 28, 42
MANY_DOTS = 800
_HEX_COLUMNS = 34
_LEVELS = 6


class Plot:
    """Marks in data coordinates between two axes. Marks have a kind, which is a color of the page: "ours", "other",
    "soft".

    >>> plot = Plot(Scale(0, 1), Scale(0, 1), "x", "y")
    >>> plot.line([0, 1], [0, 1])
    >>> plot.svg("a diagonal")[:32]
    '<svg viewBox="0 0 400 300" role='
    """

    def __init__(self, x: Scale, y: Scale, x_label: str, y_label: str, *, height: int = 300):
        self.x, self.y = x, y
        self.labels = x_label, y_label
        self.height = height
        self.marks: list[str] = []

    def across(self, values: Any) -> Array:
        return np.asarray(LEFT + (WIDTH - LEFT - RIGHT) * self.x.place(values))

    def up(self, values: Any) -> Array:
        return np.asarray(self.height - BOTTOM - (self.height - TOP - BOTTOM) * self.y.place(values))

    def line(self, xs: Any, ys: Any, kind: str = "ours", *, dashed: bool = False) -> None:
        points = self._inside(xs, ys)
        if len(points):
            style = f"line {kind} dashed" if dashed else f"line {kind}"
            self.marks.append(f'<path class="{style}" d="{_path(points)}"/>')

    def band(self, xs: Any, low: Any, high: Any, kind: str = "ours") -> None:
        """Fill the area between two lines."""
        there, back = self._inside(xs, low), self._inside(xs, high)
        if len(there) and len(back):
            self.marks.append(f'<path class="band {kind}" d="{_path(np.concatenate([there, back[::-1]]))}Z"/>')

    def dots(self, xs: Any, ys: Any, kind: str = "ours", *, size: float = 4.5) -> None:
        points = self._inside(xs, ys)
        if len(points):
            drawn = "".join(f"M{_short(x)} {_short(y)}h0" for x, y in points)
            self.marks.append(f'<path class="dots {kind}" stroke-width="{size:g}" d="{drawn}"/>')

    def cloud(self, xs: Any, ys: Any, kind: str = "ours", *, most: float = 1.0) -> None:
        """Draw few points as dots and many as hexagons, which are darker the more points they hold, up to `most`."""
        places = np.column_stack([self.x.place(np.ravel(xs)), self.y.place(np.ravel(ys))])
        within = ((places >= 0) & (places <= 1)).all(1)
        xs, ys = np.ravel(xs)[within], np.ravel(ys)[within]
        points = self._inside(xs, ys)
        if len(points) <= MANY_DOTS:
            self.dots(xs, ys, f"{kind} cloud", size=5 if len(points) < 200 else 3.5)
            return
        side = (WIDTH - LEFT - RIGHT) / _HEX_COLUMNS / math.sqrt(3)
        places, counts = _hexagons(points, side)
        levels = np.ceil(_LEVELS * np.log1p(counts) / np.log1p(counts.max())).astype(int)
        h, v = side * math.sqrt(3) / 2, side / 2
        corners = np.array([[h, v], [0, side], [-h, v], [-h, -v], [0, -side]])
        shape = "".join(f"l{_short(x)} {_short(y)}" for x, y in corners) + "z"
        for level in np.unique(levels):
            drawn = "".join(f"M{_short(x)} {_short(y - side)}{shape}" for x, y in places[levels == level])
            self.marks.append(
                f'<path class="fill {kind}" fill-opacity="{most * (0.1 + 0.9 * level / _LEVELS):.2g}" d="{drawn}"/>'
            )

    def columns(self, edges: Any, heights: Any, kind: str = "ours") -> None:
        """A histogram with small gaps between its columns."""
        lefts, base = self.across(edges), float(self.up(max(0.0, self.y.low)))
        for left, right, top in zip(lefts[:-1], lefts[1:], self.up(heights), strict=True):
            if base - top > 0.05:
                there, back = _short(left + 0.5), _short(max(right - 0.5, left + 1))
                drawn = f"M{there} {_short(base)}V{_short(top)}H{back}V{_short(base)}Z"
                self.marks.append(f'<path class="fill {kind}" d="{drawn}"/>')

    def steps(self, edges: Any, heights: Any, kind: str = "ours") -> None:
        """A transparent histogram."""
        along, outline = np.repeat(edges, 2)[1:-1], np.repeat(heights, 2)
        self.band(along, np.zeros(len(outline)), outline, kind)
        self.line(along, outline, kind)

    def whiskers(self, xs: Any, low: Any, high: Any, kind: str = "ours") -> None:
        across = self.across(xs)
        ends = np.clip([self.up(low), self.up(high)], TOP, self.height - BOTTOM).T
        drawn = "".join(f"M{_short(x)} {_short(a)}V{_short(b)}" for x, (a, b) in zip(across, ends, strict=True))
        self.marks.append(f'<path class="line thin {kind}" d="{drawn}"/>')

    def note(self, x: float, y: float, text: str, *, anchor: str = "start", kind: str = "soft") -> None:
        """Text at a position."""
        self.marks.append(
            f'<text class="{kind}" x="{_short(float(self.across(x)))}" y="{_short(float(self.up(y)))}" '
            f'text-anchor="{anchor}">{escape(text)}</text>'
        )

    def svg(self, description: str) -> str:
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(description)}">'
            f"{self._axes()}{''.join(self.marks)}</svg>"
        )

    def _axes(self) -> str:
        floor = self.height - BOTTOM
        parts = []
        for value, label in self.y.ticks():
            y = _short(float(self.up(value)))
            parts.append(f'<path class="grid" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text x="{LEFT - 7}" y="{y}" dy=".35em" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<path class="axis" d="M{LEFT} {floor}H{WIDTH - RIGHT}"/>')
        for value, label in self.x.ticks():
            x = _short(float(self.across(value)))
            parts.append(f'<path class="axis" d="M{x} {floor}v4"/>')
            parts.append(f'<text x="{x}" y="{floor + 16}" text-anchor="middle">{escape(label)}</text>')
        x_label, y_label = (escape(short(label, 56)) for label in self.labels)
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text class="label" x="{middle:g}" y="{self.height - 6}" text-anchor="middle">{x_label}</text>')
        parts.append(f'<text class="label" x="4" y="14">{y_label}</text>')
        return "".join(parts)

    def _inside(self, xs: Any, ys: Any) -> Array:
        """Finite points in the coordinates of the figure. Points outside the frame are moved to its edge."""
        points = np.column_stack([self.across(np.ravel(xs)), self.up(np.ravel(ys))])
        points = points[np.isfinite(points).all(1)]
        return np.asarray(np.clip(points, [LEFT, TOP - 4], [WIDTH - RIGHT + 4, self.height - BOTTOM]))


def _path(points: Array) -> str:
    return "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in points)


def _short(value: float) -> str:
    """Format a coordinate with one decimal, a tenth of a pixel, without trailing zeros."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _hexagons(points: Array, side: float) -> tuple[Array, Array]:
    """Centers of the hexagons that hold points, and how many points each holds."""
    cell = np.array([side * math.sqrt(3), 3 * side])
    grids = [np.round(points / cell) * cell, (np.floor(points / cell) + 0.5) * cell]
    first, second = (((points - grid) ** 2).sum(1) for grid in grids)
    nearest = np.where((first <= second)[:, None], *grids)
    places, counts = np.unique(nearest.round(6), axis=0, return_counts=True)
    return places, counts
