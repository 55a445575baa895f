"""Inverse dynamics against dense least squares, and on a simulated arm."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gyrfalcon as gf
from gyrfalcon.dynamics import InverseDynamics, RigidBody
from reference.recursive import forgotten, ridge


def _pendulums(q, dq, ddq):
    """Two of them: inertia, weight and friction of each."""
    out = np.zeros((len(q), 2, 6))
    for joint in range(2):
        out[:, joint, 3 * joint] = ddq[:, joint]
        out[:, joint, 3 * joint + 1] = np.sin(q[:, joint])
        out[:, joint, 3 * joint + 2] = dq[:, joint]
    return out


TRUTH = np.array([0.5, 2.0, 0.1, 0.05, 0.3, 0.02])


def _frames(n, seed=0, noise=0.01):
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.normal(size=(3, n, 2))
    tau = _pendulums(q, dq, ddq) @ TRUTH + 0.3 * np.cos(2 * q) * [1.0, 0.1] + noise * rng.normal(size=(n, 2))
    return q, dq, ddq, tau


def _features():
    return make_pipeline(StandardScaler(), gf.RandomFeatures(n_features=300, length_scale=2.0, random_state=0))


def _dense(frames, model, forgetting=1.0):
    """Parameters by weighted ridge regression, weights of the features by ridge regression on their residuals."""
    q, dq, ddq, tau = frames
    ages = forgotten(len(q), forgetting)
    phi, scaled = _pendulums(q, dq, ddq) / model.scale_[:, None], tau / model.scale_
    pi, _ = ridge(phi.reshape(-1, 6), scaled.reshape(-1), 1e-6, np.repeat(ages, 2), intercept=False)
    z = model.features_.transform(np.hstack([q, dq, ddq]))
    W, _ = ridge(z, scaled - phi @ pi[:, 0], 1e-2, ages, intercept=False)
    return pi[:, 0], W


@pytest.mark.parametrize("forgetting", [1.0, 0.995])
@pytest.mark.parametrize("size", [1, 13, 400])
def test_recursive_is_batch(size, forgetting):
    frames = _frames(400)
    features = _features().fit(np.hstack(frames[:3]))
    model = InverseDynamics(_pendulums, features, residual_penalty=1e-2, forgetting=forgetting, scale=[2.0, 0.5])
    for start in range(0, 400, size):
        model.partial_fit(*(part[start : start + size] for part in frames))
    pi, W = _dense(frames, model, forgetting)
    np.testing.assert_allclose(model.parameters_, pi, atol=1e-10)
    z = features.transform(np.hstack(frames[:3]))
    np.testing.assert_allclose(model.residual_torque(*frames[:3]), z @ W * model.scale_, atol=1e-9)
    expected = model.parametric_torque(*frames[:3]) + model.residual_torque(*frames[:3])
    np.testing.assert_allclose(model.predict(*frames[:3]), expected, atol=1e-10)


def test_features_explain_what_physics_does_not():
    frames, unseen = _frames(3000), _frames(500, 1)
    physics = InverseDynamics(_pendulums).fit(*frames)
    both = InverseDynamics(_pendulums, _features()).fit(*frames)
    alone = InverseDynamics(residual=_features()).fit(*frames)
    errors = [np.sqrt(np.mean((model.predict(*unseen[:3]) - unseen[3]) ** 2)) for model in (physics, both, alone)]
    assert errors[1] < 0.7 * errors[0]
    assert errors[1] < errors[2]
    mean, deviation = both.predict(*unseen[:3], return_std=True)
    inside = np.abs(mean - unseen[3]) < 2 * deviation
    assert 0.85 < inside.mean() <= 1
    assert both.predict(*(part[0] for part in unseen[:3])).shape == (2,)


def test_priors_hold_where_frames_say_nothing():
    q, dq, ddq, tau = _frames(200, noise=0.0)
    dq[:], tau = 0.0, _pendulums(q, 0 * dq, ddq) @ TRUTH
    prior = TRUTH + 0.3
    model = InverseDynamics(_pendulums, prior=prior).fit(q, dq, ddq, tau)
    assert model.identifiable_.tolist() == [True, True, False, True, True, False]
    assert model.n_identifiable_ == 4
    np.testing.assert_allclose(model.parameters_[[2, 5]], prior[[2, 5]])
    np.testing.assert_allclose(model.parameters_[[0, 1, 3, 4]], TRUTH[[0, 1, 3, 4]], atol=1e-6)
    assert (model.deviations_[[2, 5]] > 10 * model.deviations_[[0, 3]]).all()


def test_broken_and_frozen_frames_are_counted_and_left_out():
    frames = [part.copy() for part in _frames(100)]
    clean = InverseDynamics(_pendulums, scale=1.0).fit(*(np.delete(part, [5, 20, 50], axis=0) for part in frames))
    frames[0][5] = np.nan
    frames[3][50, 1] = np.inf
    for part in frames:
        part[20] = part[19]
    model = InverseDynamics(_pendulums, scale=1.0)
    for start in range(0, 100, 20):
        model.partial_fit(*(part[start : start + 20] for part in frames))
    assert (model.n_seen_, model.n_dropped_, model.n_frozen_) == (97, 2, 1)
    np.testing.assert_allclose(model.parameters_, clean.parameters_, atol=1e-12)
    with pytest.raises(ValueError, match="none of the first frames"):
        InverseDynamics(_pendulums).fit(*(part * np.nan for part in frames))


def test_files_go_on(tmp_path):
    frames = _frames(300)
    model = InverseDynamics(_pendulums, _features(), prior=TRUTH, forgetting=0.99).fit(*(part[:200] for part in frames))
    model.save(tmp_path / "arm.safetensors")
    again = gf.load(tmp_path / "arm.safetensors")
    with pytest.raises(ValueError, match="regressor is missing"):
        again.predict(*frames[:3])
    again.regressor = _pendulums
    for one in (model, again):
        one.partial_fit(*(part[200:] for part in frames))
    for first, second in zip(model.predict(*frames[:3], return_std=True), again.predict(*frames[:3], return_std=True),
                             strict=True):  # fmt: skip
        assert (first == second).all()


@pytest.mark.parametrize(
    "options",
    [
        {"regressor": None},
        {"penalty": 0.0},
        {"prior": np.zeros(3)},
        {"forgetting": 0.0},
        {"scale": "wide"},
        {"scale": -1.0},
        {"regressor": lambda q, dq, ddq: np.zeros((1, 2, 3))},
    ],
)
def test_what_does_not_fit_is_refused(options):
    with pytest.raises(ValueError, match=r"."):
        InverseDynamics(**{"regressor": _pendulums, **options}).fit(*_frames(20))
    model = InverseDynamics(_pendulums).fit(*_frames(20))
    for bad in (np.zeros((5, 3)), np.zeros((4, 2))):
        with pytest.raises(ValueError, match="same shape"):
            model.partial_fit(bad, np.zeros((5, 2)), np.zeros((5, 2)), np.zeros((5, 2)))


def _arm(**options):
    pinocchio = pytest.importorskip("pinocchio")
    return RigidBody(pinocchio.buildSampleModelManipulator(), **options)


def test_the_regressor_of_an_arm_is_its_inverse_dynamics():
    arm = _arm(friction=("viscous", "coulomb", "offset"), rotor_inertia=True)
    import pinocchio

    rng = np.random.default_rng(0)
    q, dq, ddq = rng.normal(size=(3, 20, 6))
    exact = [pinocchio.rnea(arm.model, arm.model.createData(), *row) for row in zip(q, dq, ddq, strict=True)]
    np.testing.assert_allclose(arm(q, dq, ddq) @ arm.parameters, exact, atol=1e-12)
    assert arm(q, dq, ddq).shape == (20, 6, 60 + 4 * 6) == (20, 6, len(arm.names))
    extra = np.zeros(84)
    extra[60:66], extra[66:72], extra[72:78], extra[78:] = 1, 2, 3, 4
    np.testing.assert_allclose(arm(q, dq, ddq) @ extra, dq + 2 * np.sign(dq) + 3 + 4 * ddq)
    with pytest.raises(ValueError, match="friction"):
        _arm(friction=("sticky",))


def test_an_arm_without_noise_is_found():
    arm = _arm()
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.normal(size=(3, 600, 6))
    tau = arm(q, dq, ddq) @ arm.parameters
    model = InverseDynamics(arm, penalty=1e-8)
    for start in range(0, 500, 50):
        rows = slice(start, start + 50)
        model.partial_fit(q[rows], dq[rows], ddq[rows], tau[rows])
    assert model.n_identifiable_ == 38
    error = model.predict(q[500:], dq[500:], ddq[500:]) - tau[500:]
    assert np.abs(error).max() < 1e-6
