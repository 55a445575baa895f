"""A video with exact masks: two Lego models in front of pictures of people, taught in twelve frames."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from gyrfalcon import vision

from .vision_data import Pictures, video

TAUGHT, SHOWN, SIZE = 12, 40, 320
KINDS = {"lego": (0, 1, 2), "blue lego": (2, 1, 0)}
ASKED, RATE = {"lego": 0.65, "blue lego": 0.75}, 4.0


def measure(quick: bool, people: Pictures) -> dict[str, Any]:
    net = vision.extractor("tiny-vit", size=SIZE)  # not remembered: its time counts
    taught = video(people.images[:60], KINDS, TAUGHT, 0, "train")
    shown = video(people.images[60:], KINDS, 10 if quick else SHOWN, 1, "test")
    model = vision.InstanceSegmenter(net)
    for image, masks in zip(taught.images, taught.masks, strict=True):
        model.observe(image, masks)
    begin = time.process_time()
    model.train()
    seconds = time.process_time() - begin
    results = {"train": seconds}
    for refine in (None, "sam"):
        results |= _shown(model.set_params(refine=refine), shown, f"{TAUGHT} frames taught in {seconds:.1f} CPU-s")
    return {"video": results}


def _shown(model: vision.InstanceSegmenter, shown: Pictures, words: str) -> dict[str, Any]:
    """Overlaps of all pixels of each class, and the time of a frame."""
    begin, wall = time.process_time(), time.perf_counter()
    found = [model.predict(image) for image in shown.images]
    cost, wall = (
        (now - then) / len(found) for now, then in ((time.process_time(), begin), (time.perf_counter(), wall))
    )
    overlap = {}
    for kind in KINDS:
        inside = union = 0
        for guesses, masks in zip(found, shown.masks, strict=True):
            right = masks[kind][0]
            guessed = np.any([np.zeros_like(right), *(guess.mask for guess in guesses if guess.label == kind)], axis=0)
            inside, union = inside + (guessed & right).sum(), union + (guessed | right).sum()
        overlap[kind] = float(inside / union)
    met = all(overlap[kind] >= ASKED[kind] for kind in KINDS) and cost <= 2 / RATE
    shares = ", ".join(f"{kind} {share:.3f}" for kind, share in overlap.items())
    print(
        f"\nvideo at {SIZE} pixels, refine={model.refine!r}, {words}: overlap of classes {shares}; {cost:.3f} CPU-s a "
        f"frame, {1 / wall:.1f} frames a second as it ran | {'met' if met else 'MISSED'}",
        flush=True,
    )
    return {f"refine={model.refine}": overlap | {"frame_cpu": cost, "frame_wall": wall}}
