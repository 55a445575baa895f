"""A square matrix in memory, or in a file if the budget is too small for it, and what is done with its triangles."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import blas, lapack

from .passes import Change, change_lower, mirror_strict, tiled_add_gram, tiled_change_lower, tiled_mirror
from .rows import Rows, as_bytes
from .scratch import Scratch
from .strips import Strips, Triangle
from .tiled import tiled_cholesky, tiled_lauum

Array = np.ndarray[Any, Any]
Columns: TypeAlias = Callable[[int, int], Array]  # (start, stop) ↦ these columns of a matrix

MEMORY_SHARE = 0.5  # of the budget that a matrix in memory may take
_FILL_SHARE = 1 / 8  # of the budget for the columns that are made at a time; what makes them may need more


class Square(ABC):
    """A Fortran-ordered square matrix whose triangles are worked on in place and hold different things.

    `Square.fitting` makes one in memory or in a file, `InMemory` and `OnDisk` take an array that is there already.

    Parameters
    ----------
    array : array of shape (m, m)
        float32 or float64.
    """

    def __init__(self, array: Array):
        if not array.flags.f_contiguous:
            raise ValueError("array must be Fortran-ordered, for it is worked on in place: use np.asfortranarray")
        self.array = array

    @staticmethod
    def fitting(
        size: int,
        columns: Columns | None = None,
        *,
        memory_budget: int,
        directory: str | os.PathLike[str] | None = None,
    ) -> Square:
        """A float64 matrix, in memory if it takes at most half the budget, and else in a temporary file.

        The file has no name, so that it ends with the object or the process, however that ends.

        Parameters
        ----------
        size : int
            m.
        columns : callable (start, stop) -> array of shape (m, stop - start), optional
            What the matrix is to hold, some columns at a time; zero if not given.
        memory_budget : int
            Bytes that may be resident, at most, for the matrix and what is done with it; vectors come on top.
        directory : str or path, optional
            Where the file is to be: that of `tempfile`, which TMPDIR sets, or /var/tmp if that one is in memory.

        Raises
        ------
        ScratchFullError
            If the file does not fit there.

        Examples
        --------
        >>> import numpy as np
        >>> from gyrfalcon.linalg.square import Square
        >>> x = np.arange(300.0)
        >>> square = Square.fitting(300, lambda start, stop: np.outer(x, x[start:stop]), memory_budget=10**5)
        >>> type(square).__name__, float(square.array[3, 4])
        ('OnDisk', 12.0)
        """
        budget = as_bytes(memory_budget)
        blocks = () if columns is None else _blocks(columns, size, budget)
        if 8 * size**2 <= MEMORY_SHARE * budget:
            array = np.zeros((size, size), order="F")
            for start, block in blocks:
                array[:, start : start + block.shape[1]] = block
            return InMemory(array)
        with Scratch(8 * size**2, directory) as scratch:
            for _, block in blocks:
                scratch.write(block)
            return OnDisk(scratch.mapped(np.dtype(np.float64), (size, size)), memory_budget=budget)

    def __len__(self) -> int:
        return len(self.array)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    @abstractmethod
    def diagonal(self) -> Array:
        """A copy of the diagonal."""

    @abstractmethod
    def set_diagonal(self, values: Array) -> None:
        """Overwrite the diagonal."""

    @abstractmethod
    def block(self, rows: slice, columns: slice) -> Array:
        """A copy of a part."""

    @abstractmethod
    def mirror(self, *, from_lower: bool) -> None:
        """Copy one strict triangle onto the other."""

    @abstractmethod
    def change_lower(self, change: Change) -> None:
        """Let `change(block, rows, columns)` change blocks of the lower triangle, diagonal included, in place.

        What it does to entries above the diagonal, in blocks that have some, is not kept.
        """

    @abstractmethod
    def factor(self, *, lower: bool) -> bool:
        """Cholesky of a triangle, in place: L Lᵀ or UᵀU. False if it is not positive definite; then it is spoiled."""

    @abstractmethod
    def square_lower(self) -> None:
        """LᵀL of the lower triangle L, in its place."""

    @abstractmethod
    def add_gram(self, features: Array, factor: float) -> None:
        """Add factor · features · featuresᵀ to the lower triangle, for features of shape (m, k)."""

    @abstractmethod
    def solve(self, right: Array, triangle: Triangle) -> Array:
        """x with triangle · x = right."""

    @abstractmethod
    def multiply(self, vectors: Array, triangle: Triangle) -> Array:
        """triangle · vectors."""

    @abstractmethod
    def multiply_symmetric(self, vectors: Array, triangle: Triangle) -> Array:
        """The symmetric matrix that has this triangle, times vectors."""

    def solve_in_turn(
        self, right: Array, first: Triangle, second: Triangle, plus: Array | None = None
    ) -> tuple[Array, Array]:
        """x with first · x = right, and y with second · y = x + plus."""
        x = self.solve(right, first)
        return x, self.solve(x if plus is None else x + plus, second)


class InMemory(Square):
    """A square matrix in memory, which LAPACK works on."""

    def diagonal(self) -> Array:
        return self.array.diagonal().copy()

    def set_diagonal(self, values: Array) -> None:
        np.fill_diagonal(self.array, values)

    def block(self, rows: slice, columns: slice) -> Array:
        return self.array[rows, columns].copy()

    def mirror(self, *, from_lower: bool) -> None:
        mirror_strict(self.array, from_lower=from_lower)

    def change_lower(self, change: Change) -> None:
        change_lower(self.array, change)

    def _routine(self, module: Any, name: str) -> Any:
        return getattr(module, ("s" if self.dtype == np.float32 else "d") + name)

    def factor(self, *, lower: bool) -> bool:
        _, failed = self._routine(lapack, "potrf")(self.array, lower=lower, overwrite_a=1, clean=0)
        return int(failed) == 0

    def square_lower(self) -> None:
        self._routine(lapack, "lauum")(self.array, lower=1, overwrite_c=1)

    def add_gram(self, features: Array, factor: float) -> None:
        self._routine(blas, "syrk")(factor, features, beta=1.0, c=self.array, lower=1, overwrite_c=1)

    def _apply(self, routine: str, vectors: Array, triangle: Triangle, **flags: int) -> Array:
        if triangle.diagonal is not None:
            self.set_diagonal(triangle.diagonal)
        vectors = np.asarray(vectors)
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        right = np.array(columns, dtype=self.dtype, order="F", copy=True)
        result: Array = self._routine(blas, routine)(1.0, self.array, right, lower=triangle.lower, **flags)
        return result.reshape(vectors.shape)

    def solve(self, right: Array, triangle: Triangle) -> Array:
        return self._apply("trsm", right, triangle, trans_a=triangle.transposed, overwrite_b=1)

    def multiply(self, vectors: Array, triangle: Triangle) -> Array:
        return self._apply("trmm", vectors, triangle, trans_a=triangle.transposed, overwrite_b=1)

    def multiply_symmetric(self, vectors: Array, triangle: Triangle) -> Array:
        return self._apply("symm", vectors, triangle)


class OnDisk(Square):
    """A square matrix in a memory map, by tiles and strips.

    Parameters
    ----------
    array : numpy.memmap of shape (m, m)
        Fortran-ordered and writeable.
    memory_budget : int
        Bytes that may be resident, at most, the pages of the map included; vectors come on top.
    """

    def __init__(self, array: Array, *, memory_budget: int):
        super().__init__(array)
        self.memory_budget = as_bytes(memory_budget)
        self._columns = Rows(array.T)
        self._strips = Strips(array, memory_budget)

    def diagonal(self) -> Array:
        found = np.empty(len(self), dtype=self.dtype)
        for here in self._columns.strips(0, len(self)):
            found[here] = self.array[here, here].diagonal()
        return found

    def set_diagonal(self, values: Array) -> None:
        values = np.broadcast_to(values, len(self))
        for here in self._columns.strips(0, len(self)):
            np.fill_diagonal(self.array[here, here], values[here])

    def block(self, rows: slice, columns: slice) -> Array:
        first, last, _ = columns.indices(len(self))
        found = np.empty(self.array[rows, columns].shape, dtype=self.dtype, order="F")
        for some in self._columns.strips(first, last):
            found[:, some.start - first : some.stop - first] = self.array[rows, some]
        return found

    def mirror(self, *, from_lower: bool) -> None:
        tiled_mirror(self.array, memory_budget=self.memory_budget, from_lower=from_lower)

    def change_lower(self, change: Change) -> None:
        tiled_change_lower(self.array, change, memory_budget=self.memory_budget)

    def factor(self, *, lower: bool) -> bool:
        try:
            tiled_cholesky(self.array, memory_budget=self.memory_budget, lower=lower)
        except np.linalg.LinAlgError:
            return False
        return True

    def square_lower(self) -> None:
        tiled_lauum(self.array, memory_budget=self.memory_budget)

    def add_gram(self, features: Array, factor: float) -> None:
        features = np.asfortranarray(features, dtype=self.dtype)
        tiled_add_gram(self.array, features, factor, memory_budget=self.memory_budget)

    def solve(self, right: Array, triangle: Triangle) -> Array:
        return self._strips.solve(right, triangle)

    def multiply(self, vectors: Array, triangle: Triangle) -> Array:
        return self._strips.multiply(vectors, triangle)

    def multiply_symmetric(self, vectors: Array, triangle: Triangle) -> Array:
        return self._strips.multiply_symmetric(vectors, triangle)

    def solve_in_turn(
        self, right: Array, first: Triangle, second: Triangle, plus: Array | None = None
    ) -> tuple[Array, Array]:
        return self._strips.solve_in_turn(right, first, second, plus)


def _blocks(columns: Columns, size: int, budget: int) -> Iterator[tuple[int, Array]]:
    """Columns of a matrix, as many at a time as a budget allows, and where they start."""
    width = max(1, int(_FILL_SHARE * budget) // (8 * max(1, size)))
    for start in range(0, size, width):
        stop = min(size, start + width)
        block = np.asarray(columns(start, stop), dtype=np.float64, order="F")
        if block.shape != (size, stop - start):
            raise ValueError(f"columns must return an array of shape {(size, stop - start)}, got {block.shape}")
        yield start, block
