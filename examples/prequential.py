"""A machine that changes while it is learned: every batch is predicted before it is learned from."""

import numpy as np
from look import BLUE, GRAY, GREEN, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf

rows = 4_000 if QUICK else 20_000
random = np.random.default_rng(0)
X = random.uniform(-3, 3, size=(rows, 1))
change = rows // 2
y = np.where(np.arange(rows) < change, np.sin(2 * X[:, 0]), np.cos(3 * X[:, 0])) + 0.2 * random.normal(size=rows)

features = gf.RandomFeatures(n_features=100, length_scale=0.6, random_state=0).fit(X[:100])
models = {
    "all rows": (gf.online.RecursiveRegressor(features), GRAY),
    "forgetting=0.998": (gf.online.RecursiveRegressor(features, forgetting=0.998), ORANGE),
    "window=1000": (gf.online.RecursiveRegressor(features, window=1000), BLUE),
}
_, ax = pyplot.subplots()
for name, (model, color) in models.items():
    found = gf.online.prequential(model, (X, y), metric="rmse", rows=50, latest=200)
    found.plot(ax, color=color, linewidth=1, label=name)
    print(f"{name}: {found.score:.3f} on average, {found.scores[-1]:.3f} in the end")
ax.axvline(change, color=GREEN, linewidth=1, linestyle=":")
ax.axhline(0.2, color=GREEN, linewidth=1, linestyle=":")
ax.legend(fontsize=9)
ax.set_title("prequential(model, stream): the function changes in the middle")
save(__file__)
