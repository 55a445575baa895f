"""The compiled core, or None where the package was installed without it."""

from __future__ import annotations

import warnings
from importlib import import_module
from types import ModuleType

core: ModuleType | None = None
try:
    core = import_module("gyrfalcon._native")
except ImportError:
    warnings.warn(
        "Gyrfalcon was installed without its compiled core, so kernel products use PyTorch and are slower: "
        "install a C++ compiler (GCC or Clang) and reinstall.",
        RuntimeWarning,
        stacklevel=2,
    )
