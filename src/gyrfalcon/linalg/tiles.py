"""A triangle cut into square tiles: reading and writing them, and the arithmetic of one tile, on any device."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch
from scipy import LowLevelCallable
from scipy.linalg import cython_blas, cython_lapack
from torch import Tensor

from .rows import Rows

Array = np.ndarray[Any, Any]


class Tiles:
    """The tiles (i, j), i ≥ j, of a lower triangle L, which may be kept as its transpose, an upper triangle.

    Parameters
    ----------
    matrix : C-ordered array of shape (m, m)
    lower : bool
        Whether L is the lower triangle of the matrix, or the transpose of its upper one.
    side : int
        Rows and columns of a tile; the last ones have fewer.
    """

    def __init__(self, matrix: Array, *, lower: bool, side: int):
        self._rows = Rows(matrix)
        self._lower, self.side = lower, side
        self.dtype = matrix.dtype
        self.count = -(-len(matrix) // side)

    def span(self, i: int) -> slice:
        """The rows of L that tiles (i, j) have, or the columns of tiles (j, i)."""
        return slice(i * self.side, min(len(self._rows.matrix), (i + 1) * self.side))

    def _place(self, i: int, j: int) -> tuple[int, int, slice]:
        rows, columns = (self.span(i), self.span(j)) if self._lower else (self.span(j), self.span(i))
        return rows.start, rows.stop, columns

    def read(self, i: int, j: int, buffer: Array) -> Array:
        """Tile (i, j) of L, as a view of a buffer of at least side² numbers."""
        first, last, columns = self._place(i, j)
        shape = last - first, columns.stop - columns.start
        block = buffer[: shape[0] * shape[1]].reshape(shape)
        for rows in self._rows.strips(first, last):
            block[rows.start - first : rows.stop - first] = self._rows.matrix[rows, columns]
        return block if self._lower else block.T

    def write(self, i: int, j: int, tile: Array) -> None:
        first, last, columns = self._place(i, j)
        block = tile if self._lower else tile.T
        for rows in self._rows.strips(first, last):
            self._rows.matrix[rows, columns] = block[rows.start - first : rows.stop - first]


class NumpyWorker:
    """Arithmetic of tiles in main memory, by SciPy's BLAS and LAPACK; triangles are lower, what is above is kept."""

    held = 3  # tiles in memory at a time

    def __init__(self, tiles: Tiles):
        self._tiles = tiles
        self._buffers = [np.empty(tiles.side**2, dtype=tiles.dtype) for _ in range(self.held)]

    def read(self, i: int, j: int, place: int) -> Array:
        """Tile (i, j), in the place of what was read there before."""
        return self._tiles.read(i, j, self._buffers[place])

    def write(self, i: int, j: int, tile: Array) -> None:
        self._tiles.write(i, j, tile)

    def add_product(self, tile: Array, left: Array, right: Array, factor: float) -> None:
        """tile += factor · left · right."""
        add_product(tile, left, right, factor)

    def add_gram(self, tile: Array, left: Array, factor: float) -> None:
        """tile += factor · left · leftᵀ, the triangle only."""
        add_gram(tile, left, factor)

    def solve_right(self, tile: Array, triangle: Array) -> None:
        """tile ← tile · triangle⁻ᵀ."""
        triangular("trsm", tile, triangle, left=False, lower=True, transposed=True)

    def multiply_left(self, tile: Array, triangle: Array) -> None:
        """tile ← triangleᵀ · tile."""
        triangular("trmm", tile, triangle, left=True, lower=True, transposed=True)

    def factor(self, tile: Array) -> int:
        """tile ← its Cholesky factor; returns 0, or the order of the leading minor that is not positive."""
        return _in_place("potrf", tile)

    def square(self, tile: Array) -> None:
        """tile ← tileᵀ · tile, of the triangle only."""
        _in_place("lauum", tile)


class TorchWorker:
    """The same on another device: tiles are copied there, and what was made is copied back."""

    held = 6  # three, one on its way, and the temporaries of PyTorch

    def __init__(self, tiles: Tiles, device: torch.device):
        self._tiles, self._device = tiles, device
        self._buffer = np.empty(tiles.side**2, dtype=tiles.dtype)

    def read(self, i: int, j: int, place: int) -> Tensor:
        return torch.from_numpy(self._tiles.read(i, j, self._buffer)).to(self._device, copy=True)

    def write(self, i: int, j: int, tile: Tensor) -> None:
        self._tiles.write(i, j, tile.cpu().numpy())

    def add_product(self, tile: Tensor, left: Tensor, right: Tensor, factor: float) -> None:
        tile.addmm_(left, right, alpha=factor)

    def add_gram(self, tile: Tensor, left: Tensor, factor: float) -> None:
        tile.add_((left @ left.T).tril_(), alpha=factor)

    def solve_right(self, tile: Tensor, triangle: Tensor) -> None:
        tile.copy_(torch.linalg.solve_triangular(triangle.T, tile, upper=True, left=False))

    def multiply_left(self, tile: Tensor, triangle: Tensor) -> None:
        tile.copy_(triangle.tril().T @ tile)

    def factor(self, tile: Tensor) -> int:
        root, failed = torch.linalg.cholesky_ex(tile)
        tile.copy_(root.tril_().add_(tile.triu(1)))
        return int(failed)

    def square(self, tile: Tensor) -> None:
        root = tile.tril()
        tile.copy_((root.T @ root).tril_().add_(tile.triu(1)))


# BLAS and LAPACK through pointers: the functions in scipy.linalg hold the interpreter's lock while they work, so that
# no other worker could. Any array with unit stride in one dimension will do, as LAPACK's leading dimension allows.


def add_product(out: Array, left: Array, right: Array, factor: float) -> None:
    """out += factor · left · right, in place."""
    swapped, pitch = _columns(out)
    if swapped:
        return add_product(out.T, right.T, left.T, factor)
    (turned_left, pitch_left), (turned_right, pitch_right) = _columns(left), _columns(right)
    (n, t), k = out.shape, left.shape[1]
    if t == 1:  # several times faster than as a product of matrices
        rows, columns = (k, n) if turned_left else (n, k)
        step = max(1, right.strides[0] // right.itemsize)
        return _call("gemv", out, "NT"[turned_left], rows, columns, factor, left, pitch_left, right, step, 1.0, out, 1)
    flags = "NT"[turned_left], "NT"[turned_right]
    _call("gemm", out, *flags, n, t, k, factor, left, pitch_left, right, pitch_right, 1.0, out, pitch)


def add_gram(out: Array, left: Array, factor: float) -> None:
    """out += factor · left · leftᵀ, the lower triangle only, in place."""
    (swapped, pitch), (turned, pitch_left) = _columns(out), _columns(left)
    n, k = left.shape
    _call("syrk", out, "LU"[swapped], "NT"[turned], n, k, factor, left, pitch_left, 1.0, out, pitch)


def triangular(routine: str, out: Array, triangle: Array, *, left: bool, lower: bool, transposed: bool) -> None:
    """Multiply (trmm) or divide (trsm) out by a triangle or its transpose, from the left or the right, in place."""
    swapped, pitch = _columns(out)
    if swapped:
        return triangular(routine, out.T, triangle, left=not left, lower=lower, transposed=not transposed)
    turned, pitch_triangle = _columns(triangle)
    flags = "RL"[left], "UL"[lower != turned], "NT"[transposed != turned], "N"
    _call(routine, out, *flags, *out.shape, 1.0, triangle, pitch_triangle, out, pitch)


def _in_place(routine: str, tile: Array) -> int:
    swapped, pitch = _columns(tile)
    failed = np.zeros(1, dtype=np.int64)
    _call(routine, tile, "LU"[swapped], len(tile), tile, pitch, failed)
    return int(failed[0])


def _columns(array: Array) -> tuple[bool, int]:
    """Whether BLAS, which counts by columns, sees the transpose of an array, and the distance of its columns."""
    turned = array.strides[0] != array.itemsize
    return turned, max(1, array.shape[turned], array.strides[not turned] // array.itemsize)


_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _load(name: str) -> Any:
    module = cython_lapack if name[1:] in ("potrf", "lauum") else cython_blas
    found = LowLevelCallable.from_cython(module, name)
    return ctypes.CFUNCTYPE(None)(_pointer_of(found.function, found.signature.encode()))


_routines = {
    letter + name: _load(letter + name)
    for letter in "sd"
    for name in ("gemm", "gemv", "syrk", "trsm", "trmm", "potrf", "lauum")
}


def _call(name: str, like: Array, *arguments: str | int | float | Array) -> None:
    single = like.dtype == np.float32
    real = ctypes.c_float if single else ctypes.c_double
    passed: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            passed.append(ctypes.c_void_p(argument.ctypes.data))
        elif isinstance(argument, str):
            passed.append(ctypes.c_char_p(argument.encode()))
        elif isinstance(argument, float):
            passed.append(ctypes.byref(real(argument)))
        else:  # 64 bits serve a BLAS that reads 32 as well: the low ones come first
            passed.append(ctypes.byref(ctypes.c_int64(argument)))
    _routines[("s" if single else "d") + name](*passed)
