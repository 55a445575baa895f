"""Rows that are read in chunks: what conformance does not see."""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gyrfalcon as gf
from gyrfalcon import data
from gyrfalcon.kernels import Function, Gaussian, Linear, Matern
from reference import DTYPES, TOLERANCE, Comparison, dense, relative_error
from reference.solving import falkon

pytestmark = pytest.mark.usefixtures("one_thread")
MEGABYTE = 1_000_000


class Chunked(data.ArraySource):
    """A source whose chunks have the length asked for."""

    def __init__(self, array, rows, counted=None):
        super().__init__(array, dtype=array.dtype)
        self._rows, self.passes = rows, [] if counted is None else counted

    def chunk_rows(self, budget=None):
        return self._rows

    def _read(self, start, stop):
        self.passes.append((start, stop))
        return super()._read(start, stop)


def _points(n, d=3, dtype=np.float64, seed=0):
    return (1 + np.random.default_rng([n, d, seed]).standard_normal((n, d))).astype(dtype)


@settings(derandomize=True, deadline=None, max_examples=25, database=None)
@given(
    n=st.integers(1, 90),
    m=st.integers(1, 20),
    rows=st.integers(1, 100),
    start=st.integers(0, 30),
    dtype=st.sampled_from(DTYPES),
    engine=st.sampled_from([None, "native", "torch"]),
)
def test_any_chunking_agrees_with_the_array(n, m, rows, start, dtype, engine):
    X, C, kernel = _points(n, 3, dtype), _points(m, 3, dtype, 1), Matern(1.5, nu=1.5)
    X = X[min(start, n - 1) :]
    K = gf.KernelMatrix(kernel, Chunked(_points(n, 3, dtype), rows)[min(start, n - 1) :], C, engine=engine)
    compared = Comparison(K, dense(kernel, X, C), TOLERANCE[dtype])
    compared.products(2)
    compared.grams()
    compared.entries()
    assert not compared.missed


def test_every_product_is_one_pass_and_the_same_to_the_bit():
    X, passes = _points(500, 4, np.float32), []
    K = gf.KernelMatrix(Gaussian(1.0), Chunked(X, 64, passes), X[:30])
    V, W = np.ones((30, 2), np.float32), np.ones((500, 2), np.float32)
    for product in (lambda: K @ V, lambda: K.T @ W, lambda: K.gram_mv(V), K.gram, K.to_dense, K.prior_diagonal):
        passes.clear()
        first = product()
        assert passes == [(0, 500)]
        for _ in range(3):
            np.testing.assert_array_equal(product(), first)


def test_small_blocks_in_turn_do_not_read_again_and_again():
    X, passes = _points(400), []
    K = gf.KernelMatrix(Gaussian(1.0), Chunked(X, 128, passes), X[:5])
    D = dense(Gaussian(1.0), X, X[:5])
    for start in range(0, 400, 10):
        assert relative_error(K.block(slice(start, start + 10)), D[start : start + 10]) <= TOLERANCE[np.float64]
    assert len(passes) == 4


@pytest.mark.parametrize(
    "kernel", [Gaussian(1.3), Gaussian(np.array([0.7, 1.0, 2.0])), 0.5 * Linear(2.0) + Matern(1.0)]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients(kernel, dtype):
    X, C = _points(50, 3, dtype), _points(6, 3, dtype, 1)
    left, right = _points(50, 2, dtype, 2), _points(6, 2, dtype, 3)
    wanted = ("C", "parameters")
    K, streamed = gf.KernelMatrix(kernel, X, C), gf.KernelMatrix(kernel, Chunked(X, 16), C)
    pairs = [
        (M.gradients(left, right, wanted=wanted), M.row_gradients(slice(7, 45), left[7:45] @ right.T))
        for M in (K, streamed)
    ]
    for expected, found in zip(*pairs, strict=True):
        assert relative_error(found.C, expected.C.double().numpy()) <= 10 * TOLERANCE[dtype]
        for name, value in expected.parameters.items():
            assert relative_error(found.parameters[name], value.double().numpy()) <= 10 * TOLERANCE[dtype]
    with pytest.raises(ValueError, match="gradients in X need points in memory"):
        streamed.gradients(left, right)


def test_gradients_flow_through_products():
    X, C = _points(40), torch.tensor(_points(5, seed=1), requires_grad=True)
    scale = torch.tensor(1.2, dtype=torch.float64, requires_grad=True)
    V = torch.ones(5, dtype=torch.float64)
    found = []
    for points in (X, Chunked(X, 16)):
        (gf.KernelMatrix(Gaussian(scale), points, C) @ V).square().sum().backward()
        found.append((C.grad.clone(), scale.grad.clone()))
        C.grad = scale.grad = None
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_rows_of_no_kernel_of_the_core_go_to_torch():
    def k(x, y):
        return x @ y.T + 1

    X = _points(40)
    K = gf.KernelMatrix(Function(k), Chunked(X, 16), X[:4])
    assert "torch" in K.plan().reason
    assert relative_error(K @ np.ones(4), (X @ X[:4].T + 1) @ np.ones(4)) <= TOLERANCE[np.float64]


def test_an_interrupt_ends_the_reading():
    calls = []

    def k(x, y):
        calls.append(len(x))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return x @ y.T

    K = gf.KernelMatrix(Function(k), Chunked(_points(4000), 4), _points(3))
    with pytest.raises(KeyboardInterrupt) as interrupt:
        K @ np.ones(3)
    assert interrupt.tb is not None  # which keeps all that was at work
    assert "gyrfalcon-reader" not in [thread.name for thread in threading.enumerate()]


def test_widened_are_the_rounded_points_in_float64():
    X, C = _points(50, 3, np.float32), _points(4, 3, np.float32, 1)
    wide = gf.KernelMatrix(Gaussian(1.0), Chunked(X, 16), C).widened()
    assert wide.engine == "streamed"
    assert relative_error(wide.to_dense(), dense(Gaussian(1.0), X, C)) <= TOLERANCE[np.float64]
    some = gf.KernelMatrix(Gaussian(1.0), Chunked(X, 16), C).rows(slice(20, 30)).widened()
    assert relative_error(some.to_dense(), dense(Gaussian(1.0), X, C)[20:30]) <= TOLERANCE[np.float64]


def test_diagonals():
    X, C = _points(50), _points(70, seed=1)
    K = gf.KernelMatrix(Linear(1.0), Chunked(X, 16), C)
    assert relative_error(K.diag(), (X * C[:50]).sum(1)) <= TOLERANCE[np.float64]
    assert relative_error(K.prior_diagonal(), (X * X).sum(1)) <= TOLERANCE[np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_solvers_do_not_notice(dtype):
    X, C = _points(400, 3, dtype), _points(20, 3, dtype, 1)
    Y = torch.from_numpy(np.sin(X[:, :1]))
    found, expected = (
        falkon(gf.solvers.LeastSquares(gf.KernelMatrix(Gaussian(1.0), points, C), Y, 1e-3)).coefficients
        for points in (Chunked(X, 64), X)
    )
    D = dense(Gaussian(1.0), X, C)
    assert relative_error(D @ found.numpy(), D @ expected.numpy()) <= {np.float32: 1e-2, np.float64: 1e-6}[dtype]


def test_plan():
    X = _points(50)
    plan = gf.KernelMatrix(Gaussian(1.0), Chunked(X, 16), X[:3]).plan()
    assert (plan.engine, plan.cache, plan.block_rows) == ("streamed", False, 16)
    assert "X is read in chunks, each of which goes to the native engine" in str(plan)
    kept = gf.KernelMatrix(Gaussian(1.0), Chunked(X, 16), X[:3], cache=True)
    results = [kept @ np.ones(3) for _ in range(3)]
    assert kept.engine == "cached"
    assert relative_error(results[2], results[0]) <= TOLERANCE[np.float64]


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (lambda s: (s,), {}, "C must be in memory.*take"),
        (lambda s: (s, s[:3]), {}, "C must be in memory"),
        (lambda s: (s, np.zeros((2, 5))), {}, "5 features but X has 3"),
        (lambda s: (s, np.zeros((2, 3), np.float32)), {}, "convert one"),
        (lambda s: (s, np.zeros((2, 3))), {"engine": "sparse"}, "needs sparse points"),
        (lambda s: (np.zeros((2, 3)),), {"engine": "streamed"}, "gyrfalcon.data.open"),
    ],
)
def test_misuse(arguments, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        gf.KernelMatrix(Gaussian(1.0), *arguments(Chunked(_points(9), 4)), **options)


def test_nan_never_reaches_a_product():
    X = _points(60)
    C = X[:4].copy()
    X[45, 1] = np.nan
    K = gf.KernelMatrix(Gaussian(1.0), Chunked(X, 16), C)
    for product in (
        lambda: K @ np.ones(4),
        lambda: K.T @ np.ones(60),
        lambda: K.gram_mv(np.ones(4)),
        K.gram,
        K.to_dense,
    ):
        with pytest.raises(ValueError, match="row 45, column 1 is nan"):
            product()


def test_memory_does_not_grow_with_n(tmp_path):
    """X takes 90 MB as float32; products within 16 MB stay well below, with results and what readers and their
    allocators keep."""
    program = f"""
        import numpy as np, gyrfalcon as gf
        from gyrfalcon import data

        def status(field):
            with open("/proc/self/status") as file:
                return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))

        def write(n, kind):
            path, random = f"{tmp_path}/{{n}}.{{kind}}", np.random.default_rng(0)
            chunks = (random.random((50_000, 15), dtype=np.float32) for _ in range(0, n, 50_000))
            data.write(path, [f"x{{j}}" for j in range(15)], chunks)
            return path

        def run(path):
            X = data.open(path).X
            K = gf.KernelMatrix("rbf", X, X.take(np.arange(10)), memory_budget=16_000_000)
            K @ np.ones(10, np.float32), K.gram_mv(np.ones(10, np.float32))

        for kind in ("parquet", "feather", "npy"):
            small, large = write(100_000, kind), write(1_500_000, kind)
            run(small)
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            before = status("VmRSS")
            run(large)
            print(status("VmHWM") - before)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    grown = [int(line) for line in done.stdout.split()]
    assert len(grown) == 3
    assert max(grown) < 75 * MEGABYTE, grown
