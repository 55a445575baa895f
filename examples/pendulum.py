"""A pendulum that is pushed: its lifted dynamics are learned from short runs, and a regulator holds it upright."""

import numpy as np
from look import BLUE, GRAY, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf

DT = 0.05


def step(x, u):
    """Gravity pulls away from the upright position, angle 0."""
    rate = x[..., 1] + DT * (3 * np.sin(x[..., 0]) - 0.1 * x[..., 1] + u)
    return np.stack([x[..., 0] + DT * rate, rate], -1)


random = np.random.default_rng(0)
runs, inputs = [], []
for _ in range(100 if QUICK else 300):
    x, u = [random.uniform(-1.2, 1.2, size=2)], random.uniform(-4, 4, size=(15, 1))
    for push in u[:-1, 0]:
        x.append(step(x[-1], push))
    runs.append(np.array(x))
    inputs.append(u)
model = gf.dynamics.Koopman("rrr", length_scale=6.0, rank=3, penalty=1e-8, n_centers=100, random_state=0)
model.fit(runs[::2], inputs=inputs[::2])
errors = model.errors(runs[1::2], [1, 5, 10], inputs=inputs[1::2])
print(errors)
regulator = model.lqr(np.diag([10.0, 1.0]), np.eye(1), target=np.zeros(2))
held, free = [np.array([0.7, 0.0])], [np.array([0.7, 0.0])]
pushes = []
for _ in range(120):
    pushes.append(float(np.clip(regulator(held[-1][None])[0, 0], -4, 4)))
    held.append(step(held[-1], pushes[-1]))
    free.append(step(free[-1], 0.0))
print("angle at the end", round(float(held[-1][0]), 4), "without the regulator", round(float(free[-1][0]), 2))
_, (left, right) = pyplot.subplots(1, 2, figsize=(9.0, 3.3))
time = DT * np.arange(len(held))
left.plot(time, [x[0] for x in free], color=GRAY, label="left alone")
left.plot(time, [x[0] for x in held], color=ORANGE, label="lqr(Q, R)")
left.set_xlabel("time")
left.set_ylabel("angle")
left.legend(fontsize=9)
right.step(time[:-1], pushes, color=BLUE)
right.set_xlabel("time")
right.set_ylabel("push")
save(__file__)
