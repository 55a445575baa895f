"""How figures look: two themes, one for light pages and one for dark, and the files they end in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Theme:
    """Okabe and Ito's colors, lighter on dark paper; shapes differ too, for those who see or print no colors."""

    name: str
    paper: str
    ink: str
    soft: str
    grid: str
    ours: str
    blue: str
    green: str
    grey: str
    shades: tuple[str, ...]  # from few to many


LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#222222",
    soft="#5c5c5c",
    grid="#e6e6e6",
    ours="#d55e00",
    blue="#0072b2",
    green="#009e73",
    grey="#8c8c8c",
    shades=("#fde3cf", "#d55e00", "#5a2400"),
)
DARK = Theme(
    name="dark",
    paper="#16181b",
    ink="#e6e6e6",
    soft="#a9adb3",
    grid="#33373c",
    ours="#ff8a3d",
    blue="#56b4e9",
    green="#2fc99a",
    grey="#9aa0a6",
    shades=("#4a2c17", "#ff8a3d", "#fff1e0"),
)


@dataclass(frozen=True)
class Picture:
    """One figure, drawn for both themes."""

    light: Path
    dark: Path
    title: str
    caption: str


def require_matplotlib() -> None:
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("the demo draws with matplotlib: pip install gyrfalcon[plot]") from error
    matplotlib.use("Agg")


def draw(
    stem: Path, title: str, caption: str, size: tuple[float, float], fill: Callable[[Any, Theme], None]
) -> Picture:
    """`fill` gets an empty figure and a theme; the title and the caption are the page's, not the picture's."""
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = {}
    for theme in (LIGHT, DARK):
        with pyplot.rc_context(_style(theme)):
            figure = pyplot.figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
            fill(figure, theme)
            paths[theme.name] = stem.with_name(f"{stem.name}-{theme.name}.png")
            figure.savefig(paths[theme.name], dpi=150, facecolor=theme.paper)
            pyplot.close(figure)
    return Picture(paths["light"], paths["dark"], title, caption)


def shades(*colors: str) -> Any:
    """A color map through the given colors."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shades", colors)


def clean(panel: Any, theme: Theme, grid: str = "y") -> None:
    """No ticks, a faint grid behind the data."""
    panel.tick_params(length=0, which="both")
    panel.grid(axis=grid, color=theme.grid, linewidth=0.8)
    panel.set_axisbelow(True)


def _style(theme: Theme) -> dict[Any, Any]:
    return {
        "font.size": 12,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.soft,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.labelcolor": theme.ink,
        "text.color": theme.ink,
        "xtick.color": theme.soft,
        "ytick.color": theme.soft,
        "legend.frameon": False,
    }
