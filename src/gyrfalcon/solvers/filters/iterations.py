"""Regularization by stopping early: gradient descent, the ν-method and conjugate gradients on one set of equations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from torch import Tensor

from gyrfalcon.arrays import Array
from gyrfalcon.matrix import KernelMatrix

from ..problem import LeastSquares
from ..solution import FilterPath, Record, Solution, Step
from ..solver import Run, Solver, Traits
from ..stopping import DEFAULT_STOPPING, EarlyStopping, Watch, check_count
from .system import FilterState, Iterate, Whitened

ROUNDING = 1e-6  # of the largest square of the targets, by which an objective may seem to grow


@dataclass(frozen=True)
class EarlyStopped(Solver[FilterState]):
    """A solver that is regularized by when it stops, on rows that it holds out; subclasses say how it iterates.

    The model itself is fitted to all rows, held-out ones too, in the same passes.
    """

    stopping: EarlyStopping = DEFAULT_STOPPING
    max_iterations: int = 500
    random_state: int = 0

    traits: ClassVar[Traits] = Traits(needs_penalty=False, iterates=True, holds_out=True)

    def __post_init__(self) -> None:
        check_count("max_iterations", self.max_iterations)

    @abstractmethod
    def _iterates(self, system: Whitened) -> Iterator[Iterate]:
        """What the method goes through from f = 0 on, one pass over X each."""

    def prepare(self, K: KernelMatrix, weights: Tensor | None = None, intercept: bool = False) -> FilterState:
        return FilterState(K, weights, intercept, self.stopping, self.random_state)

    def _solve(self, state: FilterState, problem: LeastSquares, run: Run) -> Solution:
        """Follow the iterates until patience ends; keep the best."""
        rule, split = self.stopping, state.split
        system = Whitened(problem, state)
        watch, best, chosen = Watch(rule), system.start(), 0
        objectives, residuals = [float(system.objective(best).sum())], [1.0]
        ceiling = 2 * objectives[0] + ROUNDING * float(problem.Y.double().square().sum(1).max())
        scale = np.linalg.norm(system.right[:, -1], axis=0)
        if split.held:
            watch.see(system.error(best))
        message, ended = "nothing is left of the equations", True
        for iteration, now in enumerate(self._iterates(system), 1):
            objectives.append(float(system.objective(now).sum()))
            if not objectives[-1] <= ceiling:
                raise ValueError(
                    f"step is too large: the objective grew from {objectives[0]:.3g} to {objectives[-1]:.3g}"
                )
            left = np.linalg.norm(now.residual[:, -1], axis=0)
            residuals.append(float((left / np.where(scale > 0, scale, 1.0)).max(initial=0.0)))
            if not split.held or watch.see(system.error(now)):
                best, chosen = now, iteration
            solution = partial(system.coefficients, now.v[:, -1])
            if run.callback is not None and run.callback(Step(iteration, residuals[-1], objectives[-1], solution)):
                message, ended = "stopped by the callback", False
                break
            if watch.tired:
                message = f"the validation error is lowest after {chosen} iterations"
                break
            if iteration == self.max_iterations:
                message, ended = f"stopped after {iteration} iterations", not split.held
                break
        record = Record(
            solver=self.name,
            iterations=len(objectives) - 1,
            residuals=residuals,
            converged=ended,
            message=message,
            jitter=system.jitter,
            objective=np.maximum(system.objective(best), 0.0).tolist(),
            objective_history=objectives,
            validation_errors=watch.errors,
            passes=len(objectives),  # one more than iterations: that of the right side
            seconds=problem.seconds,
            path=FilterPath(list(range(len(objectives))), objectives, watch.errors, chosen),
        )
        return Solution(*system.coefficients(best.v[:, -1]), record)


@dataclass(frozen=True)
class Nytro(EarlyStopped):
    """Gradient descent from f = 0, stopped early: NYTRO, and the Landweber iteration if all points are centers.

    With TᵀT = k(C, C), Z = K T⁻¹ and v = Tβ, an iteration is v ← v + step·(Zᵀ(Y - Zv)/n - penalty·v), after t of which
    an eigenvalue σ of ZᵀZ/n was inverted to (1 - (1 - step·σ)ᵗ)/σ: step·t plays the role of 1/penalty. One pass over
    X an iteration, for the model, all folds and their errors together. With a penalty of zero, all the regularization
    is in the number of iterations.

    Parameters
    ----------
    stopping : EarlyStopping
    max_iterations : int
    random_state : int
        Decides which rows are held out.
    step : float, optional
        1 / (max k(x, x) + penalty) if not given, with which it always converges; less than twice that does too.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[:, None]
    >>> Y = torch.sin(X) + 0.3 * torch.sin(997 * X)
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(0.5), X, X[::10]), Y, penalty=0.0)
    >>> path = gf.solvers.solve(problem, gf.solvers.Nytro()).record.path
    >>> path.errors[path.chosen] == min(path.errors)
    True
    """

    step: float | None = None

    name: ClassVar[str] = "nytro"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self.step)

    def _iterates(self, system: Whitened) -> Iterator[Iterate]:
        gamma = self.step or system.safe_step()
        now = system.start()
        while True:
            v = now.v + gamma * now.residual
            now = system.at(v, system.images(v))
            yield now


@dataclass(frozen=True)
class NuMethod(EarlyStopped):
    """Gradient descent with the momentum of the ν-method, which gets as far in √t iterations as the plain one in t.

    vᵢ = vᵢ₋₁ + μᵢ(vᵢ₋₁ - vᵢ₋₂) + ωᵢ·step·(Zᵀ(Y - Zvᵢ₋₁)/n - penalty·vᵢ₋₁), with
    μᵢ = (i-1)(2i-3)(2i+2ν-1) / ((i+2ν-1)(2i+4ν-1)(2i+2ν-3)) and ωᵢ = 4(2i+2ν-1)(i+ν-1) / ((i+2ν-1)(2i+4ν-1)). What is
    left of an eigenvalue σ is a Jacobi polynomial, 1 - σg(σ) = P(1-2·step·σ)/P(1), P = Pₜ with indices 2ν-½, -½.

    Parameters
    ----------
    stopping, max_iterations, random_state
        As in `Nytro`.
    nu : float
        How smooth a truth the method can make use of: errors fall no faster than t^(-2ν).
    step : float, optional
        1 / (max k(x, x) + penalty) if not given; a larger one must stay below one over the largest eigenvalue.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[:, None]
    >>> Y = torch.sin(X) + 0.3 * torch.sin(997 * X)
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(0.5), X, X[::10]), Y, penalty=0.0)
    >>> fast = gf.solvers.solve(problem, gf.solvers.NuMethod(gf.solvers.EarlyStopping(validation=5)))
    >>> fast.record.iterations < gf.solvers.solve(problem, gf.solvers.Nytro()).record.iterations
    True
    """

    nu: float = 1.0
    step: float | None = None

    name: ClassVar[str] = "nu_method"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self.step)
        if not 0 < self.nu < np.inf:
            raise ValueError(f"nu must be a positive number, got {self.nu!r}")

    def _iterates(self, system: Whitened) -> Iterator[Iterate]:
        gamma = self.step or system.safe_step()
        now, before = system.start(), system.start().v
        i = 1
        while True:
            momentum, weight = _nu_weights(i, self.nu)
            v = now.v + momentum * (now.v - before) + weight * gamma * now.residual
            before, now = now.v, system.at(v, system.images(v))
            yield now
            i += 1


def _nu_weights(i: int, nu: float) -> tuple[float, float]:
    shared = (i + 2 * nu - 1) * (2 * i + 4 * nu - 1)
    momentum = (i - 1) * (2 * i - 3) * (2 * i + 2 * nu - 1) / (shared * (2 * i + 2 * nu - 3)) if i > 1 else 0.0
    return momentum, 4 * (2 * i + 2 * nu - 1) * (i + nu - 1) / shared


@dataclass(frozen=True)
class KernelCG(EarlyStopped):
    """Conjugate gradients from f = 0, stopped early.

    After t iterations v minimizes the objective over the Krylov space of Zᵀ(Z·)/n + penalty and ZᵀY/n: no method of t
    passes gets a lower one. Each output, and each fold, has a polynomial of its own, made from its targets.

    Parameters
    ----------
    stopping, max_iterations, random_state
        As in `Nytro`.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[:, None]
    >>> Y = torch.sin(X) + 0.3 * torch.sin(997 * X)
    >>> problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(0.5), X, X[::10]), Y, penalty=0.0)
    >>> gf.solvers.solve(problem, gf.solvers.KernelCG()).record.path.chosen < 20
    True
    """

    name: ClassVar[str] = "kernel_cg"

    def _iterates(self, system: Whitened) -> Iterator[Iterate]:
        now = system.start()
        residual = direction = now.residual
        squared = np.square(residual).sum(0)
        smallest = np.finfo(float).eps ** 2 * squared
        earlier: list[Array] = []
        while (going := squared > smallest).any():
            earlier.append(residual / np.sqrt(np.where(going, squared, np.inf)))
            images = system.images(direction)
            curvature = (direction * system.apply(direction, images)).sum(0)
            going &= curvature > 0
            length = np.where(going, squared, 0.0) / np.where(going, curvature, 1.0)
            now = system.at(now.v + length * direction, now.images + length * images)
            residual = _orthogonal(now.residual, earlier)
            fresh = np.square(residual).sum(0)
            direction = residual + np.where(going, fresh / np.where(going, squared, 1.0), 0.0) * direction
            squared = np.where(going, fresh, 0.0)
            yield now


def _orthogonal(vectors: Array, earlier: list[Array]) -> Array:
    """What residuals of conjugate gradients are to earlier ones, but for rounding, which would undo it in ten steps.

    Twice is enough. The earlier ones take less memory than T as long as there are fewer columns than centers.
    """
    for _ in range(2):
        for unit in earlier:
            vectors = vectors - unit * (unit * vectors).sum(0)
    return vectors


def _check_step(step: float | None) -> None:
    if step is not None and not 0 < step < np.inf:
        raise ValueError(f"step must be a positive number or None, got {step!r}")
