"""Quantile regression by stochastic gradients, with noise that is skewed and grows."""

import numpy as np
from look import INK, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf

random = np.random.default_rng(0)
n = 300 if QUICK else 4_000
x = random.uniform(0, 10, size=n)
y = np.sin(x) + 0.15 * x * (random.exponential(size=n) - 0.7)

at = np.linspace(0, 10, 300)
levels = [0.05, 0.25, 0.5, 0.75, 0.95]
bands = []
for level in levels:
    model = gf.KernelRegressor(
        "gaussian",
        length_scale=1.0,
        loss=gf.losses.Quantile(level),
        n_centers=60,
        solver=gf.solvers.SGD(max_iterations=40),
        random_state=0,
    ).fit(x[:, None], y)
    bands.append(model.predict(at[:, None]))
    print(f"{(y < model.predict(x[:, None])).mean():.1%} of the rows lie below the quantile {level}")

pyplot.fill_between(at, bands[0], bands[4], color=ORANGE, alpha=0.15, linewidth=0, label="90 % band")
pyplot.fill_between(at, bands[1], bands[3], color=ORANGE, alpha=0.25, linewidth=0, label="50 % band")
pyplot.plot(at, bands[2], color=ORANGE, linewidth=2, label="median")
pyplot.plot(x[:800], y[:800], ".", color=INK, markersize=2, alpha=0.5)
pyplot.title("KernelRegressor(loss=gf.losses.Quantile(level)), five of them")
pyplot.legend(loc="upper left")
save(__file__)
