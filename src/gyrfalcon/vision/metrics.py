"""Average precision of what was found, for boxes and for masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .annotations import read_instances
from .boxes import box_iou, mask_iou
from .finding import Found

Array = np.ndarray[Any, Any]

METHODS = ("voc", "coco")
COCO_RECALLS = np.linspace(0, 1, 101)


@dataclass(frozen=True)
class AveragePrecision:
    """Average precision by class, and its mean.

    Attributes
    ----------
    by_class : dict of str to float
        From 0 to 1, for each class that has instances.
    mean : float

    Examples
    --------
    >>> from gyrfalcon.vision import AveragePrecision
    >>> AveragePrecision({"mug": 1.0, "glass": 0.5}).mean
    0.75
    """

    by_class: dict[str, float]

    @property
    def mean(self) -> float:
        """Over classes; NaN if there are none."""
        return float(np.mean(list(self.by_class.values()))) if self.by_class else float("nan")


def average_precision(
    found: Sequence[Sequence[Found]],
    truth: Sequence[Any],
    *,
    overlap: float = 0.5,
    of: str = "masks",
    method: str = "voc",
) -> AveragePrecision:
    """The area under the curve of precision over recall.

    What was found is taken by falling score. It is right if it overlaps an instance of its class by at least `overlap`
    that nothing before it has taken. Precision at a recall is the largest at that recall or a larger one.

    Parameters
    ----------
    found : list of lists of Found
        For each frame.
    truth : list of mappings of str to masks or boxes
        For each frame; see `InstanceSegmenter.observe`.
    overlap : float
        Intersection over union.
    of : "masks" or "boxes"
    method : "voc" or "coco"
        The exact area under the curve, or the mean over 101 recalls. They also differ in what is matched: VOC compares
        with the instance that is overlapped most, and COCO with the one among those that are still free.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.vision import Found, average_precision
    >>> mask = np.zeros((10, 10), dtype=bool)
    >>> mask[2:6, 2:6] = True
    >>> found = [[Found("mug", 0.9, np.array([2, 2, 6, 6]), mask), Found("mug", 0.4, np.array([0, 0, 2, 2]), ~mask)]]
    >>> average_precision(found, [{"mug": mask}]).by_class
    {'mug': 1.0}
    """
    if len(found) != len(truth):
        raise ValueError(f"found and truth must be as many frames, got {len(found)} and {len(truth)}")
    if of not in ("masks", "boxes"):
        raise ValueError(f"of must be 'masks' or 'boxes', got {of!r}")
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    if not 0 < overlap <= 1:
        raise ValueError(f"overlap must be above 0 and at most 1, got {overlap!r}")
    instances = [list(_instances(frame)) for frame in truth]
    labels = sorted({label for frame in instances for label, _, _ in frame})
    return AveragePrecision({label: _of_class(found, instances, label, overlap, of, method) for label in labels})


def _instances(frame: Any) -> list[tuple[str, Array, Array | None]]:
    shapes = [np.shape(item) for shown in frame.values() for item in (shown if isinstance(shown, list) else [shown])]
    masks = [shape[-2:] for shape in shapes if len(shape) >= 2 and shape[-1] != 4]
    shape = masks[0] if masks else (1 << 20, 1 << 20)
    return [(one.label, one.box, one.mask) for one in read_instances(frame, (int(shape[0]), int(shape[1])))]


def _of_class(
    found: Sequence[Sequence[Found]],
    instances: list[list[tuple[str, Array, Array | None]]],
    label: str,
    overlap: float,
    of: str,
    method: str,
) -> float:
    scores, frames, overlaps = [], [], []
    total = 0
    for number, (guesses, shown) in enumerate(zip(found, instances, strict=True)):
        own = sorted((guess for guess in guesses if guess.label == label), key=lambda guess: -guess.score)
        right = [(box, mask) for name, box, mask in shown if name == label]
        total += len(right)
        table = _overlaps(own, right, of)
        scores += [guess.score for guess in own]
        frames += [number] * len(own)
        overlaps += list(table)
    order = np.argsort(-np.array(scores), kind="stable")
    taken: dict[int, set[int]] = {}
    hits = np.zeros(len(order), dtype=bool)
    for place, index in enumerate(order):
        used = taken.setdefault(frames[index], set())
        row = overlaps[index]
        free = [k for k in range(len(row)) if method == "voc" or k not in used]
        if free and row[best := max(free, key=lambda k: row[k])] >= overlap and best not in used:
            hits[place] = True
            used.add(best)
    return _area(hits, total, method)


def _overlaps(own: list[Found], right: list[tuple[Array, Array | None]], of: str) -> Array:
    if not own or not right:
        return np.zeros((len(own), len(right)))
    if of == "boxes":
        return box_iou(np.stack([guess.box for guess in own]), np.stack([box for box, _ in right]))
    masks = [mask for _, mask in right]
    if any(mask is None for mask in masks):
        raise ValueError("truth: masks are compared, but a class has boxes only: pass of='boxes'")
    return mask_iou(np.stack([guess.mask for guess in own]), np.stack([mask for mask in masks if mask is not None]))


def _area(hits: Array, total: int, method: str) -> float:
    """Under the curve of precision, made falling from the right, over recall."""
    right = np.cumsum(hits)
    recall, precision = right / total, right / np.arange(1, len(hits) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    if method == "coco":
        places = np.searchsorted(recall, COCO_RECALLS, side="left")
        return float(np.append(falling, 0.0)[np.minimum(places, len(falling))].mean())
    return float(np.sum(np.diff(recall, prepend=0.0) * falling))
