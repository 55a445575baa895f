"""Leaves solved by float32 factors are as exact as those by float64 factors."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.linalg.positive import PositiveSystem
from gyrfalcon.partition import leaves


@pytest.mark.parametrize("noise", [1e-1, 1e-2, 1e-3, 2e-4])
def test_small_noise_is_solved_by_float32_factors_to_what_float64_leaves(noise):
    rng = np.random.default_rng(0)
    X, sides = rng.uniform(size=(500, 3)), rng.normal(size=(500, 2))
    matrix = leaves.ridged(gf.KernelMatrix(gf.kernels.Gaussian(0.5), X), None, noise)
    full = np.triu(matrix) + np.triu(matrix, 1).T
    found = leaves._solve_narrow(matrix.copy(order="F"), sides, noise)
    assert found is not None
    system = PositiveSystem(matrix.copy(order="F"))
    plain = system.solve(sides)
    truth = plain.copy()
    for _ in range(3):  # residuals in extended precision
        residual = sides - (full.astype(np.longdouble) @ truth.astype(np.longdouble))
        truth += system.solve(residual.astype(np.float64))
    condition = 500 / noise
    assert np.abs(found - truth).max() <= 4 * np.finfo(float).eps * condition * np.abs(truth).max()


def test_noise_below_what_float32_resolves_is_left_to_float64():
    assert leaves.may_be_narrow(1000, 1.0, 1e-3)
    assert not leaves.may_be_narrow(1000, 1.0, 1e-5)
