"""Every kernel × engine × type × shape class against the dense float64 reference."""

import functools

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.kernels import Mapped, RadialKernel
from reference import DTYPES, ENGINES, KERNELS, TOLERANCE, Comparison, as_array, dense, relative_error

COMBINATIONS = [
    pytest.param(kernel, engine, dtype, id=f"{kernel}-{engine}-{dtype.__name__}")
    for kernel in KERNELS
    for dtype in DTYPES
    for engine, route in ENGINES.items()
    if route.serves(KERNELS[kernel](2, 1.0, 1.0))
]
pytestmark = pytest.mark.usefixtures("one_thread")  # a second one would only wait on products this small
every_combination = pytest.mark.parametrize(("kernel", "engine", "dtype"), COMBINATIONS)


def _is_radial(kernel):
    return isinstance(kernel, RadialKernel) or (isinstance(kernel, Mapped) and _is_radial(kernel.kernel))


every_radial_combination = pytest.mark.parametrize(
    ("kernel", "engine", "dtype"), [c for c in COMBINATIONS if _is_radial(KERNELS[c.values[0]](2, 1.0, 1.0))]
)

# n, m, d. Up to 16 features distances are taken by differences, beyond by inner products.
SHAPES = {
    "one row": (1, 33, 5),
    "one center": (97, 1, 5),
    "one of each": (1, 1, 5),
    "no rows": (0, 33, 5),
    "no centers": (97, 0, 5),
    "nothing": (0, 0, 5),
    "one feature": (97, 33, 1),
    "no features": (7, 4, 0),
    "widest direct": (31, 9, 16),
    "expansion": (97, 33, 37),
    "feature blocks": (29, 17, 600),
}
# The native engine cuts features after 128 or 256, centers after 512 or 1024, rows into 64 segments of blocks of 24.
NATIVE_SHAPES = {
    "center tiles": (25, 1041, 3),
    "row segments": (1700, 5, 2),
}
LAYOUTS = {
    "every second": lambda array: np.repeat(array, 2, axis=0)[::2],
    "inside a wider one": lambda array: np.concatenate([array, array], axis=-1)[..., : array.shape[-1]],
    "every third column": lambda array: np.repeat(array, 3, axis=-1)[..., ::3],
    "reversed": lambda array: np.ascontiguousarray(array[::-1])[::-1],
    "reversed columns": lambda array: np.ascontiguousarray(array[..., ::-1])[..., ::-1],
    "fortran": np.asfortranarray,
    "read-only": lambda array: _read_only(array),
}


def _read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@functools.lru_cache(maxsize=64)
def _points(shape, dtype, offset=0.0, scale=1.0, zeros=0.0):
    """X and C of the type given; some centers are rows of X. Not centered, so that inner products do not cancel."""
    n, m, d = shape
    generator = np.random.default_rng([n, m, d])
    X, C = 0.7 + generator.standard_normal((n, d)), 0.7 + generator.standard_normal((m, d))
    X[generator.random(X.shape) < zeros] = 0
    C[generator.random(C.shape) < zeros] = 0
    X, C = (X * scale + offset).astype(dtype), (C * scale + offset).astype(dtype)
    same = min(n, m // 4)
    C[:same] = X[:same]
    return X, C


@functools.lru_cache(maxsize=64)
def _case(name, shape, dtype, spread=1.0, size=1.0, data=()):
    """A kernel fit for the data, the points, and the matrix it should give."""
    kernel, (X, C) = KERNELS[name](shape[2], spread, size), _points(shape, dtype, *data)
    return kernel, X, C, dense(kernel, X, C)


def _matrix(kernel, engine, X, C):
    route = ENGINES[engine]
    return gf.KernelMatrix(kernel, route.X(X), route.C(C), **route.options)


def _compare(engine, *case, lay=lambda array: array):
    kernel, X, C, D = _case(*case)
    return Comparison(
        _matrix(kernel, engine, lay(X), lay(C)), D, TOLERANCE[X.dtype.type], lay=lay, give=ENGINES[engine].V
    )


def _report(missed):
    assert not missed, "\n".join(missed)


@every_combination
def test_everything_on_odd_shapes(kernel, engine, dtype):
    compared = _compare(engine, kernel, (97, 33, 5), dtype)
    for t in (0, None, 1, 3, 64):
        compared.products(t)
    compared.from_the_left(None)
    compared.from_the_left(2)
    compared.grams()
    compared.entries()
    _report(compared.missed)


@every_combination
def test_shapes(kernel, engine, dtype):
    missed = []
    data = (0.0, 1.0, 0.5) if engine.startswith("sparse") else ()
    for name, shape in (SHAPES | NATIVE_SHAPES if engine == "native" else SHAPES).items():
        if shape[2] == 0 and any(part in kernel for part in ("per_feature", "mapped", "nested")):
            continue  # parameters with one entry per feature cannot be empty
        compared = _compare(engine, kernel, shape, dtype, 1.0, 1.0, data)
        compared.products(3)
        if min(shape[:2]) == 0:
            compared.from_the_left(None)
            compared.grams()
            compared.entries()
        missed += [f"{name}, {what}" for what in compared.missed]
    _report(missed)


@pytest.mark.parametrize(("kernel", "engine", "dtype"), [c for c in COMBINATIONS if c.values[1] == "native"])
def test_points_with_themselves(kernel, engine, dtype):
    """The core computes half of the entries: all must be there, the same ones on both sides of the diagonal."""
    missed = []
    for n, d in ((1, 1), (25, 2), (98, 5), (200, 40)):
        X = _points((n, 1, d), dtype)[0]
        k = KERNELS[kernel](d, 1.0, 1.0)
        K = gf.KernelMatrix(k, X, **ENGINES[engine].options)
        compared = Comparison(K, dense(k, X, X), TOLERANCE[dtype])
        compared.entries()
        missed += [f"{n} x {d}, {what}" for what in compared.missed]
        assert np.array_equal(K.to_dense(), K.to_dense().T)
    _report(missed)


@pytest.mark.parametrize(("kernel", "engine", "dtype"), [c for c in COMBINATIONS if c.values[1] != "sparse"])
def test_layouts(kernel, engine, dtype):
    missed = []
    for name, lay in LAYOUTS.items():
        compared = _compare(engine, kernel, (50, 13, 5), dtype, lay=lay)
        compared.products(3)
        missed += [f"{name}, {what}" for what in compared.missed]
    _report(missed)


@every_combination
def test_offset_and_scale(kernel, engine, dtype):
    missed = []
    for offset, scale in ((1e4, 1.0), (0.0, 1e6), (0.0, 1e-6)):
        for d in (5, 37):
            compared = _compare(engine, kernel, (60, 21, d), dtype, scale, scale + offset, (offset, scale))
            compared.products(3)
            compared.compare("to_dense", compared.K.to_dense(), compared.D)
            missed += [f"{offset:g} ± {scale:g}, d={d}, {what}" for what in compared.missed]
    _report(missed)


@every_radial_combination
def test_scale_of_the_data_alone(kernel, engine, dtype):
    missed = []
    for scale in (1e6, 1e-6):
        for d in (5, 37):
            compared = _compare(engine, kernel, (60, 21, d), dtype, 1.0, 1.0, (0.0, scale))
            compared.products(3)
            compared.compare("to_dense", compared.K.to_dense(), compared.D)
            missed += [f"{scale:g}, d={d}, {what}" for what in compared.missed]
    _report(missed)


@every_radial_combination
def test_nearly_coincident_points(kernel, engine, dtype):
    """The digits of a gap far below the spread of the data must survive, be it near the length scale or below it.

    One scale per feature, or a map, is applied and rounded before points are subtracted: there the result is that of
    points moved by a unit in their last place, which counts in multiples of spread over length scale.
    """
    missed = []
    rounded_first = "per_feature" in kernel or "mapped" in kernel
    narrow = 1e-3 if dtype is np.float32 else 1e-8
    for offset, gap, spread in ((0.0, narrow, narrow), (1e4, narrow * 100, narrow * 100), (0.0, narrow / 1000, 1.0)):
        for d in (5, 37):
            generator = np.random.default_rng(d)
            X = (generator.standard_normal((40, d)) + offset).astype(dtype)
            C = (X + gap * generator.standard_normal((40, d))).astype(dtype)
            k = KERNELS[kernel](d, spread, 1.0)
            error = relative_error(_matrix(k, engine, X, C).to_dense(), dense(k, X, C))
            slope = 0.5 * (gap / spread) ** -0.5 if "power05" in kernel else 1.0  # of the profile, where it is steep
            moved = 2 * np.finfo(dtype).eps * (slope / spread if rounded_first else 0)
            if not error <= TOLERANCE[dtype] + moved:
                missed.append(f"offset {offset:g}, gap {gap:g}, length scale near {spread:g}, d={d}: error {error:.2e}")
    _report(missed)


@every_radial_combination
def test_duplicated_points_are_at_distance_zero(kernel, engine, dtype):
    missed = []
    for offset, scale, d in ((0.0, 1.0, 5), (0.0, 1.0, 300), (1e4, 1.0, 37), (0.0, 1e6, 37), (0.0, 1e-6, 5)):
        X = (np.random.default_rng(d).standard_normal((37, d)) * scale + offset).astype(dtype)
        C = np.concatenate([X[::-1], X[:3]])
        k = KERNELS[kernel](d, scale, 1.0)
        K = as_array(_matrix(k, engine, X, C).to_dense())
        twins = K[np.arange(37), 36 - np.arange(37)], K[np.arange(3), 37 + np.arange(3)]
        same = np.concatenate([*twins, as_array(_matrix(k, engine, X, X).diag())])
        exactly = 2 * np.finfo(dtype).eps if "mapped" in kernel else 0  # two matrix products round as they like
        if not (np.abs(same - 1) <= exactly).all():
            missed.append(f"{offset:g} ± {scale:g}, d={d}: off by {np.abs(same - 1).max():.1e}")
    _report(missed)
