"""Semiparametric inverse dynamics: physics up to parameters, random features on what it leaves, both recursive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from gyrfalcon.online.factor import Factor
from gyrfalcon.online.feature_maps import fit_features, load_features, pack_features, transform_features
from gyrfalcon.persistence import Savable, State

from .frames import joint_scale, sound_frames, stack_frames
from .identifiability import identifiable, unknown_directions

Array = np.ndarray[Any, Any]
Regressor = Callable[[Array, Array, Array], Array]


class InverseDynamics(Savable, BaseEstimator):  # type: ignore[misc]
    """Torques from positions, velocities and accelerations, learned while a robot moves (Camoriano 2017, 8.3).

    τ = Φ(q, q̇, q̈) π + W'z(q, q̇, q̈). The parameters π of the rigid bodies are fitted first, by recursive least
    squares; the features z are fitted to the residuals. Those are taken against the parameters as they are now, for all
    frames since the beginning: the state has the correlations of the features with Φ, so that nothing that was learned
    from worse parameters has to be unlearned.

    Parameters
    ----------
    regressor : RigidBody or callable, optional
        Φ: a function of q, dq and ddq, each of shape (n, joints), that returns an array of shape (n, joints,
        parameters). Without it the model is the features alone.
    residual : transformer, optional
        z, a function of the columns q, dq and ddq: `MotionFeatures`, or `RandomFeatures` behind a `StandardScaler`.
        Without it the model is the physics alone. One that is not fitted is fitted to the first batch.
    prior : array of shape (parameters,), optional
        What is believed of π beforehand; zero if not given.
    penalty : float or array of shape (parameters,)
        Of ‖π - prior‖², beside squares of scaled torques: how strongly the prior is believed.
    residual_penalty : float
        Of ‖W‖², beside the same squares.
    forgetting : float
        Each frame multiplies the weights of all frames before it by this number; the prior does not fade.
    scale : "auto" or array of shape (joints,)
        By which torques are divided, so that strong joints do not outvote weak ones: the deviations of the first batch.

    Attributes
    ----------
    parameters_ : array
        π.
    deviations_ : array
        Of the parameters: square roots of their posterior variances.
    identifiable_ : array of bool
        Which parameters the frames so far determine; of the others only combinations, or nothing, are known.
    n_identifiable_ : int
        How many combinations of parameters they determine: the number of base parameters, in the end.
    n_seen_, n_dropped_, n_frozen_ : int
        Frames learned from; left out because they held NaN or infinity; because they repeated the one before.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> def pendulum(q, dq, ddq):  # inertia, weight, friction
    ...     return np.stack([ddq, np.sin(q), dq], axis=2)
    >>> random = np.random.default_rng(0)
    >>> q, dq, ddq = random.normal(size=(3, 500, 1))
    >>> tau = 0.5 * ddq + 2.0 * np.sin(q) + 0.1 * dq
    >>> model = gf.dynamics.InverseDynamics(pendulum).partial_fit(q, dq, ddq, tau)
    >>> model.parameters_.round(3)
    array([0.5, 2. , 0.1])
    """

    features_: Any
    joints_: int
    scale_: Array
    n_seen_: int
    n_dropped_: int
    n_frozen_: int
    _parametric: Factor
    _nonparametric: Factor
    _squares: float
    _weight: float
    _last: Array

    def __init__(
        self,
        regressor: Any = None,
        residual: Any = None,
        *,
        prior: Any = None,
        penalty: Any = 1e-6,
        residual_penalty: float = 1.0,
        forgetting: float = 1.0,
        scale: Any = "auto",
    ):
        self.regressor = regressor
        self.residual = residual
        self.prior = prior
        self.penalty = penalty
        self.residual_penalty = residual_penalty
        self.forgetting = forgetting
        self.scale = scale

    # Learning.

    def partial_fit(self, q: Any, dq: Any, ddq: Any, tau: Any) -> Self:
        """Learn from frames in the order of time. Broken and repeated ones are counted and left out.

        Parameters
        ----------
        q, dq, ddq, tau : array of shape (n, joints), or (joints,) for one frame
        """
        before = dict(self.__dict__)
        try:
            self._learn(self._read(q, dq, ddq, tau))
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def fit(self, q: Any, dq: Any, ddq: Any, tau: Any) -> Self:
        """Forget all that was learned, and learn from these frames.

        Parameters
        ----------
        q, dq, ddq, tau : array of shape (n, joints)
        """
        fresh = clone(self).partial_fit(q, dq, ddq, tau)
        fitted = {name: value for name, value in vars(fresh).items() if name not in self.get_params(deep=False)}
        self.__dict__.update(fitted)
        return self

    def _learn(self, frames: Array) -> None:
        kept, dropped, frozen = sound_frames(frames, getattr(self, "_last", None))
        if len(kept):
            phi = self._regressor(*kept[:, :3].swapaxes(0, 1))
            if not hasattr(self, "scale_"):
                self._begin(kept, phi)
            z = self._features(kept)
            if not (np.isfinite(phi).all() and np.isfinite(z).all()):
                raise ValueError("the regressor or the features hold NaN or infinity: check them at these frames")
            self._take_up(phi, z, kept[:, 3])
        elif not hasattr(self, "scale_"):
            raise ValueError("none of the first frames is whole: begin with some that have neither NaN nor infinity")
        self._last = frames[-1]
        self.n_seen_ += len(kept)
        self.n_dropped_ += dropped
        self.n_frozen_ += frozen

    def _take_up(self, phi: Array, z: Array, tau: Array) -> None:
        count, joints, width = phi.shape
        phi, tau = phi / self.scale_[:, None], tau / self.scale_
        per_frame = float(self.forgetting)
        ages = np.repeat(per_frame ** np.arange(count - 1.0, -1.0, -1.0), joints)
        if width:
            if per_frame != 1.0:
                self._parametric.forget(per_frame**count)
            rest = (tau - phi @ self._prior()).reshape(-1, 1)
            self._parametric.add(phi.reshape(-1, width), rest, None if per_frame == 1.0 else ages)
        if z.shape[1]:
            targets = np.hstack([tau, phi.reshape(count, joints * width)])
            self._nonparametric.add(z, targets, forgetting=per_frame)
        self._squares = per_frame**count * self._squares + float(ages @ np.square(tau).ravel())
        self._weight = per_frame**count * self._weight + float(ages.sum())

    def _begin(self, frames: Array, phi: Array) -> None:
        joints, width = phi.shape[1:]
        penalties = np.broadcast_to(np.asarray(self.penalty, dtype=np.float64), (width,)).copy()
        if not (np.isfinite(penalties).all() and (penalties > 0).all() and self.residual_penalty > 0):
            raise ValueError("penalty and residual_penalty must be positive")
        if not 0 < self.forgetting <= 1:
            raise ValueError(f"forgetting must lie in (0, 1], got {self.forgetting!r}")
        if self.prior is not None and np.shape(self.prior) != (width,):
            raise ValueError(f"prior has shape {np.shape(self.prior)}, but there are {width} parameters")
        scale = joint_scale(self.scale, frames[:, 3])
        if self.residual is None and not width:
            raise ValueError("there is nothing to learn: give a regressor, features for the residual, or both")
        self.features_ = fit_features(self.residual, frames[:, :3].reshape(len(frames), -1), None)
        features = self._features(frames[:1]).shape[1]
        self._parametric = Factor(penalties, 1)
        self._nonparametric = Factor(np.full(features, float(self.residual_penalty)), joints * (1 + width))
        self.joints_, self.scale_ = joints, scale
        self._squares = self._weight = 0.0
        self.n_seen_ = self.n_dropped_ = self.n_frozen_ = 0

    # Questions.

    def predict(self, q: Any, dq: Any, ddq: Any, return_std: bool = False) -> Any:
        """Torques, of shape (n, joints); with `return_std` also the standard deviations of new measurements.

        Parameters
        ----------
        q, dq, ddq : array of shape (n, joints), or (joints,) for one frame
        return_std : bool
        """
        check_is_fitted(self, "scale_")
        frames = self._read(q, dq, ddq)
        phi, z = self._regressor(*frames.swapaxes(0, 1)), self._features(frames)
        mean = phi @ self.parameters_ + self._residual_torque(z)
        one = np.ndim(q) == 1
        if not return_std:
            return mean[0] if one else mean
        noise, parametric = self._noise()
        variance = np.ones((len(frames), self.joints_))
        if z.shape[1]:
            variance += self._nonparametric.variances(self._nonparametric.project(z)[0])[:, None]
        variance *= noise
        if phi.shape[2]:
            rows = (phi / self.scale_[:, None]).reshape(-1, phi.shape[2])
            known = self._parametric.variances(self._parametric.project(rows)[0])
            variance += parametric * known.reshape(variance.shape)
        deviation = np.sqrt(variance) * self.scale_
        return (mean[0], deviation[0]) if one else (mean, deviation)

    def parametric_torque(self, q: Any, dq: Any, ddq: Any) -> Array:
        """What the rigid bodies explain, Φπ.

        Parameters
        ----------
        q, dq, ddq : array of shape (n, joints)
        """
        check_is_fitted(self, "scale_")
        return np.asarray(self._regressor(*self._read(q, dq, ddq).swapaxes(0, 1)) @ self.parameters_)

    def residual_torque(self, q: Any, dq: Any, ddq: Any) -> Array:
        """What the features add, W'z.

        Parameters
        ----------
        q, dq, ddq : array of shape (n, joints)
        """
        check_is_fitted(self, "scale_")
        return self._residual_torque(self._features(self._read(q, dq, ddq)))

    @property
    def parameters_(self) -> Array:
        if not self._parametric.width:
            return np.zeros(0)
        return np.asarray(self._prior() + self._parametric.coefficients()[:, 0])

    @property
    def deviations_(self) -> Array:
        width = self._parametric.width
        V = self._parametric.project(np.eye(width))[0]
        return np.sqrt(self._noise()[1] * self._parametric.variances(V))

    @property
    def identifiable_(self) -> Array:
        """Whether the frames determine a parameter: nothing of it lies in directions that they say nothing of."""
        return identifiable(self._parametric)

    @property
    def n_identifiable_(self) -> int:
        return self._parametric.width - len(unknown_directions(self._parametric))

    def _residual_torque(self, z: Array) -> Array:
        if not z.shape[1]:
            return np.zeros((len(z), self.joints_))
        V = self._nonparametric.project(z)[0]
        return np.asarray(V @ self._residual_targets() * self.scale_)

    def _residual_targets(self) -> Array:
        """Rotated residuals against the parameters as they are now, of scaled torques."""
        U, joints, width = self._nonparametric.solved(), self.joints_, self._parametric.width
        explained = U[:, joints:].reshape(len(U), joints, width) @ self.parameters_
        return np.asarray(U[:, :joints] - explained)

    def _noise(self) -> tuple[float, float]:
        """Variances of scaled torques: of what is left in the end, and of what the parameters leave."""
        factor, total = self._parametric, max(self._weight, 1.0)
        if factor.width:
            left = float(factor.objective()[0])
            left -= float(factor.penalties @ np.square(factor.coefficients()[:, 0]))
        else:
            left = self._squares
        parametric = max(left, 0.0) / total
        if self._nonparametric.width:
            left -= float(np.square(self._residual_targets()).sum())
        return max(left, 0.0) / total, parametric

    # Reading.

    def _prior(self) -> Array:
        return np.zeros(self._parametric.width) if self.prior is None else np.asarray(self.prior, dtype=np.float64)

    def _regressor(self, q: Array, dq: Array, ddq: Array) -> Array:
        if self.regressor is None:
            if hasattr(self, "_parametric") and self._parametric.width:
                raise ValueError("regressor is missing: a file does not hold it, set model.regressor after loading")
            return np.zeros((*q.shape, 0))
        phi = np.asarray(self.regressor(q, dq, ddq), dtype=np.float64)
        width = self._parametric.width if hasattr(self, "_parametric") else phi.shape[-1]
        if phi.shape != (*q.shape, width):
            raise ValueError(f"regressor gave an array of shape {phi.shape}: it must be {(*q.shape, width)}")
        return phi

    def _features(self, frames: Array) -> Array:
        if self.features_ is None:
            return np.zeros((len(frames), 0))
        return transform_features(self.features_, frames[:, :3].reshape(len(frames), -1))

    def _read(self, *parts: Any) -> Array:
        return stack_frames(parts, getattr(self, "joints_", None))

    # Files.

    def _state(self) -> State:
        check_is_fitted(self, "scale_")
        described, arrays = pack_features(self.features_)
        arrays |= self._parametric.arrays("parametric") | self._nonparametric.arrays("nonparametric")
        arrays |= {"penalties": self._parametric.penalties, "scale": self.scale_, "last": self._last}
        arrays |= {"prior": self._prior(), "sums": np.array([self._squares, self._weight])}
        counts = [self.n_seen_, self.n_dropped_, self.n_frozen_]
        return {"features": described, "counts": counts, "width": self._nonparametric.width}, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.features_ = self.residual = load_features(values["features"], arrays)
        self.prior, self.penalty, self.scale_ = arrays["prior"], arrays["penalties"], arrays["scale"]
        self.joints_, self.scale, self._last = len(self.scale_), self.scale_, arrays["last"]
        self._parametric = Factor.from_arrays(arrays["penalties"], arrays, "parametric")
        penalties = np.full(int(values["width"]), float(self.residual_penalty))
        self._nonparametric = Factor.from_arrays(penalties, arrays, "nonparametric")
        if self._nonparametric.outputs != self.joints_ * (1 + self._parametric.width):
            raise ValueError("the features do not fit the joints and parameters")
        self._squares, self._weight = (float(number) for number in arrays["sums"])
        self.n_seen_, self.n_dropped_, self.n_frozen_ = (int(count) for count in values["counts"])
