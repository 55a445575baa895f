"""Every number of centers with every penalty, for little more than the cost of one fit."""

import torch
from look import QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf

n, m = (400, 60) if QUICK else (8_000, 800)
X, y = gf.datasets.make_cube(n, noise=0.3)
X, Y = torch.from_numpy(X), torch.from_numpy(y)[:, None]
problem = gf.solvers.LeastSquares(gf.KernelMatrix(gf.kernels.Gaussian(0.5), X, X[:m]), Y, penalty=0.0)
path = gf.solvers.nystrom_path(problem, sizes=40, penalties=30)

pyplot.figure(figsize=(7.2, 4.2))
gf.solvers.plot_surface(path).set_title(f"{path.errors.size:,} models, one pass over {n:,} rows")
save(__file__)

size, penalty = path.smallest()
print(f"{size} of {m} centers are within 1 % of the best error, at a penalty of {penalty:.0e}")
