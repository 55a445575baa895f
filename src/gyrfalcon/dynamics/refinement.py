"""A few gradient steps of a kernel's parameters and the penalty, from the best candidate of a grid."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from gyrfalcon.arrays import Array
from gyrfalcon.kernels import Kernel

from .risk import LeftOutRisk

FURTHEST = math.log(16.0)  # how far a parameter of the kernel moves, as the logarithm of a factor
LEAST_PENALTY, LARGEST_PENALTY = 1e-13, 10.0
EVALUATIONS = 2  # at most so many of them for a step


def movable(kernel: Kernel) -> list[str]:
    """The parameters that gradient steps move: those that are tuned by factors."""
    return [name for name, how in kernel.tunable().items() if how == "logarithmic"]


def refine(risk: LeftOutRisk, kernel: Kernel, penalty: float, steps: int) -> tuple[Kernel, float]:
    """The kernel and the penalty where the risk was the smallest, after so many steps of L-BFGS in their logarithms.

    A penalty of zero stays zero.
    """
    objective = _Objective(risk, kernel, penalty)
    start = objective.start()
    bounds = [(x - FURTHEST, x + FURTHEST) for x in start]
    if penalty > 0:
        bounds[-1] = (math.log(min(LEAST_PENALTY, penalty)), math.log(max(LARGEST_PENALTY, penalty)))
    options = {"maxiter": steps, "maxfun": EVALUATIONS * steps}
    minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return objective.read(objective.best[1])


class _Objective:
    """The logarithm of the risk, as a function of logarithms."""

    def __init__(
        self, risk: Callable[[Kernel, float], tuple[float, dict[str, Array], float]], kernel: Kernel, lam: float
    ):
        self._risk, self._kernel, self._penalty = risk, kernel, lam
        given = kernel.parameters()
        self._values = {name: np.asarray(given[name], dtype=np.float64) for name in movable(kernel)}
        self.best: tuple[float, Array] = (math.inf, self.start())

    def start(self) -> Array:
        parts = [np.log(value).ravel() for value in self._values.values()]
        return np.concatenate([*parts, [math.log(self._penalty)] if self._penalty > 0 else []])

    def read(self, x: Array) -> tuple[Kernel, float]:
        """The kernel and the penalty of a point."""
        found, place = {}, 0
        for name, value in self._values.items():
            part = np.exp(x[place : place + value.size])
            found[name] = float(part[0]) if value.ndim == 0 else tuple(part.tolist())
            place += value.size
        return self._kernel.with_parameters(found), math.exp(x[-1]) if self._penalty > 0 else 0.0

    def __call__(self, x: Array) -> tuple[float, Array]:
        kernel, penalty = self.read(x)
        try:
            value, in_kernel, in_penalty = self._risk(kernel, penalty)
        except ValueError:  # singular to rounding: not here
            value = math.nan
        if not value > 0:
            return 1e10, np.zeros_like(x)
        now = kernel.parameters()
        parts = [np.ravel(in_kernel.get(name, 0.0) * np.asarray(now[name])) for name in self._values]
        gradient = np.concatenate([*parts, [in_penalty * penalty] if self._penalty > 0 else []]) / value
        if math.log(value) < self.best[0]:
            self.best = math.log(value), x.copy()
        return math.log(value), gradient
