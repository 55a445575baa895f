"""What Gyrfalcon costs, beside named peers, in one run: `python -m benchmarks --help`."""

import os


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


THREADS = min(2, _cpus())

# OpenBLAS, MKL and OpenMP read these once, when NumPy and PyTorch are loaded: so here, before any of them is.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = str(THREADS)
