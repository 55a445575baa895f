"""What tuning minimizes, from the formulas with n × n matrices, dense and in float64; autograd differentiates it."""

import numpy as np
import torch

from gyrfalcon import kernels

JITTER = 1e-10  # on the diagonal of k(C, C), relative to its largest entry


def kernel_matrix(kernel, values, X, C, place=""):
    """k(X, C) of tensors, with the kernel's parameters as tensors by name."""
    match kernel:
        case kernels.Sum():
            left, right = (kernel_matrix(k, values, X, C, f"{place}{name}.") for name, k in kernel.children())
            return left + right
        case kernels.Scaled():
            return values[place + "scale"] * kernel_matrix(kernel.kernel, values, X, C, f"{place}kernel.")
        case kernels.Mapped():
            A = values[place + "matrix"]
            return kernel_matrix(kernel.kernel, values, X @ A.T, C @ A.T, f"{place}kernel.")
    scale = values[place + "length_scale"]
    match kernel:
        case kernels.Linear():
            return (X / scale) @ (C / scale).T
        case kernels.Polynomial():
            return ((X / scale) @ (C / scale).T + values[place + "offset"]) ** kernel.degree
    squared = (((X[:, None] - C[None]) / scale) ** 2).sum(-1)
    apart = squared > 0  # the root has no derivative at zero
    r = torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)
    match kernel:
        case kernels.Gaussian():
            return torch.exp(-squared / 2)
        case kernels.Laplacian():
            return torch.exp(-r)
        case kernels.Matern(nu=1.5):
            return (1 + 3**0.5 * r) * torch.exp(-(3**0.5) * r)
        case kernels.Matern(nu=2.5):
            return (1 + 5**0.5 * r + 5 * squared / 3) * torch.exp(-(5**0.5) * r)
        case kernels.RationalQuadratic():
            alpha = values[place + "alpha"]
            return (1 + squared / (2 * alpha)) ** -alpha
    raise NotImplementedError(f"no oracle for {kernel!r}")


class Dense:
    """K̃ = Knm Kmm⁻¹ Kmn and the diagonal of K. A row of weight two is two rows; N is the sum of the weights.

    Without Kmm every row is a center, and K̃ is K.
    """

    def __init__(self, K, Kmm, diagonal, Y, penalty, weights=None):
        if Kmm is None:
            self.Q = K
        else:
            lift = JITTER * Kmm.detach().diagonal().max() * torch.eye(len(Kmm), dtype=torch.float64)
            self.Q = K @ torch.linalg.solve(Kmm + lift, K.T)
        self.diagonal, self.Y, self.penalty = diagonal, Y, penalty
        self.w = torch.ones(len(Y), dtype=torch.float64) if weights is None else weights
        self.N = self.w.sum()

    def predict(self, fitted, asked, ridge):
        """f at the rows `asked`, the minimizer of Σ w (f - y)² + ridge ‖f‖² over the rows `fitted`."""
        root = self.w[fitted].sqrt()[:, None]
        A = root * self.Q[fitted][:, fitted] * root.T + ridge * torch.eye(len(root), dtype=torch.float64)
        return self.Q[asked][:, fitted] @ (root * torch.linalg.solve(A, root * self.Y[fitted]))

    def errors(self, rows, prediction):
        """Σ w (f - y)² over the rows, outputs averaged."""
        return (self.w[rows, None] * (prediction - self.Y[rows]) ** 2).sum() / self.Y.shape[1]

    # On all rows, which are taken times the roots of their weights.

    @property
    def roots(self):
        return self.w.sqrt()[:, None]

    @property
    def system(self):
        """K̃ + NλI."""
        identity = torch.eye(len(self.Y), dtype=torch.float64)
        return self.roots * self.Q * self.roots.T + self.N * self.penalty * identity

    @property
    def hat(self):
        """(K̃ + NλI)⁻¹ K̃, whose trace is the number of degrees of freedom."""
        return torch.linalg.solve(self.system, self.roots * self.Q * self.roots.T)

    @property
    def error(self):
        """‖f(X) - Y‖² / N."""
        rows = np.arange(len(self.Y))
        return self.errors(rows, self.predict(rows, rows, self.N * self.penalty)) / self.N

    @property
    def norm(self):
        """‖f‖² = αᵀ K̃ α."""
        alpha = self.roots * torch.linalg.solve(self.system, self.roots * self.Y)
        return (alpha * (self.Q @ alpha)).sum() / self.Y.shape[1]

    @property
    def risk(self):
        return self.error + self.penalty * self.norm

    @property
    def defect(self):
        """Tr(K - K̃)."""
        return (self.w * (self.diagonal - self.Q.diagonal())).sum()


def validation(dense, labels, held):
    """Each part of the rows that is held out, predicted from all the others."""
    total = 0.0
    for fold in held:
        inside, outside = labels == fold, labels != fold
        total += dense.errors(inside, dense.predict(outside, inside, dense.w[outside].sum() * dense.penalty))
    return total / dense.w[np.isin(labels, held)].sum()


def leave_one_out(dense):
    """n fits, each without one row and with the ridge Nλ of all rows, to predict that row. A row leaves with all of its
    weight."""
    n = len(dense.Y)
    others = 1 - torch.eye(n, dtype=torch.float64)
    roots = (dense.w * others).sqrt()[:, :, None]  # one fit after another along the first axis
    A = roots * dense.Q * roots.mT + dense.N * dense.penalty * torch.eye(n, dtype=torch.float64)
    alpha = roots * torch.linalg.solve(A, roots * dense.Y)
    prediction = torch.einsum("ij,ijk->ik", dense.Q, alpha)
    return dense.errors(np.arange(n), prediction) / dense.N


def leave_one_out_shortcut(dense):
    """The same from one fit: residuals over one minus the leverage."""
    rows = np.arange(len(dense.Y))
    residual = dense.Y - dense.predict(rows, rows, dense.N * dense.penalty)
    without = residual / (1 - dense.hat.diagonal()[:, None])
    return dense.errors(rows, dense.Y - without) / dense.N


def gcv(dense):
    return dense.error / (1 - dense.hat.trace() / dense.N) ** 2


def creg(dense, noise=1.0):
    return dense.error + 2 * noise / dense.N * dense.hat.trace()


def sgpr(dense, amplitude=False):
    fit = (dense.roots * dense.Y * torch.linalg.solve(dense.system, dense.roots * dense.Y)).sum() / dense.Y.shape[1]
    # Rows of weight two are two: of N dimensions, all but n have the eigenvalue Nλ.
    logarithm = torch.logdet(dense.system) + (dense.N - len(dense.Y)) * torch.log(dense.N * dense.penalty)
    approximation = dense.defect / (dense.N * dense.penalty)
    return logarithm + (dense.N * torch.log(fit / dense.N) if amplitude else fit) + approximation


def proposed(dense, *, mean=True):
    E, missed = dense.risk, dense.defect / dense.N if mean else dense.defect
    return 2 / dense.N * dense.hat.trace() + 2 / (dense.N * dense.penalty) * missed * E + 2 * E


def differentiate(objective, kernel, X, C, Y, penalty, weights=None):
    """The value of a function of `Dense`, and its derivatives in the penalty, the parameters and the centers.

    With C = None every row is a center, in which the derivative is zero.
    """
    every = C is None
    C = np.zeros_like(X) if every else C
    X, Y = (torch.as_tensor(a, dtype=torch.float64) for a in (X, Y))
    weights = None if weights is None else torch.as_tensor(weights, dtype=torch.float64).reshape(-1)
    C, penalty = (torch.tensor(np.asarray(a), dtype=torch.float64, requires_grad=True) for a in (C, penalty))
    values = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in kernel.parameters().items()
    }
    among = kernel_matrix(kernel, values, X, X)
    K, Kmm = (among, None) if every else (kernel_matrix(kernel, values, part, C) for part in (X, C))
    value = objective(Dense(K, Kmm, among.diagonal(), Y, penalty, weights)) + 0 * C.sum()
    in_penalty, in_centers, *rest = torch.autograd.grad(value, (penalty, C, *values.values()))
    in_parameters = {name: part.numpy() for name, part in zip(values, rest, strict=True)}
    return value.item(), {"penalty": in_penalty.numpy(), "centers": in_centers.numpy(), **in_parameters}
