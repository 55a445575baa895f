"""Fits that are cut short: what a user's interrupt keeps, and what an error leaves untouched."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

from gyrfalcon.solvers import Record, Solution, Step

Fit = TypeVar("Fit", bound=Callable[..., Any])


INTERRUPTED = "interrupted"  # how the message of a record begins then


class Interrupted(UserWarning):
    """A fit was interrupted and keeps what it had."""


def keeps_the_old_model(fit: Fit) -> Fit:
    """Whatever ends a fit, an error or an interrupt, leaves the estimator as it was."""

    @functools.wraps(fit)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            own = {name for name in self.__dict__ if "callback" not in name}
            for name in own - before.keys():
                del self.__dict__[name]
            self.__dict__.update({name: value for name, value in before.items() if "callback" not in name})
            raise

    return cast(Fit, wrapped)


def _callers_level() -> int:
    """The `stacklevel`, for who calls this, of the innermost line that is neither this package's nor scikit-learn's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("gyrfalcon", "sklearn"):
        level, frame = level + 1, frame.f_back
    return level


def warn_of_interrupt(reached: str) -> str:
    """Tell who called the package how far the fit came; the message for its record."""
    message = f"{INTERRUPTED} after {reached}"
    warnings.warn(f"{message}: the model keeps what it had by then", Interrupted, stacklevel=_callers_level())
    return message


def what_was_reached(solver: str, step: Step, outputs: int) -> Solution:
    """The solution of a solver that was interrupted after a step."""
    message = warn_of_interrupt(f"{step.iteration} iterations")
    record = Record(
        solver=solver,
        iterations=step.iteration,
        converged=False,
        message=message,
        objective=[max(0.0, step.objective) / outputs] * outputs,  # rounding may put it below
    )
    return Solution(*step.solution(), record)
