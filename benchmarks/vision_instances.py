"""Instances of people: average precision and training time, for few and many pictures, and what the parts give."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from gyrfalcon import vision
from gyrfalcon.vision import anchors, keys

from .vision_data import Pictures, Remembered

Array = np.ndarray[Any, Any]

TEST, FOLDS = 50, 4
ASKED = {20: (90.0, 62.0), 120: (96.0, 72.0)}  # AP of masks at overlaps of 50 and 70 %
SECONDS = 6.0
LEAST = 0.2  # the lowest score that counts
MEASURES = [(of, overlap) for of in ("boxes", "masks") for overlap in (0.5, 0.7)]


def measure(quick: bool, people: Pictures, net: Remembered) -> dict[str, Any]:
    print("\nPenn-Fudan, AP50 and AP70 of boxes and masks, CPU seconds of train() beyond the features")
    found = {}
    for count in _counts(quick):
        rows = [trial(people, net, count, "parallel", seed) for seed in (range(1) if quick else range(3))]
        mean, fixed, sam = (np.mean([row[name] for row in rows], axis=0) for name in ("ap", "fixed", "sam"))
        seconds = float(np.mean([row["train"] for row in rows]))
        met = mean[2] >= ASKED[count][0] and mean[3] >= ASKED[count][1] and (count > 20 or seconds <= SECONDS)
        words = "met" if met else f"MISSED, asked {ASKED[count]}"
        print(f"{count:4} pictures: {_show(mean)} | {words} | {seconds:5.1f} s", flush=True)
        print(f"{count:4} pictures, fixed proposals: {_show(fixed)}", flush=True)
        print(f"{count:4} pictures, refine='sam'   : {_show(sam)}", flush=True)
        found[str(count)] = rows
    return {"instances": found}


def measure_serial(quick: bool, people: Pictures, net: Remembered) -> dict[str, Any]:
    print("\nPenn-Fudan, detection that learns from the trained proposals, as above")
    found = {}
    for count in _counts(quick):
        rows = [trial(people, net, count, "serial", seed) for seed in (range(1) if quick else range(3))]
        seconds = float(np.mean([row["train"] for row in rows]))
        print(
            f"{count:4} pictures: {_show(np.mean([row['ap'] for row in rows], axis=0))} | {seconds:5.1f} s", flush=True
        )
        found[str(count)] = rows
    return {"serial": found}


def measure_folds(quick: bool, people: Pictures, net: Remembered) -> dict[str, Any]:
    """On the pictures that constants were chosen on: how far figures depend on which pictures are left out."""
    known = split(people, len(people.images) - TEST, 0)[0]
    print(f"\nPenn-Fudan, {FOLDS} folds of the {len(known)} pictures to learn from, as above")
    rows = []
    for place in range(1 if quick else FOLDS):
        left_out = known[place::FOLDS]
        model, seconds = _taught(people, net, np.setdiff1d(known, left_out), "parallel", place)
        rows.append({"ap": precision(model, people, left_out), "train": seconds})
        print(f"fold {place}: {_show(rows[-1]['ap'])} | {seconds:5.1f} s", flush=True)
    print(f"  mean: {_show(np.mean([row['ap'] for row in rows], axis=0))}", flush=True)
    return {"folds": rows}


def _counts(quick: bool) -> tuple[int, ...]:
    return (20,) if quick else (20, 120)


def split(people: Pictures, count: int, seed: int) -> tuple[Array, Array]:
    """Pictures to learn from, of which the seed draws some, and 50 others, always the same.

    Constants were chosen on the former.
    """
    order = np.random.default_rng(0).permutation(len(people.images))
    return np.random.default_rng(seed).permutation(order[:-TEST])[:count], order[-TEST:]


def trial(people: Pictures, net: Remembered, count: int, protocol: str, seed: int) -> dict[str, Any]:
    train, test = split(people, count, seed)
    model, seconds = _taught(people, net, train, protocol, seed)
    row: dict[str, Any] = {"train": seconds, "ap": precision(model, people, test)}
    if protocol == "parallel":
        learned, model._model.proposer = model._model.proposer, _fixed
        row["fixed"] = precision(model, people, test)
        model._model.proposer = learned
        row["sam"] = precision(model.set_params(refine="sam"), people, test)
    return row


def _taught(
    people: Pictures, net: Remembered, train: Array, protocol: str, seed: int
) -> tuple[vision.InstanceSegmenter, float]:
    """A model of some pictures, and CPU seconds of train()."""
    model = vision.InstanceSegmenter(net, random_state=seed, protocol=protocol)
    for index in train:
        model.observe(people.images[index], people.masks[index])
    begin = time.process_time()
    model.train()
    return model, time.process_time() - begin


def _fixed(found: Any) -> tuple[Array, Array]:
    """As many anchors as there are proposals, spread over the frame, in place of proposals that were learned."""
    placed = anchors.anchors(found.shape, anchors.grid_of(found.grid)).reshape(-1, 4)
    chosen = keys.smallest(keys.candidate_keys(0, 0, len(placed)), 120)
    limits = np.array(found.shape[::-1] * 2)
    boxes = np.clip(placed[chosen], 0, limits)
    boxes = boxes[(boxes[:, 2:] - boxes[:, :2] >= 2).all(1)]
    return boxes, np.zeros(len(boxes))


def precision(model: vision.InstanceSegmenter, people: Pictures, test: Array) -> list[float]:
    """AP50 and AP70 of boxes, then of masks, in percent."""
    found = [model.predict(people.images[index], min_score=LEAST) for index in test]
    truth = [people.masks[index] for index in test]
    return [100 * vision.average_precision(found, truth, overlap=overlap, of=of).mean for of, overlap in MEASURES]


def _show(ap: Any) -> str:
    return f"boxes {ap[0]:5.1f} {ap[1]:5.1f}, masks {ap[2]:5.1f} {ap[3]:5.1f}"
