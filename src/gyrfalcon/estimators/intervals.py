"""How much wider or narrower the intervals of a Gaussian process should be, by rows that are left out."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from gyrfalcon.arrays import Array
from gyrfalcon.tuning.trace import Candidate, Stage

from .left_out import LeftOut

COVERAGE = 0.9  # of the intervals that are made true
LEAST_WIDENED = 100  # rows: with fewer, the share inside is not known well enough
WIDENED_ROWS = 800  # that are left out


def deviation_factors(found: LeftOut, penalty: float) -> tuple[Array, Stage]:
    """By output, the factor of the deviations with which intervals of the wanted coverage have it, and its record."""
    away = np.abs(found.targets - found.outputs) / (found.deviations[:, None] * np.sqrt(found.noise))
    wanted = float(norm.ppf((1 + COVERAGE) / 2))
    factors = np.array([_quantile(column, found.weights) for column in away.T]) / wanted
    factors = np.where(np.isfinite(factors) & (factors > 0), factors, 1.0)
    inside = [float(np.average((away <= wanted * f).mean(1), weights=found.weights)) for f in (1.0, factors)]
    told = ", ".join(f"{factor:.3g}" for factor in factors[:3]) + (", …" if len(factors) > 3 else "")
    names = ("deviations of the Gaussian process", f"deviations times {told}")
    return factors, Stage(
        "intervals",
        f"distance from {COVERAGE:.0%} of the share of {len(found.rows):,} rows left out that their intervals hold",
        [Candidate(name, penalty, abs(share - COVERAGE)) for name, share in zip(names, inside, strict=True)],
        1,
        f"{inside[0]:.1%} were inside before",
    )


def _quantile(values: Array, weights: Array) -> float:
    order = np.argsort(values)
    mass = np.cumsum(weights[order])
    return float(values[order[min(np.searchsorted(mass, COVERAGE * mass[-1]), len(values) - 1)]])
