"""Error bars that grow where there are no data."""

import numpy as np
from look import GRAY, INK, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf


def truth(x):
    return np.sin(1.7 * x) + 0.7 * np.sin(3.1 * x + 1)


random = np.random.default_rng(3)
n = 60 if QUICK else 150
x = np.concatenate([random.uniform(0, 5.4, 2 * n // 3), random.uniform(7.2, 10, n // 3)])
y = truth(x) + 0.25 * random.normal(size=len(x))

model = gf.KernelRegressor(random_state=0).fit(x[:, None], y)
at = np.linspace(-0.3, 10.3, 400)
mean, std = model.predict(at[:, None], return_std=True)

for width, alpha in ((1.96, 0.15), (1.0, 0.2)):
    pyplot.fill_between(at, mean - width * std, mean + width * std, color=ORANGE, alpha=alpha, linewidth=0)
pyplot.plot(at, truth(at), "--", color=GRAY, linewidth=1, label="truth")
pyplot.plot(at, mean, color=ORANGE, linewidth=2, label="mean, one and two standard deviations")
pyplot.plot(x, y, "o", color=INK, markersize=2.5)
pyplot.title("KernelRegressor().fit(X, y) with default settings")
pyplot.legend(loc="lower left", ncols=2)
pyplot.ylim(-3.4, 2.6)
save(__file__)

inside = np.abs(truth(at) - mean) < 1.96 * std
print(f"the truth is within two deviations at {inside.mean():.0%} of the points")
