"""What cannot be computed is refused with a ValueError or TypeError that names the argument; nothing ever crashes."""

import numpy as np
import pytest
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon import kernels
from gyrfalcon.kernels import Function, Gaussian, Linear, Mapped, Matern, Polynomial
from reference import ENGINES

GOOD = np.random.default_rng(0).standard_normal((6, 3))
every_engine = pytest.mark.parametrize("engine", ENGINES)


def _with(value):
    points = GOOD.copy()
    points[4, 1] = value
    return points


BAD_POINTS = {
    "NaN": _with(np.nan),
    "infinity": _with(np.inf),
    "negative infinity": _with(-np.inf),
    "NaN in a tensor": torch.from_numpy(_with(np.nan)),
    "NaN among float32": _with(np.nan).astype(np.float32),
    "one dimension": GOOD[0],
    "three dimensions": GOOD[None],
    "a tensor of three dimensions": torch.from_numpy(GOOD)[None],
    "no dimension": np.float64(3.0),
    "objects": GOOD.astype(object),
    "strings": np.array([["a", "b", "c"]]),
    "a string": "abc",
    "nothing": None,
    "float16": GOOD.astype(np.float16),
    "bfloat16": torch.from_numpy(GOOD).bfloat16(),
    "complex": GOOD.astype(complex),
    "a complex tensor": torch.from_numpy(GOOD).cfloat(),
    "longdouble": GOOD.astype(np.longdouble),
    "dates": np.array([["2026-01-01"] * 3], dtype="datetime64[D]"),
    "ragged lists": [[1.0, 2.0, 3.0], [1.0]],
    "a mapping": {"a": 1},
    "sparse with NaN": sparse.csr_array(_with(np.nan)),
    "sparse and complex": sparse.csr_array(GOOD.astype(complex)),
    "sparse COO tensor": torch.from_numpy(GOOD).to_sparse_coo(),
}


def _refused(name):
    """A complaint that begins with the name of the argument."""
    return pytest.raises((ValueError, TypeError), match=rf"^{name}(?!\w)")


@pytest.mark.parametrize("bad", [b for b in BAD_POINTS if BAD_POINTS[b] is not None])
def test_points(bad):
    with _refused("X"):
        gf.KernelMatrix("rbf", BAD_POINTS[bad], GOOD)
    with _refused("C"):
        gf.KernelMatrix("rbf", GOOD, BAD_POINTS[bad])


def test_no_points():
    with _refused("X"):
        gf.KernelMatrix("rbf", None)


@every_engine
def test_pairs_that_do_not_match(engine):
    route = ENGINES[engine]
    X = route.X(GOOD)
    with _refused("C"):
        gf.KernelMatrix("rbf", X, route.C(GOOD[:, :2]), **route.options)
    with _refused("C"):
        gf.KernelMatrix("rbf", X, route.C(GOOD.astype(np.float32)), **route.options)
    with _refused("C"):
        gf.KernelMatrix("rbf", route.X(GOOD.astype(np.float32)), route.C(GOOD), **route.options)


@pytest.mark.parametrize(
    "device", ["meta", pytest.param("cuda", marks=pytest.mark.skipif("not torch.cuda.is_available()"))]
)
def test_mixed_devices(device):
    here, there = torch.from_numpy(GOOD), torch.empty(6, 3, dtype=torch.float64, device=device)
    with _refused("C"):
        gf.KernelMatrix("rbf", here, there)
    with _refused("(X|C)"):
        gf.KernelMatrix("rbf", there, here)
    K = gf.KernelMatrix("rbf", here)
    with _refused("V"):
        K @ there[:, 0]
    with _refused("W"):
        K.T @ there
    with _refused("weights"):
        K.gram_mv(here, there[:, 0])


BAD_VECTORS = {
    "too short": np.ones(5),
    "too long": np.ones((7, 2)),
    "no dimension": np.float64(1.0),
    "three dimensions": np.ones((6, 1, 1)),
    "NaN": np.full(6, np.nan),
    "infinity in a tensor": torch.full((6, 2), torch.inf, dtype=torch.float64),
    "float32": np.ones(6, np.float32),
    "a float32 tensor": torch.ones(6),
    "float16": np.ones(6, np.float16),
    "complex": np.ones(6, complex),
    "a complex tensor": torch.ones(6, dtype=torch.complex128),
    "objects": np.ones(6, object),
    "strings": np.array(["a"] * 6),
    "sparse": sparse.csr_array(np.ones((6, 1))),
    "a sparse tensor": torch.ones(6, 2, dtype=torch.float64).to_sparse_coo(),
    "nothing": None,
}


@pytest.mark.parametrize("bad", BAD_VECTORS)
@every_engine
def test_vectors(engine, bad):
    route, value = ENGINES[engine], BAD_VECTORS[bad]
    K = gf.KernelMatrix(Gaussian(1.0), route.X(GOOD), route.C(GOOD), **route.options)
    with _refused("V"):
        K @ value
    with _refused("W"):
        K.T @ value
    with _refused("V"):
        K.gram_mv(value)
    if value is not None:
        with _refused("weights"):
            K.gram_mv(route.V(GOOD), value)
        with _refused("weights"):
            K.gram(value)


@every_engine
def test_weights_with_two_columns(engine):
    route = ENGINES[engine]
    K = gf.KernelMatrix(Gaussian(1.0), route.X(GOOD), route.C(GOOD), **route.options)
    for call in (lambda: K.gram_mv(route.V(GOOD), route.V(np.ones((6, 2)))), lambda: K.gram(route.V(np.ones((6, 2))))):
        with _refused("weights"):
            call()


@every_engine
@pytest.mark.parametrize("entries", [1, 2, 4])
@pytest.mark.parametrize("family", [Gaussian, Linear, lambda scale: 2.0 * (Gaussian(1.0) + Matern(scale, nu=0.5))])
def test_length_scales_of_the_wrong_length(engine, entries, family):
    route = ENGINES[engine]
    with _refused("length_scale"):
        gf.KernelMatrix(family(np.ones(entries)), route.X(GOOD), route.C(GOOD), **route.options) @ route.V(GOOD)


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_maps_of_the_wrong_width(engine):
    for kernel in (Mapped(Gaussian(1.0), np.ones((2, 4))), Mapped(Mapped(Linear(), np.ones((2, 4))), np.ones((3, 3)))):
        with _refused("matrix"):
            gf.KernelMatrix(kernel, GOOD, engine=engine) @ GOOD


@pytest.mark.parametrize(
    "value", [0, -1.0, np.nan, np.inf, [1.0, -1.0], [], [[1.0]], "1", None, True, 1j, torch.tensor(-1.0)]
)
def test_length_scales_that_are_not(value):
    for family in (Gaussian, Matern, Polynomial):
        with _refused("length_scale"):
            family(value)


def test_parameters_that_are_not():
    with _refused("nu"):
        Matern(1.0, nu=1.0)
    with _refused("degree"):
        Polynomial(degree=0)
    with _refused("degree"):
        Polynomial(degree=2.5)
    with _refused("offset"):
        Polynomial(offset=np.nan)
    with _refused("power"):
        kernels.ExponentialPower(power=2.1)
    with _refused("power"):
        kernels.ExponentialPower(power=0.0)
    with _refused("alpha"):
        kernels.RationalQuadratic(alpha=-1.0)
    with _refused("scale"):
        kernels.Scaled(Gaussian(), np.inf)
    with _refused("scale"):
        kernels.Scaled(Gaussian(), [1.0, 2.0])
    with _refused("matrix"):
        Mapped(Gaussian(), [1.0, 2.0])
    with _refused("kernel"):
        Mapped("rbf", [[1.0]])
    with _refused("right"):
        kernels.Sum(Gaussian(), 1.0)
    with _refused("function"):
        Function("minimum")


@pytest.mark.parametrize("engine", ["cuda", "", 3])
def test_unknown_engines(engine):
    with _refused("engine"):
        gf.KernelMatrix("rbf", GOOD, engine=engine)


@pytest.mark.parametrize("budget", [0, -5, 0.5, np.nan, np.inf, "1 GB"])
def test_budgets_that_are_not(budget):
    with _refused("memory_budget"):
        gf.KernelMatrix("rbf", GOOD, memory_budget=budget)


@pytest.mark.parametrize("kernel", ["gauss", "", 3, Gaussian, None])
def test_unknown_kernels(kernel):
    with _refused("kernel"):
        gf.KernelMatrix(kernel, GOOD)


def test_engines_that_cannot_serve():
    product = Function(lambda X, C: X @ C.T)
    with _refused("engine"):
        gf.KernelMatrix(product, GOOD, engine="native")
    with _refused("engine"):
        gf.KernelMatrix(product + Gaussian(), GOOD, engine="native")
    with _refused("engine"):
        gf.KernelMatrix("rbf", GOOD, engine="sparse")
    for engine in ("native", "torch"):
        with _refused("engine"):
            gf.KernelMatrix("rbf", sparse.csr_array(GOOD), engine=engine)
    with _refused("kernel"):
        gf.KernelMatrix(Mapped(Gaussian(), np.ones((2, 3))), sparse.csr_array(GOOD))
    with _refused("kernel"):
        gf.KernelMatrix(product, sparse.csr_array(GOOD))


def test_functions_that_return_something_else():
    for function in (lambda X, C: X, lambda X, C: 1.0, lambda X, C: (X @ C.T).numpy()):
        with _refused("function"):
            gf.KernelMatrix(Function(function), GOOD) @ np.ones(6)


def test_rows():
    K = gf.KernelMatrix("rbf", GOOD)
    with pytest.raises(ValueError, match="step"):
        K.block(slice(0, 6, 2))
    with pytest.raises(IndexError):
        K.block(6)
    with pytest.raises(TypeError):
        K.block(1.5)


def test_gradients():
    K = gf.KernelMatrix("rbf", GOOD)
    with _refused("left"):
        K.gradients(np.ones(5), np.ones(6))
    with _refused("right"):
        K.gradients(np.ones(6), np.ones(5))
    with _refused("left"):
        K.gradients(np.ones((6, 2)), np.ones((6, 3)))
    with _refused("wanted"):
        K.gradients(np.ones(6), np.ones(6), wanted=("X", "length_scale"))
    for wanted in (("X",), ("C",)):
        with pytest.raises(ValueError, match="dense"):
            gf.KernelMatrix("rbf", sparse.csr_array(GOOD)).gradients(np.ones(6), np.ones(6), wanted=wanted)


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_row_gradients(engine):
    K = gf.KernelMatrix("rbf", GOOD, engine=engine)
    for shape in ((6,), (6, 5), (5, 6), (7, 6), (6, 6, 1)):
        with _refused("weights"):
            K.row_gradients(slice(0, 6), np.ones(shape))
    for weights in (np.ones((2, 6), np.float32), np.ones((2, 6), int), torch.ones(2, 6).double().to_sparse()):
        with _refused("weights"):
            K.row_gradients(slice(1, 3), weights)
    for value in (np.nan, np.inf):
        with _refused("weights"):
            K.row_gradients(slice(1, 3), np.full((2, 6), value))
    with pytest.raises(ValueError, match="step"):
        K.row_gradients(slice(0, 6, 2), np.ones((3, 6)))
    with pytest.raises(TypeError, match="rows"):
        K.row_gradients(2, np.ones((1, 6)))
    with _refused("wanted"):
        K.row_gradients(slice(1, 3), np.ones((2, 6)), wanted=("Y",))
    with pytest.raises(ValueError, match="dense"):
        gf.KernelMatrix("rbf", sparse.csr_array(GOOD)).row_gradients(slice(1, 3), np.ones((2, 6)))


@every_engine
@pytest.mark.parametrize("dtype", ["float64", np.float64, torch.float16, torch.int64, torch.complex128])
def test_types_of_sums(engine, dtype):
    route = ENGINES[engine]
    K = gf.KernelMatrix(Gaussian(1.0), route.X(GOOD), route.C(GOOD), **route.options)
    for call in (
        lambda: K.rmv(route.V(GOOD), dtype=dtype),
        lambda: K.gram_mv(route.V(GOOD), dtype=dtype),
        lambda: K.gram(dtype=dtype),
    ):
        with _refused("dtype"):
            call()


def test_type_of_sums_where_gradients_are_recorded():
    K = gf.KernelMatrix("rbf", torch.from_numpy(GOOD).float().requires_grad_())
    with _refused("dtype"):
        K.gram_mv(torch.ones(6), dtype=torch.float64)
    with _refused("dtype"):
        K.rmv(torch.ones(6), dtype=torch.float64)
