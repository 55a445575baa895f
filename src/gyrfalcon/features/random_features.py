from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gyrfalcon.arrays import AnyPoints, as_kind
from gyrfalcon.data import Source
from gyrfalcon.estimators.data import read_points
from gyrfalcon.estimators.length_scale import resolve_kernels
from gyrfalcon.kernels import Fourier, Kernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.persistence import Savable, State

from .sampling import independent, orthogonal, paired
from .spectrum import Spectrum
from .structured import Structured

Array = np.ndarray[Any, Any]

FEW_ROWS = 8
_DRAWS: dict[str, Callable[[Spectrum, int, np.random.Generator], Array | Structured]] = {
    "fourier": independent,
    "orthogonal": orthogonal,
    "structured": Structured.draw,
}


class RandomFeatures(Savable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features z(x) = (cos⟨x, wⱼ⟩ ± sin⟨x, wⱼ⟩) / √D of random frequencies wⱼ, with z(x)ᵀz(y) ≈ k(x, y).

    A linear model of them is nearly the kernel machine, and its cost does not depend on where the data are. The error
    of the kernel falls as 1 / √D.

    Parameters
    ----------
    kernel : str or Kernel
        "gaussian", "laplacian", "matern", "cauchy" or "rational_quadratic", or such a kernel as an object, also mapped
        and scaled.
    n_features : int
        D. Frequencies come in pairs w, -w, so take an even number.
    length_scale : "auto", float or one number per feature
        "auto" takes it from the spread of the data. It belongs in the kernel where that is an object.
    sampling : "orthogonal", "fourier" or "structured"
        Frequencies in orthogonal blocks, whose kernel varies least; independent ones; or orthogonal ones made by fast
        Hadamard transforms, for data with hundreds of features: D log d operations for a point instead of D·d.
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that is approximated, with its length scale.
    frequencies_ : array of shape (n_features, features)
        wⱼ.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> features = gf.RandomFeatures("gaussian", n_features=2000, length_scale=1.0, random_state=0).fit(X)
    >>> Z = features.transform(X)
    >>> bool(np.abs(Z @ Z.T - gf.kernels.Gaussian(1.0)(X)).mean() < 0.02)
    True
    """

    kernel_: Kernel
    _spectrum: Spectrum
    _drawn: Array | Structured
    _n_features_out: int

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        n_features: int = 1000,
        *,
        length_scale: Any = "auto",
        sampling: str = "orthogonal",
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.n_features = n_features
        self.length_scale = length_scale
        self.sampling = sampling
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the frequencies; of X only the number of features counts, and the spread for an automatic length scale.

        Parameters
        ----------
        X : array, frame, tensor, sparse matrix or file of shape (n, features)
        y : ignored
        """
        if not isinstance(self.n_features, numbers.Integral) or self.n_features < 1:
            raise ValueError(f"n_features must be a positive integer, got {self.n_features!r}")
        if self.sampling not in _DRAWS:
            raise ValueError(f"sampling must be one of {sorted(_DRAWS)}, got {self.sampling!r}")
        points = read_points(self, X, reset=True)
        random = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        kernel = resolve_kernels(self.kernel, self.length_scale, points, None, random)[0]
        self._spectrum = Spectrum.of(kernel, points.shape[1])
        self._drawn = _DRAWS[self.sampling](self._spectrum, -(-self.n_features // 2), random)
        self.kernel_ = kernel
        self._n_features_out = int(self.n_features)
        return self

    @property
    def frequencies_(self) -> Array:
        check_is_fitted(self, "kernel_")
        drawn = self._drawn
        rows = drawn.frequencies(self._spectrum.width) if isinstance(drawn, Structured) else drawn
        return paired(self._spectrum.before_map(rows))[: self._n_features_out]

    def matrix(self, X: Any, **options: Any) -> KernelMatrix:
        """The features of X as a KernelMatrix, whose columns they are: products without storing them, and solvers.

        Parameters
        ----------
        X : array, frame, tensor, sparse matrix or file of shape (n, features)
        **options
            Of `KernelMatrix`.

        Examples
        --------
        >>> import torch, gyrfalcon as gf
        >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[:, None]
        >>> features = gf.RandomFeatures("gaussian", 100, length_scale=1.0, random_state=0).fit(X)
        >>> Z = features.matrix(X)
        >>> solution = gf.solvers.solve(gf.solvers.LeastSquares(Z, torch.sin(X), penalty=1e-8), "direct")
        >>> bool((Z @ solution.coefficients - torch.sin(X)).abs().max() < 0.01)
        True
        """
        check_is_fitted(self)
        return self._matrix(read_points(self, X, reset=False), **options)

    def _matrix(self, points: AnyPoints, **options: Any) -> KernelMatrix:
        dense = isinstance(points, np.ndarray | Tensor)
        C = as_kind(self.frequencies_, points if dense else np.empty(0, points.dtype))
        return KernelMatrix(Fourier(amplitude=self._amplitude), points, C, **options)

    @property
    def _amplitude(self) -> float:
        return float((self._spectrum.variance / self._n_features_out) ** 0.5)

    def transform(self, X: Any) -> Any:
        """The features of X, of shape (n, n_features), dense, of its type and on its device.

        Parameters
        ----------
        X : array, frame, tensor, sparse matrix or file of shape (n, features)
        """
        if not hasattr(self, "kernel_"):
            check_is_fitted(self)
        points = read_points(self, X, reset=False)
        if isinstance(points, np.ndarray) and len(points) <= FEW_ROWS and not isinstance(self._drawn, Structured):
            return self._few(points)
        if not isinstance(self._drawn, Structured) or isinstance(points, Source) or sparse.issparse(points):
            return self._matrix(points).to_dense()
        waves = self._drawn.waves(points, self._spectrum.map, self._n_features_out, self._amplitude)
        return waves if isinstance(points, Tensor) else waves.numpy()

    def _few(self, points: Array) -> Array:
        """The same for so few rows that making a kernel matrix would take longer than the features."""
        latest = self.__dict__.get("_waves")
        if latest is None or latest[0] is not self._drawn:
            assert not isinstance(self._drawn, Structured)
            rows = np.ascontiguousarray(self._spectrum.before_map(self._drawn).T, dtype=np.float64)
            latest = self._waves = self._drawn, rows
        phases = points.astype(np.float64, copy=False) @ latest[1]
        cosine, sine = np.cos(phases), np.sin(phases)
        out = np.empty((len(points), 2 * phases.shape[1]))
        np.add(cosine, sine, out=out[:, ::2])  # of w, and of -w
        np.subtract(cosine, sine, out=out[:, 1::2])
        out *= self._amplitude
        return out[:, : self._n_features_out].astype(points.dtype, copy=False)

    def _state(self) -> State:
        check_is_fitted(self)
        drawn = self._drawn
        arrays: dict[str, Array] = (
            {"signs": drawn.signs, "radii": drawn.radii} if isinstance(drawn, Structured) else {"frequencies": drawn}
        )
        names = getattr(self, "feature_names_in_", None)
        values = {
            "kernel": self.kernel_.to_dict(),
            "n_features_in": self.n_features_in_,
            "n_features_out": self._n_features_out,
            "names": None if names is None else [str(name) for name in names],
        }
        return values, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        kernel = Kernel.from_dict(values["kernel"])
        self.n_features_in_, self._n_features_out = int(values["n_features_in"]), int(values["n_features_out"])
        self._spectrum = Spectrum.of(kernel, self.n_features_in_)
        if "signs" in arrays:
            self._drawn, rows = Structured(arrays["signs"], arrays["radii"]), arrays["radii"].size
            if arrays["signs"].shape != (len(arrays["radii"]), 3, *arrays["radii"].shape[1:]):
                raise ValueError("the signs do not fit the radii")
        else:
            self._drawn, rows = arrays["frequencies"], len(arrays["frequencies"])
            if self._drawn.shape != (rows, self._spectrum.width):
                raise ValueError("the frequencies do not fit the features")
        if not 0 < self._n_features_out <= 2 * rows:
            raise ValueError(f"{rows} frequencies do not make {self._n_features_out} features")
        if values["names"] is not None:
            self.feature_names_in_ = np.array(values["names"], dtype=object)
        self.kernel_ = kernel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
