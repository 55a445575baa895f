"""Kernels as values: what they are equal to, how they print and travel, what they are made of, what they claim."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
import torch

from gyrfalcon import kernels
from gyrfalcon.kernels import Gaussian, Kernel, Linear, Mapped, Matern, Polynomial, Scaled, Sigmoid
from reference import KERNELS, dense, relative_error

every_kernel = pytest.mark.parametrize("name", KERNELS)


def _kernel(name, d=3):
    return KERNELS[name](d, 1.0, 1.0)


def _points(n, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


# Value semantics.


@every_kernel
def test_cannot_be_changed(name):
    kernel = _kernel(name)
    for field in dataclasses.fields(kernel):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(kernel, field.name, 2.0)


def test_arrays_given_as_parameters_are_copied():
    scales, matrix = np.ones(3), np.ones((2, 3))
    kernel = Mapped(Gaussian(), matrix)
    other = Gaussian(scales)
    scales[:], matrix[:] = 5, 5
    assert other == Gaussian([1.0, 1.0, 1.0])
    assert kernel == Mapped(Gaussian(), np.ones((2, 3)))


@every_kernel
def test_equal_and_hashed_by_value(name):
    assert _kernel(name) == _kernel(name)
    assert hash(_kernel(name)) == hash(_kernel(name))
    assert len({_kernel(name), _kernel(name), Gaussian(123.0)}) == 2


def test_different_kernels_differ():
    together = [_kernel(name) for name in KERNELS] + [Gaussian(2), 2 * Gaussian(2), Mapped(Gaussian(2), np.eye(3))]
    for i, one in enumerate(together):
        for other in together[:i]:
            assert one != other
    assert Gaussian(1.0) != "gaussian"
    assert Gaussian(1.0) != None  # noqa: E711
    assert Matern(1.0, nu=0.5) != kernels.Laplacian(1.0)


def test_numbers_and_tensors_of_the_same_value_are_equal():
    assert Gaussian(2) == Gaussian(2.0) == Gaussian(np.float32(2)) == Gaussian(torch.tensor(2.0))
    assert (
        Gaussian([1, 2]) == Gaussian((1.0, 2.0)) == Gaussian(np.array([1.0, 2.0])) == Gaussian(torch.tensor([1.0, 2.0]))
    )


@every_kernel
def test_prints_shortly(name):
    assert len(repr(_kernel(name, 784))) < 600
    assert len(repr(Gaussian(np.linspace(1, 2, 784)))) < 120
    assert "\n" not in repr(_kernel(name, 784))


def test_prints_what_it_is():
    assert repr(Gaussian(0.5)) == "Gaussian(length_scale=0.5)"
    assert repr(Matern([1, 2], nu=2.5)) == "Matern(length_scale=[1., 2.], nu=2.5)"
    assert repr(2 * Linear()) == "Scaled(kernel=Linear(length_scale=1), scale=2)"


@every_kernel
def test_survives_json(name):
    kernel = _kernel(name)
    restored = Kernel.from_dict(json.loads(json.dumps(kernel.to_dict())))
    assert type(restored) is type(kernel)
    assert restored == kernel
    X = _points(4)
    np.testing.assert_array_equal(restored(X), kernel(X))


@pytest.mark.parametrize(
    "kernel",
    [
        Polynomial(degree=np.int64(2)),
        Matern(nu=np.float32(1.5)),
        Gaussian(np.float32(0.1)),
        Gaussian(torch.tensor([0.5, 2.0], requires_grad=True)),
        kernels.ExponentialPower(power=torch.tensor(1.5)),
        Scaled(Scaled(Gaussian(), 2.0), 3.0),
        Mapped(2.0 * Gaussian() + Linear(), [[1.0, 2.0]]),
    ],
    ids=repr,
)
def test_unusual_parameters_survive_json(kernel):
    assert Kernel.from_dict(json.loads(json.dumps(kernel.to_dict()))) == kernel
    assert hash(kernel) == hash(kernel)


@every_kernel
def test_survives_pickle(name):
    assert pickle.loads(pickle.dumps(_kernel(name))) == _kernel(name)


def test_descriptions_that_are_not():
    for bad in ({"type": "Gauss"}, {}, {"type": None}, {"type": "Kernel"}, {"type": "Function"}, {"type": [1]}):
        with pytest.raises((ValueError, TypeError)):
            Kernel.from_dict(bad)
    with pytest.raises(ValueError, match="sigma"):
        Kernel.from_dict({"type": "Gaussian", "sigma": 1.0})
    with pytest.raises(ValueError, match="length_scale"):
        Kernel.from_dict({"type": "Gaussian", "length_scale": -1.0})


# Parameters.


@every_kernel
def test_parameters_can_be_replaced(name):
    kernel = _kernel(name)
    values = {key: np.asarray(value) * 1.5 for key, value in kernel.parameters().items()}
    assert values
    changed = kernel.with_parameters(values)
    assert changed != kernel
    for key, value in changed.parameters().items():
        np.testing.assert_array_equal(np.asarray(value), values[key])
    assert changed.with_parameters(kernel.parameters()) == kernel
    assert kernel.with_parameters({}) == kernel


def test_names_of_parameters():
    kernel = 0.5 * (Gaussian(2.0) + Mapped(Polynomial(3.0, offset=0.0), [[1.0]])) * kernels.RationalQuadratic(1.0, 4.0)
    assert list(kernel.parameters()) == [
        "left.kernel.left.length_scale",
        "left.kernel.right.kernel.length_scale",
        "left.kernel.right.kernel.offset",
        "left.kernel.right.matrix",
        "left.scale",
        "right.length_scale",
        "right.alpha",
    ]
    changed = kernel.with_parameters({"left.kernel.right.kernel.offset": 7.0})
    assert changed.left.kernel.right.kernel.offset == 7.0
    assert kernel.left.kernel.right.kernel.offset == 0.0


@pytest.mark.parametrize("name", ["sigma", "left.length_scale", "nu", "length_scale.x"])
def test_unknown_parameters_are_refused(name):
    with pytest.raises(ValueError, match=name):
        Matern(1.0).with_parameters({name: 1.0})


def test_replaced_parameters_are_checked():
    with pytest.raises(ValueError, match="length_scale"):
        Gaussian().with_parameters({"length_scale": 0.0})


# Values.


@every_kernel
def test_dense_values(name):
    kernel, X, C = _kernel(name), _points(9), _points(4, seed=1)
    expected = dense(kernel, X, C)
    assert relative_error(kernel(X, C), expected) <= 1e-13
    assert relative_error(kernel(X), dense(kernel, X, X)) <= 1e-13
    assert isinstance(kernel(X), np.ndarray)
    assert isinstance(kernel(torch.from_numpy(X), C), torch.Tensor)
    assert kernel(X.astype(np.float32)).dtype == np.float32


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_diagonal(name, dtype):
    kernel, X = _kernel(name), torch.from_numpy(_points(9)).to(dtype)
    found = kernel.diagonal(X)
    assert found.dtype == dtype
    assert relative_error(found, dense(kernel, X, X).diagonal()) <= (2e-6 if dtype is torch.float32 else 1e-13)
    assert kernel.diagonal(X[:0]).shape == (0,)


def test_algebra():
    X, a, b = _points(5), Gaussian(2.0), Linear(3.0)
    for kernel, expected in (
        (a + b, a(X) + b(X)),
        (a * b, a(X) * b(X)),
        (2 * a, 2 * a(X)),
        (a * 2.5, 2.5 * a(X)),
        (np.float64(2) * a, 2 * a(X)),
        (torch.tensor(2.0) * a, 2 * a(X)),
        (a + b * 2 + a * a, a(X) + 2 * b(X) + a(X) ** 2),
        (Mapped(a, 2 * np.eye(3)), a(2 * X)),
        (Mapped(Mapped(a, [[1.0, 2.0]]), np.eye(2, 3)), a(X[:, :2] @ [[1.0], [2.0]])),
        (Mapped(a + 2 * b, np.ones((1, 3))), (a + 2 * b)(X.sum(1, keepdims=True))),
    ):
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-12, err_msg=repr(kernel))


@pytest.mark.parametrize("other", ["rbf", None, [1.0], 1j])
def test_algebra_with_something_else(other):
    with pytest.raises(TypeError):
        Gaussian() + other
    with pytest.raises(TypeError):
        Gaussian() * other


@every_kernel
@pytest.mark.parametrize("d", [1, 4])
def test_positive_definite_as_claimed(name, d):
    kernel = _kernel(name, d)
    for seed in range(3):
        X = _points(60, d, seed) * 3
        eigenvalues = np.linalg.eigvalsh(dense(kernel, X, X))
        if kernel.positive_definite:
            assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]


def test_claims():
    assert all(
        _kernel(name).positive_definite for name in ("gaussian", "polynomial", "sum", "product", "mapped", "nested")
    )
    for kernel in (
        Sigmoid(),
        Polynomial(offset=-1.0),
        -1.0 * Gaussian(),
        Gaussian() + Sigmoid(),
        Mapped(Sigmoid(), [[1.0]]),
    ):
        assert not kernel.positive_definite


def test_sigmoid_is_not_positive_definite():
    X = _points(60, 2) * 2
    eigenvalues = np.linalg.eigvalsh(dense(Sigmoid(offset=-1.0), X, X))
    assert eigenvalues[0] < -1e-3 * eigenvalues[-1]
