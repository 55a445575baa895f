"""What the conformance suite runs over. A new kernel, engine or type is tested by being listed here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import torch
from scipy import sparse

from gyrfalcon import kernels
from gyrfalcon.data import ArraySource, DaskSource
from gyrfalcon.matrix import native_engine, sparse_engine

DTYPES = (np.float32, np.float64)
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-13}

# Every family takes its length scale first. Radial ones get it from the spread of the data, the others from its size,
# so that values neither underflow nor overflow.
RADIAL = {
    "gaussian": kernels.Gaussian,
    "laplacian": kernels.Laplacian,
    "matern12": lambda scale: kernels.Matern(scale, nu=0.5),
    "matern32": lambda scale: kernels.Matern(scale, nu=1.5),
    "matern52": lambda scale: kernels.Matern(scale, nu=2.5),
    "power13": lambda scale: kernels.ExponentialPower(scale, power=1.3),
    "power05": lambda scale: kernels.ExponentialPower(scale, power=0.5),
    "rational": lambda scale: kernels.RationalQuadratic(scale, alpha=0.7),
    "rational1e6": lambda scale: kernels.RationalQuadratic(scale, alpha=1e6),
    "cauchy": kernels.Cauchy,
}
ABSOLUTE = {
    "product_laplacian": kernels.ProductLaplacian,
    "product_laplacian06": lambda scale: kernels.ProductLaplacian(scale, power=0.6),
}
DOT = {
    "linear": kernels.Linear,
    "polynomial": lambda scale: kernels.Polynomial(scale, degree=3, offset=0.5),
    "sigmoid": lambda scale: kernels.Sigmoid(scale, offset=0.2),
    "fourier": lambda scale: kernels.Fourier(scale, amplitude=0.4),
}


def _radial(family):
    return lambda d, spread, size: family(spread * max(1.0, 0.7 * d**0.5))


def _absolute(family):
    return lambda d, spread, size: family(spread * max(1.0, 0.8 * d))


def _dot(family):
    return lambda d, spread, size: family(size * max(1, d) ** 0.5)


def _per_feature(make):
    def with_vector(d, spread, size):
        kernel = make(d, spread, size)
        return kernel.with_parameters({"length_scale": kernel.length_scale * np.linspace(0.6, 1.9, d)})

    return with_vector


def _map(rows, d):
    return np.cos(np.arange(rows * d)).reshape(rows, d) / max(1, d) ** 0.5


def _mapped(rows, inner):
    return lambda d, spread, size: kernels.Mapped(inner(d, spread, size), _map(rows, d))


def _nested(d, spread, size):
    narrow, wide = _radial(kernels.Gaussian)(d, spread, size), _radial(kernels.Laplacian)(d, 3 * spread, size)
    trend = kernels.Mapped(0.3 * kernels.Linear(size) + kernels.Matern(spread, nu=2.5), _map(2, d))
    return 0.7 * (narrow + 0.2 * wide) * kernels.Cauchy(4 * spread * max(1, d) ** 0.5) + trend * wide


_LEAVES = {
    **{name: _radial(family) for name, family in RADIAL.items()},
    **{name: _absolute(family) for name, family in ABSOLUTE.items()},
    **{name: _dot(family) for name, family in DOT.items()},
}
KERNELS: dict[str, Callable[[int, float, float], kernels.Kernel]] = {
    **_LEAVES,
    **{
        f"{name}_per_feature": _per_feature(make)
        for name, make in _LEAVES.items()
        if name not in ("matern12", "power13")  # the same as laplacian and power05 in all but their numbers
    },
    "mapped": _mapped(3, _radial(lambda scale: kernels.Gaussian(scale / 2))),
    "mapped_wide": _mapped(20, _radial(kernels.Laplacian)),
    "mapped_twice": lambda d, spread, size: kernels.Mapped(
        _mapped(4, lambda *_: kernels.Cauchy(spread))(3, 1, 1), _map(3, d)
    ),
    "mapped_absolute": _mapped(3, _absolute(kernels.ProductLaplacian)),
    "mapped_dot": _mapped(3, lambda d, spread, size: kernels.Polynomial(size, degree=2, offset=1.0)),
    "sum": lambda d, spread, size: _LEAVES["gaussian"](d, spread, size) + _LEAVES["linear"](d, spread, size),
    "product": lambda d, spread, size: _LEAVES["matern32"](d, spread, size) * _LEAVES["polynomial"](d, spread, size),
    "scaled": lambda d, spread, size: -2.5 * _LEAVES["rational"](d, spread, size),
    "nested": _nested,
}


@dataclass(frozen=True)
class Route:
    """A way into an engine: what the points and vectors are turned into before they are given."""

    engine: str | None
    devices: tuple[str, ...] | None = None
    X: Callable[[np.ndarray], Any] = lambda array: array
    C: Callable[[np.ndarray], Any] = lambda array: array
    V: Callable[[np.ndarray], Any] = lambda array: array
    serves: Callable[[kernels.Kernel], bool] = lambda kernel: True

    @property
    def options(self) -> dict[str, Any]:
        return {"engine": self.engine} if self.devices is None else {"engine": self.engine, "devices": self.devices}


def _tensors_on(device: str) -> dict[str, Callable[[np.ndarray], torch.Tensor]]:
    def move(array):
        return torch.from_numpy(np.array(array)).to(device)

    return {"X": move, "C": move, "V": move}


def _some(kernel):
    """Kernels for engines that hand every product to others, which are tested with all of them."""
    return isinstance(kernel, kernels.Gaussian | kernels.Polynomial | kernels.Sum)


def _two(kernel):
    """The same for an engine that takes milliseconds for whatever is asked."""
    return isinstance(kernel, kernels.Gaussian | kernels.Polynomial) and isinstance(kernel.length_scale, float)


class _SmallChunks(ArraySource):
    """Chunks so small that even the matrices of tests have some, the last of them shorter."""

    def chunk_rows(self, budget=None):
        return max(16, len(self) // 6)


def _in_small_chunks(array):
    return _SmallChunks(array, dtype=array.dtype)


class _SmallParts(DaskSource):
    """Partitions that are not joined, for the same reason."""

    def task_rows(self):
        return 1


def _in_small_parts(array):
    return _SmallParts(da.from_array(array, chunks=(max(16, len(array) // 6), -1)))


ENGINES = {
    "native": Route("native", serves=native_engine.serves),
    "torch": Route("torch"),
    "sparse": Route("sparse", X=sparse.csr_array, C=sparse.csr_array, serves=sparse_engine.serves),
    "sparse_with_dense": Route("sparse", X=sparse.csr_array, serves=sparse_engine.serves),
    "streamed": Route("streamed", X=_in_small_chunks, serves=_some),
    "dask": Route("dask", X=_in_small_parts, serves=_two),
    "split": Route(None, ("cpu", "cpu", "cpu"), serves=_some),
}
if torch.cuda.is_available():
    ENGINES["torch_cuda"] = Route("torch", **_tensors_on("cuda"))
