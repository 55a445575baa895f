"""Wind with a sea breeze: forecasts with intervals, and errors of what a forecaster may see and be."""

import numpy as np
from look import BLUE, GRAY, GREEN, INK, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf

days = 90 if QUICK else 365
random = np.random.default_rng(0)
hours = np.arange(24 * days)
u, v = np.zeros(len(hours)), np.zeros(len(hours))
for t in hours[1:]:
    turn = 0.25 * np.exp(-(u[t - 1] ** 2 + v[t - 1] ** 2) / 40)  # weak winds turn faster
    breeze = 0.35 * np.sin(2 * np.pi * t / 24)
    u[t] = 0.95 * (np.cos(turn) * u[t - 1] - np.sin(turn) * v[t - 1]) + breeze + 0.8 * random.normal()
    v[t] = 0.95 * (np.sin(turn) * u[t - 1] + np.cos(turn) * v[t - 1]) + 0.1 + 0.8 * random.normal()
kept = np.delete(hours, slice(300, 330))  # a gap of thirty hours, which no window spans
times = np.datetime64("2018-01-01T00") + kept
wind = gf.forecasting.Series({"time": times, "u": u[kept], "v": v[kept]}, time="time", u="u", v="v")
print(wind)
split = times[3 * len(times) // 4]
train, test = wind[:split], wind[split:]

_, (left, right) = pyplot.subplots(1, 2, figsize=(9.5, 3.5), width_ratios=[3, 2])
horizons = [1, 3, 6, 12, 18, 24]
for name, color, options in (
    ("kernel, zm→s", ORANGE, {"design": "zm->s"}),
    ("kernel, s→s", BLUE, {"design": "s->s"}),
    ("linear, s→s", GREEN, {"design": "s->s", "model": "linear"}),
):
    centers = {"n_centers": 60 if QUICK else 300, "random_state": 0}
    model = gf.forecasting.KernelForecaster(horizons, memory=24, **options, **centers).fit(train)
    found = model.backtest(test, level=90)
    print(name, "gamma", found.gamma.round(3), "90 % intervals hold", found.coverage(90).round(2))
    right.plot(horizons, found.gamma, "o-", color=color, markersize=3, label=name)
    if color == ORANGE:
        shown = slice(0, 24 * 5)
        lower, upper = found.intervals[90]
        left.fill_between(found.times[shown, 1], lower[shown, 1], upper[shown, 1], color=ORANGE, alpha=0.2, linewidth=0)
        left.plot(found.times[shown, 1], found.mean[shown, 1], color=ORANGE, label="three hours before")
        left.plot(found.times[shown, 1], found.actual[shown, 1], color=INK, linewidth=1, label="observed")
right.axhline(1, color=GRAY, linestyle=":", linewidth=1)
right.set_xlabel("horizon (hours)")
right.set_title("error / error of persistence")
right.legend(fontsize=9)
left.tick_params(axis="x", rotation=20)
left.set_ylim(0, 9)
left.set_ylabel("speed (m/s)")
left.set_title("forecasts and 90 % intervals")
left.legend(fontsize=9, ncols=2)
save(__file__)
