"""Streams in which objects are shown one after another, beside output layers that gradients train on the same features.

As in the seeds' HO-3D: each object has its sequence of frames, and the sequences follow each other. One epoch without
shuffling is what a stream allows gradients; shuffled epochs need all frames to be stored first.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from gyrfalcon import vision

from .vision_data import Pictures, Remembered, video
from .vision_instances import LEAST
from .vision_output_layers import Taught, mean_loss, taught_frames, trained

KINDS = {
    "yellow": (0, 1, 2),
    "cyan": (2, 1, 0),
    "magenta": (1, 2, 0),
    "red": (0, 2, 2),
    "green": (2, 0, 2),
    "blue": (2, 2, 0),
}  # which channels of the Lego model each object takes
FRAMES, SHOWN, SIZE = 40, 12, 320  # frames of each object to learn from, frames of each pair of objects to test
RATES = (0.03, 0.1, 0.3, 1.0, 3.0)
TRIAL_EPOCHS, LEFT_OUT = 3, 5  # the rate is chosen on every fifth frame of those that are taught
EPOCHS = (1, 2, 5, 10, 20)
DROP, GAP, RATIO = 20.0, 1.0, 5.0  # what is asked for
CLOSE = 2.0  # points


def measure(quick: bool, people: Pictures, net: Remembered) -> dict[str, Any]:
    small, kinds = Remembered(vision.extractor("tiny-vit", size=SIZE)), dict(list(KINDS.items())[: 2 if quick else 6])
    stream, tests = _stream(people, kinds, 8 if quick else FRAMES), _tests(people, kinds, 4 if quick else SHOWN)
    found: dict[str, Any] = {}
    print(f"\n{len(kinds)} objects, {len(stream)} frames: AP50 of boxes and of masks, CPU seconds beyond the features")
    for name, order in _orders(len(stream)).items():
        model = vision.InstanceSegmenter(small)
        for place in order:
            model.observe(*stream[place])
        seconds = min(_seconds(model.train) for _ in range(2))
        found[name] = {"ours": [*_precision(model, tests), seconds]}
        _show(name, "ours", found[name]["ours"])
        frames = taught_frames(model)
        if name == "shuffled":  # first: the rate is chosen once
            found["rate"] = _rate(frames, model.classes_)
            print(f"rate {found['rate']}", flush=True)
        epochs = EPOCHS[: 3 if quick else None] if name == "shuffled" else EPOCHS[:1]
        for epoch in epochs:
            layers, taken = trained(frames, model.classes_, found["rate"], epoch, name == "shuffled")
            model._model = layers.model()
            found[name][f"{epoch} epochs"] = [*_precision(model, tests), taken]
            _show(name, f"output layers, {epoch} epochs", found[name][f"{epoch} epochs"])
            if found[name][f"{epoch} epochs"][1] > found[name]["ours"][1]:
                break
    _compare(found["shuffled"], found["sorted"])
    return {"heads": found}


def _stream(people: Pictures, kinds: dict[str, tuple[int, int, int]], count: int) -> list[Any]:
    """Frames with one object each, sorted by object."""
    parts = [video(people.images[:60], {kind: kinds[kind]}, count, seed, "train") for seed, kind in enumerate(kinds)]
    return [pair for part in parts for pair in zip(part.images, part.masks, strict=True)]


def _tests(people: Pictures, kinds: dict[str, tuple[int, int, int]], count: int) -> Pictures:
    """Frames with two objects each, of all pairs of neighbors."""
    names = list(kinds)
    pairs = [{name: kinds[name] for name in names[place : place + 2]} for place in range(0, len(names), 2)]
    parts = [video(people.images[60:], pair, count, 90 + seed, "test") for seed, pair in enumerate(pairs)]
    return Pictures([image for part in parts for image in part.images], [mask for part in parts for mask in part.masks])


def _orders(count: int) -> dict[str, Any]:
    return {"shuffled": np.random.default_rng(0).permutation(count), "sorted": np.arange(count)}


def _rate(frames: list[Taught], classes: list[str]) -> float:
    """The rate with the least loss on frames that were left out; this is not counted as time."""
    rest = [frame for place, frame in enumerate(frames) if place % LEFT_OUT]

    def error(rate: float) -> float:
        loss = mean_loss(trained(rest, classes, rate, TRIAL_EPOCHS, shuffled=True)[0], frames[::LEFT_OUT])
        return loss if np.isfinite(loss) else np.inf

    return min(RATES, key=error)


def _compare(shuffled: dict[str, Any], sorted_: dict[str, Any]) -> None:
    gap = max(abs(a - b) for a, b in zip(shuffled["ours"][:2], sorted_["ours"][:2], strict=True))
    drop = shuffled["1 epochs"][1] - sorted_["1 epochs"][1]
    met = "met" if gap <= GAP and drop >= DROP else "MISSED"
    print(f"ours differ by {gap:.1f} points, output layers after one epoch drop by {drop:.1f} (masks) | {met}")
    ap, seconds = shuffled["ours"][1:]
    layers = {name: values for name, values in shuffled.items() if name.endswith("epochs")}
    close = [values[2] for values in layers.values() if abs(values[1] - ap) <= CLOSE or values[1] > ap]
    if close:
        ratio = min(close) / seconds
        met = "met" if ratio >= RATIO else "MISSED"
        print(f"output layers within {CLOSE:g} points need {ratio:.1f} × our time | {met}")
        return
    name, (_, best, taken) = max(layers.items(), key=lambda item: item[1][1])
    print(
        f"output layers did not come within {CLOSE:g} points; the best, {best:.1f} against {ap:.1f} after {name}, need "
        f"{taken / seconds:.1f} × our time | {'met' if taken >= RATIO * seconds else 'MISSED'}"
    )


def _precision(model: vision.InstanceSegmenter, tests: Pictures) -> tuple[float, float]:
    """AP50 of boxes and of masks."""
    found = [model.predict(image, min_score=LEAST) for image in tests.images]
    boxes, masks = (100 * vision.average_precision(found, tests.masks, of=of).mean for of in ("boxes", "masks"))
    return round(boxes, 1), round(masks, 1)


def _show(order: str, name: str, values: list[float]) -> None:
    boxes, masks, seconds = values
    print(f"{order:>9} {name:<26}: boxes {boxes:5.1f}, masks {masks:5.1f}, {seconds:6.2f} s", flush=True)


def _seconds(act: Any) -> float:
    begin = time.process_time()
    act()
    return time.process_time() - begin
