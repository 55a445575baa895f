"""The moments of whitened features and of targets: additive over rows, files, workers and time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import blas

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.linalg.positive import solve_positive
from gyrfalcon.linalg.triangles import mirror
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.persistence import ModelFileError, compose, parse, write_whole

from .sums import Center, Sums
from .whitening import Whitening

BLOCK_ROWS = 2048  # rows whose features are made together, at most
BYTES_PER_ENTRY = 24  # of a block of K in float64, its features and a copy
FILE_VERSION = 1


def block_rows(K: KernelMatrix, matrices: int = 1) -> int:
    """How many rows of so many matrices like K are made in float64 together, within the memory budget."""
    n, m = K.shape
    return max(1, min(n, BLOCK_ROWS, K.memory_budget // (matrices * BYTES_PER_ENTRY * max(1, m))))


@dataclass(frozen=True)
class Moments:
    """Σ w z zᵀ over some rows and their `Sums`, for whitened features z = T⁻ᵀk(C, x), in float64.

    Moments of different rows with the same centers add up, and those of some rows can be taken out again. Whatever
    can be asked of least squares with these features follows without another look at the rows: other penalties, with
    an intercept or without, errors on rows held out, the first centers alone.

    Attributes
    ----------
    whitening : Whitening
    second : array of shape (m, m)
        Σ w z zᵀ.
    sums : Sums
        Of targets y - origin.
    count : int
        How many rows there were.
    origin : array of shape (t,)
        What was subtracted from the targets, so that large means do not drown what varies.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(-3, 3, 300)[:, None]
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10])
    >>> moments = gf.moments.Moments.of(K, np.sin(X))
    >>> beta, intercept, objective = moments.solve(penalty=1e-6)
    >>> bool(np.abs(K @ beta + intercept - np.sin(X)).max() < 0.01)
    True
    >>> first, rest = (gf.moments.Moments.of(K.rows(part), np.sin(X[part])) for part in (slice(90), slice(90, None)))
    >>> np.allclose((first + rest).second, moments.second), (moments - first).count
    (True, 210)
    """

    whitening: Whitening
    second: Array
    sums: Sums
    count: int
    origin: Array = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def of(
        cls,
        K: KernelMatrix,
        Y: Any,
        weights: Any = None,
        *,
        origin: Array | None = None,
        whitening: Whitening | None = None,
    ) -> Moments:
        """Those of all rows of K, in one pass over them.

        Parameters
        ----------
        K : KernelMatrix of shape (n, m)
        Y : array or tensor of shape (n, t)
        weights : array or tensor of shape (n,) or (n, 1), optional
        origin : array of shape (t,), optional
            What to subtract from the targets; zero if not given.
        whitening : Whitening, optional
            Of the same centers, if it is known already.
        """
        return cls.by_part(K, Y, weights, None, 1, origin=origin, whitening=whitening)[0]

    @classmethod
    def by_part(
        cls,
        K: KernelMatrix,
        Y: Any,
        weights: Any,
        labels: Array | None,
        parts: int,
        *,
        origin: Array | None = None,
        whitening: Whitening | None = None,
    ) -> list[Moments]:
        """Those of each part of the rows, which a label from 0 to parts - 1 names, in one pass over them."""
        m = K.shape[1]
        whitening = Whitening.of(K) if whitening is None else whitening
        outputs = Y.shape[1]
        origin = np.zeros(outputs) if origin is None else np.asarray(origin, dtype=np.float64)
        if weights is not None and weights.ndim == 1:
            weights = weights[:, None]
        found = K.reduce(_PartSums(whitening, origin, parts), Y, weights, labels, rows=block_rows(K))
        if not found:
            found = _PartSums(whitening, origin, parts)(np.zeros((0, m)), np.zeros((0, outputs)), None, None)
        moments = []
        for second, total, features, cross, targets, squares in zip(*(iter(found),) * 6, strict=True):
            mirror(second, from_lower=False)
            sums = Sums(float(total[0]), features, cross, targets, squares)
            moments.append(cls(whitening, second, sums, int(total[1]), origin))
        return moments

    def __add__(self, other: Moments) -> Moments:
        other = self._comparable(other)
        return replace(
            self, second=self.second + other.second, sums=self.sums + other.sums, count=self.count + other.count
        )

    def __sub__(self, other: Moments) -> Moments:
        other = self._comparable(other)
        return replace(
            self, second=self.second - other.second, sums=self.sums - other.sums, count=self.count - other.count
        )

    def _comparable(self, other: Moments) -> Moments:
        """The other moments about the same origin, if their features are the same."""
        if not self.whitening.same_as(other.whitening) or len(self.origin) != len(other.origin):
            raise ValueError("moments of other centers or other outputs cannot be combined: make them with the same")
        return other.about(self.origin)

    def about(self, origin: Array) -> Moments:
        """The same moments with another origin of the targets."""
        if np.array_equal(origin, self.origin):
            return self
        return replace(self, sums=self.sums.moved(self.origin - origin), origin=np.asarray(origin))

    def without_intercept(self) -> Moments:
        """The same for models that have no intercept, with targets as they were."""
        moved = self.about(np.zeros_like(self.origin))
        return replace(moved, sums=moved.sums.without_intercept())

    def shifted(self, center: Center) -> Moments:
        """Those of z and y minus a center."""
        sums, (u, mean) = self.sums, center
        second = self.second - u * sums.features.T - sums.features * u.T + sums.weight * (u * u.T)
        shifted = Sums(
            sums.weight,
            sums.features - sums.weight * u,
            sums.cross - sums.features * mean - u * (sums.targets - sums.weight * mean),
            sums.targets - sums.weight * mean,
            sums.squares - mean * (2 * sums.targets - sums.weight * mean),
        )
        return replace(self, second=second, sums=shifted)

    def centered(self) -> Array:
        """Σ w (z - u)(z - u)ᵀ / Σ w, u the mean of z."""
        u = self.sums.center().features
        return np.asarray(self.second / self.sums.weight - u * u.T)

    def leading(self, size: int) -> Moments:
        """Those of the first centers alone."""
        sums = replace(self.sums, features=self.sums.features[:size], cross=self.sums.cross[:size])
        second = np.asfortranarray(self.second[:size, :size])
        return replace(self, whitening=self.whitening.leading(size), second=second, sums=sums)

    def widened(self, K: KernelMatrix) -> Moments:
        """The same rows with the features of more centers, which are zero at these rows.

        The first features do not see the later centers, so nothing that is known changes. That the others are zero
        means that the rows are known through the first centers only.

        >>> import numpy as np, gyrfalcon as gf
        >>> X = np.linspace(-3, 3, 100)[:, None]
        >>> moments = gf.moments.Moments.of(gf.KernelMatrix("rbf", X, X[::10]), np.sin(X))
        >>> C = np.concatenate([X[::10], [[9.0], [10.0]]])
        >>> wide = moments.widened(gf.KernelMatrix("rbf", C, C))
        >>> wide.second.shape, bool(np.allclose(wide.leading(10).second, moments.second))
        ((12, 12), True)
        """
        whitening = self.whitening.widened(K)
        more = whitening.size - self.whitening.size
        below = ((0, more), (0, 0))
        features, cross = np.pad(self.sums.features, below), np.pad(self.sums.cross, below)
        second = np.asfortranarray(np.pad(self.second, (0, more)))
        return replace(
            self, whitening=whitening, second=second, sums=replace(self.sums, features=features, cross=cross)
        )

    def matrix(self, penalty: float, *, inverse_gram: Array | None = None) -> Array:
        """The matrix of the normal equations in v, in Fortran order: centered moments plus the penalty, corrected by
        what the jitter adds to the penalty and by what rounding costs; see `Whitening.excess`.

        Parameters
        ----------
        penalty : float
        inverse_gram : array of shape (m, m), optional
            That of the whitening, for those who ask for many penalties or many moments of the same centers.
        """
        matrix = np.asfortranarray(self.centered())
        if len(matrix):
            gram = self.whitening.inverse_gram() if inverse_gram is None else inverse_gram
            matrix -= self.whitening.excess(penalty) * gram
        np.fill_diagonal(matrix, matrix.diagonal() + penalty)
        return matrix

    def solve(
        self, penalty: float, *, intercept: bool = True, floor: Any = 0.0, inverse_gram: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Coefficients of shape (m, t), intercepts and least objectives of shape (t,).

        Parameters
        ----------
        penalty : float
        intercept : bool
        floor : float or array of shape (t,)
            What the objective holds besides, which no model can change.
        inverse_gram : array of shape (m, m), optional
            As of `matrix`.
        """
        moments = self if intercept else self.without_intercept()
        right = moments.sums.right_side()
        v = solve_positive(moments.matrix(penalty, inverse_gram=inverse_gram), right)
        center = moments.sums.center()
        objective = moments.sums.variance() + floor - np.einsum("ij,ij->j", v, right)
        offset = moments.origin * intercept + center.targets - center.features[:, 0] @ v
        return self.whitening.coefficients(v), offset, np.maximum(objective, 0.0)

    def folds(self, parts: list[Moments], held: tuple[int, ...]) -> Iterator[tuple[Moments, Moments]]:
        """Of all rows, of which these are: moments to learn from and moments held out, for each part that is held out
        in turn; empty ones are left out."""
        for place in held:
            if parts[place].sums.weight > 0:
                yield self - parts[place], parts[place]

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the moments to a safetensors file, whole or not at all.

        >>> import numpy as np, gyrfalcon as gf, tempfile
        >>> X = np.linspace(-3, 3, 100)[:, None]
        >>> moments = gf.moments.Moments.of(gf.KernelMatrix("rbf", X, X[::10]), np.sin(X))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     moments.save(f"{folder}/sine.safetensors")
        ...     again = gf.moments.Moments.load(f"{folder}/sine.safetensors")
        >>> bool((again.second == moments.second).all()), (again + moments).count
        (True, 200)
        """
        facts, arrays = self.pack()
        write_whole(Path(path), compose({"moments": FILE_VERSION, "facts": facts}, arrays))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Moments:
        """Read what `save` wrote; anything else raises ModelFileError."""
        try:
            description, arrays = parse(Path(path).read_bytes())
            if description["moments"] != FILE_VERSION:
                raise ModelFileError(f"the file has version {description['moments']!r}, not {FILE_VERSION}")
            return cls.unpack(description["facts"], arrays)
        except (LookupError, TypeError, ValueError) as error:
            raise ModelFileError(f"{os.fspath(path)}: {error}") from None

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All of it as what JSON can hold and arrays."""
        facts = {name: getattr(self.whitening, name) for name in ("size", "jitter", "scale", "rounding")}
        facts |= {"count": self.count, "weight": self.sums.weight}
        arrays = {f.name: getattr(self.sums, f.name) for f in fields(Sums) if f.name != "weight"}
        arrays |= {"second": self.second, "origin": self.origin}
        if self.whitening.T is not None:
            arrays["T"] = np.triu(self.whitening.T)
        return facts, arrays

    @classmethod
    def unpack(cls, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> Moments:
        """What `pack` packed; ValueError if the arrays do not fit together."""
        facts = dict(facts)
        sums = Sums(weight=float(facts.pop("weight")), **{f.name: arrays[f.name] for f in fields(Sums)[1:]})
        count, T = int(facts.pop("count")), arrays.get("T")
        whitening = Whitening(None if T is None else np.asfortranarray(T), **facts)
        found = cls(whitening, np.asfortranarray(arrays["second"]), sums, count, arrays["origin"])
        m, t = whitening.size, len(found.origin)
        shapes = (found.second.shape, sums.features.shape, sums.cross.shape, sums.targets.shape, sums.squares.shape)
        if shapes != ((m, m), (m, 1), (m, t), (t,), (t,)) or (T is not None and T.shape != (m, m)):
            raise ValueError("the arrays do not fit together")
        return found


@dataclass(frozen=True)
class _PartSums:
    """What a block of K gives to the moments of each part: six arrays a part."""

    whitening: Whitening
    origin: Array
    parts: int

    def __call__(self, block: Array, Y: Array, weights: Array | None, labels: Array | None) -> tuple[Array, ...]:
        Z = self.whitening.features(np.array(block))
        targets = Y.astype(np.float64) - self.origin
        w = np.ones(len(targets)) if weights is None else as_numpy(weights, np.float64)[:, 0]
        found: list[Array] = []
        for part in range(self.parts):
            chosen = slice(None) if labels is None else labels == part
            own, own_targets, own_w = Z[:, chosen], targets[chosen], w[chosen]
            rooted = np.asfortranarray(own if weights is None else own * np.sqrt(own_w))
            sums = Sums.of(own_w, own, own_targets)
            totals = np.array([sums.weight, len(own_targets)])
            second = blas.dsyrk(1.0, rooted) if own.size else np.zeros((len(own), len(own)), order="F")
            found += [second, totals, sums.features, sums.cross, sums.targets, sums.squares]
        return tuple(found)
