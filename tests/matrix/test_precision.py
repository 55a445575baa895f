"""Digits that are easily lost: long sums, clusters far apart, points further apart than the type can square."""

from functools import cache as remember

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon.kernels import Cauchy, ExponentialPower, Gaussian, Laplacian, Matern, RationalQuadratic
from reference import DTYPES, ENGINES, TOLERANCE, as_array, dense, product, relative_error

pytestmark = pytest.mark.usefixtures("one_thread")
every_engine = pytest.mark.parametrize("engine", ENGINES)
RADIAL = [
    Gaussian(1.0),
    Laplacian(1.0),
    *(Matern(1.0, nu=nu) for nu in (0.5, 1.5, 2.5)),
    ExponentialPower(1.0, power=0.7),
    RationalQuadratic(1.0, alpha=2.0),
    Cauchy(1.0),
]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)


@remember
def equal_terms(dtype, n, m):
    """Points on a grid of nine places, with every product of their matrix made from pairwise sums."""
    generator = np.random.default_rng(0)
    X = generator.integers(0, 3, (n, 2)).astype(dtype)
    C = generator.integers(0, 3, (m, 2)).astype(dtype)
    D = dense(Gaussian(3.0), X, C)
    V, W, weights = np.full((m, 2), 0.1, dtype), np.full((n, 2), 0.1, dtype), np.full(n, 0.3, dtype)
    expected = {"K @ V": product(D, V), "K.T @ W": product(D.T, W)}
    expected["gram_mv"] = product(D.T, weights.astype(np.float64)[:, None] * expected["K @ V"])
    if m < 100:
        expected["gram"] = product(D.T, D)
    return X, C, V, W, weights, expected


@every_engine
@every_dtype
@pytest.mark.parametrize(("n", "m"), [(20_000, 3), (3, 20_000), (5_000, 64)])
@pytest.mark.parametrize("cache", [False, True], ids=["made", "cached"])
def test_long_sums(engine, dtype, n, m, cache):
    """Thousands of equal terms: an accumulator of the data's own type drifts, always in the same direction."""
    route = ENGINES[engine]
    X, C, V, W, weights, expected = equal_terms(dtype, n, m)
    K = gf.KernelMatrix(Gaussian(3.0), route.X(X), route.C(C), **route.options, cache=cache)
    K @ route.V(V)
    K @ route.V(V)
    found = {
        "K @ V": K @ route.V(V),
        "K.T @ W": K.T @ route.V(W),
        "gram_mv": K.gram_mv(route.V(V), route.V(weights)),
    }
    if m < 100:
        found["gram"] = K.gram()
    errors = {what: relative_error(result, expected[what]) for what, result in found.items()}
    assert not {what: error for what, error in errors.items() if not error <= TOLERANCE[dtype]}


@every_engine
@every_dtype
@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("family", [Gaussian, Laplacian, Cauchy])
def test_two_clusters_far_apart(engine, dtype, d, family):
    """Whatever point the data are centered at, it is far from one of the clusters."""
    route, generator = ENGINES[engine], np.random.default_rng(d)
    X, C = generator.standard_normal((40, d)), generator.standard_normal((17, d))
    X[::2] += 1e4
    C[::3] += 1e4
    C[1] -= 3e4
    X, C = X.astype(dtype), C.astype(dtype)
    k = family(d**0.5)
    K = gf.KernelMatrix(k, route.X(X), route.C(C), **route.options)
    assert relative_error(K.to_dense(), dense(k, X, C)) <= TOLERANCE[dtype]


@every_engine
@pytest.mark.parametrize("d", [1, 20, 40])
@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 1e20), (np.float32, 1e30), (np.float64, 1e160)])
def test_distances_beyond_the_type_do_not_become_zero(engine, d, dtype, far):
    route = ENGINES[engine]
    X = (np.array([[1.0], [1.5], [3.0], [-2.0]]) * far * np.ones(d)).astype(dtype)
    for k in RADIAL:
        K = gf.KernelMatrix(k, route.X(X), route.C(X), **route.options)
        np.testing.assert_allclose(as_array(K.to_dense()), np.eye(4), atol=1e-30, err_msg=repr(k))
        np.testing.assert_allclose(as_array(K @ route.V(np.ones((4, 1), dtype))), np.ones((4, 1)), err_msg=repr(k))


@pytest.mark.parametrize("k", RADIAL, ids=repr)
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_derivatives_beyond_the_type_are_finite(engine, k):
    X = torch.tensor([[0.0], [1e20], [1.0]])
    K = gf.KernelMatrix(k, X, engine=engine)
    found = K.gradients(torch.ones(3, 1), torch.ones(3, 1), wanted=("C",))
    assert torch.isfinite(found.C).all()


@every_engine
@every_dtype
@pytest.mark.parametrize("places", [(1, -1, 0), (1, 0.2, -1), (1, 0.9, 0.8)], ids=str)
def test_points_over_the_whole_range_of_the_type(engine, dtype, places):
    """Neither the mean of points nor what separates them need be a number of the type."""
    route = ENGINES[engine]
    X = np.stack([np.array(places) * np.finfo(dtype).max, [0.0, 0.0, 1.0]], axis=1).astype(dtype)
    K = gf.KernelMatrix(Gaussian(1.0), route.X(X), route.C(X), **route.options).to_dense()
    np.testing.assert_array_equal(as_array(K), np.eye(3))


@every_engine
@pytest.mark.parametrize("cache", [False, True], ids=["made", "cached"])
def test_sums_in_float64_on_request(engine, cache):
    """From float32 entries, results that owe nothing more to float32 than the entries themselves."""
    route, generator = ENGINES[engine], np.random.default_rng(0)
    X, C = (generator.standard_normal((n, 3)).astype(np.float32) for n in (3000, 20))
    W, V, weights = (1 + generator.standard_normal(shape).astype(np.float32) for shape in ((3000, 2), (20, 2), 3000))
    K = gf.KernelMatrix(Laplacian(2.0), route.X(X), route.C(C), **route.options, cache=cache)
    entries = as_array(K.to_dense()).astype(np.float64)
    for _ in range(2):
        found = {
            "rmv": (K.rmv(route.V(W), dtype=torch.float64), entries.T @ W),
            "gram": (K.gram(dtype=torch.float64), entries.T @ entries),
            "gram with weights": (
                K.gram(route.V(weights), dtype=torch.float64),
                (entries.T * weights.astype(np.float64)) @ entries,
            ),
        }
        for what, (result, expected) in found.items():
            assert "float64" in str(result.dtype), what
            assert relative_error(result, expected) <= 1e-12, what
        result = K.gram_mv(route.V(V), route.V(weights), dtype=torch.float64)
        assert "float64" in str(result.dtype)
        expected = entries.T @ (weights.astype(np.float64)[:, None] * (entries @ V.astype(np.float64)))
        assert relative_error(result, expected) <= TOLERANCE[np.float32]
        assert K.rmv(route.V(W)).dtype == (K @ route.V(V)).dtype
