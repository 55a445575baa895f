"""The points, kernel and options of a kernel matrix, and the matrices that share them."""

from __future__ import annotations

import math
import numbers
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from gyrfalcon import costs
from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.data.points import Points, common_features, variances
from gyrfalcon.kernels import Kernel, RadialKernel

from .cached_engine import CachedEngine
from .choice import Wish
from .engine import Engine


class Relatives:
    """What a kernel matrix is made of. Its relatives share points that were checked once, and every option.

    Attributes
    ----------
    shape : (n, m)
    dtype : torch.dtype
        Of the points.
    device : torch.device
        Where X is, and results are; chunks that are read go to where C is.
    sparse : bool
        Whether X is a sparse matrix.
    streamed : bool
        Whether the rows of X are read in chunks.
    symmetric : bool
        Whether every row of X is a center.
    """

    kernel: Kernel
    symmetric: bool
    devices: list[torch.device] | None
    memory_budget: int
    _X: Points
    _C: Points
    _wish: Wish

    def _settle(self) -> None:
        """What follows from the points and the kernel, before there is an engine."""
        X, C = self._X, self._C
        self.shape: tuple[int, int] = (X.shape[0], C.shape[0])
        self.dtype: torch.dtype = X.dtype
        self.device: torch.device = C.device if X.streamed else X.device
        self.sparse: bool = X.sparse
        self.streamed: bool = X.streamed
        self._watched = [p.values for p in (X, C) if isinstance(p.values, Tensor)] + self.kernel.tensors()
        self._forget()

    def _forget(self) -> None:
        """Neither an engine nor anything that is kept."""
        self._engine: Engine | None = None
        self._reason = ""
        self._products = 0
        self._kept: CachedEngine | None = None
        self._versions: list[int] = []

    def _matching(self, C: Points) -> Points:
        """Centers, if they go with X."""
        X = self._X
        if C.shape[1] != X.shape[1]:
            raise ValueError(f"C has {C.shape[1]} features but X has {X.shape[1]}")
        if C.dtype != X.dtype:
            raise TypeError(f"C holds {C.dtype} but X holds {X.dtype}: convert one of them")
        if not X.streamed and C.device != X.device:
            raise ValueError(f"C is on {C.device} but X is on {X.device}: move one of them")
        return Points(C.values.toarray()) if C.sparse and not X.sparse else C  # no larger than X, which is dense

    def _relative(
        self,
        *,
        kernel: Kernel | None = None,
        X: Points | None = None,
        C: Points | None = None,
        symmetric: bool = False,
        memory_budget: int | None = None,
    ) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.kernel = self.kernel if kernel is None else kernel
        other._X = self._X if X is None else X
        other._C = other._X if symmetric else self._C if C is None else C
        other.symmetric = symmetric
        if (other._X.sparse, other._X.streamed) != (self._X.sparse, self._X.streamed):
            other._wish = None  # an engine that was asked for by name is one for points of another kind
        other.memory_budget = self.memory_budget if memory_budget is None else as_bytes(memory_budget)
        other._settle()
        return other

    def rows(self, index: slice | Array, *, memory_budget: int | None = None) -> Self:
        """The matrix of some rows of X: a slice, or their numbers in an array; few rows of a Source are read.

        >>> import numpy as np, gyrfalcon as gf
        >>> K = gf.KernelMatrix("linear", np.array([[1.0], [2.0], [3.0]]))
        >>> K.rows(slice(1, 3)).to_dense()
        array([[2., 4., 6.],
               [3., 6., 9.]])
        >>> K.rows(np.array([2, 0])).shape
        (2, 3)
        """
        if isinstance(index, slice):
            index = self._row_range(index)
        else:
            index = np.asarray(index)
            if index.ndim != 1 or index.dtype.kind not in "iu":
                raise TypeError(f"index must be a slice or a vector of integers, got {index!r}")
        points = self._X.rows(index)
        return self._relative(
            X=points.to(self.device) if self.streamed and not points.streamed else points, memory_budget=memory_budget
        )

    def with_points(self, X: Points) -> Self:
        """The matrix of other points, which are known to go with the centers: prepared engines are taken over.

        >>> import numpy as np, gyrfalcon as gf
        >>> K = gf.KernelMatrix("linear", np.array([[1.0], [2.0]]))
        >>> K.with_points(gf.data.Points(np.array([[3.0]]))).to_dense()
        array([[3., 6.]])
        """
        other = self._relative(X=X)
        if self._engine is not None and self.devices is None and X.shape[0]:
            other._engine, other._reason = self._engine.at(X.values), self._reason
            other._versions = [tensor._version for tensor in other._watched]
        return other

    def with_kernel(self, kernel: Kernel) -> Self:
        """The matrix of another kernel on the same points, whose preparation is taken over.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("rbf", np.zeros((2, 1))).with_kernel(gf.kernels.Linear())
        KernelMatrix(Linear(length_scale=1), 2 × 2, float64, native)
        """
        other = self._relative(kernel=kernel, symmetric=self.symmetric)
        if self._engine is not None and self.devices is None:
            other._engine, other._reason = self._engine.of(kernel), self._reason
            other._versions = [tensor._version for tensor in other._watched]
        return other

    def with_centers(self, C: Any = None, *, index: slice | Array | None = None) -> Self:
        """The matrix with other centers: new points, those of another matrix, some of those there are, or all rows of X
        if nothing is given.

        >>> import numpy as np, gyrfalcon as gf
        >>> K = gf.KernelMatrix("linear", np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
        >>> K.with_centers(index=slice(1)).to_dense().tolist(), K.with_centers().to_dense().tolist()
        ([[3.0], [6.0]], [[1.0, 2.0], [2.0, 4.0]])
        """
        if index is not None:
            return self._relative(C=self._C.rows(index))
        if C is None:
            return self._relative(symmetric=True)
        return self._relative(C=self._matching(C._C if isinstance(C, Relatives) else Points.check(C, "C")))

    @property
    def square(self) -> Self:
        """k(C, C), the symmetric matrix of the centers."""
        return self._relative(X=self._C, symmetric=True)

    def widened(self) -> Self:
        """The same matrix evaluated in float64: entries of float32 points without the rounding of float32.

        >>> import numpy as np, gyrfalcon as gf
        >>> gf.KernelMatrix("rbf", np.ones((3, 1), np.float32)).widened()
        KernelMatrix(Gaussian(length_scale=1), 3 × 3, float64, native)
        """
        if self.dtype == torch.float64:
            return self
        return self._relative(X=self._X.double(), C=self._C.double(), symmetric=self.symmetric)

    # What it is.

    @property
    def centers(self) -> Any:
        """C, as an array, a tensor or CSR."""
        return self._C.values

    def shares_centers(self, other: Relatives) -> bool:
        """Whether the centers of two matrices are the same points.

        >>> import numpy as np, gyrfalcon as gf
        >>> K = gf.KernelMatrix("rbf", np.zeros((5, 1)))
        >>> K.shares_centers(K.rows(slice(2))), K.shares_centers(K.with_centers(np.ones((5, 1))))
        (True, False)
        """
        return self._C.equals(other._C)

    @property
    def features(self) -> float:
        """How many features an entry of K costs: as many as dense points have on which one kernel costs as much."""
        if not self.sparse:
            return costs.combined_features(self._X.features, self.kernel.parts, self.dtype)
        matches = common_features(self._X, self._C)
        return costs.sparse_features(matches, self.dtype)

    @property
    def n_features(self) -> int:
        """How many features the points have."""
        return self._X.shape[1]

    @property
    def effective_features(self) -> float:
        """How many features matter to the kernel: (Σ v)² / Σ v², v the variances of the centers in length scales."""
        if self._C.sparse or not isinstance(self.kernel, RadialKernel):
            return self._X.features
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            v = variances(self._C) / as_numpy(self.kernel.length_scale, np.float64) ** 2
            v = v / v.max(initial=0.0)
            count = float(v.sum() ** 2 / np.square(v).sum())
        return count if math.isfinite(count) else self._X.features

    @property
    def double_bytes(self) -> int:
        """Bytes that the points would take in memory in float64: none for rows that are read in chunks."""
        return 0 if self._X.streamed else self._X.nbytes + self._C.nbytes

    def spread(self, count: int) -> Array:
        """The numbers of at most so many rows, evenly spaced; of a Source, among those that it keeps in memory."""
        return self._X.spread(count)

    def windows(self, rows: int) -> list[slice]:
        """Slices of rows that are best visited together, in multiples of `rows`: those of a Source that one read gives,
        or all."""
        return self._X.windows(rows)

    def _row_range(self, rows: slice) -> slice:
        if not isinstance(rows, slice):
            raise TypeError(f"rows must be a slice, got {rows!r}")
        start, stop, step = rows.indices(self.shape[0])
        if step != 1:
            raise ValueError(f"rows takes slices of step 1, got {rows}")
        return slice(start, max(start, stop))


def as_bytes(budget: Any) -> int:
    """A memory budget as a whole number of bytes."""
    number = float(budget) if isinstance(budget, numbers.Real) else math.nan
    if not 1 <= number < math.inf:
        raise ValueError(f"memory_budget must be a positive number of bytes, got {budget!r}")
    return int(number)
