"""The largest eigenvalues of a symmetric matrix and their eigenvectors, from products with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh, qr

Array = np.ndarray[Any, Any]

OVERSAMPLING = 8  # columns more than are asked for: the last ones of a block converge slowly


def top_eigensystem(
    matrix: Any, count: int, *, seed: int = 0, tolerance: float = 0.05, max_products: int = 4
) -> tuple[Array, Array]:
    """The `count` largest eigenvalues, falling, and orthonormal eigenvectors as columns, in float64.

    A block of random columns is multiplied again and again, each product is made orthogonal to those before it, and the
    matrix is diagonalized in the space they span (block Lanczos, fully reorthogonalised). Eigenvalues are never too
    large. Good for preconditioners: those that are well apart have many digits, those that crowd at the end have few.

    Parameters
    ----------
    matrix : array or KernelMatrix of shape (n, n)
        Symmetric and positive semi-definite; only `matrix @ block` and `matrix.shape` are used. Blocks have its type.
    count : int
        At most n.
    seed : int
        Of the first block.
    tolerance : float
        It ends when no eigenvalue grows by more than this part of itself.
    max_products : int
        Of the matrix with a block.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon.linalg.eigensystem import top_eigensystem
    >>> values, vectors = top_eigensystem(np.diag([1.0, 5.0, 3.0]), 2)
    >>> values.round(6).tolist(), np.abs(vectors).round(6).argmax(0).tolist()
    ([5.0, 3.0], [1, 2])
    """
    n = matrix.shape[0]
    if not 1 <= count <= n:
        raise ValueError(f"count must be between 1 and the size of the matrix, {n}, got {count!r}")
    dtype = np.dtype(str(matrix.dtype).removeprefix("torch."))
    block = np.random.default_rng(seed).standard_normal((n, min(n, count + OVERSAMPLING)))
    basis = qr(block, mode="economic")[0]
    images = np.zeros((n, 0))
    values, vectors = np.zeros(count), np.zeros((n, count))
    for _ in range(max_products):
        image = np.asarray(matrix @ np.ascontiguousarray(basis[:, images.shape[1] :].astype(dtype)), dtype=np.float64)
        images = np.concatenate([images, image], 1)
        inner = basis.T @ images
        found, rotation = eigh((inner + inner.T) / 2)
        last, values = values, found[::-1][:count].copy()
        vectors = basis @ rotation[:, ::-1][:, :count]
        room = min(image.shape[1], n - basis.shape[1])
        if room == 0 or (values - last <= tolerance * np.abs(values)).all():
            break
        for _ in range(2):  # the second time takes away what rounding left, also in directions that were nearly zero
            image = qr(image - basis @ (basis.T @ image), mode="economic")[0]
        basis = np.concatenate([basis, image[:, :room]], 1)
    return values, vectors
