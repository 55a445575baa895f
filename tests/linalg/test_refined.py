"""Systems that are solved by float32 factors are as exact as those by float64 factors."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.linalg.positive import PositiveSystem
from gyrfalcon.linalg.refined import RefinedSystem, may_be_narrow


@pytest.mark.parametrize("noise", [1e-1, 1e-2, 1e-3, 2e-4])
def test_small_noise_is_solved_by_float32_factors_to_what_float64_leaves(noise):
    rng = np.random.default_rng(0)
    X, sides = rng.uniform(size=(500, 3)), rng.normal(size=(500, 2))
    matrix = np.asfortranarray(gf.KernelMatrix(gf.kernels.Gaussian(0.5), X).between_centers()) + noise * np.eye(500)
    given, system = matrix.copy("F"), RefinedSystem(matrix, noise)
    found = system.solve(sides)
    assert system.narrow
    np.testing.assert_array_equal(matrix, given)  # which a caller may use again
    wide = PositiveSystem(matrix.copy("F"))
    truth = wide.solve(sides)
    for _ in range(3):  # residuals in extended precision
        residual = sides - (given.astype(np.longdouble) @ truth.astype(np.longdouble))
        truth += wide.solve(residual.astype(np.float64))
    condition = 500 / noise
    assert np.abs(found - truth).max() <= 4 * np.finfo(float).eps * condition * np.abs(truth).max()


def test_noise_below_what_float32_resolves_is_left_to_float64():
    assert may_be_narrow(1000, 1.0, 1e-3)
    assert not may_be_narrow(1000, 1.0, 1e-5)
    assert may_be_narrow(1000, 1.0, 1e-5, rough=True)


def test_rough_kernels_are_solved_by_float32_factors_whatever_the_noise():
    rng = np.random.default_rng(0)
    X, sides = rng.uniform(size=(500, 3)), rng.normal(size=(500, 2))
    for kernel, converges in ((gf.kernels.ProductLaplacian(1.0), True), (gf.kernels.Gaussian(0.5), False)):
        matrix = np.asfortranarray(gf.KernelMatrix(kernel, X).between_centers()) + 1e-5 * np.eye(500)
        system = RefinedSystem(matrix, 1e-5, rough=True)
        found, expected = system.solve(sides), PositiveSystem(matrix.copy("F")).solve(sides)
        assert system.narrow == converges
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_narrow_factors_that_do_not_converge_are_given_up():
    matrix = np.asfortranarray(np.ones((50, 50)) + 1e-9 * np.eye(50))
    sides = np.random.default_rng(0).normal(size=(50, 1))
    system = RefinedSystem(matrix, noise=1.0)  # which is not what there is
    found = system.solve(sides)
    assert not system.narrow
    np.testing.assert_allclose(found, PositiveSystem(matrix.copy("F")).solve(sides), rtol=0, atol=0)


@pytest.mark.parametrize("columns", [1, 7])
def test_the_same_factor_solves_again_and_scales_do_not_matter(columns):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(80, 80))
    matrix = np.asfortranarray(1e6 * (A @ A.T / 80 + 0.1 * np.eye(80)))
    system = RefinedSystem(matrix, noise=1e5)
    for scale in (1e-8, 1.0, 1e8):
        sides = scale * rng.normal(size=(80, columns))
        sides[:, 0] = 0.0
        np.testing.assert_allclose(system.solve(sides), np.linalg.solve(matrix, sides), rtol=1e-10, atol=1e-20)
    assert system.narrow
