"""A particle in three wells: slow eigenfunctions, metastable states, and time scales at several lags with bands."""

import numpy as np
from look import BLUE, GRAY, GREEN, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf


def potential(x):
    return 2 * (1 - np.cos(1.5 * np.pi * x)) + 80 * np.maximum(np.abs(x) - 1.6, 0) ** 2


def sample(runs, frames, every, step=0.002):
    """Langevin dynamics, dx = -V'(x) dt + √2 dW, of many particles at once."""
    random = np.random.default_rng(0)
    x, out = random.uniform(-1.5, 1.5, runs), []
    for t in range(frames * every):
        slope = (potential(x + 1e-5) - potential(x - 1e-5)) / 2e-5
        x = x - slope * step + np.sqrt(2 * step) * random.normal(size=runs)
        if t % every == 0:
            out.append(x)
    return list(np.array(out).T[:, :, None])


runs = sample(runs=40 if QUICK else 300, frames=200 if QUICK else 500, every=50)
dt = 0.1
model = gf.dynamics.Koopman("rrr", length_scale=0.3, n_centers=100, rank=6, lag=2, random_state=0).fit(runs)
print("eigenvalues", model.eigenvalues_[:4].round(3), "time scales", model.timescales(dt, count=3).round(1))
x = np.linspace(-1.8, 1.8, 300)[:, None]
frames = np.concatenate(runs)
found = gf.dynamics.states(model.eigenfunctions(frames), n_states=3)

_, (left, middle, right) = pyplot.subplots(1, 3, figsize=(10.5, 3.4))
left.plot(x, potential(x) / 4 - 2, color=GRAY, linewidth=1, label="potential")
for place, color in ((1, ORANGE), (2, BLUE)):
    phi = model.eigenfunctions(x)[:, place].real
    left.plot(x, phi / np.abs(phi).max(), color=color, label=f"λ = {model.eigenvalues_[place].real:.3f}")
left.set_ylim(-2.1, 2)
left.legend(fontsize=8)
left.set_title("eigenfunctions")
order = np.argsort(frames[:, 0])[:: max(1, len(frames) // 2000)]
for column, color in zip(found.memberships.T, (ORANGE, BLUE, GREEN), strict=True):
    middle.plot(frames[order, 0], column[order], color=color)
middle.set_title("memberships in three states")
scales = gf.dynamics.implied_timescales(
    runs, [1, 2, 5, 10, 20], dt=dt, model=model, count=2, bootstrap=10 if QUICK else 50, random_state=0
)
scales.plot(right)
right.set_title("implied time scales")
save(__file__)
