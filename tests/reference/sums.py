"""Products of dense matrices whose rounding has a bound that does not depend on the machine."""

import numpy as np


def product(A, B):
    """A B in float64, each entry a pairwise sum along contiguous memory.

    NumPy adds blocks of 128 terms in eight running sums and the blocks in pairs, so that a sum of n terms of one sign
    is off by at most (20 + log₂ n)·2⁻⁵³ of its value. BLAS promises only n·2⁻⁵³, and comes close to it where all terms
    are equal: every addition then rounds in the same direction, differently on each processor.
    """
    A, columns = np.ascontiguousarray(A, dtype=np.float64), np.ascontiguousarray(np.transpose(B), dtype=np.float64)
    return np.stack([(A * column).sum(axis=1) for column in columns], axis=1)
