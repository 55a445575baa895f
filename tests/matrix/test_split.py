"""Rows shared by several devices: what conformance does not see."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon import data
from gyrfalcon.kernels import Gaussian
from gyrfalcon.matrix import native_engine
from reference import DTYPES, TOLERANCE, Comparison, dense, relative_error

KERNEL = Gaussian(1.5)


def _points(n, d=3, dtype=np.float64, seed=0):
    return (1 + np.random.default_rng([n, d, seed]).standard_normal((n, d))).astype(dtype)


@pytest.mark.usefixtures("one_thread")
@settings(derandomize=True, deadline=None, max_examples=25, database=None)
@given(
    n=st.integers(0, 60),
    m=st.integers(1, 20),
    devices=st.integers(1, 5),
    dtype=st.sampled_from(DTYPES),
    engine=st.sampled_from([None, "torch"]),
)
def test_any_number_of_devices_agrees_with_one(n, m, devices, dtype, engine):
    X, C = _points(n, 3, dtype), _points(m, 3, dtype, 1)
    K = gf.KernelMatrix(KERNEL, X, C, devices=["cpu"] * devices, engine=engine)
    compared = Comparison(K, dense(KERNEL, X, C), TOLERANCE[dtype])
    compared.products(2)
    compared.grams()
    compared.entries()
    assert not compared.missed


def test_the_same_to_the_bit_from_run_to_run():
    X = _points(3000, 5, np.float32)
    K = gf.KernelMatrix(KERNEL, X, X[:50], devices=["cpu", "cpu"])
    V = np.ones((50, 2), np.float32)
    first = K @ V, K.gram_mv(V), K.T @ (K @ V), K.gram()
    for _ in range(5):
        for found, expected in zip((K @ V, K.gram_mv(V), K.T @ (K @ V), K.gram()), first, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_each_device_works_in_a_thread_of_its_own_at_the_same_time(monkeypatch):
    """Every share waits until all have begun: one after the other they would wait for ever."""
    begun, run = threading.Barrier(3, timeout=20), native_engine.NativeEngine._run

    def meet(engine, *args):
        begun.wait()
        assert engine.threads == max(1, torch.get_num_threads() // 3)
        return run(engine, *args)

    monkeypatch.setattr(native_engine.NativeEngine, "_run", meet)
    X = _points(30)
    K = gf.KernelMatrix(KERNEL, X, X[:4], devices=["cpu"] * 3)
    assert relative_error(K @ np.ones(4), dense(KERNEL, X, X[:4]).sum(1)) <= TOLERANCE[np.float64]


def test_streamed_and_sparse_rows_are_shared_too():
    X = _points(100)
    C = X[:7]
    for points in (data.open(X, dtype=np.float64).X, sparse.csr_array(X), torch.from_numpy(X)):
        K = gf.KernelMatrix(KERNEL, points, C, devices=["cpu", "cpu"])
        assert K.engine == "split"
        assert relative_error(K @ np.ones(7), dense(KERNEL, X, C).sum(1)) <= TOLERANCE[np.float64]
        assert relative_error(K.widened() @ np.ones(7), dense(KERNEL, X, C).sum(1)) <= TOLERANCE[np.float64]


def test_gradients():
    X, C = _points(40), _points(5, seed=1)
    left, right = np.ones((40, 1)), np.ones((5, 1))
    expected = gf.KernelMatrix(KERNEL, X, C).gradients(left, right, wanted=("C", "parameters"))
    for points in (X, data.open(X, dtype=np.float64).X):
        K = gf.KernelMatrix(KERNEL, points, C, devices=["cpu", "cpu"])
        found = K.gradients(left, right, wanted=("C", "parameters"))
        assert relative_error(found.C, expected.C.numpy()) <= 10 * TOLERANCE[np.float64]
        scale = "length_scale"
        assert relative_error(found.parameters[scale], expected.parameters[scale].numpy()) <= 10 * TOLERANCE[np.float64]


def test_an_error_on_one_device_surfaces():
    X = _points(100)
    X[80, 2] = np.inf
    K = gf.KernelMatrix(KERNEL, data.open(X, dtype=np.float64).X, X[:7], devices=["cpu", "cpu"])
    with pytest.raises(ValueError, match="row 80, column 2 is inf"):
        K @ np.ones(7)


def test_gradients_of_parameters_do_not_end_up_on_the_record():
    X = _points(20)
    scale = torch.tensor(1.2, dtype=torch.float64, requires_grad=True)
    K = gf.KernelMatrix(Gaussian(scale), X, X[:4], devices=["cpu", "cpu"], engine="torch")
    with torch.no_grad():
        assert not (K @ np.ones(4)).requires_grad
    (K @ np.ones(4)).sum().backward()
    expected = scale.grad.clone()
    scale.grad = None
    (gf.KernelMatrix(Gaussian(scale), X, X[:4]) @ np.ones(4)).sum().backward()
    torch.testing.assert_close(scale.grad, expected)


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ([], "must be a list of names"),
        ("cpu", "must be a list of names"),
        (["gpu"], "names that PyTorch knows"),
        ([f"cuda:{torch.cuda.device_count()}"], "there is no"),
    ],
)
def test_misuse(devices, words):
    with pytest.raises(ValueError, match=words):
        gf.KernelMatrix(KERNEL, _points(9), devices=devices)


def test_plan():
    plan = gf.KernelMatrix(KERNEL, _points(9), devices=["cpu", "cpu"]).plan()
    assert (plan.engine, plan.reason) == ("split", "rows shared by cpu, cpu")
