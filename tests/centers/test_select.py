"""What every rule promises, whatever it chooses."""

import itertools

import numpy as np
import pytest
import torch
from scipy import sparse

from gyrfalcon import kernels as gk
from gyrfalcon.centers import RULES, automatic_count, distinct, select
from reference import DTYPES, as_array

pytestmark = pytest.mark.usefixtures("one_thread")

KERNEL = gk.Gaussian(1.0)


def points(n=60, d=3, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[np.abs(X) < 0.3] = 0
    return X


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


KINDS = {
    "array": np.ascontiguousarray,
    "read_only": read_only,
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "tensor": lambda X: torch.from_numpy(X.copy()),
    "tensor_strided": lambda X: torch.from_numpy(X.T.copy()).T,
    "tensor_with_gradient": lambda X: torch.from_numpy(X.copy()).requires_grad_(),
    "csr": sparse.csr_array,
}
if torch.cuda.is_available():
    KINDS["cuda"] = lambda X: torch.from_numpy(X.copy()).cuda()


def numbers(C):
    return C.toarray() if sparse.issparse(C) else as_array(C.detach() if isinstance(C, torch.Tensor) else C)


def choose(rule, X, count, seed=0, **options):
    return RULES[rule](KERNEL, X, count, random=np.random.default_rng(seed), **options)


def rows_of(C, X):
    """Which row of X each row of C is."""
    equal = (numbers(C)[:, None] == numbers(X)[None]).all(axis=2)
    assert equal.any(axis=1).all()
    return equal.argmax(axis=1)


@pytest.mark.parametrize(("rule", "kind"), [(r, k) for r in RULES for k in KINDS if (r, k) != ("kmeans", "csr")])
@pytest.mark.parametrize("dtype", DTYPES)
def test_kind_and_type_are_kept_and_do_not_change_the_choice(rule, kind, dtype):
    plain = points().astype(dtype)
    X = KINDS[kind](plain)
    C = choose(rule, X, 12)
    assert type(C) is type(X)
    assert C.dtype == X.dtype
    assert C.shape == (12, 3)
    if isinstance(C, torch.Tensor):
        assert C.device == X.device
        assert not C.requires_grad
    np.testing.assert_allclose(numbers(C), choose(rule, plain, 12), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", ["uniform", "leverage", "pivoted"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_chosen_are_different_rows_of_x(rule, kind):
    X = KINDS[kind](points())
    assert len(set(rows_of(choose(rule, X, 30), X))) == 30


@pytest.mark.parametrize("rule", RULES)
def test_same_generator_same_centers(rule):
    X, w = points(2000), np.random.default_rng(1).uniform(size=2000)
    first, again, other = (choose(rule, X, 15, seed=seed, weights=w) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [60, 2500])
def test_rows_of_weight_zero_are_never_chosen(rule, n):
    """Those rows are far away, so that every rule would like them and a mean with one of them shows."""
    X, w = points(n), np.random.default_rng(0).integers(0, 3, size=n).astype(float)
    X[w == 0] += 1000
    for seed in range(3):
        C = choose(rule, X, 20, seed=seed, weights=w)
        assert len(C) == 20
        assert np.abs(C).max() < 10


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("count", [1, 2, 59, 60, 61, 1000])
def test_count(rule, count):
    X = points()
    assert choose(rule, X, count).shape == (min(count, 60), 3)
    chosen = select(rule, KERNEL, X, count, random=np.random.default_rng(0))
    if count >= 60:
        np.testing.assert_array_equal(chosen, distinct(X)[0])
    else:
        np.testing.assert_array_equal(chosen, choose(rule, X, count))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("count", [0, -3, 2.5])
def test_bad_counts_are_named(rule, count):
    with pytest.raises((ValueError, TypeError), match=r"count|integer"):
        choose(rule, points(), count)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "X", [np.ones((1, 2)), np.full((50, 3), 0.1), np.zeros((50, 0)), np.zeros((4, 2))], ids=lambda X: str(X.shape)
)
@pytest.mark.parametrize("kernel", [KERNEL, gk.Linear()], ids=repr)
def test_one_point_however_often(rule, X, kernel):
    for count in (1, 3, 100):
        random = np.random.default_rng(0)
        np.testing.assert_array_equal(select(rule, kernel, X, count, random=random), X[:1])
        C = RULES[rule](kernel, X, count, random=random)
        assert 1 <= len(C) <= count
        np.testing.assert_array_equal(C, np.repeat(X[:1], len(C), axis=0))


@pytest.mark.parametrize("rule", RULES)
def test_duplicates_of_every_row(rule):
    """Four copies of everything: no center twice, and as many as there are rows if there is room."""
    X = np.tile(points(40), (4, 1))[np.random.default_rng(5).permutation(160)]
    some = select(rule, KERNEL, X, 10, random=np.random.default_rng(0))
    assert len(distinct(some)[0]) == len(some) >= 6
    for count in (40, 41, 160, 500):
        everything = select(rule, KERNEL, X, count, random=np.random.default_rng(0))
        np.testing.assert_array_equal(everything, distinct(points(40))[0])


@pytest.mark.parametrize("rule", ["kmeans", "pivoted"])
def test_rules_that_look_do_not_choose_equal_rows(rule):
    assert len(distinct(choose(rule, np.tile(points(40), (4, 1)), 20))[0]) == 20
    assert len(choose(rule, np.tile(points(5), (40, 1)), 20)) == 5


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (np.zeros(60), "positive weight"),
        (np.full(60, -1.0), "negative"),
        (np.full(60, np.nan), "finite"),
        (np.ones(9), "60"),
    ],
)
def test_bad_weights_are_named(rule, weights, match):
    for call in (choose, lambda *a, **k: select(a[0], KERNEL, *a[1:], random=np.random.default_rng(0), **k)):
        with pytest.raises(ValueError, match=match):
            call(rule, points(), 10, weights=weights)


@pytest.mark.parametrize("rule", RULES)
def test_weights_of_any_scale_and_skew(rule):
    X = points(2000)
    w = 1e-200 * np.random.default_rng(0).uniform(size=2000) ** 8
    w[7] = 1e100
    C = choose(rule, X, 20, weights=w)
    assert len(C) == (1 if rule == "pivoted" else 20)  # one row has all the weight
    if rule != "kmeans":
        assert 7 in rows_of(C, X)


@pytest.mark.parametrize("rule", RULES)
def test_points_of_extreme_size(rule):
    for size in (1e-150, 1e150):
        kernel = gk.Gaussian(size)
        C = RULES[rule](kernel, points(300) * size, 30, random=np.random.default_rng(0))
        np.testing.assert_allclose(C, size * choose(rule, points(300), 30), rtol=1e-6, atol=1e-6 * size)


# Kernels.


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "kernel",
    [
        gk.Linear(),
        gk.Polynomial(3.0, degree=2),
        0.5 * gk.Matern(1.0, nu=1.5) + gk.Linear(),
        gk.Mapped(gk.Gaussian(1.0), [[1.0, 0.0, 1.0]]),
        gk.Function(lambda X, C: torch.exp(-torch.cdist(X, C))),
        gk.Gaussian(torch.tensor([1.0, 2.0, 3.0], requires_grad=True)),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_any_kernel(rule, kernel, kind):
    X = KINDS[kind](points(250).astype(np.float32))
    C = RULES[rule](kernel, X, 20, random=np.random.default_rng(0))
    assert type(C) is type(X)
    rank = {gk.Linear: 3, gk.Polynomial: 10}.get(type(kernel), 20) if rule == "pivoted" else 20
    assert len(C) == rank


@pytest.mark.parametrize("rule", ["leverage", "pivoted"])
def test_kernels_that_are_not_positive_definite_are_refused(rule):
    with pytest.raises(ValueError, match=f"{rule}.*positive definite.*Sigmoid.*uniform"):
        RULES[rule](gk.Sigmoid(), points(), 10, random=np.random.default_rng(0))


# Select.


def test_unknown_rules_are_answered_with_the_known():
    with pytest.raises(ValueError, match=r"'uniform', 'kmeans', 'leverage', 'pivoted'.*'grid'"):
        select("grid", KERNEL, points(), 10, random=np.random.default_rng(0))


def test_sparse_kmeans_names_the_remedy():
    with pytest.raises(ValueError, match=r"kmeans.*toarray.*uniform"):
        choose("kmeans", sparse.csr_array(points()), 10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("given", ["array", "csr", "tensor", "list", "read_only"])
def test_given_points_are_taken_as_they_are_in_the_kind_of_x(kind, dtype, given):
    X = KINDS[kind](points().astype(dtype))
    wanted = np.array([[1.0, 0.0, 2.0], [1.0, 0.0, 2.0], [0.0, 5.0, -1.0]])
    C = select(wanted.tolist() if given == "list" else KINDS[given](wanted), KERNEL, X, 1, random=None)
    assert type(C) is type(X)
    assert C.dtype == X.dtype
    np.testing.assert_array_equal(numbers(C), wanted)


@pytest.mark.parametrize(
    "given", [np.ones((2, 4)), np.ones(3), np.full((1, 3), np.nan), np.ones((0, 3)), [["a", "b", "c"]]]
)
def test_given_points_that_do_not_fit_are_named(given):
    with pytest.raises((ValueError, TypeError), match="centers"):
        select(given, KERNEL, points(), 5, random=np.random.default_rng(0))


def test_a_callable_is_a_rule():
    seen = {}

    def first(kernel, X, count, **options):
        seen.update(options, kernel=kernel, count=count)
        return X[[0, 1, 0]].tolist()

    X, w, random = points().astype(np.float32), np.ones(60), np.random.default_rng(0)
    given = {"weights": w, "penalty": 0.1, "random": random, "memory_budget": 10**6}
    C = select(first, KERNEL, X, 7, **given)
    np.testing.assert_array_equal(C, X[:2])
    assert C.dtype == np.float32
    assert seen == {"kernel": KERNEL, "count": 7, **given}


# The automatic number.


def test_automatic_count_grows_while_a_pass_is_affordable_and_has_the_stated_values():
    sizes = np.unique(np.concatenate([np.arange(1, 3000), np.geomspace(3000, 4e5, 3000).astype(int), [5000]])).tolist()
    counts = [automatic_count(n, 4, 10**12) for n in sizes]
    assert all(count == n if n <= 5000 else count >= 2000 for n, count in zip(sizes, counts, strict=True))
    assert all(a <= b for a, b in itertools.pairwise(counts[sizes.index(5000) + 1 :]))
    assert automatic_count(10**5, 4, 10**12) == 3162
    assert automatic_count(10**5, 4, 10**12, outputs=4) == 6324
    assert automatic_count(10**5, 4, 10**12, outputs=100) == 10_000
    counts = [automatic_count(n, 4, 10**12) for n in np.geomspace(5e5, 1e12, 500).astype(int).tolist()]
    assert all(a >= b >= 1000 for a, b in itertools.pairwise(counts))
    assert counts[-1] == 1000


@pytest.mark.parametrize("budget", [1, 10**4, 10**6, 10**8, 10**9])
@pytest.mark.parametrize("n", [1, 50, 10**4, 10**7])
def test_automatic_count_fits_the_budget(budget, n):
    m = automatic_count(n, 8, budget)
    assert m == 1 or 24 * m**2 <= budget
    assert 1 <= m <= n
    assert m in (n, 1000, 2000, 10_000) or 24 * (m + 1) ** 2 + 8 * 1024 * (m + 1) > budget
