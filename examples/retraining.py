"""A mast that is moved: forecasters that are trained again as time goes by, without a second look at old windows."""

import numpy as np
from look import BLUE, GRAY, GREEN, ORANGE, QUICK, save
from matplotlib import pyplot

import gyrfalcon as gf

days = 200 if QUICK else 500
random = np.random.default_rng(0)
hours = np.arange(24 * days)
moved = 14 * len(hours) // 20
x = np.zeros(len(hours))
for t in hours[2:]:
    old = 1.6 * np.sin(x[t - 1]) - 0.7 * x[t - 2]
    new = 0.8 * np.tanh(x[t - 1]) + 0.5 * np.sin(x[t - 2])
    x[t] = (old if t < moved else new) + 0.4 * random.normal()
times = np.datetime64("2018-01-01T00") + hours
series = gf.forecasting.Series({"time": times, "x": x}, time="time")
split = times[len(hours) // 2]

model = gf.forecasting.KernelForecaster([1], memory=4, n_centers=50 if QUICK else 150, random_state=0)
model.fit(series[:split])
_, ax = pyplot.subplots()
for mode, color in (("static", GRAY), ("incremental", BLUE), ("online", GREEN), ("online-30D", ORANGE)):
    found = model.backtest(series[split:], retrain=mode, every="7D")  # windows come and go; each week is one solve
    week = (found.origins - found.origins[0]) // np.timedelta64(7, "D")
    squares = np.where(np.isfinite(found.actual), np.square(found.actual - found.mean), 0)[:, 0]
    errors = np.sqrt(np.bincount(week, squares) / np.bincount(week))[:-1]
    ax.plot(found.origins[0] + np.arange(len(errors)) * np.timedelta64(7, "D"), errors, color=color, label=mode)
    print(f"{mode}: nrmse {found.nrmse[0]:.3f}, error of the last week {errors[-1]:.3f}")
ax.axhline(0.4, color=GRAY, linestyle=":", linewidth=1)
ax.axvline(times[moved], color=GRAY, linestyle=":", linewidth=1)
ax.set_ylabel("error of each week")
ax.legend(fontsize=9, ncols=2)
ax.set_title('backtest(series, retrain=..., every="7D"): the dynamics change in the middle')
save(__file__)
