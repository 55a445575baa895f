"""What each rule claims, measured with seeds and margins against dense float64 oracles."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from gyrfalcon import kernels as gk
from gyrfalcon.centers import kmeans, leverage, leverage_scores, pivoted, uniform
from reference import centers as oracle
from reference import dense

pytestmark = pytest.mark.usefixtures("one_thread")

KERNEL = gk.Gaussian(1.0)


def clustered(n=2000, d=3, seed=0):
    """One broad cluster of nearly all rows, and ten small ones far from it and from each other."""
    random = np.random.default_rng(seed)
    small = 10 * random.normal(size=(10, 1, d)) + 0.5 * random.normal(size=(10, n // 200, d))
    return np.concatenate([0.5 * random.normal(size=(n - 10 * (n // 200), d)), small.reshape(-1, d)])


# Uniform.


def test_the_first_draw_follows_the_weights():
    X, w = np.arange(5.0)[:, None], np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    random = np.random.default_rng(0)
    drawn = [int(uniform(KERNEL, X, 1, weights=w, random=random)[0, 0]) for _ in range(2000)]
    expected = 2000 * w / w.sum()
    assert np.all(np.abs(np.bincount(drawn, minlength=5) - expected) <= 4 * np.sqrt(expected))


def test_later_draws_follow_the_weights_that_are_left():
    """P(row 0 among two of three) for weights 1, 1, 2 is 1/4 + 1/4 · 1/3 + 1/2 · 1/2 = 7/12."""
    X, w = np.arange(3.0)[:, None], np.array([1.0, 1.0, 2.0])
    random = np.random.default_rng(0)
    hits = sum(0.0 in uniform(KERNEL, X, 2, weights=w, random=random) for _ in range(2000))
    assert abs(hits / 2000 - 7 / 12) <= 4 * np.sqrt(7 / 12 * 5 / 12 / 2000)


@pytest.mark.parametrize("weights", [None, np.full(8, 0.3)])
def test_equal_weights_are_equally_likely(weights):
    X, random = np.arange(8.0)[:, None], np.random.default_rng(0)
    drawn = np.concatenate([uniform(KERNEL, X, 3, weights=weights, random=random) for _ in range(2000)])
    assert np.all(np.abs(np.bincount(drawn[:, 0].astype(int), minlength=8) - 750) <= 4 * np.sqrt(750))


@pytest.mark.parametrize("rule", [uniform, leverage, pivoted])
def test_weight_two_is_two_rows(rule):
    """How often the rows of a small region are chosen: by weight, by repetition, and differently if they count once."""
    X = np.linspace(-1, 1, 60)[:, None]
    w = np.where(X[:, 0] > 0.5, 5.0, 1.0)

    def chosen(points, weights):
        random = np.random.default_rng(1)
        picks = [rule(gk.Gaussian(0.02), points, 4, weights=weights, penalty=1e-1, random=random) for _ in range(100)]
        return np.mean(np.concatenate(picks) > 0.5)

    weighted, repeated, once = chosen(X, w), chosen(np.repeat(X, w.astype(int), axis=0), None), chosen(X, None)
    assert abs(weighted - repeated) <= 0.1
    assert weighted >= once + 0.15


# K-means.


@pytest.mark.parametrize(("n", "count", "dtype"), [(2000, 40, np.float64), (5000, 100, np.float32)])
def test_kmeans_quantizes_far_better_than_rows_and_nearly_as_well_as_scikit_learn(n, count, dtype):
    X = clustered(n, d=2).astype(dtype)
    some = X[::5]
    found = oracle.quantization_error(some, kmeans(KERNEL, X, count, random=np.random.default_rng(0)))
    rows = oracle.quantization_error(some, uniform(KERNEL, X, count, random=np.random.default_rng(0)))
    peer = oracle.quantization_error(some, KMeans(count, random_state=0).fit(X).cluster_centers_)
    assert found <= 0.5 * rows
    assert found <= 1.1 * peer


def test_kmeans_on_a_sample_is_nearly_as_good():
    """4000 rows of 20,000 are looked at."""
    X = clustered(20_000, d=2)
    found = oracle.quantization_error(X[::10], kmeans(KERNEL, X, 40, random=np.random.default_rng(0)))
    peer = oracle.quantization_error(X[::10], KMeans(40, random_state=0).fit(X).cluster_centers_)
    assert found <= 1.25 * peer


def test_kmeans_finds_all_separated_clusters():
    random = np.random.default_rng(0)
    sites = 100 * random.normal(size=(30, 4))
    X = np.repeat(sites, random.integers(1, 200, size=30), axis=0)
    C = kmeans(KERNEL, X + 0.01 * random.normal(size=X.shape), 30, random=random)
    distances = np.sqrt(np.sum((sites[:, None] - C[None]) ** 2, axis=2))
    assert np.mean(distances.min(axis=1) < 0.1) >= 0.9


@pytest.mark.parametrize("scaled", [gk.Gaussian([1.0, 100.0]), 2.0 * gk.Matern([1.0, 100.0], nu=1.5)], ids=repr)
def test_kmeans_measures_as_the_kernel_does(scaled):
    """Spread ten times wider along the second feature, which the kernel hardly sees: clusters divide the first."""
    X = np.random.default_rng(0).normal(size=(2000, 2)) * [1.0, 10.0]
    spread = {}
    for kernel in (scaled, gk.Gaussian(1.0)):
        C = kmeans(kernel, X, 8, random=np.random.default_rng(0))
        spread[kernel] = np.std(C[:, 0])
    assert spread[scaled] >= 0.8
    assert spread[gk.Gaussian(1.0)] <= 0.4


def test_kmeans_weights_move_the_means():
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    C = kmeans(KERNEL, X, 2, weights=np.array([1.0, 3.0, 2.0, 0.0]), random=np.random.default_rng(0))
    np.testing.assert_allclose(np.sort(C, axis=0), [[0.75], [10.0]])


def test_kmeans_keeps_digits_far_from_the_origin():
    X = clustered(500, d=2)
    near = kmeans(KERNEL, X, 20, random=np.random.default_rng(0))
    far = kmeans(KERNEL, X + 1e6, 20, random=np.random.default_rng(0))
    np.testing.assert_allclose(far - 1e6, near, atol=1e-8)


def test_kmeans_squares_no_number_that_is_too_large():
    X = clustered(500, d=2)
    near = kmeans(KERNEL, X, 20, random=np.random.default_rng(0))
    np.testing.assert_allclose(kmeans(KERNEL, X * 1e200, 20, random=np.random.default_rng(0)) / 1e200, near, rtol=1e-8)


# Leverage scores.


@pytest.mark.parametrize(
    ("penalty", "weighted", "dtype"),
    [(1e-2, False, np.float64), (1e-4, True, np.float64), (1e-6, False, np.float64), (1e-4, False, np.float32)],
)
def test_scores_are_within_a_factor_of_two(penalty, weighted, dtype):
    X = clustered(1200)
    w = np.random.default_rng(1).integers(0, 4, size=len(X)).astype(float) if weighted else None
    exact = oracle.leverage_scores(dense(KERNEL, X, X), penalty, w)
    rows, scores, chance = leverage_scores(
        KERNEL, X.astype(dtype), 300, weights=w, penalty=penalty, random=np.random.default_rng(0)
    )
    np.testing.assert_array_equal(rows, np.arange(len(X)) if w is None else np.flatnonzero(w))
    assert (chance == 1).all()
    ratio = scores / exact[rows]
    assert np.mean((ratio > 0.5) & (ratio < 2)) >= 0.9
    assert np.ptp(np.log(exact[rows])) >= np.log(8)  # a constant would not do
    assert 0.7 <= scores.sum() / exact.sum() <= 1.5


def test_scores_of_a_sample_stand_for_all():
    """With 2000 candidates for 10,000 rows, Σ score / chance is the effective dimension still."""
    X = clustered(10_000)
    rows, scores, chance = leverage_scores(KERNEL, X, 200, penalty=1e-3, random=np.random.default_rng(0))
    assert 1800 <= len(rows) <= 2200
    some = np.random.default_rng(1).choice(len(X), 1500, replace=False)
    dimension = oracle.leverage_scores(dense(KERNEL, X[some], X[some]), 1e-3).sum()
    assert 0.7 <= np.sum(scores / chance) / dimension <= 1.4


def test_scores_are_exact_where_the_dictionary_holds_all():
    X, w = clustered(200), np.random.default_rng(0).uniform(0.1, 2, size=200)
    rows, scores, _ = leverage_scores(KERNEL, X, 200, weights=w, penalty=1e-3, random=np.random.default_rng(0))
    np.testing.assert_allclose(scores, oracle.leverage_scores(dense(KERNEL, X, X), 1e-3, w)[rows], rtol=1e-8)


@pytest.mark.parametrize("penalty", [0.0, 1e-12, 1.0, 1e6])
def test_extreme_penalties(penalty):
    X = clustered(1000)
    assert len(leverage(KERNEL, X, 50, penalty=penalty, random=np.random.default_rng(0))) == 50


@pytest.mark.parametrize("rule", [leverage, pivoted])
def test_rules_that_look_find_the_small_clusters(rule):
    """Ten clusters of half a per cent of the rows each: 60 rows by chance miss several, these rules hardly any."""
    X = clustered()
    sites = X[-100:].reshape(10, 10, 3)

    def found(C):
        return np.mean([np.min(np.abs(site[:, None] - C[None]).max(axis=2)) == 0 for site in sites])

    looked = [found(rule(KERNEL, X, 60, penalty=1e-4, random=np.random.default_rng(s))) for s in range(5)]
    blind = [found(uniform(KERNEL, X, 60, random=np.random.default_rng(s))) for s in range(5)]
    assert np.mean(looked) >= 0.9
    assert np.mean(blind) <= 0.5


# Pivoted Cholesky.


def trace_error(X, K, C):
    return oracle.nystrom_trace_error(K, dense(KERNEL, X, C), dense(KERNEL, C, C))


def test_pivots_leave_far_less_of_the_trace_than_rows():
    X = clustered(1200)
    K = dense(KERNEL, X, X)
    errors = {
        rule: np.mean([trace_error(X, K, rule(KERNEL, X, 100, random=np.random.default_rng(s))) for s in range(3)])
        for rule in (pivoted, uniform)
    }
    assert errors[pivoted] <= 0.2 * errors[uniform]


@pytest.mark.parametrize("rank", [5, 15])
def test_pivots_keep_the_known_bound(rank):
    """E tr(K - K̂) ≤ (1 + ε) tr(K - [K]ᵣ) with r/ε + r log(1/(εη)) pivots, η the relative error of [K]ᵣ; ε = 1 here."""
    X = clustered(800)
    K = dense(KERNEL, X, X)
    best = oracle.best_trace_error(K, rank)
    count = int(np.ceil(rank + rank * np.log(np.trace(K) / best)))
    assert count < 100
    errors = [trace_error(X, K, pivoted(KERNEL, X, count, random=np.random.default_rng(s))) for s in range(10)]
    assert np.mean(errors) <= 2 * best


def test_pivots_in_blocks_are_distributed_as_one_by_one():
    """The second pivot given the first, whose law is k(x, x) - k(x, p)² normalized."""
    X = np.array([[0.0], [0.5], [1.0], [4.0]])
    left = 1 - dense(KERNEL, X, X) ** 2
    second = (left / left.sum(axis=1, keepdims=True)).mean(axis=0)
    random = np.random.default_rng(0)
    drawn = [pivoted(KERNEL, X, 2, random=random)[1, 0] for _ in range(600)]
    frequencies = np.mean(np.array(drawn)[:, None] == X[:, 0], axis=0)
    assert np.all(np.abs(frequencies - second) <= 4 * np.sqrt(second / 600))


def test_pivots_end_with_the_rank():
    X = np.random.default_rng(0).normal(size=(500, 7))
    for kernel, rank in ((gk.Linear(), 7), (gk.Polynomial(1.0, degree=2, offset=1.0), 36)):
        C = pivoted(kernel, np.concatenate([X, X, 2 * X]), 200, random=np.random.default_rng(0))
        assert len(C) == rank
        K = dense(kernel, X, X)
        assert oracle.nystrom_trace_error(K, dense(kernel, X, C), dense(kernel, C, C)) <= 1e-9 * np.trace(K)


def test_pivots_end_where_a_smooth_kernel_is_numerically_singular():
    """Pivots end where less than 10⁻¹² is left of every diagonal entry, and not before."""
    X = np.random.default_rng(0).uniform(size=(2000, 1))
    C = pivoted(KERNEL, X, 400, random=np.random.default_rng(0))
    K = dense(KERNEL, X, X)
    assert trace_error(X, K, C) <= 1e-12 * np.trace(K)
    assert trace_error(X, K, C[:-1]) > 1e-12


def test_pivots_stay_inside_the_memory_budget():
    import tracemalloc

    X = clustered(20_000)
    tracemalloc.start()
    C = pivoted(KERNEL, X, 200, random=np.random.default_rng(0), memory_budget=10**7)
    assert tracemalloc.get_traced_memory()[1] <= 1.5e7
    tracemalloc.stop()
    assert len(C) == 200
    with pytest.raises(ValueError, match=r"memory_budget=100000.*uniform"):
        pivoted(KERNEL, X, 200, random=np.random.default_rng(0), memory_budget=100_000)
