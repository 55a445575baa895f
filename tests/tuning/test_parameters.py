"""What is tuned, as a vector: the way there, the way back, and derivatives along it."""

import numpy as np
import pytest
import torch

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon import tuning as gt
from gyrfalcon.solvers import LeastSquares

pytestmark = pytest.mark.usefixtures("one_thread")


def pose(kernel, penalty=1e-2):
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.uniform(-1.5, 1.5, size=(20, 2)))
    Y = torch.sin(2 * X[:, :1]) + 0.1 * torch.from_numpy(rng.normal(size=(20, 1)))
    return LeastSquares(KernelMatrix(kernel, X, X[:5].clone()), Y, penalty)


def numbers(problem):
    """All that may have been tuned."""
    parameters = [np.ravel(value) for value in problem.K.kernel.parameters().values()]
    return np.concatenate([[problem.penalty], *parameters, problem.K.centers.numpy().ravel()])


ROUND_TRIPS = {
    "scalar": gk.Gaussian(0.7),
    "per feature": gk.Laplacian([0.3, 4.0]),
    "nested": 0.2 * gk.RationalQuadratic([1.5, 0.1], alpha=3.0) + gk.Mapped(gk.Matern(2.0, nu=1.5), [[1.0, -2.0]]),
    "not tuned": gk.Polynomial(2.0, degree=3, offset=-0.5),
}


@pytest.mark.parametrize("kernel", ROUND_TRIPS)
@pytest.mark.parametrize("centers", [False, True])
@pytest.mark.parametrize("per_feature", [False, True])
def test_parameters_read_what_they_were_made_of(kernel, centers, per_feature):
    problem = pose(ROUND_TRIPS[kernel], 3e-5)
    parameters = gt.Parameters(problem, centers=centers, per_feature=per_feature)
    penalty, found, C = parameters.read(parameters.start)
    assert penalty == pytest.approx(problem.penalty, rel=1e-14)
    assert type(found) is type(problem.K.kernel)
    for name, value in problem.K.kernel.parameters().items():
        assert found.parameters()[name] == pytest.approx(np.asarray(value), rel=1e-14)
    assert (C is not None) == centers
    if centers:
        np.testing.assert_allclose(C, problem.K.centers, rtol=1e-14)
    assert numbers(parameters.at(parameters.start)) == pytest.approx(numbers(problem), rel=1e-14)
    assert (parameters.low <= parameters.start).all()
    assert (parameters.start <= parameters.high).all()


def test_parameters_leave_alone_what_has_no_logarithm():
    problem = pose(gk.Linear(2.0) + -0.5 * gk.Gaussian(1.0))
    parameters = gt.Parameters(problem)
    theta = parameters.start + 1.0
    assert len(theta) == 3
    _, kernel, _ = parameters.read(theta)
    assert kernel.parameters()["right.scale"] == -0.5
    assert kernel.parameters()["left.length_scale"] == pytest.approx(2 * np.e)


def test_length_scales_that_move_together():
    kernel = 0.5 * gk.RationalQuadratic([0.3, 4.0], alpha=2.0)
    parameters = gt.Parameters(pose(kernel), per_feature=False)
    steps = np.array([0.3, -0.2, 0.4, 0.1])  # of the penalty, then in the order of the kernel's parameters
    theta = parameters.start + steps
    moved = dict(zip(kernel.parameters(), np.exp(steps[1:]), strict=True))
    found = parameters.read(theta)[1].parameters()
    for name, value in kernel.parameters().items():
        assert found[name] == pytest.approx(np.asarray(value) * moved[name], rel=1e-14)
    objective = gt.Proposed()
    gradient = parameters.gradient(theta, objective.evaluate(parameters.at(theta), gt.Exact()).gradient)

    def value(t):
        return objective.evaluate(parameters.at(t), gt.Exact(), gradient=False).value

    slopes = [(value(theta + step) - value(theta - step)) / 2e-4 for step in 1e-4 * np.eye(4)]
    assert gradient == pytest.approx(slopes, rel=1e-6)
    tuned = gt.tune(pose(kernel), "gcv", steps=5, per_feature=False).problem.K.kernel.parameters()
    ratio = np.divide(tuned["kernel.length_scale"], [0.3, 4.0])
    assert ratio[0] == pytest.approx(ratio[1], rel=1e-12)
    assert ratio[0] != 1
