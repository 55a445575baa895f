"""Which solver: decided from the size of the problem by a cost model, and said in words."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from gyrfalcon import costs
from gyrfalcon.arrays import as_numpy
from gyrfalcon.linalg.refined import may_be_narrow
from gyrfalcon.linalg.triangles import SingularError, cholesky_with_jitter
from gyrfalcon.losses import has_kink
from gyrfalcon.matrix import KernelMatrix

from .direct import Direct
from .eigenpro import EigenPro
from .exact import Exact
from .falkon import Falkon, sample_rows
from .filters import KernelCG, NuMethod, Nytro, SpectralCutoff
from .newton import Newton, SmoothedNewton
from .problem import LeastSquares
from .risk import Risk
from .sgd import SGD
from .solver import Solver

SOLVERS: dict[str, type[Solver[Any]]] = {
    solver.name: solver
    for solver in (
        Direct,
        EigenPro,
        Exact,
        Falkon,
        KernelCG,
        Newton,
        NuMethod,
        Nytro,
        SGD,
        SmoothedNewton,
        SpectralCutoff,
    )
}

DIRECT_MATRICES = 3  # of m × m numbers that Direct holds in memory; Falkon goes to a file where they do not fit
LEAST_PENALTY_OF_ITERATIONS = 1e-7  # over the largest k(c, c): below, those of a kernel that centers know may not end
LEAST_NOISE_OF_ITERATIONS = 5e-3  # the penalty times the rows, over k(c, c): from there on it ends them, not rounding
LEAST_UNEXPLAINED = 1e-5  # of k(c, c): what centers know less well, rounding does not hide
PIVOTS = 300  # centers that tell how much they explain of each other
WORTH_OF_AN_END = 10  # how much longer a factorization may take then than iterations are expected to
FLOAT64_RETRY_ITERATIONS = 30  # of Falkon, that tell of coefficients so large that solves go on in float64
FLOAT64_RETRY_FACTOR = 2  # how much longer they take then


def as_solver(solver: Solver[Any] | str) -> Solver[Any]:
    """The solver itself, or the one of that name with its default settings.

    Examples
    --------
    >>> from gyrfalcon.solvers import as_solver
    >>> as_solver("falkon")
    Falkon(tolerance=0.001, max_iterations=100)
    """
    if isinstance(solver, Solver):
        return solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise ValueError(f"solver must be one of {sorted(SOLVERS)} or a Solver, got {solver!r}")
    return SOLVERS[solver]()


class Expected(NamedTuple):
    """The solver that is taken, with its default settings, the seconds that a solve is expected to take, and why."""

    solver: Solver[Any]
    seconds: float
    reason: str


def choose(problem: LeastSquares | Risk, max_iterations: int = 100) -> tuple[Solver[Any], str]:
    """The solver that is expected to be fastest, with its default settings, and why.

    >>> import torch, gyrfalcon as gf
    >>> X = torch.randn(1000, 2)
    >>> gf.solvers.choose(gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X), X, 1e-3))
    (Exact(), 'all 1000 points are centers')
    """
    if isinstance(problem, Risk):
        if not problem.loss.smooth:
            able = SmoothedNewton() if has_kink(problem.loss) else SGD()
            return able, f"the {problem.loss.name} loss has kinks"
        return Newton(), f"the {problem.loss.name} loss is not squared"
    taken = expected(problem, max_iterations)
    return taken.solver, taken.reason


def expected(problem: LeastSquares, max_iterations: int = 100) -> Expected:
    """What `choose` takes for a problem of least squares, and its seconds: whoever asks for a price gets that of what
    would be taken.

    >>> import torch, gyrfalcon as gf
    >>> from gyrfalcon.solvers.choice import expected
    >>> X = torch.randn(1000, 2)
    >>> taken = expected(gf.solvers.LeastSquares(gf.KernelMatrix("rbf", X), X, 1e-3))
    >>> taken.solver, taken.seconds > 0
    (Exact(), True)
    """
    seconds: dict[type[Solver[Any]], float] = {Falkon: falkon_seconds(problem, max_iterations)}
    if 8 * DIRECT_MATRICES * problem.K.shape[1] ** 2 <= problem.K.memory_budget:
        seconds[Direct] = direct_seconds(problem)
    if problem.K.symmetric:
        seconds[Exact] = exact_seconds(problem)
        if seconds[Exact] <= min(seconds.values()):
            return Expected(Exact(), seconds[Exact], f"all {problem.K.shape[0]} points are centers")
    fastest = min(seconds, key=seconds.__getitem__)
    if fastest is Falkon and seconds.get(Direct, np.inf) <= WORTH_OF_AN_END * seconds[Falkon] and _may_not_end(problem):
        return Expected(Direct(), seconds[Direct], f"a penalty of {problem.penalty:.1e} is too small for iterations")
    words = ", ".join(f"{kind.name} {time:.2g} s" for kind, time in sorted(seconds.items(), key=lambda s: s[0].name))
    return Expected(fastest(), seconds[fastest], f"expected on two cores: {words}")


def _may_not_end(problem: LeastSquares) -> bool:
    """Whether next to nothing is noise, and the centers know the kernel down to what rounding leaves of it."""
    K = problem.K
    if K.kernel.explicit:
        return False
    largest = float(as_numpy(K.square.diag()).max(initial=0.0))
    least = min(LEAST_PENALTY_OF_ITERATIONS, LEAST_NOISE_OF_ITERATIONS / problem.total_weight)
    return problem.penalty < least * largest and unexplained(K) < LEAST_UNEXPLAINED


def unexplained(K: KernelMatrix) -> float:
    """The share of k(c, c) that the other centers leave unexplained, of a center in the middle of their later half.

    It is small where k(C, C) is nearly singular. The first few hundred centers tell how it falls with their number,
    which is about by a power.
    """
    m = K.shape[1]
    first = K if m <= PIVOTS else K.with_centers(index=slice(0, PIVOTS))
    T = np.asfortranarray(first.between_centers())
    own = T.diagonal().copy()
    try:
        cholesky_with_jitter(T, np.finfo(float).eps * len(T) * float(own.max(initial=0.0)))
    except SingularError:
        return 0.0
    left = np.square(T.diagonal()) / np.where(own > 0, own, 1.0)
    if m <= PIVOTS:
        return float(np.median(left[m // 2 :]))
    numbers = np.log(np.arange(PIVOTS // 4, PIVOTS) + 1)
    slope, level = np.polyfit(numbers, np.log(np.maximum(left[PIVOTS // 4 :], np.finfo(float).tiny)), 1)
    return float(min(1.0, np.exp(level + slope * np.log(0.75 * m))))


def exact_seconds(problem: LeastSquares) -> float:
    n = problem.K.shape[0]
    noise = problem.penalty * problem.total_weight
    factor = n**3 / (6 if may_be_narrow(n, 1.0, noise, rough=problem.K.kernel.rough) else 3)
    return 1e-9 * ((factor + 2 * n**2 * problem.Y.shape[1]) * costs.flop(n) + n**2 * costs.STORED_ENTRY_NS)


def direct_seconds(problem: LeastSquares) -> float:
    """One pass, and four times m³ of factoring."""
    n, m = problem.K.shape
    moments = costs.whitened_gram(n, m, problem.K.features)
    return 1e-9 * (moments + 4 * m**3 * costs.flop(m) + 4 * costs.PASS_NS)


def falkon_seconds(problem: LeastSquares, max_iterations: int) -> float:
    n, m = problem.K.shape
    dtype, features, outputs = problem.K.dtype, problem.K.features, problem.Y.shape[1]
    made, filled = costs.entry(features, dtype), 0.0
    used = costs.entry(features, dtype, outputs)
    if problem.K.cached:
        used, filled = costs.cached_entry(dtype, outputs), costs.FILLED_ENTRY_NS
    a_pass = n * m * used + costs.PASS_NS
    triangles = 4 * m**2 * (outputs + 3) * costs.flop(m)  # memory, not arithmetic, bounds solves with few columns
    factors = 2 * m**3 * costs.flop(m) + costs.PASS_NS
    directions, rough = problem.K.effective_features, problem.K.kernel.rough
    sample = sample_rows(n, m, features, dtype, problem.penalty, directions, rough=rough)
    if sample is not None:
        factors += costs.whitened_gram(sample, m, features) + costs.SAMPLING_NS
    iterations = costs.iterations(n, m, directions, problem.penalty, (sample or 0) // max(1, m), rough=rough)
    plain = costs.iterations(n, m, directions, problem.penalty, rough=rough)
    if dtype == torch.float32 and plain > FLOAT64_RETRY_ITERATIONS:
        iterations *= FLOAT64_RETRY_FACTOR
    return 1e-9 * (min(max_iterations, iterations) * (a_pass + triangles) + n * m * (2 * made + filled) + factors)
