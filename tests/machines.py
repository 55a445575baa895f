"""Runs the numerical tests as other processors would: `python tests/machines.py [--quick] [machine ...]`.

Libraries choose their code when they are loaded, and round differently with each. A machine, here, says which: the
kernels of OpenBLAS, which NumPy and SciPy bring along, the vector loops of NumPy, those of PyTorch, MKL below PyTorch,
and Gyrfalcon's own instruction set. Machines that this processor cannot play are left out. Other options are pytest's.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
NO_AVX512 = "X86_V4 AVX512_ICL AVX512_SPR"
NO_AVX2 = f"X86_V3 {NO_AVX512}"


def machine(openblas, numpy_without, pytorch, gyrfalcon, mkl="AUTO"):
    """The environment in which libraries choose so."""
    return {
        "OPENBLAS_CORETYPE": openblas,
        "NPY_DISABLE_CPU_FEATURES": numpy_without,
        "ATEN_CPU_CAPABILITY": pytorch,
        "GYRFALCON_SIMD": gyrfalcon,
        "MKL_CBWR": mkl,
    }


# Four that were built, of which OpenBLAS gives the third the kernels of the second, and two that mix old and new.
MACHINES = {
    "nehalem": machine("Nehalem", NO_AVX2, "default", "baseline", "COMPATIBLE"),
    "haswell": machine("Haswell", NO_AVX512, "avx2", "avx2"),
    "zen4": machine("Zen", "", "avx512", "avx512"),
    "skylakex": machine("SkylakeX", "", "avx512", "avx512"),
    "old_blas": machine("Nehalem", "", "avx512", "avx512", "COMPATIBLE"),
    "old_loops": machine("SkylakeX", NO_AVX2, "default", "baseline"),
}
LEVELS = {"AVX2": 1, "AVX512": 2}  # PyTorch's names for what a processor has
NEEDS = {"avx2": 1, "Haswell": 1, "avx512": 2, "SkylakeX": 2}

NUMERICAL = [f"tests/{room}" for room in ("kernels", "linalg", "losses", "centers", "solvers")]
NUMERICAL += [f"tests/matrix/test_{name}.py" for name in ("conformance", "precision", "gradients", "native_gradients")]
NUMERICAL += [f"tests/matrix/test_{name}.py" for name in ("native_sgd", "native_waves", "engines_agree", "split")]
QUICK = ["tests/linalg", "tests/losses", "tests/centers/test_quality.py", "tests/matrix/test_precision.py"]
QUICK += ["tests/solvers/test_least_squares.py", "tests/matrix/test_engines_agree.py"]


def main():
    parser = argparse.ArgumentParser(description="Run the numerical tests as other processors would.")
    parser.add_argument("machines", nargs="*", choices=[*MACHINES, "all"], default="all")
    parser.add_argument("--quick", action="store_true", help="half a minute of tests on each machine")
    asked, options = parser.parse_known_args()
    here = LEVELS.get(torch.backends.cpu.get_cpu_capability(), 0)
    failed = []
    for name in MACHINES if "all" in asked.machines else asked.machines:
        environment = MACHINES[name]
        if max(NEEDS.get(wish, 0) for wish in environment.values()) > here:
            print(f"{name}: not on this processor", flush=True)
            continue
        print(f"{name}: {environment}", flush=True)
        tests = QUICK if asked.quick else NUMERICAL
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", *options, *tests]
        if subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
