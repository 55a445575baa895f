"""Inverse dynamics of an arm with two links: physics, features, and both, where the arm has not been before."""

import numpy as np
from look import BLUE, GRAY, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf


def two_links(q, dq, ddq):
    """The regressor of a planar arm with links of one meter: inertias, coupling, weights and viscous friction."""
    (q1, q2), (v1, v2), (a1, a2) = q.T, dq.T, ddq.T
    zero = np.zeros_like(q1)
    coupling = np.cos(q2) * (2 * a1 + a2) - np.sin(q2) * (v2**2 + 2 * v1 * v2)
    first = [a1, a1 + a2, coupling, np.cos(q1), np.cos(q1 + q2), v1, zero]
    second = [zero, a1 + a2, np.cos(q2) * a1 + np.sin(q2) * v1**2, zero, np.cos(q1 + q2), zero, v2]
    return np.stack([np.stack(first, 1), np.stack(second, 1)], 1)


def frames(count, center, seed):
    """A motion around a posture, and the torques of an arm whose friction is not only viscous."""
    random = np.random.default_rng(seed)
    t = np.arange(count)[:, None] * 0.05
    rates, phases = random.uniform(0.5, 1.5, size=(2, 2)), random.uniform(0, 6, size=(2, 2))
    q = center + sum(0.6 * np.sin(rates[k] * t * (1 + k) + phases[k]) for k in range(2))
    dq, ddq = (np.gradient(q, 0.05, axis=0), np.gradient(np.gradient(q, 0.05, axis=0), 0.05, axis=0))
    torque = two_links(q, dq, ddq) @ [1.5, 0.6, 0.4, 9.0, 4.0, 0.5, 0.3]
    torque += [3.0, 1.5] * np.tanh(4 * dq) + [1.0, 0.5] * np.sin(2 * q)
    return q, dq, ddq, torque + 0.05 * random.normal(size=q.shape)


def residual():
    return gf.dynamics.MotionFeatures(500, slow=0.2, random_state=0)


models = {
    "physics": (gf.dynamics.InverseDynamics(two_links), GRAY),
    "features": (gf.dynamics.InverseDynamics(residual=residual()), BLUE),
    "both": (gf.dynamics.InverseDynamics(two_links, residual()), ORANGE),
}
here, there = frames(600 if QUICK else 4000, [0.3, 0.8], 0), frames(300 if QUICK else 1500, [-0.9, 1.6], 1)
_, ax = pyplot.subplots()
for name, (model, color) in models.items():
    model.fit(*here)
    errors = []
    for start in range(0, len(there[0]), 5):
        now = [part[start : start + 5] for part in there]
        errors.append(np.mean((model.predict(*now[:3]) - now[3]) ** 2))
        model.partial_fit(*now)
    smooth = np.sqrt(np.convolve(errors, np.ones(20) / 20, mode="valid"))
    ax.plot(5 * np.arange(19, len(errors)), smooth, color=color, label=name)
    print(f"{name}: {np.sqrt(np.mean(errors[:20])):.2f} Nm at first, {np.sqrt(np.mean(errors[-60:])):.2f} Nm at last")
ax.set_yscale("log")
ax.set_xlabel("frames in the new posture")
ax.set_ylabel("error of the torque, Nm")
ax.legend(fontsize=9)
ax.set_title("InverseDynamics(regressor, residual): predict, then learn")
save(__file__)
