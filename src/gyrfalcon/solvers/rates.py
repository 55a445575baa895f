"""What the work of solvers costs on two cores, in nanoseconds, and how much of it Falkon needs, from experience:
`python -m benchmarks choice`.

Only ratios matter: machines may differ by a factor.
"""

import numpy as np
import torch

ENTRY = {torch.float32: 0.22, torch.float64: 0.6}  # of K, made in passing
FEATURE = {torch.float32: 0.0135, torch.float64: 0.03}  # more for each feature
OUTPUT = 0.15  # more for each further output
KEPT, KEPT_OUTPUT = 2.2, 1.4  # an entry of a K that is kept, and each further output
PASS = 3e6  # of every pass, whatever its size
SAMPLING = 50e6  # of making a preconditioner from a sample, whatever its size
STORED = 2.0  # an entry that is written down
FLOP = 0.0147  # in large products of float64 matrices
SMALL_PRODUCTS = 300  # the size at which they reach half of that

SHARE = {8: 0.25, 3: 0.45}  # of the iterations that are left, by how many rows to a center are sampled


def entry(features: float, dtype: torch.dtype) -> float:
    """Of K, made in passing."""
    return ENTRY[dtype] + FEATURE[dtype] * features


def flop(size: int) -> float:
    """In products of float64 matrices of that size."""
    return FLOP * (1 + SMALL_PRODUCTS / max(1, size))


def whitened_gram(rows: float, m: int, features: float) -> float:
    """ZᵀZ, Z = K T⁻¹, in float64: a triangular solve and a product of which symmetry saves half."""
    return rows * m * (entry(features, torch.float64) + STORED) + 2 * rows * m**2 * flop(m)


def iterations(n: int, m: int, directions: float, penalty: float, per_center: int = 0) -> float:
    """Of Falkon, preconditioned by k(C, C) or by a sample of so many rows to a center.

    More where the spectrum falls beyond what the centers resolve: with few of them, small penalties and few directions
    that matter to the kernel.
    """
    directions, growth = max(1.0, directions), (n / 5e4) ** 0.12
    unresolved = 16.5 * np.sqrt(directions) * (max(penalty, 1e-12) * m**2) ** -0.31
    plain = float(np.clip(growth * min(unresolved, 8 + 7200 / directions**2), 8, 100))
    return plain if not per_center else 3 + plain * SHARE[per_center]
