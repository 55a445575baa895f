"""Streams that are sorted by class, beside linear heads that gradients train: one epoch, and as many as they need.

The heads see the same features of the same regions, and share proposals and refiners with our model, so that only the
classifiers of regions differ. Average precision is that of boxes; no masks are made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from gyrfalcon import vision
from gyrfalcon.vision.frames import REGION_NEGATIVE, REGION_POSITIVE, Frame

from .vision_data import Pictures, Remembered, video

Array = np.ndarray[Any, Any]

KINDS = {"rgb": (0, 1, 2), "bgr": (2, 1, 0), "gbr": (1, 2, 0), "rrb": (0, 0, 2)}
FRAMES, SHOWN, SIZE = 10, 16, 320  # frames of each class to learn from, frames to test
RATE, MOMENTUM, DECAY = 0.05, 0.9, 1e-4
EPOCHS = (1, 5, 20, 80, 160)
SCALE = 20.0  # the length of features, which heads see divided by it


def measure(quick: bool, people: Pictures, net: Remembered) -> dict[str, Any]:
    small = Remembered(vision.extractor("tiny-vit", size=SIZE))
    kinds = dict(list(KINDS.items())[: 2 if quick else 4])
    count = 4 if quick else FRAMES
    shown = [video(people.images[:60], {kind: KINDS[kind]}, count, seed, "train") for seed, kind in enumerate(kinds)]
    stream = [pair for part in shown for pair in zip(part.images, part.masks, strict=True)]
    tests = video(people.images[60:], dict(list(kinds.items())[:2]), 6 if quick else SHOWN, 9, "test")
    orders = {"sorted": np.arange(len(stream)), "shuffled": np.random.default_rng(0).permutation(len(stream))}
    found: dict[str, Any] = {}
    for name, order in orders.items():
        model = vision.InstanceSegmenter(small)
        for place in order:
            model.observe(*stream[place])
        seconds = min(_seconds(model.train) for _ in range(2))  # of all three modules
        found[name] = {"ours": (_precision(model, tests), seconds)}
        frames = list(model._frames.values())  # in the order of arrival
        for epochs, taken, head in _trained(frames, model.classes_, shuffled=name == "shuffled"):
            found[name][f"{epochs} epochs"] = _precision(_with_head(model, head), tests), taken
        shares = ", ".join(f"{key} {ap:.1f} ({seconds:.2f} s)" for key, (ap, seconds) in found[name].items())
        print(f"\n{len(kinds)} classes, {name} stream, AP50 of boxes and CPU seconds: {shares}", flush=True)
    _compare(found)
    return {"heads": found}


def _compare(found: dict[str, Any]) -> None:
    drop = found["shuffled"]["1 epochs"][0] - found["sorted"]["1 epochs"][0]
    gap = abs(found["shuffled"]["ours"][0] - found["sorted"]["ours"][0])
    met = "met" if gap <= 1 and drop >= 20 else "MISSED"
    print(f"ours differ by {gap:.1f}, heads after one epoch drop by {drop:.1f} points | {met}")
    precision, seconds = found["shuffled"]["ours"]
    close = [taken for name, (ap, taken) in found["shuffled"].items() if name != "ours" and ap >= precision - 2]
    if close:
        ratio = min(close) / seconds
        print(f"heads within 2 points need {ratio:.1f} × our time | {'met' if ratio >= 5 else 'MISSED'}")
    else:
        print(f"no head came within 2 points in {EPOCHS[-1]} epochs")


def _seconds(act: Any) -> float:
    begin = time.process_time()
    act()
    return time.process_time() - begin


def _rows(frame: Frame, classes: list[str], random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Positives of all classes and three times as many negatives, as R-CNN's heads see them."""
    labels = np.full(len(frame.regions.keys), -1)
    negative = np.ones(len(labels), dtype=bool)
    for label in frame.labels:
        kind = frame.kind(label)
        assert kind is not None
        labels[frame.regions.positive(kind, REGION_POSITIVE)] = classes.index(label)
        negative &= frame.regions.overlap[:, kind] < REGION_NEGATIVE
    positive, others = np.flatnonzero(labels >= 0), np.flatnonzero(negative)
    others = random.choice(others, min(len(others), 3 * max(8, len(positive))), replace=False)
    labels[others] = len(classes)
    rows = np.concatenate([positive, others])
    return torch.from_numpy(frame.regions.X[rows].astype(np.float32) / SCALE), torch.from_numpy(labels[rows])


def _trained(frames: list[Frame], classes: list[str], shuffled: bool) -> Iterator[tuple[int, float, torch.nn.Linear]]:
    """A linear softmax head, one step of gradient a frame, in the order of the stream or shuffled in each epoch.

    Yields the number of epochs, the CPU seconds so far and the head, for each number in `EPOCHS`.
    """
    random = np.random.default_rng(0)
    torch.manual_seed(0)
    head = torch.nn.Linear(frames[0].regions.X.shape[1], len(classes) + 1)
    steps = torch.optim.SGD(head.parameters(), RATE, MOMENTUM, weight_decay=DECAY)
    taken = 0.0
    for epoch in range(1, EPOCHS[-1] + 1):
        begin = time.process_time()
        for place in random.permutation(len(frames)) if shuffled else range(len(frames)):
            X, y = _rows(frames[place], classes, random)
            loss = functional.cross_entropy(head(X), y)
            steps.zero_grad()
            loss.backward()
            steps.step()
        taken += time.process_time() - begin
        if epoch in EPOCHS:
            yield epoch, taken, head


def _with_head(model: vision.InstanceSegmenter, head: torch.nn.Linear) -> Any:
    """The model with scores of a head in place of its own."""

    class Borrowed:
        def __init__(self, place: int, detector: Any):
            self.place, self.detector = place, detector

        def __call__(self, X: Array) -> tuple[Array, Array]:
            with torch.no_grad():
                shares = head(torch.from_numpy(X / SCALE)).softmax(1)
            return 2 * shares[:, self.place].numpy() - 1, self.detector(X)[1]

    return _with(
        model, {label: Borrowed(model.classes_.index(label), one) for label, one in model._model.detectors.items()}
    )


def _with(model: vision.InstanceSegmenter, detectors: dict[str, Any]) -> vision.InstanceSegmenter:
    """The model with other detectors, and without masks."""
    other = vision.InstanceSegmenter(model.net)
    other._ready()
    other._features, other.classes_ = model._features, model.classes_
    other._model = type(model._model)(model._model.proposer, detectors, {})
    return other


def _precision(model: vision.InstanceSegmenter, tests: Pictures) -> float:
    boxes_only = _with(model, model._model.detectors)
    found = [boxes_only.predict(image, min_score=0.02) for image in tests.images]
    return round(100 * vision.average_precision(found, tests.masks, overlap=0.5, of="boxes").mean, 1)
