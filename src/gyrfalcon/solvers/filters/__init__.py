"""Regularization by filtering the spectrum: iterations that stop early, and spectral cut-off."""

from .cutoff import SpectralCutoff
from .iterations import KernelCG, NuMethod, Nytro

__all__ = ["KernelCG", "NuMethod", "Nytro", "SpectralCutoff"]
