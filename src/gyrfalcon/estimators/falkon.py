"""The estimators under the names of the papers, with the papers' choices."""

from __future__ import annotations

from typing import Any

from gyrfalcon import solvers
from gyrfalcon.solvers import Solver

from .classifier import KernelClassifier
from .regressor import KernelRegressor


class Falkon(KernelRegressor):
    """Falkon (Rudi, Carratino, Rosasco 2017): Nyström kernel ridge regression by preconditioned conjugate gradients.

    `KernelRegressor` with solver="falkon", no intercept and a given number of iterations.

    Parameters
    ----------
    kernel, length_scale, penalty, centers, n_centers, max_iterations, tolerance, checkpoint, memory_budget, \
device, random_state, verbose
        As in `KernelRegressor`.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> X = np.linspace(-3, 3, 500)[:, None]
    >>> model = gf.Falkon("gaussian", length_scale=1.0, penalty=1e-6, n_centers=50, random_state=0)
    >>> round(model.fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])), 3)
    1.0
    """

    loss = "squared"
    solver = "falkon"
    fit_intercept = False
    early_stopping = False
    warm_start = False
    tune = None
    uncertainty = False

    def __init__(
        self,
        kernel: Any = "gaussian",
        *,
        length_scale: Any = "auto",
        penalty: Any = "auto",
        centers: Any = "uniform",
        n_centers: Any = "auto",
        tolerance: float = 1e-3,
        max_iterations: int = 20,
        checkpoint: Any = None,
        memory_budget: int | None = None,
        device: Any = None,
        random_state: Any = None,
        verbose: bool = True,
    ):
        self.kernel = kernel
        self.length_scale = length_scale
        self.penalty = penalty
        self.centers = centers
        self.n_centers = n_centers
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.checkpoint = checkpoint
        self.memory_budget = memory_budget
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _solver(self, seed: int) -> Solver[Any]:
        return solvers.Falkon(self.tolerance, self.max_iterations)


class LogisticFalkon(KernelClassifier):
    """Falkon for the logistic loss (Marteau-Ferey, Bach, Rudi 2019): approximate Newton steps on Nyström centers.

    `KernelClassifier` with loss="logistic", solver="newton" and no intercept; softmax for more than two classes.

    Parameters
    ----------
    kernel, length_scale, penalty, centers, n_centers, class_weight, max_iterations, tolerance, checkpoint, \
memory_budget, device, random_state, verbose
        As in `KernelClassifier`.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = gf.LogisticFalkon(penalty=1e-4, n_centers=100, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    """

    loss = "logistic"
    coding = "auto"
    solver = "newton"
    fit_intercept = False
    early_stopping = False
    warm_start = False
    tune = None

    def __init__(
        self,
        kernel: Any = "gaussian",
        *,
        length_scale: Any = "auto",
        penalty: Any = "auto",
        centers: Any = "uniform",
        n_centers: Any = "auto",
        class_weight: Any = None,
        tolerance: float = 1e-6,
        max_iterations: int = 100,
        checkpoint: Any = None,
        memory_budget: int | None = None,
        device: Any = None,
        random_state: Any = None,
        verbose: bool = True,
    ):
        self.kernel = kernel
        self.length_scale = length_scale
        self.penalty = penalty
        self.centers = centers
        self.n_centers = n_centers
        self.class_weight = class_weight
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.checkpoint = checkpoint
        self.memory_budget = memory_budget
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _solver(self, seed: int) -> Solver[Any]:
        return solvers.Newton(self.tolerance, self.max_iterations)
