"""The coordinates that Newton's method works in: products with K in them, and a preconditioner for the Hessian."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.matrix import KernelMatrix

from ..falkon.equations import factor
from ..risk import Risk
from ..solver import Start, State

WHITENED_ENTRIES = 30_000_000  # of K, up to which products in the coordinates are those with one stored matrix


class NewtonState(State):
    """The triangles of Falkon's preconditioner, and for few entries T⁻ᵀKᵀ, which saves solves and kernel products."""

    def __init__(self, K: KernelMatrix, weights: Tensor | None, intercept: bool):
        super().__init__(K, weights, intercept)
        with self.timed("factor"):
            self.pair, self.removable, self.scale = factor(K)
            self.whitened: Array | None = None
            n, m = K.shape
            small = n * m <= WHITENED_ENTRIES and 16 * n * m <= K.memory_budget
            wide = K.dtype == torch.float64 and K.device.type == "cpu"  # others round, which the solver has to notice
            if small and wide and not K.streamed:
                self.whitened = self.pair.solve_t_transposed(K.wide_block(slice(0, n)).T)


class Coordinates:
    """The coordinates x = (Tβ; b), in which ‖f‖² is a sum of squares, products with K in them, and a preconditioner.

    The preconditioner is the Hessian at centers that stand for the points, with the mean curvature c for all of them:
    c·[[TTᵀ/m + 2μ/c·I, T1/m], [1ᵀTᵀ/m, 1]] = c·RᵀR, R = [[A, r], [0, σ]]. Curvatures of their own for the centers gain
    nothing. c is left out, since conjugate gradients and relative norms do not notice.
    """

    def __init__(self, problem: Risk, state: NewtonState):
        self.problem, self.K, self.total = problem, problem.K, problem.total_weight
        self.pair, self.removable, self.scale = state.pair, state.removable, state.scale
        self.whitened = state.whitened
        self.m, self.t = problem.K.shape[1], problem.Y.shape[1]
        self.bordered = problem.intercept and self.t == 1  # the intercept's column of the Hessian is known beforehand
        self.shift = 0.0
        self.passes = 0

    def point(self, start: Start | None) -> Array:
        """x of coefficients, or of coefficients and intercept."""
        x = np.zeros((self.m + int(self.problem.intercept), self.t))
        if start is not None:
            beta, b = start if isinstance(start, tuple) else (start, torch.zeros(self.t))
            self.problem.check_start(beta)
            x[: self.m] = self.pair.multiply_t(as_numpy(beta, np.float64))
            x[self.m :] = as_numpy(b, np.float64)
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
