"""Moments between frames of runs and frames that come later in the same run, for many lags in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas

from gyrfalcon.arrays import Array
from gyrfalcon.linalg.triangles import mirror

from .cross import CrossMoments
from .spectral import SpectralWhitening
from .sums import Sums


@dataclass(frozen=True)
class LaggedMoments:
    """What pairs of frames at one lag leave behind; those of different pairs add up.

    Attributes
    ----------
    cross : CrossMoments
        Between regressors of the earlier frame and features of the later one.
    sums : Sums
        Of regressors of the earlier frame and targets of the later one.
    change : array of shape (t,)
        Σ (y′ - y)², the error of those who predict that nothing changes.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> model = gf.dynamics.Koopman(n_centers=10, rank=2, random_state=0).fit(np.sin(np.arange(50.0))[:, None])
    >>> moments = model.moments_
    >>> moments.count, (moments + moments - moments).count, moments.sums.targets.shape
    (49, 49, (1,))
    """

    cross: CrossMoments
    sums: Sums
    change: Array

    def __add__(self, other: LaggedMoments) -> LaggedMoments:
        return LaggedMoments(self.cross + other.cross, self.sums + other.sums, self.change + other.change)

    def __sub__(self, other: LaggedMoments) -> LaggedMoments:
        return LaggedMoments(self.cross - other.cross, self.sums - other.sums, self.change - other.change)

    @property
    def count(self) -> int:
        """The number of pairs."""
        return self.cross.count


class LagSums:
    """Adds up the moments of pairs of frames, block by block; `moments` then has those of each lag.

    Blocks follow each other in time: pairs may begin in one block and end in a later one. A pair counts if both frames
    belong to the same run and are whole. Every frame is one row of features, whatever the number of lags.

    Second moments of the earlier and the later frames of pairs are those of all frames but a few at the ends of runs,
    so that one product serves all lags.

    Parameters
    ----------
    whitening : SpectralWhitening
    lags : sequence of int
        In frames, at least 1.
    targets : int
        How many numbers a frame has to predict.
    regressors : int, optional
        How many numbers predict them, if these are not the features alone.
    paired : sequence of float, optional
        For each lag the share of the frames that begin a pair, as far as it is known. Where it is small, only those are
        added up.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> whitening = gf.moments.SpectralWhitening.of(gf.KernelMatrix("rbf", X, X[::20]))
    >>> Z = whitening.features(gf.kernels.Gaussian()(X, X[::20])).T
    >>> sums = gf.moments.LagSums(whitening, lags=[1, 5], targets=1)
    >>> runs = np.repeat([0, 1], 100)
    >>> for rows in (slice(0, 70), slice(70, 200)):
    ...     sums.add(Z[rows], X[rows], runs[rows], np.ones(len(Z[rows]), bool))
    >>> [moments.count for moments in sums.moments()]
    [198, 190]
    """

    def __init__(
        self,
        whitening: SpectralWhitening,
        lags: Sequence[int],
        *,
        targets: int,
        regressors: int | None = None,
        paired: Sequence[float] | None = None,
    ):
        self.whitening, self.lags = whitening, tuple(lags)
        rank = whitening.rank
        self._width = rank if regressors is None else regressors
        self._own = regressors is not None  # regressors that are not the features
        few = [False] * len(self.lags) if paired is None else [share < 0.5 for share in paired]
        self._total = (_square(self._width), _square(rank) if self._own else None)
        self._lagged = [
            _OneLag(lag, self._width, rank, targets, direct) for lag, direct in zip(self.lags, few, strict=True)
        ]
        self._window = _Window.empty(rank, targets, regressors)

    def add(self, Z: Array, Y: Array, runs: Array, whole: Array, regressors: Array | None = None) -> None:
        """Take up the next frames.

        Parameters
        ----------
        Z : array of shape (b, r)
            Features of the frames.
        Y : array of shape (b, t)
            Targets of the frames.
        runs : array of int of shape (b,)
            The run that each frame belongs to.
        whole : array of bool of shape (b,)
            Whether a frame may be used; one that may not be holds finite numbers nevertheless.
        regressors : array of shape (b, q), optional
        """
        fresh = _Window(Z, Y, runs, whole, regressors if self._own else None)
        present = _chosen(whole)
        for total, rows in zip(self._total, (fresh.regressors, Z), strict=True):
            if total is not None:
                _add_square(total, rows[present])
        window = self._window.followed_by(fresh)
        for lagged in self._lagged:
            lagged.add(window, len(window.runs) - len(runs))
        self._window = window.last(max(self.lags, default=0))

    def moments(self) -> list[LaggedMoments]:
        """Those of all pairs so far, for each lag."""
        return [lagged.moments(self.whitening, self._total, self._window) for lagged in self._lagged]

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Where the sums stand, as numbers and arrays; the whitening is not among them."""
        window = self._window
        arrays = {"window.Z": window.Z, "window.Y": window.Y, "window.runs": window.runs}
        arrays["window.whole"] = window.whole.astype(np.uint8)
        arrays |= {} if window.own is None else {"window.own": window.own}
        arrays |= {f"total.{place}": total for place, total in enumerate(self._total) if total is not None}
        for place, lagged in enumerate(self._lagged):
            arrays |= {f"lag.{place}.{name}": array for name, array in lagged.arrays().items()}
        return {"counts": [lagged.count for lagged in self._lagged]}, arrays

    def unpack(self, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Stand where the sums stood that were packed, which had the same settings."""
        own = arrays["window.own"] if self._own else None
        window = (arrays[f"window.{name}"] for name in ("Z", "Y", "runs", "whole"))
        Z, Y, runs, whole = window
        self._window = _Window(Z, Y, runs, whole.astype(bool), own)
        for place, total in enumerate(self._total):
            if total is not None:
                total[...] = arrays[f"total.{place}"]
        for place, (lagged, count) in enumerate(zip(self._lagged, facts["counts"], strict=True)):
            lagged.restore(int(count), {name: arrays[f"lag.{place}.{name}"] for name in lagged.arrays()})


@dataclass(frozen=True)
class _Window:
    """Frames in the order of time."""

    Z: Array
    Y: Array
    runs: Array
    whole: Array
    own: Array | None

    @classmethod
    def empty(cls, rank: int, targets: int, regressors: int | None) -> _Window:
        own = None if regressors is None else np.empty((0, regressors))
        return cls(np.empty((0, rank)), np.empty((0, targets)), np.empty(0, np.int64), np.empty(0, bool), own)

    @property
    def regressors(self) -> Array:
        return self.Z if self.own is None else self.own

    def followed_by(self, other: _Window) -> _Window:
        if len(self.runs) == 0:
            return other
        own = None if self.own is None or other.own is None else np.concatenate([self.own, other.own])
        Z, Y = np.concatenate([self.Z, other.Z]), np.concatenate([self.Y, other.Y])
        runs, whole = np.concatenate([self.runs, other.runs]), np.concatenate([self.whole, other.whole])
        return _Window(Z, Y, runs, whole, own)

    def last(self, count: int) -> _Window:
        rows = slice(max(0, len(self.runs) - count), None)
        own = None if self.own is None else self.own[rows].copy()
        return _Window(self.Z[rows].copy(), self.Y[rows].copy(), self.runs[rows], self.whole[rows], own)


class _OneLag:
    """Sums over pairs at one lag."""

    def __init__(self, lag: int, width: int, rank: int, targets: int, direct: bool):
        self.lag, self.direct = lag, direct
        self.between = np.zeros((width, rank), order="F")
        self.sums = Sums(0.0, np.zeros((width, 1)), np.zeros((width, targets)), np.zeros(targets), np.zeros(targets))
        self.change = np.zeros(targets)
        self.count = 0
        # Of the frames that begin and that end a pair, or of those that do not.
        self.before, self.after = _square(width), _square(rank)

    def arrays(self) -> dict[str, Array]:
        sums = self.sums
        found = {"between": self.between, "change": self.change, "before": self.before, "after": self.after}
        return found | {"features": sums.features, "cross": sums.cross, "y": sums.targets, "squares": sums.squares}

    def restore(self, count: int, arrays: Mapping[str, Array]) -> None:
        self.count, self.change = count, arrays["change"]
        self.between[...], self.before[...], self.after[...] = (arrays[n] for n in ("between", "before", "after"))
        names = ("features", "cross", "y", "squares")
        self.sums = Sums(float(count), *(arrays[name] for name in names))

    def add(self, window: _Window, old: int) -> None:
        """Pairs whose later frame is one of those after the first `old`."""
        stop = len(window.runs)
        first = min(max(old, self.lag), stop)
        later, earlier = slice(first, stop), slice(first - self.lag, stop - self.lag)
        if first < stop:
            valid = window.whole[earlier] & window.whole[later] & (window.runs[earlier] == window.runs[later])
            self._add_pairs(window, earlier, later, valid)
            if not self.direct:
                _add_square(self.before, window.regressors[earlier][window.whole[earlier] & ~valid])
                _add_square(self.after, window.Z[later][window.whole[later] & ~valid])
        if not self.direct:
            _add_square(self.after, window.Z[old:first][window.whole[old:first]])

    def _add_pairs(self, window: _Window, earlier: slice, later: slice, valid: Array) -> None:
        chosen = _chosen(valid)
        now, then = window.regressors[earlier][chosen], window.Z[later][chosen]
        Y, before = window.Y[later][chosen], window.Y[earlier][chosen]
        if len(now) == 0:
            return
        if self.between.size:
            self.between = blas.dgemm(1.0, now.T, then.T, 1.0, self.between, trans_b=True, overwrite_c=True)
        if self.direct:
            _add_square(self.before, now)
            _add_square(self.after, then)
        self.sums = self.sums + Sums.of(np.ones(len(now)), now.T, Y)
        self.change = self.change + np.square(Y - before).sum(0)
        self.count += len(now)

    def moments(
        self, whitening: SpectralWhitening, total: tuple[Array, Array | None], window: _Window
    ) -> LaggedMoments:
        before, after = self.before.copy(order="F"), self.after.copy(order="F")
        if not self.direct:
            last = window.last(self.lag)
            _add_square(before, last.regressors[last.whole])
            before, after = total[0] - before, (total[0] if total[1] is None else total[1]) - after
        for square in (before, after):
            mirror(square, from_lower=False)
        cross = CrossMoments(whitening, before, self.between.copy(), after, float(self.count), self.count)
        return LaggedMoments(cross, self.sums, self.change)


def _square(size: int) -> Array:
    return np.zeros((size, size), order="F")


def _add_square(square: Array, rows: Array) -> None:
    """Add rowsᵀ rows to the upper triangle of a matrix in Fortran order."""
    if rows.size:
        found = blas.dsyrk(1.0, rows.T, 1.0, square, overwrite_c=True)
        if found is not square:
            square[...] = found


def _chosen(mask: Array) -> Array | slice:
    """A mask as an index that copies nothing if it holds everywhere."""
    return slice(None) if mask.all() else np.flatnonzero(mask)
