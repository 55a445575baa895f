"""Which parameters of a linear model the rows of a factor determine."""

from __future__ import annotations

from typing import Any

import numpy as np

from gyrfalcon.online.factor import Factor

Array = np.ndarray[Any, Any]

LEAST_INFORMATION = 1e-12  # of the best known direction of the parameters: those with less are not identifiable
SMALL_PART = 1e-4  # of a parameter that may lie in directions that are not


def unknown_directions(factor: Factor) -> Array:
    """Orthonormal directions of parameters, in units of the prior, that the rows say nothing of; one a row."""
    root = np.sqrt(factor.penalties)
    if not factor.whole:
        factor = factor.copy()
        factor.top_up()
    _, s, Vt = np.linalg.svd(factor.R / root)
    information = np.square(s) - 1.0  # what rows have added to the prior's one
    return np.asarray(Vt[information <= LEAST_INFORMATION * np.square(s[0])])


def identifiable(factor: Factor) -> Array:
    """Whether nothing of a parameter lies in unknown directions."""
    return np.asarray(np.linalg.norm(unknown_directions(factor), axis=0) < SMALL_PART)
