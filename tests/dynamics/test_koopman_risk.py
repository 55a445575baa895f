"""The left-out risk: a plain dense oracle for its value, finite differences for its derivatives."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.dynamics import Koopman, tune
from gyrfalcon.dynamics.risk import LeftOutRisk
from gyrfalcon.dynamics.runs import Runs

FOLDS = 3


def swinging(runs=6, frames=50, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(runs):
        x = [rng.normal(size=2)]
        for _ in range(frames - 1):
            a, b = x[-1]
            x.append(np.array([0.9 * a + 0.3 * b, 0.9 * b - 0.3 * np.sin(a)]) + 0.05 * rng.normal(size=2))
        found.append(np.array(x))
    return found


def risk_of(method, rank, lag, horizons, runs=None):
    kept = Runs.of(swinging() if runs is None else runs)
    # Centers on a coarse grid, so that k(C, C) is well conditioned and differences of risks keep their digits.
    a, b = np.meshgrid(np.linspace(-2, 2, 4), np.linspace(-2, 2, 4))
    centers = np.stack([a.ravel(), b.ravel()], 1)
    return LeftOutRisk(kept, centers, kept.parts(FOLDS), FOLDS, method, rank, lag, horizons)


CASES = [("krr", None), ("rrr", 4), ("pcr", 5)]


@pytest.mark.parametrize(("method", "rank"), CASES)
@pytest.mark.parametrize(("lag", "horizons"), [(1, [1]), (2, [2, 6])])
@pytest.mark.parametrize("scales", [0.8, (0.7, 1.1)])
def test_derivatives_are_slopes_of_the_risk(method, rank, lag, horizons, scales):
    risk, penalty = risk_of(method, rank, lag, horizons), 1e-3

    def at(point):
        scale = float(point[0]) if np.ndim(scales) == 0 else tuple(point[:-1].tolist())
        return risk(gf.kernels.Matern(scale, nu=2.5), float(np.exp(point[-1])))

    point = np.append(np.ravel(scales), np.log(penalty)).astype(float)
    _, in_kernel, in_penalty = at(point)
    found = np.append(np.ravel(in_kernel["length_scale"]), in_penalty * penalty)
    slopes = []
    for place in range(len(point)):
        moved = 1e-4 * np.eye(len(point))[place]
        slopes.append((at(point + moved)[0] - at(point - moved)[0]) / 2e-4)
    np.testing.assert_allclose(found, slopes, rtol=2e-6, atol=2e-6 * np.abs(slopes).max())


@pytest.mark.parametrize(("method", "rank"), CASES)
def test_the_risk_is_that_of_models_of_the_other_parts(method, rank):
    risk = risk_of(method, rank, 2, [2, 4])
    kernel, penalty = gf.kernels.Gaussian(0.9), 1e-3
    edges = np.cumsum(risk.runs.lengths)[:-1]
    runs = np.split(risk.runs.rows.take(np.arange(int(risk.runs.lengths.sum()))), edges)
    expected = 0.0
    for fold in range(FOLDS):
        others = [run for run, part in zip(runs, risk.parts, strict=True) if part != fold]
        held = [run for run, part in zip(runs, risk.parts, strict=True) if part == fold]
        model = Koopman(method, kernel, centers=risk.centers, rank=rank, penalty=penalty, lag=2).fit(others)
        errors = model.errors(held, [1, 2])
        expected += float((np.square(errors.error).sum(1) * errors.count).sum())
    assert risk(kernel, penalty)[0] == pytest.approx(expected, rel=1e-8)


def test_blocks_of_frames_and_broken_frames_change_nothing_but_the_sums():
    runs = swinging()
    runs[2][7] = np.nan
    risk = risk_of("rrr", 4, 2, [2, 6], runs)
    kernel, penalty = gf.kernels.Matern(0.8, nu=2.5), 1e-3
    value, in_kernel, in_penalty = risk(kernel, penalty)
    tight = LeftOutRisk(**{**vars(risk), "memory_budget": 64 * 16 * 7})  # seven frames at a time
    again, again_kernel, again_penalty = tight(kernel, penalty)
    assert again == pytest.approx(value, rel=1e-12)
    assert again_kernel["length_scale"] == pytest.approx(float(in_kernel["length_scale"]), rel=1e-8)
    assert again_penalty == pytest.approx(in_penalty, rel=1e-8)
    h = 1e-4
    above, below = (risk(gf.kernels.Matern(0.8 + sign * h, nu=2.5), penalty)[0] for sign in (1, -1))
    assert float(in_kernel["length_scale"]) == pytest.approx((above - below) / (2 * h), rel=2e-6)


def test_gradient_steps_make_the_error_smaller_and_find_useless_features():
    rng, runs = np.random.default_rng(3), []
    for _ in range(8):
        x = [rng.uniform(-1, 1)]
        for _ in range(59):
            x.append(np.sin(4 * x[-1]) + 0.02 * rng.normal())
        runs.append(np.column_stack([x, 0.3 * rng.normal(size=60)]))
    start = Koopman("krr", gf.kernels.Gaussian((1.0, 1.0)), n_centers=60, random_state=0)
    # Noise cannot be predicted, so the first feature decides; a long scale for the other leaves it out.
    grid = tune(start, runs, multiples=[1.0, 2.0, 4.0], penalties=[1e-5, 1e-3, 1e-1], folds=4)
    search = tune(start, runs, multiples=[1.0, 2.0, 4.0], penalties=[1e-5, 1e-3, 1e-1], folds=4, gradient_steps=15)
    assert search.best.error < grid.best.error
    assert search.best.kernel is search.model.kernel
    relative = np.array(search.model.kernel.length_scale) / np.concatenate(runs).std(0)
    assert relative[1] > 5 * relative[0]
    assert len(search.candidates) == len(grid.candidates) + 1


def test_steps_that_cannot_be_made_are_refused():
    runs = swinging()
    inputs = [np.ones((len(run), 1)) for run in runs]
    with pytest.raises(ValueError, match="gradient_steps=3 cannot be made, since there are inputs"):
        tune(Koopman("krr", n_centers=10), runs, inputs=inputs, gradient_steps=3)
    for steps in (-1, 2.5, True):
        with pytest.raises(ValueError, match="gradient_steps must be a whole number"):
            tune(Koopman("krr", n_centers=10), runs, gradient_steps=steps)
    kernel = gf.kernels.Gaussian(1.0)
    with pytest.raises(ValueError, match="singular"):
        risk_of("krr", None, 1, [1], [np.zeros((9, 2))] * 6)(kernel, 0.0)
