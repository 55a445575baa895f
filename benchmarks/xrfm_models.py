"""xRFM's recursive feature machines, fitted as its documentation does: to scaled features, with rows held out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import xrfm
from sklearn.preprocessing import StandardScaler

Array = np.ndarray[Any, Any]
HELD_OUT = 0.2


class _Features:
    """What both kinds share: fit, and outputs of rows."""

    tuning_metric = ""

    def __init__(self, seed: int):
        self.seed = seed

    def _fit(self, X: Array, y: Array) -> None:
        self.scaler = StandardScaler().fit(X)
        order = torch.from_numpy(np.random.default_rng(self.seed).permutation(len(X)))
        held, kept = order[: int(HELD_OUT * len(X))], order[int(HELD_OUT * len(X)) :]
        rows, targets = self._scaled(X), torch.from_numpy(y)
        self.model = xrfm.xRFM(
            device=torch.device("cpu"), tuning_metric=self.tuning_metric, random_state=self.seed, verbose=False
        )
        self.model.fit(rows[kept], targets[kept], rows[held], targets[held])

    def _scaled(self, X: Array) -> torch.Tensor:
        return torch.from_numpy(self.scaler.transform(X).astype(np.float32))


class Regressor(_Features):
    """The targets are scaled, too."""

    tuning_metric = "mse"

    def fit(self, X: Array, y: Array) -> Regressor:
        self.mean, self.deviation = float(np.mean(y)), float(np.std(y)) or 1.0
        self._fit(X, ((y - self.mean) / self.deviation).astype(np.float32)[:, None])
        return self

    def predict(self, X: Array) -> Array:
        return self.mean + self.deviation * np.asarray(self.model.predict(self._scaled(X)))[:, 0]


class Classifier(_Features):
    """Classes are numbered, as xRFM has them."""

    tuning_metric = "accuracy"

    def fit(self, X: Array, y: Array) -> Classifier:
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self._fit(X, numbers)
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self.classes_[np.asarray(self.model.predict(self._scaled(X))).ravel()])

    def predict_proba(self, X: Array) -> Array:
        chances = np.asarray(self.model.predict_proba(self._scaled(X)))
        return np.column_stack([1 - chances, chances]) if chances.shape[1] == 1 else chances
