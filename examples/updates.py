"""A kernel machine that learns from more rows later: exact updates, and centers for a region that is new."""

import numpy as np
from look import BLUE, GRAY, INK, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf

rows = 100 if QUICK else 400
random = np.random.default_rng(0)


def measured(low, high):
    X = random.uniform(low, high, size=(rows, 1))
    return X, np.sin(2 * X[:, 0]) + 0.2 * random.normal(size=rows)


here, there = measured(0, 4), measured(5, 9)
settings = {"length_scale": 0.7, "penalty": 1e-4, "n_centers": 30, "updatable": True, "random_state": 0}
grid = np.linspace(-0.5, 9.5, 400)[:, None]


def fitted():
    return gf.KernelRegressor("gaussian", **settings).fit(*here)


models = {
    "fit": fitted(),
    "fit, partial_fit with rows from elsewhere": fitted().partial_fit(*there),
    "fit, add_centers, partial_fit": fitted().add_centers(there[0][:30]).partial_fit(*there),
}
_, axes = pyplot.subplots(3, 1, figsize=(7.2, 6.0), sharex=True, sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    mean, std = model.predict(grid, return_std=True)
    ax.scatter(*here, s=4, color=GRAY)
    ax.scatter(*there, s=4, color=GRAY if ax is not axes[0] else "none")
    ax.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, color=BLUE, alpha=0.2, linewidth=0)
    ax.plot(grid, mean, color=BLUE)
    ax.plot(grid, np.sin(2 * grid), color=ORANGE, linewidth=1, linestyle=":")
    ax.scatter(model.centers_[:, 0], np.full(len(model.centers_), -2.2), s=12, color=INK, marker="|")
    ax.set_title(name)
    error = np.sqrt(np.mean((model.predict(there[0]) - np.sin(2 * there[0][:, 0])) ** 2))
    print(f"{name}: {model.moments_.count} rows, error in the new region {error:.3f}")
axes[0].set_ylim(-2.5, 2.5)
save(__file__)
