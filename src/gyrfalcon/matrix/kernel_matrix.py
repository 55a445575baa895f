"""The matrix that is never stored, and its derivative."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy, as_vectors, to_tensor
from gyrfalcon.data.points import Points
from gyrfalcon.kernels import Kernel, as_kernel

from . import autograd, derivative
from .cached_engine import CachedEngine
from .choice import ENGINES, Wish, as_devices, choose, split
from .derivative import Gradients
from .engine import Engine, Work
from .plan import Plan, default_budget, worth_caching
from .relatives import Relatives, as_bytes
from .slopes import slopes
from .sparse_engine import differentiable_block
from .transposed import Transposed, flip

_DIAGONAL_ROWS = 256  # entries of the main diagonal that are made together


class KernelMatrix(Relatives):
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
        The centers; X if not given, which a Source cannot be.
    engine : "native", "torch", "sparse", "streamed", "dask" or callable, optional
        Chosen from the data if not given. For a Source, "native" or "torch" says what each chunk goes to. A callable
        makes an `Engine` of kernel, X, C and a budget in bytes.
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
        engine: Wish = None,
        memory_budget: int | None = None,
        cache: bool | None = None,
        devices: Sequence[Any] | None = None,
    ):
        self.kernel = as_kernel(kernel)
        self._X = Points.check(X, "X")
        self._C = self._X if C is None else self._matching(Points.check(C, "C"))
        self.symmetric = C is None
        if self._C.streamed:
            raise ValueError(
                "C must be in memory: give centers, such as X.take(indices) or those of gyrfalcon.centers.select"
            )
        if engine is not None and engine not in ENGINES and not callable(engine):
            raise ValueError(f"engine must be one of {ENGINES}, a callable or None, got {engine!r}")
        self._wish, self._cache_wish = engine, cache
        self.devices = None if devices is None else as_devices(devices)
        self._tensors = any(isinstance(given, Tensor) for given in (X, C, self._X.values, self._C.values))
        self._outputs = 1
        self._settle()
        if devices is not None and self.device.type != "cpu":
            raise ValueError(f"devices takes points in main memory, got X on {self.device}: move it with .cpu()")
        self.memory_budget = default_budget(self.device) if memory_budget is None else as_bytes(memory_budget)
        self._current()

    # What it is.

    @property
    def engine(self) -> str:
        """The name of the engine in use: "cached" once K is kept."""
        return (self._kept or self._current()).name

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
        engine = self._current()
        threads, block_rows, instruction_set = engine.describe()
        cache, cache_reason = self._caching
        return Plan(
            engine=self.engine,
            reason=self._reason,
            cache=cache,
            cache_reason=cache_reason,
            shape=self.shape,
            dtype=str(self.dtype).removeprefix("torch."),
            device=str(self.device),
            block_rows=block_rows,
            memory_budget=self.memory_budget,
            threads=threads,
            instruction_set=instruction_set,
        )

    @property
    def _caching(self) -> tuple[bool, str]:
        """Whether K is kept from its second product on, and why."""
        if self._cache_wish is not None:
            return self._cache_wish, "as asked"
        if self.streamed:  # those who do not hold X in memory do not expect a larger matrix there
            return False, "X is on a cluster" if self._X.distributed else "X is read in chunks"
        return worth_caching(self.shape, self.features, self.dtype, self.memory_budget, self._outputs)

    def expect(self, outputs: int) -> None:
        """Say how many columns the products to come have: with many, a K that is kept costs more to read.

        >>> import numpy as np, gyrfalcon as gf
        >>> K = gf.KernelMatrix("rbf", np.zeros((10, 100)))
        >>> before = K.cached
        >>> K.expect(outputs=100)
        >>> before, K.cached
        (True, False)
        """
        self._outputs = max(1, outputs)

    @property
    def cached(self) -> bool:
        """Whether K is kept in memory from its second product on."""
        return self._caching[0]

    # Products.

    def __matmul__(self, V: Any) -> Any:
        vectors = self._vectors(V, "V", self.shape[1])
        tracked = self._differentiable(vectors)
        return self._like(self._tracked(vectors, False) if tracked else self._multiply(vectors, False), V)

    def multiply(self, V: Tensor) -> Tensor:
        """K V for a matrix of the type of X on its device, unchecked and off autograd's record: `K @ V` in a hurry."""
        return self._multiply(V, False)

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
        if self._products == 2 and self.cached:
            self._kept = CachedEngine(engine)
        return self._kept or engine

    def _current(self) -> Engine:
        """The engine of the tensors as they are now: an optimizer's step may have changed them in place."""
        if self._engine is not None and not self._watched:
            return self._engine
        versions = [tensor._version for tensor in self._watched]  # counts of changes in place
        if self._engine is None or self._versions != versions:
            self._forget()
            self._versions = versions
            X, C = self._X.values, self._C.values
            if self.devices is not None:
                engine, reason = split(self.kernel, X, C, self.memory_budget, self._wish, self.devices)
            else:
                engine, reason = choose(self.kernel, X, C, self.device, self.memory_budget, self._wish)
            self._engine, self._reason = engine, reason
        return self._engine

    def _contract(self, rows: slice, weights: autograd.Weights, wanted: list[bool]) -> list[Tensor | None]:
        """Derivatives of Σ a ∘ K[rows] in X[rows], C and each parameter, where wanted."""
        return self._current().derivatives(rows, weights, wanted) if any(wanted) else [None] * len(wanted)

    # Entries.

    def block(self, index: slice | int) -> Any:
        """The rows of K that a slice or an integer names, written down.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("linear", np.array([[1.0], [2.0], [3.0]])).block(slice(1, 3))
        array([[2., 4., 6.],
               [3., 6., 9.]])
        """
        if isinstance(index, slice):
            named = self._row_range(index)
            return self._out(self._block(named.start, named.stop))
        at = range(self.shape[0])[index]
        return self._out(self._block(at, at + 1)[0])

    def wide_block(self, rows: slice) -> Array:
        """Some rows of K in float64, whatever the type of X, as an array in main memory.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("linear", np.ones((3, 1), np.float32)).wide_block(slice(1)).dtype
        dtype('float64')
        """
        named = self._row_range(rows)
        with torch.no_grad():
            return as_numpy(self._current().wide(named.start, named.stop))

    def _block(self, start: int, stop: int) -> Tensor:
        if not self._differentiable():
            with torch.no_grad():
                return self._current().block(start, stop)
        X, C = self._X.rows(slice(start, stop)).values, self._C.values
        if self.sparse:
            return differentiable_block(self.kernel, X, C)
        return self.kernel.block(to_tensor(X), to_tensor(C))

    def reduce(self, work: Work, *columns: Any, rows: int) -> tuple[Array, ...]:
        """Sums over blocks of rows of what `work` makes of each, in one pass, where the rows are.

        `work` gets a block of K in float64, as an array of at most `rows` rows, and the same rows of each of the
        columns (None stays None), and returns a tuple of arrays. Rows on a cluster are reduced there, so that `work`
        has to pickle.

        >>> import numpy as np, gyrfalcon as gf
        >>> K = gf.KernelMatrix("linear", np.array([[1.0], [2.0], [3.0]]), np.array([[1.0]]))
        >>> K.reduce(lambda block, y: (block.T @ y,), np.ones((3, 2)), rows=2)
        (array([[6., 6.]]),)
        """
        given = [c if c is None or isinstance(c, Tensor) else to_tensor(np.asarray(c)) for c in columns]
        with torch.no_grad():
            return self._current().reduce(work, given, rows)

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
        among = self if self.symmetric and self.devices is None else self.square
        with torch.no_grad():
            return np.asarray(as_numpy(among.widened()._block(0, self.shape[1])).T)

    def diag(self) -> Any:
        """The main diagonal, k(xᵢ, cᵢ) for i below min(n, m).

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("linear", np.array([[1.0], [2.0]])).diag()
        array([1., 4.])
        """
        count, step = min(self.shape), _DIAGONAL_ROWS
        if self.symmetric and not self.sparse:
            return self._out(self.kernel.diagonal(to_tensor(self._X.values)))
        parts = [
            self.rows(slice(a, min(count, a + step)))
            .with_centers(index=slice(a, min(count, a + step)))
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
        with torch.no_grad():
            return self._current().prior_diagonal()

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
        return derivative.gradients(self, slice(None), autograd.Weights(left, right), wanted)

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

    def slopes(self, coefficients: Any, rows: slice = slice(None)) -> Tensor:
        """∇fₖ(xᵢ) for f = Σⱼ coefficientsⱼ k(·, cⱼ) at some rows, of shape (rows, outputs, features), of dense points.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("linear", np.array([[1.0, 0.0]])).slopes(np.array([[2.0]])).tolist()
        [[[2.0, 0.0]]]
        """
        if self.sparse:
            raise ValueError("X is sparse: slopes need dense points")
        beta = torch.as_tensor(coefficients).reshape(self.shape[1], -1)
        return slopes(self.kernel, self._X.rows(self._row_range(rows)).values, self._C.values, beta)

    def diagonal_gradients(self, factor: float, weights: Tensor | None = None) -> dict[str, Tensor]:
        """Derivatives of factor · Σᵢ wᵢ k(xᵢ, xᵢ) in the kernel's parameters, in float64.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix(gf.kernels.Linear(2.0), np.array([[1.0], [2.0]])).diagonal_gradients(1.0)
        {'length_scale': tensor(-1.2500, dtype=torch.float64)}
        """
        w = torch.ones(self.shape[0], dtype=torch.float64) if weights is None else weights[:, 0].detach().cpu().double()
        total: dict[str, Tensor] = {}
        for start in range(0, self.shape[0], _DIAGONAL_ROWS if self.sparse else self.shape[0]):
            rows = slice(start, start + _DIAGONAL_ROWS) if self.sparse else slice(None)
            part = self.rows(rows).with_centers().widened()
            found = part._sparse_diagonal(factor * w[rows]) if self.sparse else part._dense_diagonal(factor * w)
            total = {name: value + total.get(name, 0.0) for name, value in found.items()}
        return total

    def _sparse_diagonal(self, w: Tensor) -> dict[str, Tensor]:
        return self.row_gradients(slice(None), torch.diag(w), wanted=("parameters",)).parameters

    def _dense_diagonal(self, w: Tensor) -> dict[str, Tensor]:
        named = autograd.parameters(self.kernel, self.device)
        with torch.enable_grad():
            leaves = [value.detach().double().requires_grad_() for value in named.values()]
            kernel = self.kernel.with_parameters(dict(zip(named, leaves, strict=True)))
            value = (w.to(self.device) * kernel.diagonal(to_tensor(self._X.values).detach())).sum()
            if not value.requires_grad:
                return {}
            parts = torch.autograd.grad(value, leaves, allow_unused=True)
        return {name: part for name, part in zip(named, parts, strict=True) if part is not None}

    def _leaves(self) -> list[Tensor | None]:
        points = [p if isinstance(p, Tensor) else None for p in (self._X.values, self._C.values)]
        return [*points, *autograd.parameters(self.kernel, self.device).values()]

    def _differentiable(self, *vectors: Tensor) -> bool:
        if not torch.is_grad_enabled():
            return False
        return any(leaf.requires_grad for leaf in (*vectors, *self._watched))

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
        tensors = self._tensors or self._watched or any(isinstance(t, Tensor) for t in given)
        return result if tensors else result.numpy()
