"""Test error by the number of centers and by the rule that chooses them."""

import numpy as np
from look import GRAY, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf

n = 600 if QUICK else 10_000
X, y = gf.datasets.make_cube(n + 2_000, noise=0.1)
train, test = slice(0, n), slice(n, None)
sizes = [10, 20, 40] if QUICK else [10, 20, 40, 80, 160, 320, 640]

for rule in ("uniform", "kmeans", "pivoted"):
    errors = []
    for size in sizes:
        model = gf.KernelRegressor(
            "gaussian", length_scale=0.4, penalty=1e-7, centers=rule, n_centers=size, random_state=0
        ).fit(X[train], y[train])
        errors.append(np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2)))
    pyplot.loglog(sizes, errors, "o-", label=rule)
    print(f"{rule}: RMSE {errors[-1]:.3f} with {sizes[-1]} centers")

pyplot.axhline(0.1, color=GRAY, linestyle=":")
pyplot.text(sizes[0], 0.102, "the noise: nobody gets below", color=GRAY, va="bottom")
pyplot.xlabel("centers")
pyplot.ylabel("test RMSE")
pyplot.xticks(sizes, map(str, sizes))
pyplot.minorticks_off()
pyplot.yticks([0.1, 0.2, 0.5], ["0.1", "0.2", "0.5"])
pyplot.legend(title='KernelRegressor(centers="…")')
save(__file__)
