"""What a user shows: instances of classes in a frame, as masks or boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .boxes import areas, box_of, clip

Array = np.ndarray[Any, Any]

SMALLEST_AREA = 4.0  # pixels; smaller instances are refused


@dataclass(frozen=True)
class Instance:
    """One object in a frame: its class, its box, and its mask if it is known."""

    label: str
    box: Array
    mask: Array | None


def read_instances(annotations: Any, shape: tuple[int, int]) -> list[Instance]:
    """Instances from masks or boxes by label, or from pairs of a label and a mask or box.

    A mask is a bool array of the frame's shape, and a box is (left, top, right, bottom). A label may have one of them,
    a list, or an array of several.
    """
    pairs: Iterable[tuple[Any, Any]]
    pairs = annotations.items() if isinstance(annotations, Mapping) else annotations
    found: list[Instance] = []
    try:
        listed = [(label, shown) for label, shown in pairs]
    except (TypeError, ValueError):
        raise ValueError("masks must be a mapping of labels to masks or boxes, or pairs of a label and one") from None
    for label, shown in listed:
        if not isinstance(label, str) or not label:
            raise ValueError(f"masks: a label must be a text that is not empty, got {label!r}")
        found += [_instance(label, item, shape) for item in _items(shown, shape)]
    return found


def _items(shown: Any, shape: tuple[int, int]) -> list[Array]:
    if isinstance(shown, list | tuple) and not all(np.ndim(item) == 0 for item in shown):
        return [item for part in shown for item in _items(part, shape)]
    array = np.asarray(shown)
    if array.ndim == 3 and array.dtype == bool:
        return list(array)
    if array.ndim == 2 and array.dtype != bool and array.shape[1] == 4:
        return list(array)
    return [array]


def _instance(label: str, item: Array, shape: tuple[int, int]) -> Instance:
    if item.dtype == bool and item.shape == shape:
        box = box_of(item)
        if box is None or item.sum() < SMALLEST_AREA:
            raise ValueError(f"masks: the mask of {label!r} has fewer than {SMALLEST_AREA:g} pixels")
        return Instance(label, box, item)
    if item.shape != (4,) or item.dtype.kind not in "iuf" or not np.isfinite(item).all():
        raise ValueError(
            f"masks: {label!r} must be a bool mask of shape {shape} or a box (left, top, right, bottom), got "
            f"{item.dtype} of shape {item.shape}"
        )
    box = clip(item[None].astype(np.float64), shape)
    if areas(box)[0] < SMALLEST_AREA or (box[0, 2:] <= box[0, :2]).any():
        raise ValueError(f"masks: the box {item.tolist()} of {label!r} has fewer than {SMALLEST_AREA:g} pixels inside")
    return Instance(label, box[0], None)


def digest_of(instances: list[Instance]) -> bytes:
    """Bytes that stand for the annotations, whatever their order."""
    texts = sorted(
        repr((one.label, one.box.tolist())).encode() + (b"" if one.mask is None else np.packbits(one.mask).tobytes())
        for one in instances
    )
    return b"/".join(texts)
