"""The noise of a loss with a kink, by its own error on rows held out: tuning by squares is led astray by outliers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gyrfalcon.arrays import Array
from gyrfalcon.centers.rows import take
from gyrfalcon.data import Points
from gyrfalcon.kernels import Kernel
from gyrfalcon.losses import Loss
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.solvers import SmoothedNewton
from gyrfalcon.tuning.rows import Data

ROWS = 900  # that are looked at, at most
HELD = 1 / 3  # the share of them that is held out
LEAST_ROWS = 30  # below which the noise stays what it was
FACTORS = 10.0 ** np.arange(1, -5, -1)  # of the noise, tried in this order until the error has grown twice
TIE = 0.01  # errors that are this near to the lowest are alike: the largest noise among them is taken
SOLVER = SmoothedNewton(tolerance=1e-2)
SEED = 0


def noise_of_loss(
    kernel: Kernel, data: Data, loss: Loss, noise: float, *, intercept: bool, memory_budget: int
) -> float:
    """The noise, times the largest of some factors with which a fit to some rows errs little on others, by the loss.

    Parameters
    ----------
    kernel : Kernel
    data : Data
        Rows in memory.
    loss : Loss
        One with a kink.
    noise : float
        Where to begin: the penalty times the sum of the weights.
    intercept : bool
    memory_budget : int
    """
    present = np.arange(data.points.shape[0]) if data.weights is None else np.flatnonzero(data.weights)
    rows = np.random.default_rng(SEED).permutation(present)[:ROWS]
    if len(rows) < LEAST_ROWS or not noise > 0:
        return noise
    held, kept = np.split(rows, [int(HELD * len(rows))])
    K = KernelMatrix(kernel, Points(take(data.points, np.sort(kept))), memory_budget=memory_budget)
    new = KernelMatrix(kernel, Points(take(data.points, held)), Points(take(data.points, np.sort(kept))))
    Y, weights = _column(data.Y, np.sort(kept), K), _column(data.weights, np.sort(kept), K)
    truth, held_weights = _column(data.Y, held, K), None if data.weights is None else data.weights[held]
    state, total = SOLVER.prepare(K, weights, intercept), len(kept) if weights is None else float(weights.sum())
    errors: list[float] = []
    for factor in FACTORS:
        found = SOLVER.solve(state, Y, noise * factor / total, loss=loss)
        F = (new @ found.coefficients.to(K.device, K.dtype)).double() + found.intercept.to(K.device)
        errors.append(float(np.average(loss.value(F, truth).cpu().numpy(), weights=held_weights)))
        if len(errors) > 2 and errors[-1] > errors[-2] > errors[-3]:
            break
    alike = np.array(errors) <= (1 + TIE) * min(errors)
    return noise * float(FACTORS[int(np.argmax(alike))])


def _column(values: Array | None, rows: Array, K: KernelMatrix) -> Any:
    """Some rows of targets or weights, as the solver takes them."""
    if values is None:
        return None
    chosen = values[rows]
    return torch.from_numpy(np.ascontiguousarray(chosen.reshape(len(rows), -1))).to(K.device, K.dtype)
