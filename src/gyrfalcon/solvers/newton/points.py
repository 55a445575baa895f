"""Newton's method where every point is a center: one solve with one factor is an iteration for all outputs at once."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import blas, lapack
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.linalg.triangles import cholesky_with_jitter

from ..risk import Risk
from ..solution import Snapshot
from ..solver import Start
from .space import Direction, Space

LEAST_PENALTY = 1e-12  # over the largest k(x, x), below which coefficients are not unique numerically
LEAST_CURVATURE = 1e-3  # of a row, as a part of the mean: the preconditioner takes that for rows that have less
SAME_CURVATURES = 0.3  # mean change of curvatures, relative to their mean, up to which factors are not made again
SINGLE_RIDGE = 16 * float(np.finfo(np.float32).eps)  # least ridge, over the largest eigenvalue, of float32 factors
UNRELIABLE = 10  # times its rounding, below which a squared norm is computed again in float64
FIRST_PENALTY = 1e-4  # where a path of penalties begins, as a part of max k(x, x)
DOUBLE_RIDGE = 16 * float(np.finfo(np.float64).eps)


class PointSpace(Space):
    """The unknowns (α; b) of F = Kα + 1b with 1ᵀα = 0, K = k(X, X), or α alone without an intercept.

    The gradient of the risk along δF = Kδ + 1δb is ⟨r, δF⟩, r = Wg/Σw + 2μα, and its Hessian ⟨H δF + 2μδ, δF⟩, where H
    has the second derivatives of the loss. The preconditioner has one curvature cᵢ for each row, the mean of those of
    its outputs, so that they all share one factor. It maps r to the z with C(Kz + 1b) + 2μz = r, C = diag(c), so that
    the image Kz + 1b = C⁻¹(r - 2μz) comes without a product with K. Of conjugate gradients every iteration is one solve
    with √C K √C + 2μI. It may be done in float32, as K times the direction is made anew in float64.
    """

    def __init__(self, problem: Risk, K: Array):
        super().__init__(problem)
        self.K, self.n, self.jitter = K, len(K), 0.0
        self.scale = float(K.diagonal().max(initial=0.0))
        weights = problem.weights
        weight = np.ones((self.n, 1)) if weights is None else as_numpy(weights.double())
        self.weight: Array = weight / problem.total_weight
        self.intercept = int(problem.intercept)
        self.sharp = False  # whether factors are to be made in float64
        self.made: Array | None = None  # the curvatures that the factor was made for
        self.mu = -1.0

    def point(self, start: Start | None) -> Array:
        x = np.zeros((self.n + self.intercept, self.t))
        if start is not None:
            beta, b = start if isinstance(start, tuple) else (start, torch.zeros(self.t))
            self.problem.check_start(beta)
            x[: self.n] = as_numpy(beta, np.float64)
            x[self.n :] = as_numpy(b, np.float64)
            if self.intercept:
                x[: self.n] -= x[: self.n].mean(0)
        return x

    def predict(self, x: Array) -> Tensor:
        return torch.from_numpy(self._product(x[: self.n]) + x[self.n :].sum(0))

    def _product(self, alpha: Array) -> Array:
        self.passes += 1
        with self.problem.timed("iterate"):
            found: Array = self.K @ alpha
        return found

    def split(self, x: Array) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(x[: self.n].copy()), torch.from_numpy(x[self.n :].sum(0))

    def first_penalty(self, penalty: float) -> float:
        return max(penalty, FIRST_PENALTY * self.scale)

    def squared_norms(self, x: Array, F: Tensor) -> Array:
        norms: Array = (x[: self.n] * (as_numpy(F) - x[self.n :].sum(0))).sum(0)
        return norms

    def expand(self, x: Array, F: Tensor, mu: float) -> None:
        problem = self.problem
        self.x, self.F = x, F
        self.gradient: Array = self.weight * as_numpy(problem.loss.gradient(F, problem.Y)) + 2 * mu * x[: self.n]
        c = (self.weight * as_numpy(problem.loss.curvature(F, problem.Y)))[:, 0]
        # Less than the second, where all rows are far on their sides, changes the ridge by nothing but rounding.
        c = np.maximum(c, max(LEAST_CURVATURE * float(c.mean()), 2 * mu / (self.n * self.scale)))
        same = self.made is not None and self.mu == mu
        if not same or float(np.abs(c - self.made).mean()) > SAME_CURVATURES * float(c.mean()):
            self._factor(c, mu)
        self.z, self.image = self._solve(self.gradient)
        self.norm, reliable = self._norm(self.gradient, self.image)
        if not reliable and self.sharpen():
            self.expand(x, F, mu)

    def _factor(self, c: Array, mu: float) -> None:
        """Make U with UᵀU = √C K √C + 2μI."""
        with self.problem.timed("factor"):
            top = self.scale * float(c.sum())  # at least the largest eigenvalue
            self.made, self.mu, self.ridge = c, mu, 2 * mu
            self.root: Array = np.sqrt(c)[:, None]
            single = not self.sharp and 2 * mu >= SINGLE_RIDGE * top
            if not (single and self._factor_single()):
                self.ridge = max(2 * mu, DOUBLE_RIDGE * top)
                self.U = self._scaled(np.float64)
                self.ridge += cholesky_with_jitter(self.U, 0.0)
        if self.intercept:
            ones = self._solve_factored(self.root * self.root)
            self.ones = ones / ones.sum()
        slopes = self.problem.loss.gradient(torch.zeros_like(self.F), self.problem.Y)
        at_zero = self.weight * as_numpy(slopes)
        self.norm_at_zero = self._norm(at_zero, self._solve(at_zero)[1])[0]

    def _scaled(self, dtype: type) -> Array:
        """√C K √C + ridge·I."""
        root: Array = self.root.astype(dtype)
        S: Array = np.multiply(self.K, root.T, dtype=dtype, order="F", casting="same_kind")
        S *= root
        np.fill_diagonal(S, S.diagonal() + dtype(self.ridge))
        return S

    def _factor_single(self) -> bool:
        self.U, info = lapack.spotrf(self._scaled(np.float32), lower=0, clean=0, overwrite_a=1)
        return bool(info == 0)

    def _solve_factored(self, r: Array) -> Array:
        """√C (UᵀU)⁻¹ √C⁻¹ r."""
        trsm = blas.strsm if self.U.dtype == np.float32 else blas.dtrsm
        v = np.divide(r, self.root).astype(self.U.dtype, copy=False).T  # in Fortran order, with rows for columns
        v = trsm(1.0, self.U, trsm(1.0, self.U, v, side=1, overwrite_b=1), side=1, trans_a=1, overwrite_b=1)
        z: Array = np.multiply(v.T, self.root)
        return z

    def _solve(self, r: Array) -> tuple[Array, Array]:
        """z and its image."""
        self.passes += 1
        with self.problem.timed("iterate"):
            z = self._solve_factored(r)
            if self.intercept:
                z -= self.ones * z.sum(0)
            return z, (r - self.ridge * z) / (self.root * self.root)

    def _norm(self, gradient: Array, image: Array) -> tuple[float, bool]:
        """The root of ⟨gradient, image⟩, and whether it is more than rounding, below which it does not go."""
        squared = float(np.vdot(gradient, image))
        rounding = float(np.finfo(self.U.dtype).eps) * float(np.linalg.norm(gradient) * np.linalg.norm(image))
        return float(np.sqrt(max(squared, rounding))), squared > UNRELIABLE * rounding

    def residual(self, penalty: float) -> float:
        return self.norm / (self.norm_at_zero or 1.0)

    def direction(self, tolerance: float, steps: int) -> Direction:
        alpha, image, iterations = self._conjugate_gradients(tolerance, steps)
        product = self._product(alpha)
        b = (image - product).mean(0, keepdims=True)[: self.intercept]
        x = np.concatenate([alpha, b])
        cross, square = float(np.vdot(self.x[: self.n], product)), float(np.vdot(alpha, product))
        return Direction(x, torch.from_numpy(product + b.sum(0)), cross, square, iterations)

    def _conjugate_gradients(self, tolerance: float, steps: int) -> tuple[Array, Array, int]:
        """A direction, its image and the number of iterations."""
        loss, Y, F = self.problem.loss, self.problem.Y, self.F
        r, z, image = -self.gradient, -self.z, -self.image
        found, found_image = np.zeros_like(z), np.zeros_like(z)
        p, p_image = z, image
        squared = float(np.vdot(r, image))
        goal = tolerance**2 * squared
        iteration = 0
        while iteration < steps and squared > goal:
            bent = as_numpy(loss.hessian_product(F, Y, torch.from_numpy(p_image)))
            q = self.weight * bent + 2 * self.mu * p
            curvature = float(np.vdot(p_image, q))
            if not curvature > 0:
                break
            length = squared / curvature
            found += length * p
            found_image += length * p_image
            r -= length * q
            iteration += 1
            z, image = self._solve(r)
            before, squared = squared, float(np.vdot(r, image))
            p, p_image = z + squared / before * p, image + squared / before * p_image
        return found, found_image, iteration

    def sharpen(self) -> bool:
        if self.U.dtype == np.float64:
            return False
        self.sharp, self.made = True, None
        return True

    def snapshot(self) -> Snapshot:
        """With the curvatures of the factor, since one that is still good is not made again."""
        assert self.made is not None
        return {"mu": self.mu, "sharp": self.sharp, "passes": self.passes}, {"curvatures": self.made}

    def restore(self, snapshot: Snapshot) -> None:
        facts, arrays = snapshot
        self.sharp = facts["sharp"]
        self.F = torch.zeros(self.problem.Y.shape, dtype=torch.float64)
        self._factor(arrays["curvatures"], facts["mu"])
        self.passes = facts["passes"]
