"""Tuning from start to end: it goes down, stops when told, goes on where it stopped, and survives what has no value."""

import dataclasses
import re
import time
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import sparse

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon import tuning as gt
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.tuning import Gradient, tune
from reference.solving import direct

pytestmark = pytest.mark.usefixtures("one_thread")

OBJECTIVES = {**gt.OBJECTIVES, "sgpr with amplitude": gt.SGPR(amplitude=True)}
NOISE = 0.1

every_objective = pytest.mark.parametrize("name", OBJECTIVES)
both_optimizers = pytest.mark.parametrize("optimizer", ["lbfgs", "adam"])


def signal(X):
    return np.sin(2 * X[:, :1]) + np.cos(2 * X[:, 1:2]) - 0.47


def data(n, features=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, features))
    return X, signal(X) + NOISE * rng.normal(size=(n, 1))


X, Y = data(20)


def pose(X=None, Y=None, C=None, kernel=None, penalty=1e-2, weights=None):
    X, Y = data(60) if X is None else (X, Y)
    C = X[:10].copy() if C is None else C
    K = KernelMatrix(gk.Gaussian(1.0) if kernel is None else kernel, torch.from_numpy(X), torch.from_numpy(C))
    w = None if weights is None else torch.from_numpy(weights)[:, None]
    return LeastSquares(K, torch.from_numpy(Y), penalty, w)


def numbers(problem):
    """All that may have been tuned."""
    parameters = [np.ravel(value) for value in problem.K.kernel.parameters().values()]
    return np.concatenate([[problem.penalty], *parameters, problem.K.centers.numpy().ravel()])


def assert_sound(tuned, start):
    """Finite everywhere, and no worse than where it started."""
    assert np.isfinite(numbers(tuned.problem)).all()
    assert np.isfinite(tuned.trace.values).all()
    assert tuned.trace.values[tuned.trace.best] <= tuned.trace.values[0]
    assert tuned.problem.penalty >= 0
    assert tuned.problem.K.shape == start.K.shape


# Down.


@every_objective
@both_optimizers
def test_every_objective_falls(name, optimizer):
    problem = pose(kernel=gk.Gaussian(0.4))
    tuned = tune(problem, OBJECTIVES[name], optimizer=optimizer, steps=20, learning_rate=0.1)
    assert_sound(tuned, problem)
    start, end = (OBJECTIVES[name].evaluate(p, gt.Exact()).value for p in (problem, tuned.problem))
    assert start == pytest.approx(tuned.trace.values[0], rel=1e-12)
    assert end == pytest.approx(min(tuned.trace.values), rel=1e-12)
    assert end <= start - 0.2 * abs(start)


@pytest.mark.parametrize("objective", ["loocv", "gcv", "sgpr"])
@both_optimizers
def test_estimates_fall(objective, optimizer):
    """With the same probes throughout, estimates are functions like any other."""
    problem = pose(kernel=gk.Gaussian(0.4))

    def method():
        return gt.Stochastic(tolerance=1e-8, probes=20, random_state=1)

    tuned = tune(problem, objective, method=method(), optimizer=optimizer, steps=10, learning_rate=0.1)
    assert_sound(tuned, problem)
    start, end = (gt.OBJECTIVES[objective].evaluate(p, method()).value for p in (problem, tuned.problem))
    assert end <= start - 0.2 * abs(start)


@pytest.mark.parametrize(
    ("objective", "optimizer", "options"),
    [
        ("gcv", "lbfgs", {}),
        ("kfold", "lbfgs", {}),
        ("sgpr", "lbfgs", {}),
        ("sgpr", "adam", {"learning_rate": 0.15, "steps": 80}),
    ],
)
def test_features_that_do_not_matter_get_long_scales(objective, optimizer, options):
    X, Y = data(250, features=4)
    scale = Y.std()
    problem = pose(X, Y / scale, X[:30].copy(), gk.Gaussian(np.ones(4)))
    tuned = tune(problem, objective, optimizer=optimizer, **options).problem
    scales = np.asarray(tuned.K.kernel.length_scale)
    assert scales[2:].min() >= 10 * scales[:2].max()
    new, truth = data(500, features=4, seed=1)
    prediction = KernelMatrix(tuned.K.kernel, torch.from_numpy(new), tuned.K.centers) @ direct(tuned).coefficients
    assert np.sqrt(np.mean((scale * prediction.numpy() - truth) ** 2)) <= 1.15 * NOISE


@both_optimizers
def test_centers_are_tuned_too(optimizer):
    problem = pose()
    fixed, moved = (tune(problem, "sgpr", optimizer=optimizer, steps=30, centers=c) for c in (False, True))
    assert fixed.problem.K.centers.equal(problem.K.centers)
    assert not moved.problem.K.centers.equal(problem.K.centers)
    assert min(moved.trace.values) < min(fixed.trace.values)
    assert_sound(moved, problem)


@both_optimizers
def test_what_is_not_tuned_stays(optimizer):
    problem = pose()
    penalty = tune(problem, "gcv", optimizer=optimizer, steps=5, kernel=False).problem
    assert penalty.K.kernel == problem.K.kernel
    assert penalty.penalty != problem.penalty
    kernel = tune(problem, "gcv", optimizer=optimizer, steps=5, penalty=False).problem
    assert kernel.penalty == problem.penalty
    assert kernel.K.kernel != problem.K.kernel


def test_a_map_stays_unless_it_is_free():
    problem = pose(kernel=gk.Mapped(gk.Gaussian(1.0), [[1.0, 0.2], [0.0, 1.0]]))
    fixed, moved = (tune(problem, "gcv", steps=5, free=free).problem.K.kernel for free in (False, True))
    assert fixed.matrix == problem.K.kernel.matrix
    assert fixed.kernel != problem.K.kernel.kernel
    assert moved.matrix != problem.K.kernel.matrix


def test_nothing_to_tune_is_one_evaluation():
    problem = pose()
    for optimizer in ("lbfgs", "adam"):
        tuned = tune(problem, "gcv", optimizer=optimizer, steps=3, penalty=False, kernel=False)
        assert numbers(tuned.problem) == pytest.approx(numbers(problem), rel=0)


def test_sparse_points_and_weights_and_float32():
    X, Y = data(60)
    X[np.abs(X) < 0.3] = 0
    w = torch.from_numpy(np.arange(60) % 3.0)[:, None]
    thin = LeastSquares(
        KernelMatrix(gk.Gaussian(1.0), sparse.csr_array(X), sparse.csr_array(X[:10])), torch.from_numpy(Y), 1e-2, w
    )
    full = dataclasses.replace(thin, K=KernelMatrix(gk.Gaussian(1.0), torch.from_numpy(X), torch.from_numpy(X[:10])))
    narrow = LeastSquares(
        KernelMatrix(gk.Gaussian(1.0), *(torch.from_numpy(A).float() for A in (X, X[:10]))),
        full.Y.float(),
        1e-2,
        w.float(),
    )
    expected = tune(full, "gcv", steps=8).trace.values
    assert tune(thin, "gcv", steps=8).trace.values == pytest.approx(expected, rel=1e-6)
    tuned = tune(narrow, "gcv", steps=8, centers=True)
    assert tuned.problem.K.dtype == torch.float32
    assert tune(narrow, "gcv", steps=8).trace.values == pytest.approx(expected, rel=1e-4)


# Budgets and records.


@both_optimizers
@pytest.mark.parametrize("steps", [0, 2, 5])
def test_steps_are_counted(optimizer, steps):
    trace = tune(pose(), "sgpr", optimizer=optimizer, steps=steps, tolerance=0.0).trace
    assert len(trace.steps) == steps + 1  # with the start
    assert len(trace.steps) <= trace.evaluations <= 3 * steps + 1
    assert steps == 0 or f"{steps} steps" in trace.message


class Slow(gt.GCV):
    """An evaluation takes a second of a clock that stands still otherwise."""

    clock: ClassVar[list[float]] = [0.0]

    def evaluate(self, problem, method, *, gradient=True):
        self.clock[0] += 1.0
        return super().evaluate(problem, method, gradient=gradient)


@both_optimizers
def test_time_is_kept(optimizer, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: Slow.clock[0])
    tuned = tune(pose(), Slow(), optimizer=optimizer, steps=10**6, seconds=7.5, patience=10**6, tolerance=0.0)
    assert tuned.trace.evaluations == 8
    assert tuned.trace.message == "the time is up"
    assert len(tuned.trace.steps) > 1
    assert_sound(tuned, pose())


@both_optimizers
def test_no_time_at_all_leaves_the_start(optimizer):
    problem = pose()
    tuned = tune(problem, "gcv", optimizer=optimizer, seconds=0.0)
    assert numbers(tuned.problem) == pytest.approx(numbers(problem), rel=1e-14)


@both_optimizers
@pytest.mark.parametrize("last", [1, 3])
def test_a_callback_ends_it(optimizer, last):
    seen = []
    tuned = tune(pose(), "gcv", optimizer=optimizer, callback=lambda step: seen.append(step) or len(seen) == last)
    assert tuned.trace.steps == seen
    assert len(seen) == last
    assert "callback" in tuned.trace.message
    assert_sound(tuned, pose())


@both_optimizers
def test_the_record_tells_what_happened(optimizer):
    trace = tune(pose(), "creg", optimizer=optimizer, steps=4, validate=lambda problem: 2 * problem.penalty).trace
    assert (trace.objective, trace.optimizer) == ("creg", optimizer)
    for step in trace.steps:
        assert step.value == pytest.approx(sum(step.terms.values()), rel=1e-13)
        assert step.validation_error == pytest.approx(2 * step.penalty, rel=1e-14)
        assert step.parameters.keys() == {"length_scale"}
    assert [step.seconds for step in trace.steps] == sorted(step.seconds for step in trace.steps)
    at = LeastSquares(
        KernelMatrix(gk.Gaussian(trace.steps[2].parameters["length_scale"]), pose().K._X.values, pose().K.centers),
        pose().Y,
        trace.steps[2].penalty,
    )
    assert gt.OBJECTIVES["creg"].evaluate(at, gt.Exact()).value == pytest.approx(trace.values[2], rel=1e-12)


def test_adam_gives_up_when_it_does_not_fall():
    trace = tune(pose(), "gcv", optimizer="adam", learning_rate=3.0, patience=4, steps=500).trace
    assert "4 steps" in trace.message
    assert len(trace.steps) < 100
    assert trace.best == len(trace.steps) - 5


# Going on.


def halves_and_whole():
    options = {"optimizer": "adam", "learning_rate": 0.05, "patience": 10**6, "centers": True}
    first = tune(pose(), "sgpr", steps=6, **options)
    return tune(pose(), "sgpr", steps=6, resume=first.trace, **options), tune(pose(), "sgpr", steps=12, **options)


def test_adam_goes_on_bit_for_bit():
    halves, whole = halves_and_whole()
    assert halves.trace.values[:13] == whole.trace.values


def test_adam_in_two_halves_takes_as_many_steps_as_in_one_piece():
    halves, whole = halves_and_whole()
    assert len(halves.trace.steps) == len(whole.trace.steps)
    assert halves.trace.evaluations == whole.trace.evaluations
    np.testing.assert_array_equal(numbers(halves.problem), numbers(whole.problem))


@both_optimizers
def test_a_resumed_run_is_appended_and_no_worse(optimizer):
    first = tune(pose(), "gcv", optimizer=optimizer, steps=3)
    kept = list(first.trace.steps)
    second = tune(pose(), "gcv", optimizer=optimizer, steps=4, resume=first.trace)
    assert first.trace.steps == kept
    assert second.trace.steps[: len(kept)] == kept
    assert len(second.trace.steps) > len(kept)
    assert min(second.trace.values) < min(first.trace.values)
    assert second.trace.evaluations >= len(second.trace.steps)
    seconds = [step.seconds for step in second.trace.steps]
    assert seconds == sorted(seconds)
    value = gt.GCV().evaluate(second.problem, gt.Exact()).value
    assert value == pytest.approx(min(second.trace.values), rel=1e-12)


def test_a_resumed_run_that_finds_nothing_better_keeps_the_best():
    options = {"optimizer": "adam", "learning_rate": 5.0}
    first = tune(pose(), "gcv", steps=2, **options)
    second = tune(pose(), "gcv", steps=0, resume=first.trace, **options)
    assert second.trace.values[-1] > min(first.trace.values)
    np.testing.assert_array_equal(numbers(second.problem), numbers(first.problem))


def test_the_trace_of_something_else_is_refused():
    trace = tune(pose(), "gcv", steps=1).trace
    with pytest.raises(ValueError, match="resume"):
        tune(pose(), "gcv", resume=trace, centers=True)
    with pytest.raises(ValueError, match="resume"):  # whose lowest value means nothing to this objective
        tune(pose(), "sgpr", resume=trace)


# Where there is no value.


class Cliff(gt.Objective):
    """Falls towards a penalty of e⁻⁵, but beyond e⁻⁴ it ends."""

    name = "cliff"

    def __init__(self, beyond, positive):
        self.beyond, self.positive = beyond, positive

    def evaluate(self, problem, method, *, gradient=True):
        t = np.log(problem.penalty)
        value, slope = (t + 5) ** 2, 2 * (t + 5)
        if t < -4:
            value, slope = self.beyond(value, slope)
        return gt.Evaluation(value, {"value": value}, Gradient(slope / problem.penalty, {}, None))


def fail(error):
    def beyond(value, slope):
        raise error

    return beyond


BEYOND = {
    "nan": lambda value, slope: (np.nan, slope),
    "infinity": lambda value, slope: (np.inf, slope),
    "minus infinity": lambda value, slope: (-np.inf, slope),
    "nan gradient": lambda value, slope: (value, np.nan),
    "floating point": fail(FloatingPointError("no value")),
    "torch": fail(torch.linalg.LinAlgError("no factor")),
    "numpy": fail(np.linalg.LinAlgError("no factor")),
}


@pytest.mark.parametrize("beyond", BEYOND)
@both_optimizers
@pytest.mark.parametrize("positive", [True, False])
def test_the_best_point_before_a_cliff_is_kept(beyond, optimizer, positive):
    tuned = tune(pose(penalty=1.0), Cliff(BEYOND[beyond], positive), optimizer=optimizer, learning_rate=0.3, steps=60)
    assert_sound(tuned, pose())
    assert -4 <= np.log(tuned.problem.penalty) < -3.5


@both_optimizers
@pytest.mark.parametrize("positive", [True, False])
def test_the_best_step_is_the_one_whose_parameters_are_kept(optimizer, positive):
    """Also where a line search that ends at a cliff has seen better points on its way."""
    objective = Cliff(BEYOND["nan"], positive)
    tuned = tune(pose(penalty=1.0), objective, optimizer=optimizer, learning_rate=0.3, steps=60)
    best = tuned.trace.steps[tuned.trace.best]
    assert best.penalty == tuned.problem.penalty
    assert best.value == objective.evaluate(tuned.problem, gt.Exact()).value


@pytest.mark.parametrize("beyond", BEYOND)
@both_optimizers
def test_no_value_at_the_start_is_said(beyond, optimizer):
    with pytest.raises(FloatingPointError, match=r"'cliff'.*start.*penalty"):
        tune(pose(penalty=1e-3), Cliff(BEYOND[beyond], True), optimizer=optimizer)


def test_errors_that_are_not_numerical_are_not_hidden():
    for optimizer in ("lbfgs", "adam"):
        with pytest.raises(KeyError, match="mistake"):
            tune(pose(penalty=1.0), Cliff(fail(KeyError("mistake")), True), optimizer=optimizer, learning_rate=0.3)


class Rounded(gt.Objective):
    """An error that rounding takes below zero near its end."""

    name = "rounded"

    def evaluate(self, problem, method, *, gradient=True):
        t = np.log(problem.penalty) + 5
        return gt.Evaluation(t**2 - 1e-12, {}, Gradient(2 * t / problem.penalty, {}, None))


@both_optimizers
def test_an_error_of_zero_is_an_end_like_any_other(optimizer):
    tuned = tune(pose(penalty=1.0), Rounded(), optimizer=optimizer, learning_rate=0.3, steps=100)
    assert_sound(tuned, pose())
    assert np.log(tuned.problem.penalty) == pytest.approx(-5, abs=0.1)


@pytest.mark.parametrize("name", ["holdout", "kfold", "loocv", "gcv"])
def test_a_constant_is_learned_to_the_last_digit(name):
    problem = pose(X, np.ones_like(Y), X[:5].copy())
    tuned = tune(problem, name, steps=40, centers=True)
    assert_sound(tuned, problem)
    assert abs(min(tuned.trace.values)) <= 1e-12


class Downhill(gt.Objective):
    """The smaller, or the larger, the penalty and the length scale the better."""

    name, positive = "downhill", False

    def __init__(self, sign):
        self.sign = sign

    def evaluate(self, problem, method, *, gradient=True):
        scale, penalty = problem.K.kernel.length_scale, problem.penalty
        value = self.sign * (np.log(scale) + np.log(penalty))
        return gt.Evaluation(value, {}, Gradient(self.sign / penalty, {"length_scale": self.sign / scale}, None))


@pytest.mark.parametrize("sign", [-1, 1])
@both_optimizers
def test_bounds_hold(sign, optimizer):
    problem = pose()
    parameters = gt.Parameters(problem)
    bounds = np.exp(parameters.low if sign > 0 else parameters.high)
    tuned = tune(problem, Downhill(sign), optimizer=optimizer, learning_rate=3.0, steps=30).problem
    assert [tuned.penalty, tuned.K.kernel.length_scale] == pytest.approx(bounds, rel=1e-9)


HARD = {
    "centers twice": {"C": X[[0, 1, 2] * 2]},
    "one place": {"X": np.ones((20, 2)), "C": np.ones((3, 2))},
    "huge scale": {"kernel": gk.Gaussian(1e8)},
    "tiny scale": {"kernel": gk.Gaussian(1e-8)},
    "centers far away": {"kernel": gk.Gaussian(1e-3), "C": X[:5] + 10},
    "target zero": {"Y": np.zeros_like(Y)},
    "target constant": {"Y": np.ones_like(Y)},
    "target in the span": {"Y": np.exp(-((X - X[:1]) ** 2).sum(1, keepdims=True) / 2)},
    "no penalty": {"penalty": 0.0},
    "huge penalty": {"penalty": 1e6},
    "one center": {"C": X[:1]},
    "more centers than rows": {"X": X[:6], "Y": Y[:6], "C": X[:9]},
    "one row": {"X": X[:1], "Y": Y[:1], "C": X[:3]},
    "one row of weight": {"weights": np.eye(20)[7]},
    "indefinite kernel": {"kernel": gk.Sigmoid(1.0)},
    "overflow": {"kernel": gk.Polynomial(1e-3, degree=64)},
}
RUNS = {
    "exact lbfgs": (gt.Exact, ("kfold", "gcv", "sgpr with amplitude")),
    "exact adam": (gt.Exact, ("holdout", "proposed")),
    "stochastic lbfgs": (lambda: gt.Stochastic(probes=5, max_iterations=30), ("loocv", "gcv")),
    "stochastic adam": (lambda: gt.Stochastic(probes=5, max_iterations=30), ("kfold", "sgpr")),
}
UNDIVIDED = {(hard, name) for hard in ("one row", "one row of weight") for name in ("holdout", "kfold")}


def outcome(*arguments, **options):
    """What was found, or the error that says why not."""
    try:
        return tune(*arguments, **options)
    except (FloatingPointError, ValueError) as error:
        return error


@pytest.mark.parametrize("hard", HARD)
@pytest.mark.parametrize("run", RUNS)
def test_hard_problems_have_sound_answers_or_clear_errors(hard, run):
    problem = pose(**{"X": X, "Y": Y, "C": X[:5].copy(), **HARD[hard]})
    method, names = RUNS[run]
    for name in names:
        found = outcome(problem, OBJECTIVES[name], optimizer=run.split()[1], method=method(), steps=3, centers=True)
        if isinstance(found, FloatingPointError):
            assert "has no value at the start" in str(found), name
        elif isinstance(found, ValueError):
            assert (hard, name) in UNDIVIDED, found
            assert re.search("rows|weight", str(found)), found
        else:
            assert_sound(found, problem)


# Arguments.


def test_wrong_names_are_named():
    with pytest.raises(ValueError, match=r"objective.*'loo'"):
        tune(pose(), "loo")
    with pytest.raises(ValueError, match=r"objective.*3"):
        tune(pose(), 3)
    with pytest.raises(ValueError, match=r"optimizer.*'sgd'"):
        tune(pose(), "gcv", optimizer="sgd")


def test_centers_of_sparse_points_are_not_tuned():
    thin = KernelMatrix(gk.Gaussian(1.0), sparse.csr_array(X), sparse.csr_array(X[:5]))
    with pytest.raises(ValueError, match=r"centers.*dense"):
        tune(LeastSquares(thin, torch.from_numpy(Y), 1e-2), "gcv", centers=True)
