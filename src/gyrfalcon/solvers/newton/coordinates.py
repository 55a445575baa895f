"""The coordinates that Newton's method works in: products with K in them, and a preconditioner for the Hessian."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.linalg.cg import conjugate_gradients

from ..risk import Risk
from ..solution import Snapshot
from ..solver import Start
from .space import Direction, Space
from .state import Factored

FIRST_PENALTY = 1e-3  # where a path of penalties begins, as a part of max k(c, c)


class Coordinates(Space):
    """The coordinates x = (Tβ; b), in which ‖f‖² is a sum of squares, products with K in them, and a preconditioner.

    The preconditioner is the Hessian at centers that stand for the points, with the mean curvature c for all of them:
    c·[[TTᵀ/m + 2μ/c·I, T1/m], [1ᵀTᵀ/m, 1]] = c·RᵀR, R = [[A, r], [0, σ]]. Curvatures of their own for the centers gain
    nothing. c is left out, since conjugate gradients and relative norms do not notice.
    """

    def __init__(self, problem: Risk, factored: Factored):
        super().__init__(problem)
        self.K, self.total = problem.K, problem.total_weight
        self.pair, self.removable, self.scale, self.whitened = factored
        self.jitter = self.pair.jitter
        self.m = problem.K.shape[1]
        self.bordered = problem.intercept and self.t == 1  # the intercept's column of the Hessian is known beforehand
        self.shift = 0.0
        self.slopes_at_zero: Array | None = None

    def point(self, start: Start | None) -> Array:
        x = np.zeros((self.m + int(self.problem.intercept), self.t))
        if start is not None:
            beta, b = start if isinstance(start, tuple) else (start, torch.zeros(self.t))
            self.problem.check_start(beta)
            x[: self.m] = self.pair.multiply_t(as_numpy(beta, np.float64))
            x[self.m :] = as_numpy(b, np.float64)
        return x

    def split(self, x: Array) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(np.ascontiguousarray(self.pair.solve_t(x[: self.m]))), torch.from_numpy(
            x[self.m :].sum(0)
        )

    def _vectors(self, x: Array) -> Tensor:
        return self.split(x)[0].to(self.K.dtype).to(self.K.device)

    def first_penalty(self, penalty: float) -> float:
        return max(penalty, FIRST_PENALTY * self.scale)

    def predict(self, x: Array) -> Tensor:
        if self.whitened is None:
            beta = self._vectors(x)
            with self._pass():
                F: Tensor = (self.K @ beta).double()
        else:
            with self._pass():
                F = torch.from_numpy(self.whitened.T @ x[: self.m])
        return F + torch.from_numpy(x[self.m :].sum(0)).to(F.device)

    def transpose(self, *columns: Tensor) -> list[Array]:
        """(T⁻ᵀKᵀWG; 1ᵀWG) / Σw for each G, in one pass: what gradients G in the predictions are in x."""
        W = self.problem.weighted(torch.cat(columns, 1))
        if self.whitened is None:
            with self._pass():
                product = as_numpy(self.K.rmv(W.to(self.K.dtype), dtype=torch.float64))
            upper = self.pair.solve_t_transposed(product)
        else:
            with self._pass():
                upper = self.whitened @ as_numpy(W, np.float64)
        pulled = self._stack(upper, as_numpy(W.sum(0, keepdim=True))) / self.total
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

    def squared_norms(self, x: Array, F: Tensor) -> Array:
        norms: Array = (x * self.ridge(x)).sum(0)
        return norms

    def expand(self, x: Array, F: Tensor, mu: float) -> None:
        loss, Y = self.problem.loss, self.problem.Y
        self.F, self.mu, self.curvature = F, mu, loss.curvature(F, Y)
        columns = [loss.gradient(F, Y), self.curvature[:, : int(self.bordered)]]
        if self.slopes_at_zero is None:
            columns.append(loss.gradient(torch.zeros_like(F), Y))
        self.slopes, self.border, *first = self.transpose(*columns)
        if self.slopes_at_zero is None:
            self.slopes_at_zero = first[0]
        self.precondition(float(self.problem.mean(self.curvature)), mu)
        self.x, self.bend = x, self.ridge(x)

    def residual(self, penalty: float) -> float:
        assert self.slopes_at_zero is not None
        return self.norm(self.slopes + 2 * penalty * self.bend) / (self.norm(self.slopes_at_zero) or 1.0)

    def direction(self, tolerance: float, steps: int) -> Direction:
        solved = conjugate_gradients(
            self.preconditioned(self.hessian(self.F, self.curvature, self.border, self.mu)),
            self.solve_transposed(-self.slopes - 2 * self.mu * self.bend).reshape(-1, 1),
            tolerance=tolerance,
            max_iterations=steps,
        )
        x = self.solve(solved.solution.reshape(self.x.shape))
        bend = self.ridge(x)
        cross, square = float(np.vdot(self.x, bend)), float(np.vdot(x, bend))
        return Direction(x, self.predict(x), cross, square, solved.iterations)

    def snapshot(self) -> Snapshot:
        """With the preconditioner's shift, since one that is still good is not made again."""
        assert self.slopes_at_zero is not None
        return {"shift": self.shift, "passes": self.passes}, {"slopes_at_zero": self.slopes_at_zero}

    def restore(self, snapshot: Snapshot) -> None:
        facts, arrays = snapshot
        self.shift_by(facts["shift"])
        self.slopes_at_zero = arrays["slopes_at_zero"]
        self.passes = facts["passes"]
        self.problem.pass_first_product()

    def hessian(self, F: Tensor, curvature: Tensor, border: Array, mu: float) -> Callable[[Array], Array]:
        """v ↦ the Hessian times v."""
        weights = self.problem.weighted(curvature).to(self.K.dtype)

        def one_output(v: Array) -> Array:
            if self.whitened is None:
                beta = self._vectors(v)
                with self._pass():
                    product = as_numpy(self.K.gram_mv(beta, weights, dtype=torch.float64)) / self.total
                image = self.pair.solve_t_transposed(product)
            else:
                with self._pass():
                    image = self.whitened @ (as_numpy(weights) * (self.whitened.T @ v[: self.m])) / self.total
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
            self.shift_by(shift)

    def shift_by(self, shift: float) -> None:
        """Make R for 2μ/c = shift."""
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
