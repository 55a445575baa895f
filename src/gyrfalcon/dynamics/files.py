"""Moments of lagged pairs as what model files hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.moments import CrossMoments, LaggedMoments, SpectralWhitening, Sums
from gyrfalcon.persistence import State

SUMS = ("features", "cross", "targets", "squares")


def pack(moments: LaggedMoments) -> State:
    """Numbers and arrays, the whitening among them."""
    cross, sums, whitening = moments.cross, moments.sums, moments.cross.whitening
    assert isinstance(whitening, SpectralWhitening)
    arrays = {f"sums.{name}": getattr(sums, name) for name in SUMS}
    arrays |= {"before": cross.before, "between": cross.between, "after": cross.after, "change": moments.change}
    arrays |= {"whitening.vectors": whitening.vectors, "whitening.values": whitening.values}
    return {"count": moments.count, "weight": cross.weight}, arrays


def unpack(values: dict[str, Any], arrays: dict[str, Array], features: int) -> tuple[LaggedMoments, SpectralWhitening]:
    """What `pack` packed, if it fits together."""
    whitening = SpectralWhitening(np.asfortranarray(arrays["whitening.vectors"]), arrays["whitening.values"])
    weight, count = float(values["weight"]), int(values["count"])
    cross = CrossMoments(whitening, arrays["before"], arrays["between"], arrays["after"], weight, count)
    sums = Sums(weight, *(arrays[f"sums.{name}"] for name in SUMS))
    r, q, d = whitening.rank, len(cross.before), features
    shapes = {
        "whitening.vectors": (whitening.size, r),
        "before": (q, q),
        "between": (q, r),
        "after": (r, r),
        "sums.features": (q, 1),
        "sums.cross": (q, d),
        "sums.targets": (d,),
        "sums.squares": (d,),
        "change": (d,),
    }
    if any(arrays[name].shape != shape for name, shape in shapes.items()) or not 0 < count <= weight:
        raise ValueError("the moments do not fit together")
    return LaggedMoments(cross, sums, arrays["change"]), whitening
