"""Classes that appear one after the other, in one pass: no class is forgotten when the next one comes."""

import numpy as np
from look import BLUE, GRAY, ORANGE, QUICK, save
from matplotlib import pyplot
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

import gyrfalcon as gf

X, y = load_digits(return_X_y=True)
X = X / 16.0
test = np.arange(len(y)) % 4 == 0
features = gf.RandomFeatures(n_features=100 if QUICK else 1000, length_scale=1.5, random_state=0).fit(X)
models = {
    "RecursiveClassifier": gf.online.RecursiveClassifier(features, penalty=0.1),
    "SGDClassifier.partial_fit": SGDClassifier(random_state=0),
}
curves = {name: [] for name in models}
for digit in range(10):
    rows = (y == digit) & ~test
    for name, model in models.items():
        points = X if name == "RecursiveClassifier" else features.transform(X)
        if digit == 0 and name != "RecursiveClassifier":
            model.partial_fit(points[rows], y[rows], classes=np.arange(10))
        else:
            model.partial_fit(points[rows], y[rows])
        seen = test & (y <= digit)
        curves[name].append(np.mean(model.predict(points[seen]) == y[seen]))

_, ax = pyplot.subplots()
for (name, curve), color in zip(curves.items(), (ORANGE, BLUE), strict=True):
    ax.plot(range(1, 11), curve, "o-", color=color, label=name)
ax.plot(range(1, 11), 1 / np.arange(1, 11), "--", color=GRAY, linewidth=1, label="only the latest class")
ax.set_xlabel("digits seen, one after the other")
ax.set_ylabel("accuracy among them")
ax.legend(loc="center right", fontsize=9)
ax.set_title("partial_fit with new classes")
save(__file__)

print(" and ".join(f"{name} {curve[-1]:.3f}" for name, curve in curves.items()), "after ten digits")
