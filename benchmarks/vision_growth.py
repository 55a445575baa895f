"""Whether the work after the last frame grows with the number of frames: CPU seconds of one thread."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from gyrfalcon import vision

from .vision_data import Pictures, Remembered
from .vision_instances import split

COUNTS = (5, 20, 50, 100)
TIMES = 3  # that each is measured
MOST = 1.2  # the largest ratio that is asked for


def measure(quick: bool, people: Pictures, net: Remembered) -> dict[str, Any]:
    print("\nPenn-Fudan, CPU seconds (one thread) of train() and of the last observe() without its features")
    counts = COUNTS[:2] if quick else COUNTS
    model = vision.InstanceSegmenter(net)
    found: dict[int, dict[str, float]] = {}
    for number, index in enumerate(split(people, counts[-1], 0)[0], start=1):
        image, masks = people.images[index], people.masks[index]
        features = _seconds(lambda image=image: model._features(image)) if number > 1 else 0.0
        again = _seconds(lambda image=image: model._features(image)) if number > 1 else 0.0
        observe = _seconds(lambda image=image, masks=masks: model.observe(image, masks)) - min(features, again)
        if number not in counts:
            continue
        train_anew(model)
        train = median(_seconds(lambda: train_anew(model)) for _ in range(TIMES))
        found[number] = {"train": train, "observe": observe}
        ratio = train / found[counts[0]]["train"]
        words = "" if number == counts[0] else f" | {'met' if 1 / MOST <= ratio <= MOST else 'MISSED'}"
        print(f"{number:4} frames: train {train:5.2f} s, {ratio:.2f} ×; observe {observe:5.2f} s{words}", flush=True)
    return {"growth": found}


def train_anew(model: vision.InstanceSegmenter) -> None:
    """Everything from the beginning, also the masks of classes of which nothing changed."""
    model._solved.clear()
    model.train()


def _seconds(act: Any) -> float:
    begin = time.process_time()
    act()
    return time.process_time() - begin
