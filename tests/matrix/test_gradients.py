"""Derivatives of every product in vectors, points, weights and parameters, recomputed block by block."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.kernels import ExponentialPower, Gaussian, Laplacian, Linear, Mapped, Matern
from gyrfalcon.matrix import sparse_engine
from reference import DTYPES, KERNELS, TOLERANCE, dense, relative_error

pytestmark = pytest.mark.usefixtures("one_thread")
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
dense_engines = pytest.mark.parametrize("engine", ["native", "torch"])
BUDGET = 16 * 2 * 4 * 8  # blocks of two rows of four centers in float64, with room for autograd's tape


def _tensors(generator, *shapes):
    return [torch.tensor(generator.standard_normal(shape), requires_grad=True) for shape in shapes]


def _parameters(kernel):
    found = kernel.parameters()
    return list(found), [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in found.values()]


@every_kernel
@dense_engines
def test_gradcheck(kernel, engine):
    k = KERNELS[kernel](2, 1.0, 2.0)
    X, C, V, W, weights = _tensors(np.random.default_rng(0), (5, 2), (4, 2), (4,), (5, 1), (5,))
    names, values = _parameters(k)
    assert values

    def products(X, C, V, W, weights, *values):
        tracked = k.with_parameters(dict(zip(names, values, strict=True)))
        K = gf.KernelMatrix(tracked, X, C, engine=engine, memory_budget=BUDGET)
        assert K.engine == engine
        return K @ V, K.T @ W, K.gram_mv(V, weights)

    assert torch.autograd.gradcheck(products, (X, C, V, W, weights, *values), fast_mode=True, atol=1e-7, rtol=1e-5)


@dense_engines
@pytest.mark.parametrize("family", [Gaussian, Laplacian])
def test_gradcheck_where_distances_come_from_inner_products(family, engine):
    d = 20
    X, C, V = _tensors(np.random.default_rng(0), (5, d), (4, d), (4,))
    scale = torch.linspace(3, 6, d, dtype=torch.float64, requires_grad=True)

    def product(X, C, V, scale):
        return gf.KernelMatrix(family(scale), X, C, engine=engine, memory_budget=BUDGET) @ V

    assert torch.autograd.gradcheck(product, (X, C, V, scale), fast_mode=True, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "centers"),
    [(k, "sparse") for k in KERNELS if "per_feature" not in k and sparse_engine.serves(KERNELS[k](2, 1.0, 1.0))]
    + [("gaussian", "dense"), ("polynomial", "dense")],
)
def test_gradcheck_with_sparse_points(kernel, centers):
    generator = np.random.default_rng(0)
    X, C = (generator.standard_normal((n, 6)) * (generator.random((n, 6)) < 0.6) for n in (5, 4))
    X, C = sparse.csr_array(X), sparse.csr_array(C) if centers == "sparse" else C
    k = KERNELS[kernel](6, 1.0, 1.0)
    V, W, weights = _tensors(generator, (4, 2), (5,), (5,))
    names, values = _parameters(k)

    def products(V, W, weights, *values):
        tracked = k.with_parameters(dict(zip(names, values, strict=True)))
        K = gf.KernelMatrix(tracked, X, C, memory_budget=BUDGET)
        return K @ V, K.T @ W, K.gram_mv(V, weights)

    assert torch.autograd.gradcheck(products, (V, W, weights, *values), fast_mode=True, atol=1e-7, rtol=1e-5)


def test_gradients_in_dense_centers_of_sparse_points_are_refused():
    generator = np.random.default_rng(0)
    X, C, V = generator.standard_normal((5, 3)), generator.standard_normal((4, 3)), generator.standard_normal(4)
    scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    for kernel in (Gaussian(1.0), Gaussian(scale)):
        K = gf.KernelMatrix(kernel, sparse.csr_array(X), torch.tensor(C, requires_grad=True))
        with pytest.raises(ValueError, match="C: gradients in the centers need dense points"):
            (K @ V).sum().backward()


@every_kernel
@dense_engines
def test_gradients_against_differences_of_the_oracle(kernel, engine):
    d = 3
    k = KERNELS[kernel](d, 1.0, 1.0)
    generator = np.random.default_rng(1)
    X, C, left, right = (generator.standard_normal(shape) for shape in ((6, d), (4, d), (6, 2), (4, 2)))
    found = gf.KernelMatrix(k, X, C, engine=engine, memory_budget=BUDGET).gradients(left, right)

    def total(X, C, values):
        changed = k.with_parameters(values) if values else k
        return np.einsum("it,ij,jt->", left, dense(changed, X, C), right)

    def difference(array, place, evaluate, step=1e-5):
        moved = [np.array(array, dtype=float) for _ in range(2)]
        moved[0][place] += step
        moved[1][place] -= step
        return (evaluate(moved[0]) - evaluate(moved[1])) / (2 * step)

    for place in ((0, 0), (3, 2), (5, 1)):
        assert found.X[place].item() == pytest.approx(
            difference(X, place, lambda Z: total(Z, C, {})), rel=1e-6, abs=1e-8
        )
    for place in ((0, 2), (3, 0)):
        assert found.C[place].item() == pytest.approx(
            difference(C, place, lambda Z: total(X, Z, {})), rel=1e-6, abs=1e-8
        )
    assert found.parameters.keys() == k.parameters().keys()
    for name, value in k.parameters().items():
        for place in np.ndindex(np.shape(value)):
            expected = difference(
                value, place, lambda Z, name=name: total(X, C, {name: Z}), 1e-5 * np.max(np.abs(value))
            )
            assert found.parameters[name][place].item() == pytest.approx(expected, rel=1e-6, abs=1e-8), name


@dense_engines
@pytest.mark.parametrize("d", [2, 20])
@pytest.mark.parametrize(
    "kernel",
    [Laplacian(1.0), Matern(1.0, nu=0.5), Matern(1.0, nu=1.5), Matern(1.0, nu=2.5), ExponentialPower(1.0, power=0.5)],
    ids=repr,
)
def test_coincident_points_have_finite_gradients(kernel, d, engine):
    X = torch.tensor(np.random.default_rng(0).standard_normal((6, d)), requires_grad=True)
    C = X.detach()[[0, 1, 1, 5]].clone().requires_grad_()
    scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    K = gf.KernelMatrix(kernel.with_parameters({"length_scale": scale}), X, C, engine=engine)
    (K @ torch.ones(4, dtype=torch.float64)).square().sum().backward()
    for leaf in (X, C, scale):
        assert torch.isfinite(leaf.grad).all()
        assert leaf.grad.abs().sum() > 0


@dense_engines
@pytest.mark.parametrize("family", [Laplacian, Gaussian])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_nearly_coincident_points_have_the_right_gradient(family, dtype, engine):
    """k'(r) / r times a gap: multiplying before subtracting would leave the rounding errors of large products."""
    gap = 1e-5 if dtype is np.float32 else 1e-11
    generator = np.random.default_rng(0)
    X = generator.standard_normal((8, 3)).astype(dtype)
    C = (X + gap * generator.standard_normal((8, 3))).astype(dtype)
    gaps = X[:, None].astype(float) - C[None].astype(float)
    r = np.sqrt((gaps**2).sum(-1, keepdims=True))
    slopes = -gaps / r * np.exp(-r) if family is Laplacian else -gaps * np.exp(-(r**2) / 2)
    left, right = np.linspace(1, 2, 8, dtype=dtype), np.linspace(2, 1, 8, dtype=dtype)
    found = gf.KernelMatrix(family(1.0), X, C, engine=engine).gradients(left, right)
    weighted = slopes * np.outer(left, right)[:, :, None]
    assert relative_error(found.X, weighted.sum(1)) <= 100 * TOLERANCE[dtype]
    assert relative_error(found.C, -weighted.sum(0)) <= 100 * TOLERANCE[dtype]


def test_shared_points_get_both_shares():
    X = torch.tensor(np.random.default_rng(0).standard_normal((6, 2)), requires_grad=True)

    def product(X):
        return gf.KernelMatrix(Gaussian(1.3), X, memory_budget=BUDGET) @ torch.ones(6, dtype=torch.float64)

    assert torch.autograd.gradcheck(product, (X,))


def test_entries_are_differentiable():
    X, C = _tensors(np.random.default_rng(0), (5, 2), (4, 2))
    scale = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)

    def entries(X, C, scale):
        K = gf.KernelMatrix(Gaussian(scale) + Mapped(Linear(1.0), [[1.0, 2.0]]), X, C)
        return K.to_dense(), K.block(slice(1, 3)), K.block(-1), K.diag()

    assert torch.autograd.gradcheck(entries, (X, C, scale))


@every_kernel
@dense_engines
def test_parameters_with_gradients_cause_no_warning(kernel, engine):
    k = KERNELS[kernel](2, 1.0, 1.0)
    names, values = _parameters(k)
    torch.set_warn_always(True)  # PyTorch would give each warning only once
    try:
        K = gf.KernelMatrix(k.with_parameters(dict(zip(names, values, strict=True))), np.ones((3, 2)), engine=engine)
        (K @ np.ones(3)).sum().backward()
    finally:
        torch.set_warn_always(False)


def test_nothing_is_recorded_under_no_grad():
    X = torch.ones(3, 2, requires_grad=True)
    K = gf.KernelMatrix(Gaussian(1.0), X)
    with torch.no_grad():
        assert not (K @ torch.ones(3)).requires_grad
        assert not K.to_dense().requires_grad
    assert (K @ torch.ones(3)).requires_grad


def test_backward_never_holds_the_matrix():
    """10,000 × 2,000 in float64 is 160 MB; forward and backward stay near the budget of 16 MB."""
    program = """
        import resource, torch, gyrfalcon as gf

        torch.set_num_threads(1)

        def run(n, m):
            X, C, V = (torch.ones(k, 2, dtype=torch.float64, requires_grad=True) for k in (n, m, m))
            scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
            K = gf.KernelMatrix(gf.kernels.Gaussian(scale), X, C, memory_budget=16 << 20)
            K.gram_mv(V).sum().backward()
            return X.grad

        run(100, 50)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert torch.isfinite(run(10_000, 2_000)).all()
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 160e6 / 3
