"""Everything a KernelMatrix can compute, compared with the dense matrix it stands for."""

import numpy as np
import torch


def as_array(result):
    return result.detach().cpu().numpy() if isinstance(result, torch.Tensor) else np.asarray(result)


def relative_error(found, expected):
    """‖found - expected‖ / ‖expected‖ in the Frobenius norm, NaN if anything found is NaN; the bare norm at zero."""
    found = as_array(found)
    assert found.shape == expected.shape, f"shape {found.shape} instead of {expected.shape}"
    difference = np.linalg.norm(found.astype(np.float64) - expected)
    size = np.linalg.norm(expected)
    return difference / size if size > 0 else difference


class Comparison:
    """Products of a KernelMatrix K compared with those of D, the dense float64 matrix it stands for.

    `lay` lays vectors out in memory, `give` turns them into what the engine takes; `missed` lists, in words, what was
    off by more than the tolerance.
    """

    def __init__(self, K, D, tolerance, *, lay=lambda array: array, give=lambda array: array):
        assert K.shape == D.shape
        assert K.T.shape == D.T.shape
        self.K, self.D, self.tolerance, self.lay, self.give = K, D, tolerance, lay, give
        self.dtype = np.dtype(str(K.dtype).removeprefix("torch."))
        self.generator = np.random.default_rng(len(D))
        self.missed = []

    def draw(self, rows, t):
        """Numbers of both signs around one, so that sums over them do not cancel."""
        numbers = 1 + self.generator.standard_normal(rows if t is None else (rows, t))
        return self.lay(numbers.astype(self.dtype))

    def compare(self, name, found, expected):
        if np.dtype(str(found.dtype).removeprefix("torch.")) != self.dtype:
            self.missed.append(f"{name}: {found.dtype} instead of {self.dtype}")
        error = relative_error(found, expected)
        if not error <= self.tolerance:
            self.missed.append(f"{name}: error {error:.2e} > {self.tolerance:.0e}")

    def products(self, t):
        """The three products that engines write by hand, with t right-hand sides; None stands for a plain vector."""
        K, D, give = self.K, self.D, self.give
        V, W, weights = self.draw(D.shape[1], t), self.draw(D.shape[0], t), self.draw(D.shape[0], None)
        v, w = V.astype(np.float64), W.astype(np.float64)
        self.compare(f"K @ V, t={t}", K @ give(V), D @ v)
        self.compare(f"K.T @ W, t={t}", K.T @ give(W), D.T @ w)
        self.compare(f"gram_mv, t={t}", K.gram_mv(give(V)), D.T @ (D @ v))
        weighted = D.T @ (weights.astype(np.float64) * (D @ v).T).T
        self.compare(f"gram_mv with signed weights, t={t}", K.gram_mv(give(V), give(weights)), weighted)

    def from_the_left(self, t):
        """W K and V Kᵀ, as NumPy and PyTorch write them."""
        V, W = self.draw(self.D.shape[1], t), self.draw(self.D.shape[0], t)
        self.compare(f"W.T @ K, t={t}", self.give(W.T) @ self.K, W.astype(np.float64).T @ self.D)
        self.compare(f"V.T @ K.T, t={t}", self.give(V.T) @ self.K.T, V.astype(np.float64).T @ self.D.T)

    def grams(self):
        K, D, give = self.K, self.D, self.give
        weights = self.draw(D.shape[0], None)
        signed, positive = weights.astype(np.float64), np.abs(weights.astype(np.float64))
        V = self.draw(D.shape[1], 2)
        weighted = D.T @ (positive[:, None] * (D @ V.astype(np.float64)))
        self.compare("gram_mv with positive weights", K.gram_mv(give(V), give(np.abs(weights))), weighted)
        self.compare("gram", K.gram(), D.T @ D)
        self.compare("gram with positive weights", K.gram(give(np.abs(weights))), (D.T * positive) @ D)
        self.compare("gram with signed weights", K.gram(give(weights)), (D.T * signed) @ D)

    def entries(self):
        K, D, n = self.K, self.D, len(self.D)
        self.compare("to_dense", K.to_dense(), D)
        self.compare("T.to_dense", K.T.to_dense(), D.T)
        self.compare("rows of a slice", K.block(slice(2, 11)), D[2:11])
        self.compare("rows past the end", K.block(slice(-3, n + 9)), D[-3 : n + 9])
        if n:
            self.compare("last row", K.block(-1), D[-1])
        self.compare("diag", K.diag(), D.diagonal())
