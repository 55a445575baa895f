"""The tree of a partition: every row in a leaf, no leaf too large, weights that add up to one, and an end to ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.centers import distinct
from gyrfalcon.partition import Partition, Tree
from gyrfalcon.partition.coordinates import coordinates_of
from gyrfalcon.partition.directions import leading_direction
from gyrfalcon.partition.tree import grow, right_share
from reference.partition import leaf_weights

random = np.random.default_rng(0)


@st.composite
def grown(draw):
    """Distinct rows, some with many ties, and their tree."""
    n, d = draw(st.integers(1, 300)), draw(st.integers(1, 5))
    values = draw(st.sampled_from([1, 2, 5, 1000]))
    X = np.random.default_rng(draw(st.integers(0, 100))).integers(0, values, (n, d)) * 1.0
    X = distinct(X)[0]
    partition = Partition(draw(st.integers(2, 60)), draw(st.sampled_from([0.0, 0.01, 0.1, 0.2])))
    return X, partition, *grow(X, np.ones(d), partition)


@settings(max_examples=150, deadline=None)
@given(grown())
def test_every_row_is_in_a_leaf_and_no_leaf_is_too_large(case):
    X, partition, tree, leaves = case
    assert set(np.concatenate(leaves)) == set(range(len(X)))
    assert max(map(len, leaves)) <= partition.leaf_rows
    assert tree.n_leaves == len(leaves)
    if partition.overlap == 0:
        assert sum(map(len, leaves)) == len(X)


@settings(max_examples=60, deadline=None)
@given(grown(), st.integers(0, 100))
def test_weights_are_those_of_a_walk_down_the_tree_and_add_up_to_one(case, seed):
    X, _, tree, leaves = case
    new = np.random.default_rng(seed).normal(size=(20, X.shape[1])) * 3
    points = np.concatenate([X, new])
    given = [{} for _ in points]
    for leaf, rows, weights in tree.visits(points):
        for row, weight in zip(rows, weights, strict=True):
            given[row][leaf] = weight
    assert [sum(found.values()) for found in given] == pytest.approx([1.0] * len(points), abs=1e-12)
    if (tree.lower == tree.upper).any():  # on such a border the last bit of a projection decides
        return
    for x, found in zip(points, given, strict=True):
        expected = leaf_weights(tree, x)
        for leaf in found.keys() | expected.keys():  # the weight changes by twice the rounding of the projection
            assert found.get(leaf, 0.0) == pytest.approx(expected.get(leaf, 0.0), abs=1e-11)
        alone = {leaf: weights[0] for leaf, _, weights in tree.visits(x[None])}
        for leaf in alone.keys() | expected.keys():
            assert alone.get(leaf, 0.0) == pytest.approx(expected.get(leaf, 0.0), abs=1e-11)
    for row, found in enumerate(given[: len(X)]):  # whoever answers for a training row has learned from it
        assert all(row in leaves[leaf] for leaf, weight in found.items() if weight > 1e-11)


def test_no_border_is_as_narrow_as_the_rounding_of_a_projection():
    for seed in range(40):
        X = distinct(np.random.default_rng(seed).integers(0, 5, (240, 5)) * 1.0)[0]
        for overlap in (0.0, 0.1):
            tree, _ = grow(X, np.ones(5), Partition(5, overlap))
            gaps = tree.upper - tree.lower
            assert (gaps[gaps > 0] > 1e-13).all()


def test_the_number_of_shared_rows_is_proportional_to_the_number_of_rows():
    shares = []
    for n in (2000, 16000, 64000):
        leaves = grow(random.normal(size=(n, 2)), np.ones(2), Partition(100, 0.1))[1]
        shares.append(sum(map(len, leaves)) / n)
    assert max(shares) < 2.5  # were it a fixed part at each of twelve levels, 1.2¹² = 9
    assert shares[2] < 1.05 * shares[1]


@pytest.mark.parametrize(
    "X",
    [
        np.eye(400),  # every row is as far from every other
        np.repeat(np.eye(4), 100, 0) + np.r_[0:400][:, None] * np.eye(4)[3] * 1e-3,
        np.concatenate([np.zeros((380, 3)), random.normal(size=(20, 3))]) + np.r_[0:400][:, None] * [0, 0, 1e-9],
        2.0 ** -np.r_[0:400][:, None],
        np.r_[0:400][:, None] * np.ones(3) * 1e300,
    ],
    ids=["one-hot", "few categories", "nearly all equal", "geometric", "huge"],
)
def test_ties_end_in_balanced_leaves(X):
    tree, leaves = grow(X, coordinates_of(gf.kernels.Gaussian(1.0), X), Partition(50, 0.1))
    assert max(map(len, leaves)) <= 50
    assert min(map(len, leaves)) >= 10
    assert np.isfinite(tree.directions).all()


def test_rows_that_a_kernel_cannot_tell_apart_are_split_by_rank():
    X = distinct(random.normal(size=(200, 3)))[0]
    kernel = gf.kernels.Mapped(gf.kernels.Gaussian(1.0), np.zeros((2, 3)))
    tree, leaves = grow(X, coordinates_of(kernel, X), Partition(60, 0.1))
    assert [len(rows) for rows in leaves] == [50] * 4
    np.testing.assert_array_equal(sorted(leaf_weights(tree, X[0]).values()), [0.25] * 4)
    assert [float(weights[0]) for _, _, weights in tree.visits(X[:1])] == [0.25] * 4


def test_splits_are_along_the_leading_direction_in_length_scales():
    X = random.normal(size=(5000, 3)) * [1.0, 5.0, 2.0]
    along = leading_direction(X, np.ones(3))
    assert abs(along[1]) / np.linalg.norm(along) > 0.99
    along = leading_direction(X, coordinates_of(gf.kernels.ProductLaplacian([0.1, 100.0, 2.0]), X))
    assert abs(along[0]) / np.linalg.norm(along) > 0.99
    values, vectors = np.linalg.eigh(np.cov(X[:2000] @ np.diag([1.0, 1 / 4, 1 / 3]), rowvar=False))
    found = leading_direction(X[:2000], np.array([1.0, 1 / 4, 1 / 3]))
    expected = vectors[:, -1] * [1.0, 1 / 4, 1 / 3]
    assert abs(found @ expected) / np.linalg.norm(found) / np.linalg.norm(expected) > 1 - 1e-3
    assert values[-1] > values[-2]


def test_the_direction_of_sparse_rows_is_that_of_dense_ones():
    X = sparse.csr_array(random.random((500, 8)) * (random.random((500, 8)) < 0.3))
    dense, scale = X.toarray(), np.linspace(1, 3, 8)
    np.testing.assert_allclose(leading_direction(X, scale), leading_direction(dense, scale), rtol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (gf.kernels.Gaussian(2.0), [0.5, 0.5]),
        (gf.kernels.ProductLaplacian([2.0, 4.0]), [0.5, 0.25]),
        (3.0 * gf.kernels.Matern(2.0), [0.5, 0.5]),
        (gf.kernels.Gaussian([1 / 3, 1.0]) + gf.kernels.Gaussian([1 / 4, 1.0]), [5.0, np.sqrt(2)]),
        (gf.kernels.Mapped(gf.kernels.Gaussian(2.0), [[1.0, -1.0]]), [[0.5, -0.5]]),
        (
            gf.kernels.Mapped(gf.kernels.Gaussian(2.0), [[1.0, -1.0]]) * gf.kernels.Linear(),
            [[0.5, -0.5], [1.0, 0.0], [0.0, 1.0]],
        ),
        (gf.kernels.Function(lambda x, c: x @ c.T), [1 / 2, 1 / 4]),
    ],
)
def test_coordinates_are_those_that_a_kernel_measures_by(kernel, expected):
    X = np.array([[2.0, 4.0], [-2.0, -4.0]])
    np.testing.assert_allclose(coordinates_of(kernel, X), expected)
    if isinstance(kernel, gf.kernels.Function):
        np.testing.assert_allclose(coordinates_of(kernel, sparse.csr_array(X)), expected)


def test_the_share_of_a_side_has_two_continuous_derivatives():
    at = np.linspace(-0.5, 1.5, 4001)
    share = right_share(at, 0.0, 1.0)
    step = at[1] - at[0]
    assert share[at <= 0].max() == 0
    assert share[at >= 1].min() == 1
    assert np.abs(np.diff(share, 3)).max() / step**2 < 70 * step  # the third derivative is at most 60


DAMAGE = {
    "a circle": lambda t: t["children"].__setitem__((1, 0), 0),
    "a leaf twice": lambda t: t["children"].__setitem__((0, 0), -1),
    "no number": lambda t: t["lower"].__setitem__(0, np.nan),
    "too short": lambda t: t.__setitem__("upper", t["upper"][:-1]),
    "other features": lambda t: t.__setitem__("directions", t["directions"][:, :1]),
    "other type": lambda t: t.__setitem__("children", t["children"].astype(np.float64)),
}


def test_a_tree_is_read_as_it_was_written():
    tree = grow(random.normal(size=(100, 2)), np.ones(2), Partition(10))[0]
    again = Tree.from_arrays(tree.to_arrays(), 2)
    for name, array in tree.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array)


@pytest.mark.parametrize("how", DAMAGE)
def test_what_is_no_tree_is_refused(how):
    arrays = {
        name: array.copy()
        for name, array in grow(random.normal(size=(100, 2)), np.ones(2), Partition(10))[0].to_arrays().items()
    }
    DAMAGE[how](arrays)
    with pytest.raises(ValueError, match="partition"):
        Tree.from_arrays(arrays, 2)
