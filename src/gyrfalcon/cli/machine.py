"""The machine and what is installed on it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gyrfalcon as gf

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "safetensors", "typer", "rich")
OPTIONAL = ("pyarrow", "pandas", "polars", "dask", "zarr", "h5py", "fsspec", "matplotlib")


def machine() -> dict[str, Any]:
    """Processor, engine, threads, devices and memory."""
    plan = gf.KernelMatrix("gaussian", np.zeros((2, 2), dtype=np.float32)).plan()
    return {
        "system": platform.platform(),
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "engine": plan.engine,
        "instruction_set": plan.instruction_set,
        "gpus": [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())],
        "memory_budget": plan.memory_budget,
    }


def versions() -> dict[str, str | None]:
    """Versions of Python, of this library and of the libraries it uses; None if a library is not installed."""
    found: dict[str, str | None] = {"gyrfalcon": gf.__version__, "python": platform.python_version()}
    for package in (*PACKAGES, *OPTIONAL):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.lower().startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
