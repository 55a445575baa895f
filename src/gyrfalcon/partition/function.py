"""The fitted leaves as one function: blended predictions, their variances, and arrays for model files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gyrfalcon.arrays import AnyPoints, Array, as_kind
from gyrfalcon.data import Points, Source
from gyrfalcon.data.points import as_points
from gyrfalcon.kernels import Kernel, inputs_of
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.persistence import pack_points, unpack_points
from gyrfalcon.solvers.rounding import rounding_shows
from gyrfalcon.threads import in_turn, one_thread_each, threads_to_share

from .leaves import MATRICES, LeafPosterior
from .tree import Tree

VARIANCE_BYTES = 32 << 20  # of k(x, X) that variances are computed from at once
FACTOR_BYTES = 1 << 30  # of factored leaves that are kept for the next variances

Base = Callable[[Any], Array]
"""A function of points with values of shape (n, t): the global model that the leaves correct."""


@dataclass(repr=False)
class LocalFunction:
    """f(x) = g(x) + Σₗ bₗ(x) (Σⱼ αₗⱼ k(x, xₗⱼ) + intercepts[l]), leaves l blended by weights bₗ that add up to one.

    Attributes
    ----------
    kernel : Kernel
    tree : Tree
        Gives the weights.
    points : array or CSR of shape (rows, d)
        The rows of the leaves, one leaf after the other; rows near borders are there more than once.
    offsets : array of ints of shape (leaves + 1,)
        Where each leaf begins and ends in `points`.
    coefficients : array of shape (rows, t)
    intercepts : array of shape (leaves, t)
    weights : array of shape (rows,), optional
        Of the rows in the fit.
    noise : float
        What was added to the diagonal of the kernel matrix for a row of weight one.
    scale : array of shape (t,)
        The prior's variance by output, from the targets themselves: (Y - b)ᵀ(K + noise·W⁻¹)⁻¹(Y - b) over the sum of
        the weights, which is its value of maximum likelihood in leaves that have an intercept b each. What the global
        model leaves would tell too little, because it was fitted to the same targets.
    spread : array of shape (t,)
        The mean square of the targets of equal rows about their means.
    base : callable, optional
        g.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(0, 20, 1000)[:, None]
    >>> f = gf.partition.fit_partition(gf.kernels.Gaussian(1.0), X, np.sin(X), 1e-3, gf.Partition(leaf_rows=300))
    >>> f.predict(X[:2]).shape, f.variance(X[:2]).shape, f.noise_variance.shape
    ((2, 1), (2, 1), (1,))
    """

    kernel: Kernel
    tree: Tree
    points: AnyPoints
    offsets: Array
    coefficients: Array
    intercepts: Array
    weights: Array | None
    noise: float
    scale: Array
    spread: Array
    base: Base | None = None
    _predictors: dict[int, Predictor] = field(default_factory=dict, repr=False)
    _posteriors: dict[int, LeafPosterior] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        largest = int(np.diff(self.offsets).max())
        return f"LocalFunction(kernel={self.kernel!r}, {self.n_leaves} leaves of up to {largest:,} rows)"

    def predict(self, X: Any) -> Array:
        """f at points, of shape (n, t), in float64.

        Parameters
        ----------
        X : array, tensor, CSR or Source of shape (n, d)
        """
        values = self.local(X)
        return values if self.base is None else values + self.base(X)

    def local(self, X: Any) -> Array:
        """The part of the leaves alone, f - g; each leaf is evaluated once, for all of its points together."""
        if isinstance(X, Source):
            return np.concatenate([self.local(chunk) for _, chunk in X.chunks()])
        points = as_kind(X, self.points)
        out = np.zeros((points.shape[0], self.coefficients.shape[1]))
        for leaf, rows, weights in self.tree.visits(inputs_of(self.kernel, points)):
            out[rows] += weights[:, None] * self._leaf(leaf)(points[rows])
        return out

    @one_thread_each
    def variance(self, X: Any) -> Array:
        """The variance of f(x), by output, of shape (n, t); that of the noise is not included.

        Leaves are blended as a mixture, Σₗ bₗ (vₗ + (fₗ - f)²), with vₗ the posterior variance given the rows of leaf l
        alone. What other leaves know is left out, and what leaves disagree on is added, so that the variance errs
        towards the large side.
        """
        if isinstance(X, Source):
            return np.concatenate([self.variance(chunk) for _, chunk in X.chunks()])
        points = as_kind(X, self.points)
        shape = (points.shape[0], self.coefficients.shape[1])
        own, mean, square = np.zeros(shape[0]), np.zeros(shape), np.zeros(shape)
        visits = list(self.tree.visits(inputs_of(self.kernel, points)))

        def visit(number: int) -> tuple[Array, Array]:
            leaf, rows, _ = visits[number]
            return self._leaf(leaf)(points[rows]), self._leaf_variance(leaf, points[rows])

        found = in_turn(visit, range(len(visits)), self._workers(threads_to_share()))
        for (_, rows, weights), (values, variances) in zip(visits, found, strict=True):
            own[rows] += weights * variances
            mean[rows] += weights[:, None] * values
            square[rows] += weights[:, None] * values**2
        return np.asarray(own[:, None] * self.scale + np.maximum(square - mean**2, 0.0))

    @property
    def noise_variance(self) -> Array:
        """The variance of the noise of a row of weight one, by output."""
        return self.noise * self.scale + self.spread

    @property
    def n_leaves(self) -> int:
        return self.tree.n_leaves

    def _leaf(self, leaf: int) -> Predictor:
        """One leaf's function, prepared when it is first needed."""
        found = self._predictors.get(leaf)
        if found is None:
            rows = self._rows(leaf)
            beta = self.coefficients[rows]
            wide = rounding_shows(beta, self.noise_variance, 1.0)
            found = Predictor(self.kernel, self.points[rows], beta, self.intercepts[leaf], wide=wide)
            self._predictors[leaf] = found
        return found

    def _rows(self, leaf: int) -> slice:
        return slice(int(self.offsets[leaf]), int(self.offsets[leaf + 1]))

    def _workers(self, threads: int) -> int:
        """How many leaves may be factored at the same time, so that their matrices take no more than what is kept."""
        largest = int(np.diff(self.offsets).max())
        return max(1, min(threads, FACTOR_BYTES // (8 * MATRICES * largest**2)))

    def _leaf_variance(self, leaf: int, points: Any) -> Array:
        """In units of the prior's variance."""
        posterior, rows = self._posteriors.get(leaf), self._rows(leaf)
        if posterior is None:
            K = KernelMatrix(self.kernel, Points(self.points[rows]))
            posterior = LeafPosterior(K, None if self.weights is None else self.weights[rows], self.noise)
            if sum(kept.nbytes for kept in list(self._posteriors.values())) + posterior.nbytes <= FACTOR_BYTES:
                self._posteriors[leaf] = posterior
        K = self._leaf(leaf).at(points)
        step = max(1, VARIANCE_BYTES // (8 * (rows.stop - rows.start)))
        prior = K.prior_diagonal()
        parts = [slice(start, start + step) for start in range(0, len(prior), step)]
        return np.concatenate([posterior.variance(K.wide_block(part), prior[part]) for part in parts])

    def in_units(self, unit: Array) -> LocalFunction:
        """The leaves of the same fit with targets multiplied by a number, by output, and without g."""
        return dataclasses.replace(
            self,
            coefficients=self.coefficients * unit,
            intercepts=self.intercepts * unit,
            scale=self.scale * unit**2,
            spread=self.spread * unit**2,
            base=None,
            _predictors={},
            _posteriors={},
        )

    # Model files.

    def to_arrays(self) -> dict[str, Array]:
        """All but the kernel and g as arrays by name."""
        arrays = self.tree.to_arrays() | pack_points(self.points, "points")
        numbers = {"noise": np.array(self.noise), "scale": self.scale, "spread": self.spread}
        fitted = {"offsets": self.offsets, "coefficients": self.coefficients, "intercepts": self.intercepts}
        return arrays | numbers | fitted | ({} if self.weights is None else {"weights": self.weights})

    @classmethod
    def from_arrays(cls, kernel: Kernel, arrays: Mapping[str, Array], outputs: int) -> LocalFunction:
        """What `to_arrays` made, for so many outputs; ValueError unless all of it fits together."""
        points = as_points(unpack_points(arrays, "points"), "points")
        tree = Tree.from_arrays(arrays, points.shape[1])
        weights = arrays.get("weights")
        names = ("offsets", "coefficients", "intercepts", "noise", "scale", "spread")
        offsets, coefficients, intercepts, noise, scale, spread = (arrays[name] for name in names)
        shapes = [array.shape for array in (offsets, coefficients, intercepts, noise, scale, spread)]
        rows, leaves = points.shape[0], tree.n_leaves
        expected = [(leaves + 1,), (rows, outputs), (leaves, outputs), (), (outputs,), (outputs,)]
        if shapes != expected or (weights is not None and weights.shape != (rows,)):
            raise ValueError("the arrays of the partition do not fit together")
        if offsets.dtype != np.int64 or offsets[0] != 0 or offsets[-1] != rows or (np.diff(offsets) < 1).any():
            raise ValueError("the leaves of the partition do not follow each other")
        floats = [coefficients, intercepts, noise, scale, spread] + ([] if weights is None else [weights])
        if any(array.dtype != np.float64 or not np.isfinite(array).all() for array in floats):
            raise ValueError("the partition holds numbers that are not finite float64 ones")
        return cls(kernel, tree, points, offsets, coefficients, intercepts, weights, float(noise), scale, spread)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_predictors": {}, "_posteriors": {}}  # made again where they are needed
