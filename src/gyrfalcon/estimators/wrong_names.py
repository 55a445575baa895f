"""Names that other libraries have for parameters and losses, and what to write here instead."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

_LENGTH_SCALE = "write length_scale=..., or kernel=gyrfalcon.kernels.from_name('rbf', gamma=...)"
_PENALTY = "write penalty=..., the factor of ‖f‖² beside the mean loss"
_CENTERS = "write n_centers=..."
_SOLVER = "they are settings of the solver: write solver=gyrfalcon.solvers.Falkon(tolerance=..., max_iterations=...)"
_KERNEL = "it belongs to the kernel: write kernel=gyrfalcon.kernels.from_name('poly', degree=..., coef0=...)"
PARAMETERS = {
    "alpha": "write penalty=alpha/n for n rows, as for KernelRidge",
    "bandwidth": _LENGTH_SCALE,
    "C": "write penalty=1/(2·n·C) for n rows, as for SVC",
    "coef0": _KERNEL,
    "degree": _KERNEL,
    "epsilon": "write loss='robust' or loss='absolute', which large errors do not dominate either",
    "gamma": _LENGTH_SCALE,
    "kernel_params": "write kernel=gyrfalcon.kernels.Gaussian(...) or another of gyrfalcon.kernels",
    "lambda_": _PENALTY,
    "lengthscale": "write length_scale=...",
    "lam": _PENALTY,
    "M": _CENTERS,
    "max_iter": _SOLVER,
    "maxiter": _SOLVER,
    "n_components": _CENTERS,
    "n_inducing": _CENTERS,
    "n_jobs": "set the number of threads with torch.set_num_threads or OMP_NUM_THREADS",
    "n_restarts_optimizer": "write tune=gyrfalcon.tuning.Tuning(...)",
    "normalize_y": "leave it out: targets are always scaled",
    "optimizer": "write tune=gyrfalcon.tuning.Tuning(...)",
    "probability": "leave it out: predict_proba is always there, but for the hinge loss",
    "seed": "write random_state=...",
    "sigma": "write length_scale=...",
    "tol": _SOLVER,
}
LOSSES = {
    "absolute_error": "absolute",
    "binary_crossentropy": "logistic",
    "cross_entropy": "logistic",
    "deviance": "logistic",
    "huber": "robust",
    "l1": "absolute",
    "l2": "squared",
    "least_squares": "squared",
    "log": "logistic",
    "log_loss": "logistic",
    "logloss": "logistic",
    "mae": "absolute",
    "mse": "squared",
    "squared_error": "squared",
    "squared_hinge": "hinge",
    "squared_loss": "squared",
}


def remedy(name: str, value: Any, known: Iterable[str]) -> str:
    """What to write instead of a parameter that there is not; empty if nothing is like it.

    >>> remedy("gamma", 0.5, ["length_scale"])
    'write length_scale=1 with the Gaussian kernel'
    >>> remedy("lenght_scale", 2.0, ["length_scale"])
    'write length_scale=...'
    """
    if name == "gamma" and isinstance(value, numbers.Real) and 0 < float(value) < math.inf:
        return f"write length_scale={math.sqrt(0.5 / float(value)):.6g} with the Gaussian kernel"
    if name in PARAMETERS:
        return PARAMETERS[name]
    near = difflib.get_close_matches(name, list(known), 1)
    return f"write {near[0]}=..." if near else ""


def explains_wrong_names(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor that says what to write instead of a keyword it does not have."""
    known = [name for name in inspect.signature(init).parameters if name != "self"]

    @functools.wraps(init)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            if name not in known and (words := remedy(name, value, known)):
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}: {words}")
        init(self, *args, **kwargs)

    return wrapped


def check_loss(loss: Any, known: Iterable[str]) -> None:
    """Refuse the name of a loss that there is not, with the one that is meant."""
    if isinstance(loss, str) and loss in known:
        return
    names = sorted(known)
    meant = LOSSES.get(loss) if isinstance(loss, str) else None
    words = ""
    if meant in names:
        words = f": write loss={meant!r}"
    elif meant is not None:
        kind = "classifiers" if meant in ("logistic", "hinge") else "regressors"
        words = f": {meant!r}, which is meant, is for {kind}"
    raise ValueError(f"loss must be one of {names}, got {loss!r}{words}")
