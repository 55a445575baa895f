"""The one place that touches scikit-learn's callback protocol, which is new and still changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "tell_callbacks", "with_callbacks"]

Attributes = Callable[[], dict[str, Any]]


def tell_callbacks(estimator: Any, X: Any, y: Any, iterations: int) -> Callable[[Attributes], bool]:
    """A function to call after each iteration with the fitted attributes so far; it says whether to stop."""
    if not hasattr(estimator, "_init_callback_context"):
        return lambda attributes: False
    fit = estimator._init_callback_context(max_subtasks=iterations)
    fit.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    def after_iteration(attributes: Attributes) -> bool:
        task = fit.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        return bool(task.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes=attributes))

    return after_iteration


def callbacks_end(estimator: Any, X: Any, y: Any) -> None:
    """Tell the callbacks that the fit is over."""
    fit = getattr(estimator, "_callback_fit_ctx", None)
    if fit is not None:
        fit.call_on_fit_task_end(estimator=estimator, X=X, y=y)
