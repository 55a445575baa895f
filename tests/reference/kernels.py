"""Kernel matrices in float64, straight from the formulas: slow, plain, and sharing nothing with the package."""

import numpy as np

from gyrfalcon import kernels


def dense(kernel, X, C):
    """k(X, C) in float64, at the values of X and C as given."""
    X, C = np.asarray(X, dtype=np.float64), np.asarray(C, dtype=np.float64)
    return _evaluate(kernel, X, C, np.eye(X.shape[1]))


def distances(X, C, length_scale=1.0, matrix=None):
    """‖A(x - c) / length_scale‖, from explicit differences."""
    gaps = np.asarray(X, dtype=np.float64)[:, None] - np.asarray(C, dtype=np.float64)[None]
    gaps = gaps if matrix is None else gaps @ matrix.T
    return np.sqrt(((gaps / np.asarray(length_scale)) ** 2).sum(-1))


def _evaluate(kernel, X, C, A):
    match kernel:
        case kernels.Sum():
            return _evaluate(kernel.left, X, C, A) + _evaluate(kernel.right, X, C, A)
        case kernels.Product():
            return _evaluate(kernel.left, X, C, A) * _evaluate(kernel.right, X, C, A)
        case kernels.Scaled():
            return float(kernel.scale) * _evaluate(kernel.kernel, X, C, A)
        case kernels.Mapped():
            return _evaluate(kernel.kernel, X, C, np.asarray(kernel.matrix, dtype=np.float64) @ A)
        case kernels.Function():
            raise TypeError("a Python function is its own formula")
    scale = np.asarray(kernel.length_scale, dtype=np.float64)
    mapped = None if A.shape == (X.shape[1], X.shape[1]) and (np.eye(len(A)) == A).all() else A
    if isinstance(kernel, kernels.RadialKernel):
        return _radial(kernel, distances(X, C, scale, mapped))
    if isinstance(kernel, kernels.ProductLaplacian):
        gaps = X[:, None] - C[None]
        gaps = gaps if mapped is None else gaps @ A.T
        return np.exp(-((np.abs(gaps) / scale).sum(-1) ** float(kernel.power)))
    X, C = (X, C) if mapped is None else (X @ A.T, C @ A.T)
    return _dot(kernel, ((X / scale)[:, None] * (C / scale)[None]).sum(-1))


def _radial(kernel, r):
    match kernel:
        case kernels.Gaussian():
            return np.exp(-(r**2) / 2)
        case kernels.Laplacian():
            return np.exp(-r)
        case kernels.Matern(nu=0.5):
            return np.exp(-r)
        case kernels.Matern(nu=1.5):
            return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
        case kernels.Matern(nu=2.5):
            return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)
        case kernels.ExponentialPower():
            return np.exp(-(r ** float(kernel.power)))
        case kernels.RationalQuadratic():
            alpha = float(kernel.alpha)
            return np.exp(-alpha * np.log1p(r**2 / (2 * alpha)))
        case kernels.Cauchy():
            return 1 / (1 + r**2)
    raise NotImplementedError(f"no oracle for {kernel!r}")


def _dot(kernel, p):
    match kernel:
        case kernels.Linear():
            return p
        case kernels.Polynomial():
            return (p + float(kernel.offset)) ** kernel.degree
        case kernels.Sigmoid():
            return np.tanh(p + float(kernel.offset))
        case kernels.Fourier():
            return float(kernel.amplitude) * (np.cos(p) + np.sin(p))
    raise NotImplementedError(f"no oracle for {kernel!r}")
