"""Moments in fixed point: the same bits in any order of the rows, and after rows were taken out again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array

from .moments import Moments
from .sums import Sums
from .whitening import Whitening

BITS = 38  # after the binary point; 25 are left before it
SCALE = 2.0**BITS
LARGEST = 2.0 ** (62 - BITS)


@dataclass(frozen=True)
class ExactMoments:
    """Sums of `Moments` as 64-bit integers, multiples of 2⁻³⁸.

    Sums in floating point depend on the order, and a - b + b is not a. Here each part is rounded once, by at most
    2⁻³⁹, and everything after that is exact: parts may come in any order, and taking one out leaves the very bits that
    were there before it came. Entries stay below 2²⁴, which is how many rows of a kernel with k(x, x) = 1 there may be.

    Attributes
    ----------
    whitening : Whitening
    second, features, cross, targets, squares : arrays of int64
        As in `Moments` and `Sums`.
    count : int
        How many rows there were, each of weight one.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(-3, 3, 300)[:, None]
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::10])
    >>> first, rest = (gf.moments.Moments.of(K.rows(part), np.sin(X[part])) for part in (slice(90), slice(90, None)))
    >>> empty = gf.moments.ExactMoments.empty(first.whitening, outputs=1)
    >>> both = empty.plus(first).plus(rest)
    >>> bool((both.second == empty.plus(rest).plus(first).second).all())
    True
    >>> bool((both.minus(first).cross == empty.plus(rest).cross).all())
    True
    >>> beta, intercept, _ = both.moments().solve(penalty=1e-6)
    >>> bool(np.abs(K @ beta + intercept - np.sin(X)).max() < 0.01)
    True
    """

    whitening: Whitening
    second: Array
    features: Array
    cross: Array
    targets: Array
    squares: Array
    count: int

    @classmethod
    def empty(cls, whitening: Whitening, outputs: int) -> ExactMoments:
        """Those of no rows."""
        m = whitening.size
        shapes = (m, m), (m, 1), (m, outputs), (outputs,), (outputs,)
        second, features, cross, targets, squares = (np.zeros(shape, dtype=np.int64, order="F") for shape in shapes)
        return cls(whitening, second, features, cross, targets, squares, 0)

    def plus(self, moments: Moments) -> ExactMoments:
        """With the rows of some moments, whose weights are one."""
        return self._combined(moments, 1)

    def minus(self, moments: Moments) -> ExactMoments:
        """Without the rows of some moments, which were added before."""
        return self._combined(moments, -1)

    def _combined(self, moments: Moments, sign: int) -> ExactMoments:
        if not self.whitening.same_as(moments.whitening) or len(self.targets) != len(moments.origin):
            raise ValueError("moments of other centers or other outputs cannot be combined: make them with the same")
        if moments.sums.weight != moments.count:
            raise ValueError("exact moments take rows of weight one: leave the weights out")
        moments = moments.about(np.zeros_like(moments.origin))
        parts = {"second": moments.second, **{f.name: getattr(moments.sums, f.name) for f in fields(Sums)[1:]}}
        count = self.count + sign * moments.count
        if count > LARGEST:
            raise OverflowError(f"exact moments hold {LARGEST:,.0f} rows at most")
        add = np.add if sign > 0 else np.subtract
        return replace(
            self, count=count, **{name: add(getattr(self, name), _fixed(part)) for name, part in parts.items()}
        )

    def with_output(self, value: float) -> ExactMoments:
        """With one more output, whose target at every row so far is a number."""
        if abs(value) != 1.0:
            raise ValueError(f"value must be 1 or -1, got {value!r}")
        sign, rows = int(value), self.count << BITS
        return replace(
            self,
            cross=np.concatenate([self.cross, sign * self.features], axis=1),
            targets=np.append(self.targets, sign * rows),
            squares=np.append(self.squares, rows),
        )

    def moments(self) -> Moments:
        """The same as `Moments`, in float64."""
        parts = {f.name: _real(getattr(self, f.name)) for f in fields(Sums)[1:]}
        sums = Sums(weight=float(self.count), **parts)
        return Moments(
            self.whitening, np.asfortranarray(_real(self.second)), sums, self.count, np.zeros(len(self.targets))
        )

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All of it as what JSON can hold and arrays."""
        facts = {name: getattr(self.whitening, name) for name in ("size", "jitter", "scale", "rounding")}
        arrays = {name: getattr(self, name) for name in ("second", "features", "cross", "targets", "squares")}
        if self.whitening.T is not None:
            arrays["T"] = np.triu(self.whitening.T)
        return {**facts, "count": self.count}, arrays

    @classmethod
    def unpack(cls, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> ExactMoments:
        """What `pack` packed; ValueError if the arrays do not fit together."""
        facts = dict(facts)
        count, T = int(facts.pop("count")), arrays.get("T")
        whitening = Whitening(None if T is None else np.asfortranarray(T), **facts)
        names = ("second", "features", "cross", "targets", "squares")
        found = cls(whitening, **{name: np.asarray(arrays[name], dtype=np.int64) for name in names}, count=count)
        m, t = whitening.size, len(found.targets)
        shapes = tuple(getattr(found, name).shape for name in names)
        if shapes != ((m, m), (m, 1), (m, t), (t,), (t,)) or (T is not None and T.shape != (m, m)) or count < 0:
            raise ValueError("the arrays do not fit together")
        return found


def _fixed(values: Array) -> Array:
    scaled = values * SCALE  # a power of two: as exact as ldexp, which takes one number after another
    return np.rint(scaled, out=scaled).astype(np.int64)


def _real(values: Array) -> Array:
    return np.asarray(values.astype(np.float64) / SCALE)
