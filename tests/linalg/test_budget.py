"""What a process holds in memory and leaves on disk while it works on a matrix in a file."""

import signal
import subprocess
import sys

import pytest

SIZE, BUDGET = 3000, 24_000_000  # the matrix takes 72 MB
BLAS = 12_000_000  # bytes that its threads, and the heap, may take and keep beside the budget

MEASURED = f"""
import sys
import numpy as np
from gyrfalcon.linalg.cholesky_system import CholeskySystem
from gyrfalcon.linalg.square import OnDisk, Square
from gyrfalcon.linalg.tiles import add_product
from gyrfalcon.linalg.triangles import TrianglePair

def status(field):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))

def work(m, budget):
    x = np.linspace(0, 1, m)
    columns = lambda start, stop: np.exp(-np.abs(x[:, None] - x[None, start:stop]))
    def make():
        square = Square.fitting(m, columns, memory_budget=budget, directory=sys.argv[1])
        assert isinstance(square, OnDisk)
        return square
    pair = TrianglePair(make(), 1e-3, 1e-9, np.linspace(1, 2, m), centered=0.9)
    inner, outer = pair.solve_both(np.ones(m))
    pair.solve_both_transposed(outer, inner)
    pair.multiply_a(pair.multiply_t(outer))
    pair.refactor_from_products([(1.0, np.ones((m, 5)))], 0.1)
    del pair
    CholeskySystem(make(), ridge=0.1).solve(np.ones(m))

work(300, 200_000)  # loads libraries
A = np.ones((1000, 1000))
add_product(A, A.copy(), A.copy(), 1.0)  # lets the threads of BLAS take what they keep
del A
with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
    file.write("5")
before = status("VmRSS")
work({SIZE}, {BUDGET})
print(status("VmHWM") - before)
"""

ENDLESS = """
import signal, sys
import numpy as np
from gyrfalcon.linalg.square import Square
from gyrfalcon.linalg.triangles import cholesky_with_jitter

square = Square.fitting(1000, lambda a, b: np.eye(1000)[:, a:b], memory_budget=10**5, directory=sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it
print("ready", flush=True)
while True:
    square.set_diagonal(1.0)
    cholesky_with_jitter(square, 0.0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_resident_memory_stays_within_the_budget(tmp_path):
    done = subprocess.run([sys.executable, "-c", MEASURED, tmp_path], capture_output=True, text=True, check=True)
    grown = int(done.stdout)
    assert 0.3 * BUDGET < grown < BUDGET + BLAS, f"{grown / 1e6:.1f} MB"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_process_that_is_stopped_leaves_nothing(name, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(getattr(signal, name))
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode != 0
    assert ("KeyboardInterrupt" in errors) == (name == "SIGINT")
    assert list(tmp_path.iterdir()) == []
