"""Streams in which objects are shown one after another, beside output layers that gradients train on the same features.

As in the seeds' HO-3D: each object has its sequence of frames, and the sequences follow each other. One epoch without
shuffling is what a stream allows gradients; shuffled epochs need all frames to be stored first. Rates of gradients are
chosen on development streams of the same objects: other views, places and backgrounds, none of them tested.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from gyrfalcon import vision

from .vision_data import Array, Pictures, Remembered, video
from .vision_growth import train_anew
from .vision_instances import LEAST
from .vision_output_layers import Taught, mean_losses, taught_frames, trained

KINDS = {
    "yellow": (0, 1, 2),
    "cyan": (2, 1, 0),
    "magenta": (1, 2, 0),
    "red": (0, 2, 2),
    "green": (2, 0, 2),
    "blue": (2, 2, 0),
}  # which channels of the Lego model each object takes
FRAMES, SHOWN, SIZE = 40, 12, 320  # frames of each object to learn from, frames of each pair of objects to test
RATES = {"location scores": 3.0, "location codes": 2e-4, "region scores": 0.01, "region codes": 1e-4, "masks": 0.03}
STEPS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # times those are tried
LEFT_OUT = 5  # every fifth frame of a development stream decides
TAUGHT, DEVELOPMENT, TESTED = slice(40), slice(40, 60), slice(60, None)  # which pictures are backgrounds
EPOCHS = (1, 2, 5, 10, 20)
DROP, GAP, RATIO = 20.0, 1.0, 5.0  # what is asked for
CLOSE = 2.0  # points


def measure(quick: bool, people: Pictures, net: Remembered) -> dict[str, Any]:
    small, kinds = Remembered(vision.extractor("tiny-vit", size=SIZE)), dict(list(KINDS.items())[: 2 if quick else 6])
    count = 8 if quick else FRAMES
    stream = _stream(people.images[TAUGHT], kinds, count, seed=0)
    tests = _tests(people.images[TESTED], kinds, 4 if quick else SHOWN)
    development = _development(
        small, _stream(people.images[DEVELOPMENT], kinds, count * LEFT_OUT // (LEFT_OUT - 1), 200)
    )
    found: dict[str, Any] = {}
    print(f"\n{len(kinds)} objects, {len(stream)} frames: AP50 of boxes and of masks, CPU seconds beyond the features")
    for name, order in _orders(len(stream)).items():
        model = vision.InstanceSegmenter(small)
        observe = sum(_seconds(partial(model.observe, *stream[place])) for place in order)
        observe -= sum(_seconds(partial(model._features, stream[place][0])) for place in order)
        seconds = min(_seconds(partial(train_anew, model)) for _ in range(2))
        found[name] = {"ours": [*_precision(model, tests), seconds], "observe": observe}
        _show(name, "ours", found[name]["ours"])
        print(
            f"{'':>9} and {observe:.2f} s while frames arrive, for the rows that ours and layers learn from", flush=True
        )
        frames, shuffled = taught_frames(model), name == "shuffled"
        for epochs in EPOCHS[: 3 if quick else None] if shuffled else EPOCHS[:1]:
            rates = _rates(development, model.classes_, epochs, shuffled)
            runs = [trained(frames, model.classes_, rates, epochs, shuffled) for _ in range(2)]
            model._model = runs[0][0].model()
            found[name][f"{epochs} epochs"] = [*_precision(model, tests), min(taken for _, taken in runs)]
            found[name][f"{epochs} epochs, rates"] = rates
            _show(name, f"output layers, {epochs} epochs", found[name][f"{epochs} epochs"])
    _compare(found["shuffled"], found["sorted"])
    return {"heads": found}


def _stream(backgrounds: list[Array], kinds: dict[str, tuple[int, int, int]], count: int, seed: int) -> list[Any]:
    """Frames with one object each, sorted by object."""
    parts = [video(backgrounds, {kind: kinds[kind]}, count, seed + place, "train") for place, kind in enumerate(kinds)]
    return [pair for part in parts for pair in zip(part.images, part.masks, strict=True)]


def _development(net: Remembered, stream: list[Any]) -> list[Taught]:
    model = vision.InstanceSegmenter(net)
    for pair in stream:
        model.observe(*pair)
    return taught_frames(model)


def _tests(backgrounds: list[Array], kinds: dict[str, tuple[int, int, int]], count: int) -> Pictures:
    """Frames with two objects each, of all pairs of neighbors."""
    names = list(kinds)
    pairs = [{name: kinds[name] for name in names[place : place + 2]} for place in range(0, len(names), 2)]
    parts = [video(backgrounds, pair, count, 90 + seed, "test") for seed, pair in enumerate(pairs)]
    return Pictures([image for part in parts for image in part.images], [mask for part in parts for mask in part.masks])


def _orders(count: int) -> dict[str, Any]:
    return {"shuffled": np.random.default_rng(0).permutation(count), "sorted": np.arange(count)}


def _rates(frames: list[Taught], classes: list[str], epochs: int, shuffled: bool) -> dict[str, float]:
    """For each part the rate with the least loss on frames that were left out; this is not counted as time."""
    rest = [frame for place, frame in enumerate(frames) if place % LEFT_OUT]
    grids = [{name: step * rate for name, rate in RATES.items()} for step in STEPS]
    losses = [mean_losses(trained(rest, classes, rates, epochs, shuffled)[0], frames[::LEFT_OUT]) for rates in grids]
    places = {name: int(np.argmin([loss[name] for loss in losses])) for name in RATES}
    for name in [name for name, place in places.items() if place in (0, len(STEPS) - 1)]:
        print(f"the rate of {name} for {epochs} epochs is at the border of its grid", flush=True)
    return {name: grids[place][name] for name, place in places.items()}


def _compare(shuffled: dict[str, Any], sorted_: dict[str, Any]) -> None:
    gap = max(abs(a - b) for a, b in zip(shuffled["ours"][:2], sorted_["ours"][:2], strict=True))
    drops = [a - b for a, b in zip(shuffled["1 epochs"][:2], sorted_["1 epochs"][:2], strict=True)]
    print(f"ours differ by {gap:.1f} points | {'met' if gap <= GAP else 'MISSED'}")
    met = "met" if min(drops) >= DROP else "MISSED"
    print(f"output layers drop by {drops[0]:.1f} (boxes) and {drops[1]:.1f} (masks) after one epoch | {met}")
    name, near = first_near(shuffled)
    ratio = shuffled[name][2] / shuffled["ours"][2]
    met = "met" if ratio >= RATIO else "MISSED" if near else "not decided"
    words = "are" if near else "are not"
    print(f"output layers {words} within {CLOSE:g} points after {name}, {ratio:.1f} × our time | {met}")


def first_near(shuffled: dict[str, Any]) -> tuple[str, bool]:
    """The fewest epochs after which output layers are within two points of ours; the most if they never are."""
    layers = [name for name in shuffled if name.endswith("epochs")]
    for name in layers:
        if min(b - a for a, b in zip(shuffled["ours"][:2], shuffled[name][:2], strict=True)) >= -CLOSE:
            return name, True
    return layers[-1], False


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
