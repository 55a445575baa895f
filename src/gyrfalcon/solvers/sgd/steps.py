"""Stochastic gradient steps through a few rows, for several runs at once: in the compiled core, or in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.losses import Loss
from gyrfalcon.matrix import native_engine


@dataclass(frozen=True)
class Schedule:
    """What each run does with each row and batch.

    Parameters
    ----------
    weights : array of shape (runs, rows)
        Of the gradients; zero for rows that a run does not learn from.
    steps : array of shape (runs, batches)
        η; zero where a run makes no step.
    votes : array of shape (runs, batches)
        Weights, in the average, of the models before each step.
    batch : int
        Rows of a batch; the last one may have fewer.
    """

    weights: Array
    steps: Array
    votes: Array
    batch: int


@dataclass(frozen=True)
class Walked:
    """What came of it, for models s·f₀ + Σᵢ gᵢ k(xᵢ, ·) + b.

    `values` are predictions as the rows were met, `coefficients` g, `averages` sums of votes times g as they were, all
    of shape (runs, t, rows); `shrinks` s and `shares` sums of votes times s as it was, by run.
    """

    values: Tensor
    coefficients: Tensor
    averages: Tensor
    shrinks: Tensor
    shares: Tensor


def walk(
    loss: Loss,
    values: Tensor,
    gram: Tensor | None,
    Y: Tensor,
    schedule: Schedule,
    penalty: float,
    rate: float,
    intercepts: Tensor,
    sums: Tensor,
) -> Walked:
    """Take runs with predictions f₀, of shape (runs, t, rows), through the rows.

    With Dᵢ the weighted gradient of row i over the number of rows in its batch, a step multiplies s and all g by
    1 - 2η·penalty, sets gᵢ = -ηDᵢ and moves b by -η·rate·ΣᵢDᵢ. The intercepts b and the sums of votes times b, of shape
    (runs, t), change in place. Without a gram matrix there must be but one batch.
    """
    known = native_engine.core is not None and loss.native_name() in native_engine.core.losses()
    return (_native if known else _torch)(loss, values, gram, Y, schedule, penalty, rate, intercepts, sums)


def _native(
    loss: Loss,
    values: Tensor,
    gram: Tensor | None,
    Y: Tensor,
    schedule: Schedule,
    penalty: float,
    rate: float,
    intercepts: Tensor,
    sums: Tensor,
) -> Walked:
    assert native_engine.core is not None
    runs, t, rows = values.shape
    f = np.ascontiguousarray(as_numpy(values)).reshape(runs * t, rows)
    b, b_sums = (as_numpy(part).copy() for part in (intercepts, sums))
    coefficients, averages = np.empty((runs * t, rows)), np.empty((runs * t, rows))
    shrinks, shares = np.empty((runs, 1)), np.empty((runs, 1))
    native_engine.core.run_sgd(
        loss=loss.native_name(),
        parameter=loss.native_parameter,
        batch=schedule.batch,
        gram=None if gram is None else np.ascontiguousarray(as_numpy(gram)),
        f=f,
        targets=np.ascontiguousarray(as_numpy(Y)),
        weights=schedule.weights,
        steps=schedule.steps,
        votes=schedule.votes,
        penalty=penalty,
        rate=rate,
        coefficients=coefficients,
        averages=averages,
        shrinks=shrinks,
        shares=shares,
        intercepts=b,
        sums=b_sums,
        threads=torch.get_num_threads() if f.size > 1 << 14 else 1,
    )
    device = values.device
    intercepts.copy_(torch.from_numpy(b))
    sums.copy_(torch.from_numpy(b_sums))
    cubes = (torch.from_numpy(part.reshape(runs, t, rows)).to(device) for part in (f, coefficients, averages))
    return Walked(*cubes, *(torch.from_numpy(part[:, 0]).to(device) for part in (shrinks, shares)))


def _torch(
    loss: Loss,
    values: Tensor,
    gram: Tensor | None,
    Y: Tensor,
    schedule: Schedule,
    penalty: float,
    rate: float,
    intercepts: Tensor,
    sums: Tensor,
) -> Walked:
    runs, t, rows = values.shape
    weights, steps, votes = (
        torch.from_numpy(part).to(values.device) for part in (schedule.weights, schedule.steps, schedule.votes)
    )
    f = values.clone()
    coefficients, averages = torch.zeros_like(f), torch.zeros_like(f)
    shrinks, shares = torch.ones_like(f[:, 0, 0]), torch.zeros_like(f[:, 0, 0])
    for k, first in enumerate(range(0, rows, schedule.batch)):
        here, rest = slice(first, min(rows, first + schedule.batch)), slice(first + schedule.batch, rows)
        f[:, :, here] += intercepts[:, :, None]
        vote = torch.where(steps[:, k] != 0, votes[:, k], 0.0)
        shares += vote * shrinks
        averages += vote[:, None, None] * coefficients
        sums += vote[:, None] * intercepts
        factor = 1 - 2 * penalty * steps[:, k]
        shrinks *= factor
        coefficients *= factor[:, None, None]
        learned = (weights[:, here] > 0).sum(1).clamp(min=1)
        met = f[:, :, here].transpose(1, 2)
        gradient = loss.gradient(met.reshape(-1, t), Y[here].repeat(runs, 1)).reshape(met.shape).transpose(1, 2)
        moves = -(steps[:, k] / learned)[:, None, None] * weights[:, None, here] * gradient
        coefficients[:, :, here] = moves
        if gram is not None:
            f[:, :, rest] = factor[:, None, None] * f[:, :, rest] + moves @ gram[here, rest]
        intercepts += rate * moves.sum(2)
    return Walked(f, coefficients, averages, shrinks, shares)
