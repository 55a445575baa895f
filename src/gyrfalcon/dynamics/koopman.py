"""Koopman operator regression: linear dynamics of functions of the state, learned from runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gyrfalcon.arrays import Array, as_matrix, as_numpy
from gyrfalcon.kernels import Kernel
from gyrfalcon.moments import LaggedMoments
from gyrfalcon.persistence import Savable, State

from . import choices, control, files
from .forecast import ForecastErrors, Propagator, Score, forecast_errors, read_steps
from .gather import gather
from .kept import KeptFit
from .lift import Lift
from .operator import Operator, solve
from .runs import Runs, RunWarning, as_run
from .spectrum import Spectrum, timescales


class RankWarning(UserWarning):
    """A rank above what the data carry.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> issubclass(gf.dynamics.RankWarning, UserWarning)
    True
    """


class Koopman(Savable, BaseEstimator):  # type: ignore[misc]
    """Koopman operator regression with Nyström centers (Meanti et al. 2023).

    The operator takes a function f of the state to its mean some frames later, (𝒦f)(x) = E[f(x′) | x]. On functions
    vᵀz of whitened kernel features z at the centers it is estimated as Ĝ = W Wᵀ B with B = E[z z′ᵀ], where W Wᵀ stands
    in for the inverse of S = E[z zᵀ]: (S + penalty)⁻¹ for "krr", the k largest principal components for "pcr", and the
    best operator of rank k for "rrr".

    The frames are read once. The same centers serve x and x′, so a frame costs one row of kernel values, and nothing of
    size n is kept.

    Parameters
    ----------
    method : "rrr", "pcr" or "krr"
        Reduced rank, principal component or kernel ridge regression.
    kernel : str or Kernel
        "gaussian", "matern", "linear" and so on, or a kernel.
    length_scale : "auto", float or sequence of floats
        Of a kernel that is given by name. "auto" is the spread of each feature times the median distance between
        frames.
    n_centers : int
        At most as many as there are distinct frames; with all of them the estimators are the exact ones.
    centers : "uniform", "kmeans", "leverage", "pivoted", or array of shape (m, d)
        How frames become centers, or the centers.
    rank : int, optional
        k, of "rrr" and "pcr": 10 if not given. "krr" has none.
    penalty : "auto" or float
        Of the squared norm beside mean squares. "auto" is 1e-6 E k(x, x), and none for "pcr".
    lag : int
        How many frames later x′ is than x.
    input_form : "affine" or "bilinear"
        How inputs act, where there are any: z′ = Ĝᵀz + Hᵀu, or with products of inputs and features besides.
    memory_budget : int, optional
        Bytes that temporaries may take.
    verbose : bool
        Show a bar while a long fit reads frames.
    random_state : int, RandomState or None
        Of the choice of centers.

    Attributes
    ----------
    eigenvalues_ : array of shape (k,)
        Those of the operator that are not zero, by decreasing modulus.
    kernel_, centers_, penalty_ : Kernel, array of shape (m, d), float
        What was chosen.
    rank_ : int
        k, as far as the data carry it.
    n_pairs_ : int
        How many pairs of frames the operator was learned from.
    n_features_in_, n_inputs_ : int
    moments_ : LaggedMoments
        All that is known of the frames.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> random = np.random.default_rng(0)
    >>> runs = []
    >>> for _ in range(20):  # x′ = 0.6 x + noise: the eigenvalues are 1, 0.6, 0.36, ...
    ...     x = [random.normal()]
    ...     for _ in range(999):
    ...         x.append(0.6 * x[-1] + 0.8 * random.normal())
    ...     runs.append(np.array(x)[:, None])
    >>> model = gf.dynamics.Koopman("rrr", n_centers=50, rank=3, random_state=0).fit(runs)
    >>> model.eigenvalues_[:2].round(1)
    array([1. , 0.6])
    >>> model.predict(np.array([[1.0], [-0.5]]), steps=[1, 2, 10]).shape
    (2, 3, 1)
    """

    kernel_: Kernel
    penalty_: float
    n_features_in_: int
    n_inputs_: int
    moments_: LaggedMoments
    _lift: Lift

    def __init__(
        self,
        method: str = "rrr",
        kernel: Any = "gaussian",
        *,
        length_scale: Any = "auto",
        n_centers: int = 300,
        centers: Any = "uniform",
        rank: int | None = None,
        penalty: Any = "auto",
        lag: int = 1,
        input_form: str = "affine",
        memory_budget: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ):
        self.method = method
        self.kernel = kernel
        self.length_scale = length_scale
        self.n_centers = n_centers
        self.centers = centers
        self.rank = rank
        self.penalty = penalty
        self.lag = lag
        self.input_form = input_form
        self.memory_budget = memory_budget
        self.verbose = verbose
        self.random_state = random_state

    # Learning.

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        trajectory: Any = None,
        inputs: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from runs, in one pass over their frames. No pair of frames goes from one run to another.

        A frame with NaN or infinity drops the pairs it belongs to. Runs that are no longer than the lag are left out.

        Parameters
        ----------
        X : sequence of arrays of shape (frames, d), one array, path of a file, Source, Table or Dask collection
            Runs. One array is one run, unless `trajectory` says otherwise.
        y : ignored
        trajectory : str, int or array, optional
            The column of a file that says which run a row belongs to, or a label for each row.
        inputs : sequence of arrays of shape (frames, p), one array, or names of columns of a file, optional
            What acted on the system, one row for each frame: that of x acts until x′.
        checkpoint : path of a directory, optional
            Where the sums are kept while a long source is read. The same call after the process was killed goes on from
            there and ends with the same bits; the files are removed at the end.
        """
        choices.check(self)
        runs = Runs.of(X, trajectory=trajectory, inputs=inputs)
        kept = None if checkpoint is None else KeptFit(checkpoint, self, runs, self.memory_budget)
        return self._learn(runs, int(self.lag), reset=True, kept=kept)

    def partial_fit(self, X: Any, y: Any = None, *, trajectory: Any = None, inputs: Any = None) -> Self:
        """Learn from more runs. The kernel and the centers are those of the first call.

        Parameters
        ----------
        X, y, trajectory, inputs
            As for `fit`.
        """
        choices.check(self)
        runs = Runs.of(X, trajectory=trajectory, inputs=inputs)
        return self._learn(runs, int(self.lag), reset=not hasattr(self, "moments_"))

    def fit_pairs(self, X: Any, Y: Any, *, inputs: Any = None) -> Self:
        """Learn from pairs of states: Y has what X became, row by row, after `lag` units of time.

        Parameters
        ----------
        X, Y : array of shape (n, d)
        inputs : array of shape (n, p), optional
        """
        choices.check(self)
        before, after = as_run(X, "X"), as_run(Y, "Y")
        if before.shape != after.shape:
            raise ValueError(f"X has shape {before.shape} but Y has {after.shape}: give one row of Y for each of X")
        frames = np.stack([before, after], 1).reshape(-1, before.shape[1])
        added = None
        if inputs is not None:
            given = np.asarray(inputs, dtype=np.float64)
            if given.ndim != 2 or len(given) != len(before):
                raise ValueError(f"inputs must have {len(before)} rows, got shape {given.shape}")
            added = np.repeat(given, 2, axis=0)
        runs = Runs.of(frames, trajectory=np.repeat(np.arange(len(before)), 2), inputs=added)
        return self._learn(runs, 1, reset=True)

    def _learn(self, runs: Runs, lag: int, *, reset: bool, kept: KeptFit | None = None) -> Self:
        runs.check(lag)
        if kept is not None:
            kernel, lift = kept.lift(lambda: choices.choose(self, runs))
        elif reset:
            kernel, lift = choices.choose(self, runs)
        else:
            kernel, lift = self.kernel_, self._lift
            expected = (self.n_features_in_, self.n_inputs_)
            if (runs.n_features, runs.n_inputs) != expected:
                raise ValueError(
                    f"runs have {runs.n_features} features and {runs.n_inputs} inputs, the first had "
                    f"{expected[0]} and {expected[1]}"
                )
        found = gather(runs, lift, [lag], form=self.input_form, verbose=bool(self.verbose), kept=kept)[0]
        if kept is not None:
            kept.clear()
        if found.count == 0:
            raise ValueError("no pair of frames is free of NaN and infinity: there is nothing to learn from")
        if (lost := runs.pairs(lag) - found.count) > 0:
            warnings.warn(
                f"{lost:,} of {runs.pairs(lag):,} pairs hold NaN or infinity and are left out", RunWarning, stacklevel=3
            )
        return self.adopt(kernel, lift, found if reset else self.moments_ + found, (runs.n_features, runs.n_inputs))

    def adopt(self, kernel: Kernel, lift: Lift, moments: LaggedMoments, widths: tuple[int, int]) -> Self:
        """Become the model of moments that were made elsewhere, with these numbers of features and inputs."""
        self.kernel_, self._lift, self.moments_ = kernel, lift, moments
        self.n_features_in_, self.n_inputs_ = widths
        self.penalty_ = choices.penalty(self, moments)
        self._operator: Operator | None = None
        self._spectrum: Spectrum | None = None
        return self

    # The operator.

    @property
    def operator_(self) -> Operator:
        """Ĝ = W Wᵀ B."""
        check_is_fitted(self, "moments_")
        if self._operator is None:
            rank, method = choices.rank(self), str(self.method)
            self._operator = solve(self.moments_, method, rank, self.penalty_, self.n_inputs_)
            if self.rank is not None and self._operator.rank < self.rank:
                warnings.warn(
                    f"rank={self.rank} is more than the {self.moments_.count:,} pairs and {len(self.centers_):,} "
                    f"centers carry: the operator has rank {self._operator.rank}",
                    RankWarning,
                    stacklevel=3,
                )
        return self._operator

    @property
    def spectrum_(self) -> Spectrum:
        """Eigenvalues and coordinates of eigenfunctions."""
        check_is_fitted(self, "moments_")
        if self._spectrum is None:
            self._spectrum = Spectrum.of(self.operator_)
        return self._spectrum

    @property
    def eigenvalues_(self) -> Array:
        return self.spectrum_.values

    @property
    def centers_(self) -> Array:
        return self._lift.centers

    @property
    def rank_(self) -> int:
        return self.operator_.rank

    @property
    def n_pairs_(self) -> int:
        return self.moments_.count

    def eigenfunctions(self, X: Any, side: str = "left") -> Array:
        """Eigenfunctions at states, of shape (n, k), in the order of `eigenvalues_`.

        Those of the left are eigenfunctions of the Koopman operator: E[φᵢ(x′) | x] = λᵢ φᵢ(x). (Other libraries call
        them right.) Those of the right belong to its adjoint, which moves densities. Right ones have norm one, and the
        scale of the left ones makes both biorthogonal.

        Parameters
        ----------
        X : array of shape (n, d)
        side : "left" or "right"
        """
        if side not in ("left", "right"):
            raise ValueError(f"side must be 'left' or 'right', got {side!r}")
        spectrum = self.spectrum_
        if side == "right":
            spectrum.check()
        coordinates = spectrum.left_coordinates if side == "left" else spectrum.right_coordinates
        states = self._states(X)
        out = np.empty((len(states), coordinates.shape[1]), dtype=coordinates.dtype)
        for rows, Z in self._lift.blocks(states):
            out[rows] = Z @ coordinates
        return out

    def modes(self, observable: Callable[[Array], Any] | None = None) -> Array:
        """Modes γ of an observable g, of shape (k, t): E[g(x_t) | x] = Σᵢ λᵢᵗ φᵢ(x) γᵢ, for t ≥ 1 steps.

        Parameters
        ----------
        observable : callable, optional
            A function of states of shape (n, d); the state itself if not given. See `predict`.
        """
        return self.spectrum_.modes(self._readout(observable))

    def timescales(self, dt: float = 1.0, count: int | None = None) -> Array:
        """-lag · dt / log λ for each eigenvalue; see `gyrfalcon.dynamics.timescales`.

        Parameters
        ----------
        dt : float
            The time between frames.
        count : int, optional
            Of so many leading eigenvalues only.
        """
        return timescales(self.eigenvalues_[:count], self.lag, dt)

    # Forecasts.

    def predict(
        self, X: Any, steps: Any = 1, *, observable: Callable[[Array], Any] | None = None, inputs: Any = None
    ) -> Array:
        """The mean of the state, or of an observable, after steps of the operator; each is `lag` frames long.

        Several steps cost hardly more than one: the states are lifted once, and small matrices do the rest.

        Parameters
        ----------
        X : array of shape (n, d)
            States to begin with.
        steps : int or sequence of int
            One gives an array of shape (n, t); several give one of shape (n, steps, t).
        observable : callable, optional
            A function that makes an array of shape (n,) or (n, t) of states of shape (n, d). It is evaluated at the
            centers. The state itself, if not given, is known from all frames, which is more precise.
        inputs : array of shape (n, p) for one step, or (n, max(steps), p)
            What acts during each step, for models that were fitted with inputs.
        """
        check_is_fitted(self, "moments_")
        wanted, one = read_steps(steps)
        states = self._states(X)
        U = control.read_inputs(inputs, len(states), max(wanted), self.n_inputs_)
        out = self._propagator().forecast(states, wanted, self._readout(observable), U)
        return out[:, 0] if one else out

    def errors(self, X: Any, steps: Any = 1, *, trajectory: Any = None, inputs: Any = None) -> ForecastErrors:
        """Errors of forecasts from every frame of runs, beside persistence, in one pass.

        Parameters
        ----------
        X, trajectory, inputs
            Runs, as for `fit`.
        steps : int or sequence of int
        """
        check_is_fitted(self, "moments_")
        runs = Runs.of(X, trajectory=trajectory, inputs=inputs)
        if (runs.n_features, runs.n_inputs) != (self.n_features_in_, self.n_inputs_):
            raise ValueError(
                f"runs have {runs.n_features} features and {runs.n_inputs} inputs, the fit had "
                f"{self.n_features_in_} and {self.n_inputs_}"
            )
        return forecast_errors(self._propagator(), runs, read_steps(steps)[0], int(self.lag))

    def score(self, X: Any, y: Any = None, *, steps: Any = 1, trajectory: Any = None, inputs: Any = None) -> Score:
        """The coefficient of determination R² of forecasts of the state; its attribute `persistence` has that of
        persistence.

        Parameters
        ----------
        X, trajectory, inputs
            Runs, as for `fit`.
        y : ignored
        steps : int or sequence of int
        """
        return Score.of(self.errors(X, steps, trajectory=trajectory, inputs=inputs))

    def lqr(self, Q: Any, R: Any, *, target: Any = None, horizon: int | None = None) -> control.Regulator:
        """The linear quadratic regulator of the lifted state; see `gyrfalcon.dynamics.Regulator`.

        It minimizes Σₜ eₜᵀQeₜ + uₜᵀRuₜ, where e is the state less the target, for the affine form of inputs.

        Of a system that is unstable without inputs, powers of what is unstable are features that grow whatever the
        inputs do. With a horizon the regulator looks so many steps ahead at every moment, and these do not matter.

        Parameters
        ----------
        Q : array of shape (d, d)
        R : array of shape (p, p)
        target : array of shape (d,), optional
            Where the system should rest, and does so without inputs; the origin if not given.
        horizon : int, optional
            How many steps ahead costs count; all of them if not given.
        """
        check_is_fitted(self, "moments_")
        if self.n_inputs_ == 0:
            raise ValueError("lqr needs a model with inputs: fit(runs, inputs=...)")
        if self.input_form != "affine":
            raise ValueError(f"lqr needs input_form='affine', got {self.input_form!r}")
        return control.regulator(self._propagator(), Q, R, target, horizon, self.penalty_)

    def _propagator(self) -> Propagator:
        return Propagator(self._lift, self.operator_, self.n_inputs_, self.input_form)

    def _states(self, X: Any) -> Array:
        check_is_fitted(self, "moments_")
        states = as_numpy(as_matrix(X, "X"))
        if states.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {states.shape[1]} features, but Koopman was fitted to {self.n_features_in_}")
        return states

    def _readout(self, observable: Callable[[Array], Any] | None) -> Array:
        """What turns coordinates into the mean of an observable after one step, of shape (k, t)."""
        if observable is None:
            return self.operator_.readout
        if not callable(observable):
            raise TypeError(f"observable must be a function of states or None, got {observable!r}")
        values = np.asarray(observable(self.centers_), dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != len(self.centers_):
            raise ValueError(
                f"observable made an array of shape {values.shape} of {len(self.centers_)} states: it must have "
                "a row each"
            )
        v = self._lift.whitening.project(values.reshape(len(values), -1), self.penalty_)
        return np.asarray(self.operator_.image.T @ v)

    # Model files.

    def _state(self) -> State:
        check_is_fitted(self, "moments_")
        values, arrays = files.pack(self.moments_)
        values |= {"kernel": self.kernel_.to_dict(), "widths": [self.n_features_in_, self.n_inputs_]}
        return values, arrays | {"centers": self.centers_}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        choices.check(self)
        d, p = (int(width) for width in values["widths"])
        moments, whitening = files.unpack(values, arrays, d)
        if arrays["centers"].shape != (whitening.size, d):
            raise ValueError("the centers and the moments do not fit together")
        kernel = Kernel.from_dict(values["kernel"])
        lift = Lift(kernel, arrays["centers"], memory_budget=self.memory_budget, whitening=whitening)
        self.adopt(kernel, lift, moments, (d, p))
