"""Log losses of KernelClassifier() as it comes, with and without its calibration, beside gradient boosting.

Only training rows of the tables that are for choosing constants are used, from the folder in $GYRFALCON_DATA: three
quarters are fitted and the others predicted.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

import gyrfalcon as gf

from . import machine

Array = np.ndarray[Any, Any]
TABLES = ("fault", "waveform", "spambase", "landsat", "campaign")
QUICK = ("fault", "spambase")
SPLITS, FITTED = 2, 0.75
LEAST_CHANCE = 1e-6  # what the nearest probabilities are raised to, which may be zero


def run(quick: bool) -> None:
    print(machine.headline(machine.describe()))
    print("Log losses; ratios are those of calibrated probabilities to gradient boosting.")
    ratios = []
    for name in QUICK if quick else TABLES:
        found = _training_rows(name)
        if found is None:
            print(f"{name}: left out, it is not in $GYRFALCON_DATA")
            continue
        for split in range(SPLITS):
            ratios.append(_compare(name, split, *found))
    if ratios:
        print(
            f"median ratio {statistics.median(ratios):.3f}, at most one on {sum(r <= 1 for r in ratios)}/{len(ratios)}"
        )


def _compare(name: str, split: int, X: Array, y: Array) -> float:
    order = np.random.default_rng(1000 + split).permutation(len(y))
    fitted, held = np.split(order, [int(FITTED * len(y))])
    started = time.perf_counter()
    model = gf.KernelClassifier(random_state=0, verbose=False).fit(X[fitted], y[fitted])
    seconds = time.perf_counter() - started
    calibrated = log_loss(y[held], model.predict_proba(X[held]), labels=model.classes_)
    share = model.record_.seconds.get("calibrate", 0.0) / seconds
    model.calibration_ = None
    nearest = np.maximum(model.predict_proba(X[held]), LEAST_CHANCE)
    plain = log_loss(y[held], nearest / nearest.sum(1, keepdims=True), labels=model.classes_)
    boosted = HistGradientBoostingClassifier(random_state=0).fit(X[fitted], y[fitted])
    theirs = log_loss(y[held], boosted.predict_proba(X[held]), labels=model.classes_)
    print(
        f"{name}, split {split}: nearest {plain:.4f}, calibrated {calibrated:.4f}, boosting {theirs:.4f}, "
        f"ratio {calibrated / theirs:.3f}; calibration took {share:.0%} of {seconds:.1f} s",
        flush=True,
    )
    return float(calibrated / theirs)


def _training_rows(name: str) -> tuple[Array, Array] | None:
    path = Path(os.environ.get("GYRFALCON_DATA", ""), name, "data.npz")
    if not path.exists():
        return None
    with np.load(path) as file:
        X, y = file["X"].astype(np.float64), file["y"].ravel().astype(int)
        train = np.random.default_rng(0).random(len(y)) < 0.8
        if "test_mask" in file.files:
            train = ~file["test_mask"][:, 0].astype(bool)
    return X[train], y[train]
