"""Cholesky and LAUUM in place, tile by tile, for matrices larger than the memory they may use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from math import isqrt
from typing import Any, TypeAlias

import numpy as np
import torch
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from .rows import as_bytes, as_rows_to_write
from .tiles import NumpyWorker, Tiles, TorchWorker

Array = np.ndarray[Any, Any]
Device: TypeAlias = str | torch.device
Worker: TypeAlias = Any  # a NumpyWorker or a TorchWorker: an algorithm hands it only tiles that it made itself
Task: TypeAlias = Callable[[Worker, int, int, "Table"], None]

_SHARE = 0.8  # of the budget for tiles; the rest is for the pages of a file in passing and what BLAS packs
_SPREAD = 4  # tiles along a side for each worker, at least, if there are several


class AbandonedError(Exception):
    """Raised in a worker, at its next tile, when another one has failed or the caller was interrupted."""


class Table:
    """T(i, j), what happened to each tile so far: how often it was finished or read, as the algorithm counts."""

    def __init__(self, count: int):
        self._counts = np.zeros((count, count), dtype=np.int64)
        self._changed = threading.Condition()
        self._abandoned = False

    def advance(self, i: int, j: int) -> None:
        with self._changed:
            if self._abandoned:
                raise AbandonedError
            self._counts[i, j] += 1
            self._changed.notify_all()

    def wait(self, i: int, j: int, count: int) -> None:
        """Return when T(i, j) has come to a count."""
        with self._changed:
            self._changed.wait_for(lambda: self._abandoned or self._counts[i, j] >= count)
            if self._abandoned:
                raise AbandonedError

    def abandon(self) -> None:
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()


def tiled_cholesky(
    matrix: Array, *, memory_budget: int, lower: bool = True, device: Device | Sequence[Device] = "cpu"
) -> None:
    """Factor a positive definite matrix in place: A = L Lᵀ, or A = UᵀU if `lower` is false.

    Only the triangle named is read and overwritten; the other keeps its values. Tiles are updated in a fixed order, so
    that the result does not depend on which worker came first, if their devices are alike.

    Parameters
    ----------
    matrix : array or memory map of shape (m, m)
        float32 or float64, C- or Fortran-ordered. After an error its triangle is undefined.
    memory_budget : int
        Bytes that all tiles in use may take together, beside an array in memory; of a memory map no more than this is
        resident. BLAS adds a few megabytes for each thread, which counts if the budget is that small.
    lower : bool
    device : str, torch.device or list of them
        Where tiles are worked on: one worker for each entry, which may name a device twice. Workers on "cpu" divide the
        threads of BLAS among them; a single one has the largest tiles, two compute in turns while the other reads. The
        budget is for tiles on all devices together.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix is not positive definite, with the order of the leading minor that is not.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.linalg.tiled import tiled_cholesky
    >>> A = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> tiled_cholesky(A, memory_budget=100)
    >>> np.tril(A)
    array([[2., 0.],
           [1., 2.]])
    """
    tiles, workers = _prepare(matrix, memory_budget, lower, device)

    def finish(worker: Worker, i: int, j: int, table: Table) -> None:
        """All that makes tile (i, j) of L, from tiles to the left of it, which T marks with 1 when they are final."""
        tile = worker.read(i, j, 0)
        for k in range(j):
            table.wait(i, k, 1)
            left = worker.read(i, k, 1)
            if i == j:
                worker.add_gram(tile, left, -1.0)
            else:
                table.wait(j, k, 1)
                worker.add_product(tile, left, worker.read(j, k, 2).T, -1.0)
        if i > j:
            table.wait(j, j, 1)
            worker.solve_right(tile, worker.read(j, j, 1))
        elif minor := worker.factor(tile):
            order = i * tiles.side + minor
            raise np.linalg.LinAlgError(
                f"matrix is not positive definite: its leading minor of order {order} is not positive; make the matrix "
                "again, with more on its diagonal"
            )
        worker.write(i, j, tile)
        table.advance(i, j)

    columnwise = [(i, j) for j in range(tiles.count) for i in range(j, tiles.count)]
    _share(columnwise, finish, workers, Table(tiles.count))


def tiled_lauum(
    matrix: Array, *, memory_budget: int, lower: bool = True, device: Device | Sequence[Device] = "cpu"
) -> None:
    """Overwrite a triangle by its product with its transpose: LᵀL, or U Uᵀ if `lower` is false.

    Of the product, which is symmetric, the same triangle is kept; the other one keeps its values.

    Parameters
    ----------
    matrix, memory_budget, lower, device
        As in `tiled_cholesky`.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.linalg.tiled import tiled_lauum
    >>> L = np.array([[2.0, 0.0], [1.0, 2.0]])
    >>> tiled_lauum(L, memory_budget=100)
    >>> L
    array([[5., 0.],
           [2., 4.]])
    """
    tiles, workers = _prepare(matrix, memory_budget, lower, device)

    def finish(worker: Worker, i: int, j: int, table: Table) -> None:
        """All that makes tile (i, j) of LᵀL, from rows i and below of L.

        T counts how often a tile of L was read for others than itself. Each one of row i is needed i times, above and
        to the left of its own place: then it may be overwritten.
        """
        tile = worker.read(i, j, 0)
        if i == j:
            worker.square(tile)
        else:
            corner = worker.read(i, i, 1)
            table.advance(i, i)
            worker.multiply_left(tile, corner)
        for k in range(i + 1, tiles.count):
            left = worker.read(k, i, 1)
            table.advance(k, i)
            if i == j:
                worker.add_gram(tile, left.T, 1.0)
            else:
                right = worker.read(k, j, 2)
                table.advance(k, j)
                worker.add_product(tile, left.T, right, 1.0)
        table.wait(i, j, i)
        worker.write(i, j, tile)

    rowwise = [(i, j) for i in range(tiles.count) for j in range(i + 1)]
    _share(rowwise, finish, workers, Table(tiles.count))


def _share(order: Iterable[tuple[int, int]], task: Task, workers: Sequence[Worker], table: Table) -> None:
    """Let workers take tiles in order until all are done.

    A task may wait only for tiles before its own in the order. So the first one that is not done never waits, and
    there is no deadlock whatever the number of workers.
    """
    left = iter(order)
    taking = threading.Lock()

    def work(worker: Worker) -> None:
        while True:
            with taking:
                place = next(left, None)
            if place is None:
                return
            task(worker, *place, table)

    with _blas_threads(workers), ThreadPoolExecutor(len(workers)) as pool:
        running = [pool.submit(work, worker) for worker in workers]
        try:
            for done in as_completed(running):
                done.result()
        except BaseException:  # a keyboard interrupt as well
            with taking:
                left = iter(())
            table.abandon()
            raise


def _blas_threads(workers: Sequence[Worker]) -> AbstractContextManager[Any]:
    """Threads of BLAS divided among the workers that use it, which otherwise would queue for them."""
    sharing = sum(isinstance(worker, NumpyWorker) for worker in workers)
    if sharing < 2:
        return nullcontext()
    libraries = ThreadpoolController().select(user_api="blas")
    most = max((library["num_threads"] for library in libraries.info()), default=1)
    limit: AbstractContextManager[Any] = libraries.limit(limits=max(1, most // sharing))
    return limit


def _prepare(
    matrix: Array, memory_budget: int, lower: bool, device: Device | Sequence[Device]
) -> tuple[Tiles, list[Worker]]:
    view, turned = as_rows_to_write(matrix)
    devices = [_device(one) for one in ([device] if isinstance(device, str | torch.device) else device)]
    if not devices:
        raise ValueError("device must name at least one device, got an empty list: use 'cpu'")
    kinds = [NumpyWorker if one.type == "cpu" else TorchWorker for one in devices]
    side = _tile_side(len(view), view.itemsize, as_bytes(memory_budget), [kind.held for kind in kinds])
    tiles = Tiles(view, lower=lower != turned, side=side)
    return tiles, [NumpyWorker(tiles) if one.type == "cpu" else TorchWorker(tiles, one) for one in devices]


def _tile_side(size: int, itemsize: int, budget: int, held: Sequence[int]) -> int:
    largest = isqrt(int(_SHARE * budget) // (itemsize * sum(held)))
    if largest == 0:
        raise ValueError(
            f"memory_budget={budget} does not hold the {sum(held)} tiles that {len(held)} workers need: raise it"
        )
    spread = _SPREAD * len(held) if len(held) > 1 else 1
    count = max(-(-size // largest), spread)
    return max(1, -(-size // count))


def _device(name: Device) -> torch.device:
    try:
        return torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device={name!r} is not known to PyTorch: use 'cpu' or 'cuda:0', or a list of such"
        ) from error
