"""Learning from more rows after a fit: exact, because the moments of the rows add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gyrfalcon.arrays import AnyPoints, Array, as_kind
from gyrfalcon.data import Points, Source
from gyrfalcon.losses import Squared
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.moments import Moments, Sums
from gyrfalcon.persistence import State
from gyrfalcon.solvers import Direct, Record

from .interrupts import keeps_the_old_model
from .pipeline import Fitted, devices_of
from .streams import is_stream, opened

PREFIX = "moments."  # of the arrays in a model file


def is_updatable(estimator: Any) -> bool:
    """For `available_if`: whether the estimator keeps what updates are added to."""
    if not estimator.updatable:
        raise AttributeError(f"updates need {type(estimator).__name__}(updatable=True), set before the first fit")
    return True


def check_updatable(estimator: Any) -> None:
    """Refuse what does not go with updates."""
    if estimator.updatable not in (True, False):
        raise ValueError(f"updatable must be True or False, got {estimator.updatable!r}")
    if not estimator.updatable:
        return
    if not isinstance(estimator.loss, Squared) and estimator.loss != "squared":
        raise ValueError(f"updatable=True needs the squared loss, got loss={estimator.loss!r}: leave one of them out")
    if estimator.solver not in ("auto", "direct") and not isinstance(estimator.solver, Direct):
        raise ValueError(
            f"updatable=True solves by factorization of the moments, got solver={estimator.solver!r}: leave it out"
        )
    if isinstance(getattr(estimator, "class_weight", None), str):
        raise ValueError(
            f"class_weight={estimator.class_weight!r} changes with every row, which updatable=True cannot follow: give "
            "the weights of the classes"
        )


class UpdateMixin:
    """Adds `add_centers`, and what `partial_fit` of the estimators is made of. Subclasses say what the moments of their
    targets are: `_kept_moments` of those of a fit, and `_asked_moments` to solve for."""

    moments_: Moments

    def _kept_moments(self, moments: Moments) -> Moments:
        raise NotImplementedError

    def _asked_moments(self) -> Moments:
        raise NotImplementedError

    def _keep_moments(self, fitted: Fitted, rows: int) -> None:
        """Those of a fit, in units of the weights that were given; the scatter of repeated rows is put back."""
        moments = fitted.solution.moments
        assert moments is not None
        floor = np.asarray(getattr(fitted.problem, "floor", 0.0))
        sums = replace(moments.sums, squares=moments.sums.squares + floor * moments.sums.weight)
        unit = fitted.total_weight / moments.sums.weight
        scaled = Moments(moments.whitening, unit * moments.second, sums.scaled(unit), rows, moments.origin)
        self.moments_ = self._kept_moments(scaled)

    def _read_more(
        self, X: Any, y: Any, sample_weight: Any, *, target: Any, weight: Any
    ) -> tuple[KernelMatrix, Any, Any]:
        """k(X, C) of more rows, their targets and weights as they were given."""
        model: Any = self
        check_is_fitted(model)
        known = getattr(model, "feature_names_in_", None) if is_stream(X) else None
        features = None if known is None else known.tolist()
        X, y, sample_weight = opened(X, y, sample_weight, target=target, weight=weight, features=features)
        points = model._read(X, reset=False)
        if isinstance(points, Source):
            centers = as_kind(model.centers_, points)
        else:
            points, centers = as_kind(points, model.centers_), model.centers_
        return self._matrix(points, centers), y, sample_weight

    def _matrix(self, points: AnyPoints, centers: AnyPoints) -> KernelMatrix:
        model: Any = self
        budget, devices = model.memory_budget, devices_of(model.device, points)
        return KernelMatrix(model.kernel_, Points(points), Points(centers), memory_budget=budget, devices=devices)

    def _add_rows(self, K: KernelMatrix, Y: Array, weights: Array | None) -> Self:
        """Add rows with targets as `moments_` has them, and solve."""
        known = self.moments_
        more = Moments.of(K, Y, weights, origin=known.origin, whitening=known.whitening)
        self._solve_again(known + more)
        return self

    def _solve_again(self, moments: Moments) -> None:
        model: Any = self
        if model.penalty == "auto":  # it was chosen as a noise, penalty · Σw, which more rows do not change
            model.penalty_ *= self.moments_.sums.weight / moments.sums.weight
        self.moments_ = moments
        asked = self._asked_moments()
        beta, offset, objective = asked.solve(model.penalty_, intercept=bool(model.fit_intercept))
        solution = (torch.from_numpy(np.ascontiguousarray(part)) for part in (beta, offset))
        model.coefficients_, model.intercept_ = model._targets.decode(tuple(solution))
        model.record_ = Record(
            solver="direct",
            message=f"solved by factorization of the moments of {moments.count:,} rows",
            jitter=moments.whitening.jitter,
            objective=objective.tolist(),
            passes=1,
        )
        model.n_iter_, model._predictor = 1, None
        self._moments_changed()

    def _moments_changed(self) -> None:
        """What else is to be made of the moments."""

    @available_if(is_updatable)  # type: ignore[untyped-decorator]
    @keeps_the_old_model
    def add_centers(self, centers: Any) -> Self:
        """Make more functions available to rows that come later, such as rows from a region not seen before.

        Predictions do not change until then. Rows learned before are known through the centers of their time only: what
        a new function adds to the span of those counts as zero at these rows, which is true where they are far from
        the new centers. Models with all centers from the beginning need no such assumption.

        Parameters
        ----------
        centers : array, data frame, tensor or sparse matrix of shape (more, d)

        Examples
        --------
        >>> import numpy as np, gyrfalcon as gf
        >>> X, later = np.linspace(0, 3, 60)[:, None], np.linspace(20, 23, 60)[:, None]
        >>> model = gf.KernelRegressor("gaussian", length_scale=1.0, penalty=1e-6, updatable=True)
        >>> model = model.fit(X, np.sin(X[:, 0])).add_centers(later[::6])
        >>> model = model.partial_fit(later, np.sin(later[:, 0]))
        >>> bool(np.abs(model.predict(later) - np.sin(later[:, 0])).max() < 0.01)
        True
        """
        model: Any = self
        check_is_fitted(model)
        more = model._read(centers, reset=False)
        if isinstance(more, Source):
            raise TypeError("centers must be in memory: read them first")
        all_centers = stacked(model.centers_, as_kind(more, model.centers_))
        self.moments_ = self.moments_.widened(self._matrix(all_centers, all_centers))
        more_rows = ((0, all_centers.shape[0] - model.centers_.shape[0]), *((0, 0),) * (model.coefficients_.ndim - 1))
        model.centers_, model.coefficients_ = all_centers, np.pad(model.coefficients_, more_rows)
        model._predictor = None
        self._moments_changed()
        return self

    # Model files.

    def _packed_moments(self) -> State:
        """What a model file keeps of the moments."""
        if not hasattr(self, "moments_"):
            return {}, {}
        facts, arrays = self.moments_.pack()
        return {"moments": facts}, {PREFIX + name: array for name, array in arrays.items()}

    def _unpack_moments(self, values: dict[str, Any], arrays: dict[str, Array], outputs: int) -> None:
        if "moments" not in values:
            return
        own = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        self.moments_ = Moments.unpack(values["moments"], own)
        model: Any = self
        if self.moments_.whitening.size != model.centers_.shape[0] or len(self.moments_.origin) != outputs:
            raise ValueError("the moments do not fit the centers and targets of the model")


def to_indicators(moments: Moments, codes: Array) -> Moments:
    """Moments of indicators of classes, from those of their codes: the indicators are linear in the codes and 1."""
    moments = moments.about(np.zeros(codes.shape[1]))
    back = np.linalg.pinv(np.column_stack([np.ones(len(codes)), codes]))
    sums = moments.sums
    totals = np.append(sums.weight, sums.targets) @ back
    cross = np.column_stack([sums.features, sums.cross]) @ back
    return replace(moments, sums=Sums(sums.weight, sums.features, cross, totals, totals), origin=np.zeros(len(codes)))


def to_codes(moments: Moments, codes: Array) -> Moments:
    """Moments of codes, from those of indicators of classes."""
    sums = moments.sums
    coded = replace(sums, cross=sums.cross @ codes, targets=sums.targets @ codes, squares=sums.targets @ codes**2)
    return replace(moments, sums=coded, origin=np.zeros(codes.shape[1]))


def stacked(first: AnyPoints, second: AnyPoints) -> AnyPoints:
    """Points of one kind, one under the other."""
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return torch.cat([first, second])
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack([first, second]))
    return np.concatenate([first, second])
