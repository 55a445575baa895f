"""Designs: which channels a forecaster sees, and which it forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array

from .series import Series

DESIGNS = ("s->s", "zm->s", "zm->zm", "s+zm->s")


@dataclass(frozen=True)
class Design:
    """Names of the channels that are lagged, and of those that are forecast.

    If there are two outputs, they are the components of a wind, and its speed is their length. Exogenous inputs are the
    last.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    target: str
    n_exogenous: int = 0

    @classmethod
    def of(cls, design: Any, exogenous: Any, series: Series) -> Design:
        """What the parameters `design` and `exogenous` of a forecaster mean for a series."""
        name = _named(design, series)
        inputs: tuple[str, ...] = ()
        wind = series.wind
        if "zm" in name:
            if wind is None:
                raise ValueError(
                    f"design={design!r} needs a wind: give Series the columns of speed and direction, or of u and v"
                )
            inputs = (wind.u, wind.v)
        if name.startswith("s"):
            inputs = (series.target, *inputs)
        outputs: tuple[str, ...] = (series.target,)
        if name == "zm->zm":
            assert wind is not None
            if series.target != wind.speed:
                raise ValueError(f"design={design!r} forecasts the speed, but the target is {series.target!r}")
            outputs = (wind.u, wind.v)
        added = _exogenous(exogenous, series, inputs)
        return cls((*inputs, *added), outputs, series.target, len(added))

    def assembled(self, raw: Array) -> Array:
        """Forecasts of the target, of shape (n, horizons), from those of all outputs, (n, horizons × outputs)."""
        if len(self.outputs) == 1:
            return raw
        parts = raw.reshape(len(raw), -1, len(self.outputs))
        return np.asarray(np.hypot(parts[:, :, 0], parts[:, :, 1]))


def _named(design: Any, series: Series) -> str:
    if design == "auto":
        return "s->s" if series.wind is None else "s+zm->s"
    name = str(design).replace("→", "->").replace(" ", "")
    name = "s+zm->s" if name == "s+zm" else name
    if not isinstance(design, str) or name not in DESIGNS:
        raise ValueError(f"design must be 'auto', {', '.join(map(repr, DESIGNS))}, got {design!r}")
    return name


def _exogenous(exogenous: Any, series: Series, inputs: Sequence[str]) -> tuple[str, ...]:
    if exogenous is None:
        return ()
    if isinstance(exogenous, str) and exogenous == "all":
        return tuple(name for name in series.names if name not in inputs)
    if isinstance(exogenous, str):
        raise ValueError(f"exogenous must be None, 'all' or a list of channels, got {exogenous!r}")
    for name in exogenous:
        if name not in series.names:
            raise ValueError(f"exogenous: there is no channel {name!r}; there are {', '.join(series.names)}")
        if name in inputs:
            raise ValueError(f"exogenous: {name!r} is an input of the design already: leave it out")
    return tuple(exogenous)
