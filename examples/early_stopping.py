"""Early stopping instead of a penalty: three iterative solvers on the same problem, and the best iterate of each."""

import numpy as np
import torch
from look import INK, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf

n = 300 if QUICK else 3_000
X, y = gf.datasets.make_cube(n, noise=0.3)
K = gf.KernelMatrix(gf.kernels.Gaussian(0.5), torch.from_numpy(X), torch.from_numpy(X[: n // 10]))
problem = gf.solvers.LeastSquares(K, torch.from_numpy(y)[:, None], penalty=0.0)
most = 60 if QUICK else 2_000
rule = gf.solvers.EarlyStopping(patience=most)

for kind in (gf.solvers.Nytro, gf.solvers.NuMethod, gf.solvers.KernelCG):
    path = gf.solvers.solve(problem, kind(rule, max_iterations=most)).record.path
    errors = np.sqrt(path.errors)
    pyplot.semilogx(path.steps[1:], errors[1:], label=kind.__name__)
    pyplot.plot(path.chosen, errors[path.chosen], "o", color=INK, markersize=5, zorder=3)
    print(f"{kind.__name__}: RMSE {errors[path.chosen]:.3f} after {path.chosen} passes over the rows")

pyplot.xlabel("iterations (one pass over the rows each)")
pyplot.ylabel("validation RMSE")
pyplot.title("Three iterative solvers on one problem; dots mark the chosen iterates")
pyplot.legend()
save(__file__)
