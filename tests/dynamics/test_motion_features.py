"""Features of motions: the kernel they stand for, what they can learn, and files."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.dynamics import InverseDynamics, MotionFeatures


def _motions(n, joints=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3 * joints))


def test_inner_products_are_the_sum_of_kernels():
    X = _motions(60)
    scales, own, slow = np.array([3.0, 2.0, 5.0, 1.5]), np.array([1.0, 0.8, 4.0, 0.9]), np.array([0.2, 0.4])
    features = MotionFeatures(16_000, length_scale=scales, own_length_scale=own, slow=slow, random_state=0).fit(X)
    Z = features.transform(X)
    inputs = np.hstack([X, np.tanh(X[:, 2:4] / slow)])
    inputs /= inputs.std(0)
    gaps = inputs[:, None] - inputs
    together = np.exp(-np.square(gaps / np.repeat(scales, 2)).sum(2) / 2)
    alone = sum(np.exp(-np.square(gaps[:, :, joint::2] / own).sum(2) / 2) for joint in range(2))
    np.testing.assert_allclose(Z @ Z.T, together + alone, atol=0.1)  # about 1 / √1,000 of three kernels
    assert np.abs(Z @ Z.T - together - alone).mean() < 0.02


def test_friction_and_ripple_of_a_joint_transfer_to_other_motions_of_the_others():
    """The features of each joint alone know nothing of where the other joints are."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 6))
    there = rng.uniform(-1, 1, size=(500, 6))
    there[:, 1] += 6.0  # the second joint somewhere else

    def tau(X):
        return np.tanh(X[:, 2:3] / 0.1) + 0.5 * np.sin(4 * X[:, :1]) * [1.0, 0.0]

    parts = [X[:, place : place + 2] for place in (0, 2, 4)]
    other = [there[:, place : place + 2] for place in (0, 2, 4)]
    model = InverseDynamics(residual=MotionFeatures(400, random_state=0), residual_penalty=0.1).fit(*parts, tau(X))
    plain = InverseDynamics(residual=gf.RandomFeatures(n_features=400, length_scale=3.0, random_state=0))
    plain.fit(*parts, tau(X))
    error, plain_error = (np.sqrt(np.mean((m.predict(*other) - tau(there))[:, 0] ** 2)) for m in (model, plain))
    assert error < 0.75 * plain_error


def test_a_saved_model_goes_on_with_the_same_bits(tmp_path):
    X = _motions(300)
    parts = [X[:, place : place + 2] for place in (0, 2, 4)]
    features = MotionFeatures(64, slow=[0.1, 0.2], random_state=0)
    model = InverseDynamics(residual=features).fit(*parts, X[:, :2])
    model.save(tmp_path / "arm.safetensors")
    again = gf.load(tmp_path / "arm.safetensors")
    for one in (model, again):
        one.partial_fit(*(part[:50] for part in parts), X[:50, 2:4])
    assert (model.predict(*parts) == again.predict(*parts)).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_features": 3}, "n_features must be a whole number, at least 8"),
        ({"length_scale": (1.0, 2.0)}, "length_scale must be four positive numbers"),
        ({"own_length_scale": (1.0, 2.0, -1.0, 1.0)}, "own_length_scale must be four positive numbers"),
        ({"slow": 0.0}, "slow must be a positive velocity"),
    ],
)
def test_bad_settings_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        MotionFeatures(**options).fit(_motions(20))


def test_columns_must_be_three_for_each_joint():
    with pytest.raises(ValueError, match="q, dq and ddq of the same joints"):
        MotionFeatures().fit(np.zeros((5, 4)))
    with pytest.raises(ValueError, match="expecting 6 features"):
        MotionFeatures().fit(_motions(20)).transform(np.zeros((5, 3)))
