"""Where kernels and length scales start from, before anything is tuned."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from gyrfalcon.estimators.length_scale import automatic_length_scale, resolve_kernels
from gyrfalcon.kernels import ProductLaplacian


@pytest.mark.parametrize("features", [40, 700], ids=["by differences", "by inner products"])
def test_median_distance_of_points_of_which_some_are_equal(features):
    rng = np.random.default_rng(0)
    X = 1e3 + rng.normal(size=(60, features))
    X[40:] = X[:20]
    X[:, 0] = 1e308  # says nothing
    found = automatic_length_scale(X, None, np.random.default_rng(0))
    spread = np.append(1.0, X[:, 1:].std(0))
    distances = pdist((X / spread)[:, 1:])
    distances = np.sort(distances[distances > 1e-9])  # copies of a point say nothing
    expected = spread * distances[(len(distances) - 1) // 2]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(("features", "tried"), [(20, True), (300, False)])
def test_sums_of_absolute_differences_are_not_tried_of_wide_data(features, tried):
    X = np.random.default_rng(0).normal(size=(50, features))
    kernels = resolve_kernels("auto", "auto", X, None, np.random.default_rng(0))
    assert any(isinstance(kernel, ProductLaplacian) for kernel in kernels) == tried
    (named,) = resolve_kernels("product_laplacian", "auto", X, None, np.random.default_rng(0))
    assert isinstance(named, ProductLaplacian)  # what is asked for is taken
