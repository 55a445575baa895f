"""Random features of motions, for what rigid bodies do not explain of torques."""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from gyrfalcon.persistence import Savable, State

Array = np.ndarray[Any, Any]

KINDS = 4  # inputs of a joint: position, velocity, acceleration and the direction of its motion


class MotionFeatures(Savable, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Random features z of positions, velocities and accelerations, of all joints together and of each joint alone.

    z(x)ᵀz(x′) ≈ k(x, x′) + Σⱼ kⱼ(xⱼ, x′ⱼ) with Gaussian kernels: k of all inputs, and kⱼ of those of joint j, because
    friction and ripple of a joint depend on its own motion first. The inputs are q, q̇ and q̈, over their deviations,
    and tanh(q̇ / slow), the direction of motion, in which friction is smooth: as a function of q̇ it jumps.

    Parameters
    ----------
    n_features : int
        Half of them are of all joints together.
    length_scale : four floats
        Of k, for positions, velocities, accelerations and directions, in units of their deviations.
    own_length_scale : four floats
        Of kⱼ.
    slow : float or one for each joint
        The velocity below which friction changes its sign gradually.
    random_state : int, RandomState or None

    Attributes
    ----------
    frequencies_ : array of shape (4 joints, n_features / 2)
    spread_ : array of shape (4 joints,)
        The deviations of the inputs.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> q, dq, ddq = np.random.default_rng(0).normal(size=(3, 500, 2))
    >>> tau = ddq + np.sign(dq) + 0.5 * np.sin(4 * q)  # of two joints, with friction and ripple
    >>> features = gf.dynamics.MotionFeatures(300, random_state=0)
    >>> model = gf.dynamics.InverseDynamics(residual=features, residual_penalty=0.01)
    >>> model = model.fit(q[:400], dq[:400], ddq[:400], tau[:400])
    >>> error = model.predict(q[400:], dq[400:], ddq[400:]) - tau[400:]
    >>> bool(np.sqrt(np.mean(error**2)) < 0.3 * tau.std())
    True
    """

    frequencies_: Array
    spread_: Array
    n_features_in_: int

    def __init__(
        self,
        n_features: int = 500,
        *,
        length_scale: Any = (3.0, 3.0, 8.0, 1.5),
        own_length_scale: Any = (0.5, 0.5, 4.0, 0.5),
        slow: Any = 0.1,
        random_state: Any = None,
    ):
        self.n_features = n_features
        self.length_scale = length_scale
        self.own_length_scale = own_length_scale
        self.slow = slow
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the frequencies, and take the deviations of the inputs.

        Parameters
        ----------
        X : array of shape (n, 3 joints)
            Columns q, q̇ and q̈.
        y : ignored
        """
        points = validate_data(self, X, dtype=np.float64, reset=True)
        if points.shape[1] % 3:
            raise ValueError(f"X has {points.shape[1]} columns: they must be q, dq and ddq of the same joints")
        joints = points.shape[1] // 3
        scales = [self._scales(name) for name in ("length_scale", "own_length_scale")]
        count = self._counts(joints)
        random = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        waves = random.normal(size=(KINDS * joints, sum(count)))
        owner = np.repeat(np.arange(-1, joints), count)  # -1: all of them
        joint, kind = np.tile(np.arange(joints), KINDS)[:, None], np.repeat(np.arange(KINDS), joints)
        waves[:, owner < 0] /= scales[0][kind][:, None]
        waves[:, owner >= 0] /= scales[1][kind][:, None]
        self.frequencies_ = waves * ((owner == -1) | (owner == joint))
        inputs = self._inputs(points)
        spread = inputs.std(0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        self._sizes = 1 / np.sqrt(np.asarray(count, dtype=np.float64))[owner + 1]
        return self

    def transform(self, X: Any) -> Array:
        """Features of shape (n, n_features).

        Parameters
        ----------
        X : array of shape (n, 3 joints)
        """
        check_is_fitted(self, "frequencies_")
        points = validate_data(self, X, dtype=np.float64, reset=False)
        phases = (self._inputs(points) / self.spread_) @ self.frequencies_
        return np.hstack([np.cos(phases) * self._sizes, np.sin(phases) * self._sizes])

    def _inputs(self, points: Array) -> Array:
        velocities = points[:, points.shape[1] // 3 : 2 * points.shape[1] // 3]
        slow = np.asarray(self.slow, dtype=np.float64)
        if slow.ndim > 1 or not (np.isfinite(slow).all() and (slow > 0).all()):
            raise ValueError(f"slow must be a positive velocity, or one for each joint, got {self.slow!r}")
        return np.hstack([points, np.tanh(velocities / slow)])

    def _scales(self, name: str) -> Array:
        scales = check_array(np.atleast_2d(getattr(self, name)), input_name=name)[0]
        if scales.shape != (KINDS,) or not (scales > 0).all():
            raise ValueError(f"{name} must be four positive numbers, got {getattr(self, name)!r}")
        return np.asarray(scales)

    def _counts(self, joints: int) -> list[int]:
        """Waves of all joints together, and of each alone; each wave is two features."""
        if not isinstance(self.n_features, numbers.Integral) or self.n_features < 4 * joints:
            raise ValueError(f"n_features must be a whole number, at least {4 * joints}, got {self.n_features!r}")
        own = int(self.n_features) // (4 * joints)
        return [int(self.n_features) // 2 - joints * own, *([own] * joints)]

    def _state(self) -> State:
        check_is_fitted(self, "frequencies_")
        arrays = {"frequencies": self.frequencies_, "spread": self.spread_, "sizes": self._sizes}
        return {"columns": self.n_features_in_}, arrays | {"slow": np.asarray(self.slow, dtype=np.float64)}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.n_features_in_ = int(values["columns"])
        self.frequencies_, self.spread_, self._sizes = (arrays[name] for name in ("frequencies", "spread", "sizes"))
        self.slow = arrays["slow"] if arrays["slow"].ndim else float(arrays["slow"])
        inputs = KINDS * self.n_features_in_ // 3
        if self.frequencies_.shape != (inputs, len(self._sizes)) or self.spread_.shape != (inputs,):
            raise ValueError("the frequencies do not fit the inputs")

    def _describe_parameter(self, name: str, value: Any) -> Any:
        if name in ("length_scale", "own_length_scale"):
            return [float(number) for number in value]
        return super()._describe_parameter(name, value)
