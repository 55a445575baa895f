"""The error of random features falls as one over the root of their number, and is lower if they are orthogonal."""

import numpy as np
from look import GRAY, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf

X = np.random.default_rng(0).normal(size=(100 if QUICK else 300, 16))
K = gf.kernels.Gaussian(4.0)(X)
sizes = [32, 128] if QUICK else [32, 64, 128, 256, 512, 1024, 2048]
seeds = range(2 if QUICK else 10)

for sampling in ("fourier", "structured", "orthogonal"):
    errors = []
    for size in sizes:
        found = []
        for seed in seeds:
            features = gf.RandomFeatures("gaussian", size, length_scale=4.0, sampling=sampling, random_state=seed)
            Z = features.fit_transform(X)
            found.append(np.mean((Z @ Z.T - K) ** 2))
        errors.append(np.sqrt(np.mean(found)))
    pyplot.loglog(sizes, errors, "o-", label=f'sampling="{sampling}"')
    print(f"{sampling}: the kernel is off by {errors[-1]:.4f} with {sizes[-1]} features")

pyplot.loglog(sizes, 0.5 * np.sqrt(1 / np.array(sizes)), ":", color=GRAY, label="∝ 1 / √D")
pyplot.xlabel("D, random features")
pyplot.ylabel("RMSE of the entries of K")
pyplot.xticks(sizes, map(str, sizes))
pyplot.minorticks_off()
pyplot.legend()
save(__file__)
