"""Masks that were found, refined by the decoder of Segment Anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from .boxes import box_of
from .extractors import SamDecoder
from .features import FeatureMap

Array = np.ndarray[Any, Any]

AGREEMENT = 0.5  # a mask that overlaps the one that was found by less does not replace it
BOXES_AT_ONCE = 8


def refined_masks(decoder: SamDecoder, found: FeatureMap, boxes: Array, masks: Array) -> list[tuple[Array, Array]]:
    """Boxes and masks: of the four that the decoder offers for each box, the one most like the mask that was found.

    The decoder knows where outlines are, and not what is taught. What was found decides which of its masks is meant,
    and stays where none of them is.
    """
    if found.embedding is None:
        raise ValueError("refine='sam' needs the network 'tiny-vit', whose last map the decoder understands")
    _, rows, columns = found.embedding.shape
    height, width = found.shape
    cells = boxes * np.array([columns / width, rows / height] * 2)
    results: list[tuple[Array, Array]] = []
    for start in range(0, len(boxes), BOXES_AT_ONCE):
        part = slice(start, start + BOXES_AT_ONCE)
        logits, _ = decoder(found.embedding, torch.from_numpy(cells[part]).float())
        for box, mask, offered in zip(boxes[part], masks[part], logits, strict=True):
            results.append(_chosen(box, mask, offered))
    return results


def _chosen(box: Array, mask: Array, logits: torch.Tensor) -> tuple[Array, Array]:
    offered = functional.interpolate(logits[None], mask.shape, mode="bilinear", align_corners=False)[0].numpy() > 0
    shared, joined = (offered & mask).sum((1, 2)), (offered | mask).sum((1, 2))
    overlap = shared / np.maximum(1, joined)
    best = int(overlap.argmax())
    if overlap[best] < AGREEMENT:
        return box, mask
    tight = box_of(offered[best])
    return (box, mask) if tight is None else (tight, offered[best])
