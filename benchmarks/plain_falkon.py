"""Falkon as written down in the papers, with everything in the type of the data: what float32 does to it."""

from __future__ import annotations

from typing import Any

import numpy as np

import gyrfalcon as gf
from gyrfalcon.linalg.cg import conjugate_gradients
from gyrfalcon.linalg.triangles import TrianglePair

Array = np.ndarray[Any, Any]

JITTER = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}  # times m, as FalkonML/falkon adds to k(C, C)


def plain_falkon(
    kernel: gf.kernels.Kernel, X: Array, C: Array, y: Array, penalty: float, iterations: tuple[int, ...]
) -> dict[int, Array]:
    """Coefficients after each of the numbers of iterations; no sum, no triangle and no iterate is wider than X.

    The jitter stays in the problem, where it acts as a further penalty: there is nothing here to take it out.
    """
    n, m = len(X), len(C)
    K = gf.KernelMatrix(kernel, X, C)
    between = gf.KernelMatrix(kernel, C).to_dense()
    pair = TrianglePair(np.asfortranarray(between), penalty, JITTER[X.dtype] * m)

    def operator(gamma: Array) -> Array:
        inner = pair.solve_a(gamma)
        image = pair.solve_t_transposed(K.gram_mv(pair.solve_t(inner)) / n) + penalty * inner
        return pair.solve_a_transposed(image)

    kept: dict[int, Array] = {}

    def keep(iteration: int, gamma: Array, *_: Array) -> bool:
        if iteration in iterations:
            kept[iteration] = pair.solve_t(pair.solve_a(gamma))
        return False

    right = pair.solve_a_transposed(pair.solve_t_transposed(K.rmv(y[:, None]) / n))
    result = conjugate_gradients(operator, right, tolerance=0.0, max_iterations=max(iterations), callback=keep)
    last = pair.solve_t(pair.solve_a(result.solution))
    return {count: kept.get(count, last) for count in iterations}
