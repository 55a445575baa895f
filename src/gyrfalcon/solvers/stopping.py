"""When to stop: rows that are held out, and how long to wait for their error to fall."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array


@dataclass(frozen=True)
class Split:
    """The part that each row belongs to, and the parts that are held out, one after the other.

    Parameters
    ----------
    labels : array of shape (n,)
    count : int
        How many parts there are.
    held : tuple of ints
    """

    labels: Array
    count: int
    held: tuple[int, ...]

    @classmethod
    def of(cls, n: int, validation: float | int | None, random_state: int, *, contiguous: bool = False) -> Split:
        """Rows shared out at random, or in runs if contiguous; see `EarlyStopping` for what `validation` may be."""
        check_validation(validation)
        if validation is None:
            return cls(np.zeros(n, dtype=int), 1, ())
        if n < 2 or validation > n:
            raise ValueError(f"validation={validation!r} needs more than the {n} rows of X: take validation=None")
        if isinstance(validation, numbers.Integral):
            parts = int(validation)
            labels, held = np.arange(n) * parts // n, tuple(range(parts))
        else:
            count = min(n - 1, max(1, round(validation * n)))
            parts, labels, held = 2, (np.arange(n) >= n - count).astype(int), (1,)
        if not contiguous:
            labels = np.random.default_rng(random_state).permutation(labels)
        return cls(labels, parts, held)

    def weigh(self, row_weights: Array | None) -> list[float]:
        """The sum of the weights in each part, where they leave something to learn from and to judge by."""
        weights: list[float] = np.bincount(self.labels, row_weights, self.count).tolist()
        total = sum(weights)
        if any(weights[part] >= total for part in self.held):
            raise ValueError("weights are zero but for the rows that are held out: give others, or hold out fewer")
        if self.held and not any(weights[part] > 0 for part in self.held):
            raise ValueError("weights are zero for all rows that are held out: give others, or another random_state")
        return weights


def check_validation(validation: Any) -> None:
    if validation is None:
        return
    folds = isinstance(validation, numbers.Integral) and not isinstance(validation, bool) and int(validation) >= 2
    if folds or (isinstance(validation, numbers.Real) and 0 < float(validation) < 1):
        return
    raise ValueError(
        f"validation must be a share of the rows between 0 and 1, a number of folds from 2 on, or None, "
        f"got {validation!r}"
    )


def check_count(name: str, value: Any) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or int(value) < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")


@dataclass(frozen=True)
class EarlyStopping:
    """When an iterative solver stops, and which iterate it returns: that of the lowest error on rows held out.

    Parameters
    ----------
    validation : float, int or None
        The share of rows that is held out; or a number of folds, of which each is held out in turn; or None: all
        iterations are made and the last one is returned. Rows that are read from a source are held out in runs, as they
        stand. Estimators, which hold out rows for solvers that do not, take a share only.
    patience : int
        Iterations without progress after which to stop.
    tolerance : float
        Progress is a validation error that is lower, by this part of itself, than at the last progress.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> gf.solvers.EarlyStopping(validation=5, patience=20)
    EarlyStopping(validation=5, patience=20, tolerance=0.001)
    """

    validation: float | int | None = 0.2
    patience: int = 10
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        check_validation(self.validation)
        check_count("patience", self.patience)
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance must be at least 0 and less than 1, got {self.tolerance!r}")


DEFAULT_STOPPING = EarlyStopping()


class Watch:
    """Errors as they come in, and whether patience is at its end."""

    def __init__(self, rule: EarlyStopping):
        self.rule = rule
        self.errors: list[float] = []
        self._mark, self.waited = np.inf, 0

    def see(self, error: float) -> bool:
        """Whether this error is the lowest so far."""
        lowest = not self.errors or error < min(self.errors)
        self.errors.append(error)
        progress = error < (1 - self.rule.tolerance) * self._mark
        self._mark, self.waited = (error, 0) if progress else (self._mark, self.waited + 1)
        return lowest

    @property
    def tired(self) -> bool:
        return self.waited >= self.rule.patience
