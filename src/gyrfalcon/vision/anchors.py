"""Anchors: boxes of fixed sizes and proportions at every location of a coarse grid."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SIDES = (0.08, 0.14, 0.24, 0.4, 0.65)  # square roots of areas, as shares of the image's longest side
PROPORTIONS = (0.5, 1.0, 2.25)  # height over width
COUNT = len(SIDES) * len(PROPORTIONS)
CELLS = 2  # cells of the feature map along each side of a location


def grid_of(cells: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of locations for so many rows and columns of cells."""
    return max(1, cells[0] // CELLS), max(1, cells[1] // CELLS)


def anchors(shape: tuple[int, int], grid: tuple[int, int]) -> Array:
    """Boxes of shape (locations, anchors, 4) for an image of that shape; they may reach over its edges."""
    side = np.repeat(SIDES, len(PROPORTIONS)) * max(shape)
    root = np.sqrt(np.tile(PROPORTIONS, len(SIDES)))
    half = np.column_stack([side / root, side * root]) / 2
    rows = (np.arange(grid[0]) + 0.5) * shape[0] / grid[0]
    columns = (np.arange(grid[1]) + 0.5) * shape[1] / grid[1]
    middle = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 1, 2)
    return np.concatenate([middle - half, middle + half], axis=2)
