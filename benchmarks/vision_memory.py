"""Whether memory stays bounded over ten thousand frames, with an extractor that only knows colors."""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np

from gyrfalcon import vision

Array = np.ndarray[Any, Any]

FRAMES, STEPS = 10_000, 5
SHAPE = (48, 64)
MOST_GROWTH = 1.05  # of what is kept, from halfway on


def measure(quick: bool) -> dict[str, Any]:
    count = FRAMES // 20 if quick else FRAMES
    print(
        f"\n{count:,} frames of {SHAPE[0]} × {SHAPE[1]} pixels: MB that the model keeps, MB of the process at its peak"
    )
    model = vision.InstanceSegmenter(_colors, n_centers=(100, 100, 50), n_batches=2)
    random, found = np.random.default_rng(0), {}
    begin = time.process_time()
    for number in range(1, count + 1):
        model.observe(*_frame(random))
        if number % (count // STEPS) == 0:
            model.train()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            found[number] = {"kept": _kept(model) / 1e6, "peak": peak}
            seconds = (time.process_time() - begin) / number
            kept = f"{found[number]['kept']:7.1f} kept, {peak:7.0f} at the peak"
            print(f"{number:6,} frames: {kept}, {1e3 * seconds:.1f} CPU-ms a frame", flush=True)
    halfway, end = (found[place * count // STEPS]["kept"] for place in (STEPS // 2 + 1, STEPS))
    print(f"from then on {end / halfway:.3f} × | {'met' if end <= MOST_GROWTH * halfway else 'MISSED'}")
    return {"memory": found}


def _colors(image: Array) -> dict[int, Array]:
    return {8: image[2::4, 2::4].transpose(2, 0, 1) / 255.0 + 0.01}


def _frame(random: np.random.Generator) -> tuple[Array, dict[str, Array]]:
    """A noisy frame with a rectangle of one of two colors."""
    image, mask = random.integers(90, 130, (*SHAPE, 3), dtype=np.uint8), np.zeros(SHAPE, dtype=bool)
    top, left = random.integers(0, SHAPE[0] - 20), random.integers(0, SHAPE[1] - 16)
    mask[top : top + 20, left : left + 16] = True
    label = str(random.choice(["red", "blue"]))
    image[mask] = (220, 40, 40) if label == "red" else (40, 60, 220)
    return image, {label: mask}


def _kept(model: vision.InstanceSegmenter) -> float:
    """Bytes of all arrays that a model keeps."""
    regions = [one for frame in model._frames.values() for one in (frame.locations, frame.regions)]
    total = sum(getattr(part, name).nbytes for part in regions for name in ("X", "keys", "overlap", "codes", "best"))
    total += sum(frame.regions.shapes.nbytes for frame in model._frames.values())
    masks = [rows for frame in model._frames.values() for rows in frame.masks.values()]
    total += sum(rows.X.nbytes + rows.inside.nbytes + rows.keys.nbytes for rows in masks)
    return float(total + 8 * len(model._digests))
