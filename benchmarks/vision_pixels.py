"""Classes of pixels beside scikit-learn's forest and logistic regression on the same features."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from gyrfalcon import vision
from gyrfalcon.vision.pixels import upsampled

from .vision_data import Pictures, Remembered
from .vision_instances import split

Array = np.ndarray[Any, Any]

TRAIN, TEST, CELLS = 10, 40, 800
PATIENCE = 25.0  # milliseconds to predict a picture, beyond its features


def measure(quick: bool, people: Pictures, net: Remembered) -> dict[str, Any]:
    print(f"\npixels of people, {TRAIN} pictures of {CELLS} marked cells, {TEST} others: overlap, CPU seconds")
    found = [_trial(people, net, seed) for seed in (range(1) if quick else range(3))]
    mean = {name: np.mean([row[name] for row in found], axis=0) for name in found[0]}
    for name, (iou, seconds, predict) in mean.items():
        print(f"{name:>12}: {iou:.3f}, fit {seconds:6.2f} s, predict {1e3 * predict:5.1f} ms a picture", flush=True)
    ours, forest, logistic = (mean[name] for name in ("gyrfalcon", "forest", "logistic"))
    ratio = forest[1] / ours[1]
    met = ours[0] >= max(0.8, forest[0], logistic[0] + 0.01) and ratio >= 20 and 1e3 * ours[2] <= PATIENCE
    print(f"{ratio:.0f} × faster than the forest | {'met' if met else 'MISSED'}", flush=True)
    return {"pixels": {name: values.tolist() for name, values in mean.items()}}


def _trial(people: Pictures, net: Remembered, seed: int) -> dict[str, list[float]]:
    train, others = split(people, TRAIN, seed)
    test = others[:TEST]
    marks = [1 + np.any(people.masks[index]["person"], axis=0).astype(int) for index in train]
    model = vision.PixelClassifier(net, cells_per_image=CELLS, random_state=seed)
    model.fit([people.images[index] for index in train], marks)
    rows = list(model._model.frames.values())
    X, y = np.concatenate([part.X for part in rows]), np.concatenate([part.labels for part in rows])
    maps = [model._features(people.images[index]) for index in test]
    truth = [np.any(people.masks[index]["person"], axis=0) for index in test]
    results = {}
    begin = time.process_time()
    model._model.frames, model._model.arrived = {}, 0
    model._model.add_all(dict(enumerate(rows)))
    model.train()
    seconds = time.process_time() - begin
    results["gyrfalcon"] = [*_judge(lambda cells: _difference(model._predictor(cells)), maps, truth)]
    results["gyrfalcon"].insert(1, seconds)
    for name, other in (
        ("forest", RandomForestClassifier(100, random_state=0, n_jobs=1)),
        ("logistic", LogisticRegression(C=1.0, max_iter=2000)),
    ):
        begin = time.process_time()
        other.fit(X / 20, y)
        seconds = time.process_time() - begin
        overlap, predict = _judge(lambda cells, other=other: other.predict_proba(cells / 20)[:, 1] - 0.5, maps, truth)
        results[name] = [overlap, seconds, predict]
    return results


def _difference(scores: Array) -> Array:
    return np.asarray(scores[:, 1] - scores[:, 0])


def _judge(score: Any, maps: list[Any], truth: list[Array]) -> tuple[float, float]:
    """Overlap of what scores above zero with the truth, over all pictures, and CPU seconds a picture."""
    inside = union = 0
    begin = time.process_time()
    masks = [upsampled(score(found.rows().numpy())[:, None], found)[:, :, 0] > 0 for found in maps]
    seconds = (time.process_time() - begin) / len(maps)
    for mask, right in zip(masks, truth, strict=True):
        inside, union = inside + (mask & right).sum(), union + (mask | right).sum()
    return float(inside / union), seconds
