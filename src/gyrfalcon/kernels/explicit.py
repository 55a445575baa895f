"""Where explicit features cannot stand for a kernel."""

from __future__ import annotations

from .base import Kernel


def refuse_explicit(kernel: Kernel, task: str) -> None:
    """Raise an error that names what to do instead if the kernel's values are features, not inner products."""
    if kernel.explicit:
        raise ValueError(
            f"kernel={kernel!r} makes features of frequencies, not inner products with centers, so {task}: use "
            "make_pipeline(gf.RandomFeatures(...), Ridge()), or gf.solvers on gf.RandomFeatures(...).fit(X).matrix(X)"
        )
