"""What points say of themselves and of each other."""

import numpy as np
import pytest
from scipy import sparse

from gyrfalcon.data import Points
from gyrfalcon.data.points import common_features


@pytest.mark.parametrize("features", [50, 10**8], ids=["few features", "many features"])
def test_features_in_common_are_counted(features):
    rng = np.random.default_rng(0)
    places = np.sort(rng.choice(features, 50, replace=False))
    A, B = (sparse.random(n, 50, 0.3, random_state=n, format="csr") for n in (40, 7))
    expected = ((A.toarray() != 0) @ (B.toarray() != 0).T.astype(float)).mean()
    wide = [
        Points(sparse.csr_array((M.data, places[M.indices], M.indptr), shape=(M.shape[0], features))) for M in (A, B)
    ]
    assert common_features(*wide) == pytest.approx(expected)


def test_features_in_common_with_nothing_or_with_dense_points():
    A = Points(sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])))
    assert common_features(A, Points(sparse.csr_array((4, 3)))) == 0
    assert common_features(Points(sparse.csr_array((4, 3))), A) == 0
    assert common_features(A, Points(sparse.csr_array(np.array([[0.0, 1.0, 0.0]])))) == 0
    assert common_features(A, Points(np.ones((5, 3)))) == 1.5
