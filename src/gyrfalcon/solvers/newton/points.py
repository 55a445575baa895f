"""Newton's method where every point is a center: one solve with one factor is an iteration for all outputs at once."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor
from torch.linalg import solve_triangular

from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.linalg.triangles import cholesky_with_jitter

from ..risk import Risk
from ..solution import Snapshot
from ..solver import Start
from .space import Direction, Space

LEAST_PENALTY = 1e-12  # over the largest k(x, x), below which coefficients are not unique numerically
LEAST_CURVATURE = 1e-3  # of a row, as a part of the mean: the preconditioner takes that for rows that have less
SAME_CURVATURES = 1.0  # mean change of curvatures, relative to their mean, up to which factors are not made again
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
    with √C K √C + 2μI. The iterations know r and z over √C, and images times √C. They may be done in float32, since K
    times the direction that they find is made anew in float64.
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
            self._center(x)
        return x

    def _center(self, x: Array) -> None:
        """Take out of x what changes no loss; rounding would let it grow, as nothing pulls it back."""
        if self.intercept:
            x[: self.n] -= x[: self.n].mean(0)
        if self.problem.loss.relative:
            x -= x.mean(1, keepdims=True)

    def predict(self, x: Array) -> Tensor:
        return torch.from_numpy(self._product(x[: self.n]) + x[self.n :].sum(0))

    def _product(self, alpha: Array) -> Array:
        self.passes += 1
        with self.problem.timed("iterate"):
            return as_numpy(torch.from_numpy(self.K) @ torch.from_numpy(alpha))

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
        gradient = self.weight * as_numpy(problem.loss.gradient(F, problem.Y)) + 2 * mu * x[: self.n]
        c = (self.weight * as_numpy(problem.loss.curvature(F, problem.Y)))[:, 0]
        # Less than the second, where all rows are far on their sides, changes the ridge by nothing but rounding.
        c = np.maximum(c, max(LEAST_CURVATURE * float(c.mean()), 2 * mu / (self.n * self.scale)))
        same = self.made is not None and self.mu == mu
        if not same or float(np.abs(c - self.made).mean()) > SAME_CURVATURES * float(c.mean()):
            self._factor(c, mu)
        self.gradient = self._scaled(gradient)
        self.z, self.image = self._solve(self.gradient)
        self.norm, reliable = self._norm(self.gradient, self.image)
        if not reliable and self.sharpen():
            self.expand(x, F, mu)

    def _factor(self, c: Array, mu: float) -> None:
        """Make U with UᵀU = √C K √C + 2μI."""
        with self.problem.timed("factor"):
            top = self.scale * float(c.sum())  # at least the largest eigenvalue
            self.made, self.mu, self.ridge = c, mu, 2 * mu
            self.root = np.sqrt(c)[:, None]
            single = not self.sharp and 2 * mu >= SINGLE_RIDGE * top
            if not (single and self._factor_single()):
                self.ridge = max(2 * mu, DOUBLE_RIDGE * top)
                U = self._with_ridge(torch.float64)
                self.ridge += cholesky_with_jitter(U, 0.0)
                self.U = torch.from_numpy(U)
        self.ones: Tensor | None = None
        if self.intercept:
            root = self._scaled(self.root * self.root)
            ones = self._solve(root)[0]
            self.weights_of_ones, self.ones = root.T, ones / (root.T @ ones)
        slopes = self.problem.loss.gradient(torch.zeros_like(self.F), self.problem.Y)
        at_zero = self._scaled(self.weight * as_numpy(slopes))
        self.norm_at_zero = self._norm(at_zero, self._solve(at_zero)[1])[0]

    def _with_ridge(self, dtype: torch.dtype) -> Array:
        """√C K √C + ridge·I, in Fortran order."""
        root = torch.from_numpy(self.root).to(dtype)
        S = torch.empty((self.n, self.n), dtype=dtype).copy_(torch.from_numpy(self.K.T))  # which K is, too
        S.mul_(root).mul_(root.T).diagonal().add_(self.ridge)
        return S.numpy().T

    def _factor_single(self) -> bool:
        U, info = lapack.spotrf(self._with_ridge(torch.float32), lower=0, clean=0, overwrite_a=1)
        self.U = torch.from_numpy(U)
        return bool(info == 0)

    def _scaled(self, r: Array) -> Tensor:
        """√C⁻¹ r in the type of U and, for the solves, with outputs that are contiguous."""
        return torch.from_numpy(np.ascontiguousarray((r / self.root).T)).to(self.U.dtype).T

    def _solve(self, r: Tensor) -> tuple[Tensor, Tensor]:
        """√C⁻¹ z and √C times its image, for √C⁻¹ r."""
        self.passes += 1
        with self.problem.timed("iterate"):
            z = solve_triangular(self.U, solve_triangular(self.U.T, r, upper=False), upper=True)
            if self.ones is not None:
                z -= self.ones * (self.weights_of_ones @ z)
            return z, torch.sub(r, z, alpha=self.ridge)

    def _norm(self, gradient: Tensor, image: Tensor) -> tuple[float, bool]:
        """The root of ⟨gradient, image⟩, and whether it is more than rounding, below which it does not go."""
        squared = _inner(gradient.double(), image.double())
        rounding = torch.finfo(self.U.dtype).eps * float(gradient.norm()) * float(image.norm())
        return float(np.sqrt(max(squared, rounding))), squared > UNRELIABLE * rounding

    def residual(self, penalty: float) -> float:
        return self.norm / (self.norm_at_zero or 1.0)

    def direction(self, tolerance: float, steps: int) -> Direction:
        found, found_image, iterations = self._conjugate_gradients(tolerance, steps)
        x = np.zeros_like(self.x)
        alpha, b = x[: self.n], x[self.n :]
        alpha[:] = self.root * as_numpy(found.double())
        self._center(x)
        product = self._product(alpha)
        b[:] = (as_numpy(found_image.double()) / self.root - product).mean(0)
        cross, square = float(np.vdot(self.x[: self.n], product)), float(np.vdot(alpha, product))
        return Direction(x, torch.from_numpy(product + b.sum(0)), cross, square, iterations)

    def _conjugate_gradients(self, tolerance: float, steps: int) -> tuple[Tensor, Tensor, int]:
        """√C⁻¹ times a direction, √C times its image, and the number of iterations, in the type of U."""
        r, p, p_image = -self.gradient, -self.z, -self.image
        hessian = self.problem.loss.hessian_at(self.F, self.problem.Y, like=r)
        rates = torch.from_numpy(self.weight / (self.root * self.root)).to(r.dtype)
        found, found_image = torch.zeros_like(p), torch.zeros_like(p)
        squared = _inner(r, p_image)
        goal = tolerance**2 * squared
        iteration = 0
        while squared > goal:
            q = (rates * hessian(p_image)).add_(p, alpha=2 * self.mu)
            curvature = _inner(p_image, q)
            if not curvature > 0:
                break
            length = squared / curvature
            found.add_(p, alpha=length)
            found_image.add_(p_image, alpha=length)
            iteration += 1
            if iteration == steps:
                break
            r.sub_(q, alpha=length)
            z, image = self._solve(r)
            before, squared = squared, _inner(r, image)
            p.mul_(squared / before).add_(z)
            p_image.mul_(squared / before).add_(image)
        return found, found_image, iteration

    def sharpen(self) -> bool:
        if self.U.dtype == torch.float64:
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


def _inner(a: Tensor, b: Tensor) -> float:
    """⟨a, b⟩ of matrices with contiguous columns; the sums over columns are float64."""
    return float(np.einsum("ij,ij->i", a.T.numpy(), b.T.numpy()).sum(dtype=np.float64))
