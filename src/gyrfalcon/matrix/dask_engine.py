"""Products with rows that are on the workers of a Dask cluster: vectors go there, and sums come back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, Dense, as_numpy, to_tensor, torch_dtype
from gyrfalcon.data.dask_source import DaskSource, Part, dask_package
from gyrfalcon.kernels import Kernel

from . import dask_tasks
from .autograd import Weights
from .engine import Description, Engine, Work
from .streamed_engine import ChunkEngine, StreamedEngine

FAN_IN = 8  # partial sums that one task adds


class DaskEngine(Engine):
    """Another engine's products, a task for each partition, on the worker that has it.

    Kernel and centers are sent once, vectors with every product; both are part of graphs, so a worker that takes the
    place of a lost one gets them again. Partial sums are added in float64 along a tree that depends on the partitions
    alone: results are the same to the bit whoever did what. The budget is that of each worker.
    """

    name = "dask"

    def __init__(self, kernel: Kernel, X: DaskSource, C: Dense, budget: int, chunk_engine: ChunkEngine):
        super().__init__(kernel, (len(X), len(C)), torch_dtype(X), torch.device("cpu"), budget)
        self.X, self.C, self.chunk_engine = X, C, chunk_engine
        self.chunk_rows = max((part.stop - part.start for part in X.parts), default=0)
        ends = accumulate((part.stop - part.start for part in X.parts), initial=0)
        self._places = [slice(*ends) for ends in pairwise(ends)]
        centers = C.detach().numpy() if isinstance(C, Tensor) else C
        recipe = dask_tasks.Recipe(
            _without_record(kernel), np.array(centers), chunk_engine, budget, X.dtype, torch.get_num_threads()
        )
        self._delayed = dask_package().delayed
        try:
            (self._recipe,) = X.persist([self._value(recipe)])
        except TypeError as error:
            raise TypeError(
                f"kernel: {kernel!r} cannot be sent to Dask workers: make it of functions that pickle "
                f"({error.__cause__})"
            ) from error
        self._shared: tuple[str, list[Any]] = "", []

    def describe(self) -> Description:
        """Threads are those of all workers together."""
        client = self.X.client
        threads = torch.get_num_threads() if client is None else sum(client.nthreads().values())
        return Description(threads, self.chunk_rows)

    def _streamed(self) -> StreamedEngine:
        """An engine to which the rows come, a chunk at a time, for what workers do not share."""
        return StreamedEngine(self.kernel, self.X, self.C, self.budget, self.chunk_engine, self.device)

    def wide(self, start: int, stop: int) -> Tensor:
        return self._streamed().wide(start, stop)

    def _own_diagonal(self) -> Array:
        return self._streamed().prior_diagonal()

    def derivatives(self, rows: slice, weights: Weights, wanted: list[bool]) -> list[Tensor | None]:
        return self._streamed().derivatives(rows, weights, wanted)

    def reduce(self, work: Work, columns: Sequence[Tensor | None], rows: int) -> tuple[Array, ...]:
        run, add = self._delayed(dask_tasks.reduce, pure=False), self._delayed(dask_tasks.add_tuples, pure=False)
        shared = self._value(work)
        shares = [[None if c is None else as_numpy(c[part]).copy() for c in columns] for part in self._places]
        found = [
            run(self._recipe, *part, shared, self._value(own), rows)
            for part, own in zip(self.X.parts, shares, strict=True)
        ]
        return tuple(self.X.compute([self._tree(found, add)])[0]) if found else ()

    @staticmethod
    def _tree(parts: list[Any], add: Any) -> Any:
        """One task that adds all parts, along a tree that depends on their number alone."""
        while len(parts) > 1:
            parts = [add(parts[first : first + FAN_IN]) for first in range(0, len(parts), FAN_IN)]
        return parts[0]

    def _value(self, value: Any) -> Any:
        return self._delayed(value, traverse=False)

    def _tasks(self, parts: Sequence[Part], method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        run = self._delayed(dask_tasks.run, pure=False)
        return [run(self._recipe, *part, method, *given) for part, given in zip(parts, arguments, strict=True)]

    def _shares(self, vectors: Tensor | None) -> list[Any]:
        """The rows of vectors that belong to each partition; they stay with the workers while the same are asked for,
        as the weights of a solver are from one product to the next.
        """
        if vectors is None:
            return [None] * len(self.X.parts)
        array = vectors.detach().numpy()
        token = dask_package().base.tokenize(array)
        if self._shared[0] != token:
            # Copies, because in threads of this process Dask would keep views of what the caller may overwrite.
            self._shared = token, self.X.persist([self._value(array[rows].copy()) for rows in self._places])
        return self._shared[1]

    def block(self, start: int, stop: int) -> Tensor:
        parts = self.X.between(start, stop)
        tasks = self._tasks(parts, "block", [(0, part.stop - part.start) for part in parts])
        return torch.cat([self._zeros(0, self.shape[1]), *map(to_tensor, self.X.compute(tasks))])

    def fill(self, out: Tensor) -> None:
        for rows in self._places:
            out[rows] = self.block(rows.start, rows.stop)

    def multiply(self, V: Tensor) -> Tensor:
        out = self._zeros(self.shape[0], V.shape[1])
        shared = self._value(V.detach().numpy())
        products = self.X.compute(self._tasks(self.X.parts, "multiply", [(shared,)] * len(self.X.parts)))
        for rows, product in zip(self._places, products, strict=True):
            out[rows] = to_tensor(product)
        return out

    def multiply_transposed(self, W: Tensor, dtype: torch.dtype) -> Tensor:
        return self._sum("multiply_transposed", [(share, dtype) for share in self._shares(W)], W.shape[1], dtype)

    def multiply_gram(self, V: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        shared = self._value(V.detach().numpy())
        return self._sum(
            "multiply_gram", [(shared, share, dtype) for share in self._shares(weights)], V.shape[1], dtype
        )

    def gram(self, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        return self._sum("gram", [(share, dtype) for share in self._shares(weights)], self.shape[1], dtype)

    def _sum(self, method: str, arguments: Sequence[tuple[Any, ...]], columns: int, dtype: torch.dtype) -> Tensor:
        sums = self._tasks(self.X.parts, method, arguments)
        if not sums:
            return self._zeros(self.shape[1], columns, dtype)
        (total,) = self.X.compute([self._tree(sums, self._delayed(dask_tasks.add, pure=False))])
        return to_tensor(total).to(dtype)


def _without_record(kernel: Kernel) -> Kernel:
    """The kernel with numbers in the place of tensors, whose history cannot be sent."""
    tensors = {name: value for name, value in kernel.parameters().items() if isinstance(value, Tensor)}
    return kernel.with_parameters({name: value.detach().cpu().numpy() for name, value in tensors.items()})
