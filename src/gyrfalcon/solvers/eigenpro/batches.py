"""Rows of X in batches: drawn once, visited in another order in every epoch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.matrix import KernelMatrix

from .eigenfunctions import Eigenfunctions

LEAST, MOST = 256, 2048  # rows of a batch: fewer waste the products, more need not be looked at to make a step


def batch_size(functions: Eigenfunctions, n: int) -> int:
    """Half the critical size peak / tail, beyond which a batch of twice the rows allows no larger step.

    At half of it an epoch makes two thirds of the progress that it would make with single points, and the critical
    size itself would leave one half.
    """
    critical = functions.peak / functions.tail if functions.tail > 0 else MOST
    return max(1, min(n, int(np.clip(critical / 2, LEAST, MOST))))


def reach(n: int) -> int:
    """The critical batch size that eigenfunctions may lead to: a third of the rows, so that P leaves the leading
    directions, which carry most of the answer, a step an epoch; a whole batch where there is but one."""
    return max(n // 3, min(n, MOST))


class Batches:
    """A partition of the rows of K into batches of nearly equal size.

    Rows that are read in chunks stay in their order, so that a batch is read in one go; others are shuffled once.
    """

    def __init__(self, K: KernelMatrix, size: int, seed: int):
        n = K.shape[0]
        self.K, self.seed = K, seed
        order = np.arange(n) if K.streamed else np.random.default_rng(seed).permutation(n)
        self.rows = [np.sort(part) for part in np.array_split(order, -(-n // size))] if n else []

    def __len__(self) -> int:
        return len(self.rows)

    def order(self, epoch: int) -> Iterator[int]:
        """The batches, in an order of the seed and the epoch alone, so that a resumed solve has the same."""
        return iter(np.random.default_rng([self.seed, epoch]).permutation(len(self.rows)).tolist())

    def index(self, batch: int) -> Tensor:
        return torch.from_numpy(self.rows[batch])

    def matrix(self, batch: int) -> KernelMatrix:
        """The rows of K that are a batch."""
        return self.K.rows(self.rows[batch])


def dense(K: KernelMatrix) -> Tensor:
    """A small matrix, written down."""
    return torch.as_tensor(K.to_dense())
