"""The style of the figures, and where they are written: to GYRFALCON_FIGURES, or to the current folder."""

import os
from pathlib import Path

from matplotlib import pyplot

QUICK = bool(os.environ.get("GYRFALCON_QUICK"))  # small sizes, to see that all still runs
INK, GRAY, ORANGE, BLUE, GREEN = "#222222", "#8c8c8c", "#d55e00", "#0072b2", "#009e73"

pyplot.rcParams.update(
    {
        "axes.prop_cycle": pyplot.cycler(color=[ORANGE, BLUE, GREEN, GRAY]),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "figure.constrained_layout.use": True,
        "figure.figsize": (7.2, 3.6),
        "font.size": 10,
        "legend.frameon": False,
        "savefig.dpi": 110,
    }
)


def save(script):
    """Write the current figure, under the name of the script."""
    path = Path(os.environ.get("GYRFALCON_FIGURES", "."), Path(script).stem).with_suffix(".png")
    pyplot.savefig(path, metadata={"Software": None})
    pyplot.close()
