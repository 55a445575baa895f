"""Products with rows that are not in memory: one pass over them each, a chunk at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, Dense, to_tensor, torch_dtype
from gyrfalcon.data.source import Source
from gyrfalcon.kernels import Kernel

from .autograd import Weights, parameters
from .engine import Description, Engine, Work, add_up
from .transfer import Transfer

ChunkEngine = Callable[[Kernel, Any, Dense, int], Engine]


class StreamedEngine(Engine):
    """Another engine's products, chunk after chunk, while the next chunks are read and sent to the device.

    How rows are cut into chunks depends on their length and, if it is small, on the budget, so results are the same to
    the bit from pass to pass. Sums over chunks are in float64.
    """

    name = "streamed"

    def __init__(
        self, kernel: Kernel, X: Source, C: Dense, budget: int, chunk_engine: ChunkEngine, device: torch.device
    ):
        super().__init__(kernel, (len(X), len(C)), torch_dtype(X), device, budget)
        self.X = X
        self.C = C.detach() if isinstance(C, Tensor) else C
        self.chunk_engine = chunk_engine
        self.chunk_rows = X.chunk_rows(budget)

    def describe(self) -> Description:
        return Description(torch.get_num_threads(), self.chunk_rows)

    def _pass(self, work: Callable[[slice, Engine], None], start: int = 0, stop: int | None = None) -> None:
        """One pass: the work is done for each chunk, given its rows and an engine for it."""
        transfer = Transfer(self.device)
        chunks = self.X.chunks(start, stop, self.chunk_rows, through=transfer.send)
        with contextlib.closing(chunks):  # whatever ends the work ends the reading as well
            for rows, sent in chunks:
                work(rows, self._engine(transfer.receive(sent)))

    def _engine(self, chunk: Any) -> Engine:
        return self.chunk_engine(self.kernel, chunk, self.C, self.budget // 2)

    def block(self, start: int, stop: int) -> Tensor:
        if stop - start <= self.chunk_rows:
            return self._engine(self._here(self.X.rows(start, stop))).block(0, stop - start)
        out = self._zeros(stop - start, self.shape[1])

        def work(rows: slice, engine: Engine) -> None:
            out[rows.start - start : rows.stop - start] = engine.block(0, engine.shape[0])

        self._pass(work, start, stop)
        return out

    def fill(self, out: Tensor) -> None:
        self._pass(lambda rows, engine: engine.fill(out[rows]))

    def multiply(self, V: Tensor) -> Tensor:
        out = self._zeros(self.shape[0], V.shape[1])

        def work(rows: slice, engine: Engine) -> None:
            out[rows] = engine.multiply(V)

        self._pass(work)
        return out

    def multiply_transposed(self, W: Tensor, dtype: torch.dtype) -> Tensor:
        return self._sum(W.shape[1], lambda rows, engine: engine.multiply_transposed(W[rows], dtype), dtype)

    def multiply_gram(self, V: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        return self._sum(
            V.shape[1],
            lambda rows, engine: engine.multiply_gram(V, None if weights is None else weights[rows], dtype),
            dtype,
        )

    def gram(self, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        return self._sum(
            self.shape[1], lambda rows, engine: engine.gram(None if weights is None else weights[rows], dtype), dtype
        )

    def _sum(self, columns: int, part: Callable[[slice, Engine], Tensor], dtype: torch.dtype) -> Tensor:
        total = self._zeros(self.shape[1], columns, torch.float64)

        def work(rows: slice, engine: Engine) -> None:
            total.add_(part(rows, engine))

        self._pass(work)
        return total.to(dtype)

    def wide(self, start: int, stop: int) -> Tensor:
        return self._engine(self._here(self.X.rows(start, stop))).wide(0, stop - start)

    def _here(self, rows: Any) -> Any:
        """Rows that were read, where the products are made."""
        transfer = Transfer(self.device)
        return transfer.receive(transfer.send(rows))

    def reduce(self, work: Work, columns: Sequence[Tensor | None], rows: int) -> tuple[Array, ...]:
        found: list[tuple[Array, ...]] = []

        def chunk(some: slice, engine: Engine) -> None:
            part = engine.reduce(work, [None if column is None else column[some] for column in columns], rows)
            found[:] = [add_up(iter([*found, part]))]

        self._pass(chunk)
        return found[0] if found else ()

    def _own_diagonal(self) -> Array:
        parts: list[Array] = []
        self._pass(lambda rows, engine: parts.append(engine.prior_diagonal()))
        return np.concatenate([np.zeros(0), *parts])

    def derivatives(self, rows: slice, weights: Weights, wanted: list[bool]) -> list[Tensor | None]:
        leaves = (None, to_tensor(self.C), *parameters(self.kernel, self.device).values())  # X is not in memory
        sums = [
            None if leaf is None or not want else torch.zeros_like(leaf, dtype=torch.float64).detach()
            for leaf, want in zip(leaves, wanted, strict=True)
        ]
        start, stop, _ = rows.indices(self.shape[0])

        def work(some: slice, engine: Engine) -> None:
            here = weights.rows(slice(some.start - start, some.stop - start))
            for total, found in zip(sums, engine.derivatives(slice(None), here, wanted), strict=True):
                if total is not None and found is not None:
                    total.add_(found)

        self._pass(work, start, stop)
        return [None if s is None or leaf is None else s.to(leaf.dtype) for s, leaf in zip(sums, leaves, strict=True)]
