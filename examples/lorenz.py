"""Lorenz's attractor: forecasts of many steps beside persistence, and where they lead."""

import numpy as np
from look import BLUE, GRAY, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf


def lorenz(frames, dt=0.01):
    """Runge and Kutta's fourth-order method."""

    def slope(x):
        return np.array([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])

    x, out = np.ones(3), []
    for t in range(frames + 500):
        a = slope(x)
        b = slope(x + dt / 2 * a)
        c = slope(x + dt / 2 * b)
        x = x + dt / 6 * (a + 2 * b + 2 * c + slope(x + dt * c))
        if t >= 500:
            out.append(x)
    return np.array(out)


X = lorenz(3000 if QUICK else 12_000)
X = (X - X.mean(0)) / X.std(0)
train, test = X[: -len(X) // 4], X[-len(X) // 4 :]
steps = [1, 2, 5, 10, 20, 40, 60, 80, 100]
_, (left, right) = pyplot.subplots(1, 2, figsize=(9.5, 3.5))
model = gf.dynamics.Koopman("krr", n_centers=150 if QUICK else 400, penalty=1e-8, random_state=0).fit(train)
errors = model.errors(test, steps)
at_once = [other.errors(test).normalized[0] for other in gf.dynamics.fit_lags(model, train, steps)]  # one pass
print("one step", errors.normalized[0].round(5), "after a second", errors.normalized[-1].round(3), at_once[-1].round(3))
left.plot(0.01 * np.array(steps), errors.normalized, "o-", color=BLUE, markersize=3, label="many steps at lag 1")
left.plot(0.01 * np.array(steps), at_once, "o-", color=ORANGE, markersize=3, label="one step at each lag")
left.plot(0.01 * np.array(steps), errors.normalized_persistence, ":", color=GRAY, label="persistence")
left.set_xlabel("time ahead")
left.set_ylabel("error / deviation")
left.legend(fontsize=9)
left.set_title("errors of states that were left out")
gf.dynamics.plot_forecast(model, test[300:], steps=150, dt=0.01, ax=right)
right.set_title("the mean of x from one state")
save(__file__)
