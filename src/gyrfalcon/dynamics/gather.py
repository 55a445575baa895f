"""One pass over the frames of runs: the moments of their pairs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.moments import LaggedMoments, LagSums
from gyrfalcon.progress import Bar

from .kept import KeptFit
from .lift import Lift, regressor_count, regressors
from .runs import Frames, Runs


def gather(
    runs: Runs,
    lift: Lift,
    lags: Sequence[int],
    *,
    form: str = "affine",
    verbose: bool = False,
    kept: KeptFit | None = None,
) -> list[LaggedMoments]:
    """Moments of all pairs of frames within runs, for each lag."""
    parts = np.zeros(len(runs), dtype=np.int64)
    return gather_parts(runs, lift, lags, parts, 1, form=form, verbose=verbose, kept=kept)[0]


def gather_parts(
    runs: Runs,
    lift: Lift,
    lags: Sequence[int],
    parts: Array,
    count: int,
    *,
    form: str = "affine",
    verbose: bool = False,
    kept: KeptFit | None = None,
) -> list[list[LaggedMoments]]:
    """The same for each part of the runs, which a number from 0 to count - 1 names: a list for each part.

    Each frame is lifted once. What is kept besides sums are the features of the last frames, as many as the largest
    lag. With a checkpoint, frames whose sums it has are not read again.
    """
    inputs = runs.n_inputs
    width = regressor_count(lift.rank, inputs, form) if inputs else None
    frames = max(1, int(runs.lengths.sum()))
    shares = [runs.pairs(lag) / frames for lag in lags]
    sums = [
        LagSums(lift.whitening, lags, targets=runs.n_features, regressors=width, paired=shares) for _ in range(count)
    ]
    done = 0 if kept is None else kept.resume(sums)
    with Bar("frames", verbose=verbose) as bar:
        for block in runs.blocks(lift.block_rows, done):
            Z = lift.block(block.states)
            own = None if block.inputs is None else regressors(Z, block.inputs, form)
            _add(sums, block, Z, own, parts[block.runs])
            done += len(Z)
            if kept is not None and block.stop is not None:
                kept.keep(sums, block.stop)
            bar.show(frames, f"{done:,} of {frames:,}", done)
    return [one.moments() for one in sums]


def _add(sums: Sequence[LagSums], block: Frames, Z: Array, own: Array | None, parts: Array) -> None:
    """Give each part its frames, which follow each other."""
    targets = block.states.astype(np.float64, copy=False)
    edges = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(parts)]
    for start, stop in itertools.pairwise(edges):
        rows = slice(start, stop)
        sums[parts[start]].add(
            Z[rows], targets[rows], block.runs[rows], block.whole[rows], None if own is None else own[rows]
        )
