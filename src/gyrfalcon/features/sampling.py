"""Frequencies drawn from a spectrum: one by one, or in blocks of orthogonal ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spectrum import Spectrum

Array = np.ndarray[Any, Any]


def independent(spectrum: Spectrum, count: int, random: np.random.Generator) -> Array:
    """Frequencies of shape (count, width), independent of each other."""
    deviations = spectrum.deviations(count, random)
    return deviations[:, None] * random.standard_normal((count, spectrum.width))


def orthogonal(spectrum: Spectrum, count: int, random: np.random.Generator) -> Array:
    """Frequencies of the same distribution each, in blocks of as many as there are dimensions, orthogonal in a block.

    They cover the directions more evenly, which lowers the variance of the kernel they give (Yu et al. 2016).
    """
    width = spectrum.width
    Q, R = np.linalg.qr(random.standard_normal((-(-count // width), width, min(width, count))))
    Q *= np.sign(np.einsum("bii->bi", R))[:, None]  # signs that make all directions equally likely
    directions = Q.transpose(0, 2, 1).reshape(-1, width)[:count]
    return directions * radii(spectrum, count, width, random)[:, None]


def radii(spectrum: Spectrum, count: int, width: int, random: np.random.Generator) -> Array:
    """Lengths of frequencies with so many dimensions."""
    return spectrum.deviations(count, random) * np.sqrt(random.chisquare(width, count))


def paired(frequencies: Array) -> Array:
    """w, -w for each w in turn: waves in both phases, so that the kernel they give depends on differences alone."""
    return np.stack([frequencies, -frequencies], 1).reshape(-1, frequencies.shape[1])
