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
RATES, MOMENTUM, DECAY = (0.05, 0.2, 1.0, 5.0), 0.9, 1e-4
TRIAL_EPOCHS, LEFT_OUT = 10, 5  # the rate is chosen on every fifth frame of those that are taught
EPOCHS = (1, 5, 20, 80, 160)


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
        found[name] = {"ours": _precision(model, tests), "seconds": seconds}
        frames = list(model._frames.values())  # in the order of arrival
        rate = _rate(frames, model.classes_)
        found[name]["rate"] = rate
        for epochs, taken, head in _trained(frames, model.classes_, rate, shuffled=name == "shuffled"):
            found[name][f"{epochs} epochs"] = _precision(_with_head(model, head), tests), taken
        pairs = {"ours": (found[name]["ours"], seconds)} | {key: found[name][key] for key in _epochs(found[name])}
        shares = ", ".join(f"{key} {ap:.1f} ({taken:.2f} s)" for key, (ap, taken) in pairs.items())
        print(f"\n{len(kinds)} classes, {name} stream, AP50 of boxes and CPU seconds: {shares}", flush=True)
    _compare(found)
    return {"heads": found}


def _compare(found: dict[str, Any]) -> None:
    drop = found["shuffled"]["1 epochs"][0] - found["sorted"]["1 epochs"][0]
    gap = abs(found["shuffled"]["ours"] - found["sorted"]["ours"])
    met = "met" if gap <= 1 and drop >= 20 else "MISSED"
    print(f"ours differ by {gap:.1f}, heads after one epoch drop by {drop:.1f} points | {met}")
    shuffled = found["shuffled"]
    close = [shuffled[name][1] for name in _epochs(shuffled) if shuffled[name][0] >= shuffled["ours"] - 2]
    if close:
        ratio = min(close) / shuffled["seconds"]
        print(f"heads within 2 points need {ratio:.1f} × our time | {'met' if ratio >= 5 else 'MISSED'}")
    else:
        best = max(_epochs(shuffled), key=lambda name: shuffled[name][0])
        ap, seconds = shuffled[best]
        print(
            f"no head came within 2 points in {EPOCHS[-1]} epochs; the best, {ap:.1f} against {shuffled['ours']:.1f}, "
            f"needs {seconds / shuffled['seconds']:.1f} × our time"
        )


def _epochs(found: dict[str, Any]) -> list[str]:
    return [name for name in found if name.endswith("epochs")]


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
    return torch.from_numpy(frame.regions.X[rows].astype(np.float32)), torch.from_numpy(labels[rows])


class Head(torch.nn.Module):
    """A linear layer on features minus their mean, whose mean length is one."""

    def __init__(self, frames: list[Frame], outputs: int):
        super().__init__()
        X = torch.from_numpy(np.concatenate([frame.regions.X for frame in frames]).astype(np.float32))
        self.mean = X.mean(0)
        self.length = (X - self.mean).norm(dim=1).mean()
        self.linear = torch.nn.Linear(X.shape[1], outputs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.linear((X - self.mean) / self.length)
        return scores


def _rate(frames: list[Frame], classes: list[str]) -> float:
    """The rate after which heads err least on frames that were left out; this is not counted as their time."""
    random = np.random.default_rng(1)
    held = [_rows(frame, classes, random) for frame in frames[::LEFT_OUT]]
    rest = [frame for place, frame in enumerate(frames) if place % LEFT_OUT]

    def error(rate: float) -> float:
        *_, (_, _, head) = _trained(rest, classes, rate, shuffled=True, most=TRIAL_EPOCHS)
        with torch.no_grad():
            return float(np.mean([functional.cross_entropy(head(X), y).item() for X, y in held]))

    return min(RATES, key=error)


def _trained(
    frames: list[Frame], classes: list[str], rate: float, shuffled: bool, most: int = EPOCHS[-1]
) -> Iterator[tuple[int, float, Head]]:
    """A linear softmax head, one step of gradient a frame, in the order of the stream or shuffled in each epoch.

    Yields the number of epochs, the CPU seconds so far and the head, for each number in `EPOCHS` and for the last.
    """
    random = np.random.default_rng(0)
    torch.manual_seed(0)
    head = Head(frames, len(classes) + 1)
    steps = torch.optim.SGD(head.parameters(), rate, MOMENTUM, weight_decay=DECAY)
    taken = 0.0
    for epoch in range(1, most + 1):
        begin = time.process_time()
        for place in random.permutation(len(frames)) if shuffled else range(len(frames)):
            X, y = _rows(frames[place], classes, random)
            loss = functional.cross_entropy(head(X), y)
            steps.zero_grad()
            loss.backward()
            steps.step()
        taken += time.process_time() - begin
        if epoch in EPOCHS or epoch == most:
            yield epoch, taken, head


def _with_head(model: vision.InstanceSegmenter, head: Head) -> Any:
    """The model with scores of a head in place of its own."""

    class Borrowed:
        def __init__(self, place: int, detector: Any):
            self.place, self.detector = place, detector

        def __call__(self, X: Array) -> tuple[Array, Array]:
            with torch.no_grad():
                shares = head(torch.from_numpy(X)).softmax(1)
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
