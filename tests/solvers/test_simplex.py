"""Classes coded as a simplex, on every solver and with every margin loss; and the experiment that shows their rates."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gyrfalcon import KernelMatrix
from gyrfalcon import kernels as gk
from gyrfalcon.losses import LOSSES, OneHot, Simplex
from gyrfalcon.solvers import LeastSquares, Risk
from reference import relative_error
from reference.solving import (
    Rule,
    direct,
    eigenpro,
    exact,
    falkon,
    kernel_cg,
    newton,
    nu_method,
    nytro,
    sgd,
    spectral_cutoff,
)

pytestmark = pytest.mark.usefixtures("one_thread")  # small products, many of them

ROOT = Path(__file__).parents[2]
PATH = Rule(validation=None, max_iterations=20)
LINEAR = {  # solvers whose solution is linear in the targets
    "direct": direct,
    "exact": exact,
    "falkon": lambda problem: falkon(problem, tolerance=1e-10),
    "eigenpro": lambda problem: eigenpro(problem, tolerance=0.0, max_iterations=10),
    "nytro": lambda problem: nytro(problem, PATH),
    "nu_method": lambda problem: nu_method(problem, PATH),
    "spectral_cutoff": lambda problem: spectral_cutoff(problem, validation=None),
    "newton": lambda problem: newton(risk(problem, "squared"), tolerance=1e-10),
    "sgd": lambda problem: sgd(risk(problem, "squared"), PATH),
}


def problem_of(coding, k=4, n=240, all_points=False, penalty=1e-3):
    rng = np.random.default_rng(0)
    classes = rng.integers(k, size=n)
    angles = 2 * np.pi * classes / k
    X = torch.from_numpy(2 * np.stack([np.cos(angles), np.sin(angles)], 1) + rng.normal(size=(n, 2)))
    K = KernelMatrix(gk.Gaussian(1.0), X, None if all_points else X[:30].clone())
    return LeastSquares(K, torch.from_numpy(coding(k).encode(classes)), penalty), classes


def risk(problem, name):
    return Risk(problem.K, problem.Y, problem.penalty, LOSSES[name])


@pytest.mark.parametrize("name", LINEAR)
def test_squares_of_simplex_codes_are_those_of_one_hot_codes(name):
    """Codes are a linear map of unit vectors, so predictions are; the largest inner product is the largest output."""
    fits = {}
    for coding in (Simplex, OneHot):
        problem, _ = problem_of(coding, all_points=name == "exact")
        fits[coding] = (problem.K @ LINEAR[name](problem).coefficients).numpy()
    assert relative_error(fits[Simplex], fits[OneHot] @ Simplex(4).codes) <= 1e-5
    np.testing.assert_array_equal(Simplex(4).decode(fits[Simplex]), OneHot(4).decode(fits[OneHot]))


def test_conjugate_gradients_take_a_simplex():
    problem, classes = problem_of(Simplex)
    F = (problem.K @ kernel_cg(problem).coefficients).numpy()
    assert np.mean(Simplex(4).decode(F) == classes) > 0.75


@pytest.mark.parametrize("name", ["squared", "logistic", "exponential"])
def test_stochastic_gradients_go_where_newton_goes(name):
    problem, _ = problem_of(Simplex, 3, penalty=0.02)
    best = newton(risk(problem, name))
    rule = Rule(validation=None, max_iterations=60)
    found = sgd(risk(problem, name), rule, step=0.3, decay=0.5, averaging="polynomial")
    Kmm = torch.from_numpy(problem.K.between_centers())

    def objective(solution):
        beta = solution.coefficients
        return risk(problem, name).empirical(problem.K @ beta) + problem.penalty * float((beta * (Kmm @ beta)).sum())

    assert objective(best) <= objective(found) <= 1.01 * objective(best)
    F, G = (problem.K @ solution.coefficients for solution in (best, found))
    assert np.mean(Simplex(3).decode(F) != Simplex(3).decode(G)) <= 0.03


def test_the_experiment_draws_its_figures(tmp_path):
    pytest.importorskip("matplotlib")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path)}
    command = [sys.executable, "-m", "benchmarks", "simplex", "--quick"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    for stem in ("figure-5-5", "figure-5-5-rows", "figure-5-6"):
        assert (tmp_path / "report" / f"{stem}.png").stat().st_size > 10_000
    found = json.loads((tmp_path / "report" / "simplex.json").read_text())
    assert found["trend"]["slope"] < 0
    for curve in found["sizes"] + found["epochs"]:
        assert curve["errors"][-1] < curve["errors"][0]
        assert curve["surrogates"][-1] < curve["surrogates"][0]
