"""Where the border between classes is: least squares draws scores towards the common class, which moves it."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from gyrfalcon.arrays import Array
from gyrfalcon.tuning.trace import Candidate, Stage

from .calibration import LEAST_SLOPE, Judged, at_least_one

PRIOR_SLOPE = 8.0  # of logits in shares: from there on they are sure of a class
WORTH = 2.0  # by how much the log likelihood has to grow for each number that is fitted, about two standard errors

LEAST_SHARE = 0.5  # of all rows, that must have been left out: a fit to fewer is drawn further than the one of all


def balance(found: Judged, penalty: float) -> tuple[Array, Stage]:
    """What to add to the shares of each class so that the largest is the most likely, of zero sum, and its record.

    Logits slope · shareₖ + offsetₖ are fitted to rows that were left out, offsets with a standard normal prior. They
    are zero unless they are worth it: where classes are about equally common they move the border by chance alone.
    """
    shares, labels, weights = found
    weights = at_least_one(weights)
    rows, k = shares.shape
    chosen = np.zeros((rows, k))
    chosen[np.arange(rows), labels] = weights

    def objective(numbers: Array) -> tuple[float, Array]:
        logits = numbers[0] * shares + numbers[1:]
        total = logsumexp(logits, axis=1, keepdims=True)
        gaps = weights[:, None] * np.exp(logits - total) - chosen
        value = float(weights @ total[:, 0] - (chosen * logits).sum() + numbers[1:] @ numbers[1:] / 2)
        return value, np.concatenate([[(gaps * shares).sum()], gaps.sum(0) + numbers[1:]])

    start = np.concatenate([[PRIOR_SLOPE], np.zeros(k)])
    slopes = [(LEAST_SLOPE, None)]
    plain, moved = (
        minimize(objective, start, jac=True, method="L-BFGS-B", bounds=slopes + bounds)
        for bounds in ([(0.0, 0.0)] * k, [(None, None)] * k)
    )
    worth = plain.fun - moved.fun > WORTH * (k - 1)
    offsets = moved.x[1:] / moved.x[0]
    offsets -= offsets.mean()
    told = ", ".join(f"{offset:.2g}" for offset in offsets[:3]) + (", …" if k > 3 else "")
    names = "border between classes as fitted", f"shares of classes moved by {told}"
    losses = (one.fun / weights.sum() for one in (plain, moved))
    stage = Stage(
        "border between classes",
        f"log loss of {rows:,} rows left out",
        [Candidate(name, penalty, float(loss)) for name, loss in zip(names, losses, strict=True)],
        int(worth),
        f"moved if the log likelihood grows by more than {WORTH:g} for each class but one",
    )
    return np.where(worth, offsets, 0.0), stage
