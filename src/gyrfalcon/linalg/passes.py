"""One pass over the tiles of a triangle: mirror it, change its entries, or add products to it.

What is done to a tile here costs about as much as moving it, so that a pass takes as long as reading and writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isqrt
from typing import Any, TypeAlias

import numpy as np

from .rows import as_bytes, as_rows_to_write
from .tiles import Tiles, add_gram, add_product

Array = np.ndarray[Any, Any]
Change: TypeAlias = Callable[[Array, slice, slice], object]  # changes a block in place, given its rows and columns

_SHARE = 0.4  # of the budget for tiles, which need not be larger for this
_STRIP = 256  # columns of an array in memory that are taken at a time


def mirror_strict(matrix: Array, *, from_lower: bool) -> None:
    """Copy one strict triangle of an array in memory onto the other, in strips, without a second matrix."""
    source = matrix if from_lower else matrix.T
    size = len(matrix)
    for start in range(0, size, _STRIP):
        stop = min(size, start + _STRIP)
        source[start:stop, stop:] = source[stop:, start:stop].T
        corner = source[start:stop, start:stop]
        rows, columns = np.tril_indices(stop - start, -1)
        corner[columns, rows] = corner[rows, columns]


def change_lower(matrix: Array, change: Change) -> None:
    """Let a function change the lower triangle of an array in memory, diagonal included; what is above is kept."""
    size = len(matrix)
    for start in range(0, size, _STRIP):
        here, below = slice(start, min(size, start + _STRIP)), slice(min(size, start + _STRIP), size)
        change(matrix[below, here], below, here)
        corner = matrix[here, here]
        changed = corner.copy(order="F")
        change(changed, here, here)
        corner[:] = np.where(np.tri(len(corner), dtype=bool), changed, corner)


def tiled_mirror(matrix: Array, *, memory_budget: int, from_lower: bool) -> None:
    """Copy one strict triangle of a memory map onto the other."""
    view, turned = as_rows_to_write(matrix)
    side = _side(matrix, memory_budget, held=1)
    source, target = (Tiles(view, lower=lower != turned, side=side) for lower in (from_lower, not from_lower))
    place = np.empty(side**2, dtype=matrix.dtype)
    for i, j in _tiles(source):
        tile = source.read(i, j, place)
        if i == j:
            mirror_strict(tile, from_lower=True)
        target.write(i, j, tile)


def tiled_change_lower(matrix: Array, change: Change, *, memory_budget: int) -> None:
    """Let a function change the lower triangle of a memory map, diagonal included; what is above is kept."""
    view, turned = as_rows_to_write(matrix)
    tiles = Tiles(view, lower=not turned, side=_side(matrix, memory_budget, held=2))
    places = np.empty((2, tiles.side**2), dtype=matrix.dtype)
    for i, j in _tiles(tiles):
        tile = tiles.read(i, j, places[0])
        change(tile, tiles.span(i), tiles.span(j))
        if i == j:
            above = tiles.read(i, j, places[1])
            for column in range(1, len(tile)):
                tile[:column, column] = above[:column, column]
        tiles.write(i, j, tile)


def tiled_add_gram(matrix: Array, features: Array, factor: float, *, memory_budget: int) -> None:
    """Add factor · features · featuresᵀ to the lower triangle of a memory map; what is above is kept."""
    view, turned = as_rows_to_write(matrix)
    tiles = Tiles(view, lower=not turned, side=_side(matrix, memory_budget, held=1))
    place = np.empty(tiles.side**2, dtype=matrix.dtype)
    for i, j in _tiles(tiles) if features.shape[1] else ():
        tile = tiles.read(i, j, place)
        if i == j:
            add_gram(tile, features[tiles.span(i)], factor)
        else:
            add_product(tile, features[tiles.span(i)], features[tiles.span(j)].T, factor)
        tiles.write(i, j, tile)


def _tiles(tiles: Tiles) -> Iterator[tuple[int, int]]:
    return ((i, j) for j in range(tiles.count) for i in range(j, tiles.count))


def _side(matrix: Array, memory_budget: int, held: int) -> int:
    """Rows of the largest tiles of which so many fit the budget."""
    largest = isqrt(int(_SHARE * as_bytes(memory_budget)) // (matrix.itemsize * held))
    return max(1, min(largest, len(matrix)))
