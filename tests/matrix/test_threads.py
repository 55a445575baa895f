"""The same numbers from any number of threads, from every run, and without the compiled core; and a way out."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

import gyrfalcon as gf
from gyrfalcon.kernels import Gaussian, Matern
from gyrfalcon.matrix import native_engine
from reference import DTYPES, ENGINES, KERNELS, TOLERANCE, Comparison, as_array, dense, relative_error

sanitized = pytest.mark.skipif("GYRFALCON_SANITIZED" in os.environ, reason="too slow on a sanitized build")
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)


@pytest.fixture
def threads():  # of the products, native ones and PyTorch's
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def _problem(dtype, n=1000, m=70, d=4, t=3):
    generator = np.random.default_rng(0)
    return [(1 + generator.standard_normal(shape)).astype(dtype) for shape in ((n, d), (m, d), (m, t), (n, t), (n,))]


def _products(kernel, engine, problem):
    X, C, V, W, weights = problem
    route = ENGINES[engine]
    K = gf.KernelMatrix(kernel, route.X(X), route.C(C), cache=False, **route.options)
    V, W, weights = (route.V(array) for array in (V, W, weights))
    results = K @ V, K.T @ W, K.gram_mv(V), K.gram_mv(V, weights), K.to_dense(), K.gram(weights)
    return [as_array(result) for result in results]


def _run(program, **changes):
    environment = os.environ | changes
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_native_core_is_here():
    assert native_engine.core is not None
    assert gf.KernelMatrix("rbf", np.ones((3, 2))).engine == "native"


@pytest.mark.parametrize("engine", ENGINES)
@every_dtype
def test_one_and_two_threads_agree(engine, dtype, threads):
    found = {}
    for count in (1, 2, 3):
        threads(count)
        found[count] = _products(Gaussian(2.0), engine, _problem(dtype))
    for count in (2, 3):
        for many, one in zip(found[count], found[1], strict=True):
            assert relative_error(many, one.astype(np.float64)) <= TOLERANCE[dtype]


@every_dtype
@pytest.mark.parametrize("kernel", ["gaussian", "nested", "mapped_wide"])
def test_native_threads_change_no_bit(kernel, dtype, threads):
    k, problem = KERNELS[kernel](4, 1.0, 1.0), _problem(dtype)
    found = {}
    for count in (1, 2, 5):
        threads(count)
        found[count] = _products(k, "native", problem)[:5]
    for count in (2, 5):
        for many, one in zip(found[count], found[1], strict=True):
            np.testing.assert_array_equal(many, one)


@every_dtype
def test_native_on_two_threads_is_right(dtype, threads):
    threads(2)
    X, C, *_ = _problem(dtype)
    for name, make in KERNELS.items():
        k = make(4, 1.0, 1.0)
        compared = Comparison(gf.KernelMatrix(k, X, C, engine="native"), dense(k, X, C), TOLERANCE[dtype])
        compared.products(3)
        assert not compared.missed, name


@pytest.mark.parametrize("engine", ENGINES)
@every_dtype
def test_again_gives_the_same_bits(engine, dtype):
    first, second = (_products(Matern(2.0, nu=1.5), engine, _problem(dtype)) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_process_gives_the_same_bits(capsys, threads):
    threads(2)
    program = textwrap.dedent("""
        import hashlib, numpy as np, torch, gyrfalcon as gf
        torch.set_num_threads(2)
        generator = np.random.default_rng(0)
        X, C, V = (generator.standard_normal(s).astype(np.float32) for s in ((1000, 5), (300, 5), (300, 4)))
        for engine in ("native", "torch"):
            K = gf.KernelMatrix("laplacian", X, C, engine=engine)
            W = K @ V
            print(hashlib.sha256(W.tobytes() + (K.T @ W).tobytes() + K.gram_mv(V).tobytes()).hexdigest())
    """)
    exec(program, {})
    assert _run(program) == capsys.readouterr().out


def test_threadpool_limits_are_respected(threads):
    threads(2)
    K = gf.KernelMatrix("rbf", np.ones((3, 2)))
    assert K.plan().threads == 2
    with threadpool_limits(1):
        assert K.plan().threads == 1
        assert (K @ np.ones(3) == 3).all()
    threads(1)
    assert K.plan().threads == 1


@sanitized
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads where Linux lists them")
@pytest.mark.parametrize("count", [1, 2])
def test_native_starts_no_more_threads_than_asked(count, threads):
    threads(count)
    X = np.random.default_rng(0).standard_normal((60_000, 8))
    K = gf.KernelMatrix("rbf", X, X[:1000])
    before, most, done = len(os.listdir("/proc/self/task")), 0, threading.Event()

    def watch():
        nonlocal most
        while not done.wait(0.001):
            most = max(most, len(os.listdir("/proc/self/task")))

    watcher = threading.Thread(target=watch)
    watcher.start()
    K @ np.ones(1000)
    done.set()
    watcher.join()
    assert most - before - 1 == count - 1  # the watcher is one of them, and the caller works too


@sanitized
def test_interrupt_during_a_native_product():
    """Ctrl-C in a product of minutes comes through within a second, and the next product is right.

    It is sent by the process itself once the core was asked for, and the second is one of the processor: on a busy
    machine it would otherwise come before the product, or look late.
    """
    program = """
        import os, signal, threading, time, numpy as np, gyrfalcon as gf
        from gyrfalcon.matrix import native_engine

        signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it

        class Watched:
            def __init__(self, core):
                self.core, self.asked = core, threading.Event()
            def __getattr__(self, name):
                self.asked.set()
                return getattr(self.core, name)

        def interrupt():
            global began
            watched.asked.wait()
            time.sleep(0.5)
            began = time.process_time()
            os.kill(os.getpid(), signal.SIGINT)

        X = np.random.default_rng(0).standard_normal((400_000, 20), dtype=np.float32)
        K = gf.KernelMatrix("rbf", X, X[:50_000], engine="native")
        V, W = np.ones(50_000, np.float32), np.ones(400_000, np.float32)
        watched = native_engine.core = Watched(native_engine.core)
        for long in (lambda: K @ V, lambda: K.T @ W, lambda: K.gradients(W, V, wanted=("C", "parameters"))):
            watched.asked.clear()
            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                long()
            except KeyboardInterrupt:
                print(time.process_time() - began < 1)
            thread.join()
        small = gf.KernelMatrix("linear", np.ones((100, 2)), engine="native")
        print((small @ np.ones(100) == 200).all())
    """
    assert _run(program).split() == ["True"] * 4


@pytest.mark.parametrize("engine", ENGINES)
def test_two_callers_at_once(engine, threads):
    threads(2)
    problem = _problem(np.float64)
    kernels = [Gaussian(2.0), Matern(1.0, nu=2.5)]
    expected = [_products(k, engine, problem) for k in kernels]
    wrong = []

    def work(k, right):
        for _ in range(5):
            for one, other in zip(_products(k, engine, problem), right, strict=True):
                if not relative_error(one, other) <= TOLERANCE[np.float64]:
                    wrong.append(k)

    callers = [threading.Thread(target=work, args=pair) for pair in zip(kernels * 2, expected * 2, strict=True)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_native_lets_other_python_threads_run():
    """The interpreter is released: a counter goes on while a product is made."""
    X = np.random.default_rng(0).standard_normal((8000, 8))
    K, counted, done = gf.KernelMatrix("rbf", X, engine="native"), 0, threading.Event()

    def count():
        nonlocal counted
        while not done.wait(0.0005):
            counted += 1

    counter = threading.Thread(target=count)
    counter.start()
    K @ np.ones(8000)
    during = counted
    done.set()
    counter.join()
    assert during >= 3


def test_without_the_compiled_core():
    program = """
        import sys, warnings
        sys.modules["gyrfalcon._native"] = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import gyrfalcon as gf
            gf.KernelMatrix
        own = [w for w in caught if "Gyrfalcon" in str(w.message)]
        assert len(own) == 1 and own[0].category is RuntimeWarning, [str(w.message) for w in caught]
        assert "compiler" in str(own[0].message)
        warnings.simplefilter("error")
        import numpy as np
        X = np.random.default_rng(0).standard_normal((50, 3))
        K = gf.KernelMatrix("rbf", X, X[:7])
        expected = np.exp(-((X[:, None] - X[None, :7]) ** 2).sum(-1) / 2)
        assert K.engine == "torch" and "compiled core" in K.plan().reason
        assert np.allclose(K @ np.ones(7), expected.sum(1), rtol=1e-13)
        assert np.allclose(K.gram_mv(np.ones(7)), expected.T @ expected.sum(1), rtol=1e-13)
        try:
            gf.KernelMatrix("rbf", X, engine="native")
        except ValueError as error:
            assert "engine" in str(error)
        else:
            raise AssertionError("engine='native' was accepted")
        print("right")
    """
    assert _run(program) == "right\n"


INSTRUCTION_SETS = ["baseline", "avx2", "avx512"]  # a processor that has one has those before it


@pytest.mark.parametrize("simd", ["baseline", "avx2"])
def test_native_instruction_sets_agree(simd):
    if INSTRUCTION_SETS.index(simd) >= INSTRUCTION_SETS.index(native_engine.core.instruction_set()):
        pytest.skip("every other test runs on this one, or on a narrower one")
    program = f"""
        import sys, numpy as np, gyrfalcon as gf
        from gyrfalcon import _native
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from reference import DTYPES, KERNELS, TOLERANCE, Comparison, dense, relative_error
        from reference.cases import ABSOLUTE
        generator = np.random.default_rng(0)
        for name, make in KERNELS.items():
            for dtype in DTYPES:
                for d in (3, 20):
                    k = make(d, 1.0, 1.0)
                    X, C = (generator.standard_normal((n, d)).astype(dtype) for n in (60, 40))
                    compared = Comparison(gf.KernelMatrix(k, X, C), dense(k, X, C), TOLERANCE[dtype])
                    compared.products(5)
                    assert not compared.missed, (name, dtype, d, compared.missed)
                    differentiated = ("gaussian", "laplacian", "matern32", "matern52", *ABSOLUTE)
                    if name.removesuffix("_per_feature") in differentiated:
                        left, right = generator.standard_normal((60, 3)), generator.standard_normal((40, 3))
                        slow = gf.KernelMatrix(k, *(p.astype(float) for p in (X, C)), engine="torch")
                        slow = slow.gradients(left, right)
                        fast = gf.KernelMatrix(k, X, C).gradients(
                            left.astype(dtype), right.astype(dtype), wanted=("C", "parameters")
                        )
                        for one, other in ((fast.C, slow.C), *zip(fast.parameters.values(), slow.parameters.values())):
                            assert relative_error(one, other.numpy()) <= 20 * TOLERANCE[dtype], (name, dtype, d)
        print(_native.instruction_set())
    """
    assert _run(program, GYRFALCON_SIMD=simd).strip() == simd
