"""The matrix that is never stored, and its derivative."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.arrays import as_points, as_vectors, device_of, to_tensor, torch_dtype
from gyrfalcon.data import DaskSource, Source
from gyrfalcon.kernels import Kernel, as_kernel

from . import derivative, native_engine
from .cached_engine import CachedEngine
from .choice import ENGINES, as_devices, choose, split
from .dask_engine import DaskEngine
from .derivative import Gradients
from .engine import Engine
from .plan import Plan, default_budget, worth_caching
from .streamed_engine import StreamedEngine
from .transposed import Transposed, flip


class KernelMatrix:
    """K = k(X, C), of shape (n, m), as an operator: products are made block by block and K is never stored.

    Everything follows X: an array gives arrays, a tensor gives tensors on its device; a tensor among C, V or the
    kernel's parameters gives tensors too, and gradients flow through every product.

    Parameters
    ----------
    kernel : Kernel or str
        What k is; a name stands for that kernel with its default parameters.
    X : array, tensor, sparse matrix, Source or Dask collection of shape (n, d)
        float32 or float64, computed in that type; NumPy with any strides, PyTorch on any device, SciPy or PyTorch CSR.
        A `gyrfalcon.data.Source` is read in chunks: every product is one pass over it. Dask arrays and data frames stay
        on their cluster, whose workers make the products.
    C : array, tensor or sparse matrix of shape (m, d), optional
        The centres; X if not given, which a Source cannot be.
    engine : "native", "torch", "sparse", "streamed" or "dask", optional
        Chosen from the data if not given. For a Source, "native" or "torch" says what each chunk goes to.
    memory_budget : int, optional
        Bytes that temporaries may take; a quarter of the free memory if not given.
    cache : bool, optional
        Whether to keep K after the first product. If not given, only where it fits half the budget and reading
        costs less than making it again; `plan` tells. What is kept follows changes of tensors in place, but not those
        of NumPy arrays: change those before, or pass cache=False.
    devices : list of str, optional
        Devices that share the rows, such as ["cuda:0", "cuda:1"]. X stays in main memory, or on disk, and results come
        there.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[:50])
    >>> K
    KernelMatrix(Gaussian(length_scale=1), 1000 × 50, float64, native)
    >>> (K @ np.ones(50)).shape, (K.T @ np.ones(1000)).shape
    ((1000,), (50,))
    """

    __array_ufunc__ = None  # so that `array @ K` comes here

    def __init__(
        self,
        kernel: Kernel | str,
        X: Any,
        C: Any = None,
        *,
        engine: str | None = None,
        memory_budget: int | None = None,
        cache: bool | None = None,
        devices: Sequence[Any] | None = None,
    ):
        self.kernel = as_kernel(kernel)
        self.X: Any = as_points(X, "X")
        self.C: Any = self.X if C is None else as_points(C, "C")
        self._check_pair()
        if engine not in (None, *ENGINES):
            raise ValueError(f"engine must be one of {ENGINES} or None, got {engine!r}")
        self._wish, self.devices = engine, None if devices is None else as_devices(devices)
        if devices is not None and self.device.type != "cpu":
            raise ValueError(f"devices takes points in main memory, got X on {self.device}: move it with .cpu()")
        self.memory_budget = default_budget(self.device) if memory_budget is None else _bytes(memory_budget)
        self._engine, self._reason = self._choose()
        features = _features(self.X)
        self._cache, self._cache_reason = worth_caching(self.shape, features, self.dtype.itemsize, self.memory_budget)
        if isinstance(self.X, Source):  # those who do not hold X in memory do not expect a larger matrix there
            there = "is on a cluster" if isinstance(self.X, DaskSource) else "is read in chunks"
            self._cache, self._cache_reason = False, f"X {there}"
        if cache is not None:
            self._cache, self._cache_reason = cache, "as asked"
        self._products = 0
        self._kept: CachedEngine | None = None
        self._tensors = isinstance(X, Tensor) or isinstance(C, Tensor)
        self._versions = self._current_versions()

    def _check_pair(self) -> None:
        if isinstance(self.C, Source):
            raise ValueError(
                "C must be in memory: give centres, such as X.take(indices) or those of gyrfalcon.centers.select"
            )
        if self.C.shape[1] != self.X.shape[1]:
            raise ValueError(f"C has {self.C.shape[1]} features but X has {self.X.shape[1]}")
        if torch_dtype(self.C) != torch_dtype(self.X):
            raise TypeError(f"C holds {torch_dtype(self.C)} but X holds {torch_dtype(self.X)}: convert one of them")
        if device_of(self.C) != self.device:
            raise ValueError(f"C is on {device_of(self.C)} but X is on {device_of(self.X)}: move one of them")
        if sparse.issparse(self.C) and not sparse.issparse(self.X):
            self.C = self.C.toarray()  # no larger than X, which is dense already

    def _choose(self) -> tuple[Engine, str]:
        if self.devices is not None:
            return split(self.kernel, self.X, self.C, self.memory_budget, self._wish, self.devices)
        return choose(self.kernel, self.X, self.C, self.device, self.memory_budget, self._wish)

    # What it is.

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.C.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        return torch_dtype(self.X)

    @property
    def device(self) -> torch.device:
        """Where X is, and results are; chunks that are read go to where C is."""
        return device_of(self.C if isinstance(self.X, Source) else self.X)

    @property
    def engine(self) -> str:
        """The name of the engine in use: "cached" once K is kept."""
        return (self._kept or self._engine).name

    @property
    def T(self) -> Transposed:  # noqa: N802
        """Kᵀ, as a view."""
        return Transposed(self)

    def __repr__(self) -> str:
        n, m = self.shape
        return f"KernelMatrix({self.kernel!r}, {n} × {m}, {str(self.dtype).removeprefix('torch.')}, {self.engine})"

    def plan(self) -> Plan:
        """What was decided and why: engine, threads, block size, whether K is kept.

        >>> import numpy as np, gyrfalcon as gf
        >>> print(gf.KernelMatrix("rbf", np.zeros((10, 2)), engine="torch", memory_budget=10**6).plan().reason)
        as asked
        """
        native = native_engine.core if self._engine.name == "native" else None
        return Plan(
            engine=self.engine,
            reason=self._reason,
            cache=self._cache,
            cache_reason=self._cache_reason,
            shape=self.shape,
            dtype=str(self.dtype).removeprefix("torch."),
            device=str(self.device),
            block_rows=native_engine.ROWS_PER_BLOCK if native else _block_rows(self._engine),
            memory_budget=self.memory_budget,
            threads=self._engine.threads if isinstance(self._engine, DaskEngine) else torch.get_num_threads(),
            instruction_set=native.instruction_set() if native else None,
        )

    # Products.

    def __matmul__(self, V: Any) -> Any:
        vectors = self._vectors(V, "V", self.shape[1])
        tracked = self._differentiable(vectors)
        return self._like(self._tracked(vectors, False) if tracked else self._multiply(vectors, False), V)

    def __rmatmul__(self, W: Any) -> Any:
        return flip(self.T @ flip(W))

    def gram_mv(self, V: Any, weights: Any = None, *, dtype: torch.dtype | None = None) -> Any:
        """Kᵀ diag(weights) K V, each entry of K made once.

        `dtype` is the type of the result and of the sums over n: with float32 points, `torch.float64` keeps digits
        that ill-conditioned solvers need. It cannot be given where gradients are recorded.

        >>> import numpy as np, gyrfalcon as gf
        >>> K = gf.KernelMatrix("linear", np.array([[1.0], [2.0]]), np.array([[3.0]]))
        >>> K.gram_mv(np.array([1.0]))
        array([45.])
        """
        vectors = self._vectors(V, "V", self.shape[1])
        scale = None if weights is None else self._weights(weights)
        if self._differentiable(vectors) or (scale is not None and scale.requires_grad):
            self._refuse(dtype)
            product = self._tracked(vectors, transposed=False)
            return self._like(self._tracked(product if scale is None else scale * product, transposed=True), V)
        with torch.no_grad():
            return self._like(self._ready().multiply_gram(vectors, scale, self._sums(dtype)), V)

    def rmv(self, W: Any, *, dtype: torch.dtype | None = None) -> Any:
        """Kᵀ W, as `K.T @ W`, with the sums over n in the given type; see `gram_mv`.

        >>> import numpy as np, torch, gyrfalcon as gf
        >>> K = gf.KernelMatrix("linear", np.ones((3, 1), np.float32), np.ones((1, 1), np.float32))
        >>> K.rmv(np.ones(3, np.float32), dtype=torch.float64)
        array([3.])
        """
        vectors = self._vectors(W, "W", self.shape[0])
        if self._differentiable(vectors):
            self._refuse(dtype)
            return self._like(self._tracked(vectors, transposed=True), W)
        with torch.no_grad():
            return self._like(self._ready().multiply_transposed(vectors, self._sums(dtype)), W)

    def gram(self, weights: Any = None, *, dtype: torch.dtype | None = None) -> Any:
        """Kᵀ diag(weights) K, of shape (m, m), in one pass; not differentiable.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("linear", np.array([[1.0], [2.0]]), np.array([[3.0]])).gram()
        array([[45.]])
        """
        scale = None if weights is None else self._weights(weights).detach()
        with torch.no_grad():
            return self._out(self._ready().gram(scale, self._sums(dtype)))

    def _sums(self, dtype: torch.dtype | None) -> torch.dtype:
        if dtype not in (None, self.dtype, torch.float64):
            raise ValueError(f"dtype must be {self.dtype} or torch.float64, got {dtype!r}")
        return dtype or self.dtype

    def _refuse(self, dtype: torch.dtype | None) -> None:
        if dtype not in (None, self.dtype):
            raise ValueError(f"dtype={dtype} cannot be given where gradients are recorded: use torch.no_grad()")

    def _tracked(self, vectors: Tensor, transposed: bool) -> Tensor:
        """The same product, on autograd's record."""
        result: Tensor = derivative.Product.apply(self, transposed, vectors, *self._leaves())  # type: ignore[no-untyped-call]
        return result

    def _multiply(self, vectors: Tensor, transposed: bool) -> Tensor:
        with torch.no_grad():
            engine = self._ready()
            return engine.multiply_transposed(vectors, self.dtype) if transposed else engine.multiply(vectors)

    def _ready(self) -> Engine:
        """The engine, or one that keeps K once a second product shows that it is worth it."""
        engine = self._current()
        self._products += 1
        if self._cache and self._products == 2:
            self._kept = CachedEngine(engine)
        return self._kept or engine

    def _current(self) -> Engine:
        """The engine of the tensors as they are now: an optimiser's step may have changed them in place."""
        if self._versions != self._current_versions():
            self._versions = self._current_versions()
            self._engine, self._reason = self._choose()
            self._products, self._kept = 0, None
        return self._engine

    def _current_versions(self) -> list[int]:
        """Counts of in-place changes to the tensors that K is made of."""
        return [
            leaf._version for leaf in (self.X, self.C, *self.kernel.parameters().values()) if isinstance(leaf, Tensor)
        ]

    # Entries.

    def rows(self, index: slice | int) -> Any:
        """The dense rows of K that a slice or an integer names.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("linear", np.array([[1.0], [2.0], [3.0]])).rows(slice(1, 3))
        array([[2., 4., 6.],
               [3., 6., 9.]])
        """
        if isinstance(index, slice):
            named = self._row_range(index)
            return self._out(self._block(named.start, named.stop))
        at = range(self.shape[0])[index]
        return self._out(self._block(at, at + 1)[0])

    def _row_range(self, rows: slice) -> slice:
        if not isinstance(rows, slice):
            raise TypeError(f"rows must be a slice, got {rows!r}")
        start, stop, step = rows.indices(self.shape[0])
        if step != 1:
            raise ValueError(f"rows takes slices of step 1, got {rows}")
        return slice(start, max(start, stop))

    def _block(self, start: int, stop: int) -> Tensor:
        if not self._differentiable():
            with torch.no_grad():
                return self._current().block(start, stop)
        X = self.X.rows(start, stop) if isinstance(self.X, Source) else self.X[start:stop]
        return derivative.block(self.kernel, X, self.C)

    def widened(self, rows: slice = slice(None)) -> KernelMatrix:
        """The same matrix, or the rows that a slice names, evaluated in float64: entries of float32 points without
        the rounding of float32.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("rbf", np.ones((3, 1), np.float32)).widened(slice(2))
        KernelMatrix(Gaussian(length_scale=1), 2 × 3, float64, native)
        """
        X = self.X[rows]
        if isinstance(X, Source) and len(X) <= X.chunk_rows():
            X = self._here(X.to_array())
        X, C = (points.double() if isinstance(points, Tensor) else points.astype(np.float64) for points in (X, self.C))
        same = self.C is self.X and rows == slice(None)
        return KernelMatrix(self.kernel, X, None if same else C, memory_budget=self.memory_budget, devices=self.devices)

    def _here(self, rows: Any) -> Any:
        """Rows that were read, as the chunks of a Source are given to engines."""
        return rows if self.device.type == "cpu" else to_tensor(rows).to(self.device)

    def to_dense(self) -> Any:
        """All of K, for small matrices."""
        return self._out(self._block(0, self.shape[0]))

    def between_centers(self) -> np.ndarray[Any, Any]:
        """k(C, C), dense, in Fortran order and in float64 whatever the type of C: what solvers factor in place.

        It is the metric of the coefficients, ‖f‖² = βᵀk(C, C)β, and so the identity for explicit features.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("linear", np.ones((5, 1), np.float32), np.array([[1], [2]], np.float32)).between_centers()
        array([[1., 2.],
               [2., 4.]])
        """
        if self.kernel.explicit:
            return np.eye(self.shape[1], order="F")
        if isinstance(self.C, np.ndarray) or sparse.issparse(self.C):
            C = self.C.astype(np.float64)
        else:
            C = self.C.detach().cpu().double()
        with torch.no_grad():
            dense = KernelMatrix(self.kernel, C)._block(0, C.shape[0])
        return np.asarray(dense.numpy().T)

    def diag(self) -> Any:
        """The main diagonal, k(xᵢ, cᵢ) for i below min(n, m).

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("linear", np.array([[1.0], [2.0]])).diag()
        array([1., 4.])
        """
        count = min(self.shape)
        if isinstance(self.X, Source):
            return KernelMatrix(self.kernel, self._here(self.X.rows(0, count)), self.C[:count]).diag()
        if self.C is self.X and not sparse.issparse(self.X):
            return self._out(self.kernel.diagonal(to_tensor(self.X)))
        step = 256
        parts = [
            KernelMatrix(self.kernel, self.X[a : a + step][:count], self.C[a : a + step][:count])
            ._block(0, min(step, count - a))
            .diagonal()
            for a in range(0, count, step)
        ]
        return self._out(torch.cat(parts) if parts else torch.zeros(0, dtype=self.dtype, device=self.device))

    def prior_diagonal(self) -> np.ndarray[Any, Any]:
        """k(xᵢ, xᵢ) for every row of X, in float64: what a Gaussian process calls the prior variance.

        Of explicit features, the squared norm of each row of K.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("linear", np.array([[1.0], [2.0]]), np.array([[3.0]])).prior_diagonal()
        array([1., 4.])
        """
        if self.kernel.explicit:
            return self._squared_norms()
        if isinstance(self.X, Source):
            parts = [KernelMatrix(self.kernel, chunk).prior_diagonal() for _, chunk in self.X.chunks()]
            return np.concatenate([np.zeros(0), *parts])
        if sparse.issparse(self.X):
            rows = [KernelMatrix(self.kernel, self.X[i : i + 256]).diag() for i in range(0, self.shape[0], 256)]
            return np.concatenate([np.zeros(0), *rows]).astype(np.float64)
        with torch.no_grad():
            return np.asarray(self.kernel.diagonal(to_tensor(self.X)).cpu().double().numpy())

    def _squared_norms(self) -> np.ndarray[Any, Any]:
        with torch.no_grad():
            engine = self._current()
            norms = [engine.block(rows.start, rows.stop).double().square().sum(1).cpu() for rows in engine.blocks()]
        return np.concatenate([np.zeros(0), *(part.numpy() for part in norms)])

    # Derivatives.

    def gradients(self, left: Any, right: Any, *, wanted: Collection[str] = Gradients._fields) -> Gradients:
        """Derivatives of Σₖ leftₖᵀ K rightₖ in X, C and the kernel's parameters, block by block.

        Only those that `wanted` names are computed; the others are None, or no parameters at all. Without "X", the
        compiled core computes them for Gaussian, Laplacian and Matérn kernels of dense points, in float64.

        >>> import numpy as np, gyrfalcon as gf
        >>> K = gf.KernelMatrix(gf.kernels.Linear(2.0), np.array([[1.0], [2.0]]), np.array([[3.0]]))
        >>> K.gradients(left=np.ones(2), right=np.ones(1)).parameters
        {'length_scale': tensor(-2.2500, dtype=torch.float64)}
        """
        left = self._vectors(left, "left", self.shape[0]).detach()
        right = self._vectors(right, "right", self.shape[1]).detach()
        if left.shape[1] != right.shape[1]:
            raise ValueError(f"left has {left.shape[1]} columns but right has {right.shape[1]}")
        return derivative.gradients(self, slice(None), derivative.Weights(left, right), wanted)

    def row_gradients(self, rows: slice, weights: Any, *, wanted: Collection[str] = ("C", "parameters")) -> Gradients:
        """Derivatives of Σᵢⱼ weightsᵢⱼ k(xᵢ, cⱼ) over the rows i that a slice names, for weights of shape (rows, m).

        What a loop over blocks of rows adds up where the weights depend on the entries; see `gradients`.

        >>> import numpy as np, gyrfalcon as gf
        >>> K = gf.KernelMatrix(gf.kernels.Linear(2.0), np.array([[1.0], [2.0]]), np.array([[3.0]]))
        >>> K.row_gradients(slice(1, 2), np.ones((1, 1))).C
        tensor([[0.5000]], dtype=torch.float64)
        """
        rows = self._row_range(rows)
        return derivative.gradients(self, rows, derivative.dense_weights(weights, rows, self), wanted)

    def _leaves(self) -> list[Tensor | None]:
        points = [p if isinstance(p, Tensor) else None for p in (self.X, self.C)]
        return [*points, *derivative.parameters(self).values()]

    def _differentiable(self, *vectors: Tensor) -> bool:
        if not torch.is_grad_enabled():
            return False
        return any(leaf is not None and leaf.requires_grad for leaf in (*vectors, *self._leaves()))

    # Conversions.

    def _vectors(self, value: Any, name: str, rows: int) -> Tensor:
        return as_vectors(value, name, rows, self.dtype, self.device)

    def _weights(self, value: Any) -> Tensor:
        weights = self._vectors(value, "weights", self.shape[0])
        if weights.shape[1] != 1:
            raise ValueError(f"weights must have one entry per row of X, got shape {tuple(weights.shape)}")
        return weights

    def _like(self, result: Tensor, V: Any) -> Any:
        return self._out(result[:, 0] if np.ndim(V) == 1 else result, V)

    def _out(self, result: Tensor, *given: Any) -> Any:
        tensors = self._tensors or any(isinstance(t, Tensor) for t in (*given, *self.kernel.parameters().values()))
        return result if tensors else result.numpy()


def _bytes(budget: Any) -> int:
    number = float(budget) if isinstance(budget, numbers.Real) else math.nan
    if not 1 <= number < math.inf:
        raise ValueError(f"memory_budget must be a positive number of bytes, got {budget!r}")
    return int(number)


def _block_rows(engine: Engine) -> int:
    return engine.chunk_rows if isinstance(engine, StreamedEngine | DaskEngine) else engine.block_rows()


def _features(points: Any) -> float:
    """How many features a point has, on average, that are not zero by construction."""
    return float(points.nnz / max(1, points.shape[0]) if sparse.issparse(points) else points.shape[1])
