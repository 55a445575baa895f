"""Solves and products with the triangles of a matrix in a file, which is read in strips, once for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .rows import Rows, as_bytes, as_rows
from .tiles import add_product, triangular

Array = np.ndarray[Any, Any]

_SHARE = 0.8  # of the budget for a strip; the rest is for what BLAS packs
_STRIP = 512  # rows of a matrix that are taken at a time, at most


@dataclass(frozen=True)
class Triangle:
    """Which triangle of a square matrix is meant.

    Parameters
    ----------
    lower : bool
        Whether it is the lower one.
    transposed : bool
        Whether its transpose is meant.
    diagonal : array of shape (m,), optional
        Its diagonal, if that is not the one of the matrix: two triangles may share a matrix.
    """

    lower: bool
    transposed: bool = False
    diagonal: Array | None = None

    def turned(self) -> Triangle:
        """The same triangle, of the transposed matrix."""
        return Triangle(not self.lower, not self.transposed, self.diagonal)


def tiled_solve(
    matrix: Array, right: Array, *, memory_budget: int, lower: bool = True, transposed: bool = False
) -> Array:
    """L⁻¹b, or L⁻ᵀb if `transposed`; with U for L if `lower` is false.

    The triangle is read once, a few rows at a time: for a few right-hand sides that is what takes the time.

    Parameters
    ----------
    matrix : array or memory map of shape (m, m)
        As `tiled_cholesky` left it; may be read-only.
    right : array of shape (m,) or (m, t)
        b; it and the result are kept in memory, beside the budget.
    memory_budget, lower
        As in `tiled_cholesky`.
    transposed : bool

    Returns
    -------
    array of the shape of `right`
        In the type of the matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.linalg.strips import tiled_solve
    >>> L = np.array([[2.0, 0.0], [1.0, 2.0]])
    >>> tiled_solve(L, np.array([2.0, 5.0]), memory_budget=100)
    array([1., 2.])
    """
    return Strips(matrix, memory_budget).solve(right, Triangle(lower, transposed))


class Strips:
    """A square matrix, C- or Fortran-ordered, of which some rows, or columns, are in memory at a time.

    Parameters
    ----------
    matrix : array or memory map of shape (m, m)
    memory_budget : int
        Bytes of a memory map that may be resident at a time, at most. Vectors are kept in memory beside them.
    """

    def __init__(self, matrix: Array, memory_budget: int):
        self._view, self._turned = as_rows(matrix)
        self._rows = Rows(self._view)
        width = max(1, len(self._view)) * self._view.itemsize
        self._height = min(_STRIP, max(1, int(_SHARE * as_bytes(memory_budget)) // width))

    def solve(self, right: Array, triangle: Triangle) -> Array:
        """x with triangle · x = right."""
        solution = self._columns(right)
        step = _Substitution(self._view, self._seen(triangle), solution)
        for start, stop in self._strips(ascending=step.ascending):
            step(start, stop)
        return solution.reshape(np.shape(right))

    def solve_in_turn(
        self, right: Array, first: Triangle, second: Triangle, plus: Array | None = None
    ) -> tuple[Array, Array]:
        """x with first · x = right, and y with second · y = x + plus, while the matrix is read once.

        That needs two triangles whose solves run the same way, both from the first unknown on or both from the last.
        """
        x = self._columns(right)
        y = np.zeros_like(x) if plus is None else self._columns(plus)
        steps = _Substitution(self._view, self._seen(first), x), _Substitution(self._view, self._seen(second), y)
        if steps[0].ascending != steps[1].ascending:
            raise ValueError("first and second must be solved in the same order: solve with one after the other")
        for start, stop in self._strips(ascending=steps[0].ascending):
            steps[0](start, stop)
            y[start:stop] += x[start:stop]
            steps[1](start, stop)
        return x.reshape(np.shape(right)), y.reshape(np.shape(right))

    def multiply(self, vectors: Array, triangle: Triangle) -> Array:
        """triangle · vectors."""
        right = self._columns(vectors)
        product = np.zeros_like(right)
        seen = self._seen(triangle)
        for start, stop in self._strips(ascending=True):
            strip = _Strip(self._view, seen, start, stop)
            half = np.tril(strip.corner) if seen.lower else np.triu(strip.corner)
            _add(product[start:stop], half.T if seen.transposed else half, right[start:stop])
            strip.add(product, right, transposed=seen.transposed)
        return product.reshape(np.shape(vectors))

    def multiply_symmetric(self, vectors: Array, triangle: Triangle) -> Array:
        """The symmetric matrix with that triangle, times vectors."""
        right = self._columns(vectors)
        product = np.zeros_like(right)
        seen = self._seen(triangle)
        for start, stop in self._strips(ascending=True):
            strip = _Strip(self._view, seen, start, stop)
            half = np.tril(strip.corner) if seen.lower else np.triu(strip.corner)
            full = half + half.T
            np.fill_diagonal(full, half.diagonal())
            _add(product[start:stop], full, right[start:stop])
            strip.add(product, right, transposed=False)
            strip.add(product, right, transposed=True)
        return product.reshape(np.shape(vectors))

    def _seen(self, triangle: Triangle) -> Triangle:
        """A triangle of the matrix, as one of the view."""
        return triangle.turned() if self._turned else triangle

    def _columns(self, vectors: Array) -> Array:
        """A copy of vectors, as columns in the type of the matrix."""
        size, vectors = len(self._view), np.asarray(vectors)
        if vectors.ndim not in (1, 2) or len(vectors) != size:
            raise ValueError(f"right must have shape ({size},) or ({size}, t) to match matrix, got {vectors.shape}")
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        return np.array(columns, dtype=self._view.dtype, order="F", copy=True)

    def _strips(self, *, ascending: bool) -> Iterator[tuple[int, int]]:
        size = len(self._view)
        starts = range(0, size, self._height)
        for start in starts if ascending else reversed(starts):
            stop = min(size, start + self._height)
            yield start, stop
            self._rows.release(start, stop)


class _Strip:
    """Some rows of a triangle: the corner on the diagonal, with its own diagonal, and what is beside it."""

    def __init__(self, view: Array, triangle: Triangle, start: int, stop: int):
        self.here = slice(start, stop)
        self._beside = slice(0, start) if triangle.lower else slice(stop, len(view))
        self.corner = np.array(view[start:stop, start:stop])
        if triangle.diagonal is not None:
            np.fill_diagonal(self.corner, triangle.diagonal[start:stop])
        self._block = view[self.here, self._beside]

    def add(self, out: Array, vectors: Array, *, transposed: bool, factor: float = 1.0) -> None:
        """out += factor · block · vectors for the rows here, or factor · blockᵀ · vectors for those beside."""
        if transposed:
            _add(out[self._beside], self._block.T, vectors[self.here], factor)
        else:
            _add(out[self.here], self._block, vectors[self._beside], factor)


class _Substitution:
    """The part of a triangular solve that one strip of the triangle's matrix takes, in place.

    Unknowns of a strip are final after its step, and their right side is not looked at before it.
    """

    def __init__(self, view: Array, triangle: Triangle, solution: Array):
        self._view, self._triangle, self._solution = view, triangle, solution
        self.ascending = triangle.lower != triangle.transposed

    def __call__(self, start: int, stop: int) -> None:
        triangle, solution = self._triangle, self._solution
        if solution.shape[1] == 0:
            return
        strip = _Strip(self._view, triangle, start, stop)
        if not triangle.transposed:
            strip.add(solution, solution, transposed=False, factor=-1.0)
        here = solution[start:stop]
        triangular("trsm", here, strip.corner, left=True, lower=triangle.lower, transposed=triangle.transposed)
        if triangle.transposed:
            strip.add(solution, solution, transposed=True, factor=-1.0)


def _add(out: Array, block: Array, vectors: Array, factor: float = 1.0) -> None:
    """out += factor · block · vectors; BLAS is not asked to do nothing, whose arguments it would refuse."""
    if block.size and vectors.size:
        add_product(out, block, vectors, factor)
