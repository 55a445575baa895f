"""Evaluations that run at the same time leave PyTorch's threads as they were."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from gyrfalcon.threads import one_thread_each, threads_to_share


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
