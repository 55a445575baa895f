"""Calls straight into the compiled core: whatever does not fit together is refused before any memory is touched."""

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon.kernels import Gaussian, Kernel
from gyrfalcon.losses import LOSSES, Squared
from gyrfalcon.matrix.native_engine import serves
from reference.cases import ABSOLUTE, DOT, RADIAL

native = pytest.importorskip("gyrfalcon._native")

MULTIPLY, TRANSPOSED, GRAM, EVALUATE = "multiply", "multiply_transposed", "multiply_gram", "evaluate"
LEAF, ADD, TIMES, SCALE = "leaf", "add", "multiply", "scale"


def _leaf(d=3, *, family="gaussian", gain=1.0, first=0.0, second=0.0, shift=None, scale=None, has_matrix=False, at=0):
    shift = [0.0] * d if shift is None else shift
    return (family, gain, first, second, shift, [1.0] * d if scale is None else scale, has_matrix, at)


def _call(task=MULTIPLY, dtype=np.float64, n=5, m=4, d=3, t=2, **changes):
    rows = n if task == TRANSPOSED else m
    shape = {MULTIPLY: (n, t), TRANSPOSED: (m, t), GRAM: (m, t), EVALUATE: (n, m)}.get(task, (n, t))
    given = {
        "task": task,
        "leaves": [_leaf(d)],
        "steps": [(LEAF, 0, 1.0)],
        "x": np.ones((n, d), dtype),
        "c": np.ones((m, d), dtype),
        "v": None if task == EVALUATE else np.ones((rows, t), dtype),
        "weights": None,
        "out": np.full(shape, np.nan, dtype),
        "sums": None,
        "threads": 2,
        "partial_bytes": 1 << 20,
    } | changes
    native.run(**given)
    return given["out"]


@pytest.mark.parametrize("task", [MULTIPLY, TRANSPOSED, GRAM, EVALUATE])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_native_takes_what_fits(task, dtype):
    assert (_call(task, dtype) == {MULTIPLY: 4, TRANSPOSED: 5, GRAM: 20, EVALUATE: 1}[task]).all()


@pytest.mark.parametrize("task", [TRANSPOSED, GRAM])
def test_native_sums_in_float64_on_request(task):
    sums = np.zeros((4, 2))
    _call(task, np.float32, out=None, sums=sums)
    assert (sums == (5 if task == TRANSPOSED else 20)).all()


ones = np.ones
REFUSED = {
    "unknown task": {"task": "divide"},
    "task by number": {"task": 0},
    "unknown family": {"leaves": [_leaf(family="quartic")]},
    "family by number": {"leaves": [_leaf(family=0)]},
    "gain is NaN": {"leaves": [_leaf(gain=np.nan)]},
    "constant is infinite": {"leaves": [_leaf(first=np.inf)]},
    "short shift": {"leaves": [_leaf(shift=[0.0])]},
    "long shift": {"leaves": [_leaf(shift=[0.0] * 4)]},
    "columns beyond the last": {"leaves": [_leaf(2, at=2)]},
    "first column beyond the last": {"leaves": [_leaf(0, at=4)]},
    "first column that is huge": {"leaves": [_leaf(3, at=2**64 - 2)]},
    "short scale": {"leaves": [_leaf(scale=[1.0])]},
    "matrix of a part of a row": {"leaves": [_leaf(scale=[1.0] * 4, has_matrix=True)]},
    "half a leaf": {"leaves": [("gaussian", 1.0)]},
    "no leaf": {"leaves": []},
    "no steps": {"steps": []},
    "unknown operation": {"steps": [(LEAF, 0, 1.0), ("divide", 0, 1.0)]},
    "leaf that is not there": {"steps": [(LEAF, 1, 1.0)]},
    "negative leaf": {"steps": [(LEAF, -1, 1.0)]},
    "sum of one": {"steps": [(LEAF, 0, 1.0), (ADD, 0, 1.0)]},
    "product of none": {"steps": [(TIMES, 0, 1.0)]},
    "scaling of none": {"steps": [(SCALE, 0, 2.0)]},
    "two left over": {"steps": [(LEAF, 0, 1.0), (LEAF, 0, 1.0)]},
    "C too narrow": {"c": ones((4, 2))},
    "C of another type": {"c": ones((4, 3), np.float32)},
    "C of one dimension": {"c": ones(3)},
    "X of three dimensions": {"x": ones((5, 3, 1))},
    "X of integers": {"x": ones((5, 3), int)},
    "X is a list": {"x": [[1.0, 2.0, 3.0]]},
    "X is nothing": {"x": None},
    "V missing": {"v": None},
    "V too short": {"v": ones((3, 2))},
    "V of another type": {"v": ones((4, 2), np.float32)},
    "V of one dimension": {"v": ones(4)},
    "out too short": {"out": ones((4, 2))},
    "out too wide": {"out": ones((5, 3))},
    "out too narrow": {"out": ones((5, 1))},
    "out of another type": {"out": ones((5, 2), np.float32)},
    "out is nothing": {"out": None},
    "weights too short": {"task": GRAM, "out": ones((4, 2)), "weights": ones((4, 1))},
    "weights too wide": {"task": GRAM, "out": ones((4, 2)), "weights": ones((5, 2))},
    "weights of one dimension": {"task": GRAM, "out": ones((4, 2)), "weights": ones(5)},
    "negative memory": {"partial_bytes": -1},
    "threads by name": {"threads": "all"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_native_refuses(case):
    with pytest.raises((ValueError, TypeError)):
        _call(**REFUSED[case])


def test_native_refuses_to_write_what_is_read_only():
    out = np.zeros((5, 2))
    out.flags.writeable = False
    with pytest.raises((ValueError, TypeError)):
        _call(out=out)
    assert (out == 0).all()


@pytest.mark.parametrize("threads", [-3, 0, 1, 7, 10**6])
@pytest.mark.parametrize("task", [MULTIPLY, TRANSPOSED, GRAM, EVALUATE])
def test_native_takes_any_number_of_threads(task, threads):
    assert np.isfinite(_call(task, n=100, threads=threads)).all()


@pytest.mark.parametrize("partial_bytes", [0, 1, 2**62])
@pytest.mark.parametrize("task", [TRANSPOSED, GRAM])
def test_native_takes_any_memory(task, partial_bytes):
    assert np.isfinite(_call(task, n=2000, partial_bytes=partial_bytes)).all()


def test_native_writes_through_any_strides():
    store = np.full((15, 8), -1.0)
    _call(out=store[::3, 1::4][::-1])
    assert (store[::3, 1::4] == 4).all()
    assert (store == -1).sum() == 15 * 8 - 10


def test_native_matrix_of_no_rows_or_no_inputs():
    assert (_call(leaves=[_leaf(scale=[], has_matrix=True)]) == 4).all()
    with pytest.raises((ValueError, TypeError)):
        _call(d=0, leaves=[_leaf(0, scale=[], has_matrix=True)])
    assert (_call(d=0, leaves=[_leaf(0)]) == 4).all()
    assert (_call(d=0, leaves=[_leaf(0)], x=torch.empty(5, 0).double(), c=torch.empty(4, 0).double()) == 4).all()


def test_native_long_expressions():
    steps = [(LEAF, 0, 1.0)] * 200 + [(ADD, 0, 1.0)] * 199
    assert (_call(EVALUATE, steps=steps) == 200).all()


def test_native_values_beyond_the_type_stay_in_their_entries():
    out = _call(
        EVALUATE,
        leaves=[_leaf(family="linear")],
        x=np.array([[1e308] * 3, [1.0] * 3] + [[0.0] * 3] * 3),
        c=np.ones((4, 3)),
    )
    assert np.isposinf(out[0]).all()
    assert np.isfinite(out[1:]).all()


def _gradient(dtype=np.float64, n=5, m=4, d=3, t=2, **changes):
    given = {
        "leaf": _leaf(d),
        "x": np.ones((n, d), dtype),
        "c": np.zeros((m, d), dtype),
        "left": np.ones((n, t), dtype),
        "right": np.ones((m, t), dtype),
        "in_centers": np.full((m, d), np.nan),
        "in_scales": np.full((1, d), np.nan),
        "threads": 2,
        "partial_bytes": 1 << 20,
    } | changes
    return native.run_gradient(**given), given["in_centers"], given["in_scales"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [3, 6])
def test_native_gradient_takes_what_fits(dtype, d):
    slope = -np.log(2) * 2.0**-d
    for changes in ({}, {"left": np.full((5, 4), 2, dtype), "right": None}):
        total, in_centers, in_scales = _gradient(dtype, d=d, **changes)
        np.testing.assert_allclose(total, 2 * 20 * slope * d, rtol=1e-6)
        np.testing.assert_allclose(in_centers, np.full((4, d), 2 * 5 * slope), rtol=1e-6)
        np.testing.assert_allclose(in_scales, np.full((1, d), 2 * 20 * slope), rtol=1e-6)
    assert _gradient(dtype, d=d, in_centers=None, in_scales=None)[0] == pytest.approx(2 * 20 * slope * d, rel=1e-6)


GRADIENTS_REFUSED = {
    "family without a slope": {"leaf": _leaf(family="cauchy")},
    "family of inner products": {"leaf": _leaf(family="linear")},
    "unknown family": {"leaf": _leaf(family="quartic")},
    "gain is NaN": {"leaf": _leaf(gain=np.nan)},
    "short shift": {"leaf": _leaf(shift=[0.0])},
    "short scale": {"leaf": _leaf(scale=[1.0])},
    "C too narrow": {"c": ones((4, 2))},
    "C of another type": {"c": ones((4, 3), np.float32)},
    "left too short": {"left": ones((4, 2))},
    "left too narrow": {"left": ones((5, 1))},
    "left of another type": {"left": ones((5, 2), np.float32)},
    "left of one dimension": {"left": ones(5)},
    "left is nothing": {"left": None},
    "right too short": {"right": ones((3, 2))},
    "right too wide": {"right": ones((4, 3))},
    "dense weights too narrow": {"left": ones((5, 3)), "right": None},
    "sums of centers too short": {"in_centers": ones((3, 3))},
    "sums of centers too wide": {"in_centers": ones((4, 4))},
    "sums of centers of another type": {"in_centers": ones((4, 3), np.float32)},
    "sums of scales too narrow": {"in_scales": ones((1, 2))},
    "sums of scales too long": {"in_scales": ones((2, 3))},
    "negative memory": {"partial_bytes": -1},
}


@pytest.mark.parametrize("case", GRADIENTS_REFUSED)
def test_native_gradient_refuses(case):
    with pytest.raises((ValueError, TypeError)):
        _gradient(**GRADIENTS_REFUSED[case])


@pytest.mark.parametrize(("n", "m", "d", "t"), [(0, 4, 3, 2), (5, 0, 3, 2), (5, 4, 0, 2), (5, 4, 3, 0)])
def test_native_gradient_of_nothing_is_zero(n, m, d, t):
    total, in_centers, in_scales = _gradient(n=n, m=m, d=d, t=t)
    assert total == 0
    assert (in_centers == 0).all()
    assert (in_scales == 0).all()


@pytest.mark.parametrize("threads", [-3, 0, 1, 7, 10**6])
@pytest.mark.parametrize("partial_bytes", [0, 1, 2**62])
def test_native_gradient_takes_any_threads_and_memory(threads, partial_bytes):
    for part in _gradient(n=2000, d=6, threads=threads, partial_bytes=partial_bytes):
        assert np.isfinite(part).all()


def test_native_gradient_in_mapped_coordinates():
    leaf = _leaf(3, scale=[1.0, 0.0, 0.0, 1.0, 0.0, 0.0], has_matrix=True)
    _, in_centers, _ = _gradient(leaf=leaf, in_centers=np.full((4, 2), np.nan), in_scales=np.full((1, 2), np.nan))
    np.testing.assert_allclose(in_centers, np.full((4, 2), 2 * 5 * -np.log(2) / 4))


def test_native_names_are_those_that_kernels_and_losses_give():
    families = native.families()
    arguments = {"squared_distance": RADIAL, "absolute_distance": ABSOLUTE, "inner_product": DOT}
    for argument, makers in arguments.items():
        for make in makers.values():
            assert families[make(1.0).native().family]["argument"] == argument
    assert {name for name, told in families.items() if told["differentiable"]} >= {"gaussian", "laplacian", "matern32"}
    assert {name for loss in LOSSES.values() if (name := loss.native_name()) is not None} == set(native.losses())


def test_native_serves_no_subclass_that_does_not_say_so():
    class Quartic(Gaussian):
        def profile(self, squared):
            return (-squared.square()).exp()

    class Cubed(Squared):
        def slope(self, u):
            return 3 * u.square()

    assert serves(Gaussian())
    assert not serves(Quartic())
    assert not serves(Gaussian() + 2.0 * Quartic())
    assert Cubed().native_name() is None
    assert gf.KernelMatrix(Quartic(), np.array([[0.0]]), np.array([[1.0]])).to_dense() == pytest.approx(np.exp(-1))
    del Kernel.registry["Quartic"]
