"""Learning from rows that arrive once and are not kept: the model after more and more of a stream."""

import numpy as np
from look import GRAY, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf


def truth(x):
    return np.sin(2 * x) + 0.3 * np.sin(9 * x)


def batches(count):
    random = np.random.default_rng(0)
    for _ in range(count):
        x = random.uniform(-3, 3, size=200)
        yield x[:, None], truth(x) + 0.5 * random.normal(size=200)


at = np.linspace(-3, 3, 400)
counts = [2, 4, 8] if QUICK else [2, 8, 32, 128, 512]
errors, fits = [], []
for count in counts:
    model = gf.KernelRegressor("gaussian", length_scale=0.2, n_centers=80, random_state=0)
    model.fit_stream(batches(count), first_rows=400)
    fits.append(model.predict(at[:, None]))
    errors.append(np.sqrt(np.mean((fits[-1] - truth(at)) ** 2)))

_, (left, right) = pyplot.subplots(1, 2, width_ratios=(3, 2))
left.plot(at, truth(at), "--", color=GRAY, linewidth=1, label="truth")
for fit, count, alpha in zip(fits[::2], counts[::2], (0.3, 0.6, 1.0), strict=False):
    left.plot(at, fit, color=ORANGE, alpha=alpha, label=f"{200 * count:,} rows")
left.legend(loc="lower left", fontsize=9)
left.set_title("KernelRegressor().fit_stream(batches)")
right.loglog([200 * count for count in counts], errors, "o-", color=ORANGE)
right.set_xlabel("rows seen")
right.set_ylabel("error of the function")
save(__file__)

print(f"off by {errors[0]:.3f} after {200 * counts[0]:,} rows, by {errors[-1]:.3f} after {200 * counts[-1]:,}")
