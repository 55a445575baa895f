"""Where and with what a benchmark ran."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import gyrfalcon as gf

from . import THREADS


def set_threads() -> None:
    torch.set_num_threads(THREADS)


def take_one_thread() -> None:
    """Keep this process to one thread, since CPU time would count threads that wait for work too."""
    torch.set_num_threads(1)
    threadpool_limits(1)


def describe() -> dict[str, Any]:
    """The machine, the software and the hour, for the JSON report."""
    plan = gf.KernelMatrix("gaussian", np.zeros((2, 2), dtype=np.float32)).plan()
    packages = ("gyrfalcon", "torch", "numpy", "scipy", "pykeops", "gpytorch")
    return {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "threads": THREADS,
        "engine": plan.engine,
        "instruction_set": plan.instruction_set or "none: no compiled core",
        "load_average": os.getloadavg()[0],
        "system": platform.platform(),
        "versions": {"python": platform.python_version()} | {p: v for p in packages if (v := _version(p))},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def headline(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['cpu']}, {machine['threads']} threads of {machine['cpus']} CPUs; "
        f"gyrfalcon's engine: {machine['engine']}, {machine['instruction_set']}\n{versions}; "
        f"load average before the run {machine['load_average']:.1f}"
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.lower().startswith(("model name", "hardware")):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
