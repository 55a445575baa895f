"""Moments against plain float64 sums, and what they promise: they add up, can be taken apart, saved and solved."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.moments import CrossMoments, Moments, Whitening
from gyrfalcon.persistence import ModelFileError
from reference import kernels as oracle
from reference import ridge

KERNEL = gf.kernels.Matern(1.5, nu=1.5)


def data(n=200, m=15, t=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    Y = np.sin(X[:, :1] + np.arange(t)) + 5.0
    return X, X[:m].copy(), Y, rng.integers(0, 4, size=n).astype(float)


KINDS = {
    "array": lambda X: X,
    "tensor": torch.from_numpy,
    "float32": lambda X: X.astype(np.float32),
    "sparse": lambda X: sparse.csr_array(X),
    "source": lambda X: gf.data.open(X, dtype=np.float64).X,
}


def plain(X, C, Y, w, whitening):
    """Sums over rows, one after the other."""
    Z = np.linalg.solve(np.triu(whitening.T).T, oracle.dense(KERNEL, X, C).T)
    return (Z * w) @ Z.T, (Z * w) @ Y, Z @ w, w @ Y, w @ Y**2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_are_the_sums_they_say(kind, weighted):
    X, C, Y, w = data()
    if kind == "float32":
        X, C = X.astype(np.float32).astype(float), C.astype(np.float32).astype(float)
    centers = C if kind == "source" else KINDS[kind](C)
    K = gf.KernelMatrix(KERNEL, KINDS[kind](X), centers)
    moments = Moments.of(K, Y, w if weighted else None)
    w = w if weighted else np.ones(len(X))
    second, cross, features, targets, squares = plain(X, C, Y, w, moments.whitening)
    for found, expected in (
        (moments.second, second),
        (moments.sums.cross, cross),
        (moments.sums.features[:, 0], features),
        (moments.sums.targets, targets),
        (moments.sums.squares, squares),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert moments.count == len(X)
    assert moments.sums.weight == w.sum()


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(1, 199), min_size=1, max_size=5, unique=True), seed=st.integers(0, 3))
def test_add_up_however_the_rows_are_cut(cuts, seed):
    X, C, Y, w = data(seed=seed)
    K = gf.KernelMatrix(KERNEL, X, C)
    whole = Moments.of(K, Y, w)
    ends = [0, *sorted(cuts), len(X)]
    parts = [
        Moments.of(K.rows(slice(a, b)), Y[a:b], w[a:b], whitening=whole.whitening) for a, b in itertools.pairwise(ends)
    ]
    total = sum(parts[1:], parts[0])
    np.testing.assert_allclose(total.second, whole.second, rtol=1e-12, atol=1e-11)
    left = whole - parts[0]
    np.testing.assert_allclose(left.second, sum(parts[2:], parts[1]).second, rtol=1e-10, atol=1e-9)
    assert left.count == len(X) - ends[1]


def test_parts_by_label_are_those_of_their_rows():
    X, C, Y, w = data()
    labels = np.random.default_rng(1).integers(0, 3, size=len(X))
    K = gf.KernelMatrix(KERNEL, X, C)
    parts = Moments.by_part(K, Y, w, labels, 3)
    for part, moments in enumerate(parts):
        rows = np.flatnonzero(labels == part)
        alone = Moments.of(K.rows(rows), Y[rows], w[rows], whitening=moments.whitening)
        np.testing.assert_allclose(moments.second, alone.second, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(moments.sums.cross, alone.sums.cross, rtol=1e-12, atol=1e-12)
        assert moments.count == len(rows)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("origin", [None, 5.0])
def test_solve_every_penalty_and_every_leading_size(intercept, origin):
    X, C, Y, w = data()
    K = gf.KernelMatrix(KERNEL, X, C)
    moments = Moments.of(K, Y, w, origin=None if origin is None else np.full(2, origin))
    for penalty in (1e-1, 1e-4):
        for size in (1, 7, 15):
            beta, offset, objective = moments.leading(size).solve(penalty, intercept=intercept)
            dense = oracle.dense(KERNEL, X, C[:size]), oracle.dense(KERNEL, C[:size], C[:size])
            expected, at = ridge.nystrom(*dense, Y, penalty, w, intercept)
            np.testing.assert_allclose(dense[0] @ beta + offset, dense[0] @ expected + at, rtol=1e-7)
            left = Y - dense[0] @ expected - at
            norm = np.einsum("it,ij,jt->t", expected, dense[1], expected)
            np.testing.assert_allclose(objective, w @ left**2 / w.sum() + penalty * norm, rtol=1e-6)


def test_another_origin_changes_nothing_that_is_asked():
    X, C, Y, w = data()
    moments = Moments.of(gf.KernelMatrix(KERNEL, X, C), Y, w)
    moved = moments.about(np.array([3.0, -2.0]))
    for one, other in zip(moments.solve(1e-3), moved.solve(1e-3), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def test_explicit_features_need_no_whitening():
    X, _, Y, _ = data()
    features = gf.RandomFeatures(n_features=20, length_scale=1.0, random_state=0).fit(X)
    Z = features.matrix(X)
    moments = Moments.of(Z, Y)
    assert moments.whitening.T is None
    np.testing.assert_allclose(moments.second, Z.to_dense().T @ Z.to_dense(), rtol=1e-12)


def test_files_hold_what_was_there_and_damage_is_refused(tmp_path):
    X, C, Y, w = data()
    K = gf.KernelMatrix(KERNEL, X, C)
    moments, path = Moments.of(K, Y, w), tmp_path / "moments.safetensors"
    moments.save(path)
    again = Moments.load(path)
    assert (again + moments).count == 2 * len(X)
    np.testing.assert_array_equal(again.second, moments.second)
    for one, other in zip(moments.solve(1e-3), again.solve(1e-3), strict=True):
        np.testing.assert_array_equal(one, other)
    content = bytearray(path.read_bytes())
    for place in (3, 40, len(content) // 2, len(content) - 1):
        damaged = content.copy()
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            Moments.load(path)
    path.write_bytes(content[:-5])
    with pytest.raises(ModelFileError):
        Moments.load(path)


def test_moments_that_do_not_belong_together_are_refused():
    X, C, Y, _ = data()
    moments = Moments.of(gf.KernelMatrix(KERNEL, X, C), Y)
    with pytest.raises(ValueError, match="other centers"):
        moments + Moments.of(gf.KernelMatrix(KERNEL, X, C + 1), Y)
    with pytest.raises(ValueError, match="other outputs"):
        moments + Moments.of(gf.KernelMatrix(KERNEL, X, C), Y[:, :1])
    with pytest.raises(ValueError, match="centers"):
        CrossMoments.of(gf.KernelMatrix(KERNEL, X, C), gf.KernelMatrix(KERNEL, X, C + 1))


@pytest.mark.parametrize("weighted", [False, True])
def test_cross_moments_are_the_sums_over_pairs(weighted):
    X, C, _, w = data()
    K = gf.KernelMatrix(KERNEL, X, C)
    before, after = K.rows(slice(0, 199)), K.rows(slice(1, 200))
    weights = w[:199] if weighted else None
    moments = CrossMoments.of(before, after, weights)
    weights = np.ones(199) if weights is None else weights
    Z = np.linalg.solve(np.triu(moments.whitening.T).T, oracle.dense(KERNEL, X, C).T)
    np.testing.assert_allclose(moments.between, (Z[:, :-1] * weights) @ Z[:, 1:].T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.before, (Z[:, :-1] * weights) @ Z[:, :-1].T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.after, (Z[:, 1:] * weights) @ Z[:, 1:].T, rtol=1e-9, atol=1e-9)
    assert (moments + moments).count == 398


def test_dask_workers_add_up_the_same_moments():
    array = pytest.importorskip("dask.array")
    X, C, Y, w = data()
    lazy = array.from_array(X, chunks=(37, 3))
    whole = Moments.of(gf.KernelMatrix(KERNEL, X, C), Y, w)
    found = Moments.of(gf.KernelMatrix(KERNEL, lazy, C), Y, w)
    np.testing.assert_allclose(found.second, whole.second, rtol=1e-12, atol=1e-12)
    assert found.count == whole.count


def test_memory_budgets_change_nothing():
    X, C, Y, w = data()
    large, small = (Moments.of(gf.KernelMatrix(KERNEL, X, C, memory_budget=budget), Y, w) for budget in (10**8, 10**4))
    np.testing.assert_allclose(small.second, large.second, rtol=1e-12, atol=1e-12)


def test_kernels_that_are_not_positive_definite_are_named():
    X, C, _, _ = data()
    with pytest.raises(ValueError, match="not positive definite"):
        Whitening.of(gf.KernelMatrix(-1.0 * KERNEL, X, C))


@pytest.mark.parametrize("solver", ["falkon", "newton", "exact"])
def test_triangles_in_a_file_solve_what_those_in_memory_do(solver):
    """The budget holds neither k(C, C) nor k(X, X)."""
    X, C, Y, w = data(n=300, m=120)
    settings = {"falkon": gf.solvers.Falkon(1e-13, 300), "newton": gf.solvers.Newton(1e-11)}
    found = []
    for budget in (10**9, 10**5):
        centers = None if solver == "exact" else torch.from_numpy(C)
        K = gf.KernelMatrix(KERNEL, torch.from_numpy(X), centers, memory_budget=budget)
        problem = gf.solvers.LeastSquares(K, torch.from_numpy(Y), 1e-3, torch.from_numpy(w[:, None] + 1), True)
        solution = gf.solvers.solve(problem, settings.get(solver, solver))
        found.append((K @ solution.coefficients + solution.intercept).numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-8)


def test_widened_keeps_what_is_known_and_borders_the_triangle():
    X, C, Y, w = data()
    more = X[100:104]
    moments = Moments.of(gf.KernelMatrix(KERNEL, X, C), Y, w)
    wide = moments.widened(gf.KernelMatrix(KERNEL, np.vstack([C, more]), np.vstack([C, more])))
    gram = oracle.dense(KERNEL, np.vstack([C, more]), np.vstack([C, more]))
    T = np.triu(wide.whitening.T)
    np.testing.assert_allclose(T.T @ T, gram + moments.whitening.jitter * np.eye(len(gram)), atol=1e-12)
    np.testing.assert_array_equal(wide.leading(len(C)).second, moments.second)
    assert not wide.second[len(C) :].any()
    rows = gf.KernelMatrix(KERNEL, X[:50], np.vstack([C, more]))
    both = wide + Moments.of(rows, Y[:50], whitening=wide.whitening)
    assert both.count == 250
    with pytest.raises(ValueError, match="explicit map"):
        Whitening(None, 3, 0.0, 1.0, 0.0).widened(rows)
