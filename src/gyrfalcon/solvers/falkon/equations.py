"""The equations that Falkon iterates on, and the preconditioner that makes them well conditioned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import blas
from torch import Tensor

from gyrfalcon import costs
from gyrfalcon.arrays import Array, as_numpy
from gyrfalcon.linalg.square import MEMORY_SHARE, OnDisk, Square
from gyrfalcon.linalg.triangles import SingularError, TrianglePair
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import Moments, Whitening
from gyrfalcon.moments.whitening import KEPT_JITTER, noise_floor, not_positive

from ..problem import LeastSquares
from ..solver import State

SAMPLED_SHARE = 4  # X must have at least that many times the rows that are sampled for the preconditioner
WORTHWHILE_ITERATIONS = 12  # expected without a sample, at least: sampling may cost more where there are few
KEPT_MOMENTS = 4  # the share of the memory budget, as a divisor, that the moments of a sample may take to be kept

# With an intercept, constants that are nearly of the form Kβ cost nearly nothing. The preconditioner leaves them this
# part of their weight: less would amplify the rounding of products with K, which is not free of a constant.
CONSTANT_SHARE = {torch.float32: 1e-3, torch.float64: 1e-8}


class Factors(NamedTuple):
    """The triangles of Falkon's preconditioner, the part of their jitter that the penalty is to be freed of again, and
    the largest k(c, c)."""

    pair: TrianglePair
    removable: float
    scale: float


def factor(K: KernelMatrix) -> Factors:
    """Factor k(C, C), lifted above rounding of entries of K; the second triangle is left to be made.

    The one m × m matrix that both triangles share is in memory, or in a temporary file if the budget is too small.
    """
    square = centers_square(K)
    scale = float(square.diagonal().max(initial=0.0))
    try:
        pair = TrianglePair(square, None, noise_floor(K.shape[1], K.dtype) * scale)
    except SingularError:
        raise not_positive(K) from None
    return Factors(pair, pair.jitter * (1 - KEPT_JITTER), scale)


def centers_square(K: KernelMatrix) -> Array | Square:
    """k(C, C) in float64, to be worked on in place: an array, or a file that is filled some columns at a time."""
    m = K.shape[1]
    if 8 * m**2 <= MEMORY_SHARE * K.memory_budget or K.kernel.explicit:
        return K.between_centers()
    among = K.square
    return Square.fitting(m, lambda start, stop: among.wide_block(slice(start, stop)).T, memory_budget=K.memory_budget)


class FalkonState(State):
    """The triangle of k(C, C), the moments of a sample of rows if one was taken, and the second triangle for the last
    penalty, which comes from either."""

    def __init__(self, K: KernelMatrix, weights: Tensor | None, intercept: bool):
        super().__init__(K, weights, intercept)
        with self.timed("factor"):
            self.pair, _, self.scale = factor(K)
        self._made: tuple[float, int | None] | None = None
        self._sampled: tuple[int, Moments] | None = None
        self.sharp = False

    def precondition(self, penalty: float, sample: int | None) -> None:
        """Make A for a penalty, from so many rows of X if a number is given, unless it is there already."""
        if isinstance(self.pair.square, OnDisk):
            sample = None  # its moments would not fit the budget either
        if self._made == (penalty, sample):
            return
        with self.timed("factor"):
            least = max(penalty, np.finfo(float).eps * self.scale)
            share = 1 - CONSTANT_SHARE[self.K.dtype] if self.intercept else 0.0
            self.sharp = sample is not None and self._from_sample(sample, least, share)
            if not self.sharp:
                self.pair.refactor(least, centered=share)
        self._made = penalty, sample

    def _from_sample(self, count: int, penalty: float, share: float) -> bool:
        """Make A from so many rows, evenly spaced, less that share of what is constant; False if that fails."""
        moments = self._moments_of_sample(count)
        if moments.sums.weight == 0:
            return False
        mean = moments.sums.center().features[:, 0]
        second = blas.dsyr(
            -share, mean, lower=1, a=np.asfortranarray(moments.second / moments.sums.weight), overwrite_a=1
        )
        try:
            self.pair.refactor_from(second, penalty)
        except SingularError:  # rounding, where k(C, C) is nearly singular
            return False
        return True

    def _moments_of_sample(self, count: int) -> Moments:
        if self._sampled is not None and self._sampled[0] == count:
            return self._sampled[1]
        K = self.K
        rows = K.spread(count)
        weights = None if self.weights is None else self.weights[torch.from_numpy(rows).to(K.device)]
        whitening = Whitening(self.pair.upper(), K.shape[1], self.pair.jitter, self.scale, 0.0)
        moments = Moments.of(K.rows(rows), np.zeros((len(rows), 0)), weights, whitening=whitening)
        if moments.second.nbytes <= K.memory_budget // KEPT_MOMENTS:
            self._sampled = count, moments
        return moments


class NormalEquations:
    """(KᵀWK/Σw - uuᵀ + penalty·k(C, C)) β = b in the coordinates γ = A T β, in which it is well conditioned.

    T, A and the vectors are float64 and so are the sums over n, while K is evaluated in the type of X. The jitter δ in
    TᵀT = k(C, C) + δI is subtracted again, all but a hundredth of it, so it does not act as a penalty.

    A comes from k(C, C)²/m in the place of KᵀWK/Σw, or from some of the rows, evenly spaced, if their number is given,
    which costs as much as factoring several times but halves the iterations. The matrix is near the identity then:
    `sharp`.
    """

    def __init__(self, problem: LeastSquares, sample: int | None = None, state: FalkonState | None = None):
        self.problem = problem
        self.state = FalkonState(problem.K, problem.weights, problem.intercept) if state is None else state
        self.state.precondition(problem.penalty, sample)
        for part, seconds in self.state.seconds.items():
            problem.seconds[part] = problem.seconds.get(part, 0.0) + seconds
        self.state.seconds = {}
        self.pair, self.scale, self.sharp = self.state.pair, self.state.scale, self.state.sharp
        rounding = torch.finfo(problem.K.dtype).eps * self.scale
        self._leak = Whitening(None, 0, self.pair.jitter, self.scale, rounding).excess(problem.penalty)

    def operator(self, gamma: Array) -> Array:
        """One pass over X."""
        problem, pair, K = self.problem, self.pair, self.problem.K
        with problem.timed("precondition"):
            inner, beta = pair.solve_both(gamma)
        with problem.timed("iterate"):
            V = torch.from_numpy(np.ascontiguousarray(beta)).to(K.dtype).to(K.device)
            product = K.gram_mv(V, problem.weights, dtype=torch.float64)
        with problem.timed("precondition"):
            image = as_numpy(product) / problem.total_weight - self._leak * beta
            if problem.intercept:
                u = problem.sides[1]
                image -= u @ (u.T @ beta)
            return pair.solve_both_transposed(image, problem.penalty * inner)

    def right_side(self, b: Array) -> Array:
        """What the right side becomes in these coordinates."""
        return self.pair.solve_both_transposed(b)

    def coefficients(self, gamma: Array) -> Array:
        """β from γ."""
        return self.pair.solve_both(gamma)[1]

    def start(self, beta: Array) -> Array:
        """γ from β."""
        return self.pair.multiply_a(self.pair.multiply_t(beta))


def sample_rows(
    n: int,
    m: int,
    features: float,
    dtype: torch.dtype,
    penalty: float,
    directions: float | None = None,
    *,
    rough: bool = False,
) -> int | None:
    """How many rows to precondition with, if that costs less than the iterations it saves.

    Those of rough kernels are few anyway, and solves that come nearer to the minimum more often go on in float64: there
    it has to cost less than half of them.
    """
    directions = features if directions is None else directions
    plain = costs.iterations(n, m, directions, penalty, rough=rough)
    best, most = None, 0.0
    for per_center in costs.ITERATION_SHARE if plain >= WORTHWHILE_ITERATIONS else ():
        count = per_center * m
        saved = plain - costs.iterations(n, m, directions, penalty, per_center, rough=rough)
        price = costs.whitened_gram(count, m, features) + costs.SAMPLING_NS
        gain = saved * n * m * costs.entry(features, dtype) - price
        if n >= SAMPLED_SHARE * count and gain > max(most, price if rough else 0.0):
            best, most = count, gain
    return best
