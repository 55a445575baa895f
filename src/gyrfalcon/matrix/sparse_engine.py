"""Products with kernels of sparse points, of any number of features, without a dense copy of either side."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon import kernels
from gyrfalcon.arrays import AnyPoints, as_numpy, in_double, to_tensor, torch_dtype
from gyrfalcon.kernels import Kernel
from gyrfalcon.kernels.base import Parameter, as_number, as_tensor
from gyrfalcon.kernels.distances import CANCELLATION

from . import autograd, native_engine
from .autograd import TAPE_BLOCKS, Weights
from .engine import BLOCK_BYTES, Engine

Array = np.ndarray[Any, Any]
_SQUARE = 256  # rows whose diagonal is made together
_PAIRS = 1 << 16  # pairs whose distance is made again together
_SIEVE = (1 << 22) - 1  # features are first looked up by these bits alone


def serves(kernel: Kernel) -> bool:
    """Whether the kernel is made of distances and inner products: those are what sparse points give cheaply."""
    if isinstance(kernel, kernels.Sum | kernels.Product | kernels.Scaled):
        return all(serves(child) for _, child in kernel.children())
    return isinstance(kernel, kernels.RadialKernel | kernels.DotKernel)


class SparseEngine(Engine):
    """Fused products by the compiled core, or else blocks from SciPy's sparse products: X is CSR, C is CSR or dense.

    Inner products and norms are taken in float64. Features that no center has never meet an index array of length d,
    so d may be 1e8.
    """

    name = "sparse"
    temporaries = 8

    def __init__(self, kernel: Kernel, X: sparse.csr_array, C: AnyPoints, budget: int):
        super().__init__(kernel, (X.shape[0], C.shape[0]), torch_dtype(X), torch.device("cpu"), budget)
        self.X = X
        self.C = C if sparse.issparse(C) else to_tensor(C).detach().double().numpy()
        self._sides: dict[tuple[float, ...], _Side] = {}
        self._program: _Program | None = None

    def _native(self) -> bool:
        """Whether the core makes this: not where autograd is to follow the kernel's parameters."""
        followed = torch.is_grad_enabled() and any(
            isinstance(value, Tensor) and value.requires_grad for value in self.kernel.parameters().values()
        )
        return not followed and native_engine.serves(self.kernel)

    def block(self, start: int, stop: int) -> Tensor:
        if self._native():
            out = torch.empty(len(range(*slice(start, stop).indices(self.shape[0]))), self.shape[1], dtype=self.dtype)
            return self._run("evaluate", slice(start, stop), None, None, out)
        return self._evaluate(self.kernel, self.X[start:stop])

    def wide(self, start: int, stop: int) -> Tensor:
        if self.dtype == torch.float64:
            return self.block(start, stop)
        return SparseEngine(self.kernel, in_double(self.X[start:stop]), in_double(self.C), self.budget).block(
            0, stop - start
        )

    def _own_diagonal(self) -> Array:
        n = self.shape[0]
        parts = (slice(start, min(n, start + _SQUARE)) for start in range(0, n, _SQUARE))
        squares = (SparseEngine(self.kernel, self.X[rows], self.X[rows], self.budget) for rows in parts)
        diagonals = [as_numpy(square.block(0, square.shape[0]).diagonal()) for square in squares]
        return np.concatenate([np.zeros(0), *diagonals]).astype(np.float64)

    def derivatives(self, rows: slice, weights: Weights, wanted: list[bool]) -> list[Tensor | None]:
        step = self.block_rows(min(BLOCK_BYTES, self.budget // TAPE_BLOCKS))
        return autograd.sums(self.kernel, self.X[rows], self.C, differentiable_block, weights, wanted, step)

    def multiply(self, V: Tensor) -> Tensor:
        if not self._native():
            return super().multiply(V)
        return self._run("multiply", slice(None), V, None, torch.empty(self.shape[0], V.shape[1], dtype=self.dtype))

    def multiply_transposed(self, W: Tensor, dtype: torch.dtype) -> Tensor:
        if not self._native():
            return super().multiply_transposed(W, dtype)
        out = torch.empty(self.shape[1], W.shape[1], dtype=dtype)
        return self._run("multiply_transposed", slice(None), W, None, out)

    def multiply_gram(self, V: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        if not self._native():
            return super().multiply_gram(V, weights, dtype)
        out = torch.empty(self.shape[1], V.shape[1], dtype=dtype)
        return self._run("multiply_gram", slice(None), V, weights, out)

    def _run(self, task: str, rows: slice, V: Tensor | None, weights: Tensor | None, out: Tensor) -> Tensor:
        assert native_engine.core is not None
        if self._program is None:
            self._program = _Program(self.kernel, self.C, self.X.shape[1])
        program, in_double = self._program, out.dtype != self.dtype
        start, stop, _ = rows.indices(self.shape[0])
        native_engine.core.run_sparse(
            task,
            program.leaves,
            program.steps,
            self.X.shape[1],
            np.ascontiguousarray(self.X.indptr[start : max(start, stop) + 1], dtype=self.X.indices.dtype),
            np.ascontiguousarray(self.X.indices),
            np.ascontiguousarray(self.X.data),
            program.centers if sparse.issparse(self.C) else None,
            None if sparse.issparse(self.C) else self.C,
            program.scales,
            V,
            weights,
            None if in_double else out,
            out if in_double else None,
            torch.get_num_threads(),
            self.budget // 2,
        )
        return out

    def _evaluate(self, kernel: Kernel, X: sparse.csr_array) -> Tensor:
        match kernel:
            case kernels.Sum():
                return self._evaluate(kernel.left, X) + self._evaluate(kernel.right, X)
            case kernels.Product():
                return self._evaluate(kernel.left, X) * self._evaluate(kernel.right, X)
            case kernels.Scaled():
                return as_tensor(kernel.scale, torch.empty(0, dtype=self.dtype)) * self._evaluate(kernel.kernel, X)
        assert isinstance(kernel, kernels.RadialKernel | kernels.DotKernel)
        length_scale = kernel.length_scale
        tracked = isinstance(length_scale, Tensor) and length_scale.requires_grad
        scales = np.ones(()) if tracked else _scales(length_scale, X.shape[1])
        key = tuple(scales.ravel())
        if key not in self._sides:
            self._sides[key] = _Side(self.C, scales)
        side = self._sides[key]
        make = side.squared_distances if isinstance(kernel, kernels.RadialKernel) else side.products
        values = torch.from_numpy(make(X, np.dtype(str(self.dtype).removeprefix("torch."))))
        return kernel.profile(values / _scalar(length_scale, values).square() if tracked else values)


def differentiable_block(kernel: Kernel, X: sparse.csr_array, C: Any) -> Tensor:
    """k(X, C), dense, with gradients flowing into the kernel's parameters."""
    if isinstance(C, Tensor) and C.requires_grad:
        raise ValueError("C: gradients in the centers need dense points X")
    return SparseEngine(kernel, X, C, budget=1).block(0, X.shape[0])


class _Program:
    """The kernel and the centers as the core reads them."""

    def __init__(self, kernel: Kernel, C: Any, features: int):
        self.leaves: list[tuple[str, float, float, float, int]] = []
        self.steps: list[tuple[str, int, float]] = []
        self.scales: list[Array] = []
        self._features = features
        self._add(kernel)
        if sparse.issparse(C):
            ends, places = (part.astype(np.int64) for part in (C.indptr, C.indices))
            self.centers = (ends, places, C.data.astype(np.float64))

    def _add(self, kernel: Kernel) -> None:
        match kernel:
            case kernels.Sum() | kernels.Product():
                self._add(kernel.left)
                self._add(kernel.right)
                self.steps.append(("add" if isinstance(kernel, kernels.Sum) else "multiply", 0, 1.0))
            case kernels.Scaled():
                self._add(kernel.kernel)
                self.steps.append(("scale", 0, as_number(kernel.scale)))
            case _:
                self._add_leaf(kernel)

    def _add_leaf(self, kernel: Kernel) -> None:
        form = native_engine.form_of(kernel)
        assert form is not None
        scale = np.atleast_1d(_scales(kernel.length_scale, self._features))  # type: ignore[attr-defined]
        same = [place for place, known in enumerate(self.scales) if np.array_equal(known, scale)]
        which = same[0] if same else len(self.scales)
        if not same:
            self.scales.append(scale)
        first, second = (*form.constants, 0.0, 0.0)[:2]
        self.steps.append(("leaf", len(self.leaves), 1.0))
        self.leaves.append((form.family, form.gain, first, second, which))


def _scalar(length_scale: Parameter, like: Tensor) -> Tensor:
    scale = as_tensor(length_scale, like)
    if scale.ndim:
        raise ValueError("length_scale: gradients with one scale per feature need dense points")
    return scale


def _scales(length_scale: Parameter, features: int) -> Array:
    values = np.asarray(length_scale.detach().cpu() if isinstance(length_scale, Tensor) else length_scale, dtype=float)
    if values.ndim and len(values) != features:
        raise ValueError(f"length_scale has {len(values)} entries but the points have {features} features")
    return values


def _scaled(points: Any, scales: Array) -> Any:
    """Points in float64 over their scales."""
    if not sparse.issparse(points):
        return points / scales
    divisor = scales[points.indices] if scales.ndim else scales
    return sparse.csr_array(
        (points.data.astype(np.float64) / divisor, points.indices, points.indptr), shape=points.shape
    )


def _squared_norms(points: Any) -> Array:
    if sparse.issparse(points):
        rows = np.repeat(np.arange(points.shape[0]), np.diff(points.indptr))
        return np.bincount(rows, weights=points.data**2, minlength=points.shape[0])
    norms: Array = np.einsum("ij,ij->i", points, points)
    return norms


class _Side:
    """The centers, prepared for products with blocks of X under one set of length scales."""

    @np.errstate(over="ignore")
    def __init__(self, C: Any, scales: Array):
        self.scales = scales
        self.unscaled = C.astype(np.float64)
        self.points = _scaled(C, scales)
        self.norms = _squared_norms(self.points)
        if sparse.issparse(C):
            self.features, places = np.unique(C.indices, return_inverse=True)
            shape = (C.shape[0], len(self.features))
            self.transposed = sparse.csr_array((self.points.data, places, C.indptr), shape=shape).T.tocsr()
            self.sieve = np.zeros(_SIEVE + 1, dtype=bool)
            self.sieve[self.features & _SIEVE] = True
        else:
            self.transposed = np.ascontiguousarray(self.points.T)

    def _inner(self, X: sparse.csr_array) -> Any:
        """X Cᵀ: CSR if C is sparse, otherwise dense."""
        if not sparse.issparse(self.points):
            return X @ self.transposed
        if len(self.features) == 0:
            return sparse.csr_array((X.shape[0], self.points.shape[0]))
        kept = np.flatnonzero(self.sieve[X.indices & _SIEVE])  # most features of X no center has
        places = np.searchsorted(self.features, X.indices[kept])
        known = self.features[np.minimum(places, len(self.features) - 1)] == X.indices[kept]
        kept, places = kept[known], places[known]
        ends = np.searchsorted(kept, X.indptr)
        known_part = sparse.csr_array((X.data[kept], places, ends), shape=(X.shape[0], len(self.features)))
        return known_part @ self.transposed

    def products(self, X: sparse.csr_array, dtype: np.dtype[Any]) -> Array:
        inner = self._inner(_scaled(X, self.scales))
        dense: Array = inner.toarray() if sparse.issparse(inner) else inner
        return dense.astype(dtype)

    @np.errstate(over="ignore", invalid="ignore")  # beyond the type's range a distance is infinite
    def squared_distances(self, X: sparse.csr_array, dtype: np.dtype[Any]) -> Array:
        scaled = _scaled(X, self.scales)
        norms, inner = _squared_norms(scaled), self._inner(scaled)
        squared: Array = np.add.outer(norms.astype(dtype), self.norms.astype(dtype))
        if sparse.issparse(inner):  # elsewhere the inner product is zero and nothing cancels
            rows = np.repeat(np.arange(X.shape[0]), np.diff(inner.indptr))
            columns, inner = inner.indices, inner.data
        else:
            rows, columns = np.divmod(np.arange(inner.size), max(1, inner.shape[1]))
            inner = inner.ravel()
        both = norms[rows] + self.norms[columns]
        values = both - 2 * inner
        lost = np.flatnonzero(~(values >= CANCELLATION * both))
        for start in range(0, len(lost), _PAIRS):
            some = lost[start : start + _PAIRS]
            values[some] = self._differences(X[rows[some]], columns[some])
        squared[rows, columns] = values
        return squared

    def _differences(self, X: sparse.csr_array, columns: Array) -> Array:
        """Squared distances of pairs, subtracted before they are scaled, which would round."""
        X = X.astype(np.float64)
        if sparse.issparse(self.unscaled):
            return _squared_norms(_scaled(sparse.csr_array(X - self.unscaled[columns]), self.scales))
        step = max(1, (1 << 22) // max(1, X.shape[1]))
        parts = [
            _squared_norms(_scaled(X[a : a + step].toarray() - self.unscaled[columns[a : a + step]], self.scales))
            for a in range(0, len(columns), step)
        ]
        return np.concatenate(parts)
