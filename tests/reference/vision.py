"""Vision, written plainly: pictures with known objects, counting pixels, the minibootstrap."""

import math

import numpy as np


def colors(image):
    """An extractor that costs nothing: mean colors and their squares, at two strides.

    As of a network that sees images at twice their size: the map of stride 8 has a cell for 4 pixels.
    """
    maps = {}
    for stride in (4, 8):
        height, width = image.shape[0] // stride * stride, image.shape[1] // stride * stride
        cells = image[:height, :width].reshape(height // stride, stride, width // stride, stride, 3).mean((1, 3)) / 255
        maps[2 * stride] = np.concatenate([cells, cells**2, np.ones((*cells.shape[:2], 1)) / 2], axis=2).transpose(
            2, 0, 1
        )
    return maps


COLORS = {"red": (230, 30, 40), "green": (30, 200, 60), "blue": (30, 60, 230)}


def picture(seed, labels=("red",), shape=(96, 128), size=(24, 40)):
    """A noisy gray frame with one upright rectangle of each color, and their masks."""
    random = np.random.default_rng(seed)
    image = np.clip(random.normal(110, 12, (*shape, 3)), 0, 255)
    masks = {}
    slots = random.permutation(len(labels))
    for slot, label in zip(slots, labels, strict=True):
        height, width = random.integers(size[0], size[1]), random.integers(size[0] // 2, size[1] // 2)
        room = shape[1] // len(labels)
        left = slot * room + random.integers(0, room - width)
        top = random.integers(0, shape[0] - height)
        mask = np.zeros(shape, dtype=bool)
        mask[top : top + height, left : left + width] = True
        image[mask] = np.clip(random.normal(COLORS[label], 12, (mask.sum(), 3)), 0, 255)
        masks[label] = mask
    return image.astype(np.uint8), masks


def iou_of_boxes(a, b):
    """By counting the unit squares of boxes with whole numbers as corners."""
    first = {(x, y) for x in range(a[0], a[2]) for y in range(a[1], a[3])}
    second = {(x, y) for x in range(b[0], b[2]) for y in range(b[1], b[3])}
    return len(first & second) / len(first | second) if first | second else 0.0


def suppressed(boxes, scores, overlap):
    """Greedy non-maximum suppression."""
    left = sorted(range(len(boxes)), key=lambda index: -scores[index])
    kept = []
    while left:
        best = left.pop(0)
        kept.append(best)
        left = [index for index in left if iou_of_boxes(boxes[best], boxes[index]) <= overlap]
    return kept


def decayed(boxes, scores, overlap, least, width):
    """Pairs of index and score, best first; each score falls by what stands before it."""
    left, kept = dict(enumerate(scores)), []
    while left:
        best = max(left, key=lambda index: left[index])
        score = left.pop(best)
        if score < least:
            break
        kept.append((best, score))
        overlaps = {index: iou_of_boxes(boxes[best], boxes[index]) for index in left}
        left = {
            index: value * math.exp(-(overlaps[index] ** 2) / width)
            for index, value in left.items()
            if overlaps[index] <= overlap
        }
    return kept


def minibootstrap(positives, negatives, batch_size, train, least, easy=-0.9, hard=-0.7):
    """Algorithm 1, stage 3, which spares easy negatives so that a number of them stays.

    `train` makes a function of points from points and targets.
    """

    def model_of(chosen):
        X = np.concatenate([positives, chosen])
        return train(X, np.concatenate([np.ones(len(positives)), -np.ones(len(chosen))]))

    batches = [negatives[start : start + batch_size] for start in range(0, len(negatives), batch_size)]
    chosen = batches[0]
    model = model_of(chosen)
    for batch in batches[1:]:
        kept = model(chosen) >= easy
        missing = max(0, least - kept.sum())
        kept[np.flatnonzero(~kept)[:missing]] = True
        chosen = chosen[kept]
        chosen = np.concatenate([chosen, batch[model(batch) > hard]])
        model = model_of(chosen)
    return model
