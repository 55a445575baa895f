"""What a KernelMatrix decides, what it says about it, and what it keeps in memory."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.kernels import Function, Gaussian, Laplacian
from gyrfalcon.matrix import native_engine
from reference import DTYPES, ENGINES, TOLERANCE, Comparison, dense, relative_error

MEGABYTE = 1 << 20


def _points(n, d, dtype=np.float64, seed=0):
    return (1 + np.random.default_rng([seed, n, d]).standard_normal((n, d))).astype(dtype)


def test_fields():
    plan = gf.KernelMatrix(
        Gaussian(1.0), _points(40, 3, np.float32), _points(7, 3, np.float32), memory_budget=10**6
    ).plan()
    assert (plan.engine, plan.shape, plan.dtype, plan.device) == ("native", (40, 7), "float32", "cpu")
    assert plan.memory_budget == 10**6
    assert plan.threads == torch.get_num_threads()
    assert plan.instruction_set == native_engine.core.instruction_set()
    assert plan.block_rows > 0
    assert plan.cache is False


def test_text():
    text = str(gf.KernelMatrix("rbf", _points(40, 3), engine="torch", memory_budget=2_500_000).plan())
    for part in ("40 × 40", "float64", "cpu", "torch", "as asked", "2.5 MB", "cache:  no", "3 features"):
        assert part in text
    text = str(gf.KernelMatrix("rbf", _points(40, 900), cache=True).plan())
    for part in ("native", native_engine.core.instruction_set(), "cache:  yes, from the second product on (as asked)"):
        assert part in text


@pytest.mark.parametrize(
    ("engine", "reason", "make"),
    [
        ("native", "main memory", lambda: gf.KernelMatrix("rbf", _points(5, 2))),
        ("native", "main memory", lambda: gf.KernelMatrix("rbf", torch.ones(5, 2))),
        ("torch", "no such kernel", lambda: gf.KernelMatrix(Function(lambda X, C: X @ C.T), _points(5, 2))),
        ("torch", "as asked", lambda: gf.KernelMatrix("rbf", _points(5, 2), engine="torch")),
        ("sparse", "sparse", lambda: gf.KernelMatrix("rbf", sparse.csr_array(_points(5, 2)))),
    ],
)
def test_engine_is_chosen_from_the_data(engine, reason, make):
    K = make()
    assert (K.engine, K.plan().engine) == (engine, engine)
    assert reason in K.plan().reason


def test_shape_type_device_and_name():
    K = gf.KernelMatrix(Gaussian(1.5), _points(40, 3, np.float32), _points(7, 3, np.float32))
    assert repr(K) == "KernelMatrix(Gaussian(length_scale=1.5), 40 × 7, float32, native)"
    assert (K.shape, K.dtype, K.device) == ((40, 7), torch.float32, torch.device("cpu"))
    assert (K.T.shape, K.T.dtype, K.T.device) == ((7, 40), torch.float32, torch.device("cpu"))
    assert K.T.T is K
    assert repr(K.T) == repr(K) + ".T"


def test_block_rows_follow_the_budget():
    rows = [
        gf.KernelMatrix("rbf", _points(1000, 2), engine="torch", memory_budget=budget).plan().block_rows
        for budget in (1, 100_000, 1_000_000, 1 << 30)
    ]
    assert rows == sorted(rows)
    assert rows[0] == 1
    assert rows[1] * 1000 * 8 <= 100_000
    assert rows[-1] > rows[1]


@pytest.mark.parametrize(
    ("d", "budget", "cache", "reason"),
    [(3, 1 << 30, False, "features"), (2000, 1 << 30, True, "cheaper"), (2000, 60 * 50 * 8, False, "budget")],
)
def test_cache_is_decided_by_cost_and_memory(d, budget, cache, reason):
    X, C = _points(60, d), _points(50, d)
    plan = gf.KernelMatrix("rbf", X, C, memory_budget=budget).plan()
    assert plan.cache is cache
    assert reason in plan.cache_reason
    for forced in (True, False):
        plan = gf.KernelMatrix("rbf", X, C, memory_budget=budget, cache=forced).plan()
        assert plan.cache is forced
        assert plan.cache_reason == "as asked"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.usefixtures("one_thread")
def test_cached_products_are_right(engine, dtype):
    route, X, C = ENGINES[engine], _points(60, 40, dtype), _points(21, 40, dtype, seed=1)
    k = Laplacian(5.0)
    K = gf.KernelMatrix(k, route.X(X), route.C(C), **route.options, cache=True)
    K @ route.V(np.ones(21, dtype))
    compared = Comparison(K, dense(k, X, C), TOLERANCE[dtype], give=route.V)
    for t in (None, 0, 3):
        compared.products(t)
    compared.from_the_left(2)
    compared.grams()
    compared.entries()
    assert K.engine == "cached"
    assert not compared.missed


def test_cache_comes_with_the_second_product():
    evaluated = []

    def counting(X, C):
        evaluated.append(len(X))
        return X @ C.T

    K = gf.KernelMatrix(Function(counting), _points(10, 2), cache=True)
    counts, engines = [], []
    for product in (lambda: K @ np.ones(10), lambda: K.T @ np.ones(10), lambda: K.gram_mv(np.ones(10)), K.gram):
        product()
        counts.append(sum(evaluated))
        engines.append(K.engine)
    assert counts == [10, 20, 20, 20]
    assert engines == ["torch", "cached", "cached", "cached"]


def test_nothing_is_cached_unless_planned():
    K = gf.KernelMatrix("rbf", _points(10, 2), cache=False)
    for _ in range(4):
        K @ np.ones(10)
    assert K.engine == "native"


def test_cached_entries_belong_to_the_caller():
    K = gf.KernelMatrix("rbf", _points(10, 2), cache=True)
    expected = [K @ np.ones(10) for _ in range(2)][1]
    for entries in (K.to_dense(), K.block(slice(0, 4)), K.block(2), K.T.to_dense()):
        entries[...] = np.nan
    np.testing.assert_array_equal(K @ np.ones(10), expected)


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_parameters_changed_in_place_are_followed(engine, cache):
    """An optimizer steps its tensors in place; products of before must not be mixed with gradients of after."""
    scale = torch.tensor(1.0, dtype=torch.float64)
    X = _points(10, 2)
    K = gf.KernelMatrix(Gaussian(scale), X, engine=engine, cache=cache)
    for _ in range(2):
        K @ np.ones(10)
    scale.mul_(2)
    assert relative_error(K @ np.ones(10), dense(Gaussian(2.0), X, X).sum(1)) <= TOLERANCE[np.float64]


TENSOR, ARRAY = torch.Tensor, np.ndarray


@pytest.mark.parametrize(
    ("X", "C", "V", "scale", "kind"),
    [
        (ARRAY, ARRAY, ARRAY, float, ARRAY),
        (TENSOR, ARRAY, ARRAY, float, TENSOR),
        (ARRAY, TENSOR, ARRAY, float, TENSOR),
        (ARRAY, ARRAY, TENSOR, float, TENSOR),
        (ARRAY, ARRAY, ARRAY, TENSOR, TENSOR),
        (TENSOR, TENSOR, TENSOR, TENSOR, TENSOR),
    ],
)
@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("cache", [False, True], ids=["made", "cached"])
def test_kinds_of_results(X, C, V, scale, kind, engine, cache):
    def give(array, as_kind):
        return torch.tensor(array) if as_kind is TENSOR else array

    X, C, vectors = give(_points(6, 2), X), give(_points(4, 2), C), give(np.ones((4, 2)), V)
    K = gf.KernelMatrix(Gaussian(give(1.0, scale)), X, C, engine=engine, cache=cache)
    rows = vectors[[0, 1, 2, 3, 0, 0]]
    for _ in range(2):
        for result in (K @ vectors, K @ vectors[:, 0], K.T @ rows, rows.T @ K, vectors.T @ K.T, K.gram_mv(vectors)):
            assert isinstance(result, kind)
    if V is not TENSOR:
        for result in (K.to_dense(), K.block(0), K.diag(), K.gram()):
            assert isinstance(result, kind)


def test_products_take_little_beyond_inputs_and_results():
    """X takes 16 MB, vectors and results 2 MB each; K would take 160 MB."""
    program = """
        import resource, numpy as np, gyrfalcon as gf

        def run(n, m, d):
            X, v, w = np.ones((n, d), np.float32), np.ones(m, np.float32), np.ones(n, np.float32)
            K = gf.KernelMatrix("rbf", X, X[:m], engine="native")
            K @ v, K.T @ w, K.gram_mv(v)

        run(1000, 10, 3)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run(400_000, 100, 10)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < (16 + 8 + 16) * MEGABYTE


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_of_another_kernel_takes_prepared_points_over(dtype, monkeypatch):
    random = np.random.default_rng(0)
    X, C = (100 + random.normal(size=(rows, 3)).astype(dtype) for rows in (20, 7))
    K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, C, engine="native")
    monkeypatch.setattr("gyrfalcon.matrix.native_engine.shift_of", None)  # it has been found already
    for kernel in (
        gf.kernels.Gaussian([1.0, 2.0, 3.0]),
        gf.kernels.ProductLaplacian(2.0),
        0.5 * gf.kernels.Matern(1.0),
    ):
        other = K.with_kernel(kernel)
        assert other.engine == "native"
        np.testing.assert_allclose(other.to_dense(), kernel(X, C), rtol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(K.to_dense(), K.kernel(X, C), rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_a_matrix_of_a_kernel_that_the_core_does_not_know_gets_another_engine():
    X = np.random.default_rng(0).normal(size=(20, 1))
    warped = gf.kernels.Warped(gf.kernels.Gaussian(1.0), [0], [[-1.0, 1.0]], [[-2.0, 0.0]])
    K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X)
    for kernel in (warped, gf.kernels.Function(lambda x, c: torch.exp(-((x[:, None] - c) ** 2).sum(-1)))):
        for start in (K, K.with_kernel(warped)):
            np.testing.assert_allclose(start.with_kernel(kernel).to_dense(), gf.KernelMatrix(kernel, X).to_dense())
