"""Codings: exact round trips and the geometry of the simplex."""

import numpy as np
import pytest

from gyrfalcon.losses import OneHot, Simplex


@pytest.mark.parametrize("coding", [OneHot, Simplex])
@pytest.mark.parametrize("k", [2, 3, 7, 40])
def test_decoding_undoes_encoding(coding, k):
    indices = np.random.default_rng(0).integers(k, size=50)
    codes = coding(k).encode(indices)
    assert codes.dtype == np.float64
    assert codes.shape == (50, coding(k).outputs)
    np.testing.assert_array_equal(coding(k).decode(0.1 * codes), indices)


@pytest.mark.parametrize("k", [2, 3, 7, 40])
def test_a_simplex_has_unit_vectors_at_equal_angles(k):
    codes = Simplex(k).codes
    assert codes.shape == (k, k - 1)
    expected = np.where(np.eye(k, dtype=bool), 1.0, -1 / (k - 1))
    np.testing.assert_allclose(codes @ codes.T, expected, atol=1e-13)


def test_two_classes_are_minus_one_and_one():
    np.testing.assert_array_equal(Simplex(2).codes, [[-1.0], [1.0]])
    np.testing.assert_array_equal(Simplex(2).decode(np.array([[-0.3], [0.2]])), [0, 1])


@pytest.mark.parametrize("coding", [OneHot, Simplex])
def test_what_is_no_class_is_named(coding):
    with pytest.raises(ValueError, match="k must be"):
        coding(1)
    for indices in ([0, 3], [-1], [0.5]):
        with pytest.raises(ValueError, match="indices"):
            coding(3).encode(indices)
    assert coding(3).encode(np.array([], dtype=int)).shape[0] == 0
