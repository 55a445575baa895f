"""What a classifier of streams answers: scores, recoded by the shares of the classes, probabilities and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gyrfalcon.estimators.data import hand_back

from .base import RecursiveEstimator
from .classes import Classes
from .recoding import HeldOut, choose_strength, decided, nearest_probabilities, recoded
from .window import Window

Array = np.ndarray[Any, Any]


class ClassScores(RecursiveEstimator):
    """The questions to a `RecursiveClassifier`."""

    recode: float | str
    _classes: Classes
    _totals: Array  # weights of the classes, in the order of the columns
    _held_out: HeldOut | None

    def predict(self, X: Any) -> Any:
        """The labels with the highest scores, as the kind of X.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, features)
        """
        columns = decided(self._outputs(X), self._weights(), self.recode_)
        return hand_back(self._classes.labels[columns], X, ["label"], None)

    def decision_function(self, X: Any) -> Any:
        """Scores of the classes, recoded, of shape (n, classes); of two classes the second's less the first's.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, features)
        """
        scores = self._scores(X)
        if scores.shape[1] <= 2:
            flat = scores[:, -1] - scores[:, 0] if scores.shape[1] == 2 else scores[:, 0]
            return hand_back(flat, X, ["score"], None)
        return hand_back(scores, X, self._labels_as_names(), None)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, of shape (n, classes), in the order of `classes_`.

        The scores estimate the probabilities, those of a world with other shares of classes if they are recoded; they
        are moved to the nearest ones that are positive and add up to one.

        Parameters
        ----------
        X : array, data frame, tensor or sparse matrix of shape (n, features)
        """
        return hand_back(self._probabilities(X), X, self._labels_as_names(), None)

    def predict_one(self, x: Any) -> Any:
        """The label for one row, None before any was learned: see `learn_one`.

        Parameters
        ----------
        x : mapping of str to float, or sequence of floats
        """
        if not hasattr(self, "_memory"):
            return None
        scores = self._factor().predict(self._design_of_one(x))
        column = int(decided(scores, self._weights(), self.recode_)[0])
        return self._classes.labels[column : column + 1].tolist()[0]

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """The probabilities of the classes for one row: see `learn_one`.

        Parameters
        ----------
        x : mapping of str to float, or sequence of floats
        """
        if not hasattr(self, "_memory"):
            return {}
        totals = self._weights()
        scores = recoded(self._factor().predict(self._design_of_one(x)), totals, self.recode_)
        values = nearest_probabilities(scores, totals > 0)[0]
        return dict(zip(self._classes.labels.tolist(), values.tolist(), strict=True))

    def _probabilities(self, X: Any) -> Array:
        totals = self._weights()
        scores = recoded(self._outputs(X), totals, self.recode_)
        return nearest_probabilities(scores, totals > 0)[:, self._classes.columns]

    def _scores(self, X: Any) -> Array:
        """Recoded, in the order of the sorted classes."""
        return recoded(self._outputs(X), self._weights(), self.recode_)[:, self._classes.columns]

    def _weights(self) -> Array:
        """The weights of the classes as the model knows them, in the order of the columns."""
        check_is_fitted(self, "_memory")
        return self._memory.totals() if isinstance(self._memory, Window) else self._totals

    @property
    def counts_(self) -> Array:
        return self._weights()[self._classes.columns]

    @property
    def recode_(self) -> float:
        if self.recode != "auto":
            return float(self.recode)
        held_out, state = self._held_out, (self.n_seen_, len(self._classes))
        if held_out is None or held_out.rows == 0 or not self._totals.any():
            return 0.0
        if held_out.chosen is None or held_out.chosen[0] != state:
            scores = self._factor().predict(held_out.X)
            held_out.chosen = state, choose_strength(scores, held_out.columns, self._weights())
        return held_out.chosen[1]

    def _by_output(self, values: Array) -> Array:
        return np.asarray(values[:, self._classes.columns])

    def _labels_as_names(self) -> list[str]:
        return [str(label) for label in self._classes.sorted]
