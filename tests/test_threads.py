"""Evaluations that run at the same time leave the threads of PyTorch and of BLAS as they were."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon.estimators import pipeline
from gyrfalcon.threads import (
    blas_libraries,
    in_turn,
    one_thread_but_for_products,
    one_thread_each,
    threads_of_products,
    threads_to_share,
)


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def threads_of_a_new_thread():
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result(timeout=30)


@one_thread_each
def evaluate(began=None, end=None):
    if began is not None:
        began.set()
        assert end.wait(30)
    return torch.get_num_threads(), threads_to_share()


@pytest.mark.parametrize("first_out", [0, 1])
def test_overlapping_calls_leave_the_threads_as_they_were(first_out):
    began, end = ([threading.Event() for _ in range(2)] for _ in range(2))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        pools = one, other
        running = []
        for place, pool in enumerate(pools):
            running.append(pool.submit(evaluate, began[place], end[place]))
            assert began[place].wait(30)
        for place in (first_out, 1 - first_out):
            end[place].set()
            assert running[place].result(timeout=30) == (1, 3)
        assert [pool.submit(torch.get_num_threads).result(timeout=30) for pool in pools] == [3, 3]
    assert threads_of_a_new_thread() == 3


OVERLAPPING_CALLS = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from gyrfalcon.threads import blas_libraries, one_thread_each

def threads_of_blas():
    return [library["num_threads"] for library in blas_libraries().info()]

@one_thread_each
def evaluate(began, end):
    began.set()
    assert end.wait(30)

before = threads_of_blas()
began, end = ([threading.Event() for _ in range(2)] for _ in range(2))
seen = []
with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
    running = []
    for place, pool in enumerate((one, other)):
        running.append(pool.submit(evaluate, began[place], end[place]))
        assert began[place].wait(30)
    limited = threads_of_blas()
    first_out = int(sys.argv[1])
    for place in (first_out, 1 - first_out):
        end[place].set()
        running[place].result(timeout=30)
assert set(limited) == {1}, limited
assert threads_of_blas() == before, threads_of_blas()
"""


@pytest.mark.parametrize("first_out", ["0", "1"])
def test_overlapping_calls_leave_the_threads_of_blas_as_they_were(first_out):
    # In a process of its own: the tests' keeps BLAS to one thread, and only one thread of a process may change that.
    threads = dict.fromkeys(["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"], "2")
    command = [sys.executable, "-c", OVERLAPPING_CALLS, first_out]
    ended = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr


def test_a_call_within_a_call_and_an_error():
    @one_thread_each
    def outer():
        return evaluate(), evaluate()

    @one_thread_each
    def failing():
        raise ArithmeticError

    assert outer() == ((1, 3), (1, 3))
    assert (torch.get_num_threads(), threads_to_share()) == (3, 1)
    with pytest.raises(ArithmeticError):
        failing()
    assert torch.get_num_threads() == 3


def counts():
    return torch.get_num_threads(), threads_to_share(), threads_of_products()


def test_products_keep_their_threads_where_other_work_has_one():
    @one_thread_each
    def inner():
        return counts()

    with one_thread_but_for_products():
        assert counts() == (1, 1, 3)
        assert inner() == (1, 3, 1)
        assert counts() == (1, 1, 3)
    assert counts() == (3, 1, 3)


def test_a_fit_of_few_centers_waits_with_no_thread(monkeypatch):
    """BLAS has one thread in the solve, while products with K have those that there are."""
    seen = []
    solve = pipeline._solve

    def watched(*args):
        blas = {library["num_threads"] for library in blas_libraries().info()}
        seen.append((blas, *counts()))
        return solve(*args)

    monkeypatch.setattr(pipeline, "_solve", watched)
    X = np.random.default_rng(0).normal(size=(60, 2))
    gf.KernelRegressor("gaussian", penalty=1e-3, tune=None).fit(X, X[:, 0])
    assert seen == [({1}, 1, 1, 3)]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_made_in_turn_keeps_its_order_and_one_thread_each(workers):
    @one_thread_each
    def run():
        return list(in_turn(lambda item: (item, torch.get_num_threads()), range(5), workers))

    assert run() == [(item, 1) for item in range(5)]
    assert torch.get_num_threads() == 3


def test_an_error_of_a_worker_is_raised():
    with pytest.raises(ZeroDivisionError):
        list(in_turn(lambda item: 1 / item, [2, 0, 1], 2))
