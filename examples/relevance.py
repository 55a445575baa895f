"""Tuning by gradient finds that five features matter and five are noise."""

from look import QUICK, save
from matplotlib import pyplot
from sklearn.datasets import make_friedman1

import gyrfalcon as gf

X, y = make_friedman1(200 if QUICK else 1500, n_features=10, noise=1.0, random_state=0)
model = gf.KernelRegressor("gaussian", tune="gcv", random_state=0).fit(X, y)

_, (left, right) = pyplot.subplots(1, 2, width_ratios=(3, 2))
gf.tuning.plot_trace(model, left)
left.set_title("The objective falls")
gf.tuning.plot_relevance(model, right)
right.set_title("Relevance of the features")
save(__file__)

found = sorted(range(10), key=lambda j: -gf.tuning.relevance(model)[j])[:5]
print(f"most relevant: {', '.join(f'x{j}' for j in sorted(found))} (the truth: x0 to x4)")
