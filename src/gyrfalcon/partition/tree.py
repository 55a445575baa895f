"""A tree of splits: which rows are in which leaves, and with which weights the leaves answer for a point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gyrfalcon.arrays import Array

from .coordinates import Coordinates
from .directions import Direction, generic_direction, leading_direction
from .settings import Partition

BALANCED = 0.25  # the least share of the rows that a split should leave on each side
TIED = 16 * float(np.finfo(np.float64).eps)  # of the sum of |direction · x|, up to which projections differ by rounding


@dataclass(frozen=True)
class Tree:
    """Splits of the input space, each along one direction.

    Node i sends a point x with directionᵢᵀx ≤ lowerᵢ to its left child and one with directionᵢᵀx ≥ upperᵢ to its
    right; between the two, both children answer, with weights that change smoothly. Where lower and upper are one
    number, points on it get the mean of both sides.

    Attributes
    ----------
    directions : array of shape (nodes, d)
    lower, upper : arrays of shape (nodes,)
    children : array of ints of shape (nodes, 2)
        Node i, or leaf l as -1 - l. Without nodes there is one leaf.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.partition import Tree
    >>> tree = Tree(np.ones((1, 1)), np.array([1.0]), np.array([3.0]), np.array([[-1, -2]]))
    >>> for leaf, points, weights in tree.visits(np.array([[0.0], [2.0], [4.0]])):
    ...     print(leaf, points, weights)
    0 [0 1] [1.  0.5]
    1 [1 2] [0.5 1. ]
    """

    directions: Array
    lower: Array
    upper: Array
    children: Array

    @property
    def n_leaves(self) -> int:
        return len(self.lower) + 1

    def visits(self, points: Any) -> Iterator[tuple[int, Array, Array]]:
        """For each leaf that answers for some of the points: its number, their numbers and its weights for them.

        The weights of one point add up to one. Most points have one leaf.

        Parameters
        ----------
        points : array or CSR of shape (n, d)
        """
        n = points.shape[0]
        if n == 1 and isinstance(points, np.ndarray):
            yield from ((leaf, np.arange(1), np.array([weight])) for leaf, weight in self._walk(points[0]))
            return
        stack = [(0 if len(self.lower) else -1, np.arange(n), np.ones(n))]
        while stack:
            node, rows, weights = stack.pop()
            if len(rows) == 0:
                continue
            if node < 0:
                yield -1 - node, rows, weights
                continue
            some = points if len(rows) == n else points[rows]
            share = right_share(np.asarray(some @ self.directions[node]), self.lower[node], self.upper[node])
            for child, part in ((1, share), (0, 1 - share)):
                kept = part > 0
                stack.append((int(self.children[node, child]), rows[kept], (weights * part)[kept]))

    def _walk(self, x: Array) -> Iterator[tuple[int, float]]:
        """The leaves of one point and their weights, in a fraction of the time that arrays of one number would take."""
        stack = [(0 if len(self.lower) else -1, 1.0)]
        while stack:
            node, weight = stack.pop()
            if node < 0:
                yield -1 - node, weight
                continue
            share = _share(float(self.directions[node] @ x), float(self.lower[node]), float(self.upper[node]))
            left, right = self.children[node].tolist()
            if share > 0:
                stack.append((right, weight * share))
            if share < 1:
                stack.append((left, weight * (1 - share)))

    def to_arrays(self) -> dict[str, Array]:
        """The tree as arrays by name, for model files."""
        return {
            "directions": self.directions,
            "lower": self.lower,
            "upper": self.upper,
            "children": self.children,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], features: int) -> Tree:
        """What `to_arrays` made; ValueError unless it is a tree."""
        tree = cls(**{name: arrays[name] for name in ("directions", "lower", "upper", "children")})
        nodes = len(tree.lower)
        shapes = (tree.directions.shape, tree.lower.shape, tree.upper.shape, tree.children.shape)
        if shapes != ((nodes, features), (nodes,), (nodes,), (nodes, 2)) or tree.children.dtype != np.int64:
            raise ValueError("the arrays of the partition's tree do not fit together")
        numbers = np.concatenate([tree.directions.ravel(), tree.lower, tree.upper])
        # Every child comes after its parent, and each node and leaf is the child of one.
        expected = np.sort(np.concatenate([np.arange(1, nodes), -1 - np.arange(nodes + 1)])) if nodes else np.arange(0)
        later = (tree.children < 0) | (tree.children > np.arange(nodes)[:, None])
        if (
            not np.isfinite(numbers).all()
            or not later.all()
            or not np.array_equal(np.sort(tree.children, None), expected)
        ):
            raise ValueError("the arrays of the partition do not hold a tree")
        return tree


def right_share(projected: Array, lower: float, upper: float) -> Array:
    """The weight of the right side: 0 up to `lower`, 1 from `upper`, with two continuous derivatives between."""
    if lower == upper:
        return np.where(projected == lower, 0.5, (projected > lower).astype(np.float64))
    at = np.clip((projected.astype(np.float64) - lower) / (upper - lower), 0.0, 1.0)
    return np.asarray(at**3 * (10 + at * (6 * at - 15)))


def _share(projected: float, lower: float, upper: float) -> float:
    """`right_share` of one point."""
    if lower < projected < upper:
        at = (projected - lower) / (upper - lower)
        return at**3 * (10 + at * (6 * at - 15))
    return 0.5 if projected == lower == upper else float(projected >= upper)


class Split(NamedTuple):
    """A direction, the ends of the band between its sides, and the rows of the left and of the right side."""

    direction: Array
    lower: float
    upper: float
    left: Array
    right: Array


def grow(
    X: Any, coordinates: Coordinates, settings: Partition, *, direction: Direction = leading_direction
) -> tuple[Tree, list[Array]]:
    """Split rows that differ until no leaf has more than `settings.leaf_rows`; the tree, and the rows of each leaf.

    Rows near a border are in the leaves of both sides. Sides are told apart by rank, so that every split leaves fewer
    rows on both, whatever ties there are.

    Parameters
    ----------
    X : array or CSR of shape (n, d)
    coordinates : array
        See `coordinates_of`.
    settings : Partition
    direction : callable

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.partition import Partition
    >>> tree, leaves = grow(np.arange(8.0)[:, None], np.ones(1), Partition(leaf_rows=4, overlap=0.0))
    >>> [rows.tolist() for rows in leaves], float(tree.lower[0])
    ([[0, 1, 2, 3], [4, 5, 6, 7]], 3.5)
    """
    splits: list[Split] = []
    children: list[list[int]] = []
    leaves: list[Array] = []
    todo: list[tuple[int, int, Array]] = [(-1, 0, np.arange(X.shape[0]))]  # parent, which child, rows
    while todo:
        parent, side, rows = todo.pop()
        if len(rows) <= settings.leaf_rows:
            number = -1 - len(leaves)
            leaves.append(rows)
        else:
            number = len(splits)
            splits.append(_split(X, rows, coordinates, settings, direction))
            children.append([0, 0])
            todo += [(number, 1, splits[-1].right), (number, 0, splits[-1].left)]
        if parent >= 0:
            children[parent][side] = number
    nodes = len(splits)
    tree = Tree(
        np.array([split.direction for split in splits]).reshape(nodes, X.shape[1]),
        np.array([split.lower for split in splits], dtype=np.float64),
        np.array([split.upper for split in splits], dtype=np.float64),
        np.array(children, dtype=np.int64).reshape(nodes, 2),
    )
    return tree, leaves


def _split(X: Any, rows: Array, coordinates: Coordinates, settings: Partition, direction: Direction) -> Split:
    """The first split that is balanced, along the direction or a generic one; else the latter, through ties."""
    some = X if len(rows) == X.shape[0] else X[rows]
    for candidate in (direction, generic_direction):
        along = candidate(some, coordinates)
        projected = np.asarray(some @ along, dtype=np.float64)
        order = np.argsort(projected, kind="stable")
        cut = _cut(projected[order], TIED * float((abs(some) @ np.abs(along)).max()))
        if cut is not None:
            break
    cut = len(rows) // 2 if cut is None else cut
    shared = settings.shared_rows(cut, len(rows) - cut)
    ranked = projected[order]
    if shared:
        lower, upper = ranked[cut - shared], ranked[cut + shared - 1]
    else:
        lower = upper = 0.5 * ranked[cut - 1] + 0.5 * ranked[cut]
    left, right = projected < upper, projected > lower
    if not shared:
        left[:], right[:] = False, False
    left[order[:cut]] = True
    right[order[cut:]] = True
    return Split(along, float(lower), float(upper), rows[left], rows[right])


def _cut(ranked: Array, rounding: float) -> int | None:
    """How many of the sorted numbers are to be on the left: the step between two that is nearest to the middle, if it
    leaves enough on both sides. On a border of rounding width the order of a sum would decide about sides."""
    n = len(ranked)
    steps = np.flatnonzero(np.diff(ranked) > rounding) + 1
    if len(steps) == 0:
        return None
    cut = int(steps[np.argmin(np.abs(steps - n / 2))])
    return cut if min(cut, n - cut) >= max(1, int(BALANCED * n)) else None
