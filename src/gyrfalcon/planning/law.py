"""Laws for times: sums of terms that are fitted to measurements, with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

Array = np.ndarray[Any, Any]

MARGIN = 0.15  # either way, for what no short calibration sees: clocks, caches, sizes beyond those measured


class Seconds(NamedTuple):
    """A predicted time and the interval it is expected in.

    Examples
    --------
    >>> from gyrfalcon.planning import Seconds
    >>> Seconds(2.0, 1.0, 3.0).plus(Seconds(1.0, 1.0, 1.0))
    Seconds(point=3.0, low=2.0, high=4.0)
    """

    point: float
    low: float
    high: float

    def plus(self, other: Seconds) -> Seconds:
        return Seconds(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> Seconds:
        return Seconds(*(factor * value for value in self))

    def at_most_times(self, factor: float) -> Seconds:
        """The same with a later end."""
        return self._replace(high=self.high * factor)

    def at_least(self, other: Seconds) -> Seconds:
        return Seconds(*map(max, self, other))


ZERO = Seconds(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Law:
    """Seconds as a sum of terms with coefficients that are not negative, so that more work never takes less time.

    `best` are the coefficients of the fastest repetitions, which other work on the machine disturbed least, and give
    the prediction; `typical` are those of the median ones, and give the upper end of the interval.
    """

    best: tuple[float, ...]
    typical: tuple[float, ...]

    @classmethod
    def fit(cls, terms: Sequence[Sequence[float]], samples: Sequence[Sequence[float]]) -> Law:
        """The law closest, in relative error, to repeated measurements of each row of terms."""
        table = np.array(terms, dtype=float)
        return cls(
            _coefficients(table, np.array([min(times) for times in samples])),
            _coefficients(table, np.array([np.median(times) for times in samples])),
        )

    def __call__(self, *terms: float) -> Seconds:
        best, typical = (float(np.dot(coefficients, terms)) for coefficients in (self.best, self.typical))
        return Seconds(best, best / (1 + MARGIN), max(best, typical) * (1 + MARGIN))


def _coefficients(terms: Array, times: Array) -> tuple[float, ...]:
    size = terms.max(axis=0)  # n·m and 1 in one system: brought to one size first
    found, _ = nnls(terms / size / times[:, None], np.ones(len(times)))
    return tuple((found / size).tolist())
