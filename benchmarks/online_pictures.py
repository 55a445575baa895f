"""CIFAR-10 sorted by class: one pass over features of a frozen network, beside shuffled order and an epoch of SGD."""

from __future__ import annotations

import io
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

import gyrfalcon as gf
from gyrfalcon import vision

Array = np.ndarray[Any, Any]

NETWORK, SIZE, STRIDES = "efficientnet-lite0", 128, (8, 16, 32)
PER_CLASS = {"train": 300, "test": 200}  # pictures: a minute of one core for their features
FEATURES = 1000
# Chosen by `choose` below: the accuracy on every fourth training picture, of models of the others.
MULTIPLE, PENALTY = 2.0, 0.1
EQUAL = 1e-10  # largest difference of coefficients, over the largest of them


def measure(quick: bool) -> dict[str, Any]:
    path = Path(os.environ.get("GYRFALCON_DATA", ""), "cifar10_jpg", "data.npz")
    if not path.exists():
        print("\nsorted pictures: left out, cifar10_jpg is not in $GYRFALCON_DATA")
        return {}
    if not vision.available(NETWORK):
        print(f"\nsorted pictures: left out, the weights of {NETWORK} are not there: vision.extractor({NETWORK!r})")
        return {}
    step = 20 if quick else 1
    (X, y), (X_test, y_test) = (load(path, part, step) for part in ("train", "test"))
    random = np.random.default_rng(0)
    by_class, shuffled = np.argsort(y, kind="stable"), random.permutation(len(y))
    models = {}
    for name, order in {"sorted": by_class, "shuffled": shuffled}.items():
        begin = time.process_time()
        models[name] = model(X).fit_stream((X[order], y[order]), rows=500)
        seconds = time.process_time() - begin
    first, second = (one.coefficients_[:, np.argsort(one.classes_)] for one in models.values())
    difference = float(np.abs(first - second).max() / np.abs(second).max())
    found: dict[str, Any] = {"pictures": len(y), "difference": difference, "seconds": seconds}
    for name, one in models.items():
        found[name] = _accuracy(one.predict(X_test), y_test)
    features = models["sorted"].features_
    for name, order in {"sgd_sorted": by_class, "sgd_shuffled": shuffled}.items():
        found[name] = _accuracy(_one_epoch(features, X[order], y[order]).predict(features.transform(X_test)), y_test)
    met = difference <= EQUAL and found["sorted"] > found["sgd_sorted"] + 10
    print(
        f"\nCIFAR-10 by class, {len(y):,} pictures, one pass, {FEATURES} random features of {NETWORK}: "
        f"{found['sorted']:.2f} %, shuffled {found['shuffled']:.2f} % (coefficients {difference:.1e} apart) in "
        f"{seconds:.0f} CPU-s | {'met' if met else 'MISSED'}\n"
        f"  one epoch of SGD on the same features: {found['sgd_sorted']:.2f} %, shuffled {found['sgd_shuffled']:.2f} %"
    )
    return {"cifar10": found}


def model(X: Array, multiple: float = MULTIPLE, penalty: float = PENALTY) -> gf.online.RecursiveClassifier:
    """Random features of a Gaussian kernel, whose length scale is a multiple of the root mean square distance."""
    length = multiple * float(np.sqrt(2 * X.var(0).sum()))
    features = gf.RandomFeatures(n_features=FEATURES, length_scale=length, random_state=0).fit(X[:100])
    return gf.online.RecursiveClassifier(features, penalty=penalty)


def choose(X: Array, y: Array) -> list[tuple[float, float, float]]:
    """Accuracy on every fourth training picture, for multiples and penalties."""
    held = np.arange(len(y)) % 4 == 3
    found = []
    for multiple in (0.5, 1.0, 2.0):
        for penalty in (0.01, 0.1, 1.0, 10.0):
            one = model(X[~held], multiple, penalty).fit_stream((X[~held], y[~held]), rows=500)
            found.append((multiple, penalty, _accuracy(one.predict(X[held]), y[held])))
    return found


def _one_epoch(features: Any, X: Array, y: Array) -> SGDClassifier:
    """Logistic regression by stochastic gradients in the order of the rows."""
    learner, classes = SGDClassifier(loss="log_loss", random_state=0), np.unique(y)
    for start in range(0, len(y), 500):
        rows = slice(start, start + 500)
        learner.partial_fit(features.transform(X[rows]), y[rows], classes=classes)
    return learner


def _accuracy(found: Array, y: Array) -> float:
    return 100 * float(np.mean(found == y))


def load(path: Path, part: str, step: int = 1) -> tuple[Array, Array]:
    """Features and labels of the first pictures of each class."""
    with np.load(path) as data:
        buffer, ends, labels = data[f"buf_{part}"].tobytes(), data[f"off_{part}"], data[f"y_{part}"]
    found = [_of_class(buffer, ends, labels, label, part, step) for label in range(10)]
    return np.concatenate(found), np.repeat(np.arange(10), [len(X) for X in found])


def _of_class(buffer: bytes, ends: Array, labels: Array, label: int, part: str, step: int) -> Array:
    """Features of one class, made once and kept in the folder of temporary files."""
    name = f"gyrfalcon-cifar10-{NETWORK}-{SIZE}-{part}-{PER_CLASS[part]}-{step}-{label}.npy"
    kept = Path(tempfile.gettempdir(), name)
    if kept.exists():
        return np.asarray(np.load(kept))
    net = vision.extractor(NETWORK, size=SIZE)
    chosen = np.flatnonzero(labels == label)[: PER_CLASS[part] : step]
    X = np.stack([_features(net, buffer[ends[place] : ends[place + 1]]) for place in chosen])
    np.save(kept, X)
    return X


def _features(net: Any, encoded: bytes) -> Array:
    """Means of the maps over the picture."""
    from PIL import Image

    maps = net(np.array(Image.open(io.BytesIO(encoded)).convert("RGB")))
    return np.concatenate([maps[stride].mean((1, 2)).numpy() for stride in STRIDES]).astype(np.float64)
