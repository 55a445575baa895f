"""The state of recursive least squares: the triangular factor [R Z] of all rows seen, which takes up more of them."""

from __future__ import annotations

import functools
import threading
from typing import Any, Self

import numpy as np
from scipy.linalg import lapack, solve_triangular
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from gyrfalcon.native import core

from .missing_penalty import with_missing_penalty

Array = np.ndarray[Any, Any]

PENDING_ROWS = 8  # single rows that wait to be taken up together, which takes half the time of one after the other
VECTOR = 8  # numbers that the widest instructions take at once
BLOCK_ROWS = 512  # from which on LAPACK's blocked QR is faster than reflections, by `python -m benchmarks online`
LAPACK_BLOCK = 64  # columns that LAPACK transforms together
LEAST_PENALTY = 0.25  # share of the penalty that the factor holds at least: what is missing is added when it is solved
MISSING = 0.03  # share of the penalty that may be missing before it is put back, coordinate by coordinate
PUT_BACK = 8  # coordinates at most whose penalty is put back with a row
LEAST_SCALE = 1e-8  # of what is stored, before it is multiplied by what was forgotten


def whole_vectors(columns: int) -> int:
    """So many columns or a few more, which the compiled core handles in whole vectors."""
    return -(-columns // VECTOR) * VECTOR


@functools.cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


class Factor:
    """The upper triangular R and the rotated targets Z with R'R = Σ wᵢ xᵢxᵢ' + diag(penalties), R'Z = Σ wᵢ xᵢyᵢ'.

    It is the triangular factor of the stacked rows, so that solving R W = Z is as accurate as a QR decomposition of all
    of them. What the reflections leave over of the targets is the sum of squared residuals, penalty included.

    Parameters
    ----------
    penalties : array of shape (d,)
        One for each coordinate. Those without a penalty come first.
    outputs : int
        The number of targets of a row.

    Attributes
    ----------
    leftover : array of shape (1, outputs)
        The minimum of the objective that R and Z stand for.
    weight : float
        Σ wᵢ.
    held : array of shape (d,)
        The share of each penalty that R holds: less than one after forgetting. A few coordinates at a time get theirs
        back with each row, and what is missing in others is added when the model is solved.
    """

    def __init__(self, penalties: Array, outputs: int):
        self.penalties = penalties
        d = len(penalties)
        self._room = np.zeros((d, whole_vectors(d + outputs)))  # with room for more outputs
        self._room[np.arange(d), np.arange(d)] = np.sqrt(penalties)
        self._leftover_room = np.zeros((1, self._room.shape[1] - d))
        self.outputs = outputs
        self.weight = 0.0
        self.held = np.ones(d)
        self._scale = 1.0  # R'R is so many times that of the stored table: forgetting costs nothing that way
        self._solved: Array | None = None
        self._coefficients: Array | None = None
        self._wait()

    def _wait(self) -> None:
        """Room for single rows that are taken up when eight are there, or when somebody asks."""
        self.pending = np.zeros((PENDING_ROWS, self.width + self.outputs))
        self._waiting = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        self._flush()
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "pending", "_waiting")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._wait()

    @property
    def width(self) -> int:
        return len(self._room)

    @property
    def table(self) -> Array:
        """[R Z]."""
        return self._scaled(self._room[:, : self.width + self.outputs], np.sqrt(self._scale))

    @property
    def R(self) -> Array:  # noqa: N802
        return self._scaled(self._room[:, : self.width], np.sqrt(self._scale))

    @property
    def Z(self) -> Array:  # noqa: N802
        return self._scaled(self._room[:, self.width : self.width + self.outputs], np.sqrt(self._scale))

    @property
    def leftover(self) -> Array:
        return self._scaled(self._leftover_room[:, : self.outputs], self._scale)

    def _scaled(self, stored: Array, scale: float) -> Array:
        """What is stored, which its owner may change after `_settle`, or a copy: reading changes no bits."""
        self._flush()
        return stored if scale == 1.0 else stored * scale

    def _changed(self) -> None:
        self._solved = self._coefficients = None

    def copy(self) -> Factor:
        new = Factor.__new__(Factor)
        new.__setstate__(self.__getstate__())
        new._room, new._leftover_room, new.held = self._room.copy(), self._leftover_room.copy(), self.held.copy()
        return new

    @property
    def whole(self) -> bool:
        """Whether all of the penalties is held."""
        return bool((self.held == 1.0).all())

    # Taking up rows.

    def add(self, X: Array, Y: Array, weights: Array | None = None, *, forgetting: float = 1.0) -> None:
        """Take up rows in the order of time; each forgets those before it by a factor."""
        count = len(X)
        if forgetting != 1.0:
            self.forget(forgetting**count)
            ages = forgetting ** np.arange(count - 1.0, -1.0, -1.0)
            weights = ages if weights is None else weights * ages
        self.weight += float(count) if weights is None else float(weights.sum())
        rows = np.empty((count, self.width + self.outputs))
        rows[:, : self.width], rows[:, self.width :] = X, Y
        if weights is not None:
            rows *= np.sqrt(weights)[:, None]
        self._changed()
        if core is not None and count < BLOCK_ROWS:
            self._flush()
            self._reflect(rows)
        else:
            self._stack(rows, triangular=False)
        if forgetting != 1.0 and core is not None:
            self._put_back(count, 1.0 - forgetting**count)
        if self.held.min(initial=1.0) < LEAST_PENALTY:
            self.top_up()

    @property
    def slot(self) -> int:
        """Which row of `pending` is to be filled before `push` takes it; only where the compiled core is."""
        return self._waiting

    def push(self) -> None:
        """Take up the row that was written to `pending`, of weight one, at once or a little later."""
        self.weight += 1.0
        self._solved = self._coefficients = None
        self._waiting += 1
        if self._waiting == PENDING_ROWS:
            self._settle()

    def _flush(self) -> None:
        """Take up the rows that wait. Threads that predict may all come here."""
        if self._waiting:
            with self._lock:
                if self._waiting:
                    self._reflect(self.pending[: self._waiting])
                    self._waiting = 0

    def _settle(self) -> None:
        """Take up the rows that wait, and store what was forgotten."""
        self._flush()
        if self._scale != 1.0:
            with self._lock:
                self._room *= np.sqrt(self._scale)
                self._leftover_room *= self._scale
                self._scale = 1.0

    def _reflect(self, rows: Array) -> None:
        """Take up a few rows by reflections of eight at a time."""
        assert core is not None
        if self._scale != 1.0:
            rows = rows / np.sqrt(self._scale)
        leftover = self._leftover_room[:, : self.outputs].copy()
        core.take_up(self._room, rows, leftover)
        self._leftover_room[:, : self.outputs] = leftover

    def forget(self, factor: float) -> None:
        """Multiply the weights of all rows taken up, and the shares of the penalties that are held."""
        self._flush()
        self._scale *= factor
        self.weight *= factor
        self.held = np.where(self.penalties > 0, self.held * factor, 1.0)
        if self._scale < LEAST_SCALE:
            self._settle()
        self._changed()

    def _put_back(self, rows: int, forgotten: float) -> None:
        """Give some coordinates the whole of their penalties again, those first that have waited for the longest."""
        free = int(np.count_nonzero(self.penalties == 0))
        penalized = self.width - free
        count = min(max(PUT_BACK, rows), int(np.ceil(penalized * forgotten / MISSING)), penalized)
        if count == 0:
            return
        oldest = int(np.argmin(self.held[free:]))
        places = np.sort(free + (oldest + np.arange(count)) % penalized)
        rows_of_penalty = np.zeros((count, self.width + self.outputs))
        missing = np.maximum(1.0 - self.held[places], 0.0) * self.penalties[places]
        rows_of_penalty[np.arange(count), places] = np.sqrt(missing)
        self._reflect(rows_of_penalty)
        self.held[places] = 1.0

    def top_up(self) -> None:
        """Put back what forgetting has taken from the penalties."""
        self._raise(1.0)

    def _raise(self, share: float) -> None:
        """Let R hold so large a share of each penalty, and nowhere less than it does."""
        missing = np.maximum(share - self.held, 0.0) * self.penalties
        if missing.any():
            rows = np.zeros((self.width, self.width + self.outputs))
            diagonal = np.arange(self.width)
            rows[diagonal, diagonal] = np.sqrt(missing)
            self._stack(rows, triangular=True)
        self.held = np.where(self.penalties > 0, np.maximum(self.held, share), 1.0)

    def absorb(self, other: Factor, share: float = 1.0) -> None:
        """Take up all rows of another factor, their weights multiplied by a share."""
        self._settle()
        self._stack(other.table * np.sqrt(share), triangular=True)
        self.leftover[:] += share * other.leftover
        self.weight += share * other.weight
        self.held = self.held + np.where(other.penalties > 0, share * other.held, 0.0)

    def _stack(self, rows: Array, *, triangular: bool) -> None:
        """The factor of [R Z] on top of rows, by a QR decomposition in blocks that keeps the triangle."""
        self._settle()
        d = self.width
        if d == 0 or len(rows) == 0:
            self.leftover[:] += np.square(rows[:, d:]).sum(0)
            return
        pentagon = d if triangular else 0
        with _threads().limit(limits=1, user_api="blas"):  # more gain little, and lose much where others work too
            R, V, T, info = lapack.dtpqrt(pentagon, min(LAPACK_BLOCK, d), self.R, rows[:, :d])
            assert info == 0
            if self.outputs:
                Z, rest, info = lapack.dtpmqrt(pentagon, V, T, self.Z, rows[:, d:], trans="T")
                assert info == 0
                self.Z[:] = Z
                self.leftover[:] += np.square(rest).sum(0)
        signs = np.where(np.diag(R) < 0, -1.0, 1.0)[:, None]  # positive diagonals, as the reflections have them
        self.R[:] = np.triu(R) * signs
        self.Z[:] *= signs
        self._changed()

    # Outputs that come and go.

    def grow(self, count: int) -> None:
        """Add outputs, which were zero in all rows so far."""
        self._settle()
        needed = self.width + self.outputs + count
        if needed > self._room.shape[1]:
            room = np.zeros((self.width, whole_vectors(needed + (self.outputs if self.outputs > 1 else 0))))
            room[:, : self._room.shape[1]] = self._room
            leftover = np.zeros((1, room.shape[1] - self.width))
            leftover[:, : self._leftover_room.shape[1]] = self._leftover_room
            self._room, self._leftover_room = room, leftover
        self.outputs += count
        self._wait()
        self._changed()

    def drop(self, output: int) -> None:
        """Remove an output."""
        self._settle()
        kept = np.delete(np.arange(self.outputs), output)
        Z, leftover = self.Z[:, kept].copy(), self.leftover[:, kept].copy()
        self.Z[:], self.leftover[:] = 0.0, 0.0
        self.outputs -= 1
        self._wait()
        self.Z[:], self.leftover[:] = Z, leftover
        self._changed()

    def spread(self, columns: Array, outputs: int) -> Factor:
        """The same rows with the outputs in these columns of more, and zeros in the others."""
        wide = Factor(self.penalties, outputs)
        wide.R[:], wide.Z[:, columns], wide.leftover[:, columns] = self.R, self.Z, self.leftover
        wide.weight, wide.held = self.weight, self.held.copy()
        return wide

    # Merging.

    def merge(self, other: Factor) -> None:
        """Take up all rows of another factor with the same penalties, which then are held once."""
        self.absorb(other)
        share = float(self.held.max(initial=1.0))
        if share > 1.0:
            self._raise(share)
            self._remove_penalty(share - 1.0)
            self.held = np.ones(self.width)
        self._changed()

    def _remove_penalty(self, surplus: float) -> None:
        """Subtract a share of the penalties from R'R. One share stays, so no digits are lost."""
        free = int(np.count_nonzero(self.penalties == 0))
        root = np.sqrt(self.penalties[free:])
        U, s, Vt = np.linalg.svd(self.R[free:, free:] / root)
        reduced = (s - np.sqrt(surplus)) * (s + np.sqrt(surplus))
        rotated = U.T @ self.Z[free:]
        self.leftover[:] -= surplus * (rotated**2 / reduced[:, None]).sum(0)
        np.maximum(self.leftover, 0.0, out=self.leftover)
        scale = np.sqrt(reduced)[:, None]
        rows = np.hstack([scale * Vt * root, s[:, None] / scale * rotated])
        part = Factor(np.zeros(self.width - free), self.outputs)
        part._stack(rows, triangular=False)
        self.R[free:, free:], self.Z[free:] = part.R, part.Z

    # Questions.

    def project(self, X: Array, *, solved: bool = True) -> tuple[Array, Array]:
        """V = X R⁻¹, and the predictions X W. Both cost the square of the width for a row."""
        V, found = self._project(X)
        if not solved or self.whole:
            return V, found
        if len(X) <= self.outputs and self._solved is None:
            Z = self._room[:, self.width : self.width + self.outputs]
            return V, np.sqrt(self._scale) * (self._with_whole_penalty(V.T).T @ Z)
        return V, V @ self.solved()

    def _project(self, X: Array) -> tuple[Array, Array]:
        """V, and V Z."""
        if core is None:
            V = solve_triangular(self.R, X.T, trans="T", check_finite=False).T
            return V, V @ self.Z
        rows = np.zeros((len(X), self.width + self.outputs))
        rows[:, : self.width] = X
        self._flush()
        core.project(self._room, rows)
        return rows[:, : self.width] / np.sqrt(self._scale), -rows[:, self.width :]

    def solved(self) -> Array:
        """U = R W, where W minimizes the objective with the whole penalty: Z, if that is held."""
        if self.whole:
            return self.Z
        if self._solved is None:
            self._solved = self._with_whole_penalty(self.Z)
        return self._solved

    def coefficients(self) -> Array:
        """W, of shape (d, outputs)."""
        if self._coefficients is None:
            self._coefficients = np.asarray(solve_triangular(self.R, self.solved(), check_finite=False))
        return self._coefficients

    def predict(self, X: Array) -> Array:
        """X W: through W if that is known or worth its price, otherwise row by row."""
        if self._coefficients is None and len(X) <= max(1, self.outputs):
            return self.project(X)[1]
        return np.asarray(X @ self.coefficients())

    def variances(self, V: Array) -> Array:
        """x'(R'R + missing penalties)⁻¹x for each row v = R⁻ᵀx of V."""
        if self.whole:
            return np.asarray(np.square(V).sum(1))
        return np.asarray(np.einsum("ij,ji->i", V, self._with_whole_penalty(V.T)))

    def objective(self) -> Array:
        """The minimum of the penalized sum of squares, one number per output."""
        if self.whole:
            return np.array(self.leftover[0])
        # At the minimum the objective is |y|² - b'W = leftover + Z'(Z - U).
        found = self.leftover[0] + (self.Z * (self.Z - self.solved())).sum(0)
        return np.asarray(np.maximum(found, 0.0))

    def _with_whole_penalty(self, B: Array) -> Array:
        missing = np.maximum(1.0 - self.held, 0.0) * self.penalties
        if core is None:
            return with_missing_penalty(self.R, missing, B)
        self._flush()
        rows = np.array(B.T, order="C")
        core.with_missing(self._room, missing / self._scale, rows)
        return rows.T

    # Files.

    def arrays(self, name: str) -> dict[str, Array]:
        """All of it as arrays, under names that begin with the one given."""
        # R below the diagonal is zero; the copy is without the room for more outputs.
        self._flush()
        parts = {
            "table": self._room[:, : self.width + self.outputs],
            "leftover": self._leftover_room[:, : self.outputs],
        }
        parts = {part: array.copy() for part, array in parts.items()}
        parts |= {"numbers": np.array([self.weight, self._scale]), "held": self.held.copy()}
        return {f"{name}.{part}": array for part, array in parts.items()}

    @classmethod
    def from_arrays(cls, penalties: Array, arrays: dict[str, Array], name: str) -> Self:
        table, leftover, numbers = (arrays[f"{name}.{part}"] for part in ("table", "leftover", "numbers"))
        d = len(penalties)
        if table.ndim != 2 or len(table) != d or table.shape[1] < d or leftover.shape != (1, table.shape[1] - d):
            raise ValueError(f"{name} does not fit the width {d} of the model")
        if not (np.isfinite(table).all() and np.isfinite(leftover).all() and np.isfinite(numbers).all()):
            raise ValueError(f"{name} holds numbers that are not finite")
        known = f"{name}.held" in arrays  # files of version 0.2 have one share for all penalties instead of the scale
        held = arrays[f"{name}.held"] if known else np.where(penalties > 0, numbers[1], 1.0)
        scale = float(numbers[1]) if known else 1.0
        if held.shape != (d,) or not ((held > 0) & (held <= 1)).all() or not 0 < scale <= 1:
            raise ValueError(f"{name} holds shares of penalties that are not between zero and one")
        factor = cls(penalties, table.shape[1] - d)
        factor.table[:], factor.leftover[:] = table, leftover
        factor.weight, factor.held, factor._scale = float(numbers[0]), held.astype(np.float64), scale
        return factor
