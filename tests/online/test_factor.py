"""The triangular factor against a QR decomposition of all rows, in the compiled core and by LAPACK."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gyrfalcon.online import factor as module
from gyrfalcon.online.factor import Factor
from gyrfalcon.online.window import Window
from reference.recursive import forgotten, ridge


def _rows(n, d, t, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(n, t))


def _dense(X, Y, penalty):
    stacked = np.vstack([np.hstack([np.sqrt(penalty) * np.eye(X.shape[1]), np.zeros((X.shape[1], Y.shape[1]))]),
                         np.hstack([X, Y])])  # fmt: skip
    R = np.linalg.qr(stacked, mode="r")[: X.shape[1]]
    return R * np.sign(np.diag(R))[:, None]


@pytest.fixture(params=["rotations", "LAPACK"])
def way(request, monkeypatch):
    if request.param == "LAPACK":
        monkeypatch.setattr(module, "core", None)
    else:
        pytest.importorskip("gyrfalcon._native")
        monkeypatch.setattr(module, "BLOCK_ROWS", 10**9)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("n", "d", "t"), [(1, 1, 1), (5, 9, 2), (300, 20, 3), (40, 7, 0)])
def test_is_the_factor_of_the_stacked_rows(n, d, t):
    X, Y = _rows(n, d, t)
    factor = Factor(np.full(d, 0.5), t)
    for start in range(0, n, 3):
        factor.add(X[start : start + 3], Y[start : start + 3])
    np.testing.assert_allclose(factor.table, _dense(X, Y, 0.5), atol=1e-12)
    W, _ = ridge(X, Y, 0.5, intercept=False)
    np.testing.assert_allclose(factor.coefficients(), W, atol=1e-12)
    objective = ((Y - X @ W) ** 2).sum(0) + 0.5 * (W**2).sum(0)
    np.testing.assert_allclose(factor.objective(), objective, rtol=1e-11)


@pytest.mark.usefixtures("way")
def test_rows_of_zeros_and_huge_and_tiny_numbers():
    factor = Factor(np.array([0.0, 1e-300, 1.0]), 1)
    factor.add(np.zeros((2, 3)), np.zeros((2, 1)))
    assert np.isfinite(factor.table).all()
    factor.add(np.array([[1e90, 1e-160, 1.0]]), np.array([[1.0]]))
    factor.add(np.array([[1e-200, 1e-200, 1e-200]]), np.array([[1e-200]]))
    assert np.isfinite(factor.table).all()
    assert (np.diag(factor.R) >= 0).all()


@pytest.mark.usefixtures("way")
@given(
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    forgetting=st.sampled_from([1.0, 0.999, 0.9, 0.5]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=30, deadline=None)
def test_any_batches_and_any_forgetting(cuts, forgetting, seed):
    n = sum(cuts)
    X, Y = _rows(n, 6, 2, seed)
    factor = Factor(np.full(6, 0.3), 2)
    start = 0
    for count in cuts:
        factor.add(X[start : start + count], Y[start : start + count], forgetting=forgetting)
        start += count
    weights = forgotten(n, forgetting)
    W, _ = ridge(X, Y, 0.3, weights, intercept=False)
    np.testing.assert_allclose(factor.coefficients(), W, atol=1e-11)
    objective = weights @ (Y - X @ W) ** 2 + 0.3 * (W**2).sum(0)
    np.testing.assert_allclose(factor.objective(), objective, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(factor.predict(X[:1]), X[:1] @ W, atol=1e-11)
    A = X.T @ (weights[:, None] * X) + 0.3 * np.eye(6)
    V = factor.project(X)[0]
    np.testing.assert_allclose(factor.variances(V), np.einsum("ij,ij->i", X, np.linalg.solve(A, X.T).T), rtol=1e-9)


@given(first=st.integers(1, 60), second=st.integers(1, 60), seed=st.integers(0, 10**6), free=st.integers(0, 1))
@settings(max_examples=30, deadline=None)
def test_merging_is_training_on_both(first, second, seed, free):
    X, Y = _rows(first + second, 5, 2, seed)
    if free:
        X[:, 0] = 1.0
    penalties = np.full(5, 0.2)
    penalties[:free] = 0.0
    one, two, both = Factor(penalties, 2), Factor(penalties, 2), Factor(penalties, 2)
    one.add(X[:first], Y[:first])
    two.add(X[first:], Y[first:])
    both.add(X, Y)
    one.merge(two)
    np.testing.assert_allclose(one.table, both.table, atol=1e-11)
    np.testing.assert_allclose(one.objective(), both.objective(), atol=1e-10)
    assert one.weight == both.weight


@given(
    length=st.integers(1, 20),
    cuts=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    forgetting=st.sampled_from([1.0, 0.9]),
)
@settings(max_examples=60, deadline=None)
def test_windows_are_the_last_rows(length, cuts, forgetting):
    X, Y = _rows(sum(cuts), 3, 2, sum(cuts))
    window = Window(np.full(3, 0.1), 2, length, forgetting)
    seen = 0
    for count in cuts:
        window.add(X[seen : seen + count], Y[seen : seen + count])
        seen += count
        last = slice(max(0, seen - length), seen)
        weights = forgotten(seen - last.start, forgetting)
        W, _ = ridge(X[last], Y[last], 0.1, weights, intercept=False)
        np.testing.assert_allclose(window.factor().coefficients(), W, atol=1e-11)
        np.testing.assert_allclose(window.totals(), weights @ Y[last], atol=1e-11)
        again = Window.from_arrays(window.penalties, length, forgetting, window.arrays("w"), "w")
        assert (again.factor().table == window.factor().table).all()


def test_outputs_come_and_go():
    X, Y = _rows(50, 4, 3)
    factor, window = Factor(np.full(4, 0.1), 1), Window(np.full(4, 0.1), 1, 30)
    for memory in (factor, window):
        memory.add(X[:20], Y[:20, :1])
        if memory is window:
            memory.factor()
        memory.grow(1)
        memory.grow(1)
        memory.add(X[20:], Y[20:])
    known = Y.copy()
    known[:20, 1:] = 0
    np.testing.assert_allclose(factor.coefficients(), ridge(X, known, 0.1, intercept=False)[0], atol=1e-12)
    np.testing.assert_allclose(
        window.factor().coefficients(), ridge(X[20:], Y[20:], 0.1, intercept=False)[0], atol=1e-12
    )
    for memory in (factor, window):
        memory.drop(1)
    np.testing.assert_allclose(factor.coefficients(), ridge(X, known[:, ::2], 0.1, intercept=False)[0], atol=1e-12)
    np.testing.assert_allclose(
        window.factor().coefficients(), ridge(X[20:], Y[20:, ::2], 0.1, intercept=False)[0], atol=1e-12
    )


def test_a_constant_input_that_is_forgotten_keeps_the_state_bounded():
    factor = Factor(np.full(5, 1e-3), 1)
    x, y = np.ones((1, 5)), np.ones((1, 1))
    for _ in range(100_000):
        factor.add(x, y, forgetting=0.99)
    assert np.isfinite(factor.table).all()
    values = np.linalg.svd(factor.R, compute_uv=False)
    assert values[0] < 30
    assert values[-1] > 0.01
    np.testing.assert_allclose(factor.predict(x), 1.0, atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 5, 8, 9, 16, 31, 70])
@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_windows_that_are_asked_at_every_moment(length, forgetting):
    X, Y = _rows(230, 3, 2, length)
    Y[:50, 1] = 0.0
    window, asleep = Window(np.full(3, 0.1), 1, length, forgetting), Window(np.full(3, 0.1), 2, length, forgetting)
    for t in range(len(X)):
        if t == 50:
            window.grow(1)
        window.add(X[t : t + 1], Y[t : t + 1, : window.outputs])
        asleep.add(X[t : t + 1], Y[t : t + 1])
        if t in range(120, 127):
            continue  # nobody asks for a while
        last = slice(max(0, t + 1 - length), t + 1)
        weights = forgotten(t + 1 - last.start, forgetting)
        W, _ = ridge(X[last], Y[last, : window.outputs], 0.1, weights, intercept=False)
        np.testing.assert_allclose(window.factor().coefficients(), W, atol=1e-11)
        if t % 13 == 0:  # one that makes up for it all has the same bits
            again = Window.from_arrays(window.penalties, length, forgetting, window.arrays("w"), "w")
            assert (again.factor().table == window.factor().table).all()
    assert (asleep.factor().table == window.factor().table).all()


@pytest.mark.parametrize("length", [100, 1000])
def test_no_moment_of_a_window_has_much_more_to_do_than_others(length, monkeypatch):
    X, Y = _rows(3 * length, 2, 1)
    window = Window(np.full(2, 0.1), 1, length)
    window.add(X[:length], Y[:length])
    taken, add = [], Factor.add

    def counted(self, X, *rest, **more):
        taken[-1] += len(X)
        add(self, X, *rest, **more)

    monkeypatch.setattr(Factor, "add", counted)
    for t in range(length, 3 * length):
        taken.append(0)
        window.factor()
        window.add(X[t : t + 1], Y[t : t + 1])
    # A level takes up eight rows that arrived and at most sixteen old ones, and a moment seven.
    assert max(taken[2:]) <= 2 * 24 + 15
    assert np.mean(taken[2:]) <= 30


def test_penalties_come_back_a_few_at_a_time(monkeypatch):
    pytest.importorskip("gyrfalcon._native")
    X, Y = _rows(900, 40, 2)
    penalties = np.full(40, 0.7)
    penalties[0] = 0.0
    factor = Factor(penalties, 2)
    monkeypatch.setattr(Factor, "top_up", None)  # nobody has to make up for all of them at once
    for t in range(900):
        factor.add(X[t : t + 1], Y[t : t + 1], forgetting=0.99)
        assert factor.held.min() > 0.9
        if t % 100 == 99:
            weights = forgotten(t + 1, 0.99)
            A = X[: t + 1].T @ (weights[:, None] * X[: t + 1]) + np.diag(penalties)
            W = np.linalg.solve(A, X[: t + 1].T @ (weights[:, None] * Y[: t + 1]))
            np.testing.assert_allclose(factor.project(X[:1])[1], X[:1] @ W, atol=1e-12)
            np.testing.assert_allclose(factor.coefficients(), W, atol=1e-12)
            residuals = weights @ (Y[: t + 1] - X[: t + 1] @ W) ** 2 + penalties @ W**2
            np.testing.assert_allclose(factor.objective(), residuals, rtol=1e-10)


def test_reading_changes_no_bits():
    X, Y = _rows(300, 12, 1)
    read, left = Factor(np.full(12, 0.4), 1), Factor(np.full(12, 0.4), 1)
    for t in range(300):
        for factor in (read, left):
            factor.add(X[t : t + 1], Y[t : t + 1], forgetting=0.97)
        read.coefficients(), read.objective(), read.variances(read.project(X[:3])[0]), read.copy(), read.arrays("f")
        if t == 150:
            read = Factor.from_arrays(read.penalties, read.arrays("f"), "f")
    assert (read.table == left.table).all()
    assert (read.leftover == left.leftover).all()


def test_files_with_one_share_for_all_penalties():
    X, Y = _rows(60, 5, 1)
    factor = Factor(np.array([0.0, 0.3, 0.3, 0.3, 0.3]), 1)
    factor.add(X, Y)
    factor.forget(0.5)
    known = {"f.table": factor.table, "f.leftover": factor.leftover, "f.numbers": np.array([factor.weight, 0.5])}
    again = Factor.from_arrays(factor.penalties, known, "f")
    np.testing.assert_allclose(again.coefficients(), factor.coefficients(), rtol=1e-12)
    with pytest.raises(ValueError, match="shares of penalties"):
        Factor.from_arrays(factor.penalties, known | {"f.held": np.full(5, 1.5)}, "f")


@given(d=st.integers(1, 30), seed=st.integers(0, 10**6), share=st.floats(0.0, 2.9))
@settings(max_examples=30, deadline=None)
def test_missing_penalties_in_the_compiled_core(d, seed, share):
    core = pytest.importorskip("gyrfalcon._native")
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(2 * d, d))
    penalties = rng.uniform(0.1, 1.0, size=d)
    R = np.linalg.cholesky(A.T @ A + np.diag(penalties)).T.copy()
    V = rng.normal(size=(3, d))
    found = V.copy()
    core.with_missing(R, share * penalties, found)
    inverse = np.linalg.inv(R)
    expected = np.linalg.solve(np.eye(d) + inverse.T @ np.diag(share * penalties) @ inverse, V.T).T
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="missing"):
        core.with_missing(R, np.ones(d + 1), found)
