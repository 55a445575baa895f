"""Probabilities of three classes, the arms of a spiral, with the softmax loss."""

import numpy as np
from look import BLUE, GREEN, ORANGE, QUICK, save
from matplotlib import pyplot
from matplotlib.colors import to_rgb

import gyrfalcon as gf

random = np.random.default_rng(0)
n = 40 if QUICK else 200
t = np.sqrt(random.uniform(0.02, 1, size=3 * n))
labels = np.repeat([0, 1, 2], n)
angle = 5 * t + labels * 2 * np.pi / 3
X = np.stack([t * np.cos(angle), t * np.sin(angle)], 1) + 0.045 * random.normal(size=(3 * n, 2))

model = gf.KernelClassifier(loss="logistic", random_state=0).fit(X, labels)

side = np.linspace(-1.25, 1.25, 60 if QUICK else 240)
grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
colors = np.array([to_rgb(color) for color in (ORANGE, BLUE, GREEN)])
chances = model.predict_proba(grid)
shades = 1 - 0.65 * (1 - chances @ colors)

pyplot.figure(figsize=(4.8, 4.8))
extent = (side[0], side[-1], side[0], side[-1])
pyplot.imshow(shades.reshape(len(side), len(side), 3), origin="lower", extent=extent, interpolation="bilinear")
sure = chances.max(1).reshape(len(side), -1)
pyplot.contour(side, side, sure, levels=[0.5, 0.9], colors="white", linewidths=[1.5, 0.7])
pyplot.scatter(*X.T, c=colors[labels], s=14, edgecolors="white", linewidths=0.5)
pyplot.title("Probabilities of three classes; within thin lines above 0.9", fontsize=10)
pyplot.axis("off")
save(__file__)

print(f"{model.score(X, labels):.1%} of the training rows are on their own side")
