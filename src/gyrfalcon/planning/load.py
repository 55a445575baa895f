"""How busy the machine is with other programs."""

from __future__ import annotations

import os

import torch

BUSY = 0.5  # programs that run, for each processor, from which on a machine is not quiet


def load_of_machine() -> float:
    """How many programs have wanted a processor during the last minute, on average; zero where it is not known."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def is_busy(load: float) -> bool:
    """Whether times will be too long."""
    return load > BUSY * (os.cpu_count() or 1)


def busy_words(load: float) -> str:
    return f"a load of {load:.1f} on {os.cpu_count()} processors"


def slowdown(load: float) -> float:
    """How much longer work takes that shares the processors fairly with those programs."""
    return max(1.0, (load + torch.get_num_threads()) / (os.cpu_count() or 1)) if is_busy(load) else 1.0
