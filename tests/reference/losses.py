"""Losses from their formulas, and the minimizer of a penalized risk by Newton's method, dense and in float64."""

import numpy as np
from scipy.special import expit, log_softmax, softmax


def squared(F, Y):
    """Value, gradient and Hessian of each row; the Hessian of shape (n, t, t)."""
    return ((F - Y) ** 2).sum(1), 2 * (F - Y), 2 * np.broadcast_to(np.eye(F.shape[1]), (len(F), F.shape[1], F.shape[1]))


def robust(F, Y):
    u = F - Y
    value = (np.logaddexp(u, -u) - np.log(2)).sum(1)
    return value, np.tanh(u), (1 - np.tanh(u) ** 2)[:, :, None] * np.eye(F.shape[1])


def logistic(F, Y):
    u = (F * Y).sum(1)
    return np.logaddexp(0, -u), -expit(-u)[:, None] * Y, _outer(expit(u) * expit(-u), Y)


def exponential(F, Y):
    e = np.exp(-(F * Y).sum(1))
    return e, -e[:, None] * Y, _outer(e, Y)


def hinge(F, Y):
    """With kinks, like those below: the second derivative is zero wherever there is one."""
    u = (F * Y).sum(1)
    return np.maximum(0, 1 - u), np.where(u < 1, -1.0, 0.0)[:, None] * Y, _outer(0 * u, Y)


def absolute(F, Y):
    return np.abs(F - Y).sum(1), np.sign(F - Y), np.zeros((*F.shape, F.shape[1]))


def quantile(F, Y, level=0.5):
    r = Y - F
    value = np.where(r > 0, level * r, (level - 1) * r).sum(1)
    return value, np.where(r > 0, -level, np.where(r < 0, 1 - level, 0.0)), np.zeros((*F.shape, F.shape[1]))


def multilabel_logistic(F, Y):
    bend = expit(F) * expit(-F)
    return np.logaddexp(0, -F * Y).sum(1), -expit(-F * Y) * Y, bend[:, :, None] * np.eye(F.shape[1])


def softmax_loss(F, Y):
    P = softmax(F, axis=1)
    hessian = P[:, :, None] * np.eye(F.shape[1]) - P[:, :, None] * P[:, None, :]
    return -(Y * log_softmax(F, axis=1)).sum(1), P - Y, hessian


def _outer(scale, Y):
    return scale[:, None, None] * Y[:, :, None] * Y[:, None, :]


FORMULAS = {
    "multilabel_logistic": multilabel_logistic,
    "squared": squared,
    "robust": robust,
    "absolute": absolute,
    "quantile": quantile,
    "logistic": logistic,
    "exponential": exponential,
    "hinge": hinge,
    "softmax": softmax_loss,
}


class DenseRisk:
    """Σ wᵢ ℓ(f(xᵢ) + b, yᵢ) / Σ wᵢ + penalty ‖f‖² in an orthonormal basis of the span of the centers."""

    def __init__(self, name, K, Kmm, Y, penalty, weights=None, intercept=False):
        values, vectors = np.linalg.eigh(Kmm)
        kept = values > 1e-13 * values[-1]
        self.basis = vectors[:, kept] / np.sqrt(values[kept])
        ones = np.ones((len(K), int(intercept)))
        self.features = np.concatenate([K @ self.basis, ones], 1)
        self.ridge = np.r_[np.full(kept.sum(), penalty), np.zeros(int(intercept))]
        w = np.ones(len(K)) if weights is None else weights
        self.w, self.Y, self.formula = w / w.sum(), Y, FORMULAS[name]

    def derivatives(self, theta):
        value, gradient, hessian = self.formula(self.features @ theta, self.Y)
        total = self.w @ value + self.ridge @ (theta**2).sum(1)
        slopes = self.features.T @ (self.w[:, None] * gradient) + 2 * self.ridge[:, None] * theta
        p, t = theta.shape
        weighted = self.w[:, None, None] * hessian
        full = np.einsum("ia,ikl,ib->akbl", self.features, weighted, self.features, optimize=True).reshape(p * t, p * t)
        return total, slopes, full + 2 * np.kron(np.diag(self.ridge), np.eye(t))

    def minimize(self, steps=200):
        """Predictions at the points, of the minimizer."""
        theta = np.zeros((self.features.shape[1], self.Y.shape[1]))
        for _ in range(steps):
            value, slopes, hessian = self.derivatives(theta)
            step = np.linalg.lstsq(hessian, -slopes.ravel(), rcond=1e-15)[0].reshape(theta.shape)
            length = 1.0
            while length > 1e-9 and not self.derivatives(theta + length * step)[0] <= value * (1 + 1e-13):
                length /= 2
            theta = theta + length * step
            if -np.vdot(slopes, step) <= 1e-22 * value:
                break
        return self.features @ theta

    def decrement(self, theta):
        """√(gᵀH⁻¹g): the norm of the gradient that is the same in all coordinates."""
        _, slopes, hessian = self.derivatives(theta)
        return np.sqrt(max(0.0, slopes.ravel() @ np.linalg.lstsq(hessian, slopes.ravel(), rcond=1e-15)[0]))

    def preconditioned(self, theta, Kmm, at):
        """The norm of the gradient by the Hessian at the centers, with the mean curvature of the predictions `at`."""
        hessian = self.formula(self.features @ at, self.Y)[2]
        curvature = self.w @ np.einsum("ikk->i", hessian) / theta.shape[1]
        ones = np.ones((len(Kmm), len(theta) - self.basis.shape[1]))
        centers = np.concatenate([Kmm @ self.basis, ones], 1)
        slopes = self.derivatives(theta)[1]
        approximate = curvature * centers.T @ centers / len(Kmm) + 2 * np.diag(self.ridge)
        return np.sqrt(np.vdot(slopes, np.linalg.solve(approximate, slopes)))
