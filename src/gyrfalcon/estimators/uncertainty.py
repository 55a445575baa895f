"""What a regression keeps of a fit to say how sure it is, and the deviations that it makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gyrfalcon.arrays import AnyPoints, Array, as_kind, as_numpy
from gyrfalcon.data import Points, Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.moments import Moments
from gyrfalcon.partition import LocalFunction
from gyrfalcon.solvers import LeastSquares, Record
from gyrfalcon.tuning import Trace

from .data import read_points
from .intervals import LEAST_WIDENED, WIDENED_ROWS, deviation_factors
from .left_out import leave_out
from .partitioned import as_judged
from .pipeline import Fitted
from .posterior import Posterior
from .targets import RegressionTargets

POSTERIOR_CENTERS = 1000  # through which deviations are seen if a solver has not made the moments of all anyway


class UncertaintyMixin:
    """Keeps what the posterior of a regression needs in `_evidence`, from which `_ready_posterior` makes it."""

    kernel_: Kernel
    centers_: Any
    penalty_: float
    partition_: LocalFunction | None
    tuning_: Any
    record_: Record
    moments_: Moments
    penalty: Any
    tune: Any
    updatable: bool
    uncertainty: Any
    fit_intercept: bool
    memory_budget: int | None
    _evidence: dict[str, Array]
    _posterior: Posterior | None
    _targets: RegressionTargets

    if TYPE_CHECKING:  # a method of the estimator, which comes after the mixin in the order of bases

        def _function(self) -> Predictor: ...

    def _moments_changed(self) -> None:
        self._evidence, self._posterior = {}, None
        if self.uncertainty is not False:
            scales = self._scales(np.array(self.record_.objective), self.moments_.sums.weight)
            self._evidence = evidence_of(self.moments_) | scales

    def _keep_evidence(self, fitted: Fitted) -> None:
        """What the posterior needs: the moments of the features, or the weights alone where the points are the centers,
        and by output the noise, which is the objective at its minimum.
        """
        self._evidence, self._posterior = {}, None
        problem, solution = fitted.problem, fitted.solution
        if not isinstance(problem, LeastSquares) or self.uncertainty is False:
            return
        if fitted.local is not None:
            self._evidence = {"noise": fitted.local.noise_variance / self._targets.unit**2}
            return
        if solution.record.solver == "exact":
            ones = np.ones((problem.K.shape[0], 1))
            self._evidence["weights"] = ones if problem.weights is None else as_numpy(problem.weights, np.float64)
        elif self.uncertainty is True or solution.record.solver == "direct":
            self._evidence = self._seen_through_centers(problem, solution.moments)
        else:
            return
        self._evidence |= self._scales(np.array(solution.record.objective), fitted.total_weight)

    def _widen(self, fitted: Fitted, points: AnyPoints, Y: Array, weights: Array | None) -> None:
        """Make deviations true to rows that are left out, where the noise was left to tuning."""
        trace, tuned = getattr(self, "tuning_", None), self.tune == "auto" and self.penalty == "auto"
        late = fitted.deadline is not None and fitted.deadline.last_call
        at_hand = not (self.updatable or fitted.interrupted or late or isinstance(points, Source))
        enough = points.shape[0] >= LEAST_WIDENED and self.penalty_ > 0
        if not (self._evidence and tuned and at_hand and enough and isinstance(trace, Trace)):
            return
        how = as_judged(fitted, points, intercept=bool(self.fit_intercept))
        found = leave_out(points=points, encode=Y.__getitem__, weights=weights, count=WIDENED_ROWS, **how)
        if found is not None:
            factors, stage = deviation_factors(found, self.penalty_)
            self._evidence["widening"] = factors**2
            trace.stages.append(stage)

    def _scales(self, noise: Array, total_weight: float) -> dict[str, Array]:
        """Variances of the noise and of the prior by output, of which the penalty is the ratio."""
        return {"noise": noise, "prior": noise / max(self.penalty_ * total_weight, np.finfo(float).tiny)}

    @staticmethod
    def _seen_through_centers(problem: LeastSquares, known: Moments | None) -> dict[str, Array]:
        """The moments that the solver left, or else those of a part of the centers, made in one pass."""
        if known is not None:
            return evidence_of(known)
        K, m = problem.K, problem.K.shape[1]
        if m <= POSTERIOR_CENTERS:
            return evidence_of(Moments.of(K, problem.Y[:, :0], problem.weights))
        places = np.unique(np.linspace(0, m - 1, POSTERIOR_CENTERS).round().astype(np.int64))
        moments = Moments.of(K.with_centers(index=places), problem.Y[:, :0], problem.weights)
        return evidence_of(moments) | {"places": places}

    def _spreads(self, X: Any) -> Array:
        """The deviations of what new observations are transformed to. The unit comes last: its square may overflow."""
        unit = self._targets.unit
        if self.partition_ is not None:
            self._check_evidence("return_std")
            points = read_points(self, X, reset=False)
            variances = self.partition_.variance(points) + self._evidence["noise"] * unit**2
            return np.asarray(np.sqrt(variances * self._widening))
        own = self._variance(X)[:, None] * self._evidence["prior"]
        return np.asarray(np.sqrt((own + self._evidence["noise"]) * self._widening) * unit)

    @property
    def _widening(self) -> Array:
        """What variances are multiplied by, by output."""
        return self._evidence.get("widening", np.ones(len(self._evidence["noise"])))

    def _check_evidence(self, asked: str) -> None:
        if not self._evidence:
            raise ValueError(f"{asked} needs a squared loss and uncertainty=True: fit again with that")
        if self.penalty_ == 0:
            raise ValueError(f"{asked} needs a positive penalty: it stands for the noise")

    def _ready_posterior(self, asked: str) -> Posterior:
        self._check_evidence(asked)
        if self.partition_ is not None:
            raise ValueError(f"{asked}: leaves of a partition have no common posterior: fit with partition=None")
        if self._posterior is None:
            self._posterior = Posterior(*self._moments(), self.penalty_)
        return self._posterior

    def _toward_centers(self, points: Any) -> KernelMatrix:
        """k(x, c) for the centers that the posterior is seen through."""
        K = self._function().at(points)
        return K.with_centers(index=self._evidence["places"]) if "places" in self._evidence else K

    def _variance(self, X: Any) -> Array:
        """Of f, in units of the prior's variance."""
        posterior = self._ready_posterior("return_std")
        points = as_kind(read_points(self, X, reset=False), self.centers_)
        K = self._toward_centers(points)
        # In float64: small pivots of T would magnify the rounding of float32 entries.
        return posterior.variance(K.wide_block, K.prior_diagonal())

    def _moments(self) -> tuple[Array, Array]:
        if "moments" not in self._evidence:
            C = Points(self.centers_)
            K = KernelMatrix(self.kernel_, C, C, memory_budget=self.memory_budget)
            found = evidence_of(Moments.of(K, np.zeros((K.shape[0], 0)), self._evidence["weights"]))
            return found["triangle"], found["moments"]
        return self._evidence["triangle"], self._evidence["moments"]


def evidence_of(moments: Moments) -> dict[str, Array]:
    """T and ZᵀWZ/Σw, as model files keep them."""
    T = moments.whitening.T
    assert T is not None
    return {"triangle": T, "moments": moments.second / moments.sums.weight}
