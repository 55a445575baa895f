"""Moments of lagged pairs against plain sums over the pairs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gyrfalcon as gf
from gyrfalcon.moments import CrossMoments, LagSums, SpectralWhitening, Whitening
from reference import dense
from reference.koopman import pairs

KERNEL = gf.kernels.Matern(1.5, nu=1.5)


def frames(n, m=6, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    C = X[:m] if n >= m else np.random.default_rng(1).normal(size=(m, 2))
    K = gf.KernelMatrix(KERNEL, X, C)
    whitening = SpectralWhitening.of(K)
    return X, whitening, np.ascontiguousarray(whitening.features(np.asarray(K.to_dense())).T)


def test_features_reproduce_the_kernel():
    X, whitening, Z = frames(30, m=30)
    assert whitening.rank == 30
    np.testing.assert_allclose(Z @ Z.T, dense(KERNEL, X, X), atol=1e-10)
    beta = np.linspace(-1, 1, 30)[:, None]
    np.testing.assert_allclose(Z @ beta, dense(KERNEL, X, X) @ whitening.coefficients(beta), atol=1e-9)


def test_projection_is_ridge_regression_at_the_centers():
    X, whitening, _ = frames(40, m=40)
    K, g, penalty = dense(KERNEL, X, X), np.sin(X), 1e-3
    expected = K @ np.linalg.solve(K + 40 * penalty * np.eye(40), g)
    found = K @ whitening.coefficients(whitening.project(g, penalty))
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_leaves_out_what_the_centers_do_not_carry():
    C = np.random.default_rng(0).normal(size=(20, 3))
    whitening = SpectralWhitening.of(gf.KernelMatrix("linear", C))
    assert (whitening.size, whitening.rank) == (20, 3)
    with pytest.raises(ValueError, match="not positive definite"):
        SpectralWhitening.of(gf.KernelMatrix(gf.kernels.Sigmoid(), C))


def check(lengths, lags, cuts, broken, regress, paired):
    n = sum(lengths)
    X, whitening, Z = frames(n)
    whole = np.ones(n, bool)
    whole[[b % n for b in broken]] = False
    runs = np.repeat(np.arange(len(lengths)), lengths)
    U = np.hstack([Z, X**2]) if regress else None
    sums = LagSums(whitening, lags, targets=2, regressors=None if U is None else U.shape[1], paired=paired)
    edges = [0, *sorted(c % n for c in cuts), n]
    for start, stop in itertools.pairwise(edges):
        rows = slice(start, stop)
        sums.add(Z[rows], X[rows], runs[rows], whole[rows], None if U is None else U[rows])
    R = Z if U is None else U
    for lag, found in zip(lags, sums.moments(), strict=True):
        i, j = pairs(lengths, lag)
        used = whole[i] & whole[j]
        i, j = i[used], j[used]
        assert found.count == len(i) == found.cross.weight == found.sums.weight
        for value, expected in (
            (found.cross.before, R[i].T @ R[i]),
            (found.cross.between, R[i].T @ Z[j]),
            (found.cross.after, Z[j].T @ Z[j]),
            (found.sums.features[:, 0], R[i].sum(0)),
            (found.sums.cross, R[i].T @ X[j]),
            (found.sums.targets, X[j].sum(0)),
            (found.sums.squares, (X[j] ** 2).sum(0)),
            (found.change, ((X[j] - X[i]) ** 2).sum(0)),
        ):
            np.testing.assert_allclose(value, expected, atol=1e-12 * max(1, n))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 15), min_size=1, max_size=6),
    st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(0, 60), max_size=4),
    st.lists(st.integers(0, 60), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_are_sums_over_the_pairs_within_runs(lengths, lags, cuts, broken, regress, direct):
    check(lengths, lags, cuts, broken, regress, [0.1 if direct else 0.9] * len(lags))


def test_add_up_and_can_be_taken_apart():
    X, whitening, Z = frames(60)
    whole = np.ones(60, bool)

    def of(rows):
        sums = LagSums(whitening, [2], targets=2)
        sums.add(Z[rows], X[rows], np.zeros(60, int)[rows], whole[rows])
        return sums.moments()[0]

    one, two = of(slice(0, 25)), of(slice(25, 60))
    both = one + two
    assert both.count == 23 + 33
    back = both - one
    np.testing.assert_allclose(back.cross.before, two.cross.before, atol=1e-12)
    np.testing.assert_allclose(back.sums.cross, two.sums.cross, atol=1e-12)
    assert back.count == 33
    other = CrossMoments.of(*(gf.KernelMatrix(KERNEL, X, X[10:16]),) * 2)
    with pytest.raises(ValueError, match="other centers"):
        one.cross + other


@pytest.mark.parametrize("kind", [SpectralWhitening, Whitening])
def test_cross_moments_take_either_whitening(kind):
    X, _, _ = frames(50)
    K = gf.KernelMatrix(KERNEL, X, X[:7])
    before, after = K.rows(slice(49)), K.rows(slice(1, 50))
    whitening = kind.of(K)
    found = CrossMoments.of(before, after, whitening=whitening)
    Z = whitening.features(np.array(K.to_dense()))
    np.testing.assert_allclose(found.between, Z[:, :-1] @ Z[:, 1:].T, atol=1e-12)
    assert not whitening.same_as(object())
