"""Derivatives in centers and length scales by the compiled core, against autograd on the dense formula in float64."""

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon.kernels import Gaussian, Laplacian, Linear, Mapped, Matern
from gyrfalcon.matrix import native_engine
from reference import DTYPES, RADIAL, as_array

pytestmark = [
    pytest.mark.skipif(native_engine.core is None, reason="the compiled core is not installed"),
    pytest.mark.usefixtures("one_thread"),
]
FAMILIES = ("gaussian", "laplacian", "matern12", "matern32", "matern52")
every_family = pytest.mark.parametrize("family", FAMILIES)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
every_scale = pytest.mark.parametrize("per_feature", [False, True], ids=["one_scale", "per_feature"])
SOME = ("C", "parameters")
# Of the sum of absolute terms. Rows, centers and features fill panels or do not, are few enough for differences or
# not, and make distances from differences or from inner products.
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-13}
SHAPES = [
    (0, 3, 2),
    (5, 0, 2),
    (1, 1, 1),
    (7, 1, 3),
    (1, 40, 4),
    (97, 33, 5),
    (110, 70, 6),
    (101, 17, 11),
    (50, 40, 40),
    (20, 20, 300),
]


def _kernel(family, d, per_feature, size=1.0):
    scale = size * max(1.0, 0.7 * d**0.5)
    return RADIAL[family](scale * np.linspace(0.6, 1.9, d) if per_feature else scale)


def _draw(dtype, *shapes, seed=0):
    generator = np.random.default_rng(seed)
    return [(1 + generator.standard_normal(shape)).astype(dtype) for shape in shapes]


def _values(kernel, squared):
    r = torch.where(squared > 0, torch.where(squared > 0, squared, 1).sqrt(), 0)  # slope zero where points coincide
    match kernel:
        case Gaussian():
            return torch.exp(-squared / 2)
        case Laplacian() | Matern(nu=0.5):
            return torch.exp(-r)
        case Matern(nu=1.5):
            return (1 + 3**0.5 * r) * torch.exp(-(3**0.5) * r)
        case Matern(nu=2.5):
            return (1 + 5**0.5 * r + 5 / 3 * squared) * torch.exp(-(5**0.5) * r)


def _oracle(kernel, X, C, weights):
    """Derivatives in C and the length scale, and what they would be if no term had another's opposite sign."""
    X, C = (torch.tensor(as_array(points), dtype=torch.float64) for points in (X, C))
    scale = torch.tensor(as_array(kernel.length_scale), dtype=torch.float64)
    gaps = ((X[:, None] - C) / scale).requires_grad_()
    squared = gaps.square().sum(-1)
    (slopes,) = torch.autograd.grad(_values(kernel, squared).sum(), gaps)
    terms = torch.tensor(as_array(weights), dtype=torch.float64)[:, :, None] * slopes
    in_c, in_scale = -terms / scale, -terms * gaps.detach() / scale
    places = (0, 1) if scale.ndim else (0, 1, 2)
    return [(part.sum(over).numpy(), part.abs().sum(over).numpy()) for part, over in ((in_c, 0), (in_scale, places))]


def _compare(found, expected, tolerance):
    assert found.X is None
    for result, (value, size) in zip((found.C, found.parameters["length_scale"]), expected, strict=True):
        assert result.shape == value.shape
        assert result.dtype == torch.float64
        assert np.linalg.norm(result.numpy() - value) <= tolerance * np.linalg.norm(size)


@every_family
@every_dtype
@every_scale
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_the_oracle(family, dtype, per_feature, shape):
    n, m, d = shape
    kernel = _kernel(family, d, per_feature)
    X, C, left, right = _draw(dtype, (n, d), (m, d), (n, 3), (m, 3))
    C[: min(n, m) // 3] = X[: min(n, m) // 3]
    K = gf.KernelMatrix(kernel, X, C, engine="native")
    weights = left @ right.T
    expected = _oracle(kernel, X, C, weights)
    _compare(K.gradients(left, right, wanted=SOME), expected, TOLERANCE[dtype])
    _compare(K.row_gradients(slice(None), weights), expected, TOLERANCE[dtype])


@every_family
@every_dtype
@every_scale
@pytest.mark.parametrize(("n", "d"), [(0, 2), (1, 1), (23, 3), (95, 5), (96, 40), (97, 6), (230, 11)], ids=str)
def test_points_with_themselves(family, dtype, per_feature, n, d):
    """Half of the entries stand for all of them, whatever the symmetry of the weights."""
    kernel = _kernel(family, d, per_feature)
    X, left, right = _draw(dtype, (n, d), (n, 3), (n, 3))
    X[: n // 4] = X[n - n // 4 :]
    found = gf.KernelMatrix(kernel, X, engine="native").gradients(left, right, wanted=("parameters",))
    value, size = _oracle(kernel, X, X, left @ right.T)[1]
    assert found.C is None
    gap = np.linalg.norm(found.parameters["length_scale"].numpy() - value)
    assert gap <= TOLERANCE[dtype] * np.linalg.norm(size)


@every_dtype
@every_scale
@pytest.mark.parametrize("t", [0, 1, 21])
def test_numbers_of_columns(dtype, per_feature, t):
    kernel = _kernel("laplacian", 7, per_feature)
    X, C, left, right = _draw(dtype, (50, 7), (30, 7), (50, t), (30, t))
    found = gf.KernelMatrix(kernel, X, C).gradients(left, right, wanted=SOME)
    _compare(found, _oracle(kernel, X, C, left @ right.T), TOLERANCE[dtype])


@every_dtype
@pytest.mark.parametrize("d", [3, 8, 40])
@pytest.mark.parametrize("family", ["gaussian", "laplacian"])
def test_points_that_nearly_coincide(family, dtype, d):
    """The Laplacian's slope is near 1 / gap there: large products would leave their rounding errors."""
    kernel = _kernel(family, d, False)
    X, weights = _draw(dtype, (60, d), (60, 60))
    X -= 1  # around zero, nothing is rounded before gaps are taken
    gap = 1e-5 if dtype is np.float32 else 1e-11
    C = (X + gap * np.random.default_rng(1).standard_normal(X.shape)).astype(dtype)
    found = gf.KernelMatrix(kernel, X, C).row_gradients(slice(None), weights)
    _compare(found, _oracle(kernel, X, C, weights), TOLERANCE[dtype])
    alone = gf.KernelMatrix(kernel, X[:1], C[:1]).row_gradients(slice(None), weights[:1, :1])
    _compare(alone, _oracle(kernel, X[:1], C[:1], weights[:1, :1]), 10 * TOLERANCE[dtype])


@every_dtype
@every_scale
@pytest.mark.parametrize("d", [3, 8, 40])
def test_clusters_far_apart(dtype, per_feature, d):
    """Norms are large beside the distances that matter, and squares would cancel."""
    kernel = _kernel("gaussian", d, per_feature)
    X, C, weights = _draw(dtype, (100, d), (40, d), (100, 40))
    X[::2] += 50
    C[::2] -= 50
    C[1::4] = X[1:40:4]
    found = gf.KernelMatrix(kernel, X, C).row_gradients(slice(None), weights)
    _compare(found, _oracle(kernel, X, C, weights), 50 * TOLERANCE[dtype])  # X / length_scale is rounded


@every_family
@every_dtype
@every_scale
@pytest.mark.parametrize("d", [3, 8])
def test_all_points_coincide(family, dtype, per_feature, d):
    X, weights = np.full((10, d), 3, dtype), np.ones((10, 10), dtype)
    found = gf.KernelMatrix(_kernel(family, d, per_feature), X).row_gradients(slice(None), weights)
    assert (found.C == 0).all()
    assert (found.parameters["length_scale"] == 0).all()


@every_family
@every_dtype
@every_scale
@pytest.mark.parametrize("size", [1e-30, 1e-8, 1e8, 1e30])
def test_extreme_scales_stay_finite(family, dtype, per_feature, size):
    X, C, weights = _draw(dtype, (40, 6), (20, 6), (40, 20))
    C[:5] = X[:5]
    found = gf.KernelMatrix(_kernel(family, 6, per_feature, size), X, C).row_gradients(slice(None), weights)
    assert torch.isfinite(found.C).all()
    assert torch.isfinite(found.parameters["length_scale"]).all()


@every_dtype
@every_scale
def test_any_strides_give_the_same_bits(dtype, per_feature):
    kernel = _kernel("matern32", 6, per_feature)
    X, C, left, right, weights = _draw(dtype, (202, 12), (60, 6), (101, 6), (60, 3), (60, 202))
    laid = X[::-2, ::2], np.asfortranarray(C)[::2], left[:, ::2], right[29::-1], weights[1::2, ::2].T[::-1]
    results = []
    for X, C, left, right, weights in (laid, [np.ascontiguousarray(view) for view in laid]):
        K = gf.KernelMatrix(kernel, X, C, engine="native")
        results.append((K.gradients(left, right, wanted=SOME), K.row_gradients(slice(None), weights)))
    for found, expected in zip(*results, strict=True):
        assert torch.equal(found.C, expected.C)
        assert torch.equal(found.parameters["length_scale"], expected.parameters["length_scale"])


@every_dtype
@every_scale
def test_threads_change_no_bit(dtype, per_feature):
    kernel = _kernel("gaussian", 6, per_feature)
    X, C, left, right = _draw(dtype, (2500, 6), (50, 6), (2500, 2), (50, 2))
    K = gf.KernelMatrix(kernel, X, C)
    found = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)  # the fixture sets it back
        found.append(K.gradients(left, right, wanted=SOME))
    _compare(found[0], _oracle(kernel, X, C, left @ right.T), TOLERANCE[dtype])
    for many in found[1:]:
        assert torch.equal(many.C, found[0].C)
        assert torch.equal(many.parameters["length_scale"], found[0].parameters["length_scale"])


def test_little_memory():
    kernel = _kernel("gaussian", 6, True)
    X, C, left, right = _draw(np.float64, (2500, 6), (50, 6), (2500, 2), (50, 2))
    found = gf.KernelMatrix(kernel, X, C, memory_budget=1).gradients(left, right, wanted=SOME)
    _compare(found, _oracle(kernel, X, C, left @ right.T), TOLERANCE[np.float64])


def test_row_blocks_add_up():
    kernel = _kernel("laplacian", 4, True)
    X, C, weights = _draw(np.float32, (103, 4), (20, 4), (103, 20))
    K = gf.KernelMatrix(kernel, X, C)
    parts = [K.row_gradients(slice(a, a + 25), weights[a : a + 25]) for a in range(0, 103, 25)]
    _compare(
        gf.matrix.Gradients(
            None,
            torch.stack([part.C for part in parts]).sum(0),
            {"length_scale": torch.stack([part.parameters["length_scale"] for part in parts]).sum(0)},
        ),
        _oracle(kernel, X, C, weights),
        TOLERANCE[np.float32],
    )


@every_family
@every_scale
def test_differences_of_the_product(family, per_feature):
    X, C, left, right = _draw(np.float64, (30, 5), (20, 5), (30,), (20,))
    kernel = _kernel(family, 5, per_feature)
    found = gf.KernelMatrix(kernel, X, C).gradients(left, right, wanted=SOME)

    def total(C, scale):
        return left @ (gf.KernelMatrix(kernel.with_parameters({"length_scale": scale}), X, C) @ right)

    step, moved, scale = 1e-5, np.zeros((20, 5)), np.array(kernel.length_scale)
    moved[3, 2] = step
    in_c = (total(C + moved, scale) - total(C - moved, scale)) / (2 * step)
    assert found.C[3, 2].item() == pytest.approx(in_c, rel=1e-6, abs=1e-7)
    for place in np.ndindex(scale.shape):
        moved = np.zeros(scale.shape)
        moved[place] = step
        in_scale = (total(C, scale + moved) - total(C, scale - moved)) / (2 * step)
        assert found.parameters["length_scale"][place].item() == pytest.approx(in_scale, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(1.5), Laplacian([1.0, 2.0, 3.0]), Gaussian(1.0) + Linear(2.0), Mapped(Matern(1.0), np.ones((2, 3)))],
    ids=lambda kernel: type(kernel).__name__,
)
@pytest.mark.parametrize("wanted", [(), ("C",), ("parameters",), ("X", "parameters"), SOME, ("X", "C", "parameters")])
def test_engines_agree_and_give_what_is_wanted(kernel, wanted):
    X, C, left, right = _draw(np.float64, (20, 3), (10, 3), (20, 2), (10, 2))
    native, slow = (gf.KernelMatrix(kernel, X, C, engine=engine) for engine in ("native", "torch"))
    whole = slow.gradients(left, right)
    for found in (
        native.gradients(left, right, wanted=wanted),
        slow.gradients(left, right, wanted=wanted),
        native.row_gradients(slice(None), left @ right.T, wanted=wanted),
        slow.row_gradients(slice(None), left @ right.T, wanted=wanted),
    ):
        for name in ("X", "C"):
            result, expected = getattr(found, name), getattr(whole, name)
            assert (result is None) == (name not in wanted)
            if result is not None:
                torch.testing.assert_close(result, expected, rtol=1e-11, atol=1e-11)
        assert found.parameters.keys() == (kernel.parameters().keys() if "parameters" in wanted else set())
        for name, result in found.parameters.items():
            torch.testing.assert_close(result, whole.parameters[name], rtol=1e-11, atol=1e-11)


@every_dtype
@every_scale
@pytest.mark.parametrize("transposed", [False, True])
def test_autograd_through_products(dtype, per_feature, transposed):
    """Centers and length scales of products: the core's derivatives, in the types of what they are derivatives in."""
    X, C, V = (torch.from_numpy(array) for array in _draw(dtype, (60, 5), (30, 5), (60 if transposed else 30, 2)))
    found = {}
    for engine in ("native", "torch"):
        centers = C.clone().requires_grad_()
        scale = torch.tensor(_kernel("matern52", 5, per_feature).length_scale, dtype=C.dtype, requires_grad=True)
        K = gf.KernelMatrix(Matern(scale, nu=2.5), X, centers, engine=engine)
        (K.T @ V if transposed else K @ V).square().sum().backward()
        found[engine] = centers.grad, scale.grad
    for fast, slow in zip(found["native"], found["torch"], strict=True):
        assert fast.dtype == slow.dtype == C.dtype
        torch.testing.assert_close(fast, slow, rtol=1e3 * TOLERANCE[dtype], atol=1e2 * TOLERANCE[dtype])


def test_derivatives_follow_parameters_changed_in_place():
    X, C, left, right = _draw(np.float64, (20, 3), (10, 3), (20, 1), (10, 1))
    scale = torch.tensor(1.0, dtype=torch.float64)
    K = gf.KernelMatrix(Gaussian(scale), X, C)
    K.gradients(left, right, wanted=SOME)
    scale.mul_(2)
    _compare(K.gradients(left, right, wanted=SOME), _oracle(Gaussian(2.0), X, C, left @ right.T), 1e-13)
    np.testing.assert_array_equal(as_array(K.to_dense()), gf.KernelMatrix(Gaussian(2.0), X, C).to_dense())
