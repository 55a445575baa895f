"""Newton's method with Falkon inside: any smooth convex loss, n × t numbers at a time and never n × m."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.linalg.cg import conjugate_gradients

from .falkon import factor
from .problem import as_numpy
from .risk import Risk
from .solution import Callback, Record, Solution, Step

Array = np.ndarray[Any, Any]

FIRST_PENALTY = 1e-3  # where the path of penalties begins, and where it jumps to the last one, as parts of max k(c, c)
LAST_PENALTY = 1e-9
PENALTY_FACTOR = 0.03
PATH_STEPS = 5  # conjugate gradient steps for each penalty on the path
STEPS = 100  # and for each Newton step after it, at most
LOOSEST = 0.3  # relative residual at which conjugate gradients stop, far from the solution
PATIENCE = 3  # Newton steps without progress before rounding is blamed


def newton(
    problem: Risk,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
    start: Tensor | tuple[Tensor, Tensor] | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimise the risk by Newton steps, each solved roughly by conjugate gradients with Falkon's preconditioner.

    The first steps are for penalties that fall geometrically to the one asked for, the others for that one, solved to
    the square root of the relative gradient. In x = (Tβ; b), where TᵀT = Kmm, the risk has the gradient
    (T⁻ᵀKᵀWg/Σw + 2·penalty·Tβ; Σwg/Σw), g = ∂ℓ/∂f, and each product with its Hessian is one pass over X for one
    output and two for more. Steps are halved until the objective falls, which needs no pass. Types as in `falkon`.

    Parameters
    ----------
    problem : Risk
    tolerance : float
        Norm of the gradient, preconditioned as the last step was, relative to that of f = 0 in the same norm.
    max_iterations : int
        Newton steps, those on the path of penalties included.
    start : tensor of shape (m, t), or a pair with the intercept, of shape (t,), optional
        Where to begin, at the last penalty at once.
    callback : callable (Step) -> bool, optional
        Called after each Newton step; True ends the solve.

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> from gyrfalcon.losses import Robust
    >>> X = torch.linspace(-3, 3, 500, dtype=torch.float64)[:, None]
    >>> Y = torch.sin(X)
    >>> Y[::25] += 100  # outliers
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(1.0), X, X[::20])
    >>> solution = gf.solvers.newton(gf.solvers.Risk(K, Y, penalty=1e-4, loss=Robust()))
    >>> bool((K @ solution.coefficients - torch.sin(X)).abs().max() < 0.1)
    True
    """
    loss, Y, penalty = problem.loss, problem.Y, problem.penalty
    space = _Space(problem)
    x = space.point(start)
    F = space.predict(x) if x.any() else torch.zeros(Y.shape, dtype=torch.float64, device=Y.device)
    mu = max(penalty, FIRST_PENALTY * space.scale) if start is None else penalty
    at_zero: list[Array] = []
    residuals: list[float] = []
    objectives: list[float] = []
    best, stalls, inner = np.inf, 0, 0
    message = f"stopped after {max_iterations} iterations"
    for iteration in range(max_iterations + 1):
        curvature = loss.curvature(F, Y)
        columns = [loss.gradient(F, Y), curvature[:, : int(space.bordered)]]
        if not at_zero:
            columns.append(loss.gradient(torch.zeros_like(F), Y))
        slopes, border, *first = space.transpose(*columns)
        at_zero += first
        space.precondition(float(problem.mean(curvature)), mu)
        ridge = space.ridge(x)
        residuals.append(space.norm(slopes + 2 * penalty * ridge) / (space.norm(at_zero[0]) or 1.0))
        objectives.append(problem.empirical(F) + penalty * float(np.vdot(x, ridge)))
        if (
            iteration
            and callback is not None
            and callback(Step(iteration, residuals[-1], objectives[-1], partial(space.split, x)))
        ):
            message = "stopped by the callback"
            break
        if mu == penalty:
            if residuals[-1] <= tolerance:
                message = "the gradient reached the tolerance"
                break
            idle = residuals[-1] > 0.9 * best and objectives[-2] - objectives[-1] <= 1e-9 * objectives[-1]
            best, stalls = min(best, residuals[-1]), stalls + 1 if idle else 0
            if stalls == PATIENCE:
                message = f"rounding stopped progress at a relative gradient of {residuals[-1]:.1e}"
                break
        if iteration == max_iterations:
            break
        on_path = mu > penalty
        solved = conjugate_gradients(
            space.preconditioned(space.hessian(F, curvature, border, mu)),
            space.solve_transposed(-slopes - 2 * mu * ridge).reshape(-1, 1),
            tolerance=LOOSEST if on_path else max(min(LOOSEST, residuals[-1] ** 0.5), tolerance / residuals[-1] / 2),
            max_iterations=PATH_STEPS if on_path else STEPS,
        )
        inner += solved.iterations
        direction = space.solve(solved.solution.reshape(x.shape))
        change, bend = space.predict(direction), space.ridge(direction)
        length = _step_length(problem, F, change, mu, float(np.vdot(x, bend)), float(np.vdot(direction, bend)))
        if length == 0 and not on_path:
            message = (
                f"rounding leaves no step that lowers the objective, at a relative gradient of {residuals[-1]:.1e}"
            )
            break
        x, F = x + length * direction, F + length * change
        mu *= PENALTY_FACTOR
        if mu <= max(penalty, LAST_PENALTY * space.scale):
            mu = penalty
    record = Record(
        solver="newton",
        iterations=iteration,
        residuals=residuals,
        converged=mu == penalty and residuals[-1] <= tolerance,
        message=message,
        jitter=space.pair.jitter,
        seconds=problem.seconds,
        objective=objectives[-1:],
        objective_history=objectives,
        inner_iterations=inner,
        passes=space.passes,
    )
    return Solution(*space.split(x), record)


def _step_length(problem: Risk, F: Tensor, change: Tensor, mu: float, cross: float, square: float) -> float:
    """The first of 1, ½, ¼, ... at which the objective has fallen and does not rise too steeply; zero if there is none.

    Along s the predictions are F + s·change and ‖f‖² grows by 2s·cross + s²·square. Near the minimum the objective is
    off by rounding and only the slope tells.
    """

    def along(s: float) -> tuple[float, float]:
        G = F + s * change
        slope = float(problem.mean((problem.loss.gradient(G, problem.Y) * change).sum(1)))
        return problem.empirical(G) + mu * s * (2 * cross + s * square), slope + 2 * mu * (cross + s * square)

    value, slope = along(0.0)
    for s in 0.5 ** np.arange(40):
        new_value, new_slope = along(s)
        if new_value <= value + 1e-12 * abs(value) and new_slope <= -0.5 * slope:
            return float(s)
    return 0.0


class _Space:
    """The coordinates x = (Tβ; b), in which ‖f‖² is a sum of squares, products with K in them, and a preconditioner.

    The preconditioner is the Hessian at centres that stand for the points, with the mean curvature c for all of them:
    c·[[TTᵀ/m + 2μ/c·I, T1/m], [1ᵀTᵀ/m, 1]] = c·RᵀR, R = [[A, r], [0, σ]]. Curvatures of their own for the centres gain
    nothing. c is left out, since conjugate gradients and relative norms do not notice.
    """

    def __init__(self, problem: Risk):
        self.problem, self.K, self.total = problem, problem.K, problem.total_weight
        self.pair, self.removable, self.scale = factor(problem, problem.penalty)
        self.m, self.t = problem.K.shape[1], problem.Y.shape[1]
        self.bordered = problem.intercept and self.t == 1  # the intercept's column of the Hessian is known beforehand
        self.shift = 0.0
        self.passes = 0

    def point(self, start: Tensor | tuple[Tensor, Tensor] | None) -> Array:
        """x of coefficients, or of coefficients and intercept."""
        x = np.zeros((self.m + int(self.problem.intercept), self.t))
        if start is not None:
            beta, b = start if isinstance(start, tuple) else (start, torch.zeros(self.t))
            if tuple(beta.shape) != (self.m, self.t):
                raise ValueError(f"start must have shape {(self.m, self.t)}, got {tuple(beta.shape)}")
            x[: self.m] = self.pair.multiply_t(as_numpy(beta.detach().double()))
            x[self.m :] = as_numpy(b.detach().double())
        return x

    def split(self, x: Array) -> tuple[Tensor, Tensor]:
        """Coefficients and intercept."""
        return torch.from_numpy(np.ascontiguousarray(self.pair.solve_t(x[: self.m]))), torch.from_numpy(
            x[self.m :].sum(0)
        )

    def _vectors(self, x: Array) -> Tensor:
        return self.split(x)[0].to(self.K.dtype).to(self.K.device)

    def predict(self, x: Array) -> Tensor:
        """Kβ + b, in one pass."""
        beta = self._vectors(x)
        with self._pass():
            F: Tensor = (self.K @ beta).double()
        return F + torch.from_numpy(x[self.m :].sum(0)).to(F.device)

    def transpose(self, *columns: Tensor) -> list[Array]:
        """(T⁻ᵀKᵀWG; 1ᵀWG) / Σw for each G, in one pass: what gradients G in the predictions are in x."""
        W = self.problem.weighted(torch.cat(columns, 1))
        with self._pass():
            product = as_numpy(self.K.rmv(W.to(self.K.dtype), dtype=torch.float64))
        pulled = self._stack(self.pair.solve_t_transposed(product), as_numpy(W.sum(0, keepdim=True))) / self.total
        return np.split(pulled, np.cumsum([c.shape[1] for c in columns])[:-1], axis=1)

    def _stack(self, upper: Array, last: Array) -> Array:
        return np.concatenate([upper, last]) if self.problem.intercept else upper

    def _pass(self) -> AbstractContextManager[None]:
        self.passes += 1
        return self.problem.timed("iterate")

    def ridge(self, x: Array) -> Array:
        """Half the gradient of ‖f‖²: Tβ, free of the jitter in T."""
        image = np.zeros_like(x)
        alpha = x[: self.m]
        image[: self.m] = alpha - self.removable * self.pair.solve_t_transposed(self.pair.solve_t(alpha))
        return image

    def hessian(self, F: Tensor, curvature: Tensor, border: Array, mu: float) -> Callable[[Array], Array]:
        """v ↦ the Hessian times v."""
        weights = self.problem.weighted(curvature).to(self.K.dtype)

        def one_output(v: Array) -> Array:
            beta = self._vectors(v)
            with self._pass():
                product = as_numpy(self.K.gram_mv(beta, weights, dtype=torch.float64)) / self.total
            image = self.pair.solve_t_transposed(product)
            if self.bordered:
                image = self._stack(image, border[: self.m].T @ v[: self.m]) + border * v[self.m :]
            return image

        def many_outputs(v: Array) -> Array:
            return self.transpose(self.problem.loss.hessian_product(F, self.problem.Y, self.predict(v)))[0]

        product = one_output if self.t == 1 else many_outputs
        return lambda v: product(v) + 2 * mu * self.ridge(v)

    def precondition(self, curvature: float, mu: float) -> None:
        """Make R for that mean curvature and penalty, unless the one there is still good."""
        shift = max(2 * mu / max(curvature, 1e-12), np.finfo(float).eps * self.scale)
        if not 0.8 < self.shift / shift < 1.25:
            with self.problem.timed("factor"):
                self.pair.refactor(shift)
            self.shift = shift
            self.r = self.pair.solve_a_transposed(self.pair.multiply_t(np.full((self.m, 1), 1 / self.m)))
            self.sigma = max(1 - float(np.vdot(self.r, self.r)), 1e-10) ** 0.5

    def preconditioned(self, operator: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """R⁻ᵀ·operator·R⁻¹, on all outputs as one column."""
        return lambda v: self.solve_transposed(operator(self.solve(v.reshape(-1, self.t)))).reshape(-1, 1)

    def solve(self, v: Array) -> Array:
        """R⁻¹ v."""
        b = v[self.m :] / self.sigma
        return self._stack(self.pair.solve_a(v[: self.m] - self.r * b.sum(0)), b)

    def solve_transposed(self, v: Array) -> Array:
        """R⁻ᵀ v."""
        upper = self.pair.solve_a_transposed(v[: self.m])
        return self._stack(upper, (v[self.m :] - self.r.T @ upper) / self.sigma)

    def norm(self, gradient: Array) -> float:
        """‖R⁻ᵀ gradient‖, near the root of gradientᵀ Hessian⁻¹ gradient but for a factor."""
        return float(np.linalg.norm(self.solve_transposed(gradient)))
