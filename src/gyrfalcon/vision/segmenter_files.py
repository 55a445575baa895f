"""The state of an `InstanceSegmenter` as what JSON can hold and arrays, checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from gyrfalcon.kernels import Gaussian
from gyrfalcon.matrix.predictor import Predictor

from . import anchors
from .annotations import Instance
from .detection import COLUMNS as COLUMNS_OF_CLASS
from .detection import Detectors
from .features import COLORS, LEADING, FeatureMap
from .files import array
from .frames import Candidates, Frame, MaskRows, Regions
from .proposals import Proposer
from .regions import BINS
from .silhouettes import SIDE

Array = np.ndarray[Any, Any]

COLUMNS = ("X", "keys", "overlap", "codes", "best")
MASK_COLUMNS = ("X", "inside", "keys")


def pack_predictor(predictor: Predictor, name: str) -> dict[str, Array]:
    """Centers, coefficients and intercepts of a function of the Gaussian kernel."""
    return {
        f"{name}.centers": np.asarray(predictor.centers),
        f"{name}.beta": predictor.coefficients,
        f"{name}.intercept": np.atleast_1d(predictor.intercept),
    }


def unpack_predictor(
    arrays: Mapping[str, Array], name: str, length_scale: float, outputs: int, width: int
) -> Predictor:
    """What `pack_predictor` packed."""
    centers = array(arrays, f"{name}.centers", (None, width))
    beta = array(arrays, f"{name}.beta", (len(centers), outputs))
    intercept = array(arrays, f"{name}.intercept", (outputs,))
    return Predictor(Gaussian(length_scale), centers, beta, intercept)


def pack_proposer(proposer: Proposer) -> dict[str, Array]:
    """The classifiers and refiners of anchors."""
    return {"proposer.kinds": proposer.kinds} | pack_predictor(proposer.function, "proposer")


def unpack_proposer(arrays: Mapping[str, Array], length_scale: float, width: int) -> Proposer:
    """What `pack_proposer` packed."""
    kinds = array(arrays, "proposer.kinds", (None,), "i")
    if len(kinds) == 0 or kinds.min() < 0 or kinds.max() >= anchors.COUNT:
        raise ValueError("there is no such anchor")
    return Proposer(kinds, unpack_predictor(arrays, "proposer", length_scale, 5 * len(kinds), width))


def unpack_detectors(
    arrays: Mapping[str, Array], labels: list[str], classes: list[str], length_scale: float, width: int
) -> Detectors | None:
    """The detectors of some of the classes."""
    if sorted(set(labels)) != labels or not set(labels) <= set(classes) or (not labels and "detectors.beta" in arrays):
        raise ValueError("detectors do not fit the classes")
    if not labels:
        return None
    outputs = COLUMNS_OF_CLASS * len(labels)
    function = unpack_predictor(arrays, "detectors", length_scale, outputs, region_width(width))
    beta = array(arrays, "shapes.beta", (len(function.centers), SIDE**2 * len(labels)))
    shapes = Predictor(
        Gaussian(length_scale), function.centers, beta, array(arrays, "shapes.intercept", (beta.shape[1],))
    )
    return Detectors(tuple(labels), function, shapes)


def pack_detectors(detectors: Detectors) -> dict[str, Array]:
    """The detectors of all classes, whose centers are packed once."""
    shapes = pack_predictor(detectors.shapes, "shapes")
    del shapes["shapes.centers"]
    return pack_predictor(detectors.function, "detectors") | shapes


def region_width(width: int) -> int:
    """Features of a region, if a cell has so many."""
    return BINS**2 * min(width, LEADING + COLORS)


def pack_frame(frame: Frame, name: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """What is kept of a frame."""
    arrays = {
        f"{name}.{part}.{column}": np.asarray(getattr(getattr(frame, part), column))
        for part in ("locations", "regions")
        for column in COLUMNS
    }
    arrays[f"{name}.regions.shapes"] = frame.regions.shapes
    for place, label in enumerate(frame.labels):
        arrays |= {f"{name}.masks.{place}.{column}": getattr(frame.masks[label], column) for column in MASK_COLUMNS}
    facts: dict[str, Any] = {"digest": frame.digest, "labels": list(frame.labels)}
    if frame.found is not None:
        arrays[f"{name}.map"] = frame.found.values.numpy()
        facts["shape"] = list(frame.found.shape)
        facts["shown"] = [[one.label, one.box.tolist()] for one in frame.instances]
        masks = {f"{name}.shown.{place}": one.mask for place, one in enumerate(frame.instances)}
        arrays |= {key: np.packbits(mask) for key, mask in masks.items() if mask is not None}
    return facts, arrays


def unpack_frame(facts: Mapping[str, Any], arrays: Mapping[str, Array], name: str, widths: tuple[int, int]) -> Frame:
    """What `pack_frame` packed."""
    labels = tuple(str(label) for label in facts["labels"])
    locations = _candidates(arrays, f"{name}.locations", widths[0], anchors.COUNT)
    rows = _candidates(arrays, f"{name}.regions", widths[1], len(labels))
    shapes = array(arrays, f"{name}.regions.shapes", (len(rows.keys), len(labels), SIDE**2), "i")
    regions = Regions(rows.X, rows.keys, rows.overlap, rows.codes, rows.best, shapes)
    masks = {label: _mask_rows(arrays, f"{name}.masks.{place}", widths[0] + 2) for place, label in enumerate(labels)}
    if "shape" not in facts:
        return Frame(int(facts["digest"]), labels, locations, regions, masks)
    values = torch.from_numpy(array(arrays, f"{name}.map", (widths[0], None, None)))
    height, width = (int(side) for side in facts["shape"])
    shown = tuple(
        Instance(str(label), _box(box), _mask(arrays, f"{name}.shown.{place}", (height, width)))
        for place, (label, box) in enumerate(facts["shown"])
    )
    return Frame(int(facts["digest"]), labels, locations, regions, masks, FeatureMap(values, (height, width)), shown)


def _candidates(arrays: Mapping[str, Array], name: str, width: int, kinds: int) -> Candidates:
    X = array(arrays, f"{name}.X", (None, width))
    return Candidates(
        X,
        array(arrays, f"{name}.keys", (len(X),), "u"),
        array(arrays, f"{name}.overlap", (len(X), kinds)),
        array(arrays, f"{name}.codes", (len(X), kinds, 4)),
        array(arrays, f"{name}.best", (len(X), kinds), "b"),
    )


def _mask_rows(arrays: Mapping[str, Array], name: str, width: int) -> MaskRows:
    X = array(arrays, f"{name}.X", (None, width))
    inside, keys = array(arrays, f"{name}.inside", (len(X),), "b"), array(arrays, f"{name}.keys", (len(X),), "u")
    if (np.diff(keys.astype(np.float64)) < 0).any():
        raise ValueError("samples of masks are not in the order of their keys")
    return MaskRows(X, inside, keys)


def _mask(arrays: Mapping[str, Array], name: str, shape: tuple[int, int]) -> Array | None:
    if name not in arrays:
        return None
    bits = array(arrays, name, (-(-shape[0] * shape[1] // 8),), "u")
    return np.unpackbits(bits, count=shape[0] * shape[1]).reshape(shape).astype(bool)


def _box(values: Any) -> Array:
    box = np.asarray(values, dtype=np.float64)
    if box.shape != (4,) or not np.isfinite(box).all():
        raise ValueError(f"a box has four numbers, got {values!r}")
    return box
