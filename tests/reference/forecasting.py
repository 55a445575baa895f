"""Forecasting, written plainly: windows by loops, moments by dense matrices, errors of autoregressions by sums."""

import numpy as np

from gyrfalcon.forecasting import Series

START = np.datetime64("2018-01-01T00", "h")

FAST = {"horizons": [1, 3], "memory": 3, "n_centers": 40, "length_scale": 1.0, "decay": 0.5, "penalty": 1e-4}


def autoregression(n, first=1.2, second=-0.5, seed=0):
    noise = np.random.default_rng(seed).normal(size=n + 200)
    x = np.zeros(n + 200)
    for t in range(2, len(x)):
        x[t] = first * x[t - 1] + second * x[t - 2] + noise[t]
    return x[200:]


def make(n=1200, seed=0, holes=()):
    """Wind whose components are autoregressions, with stamps left out."""
    kept = np.delete(np.arange(n), list(holes))
    u, v = 3 + autoregression(n, seed=seed)[kept], autoregression(n, seed=seed + 1)[kept]
    return Series({"t": START + kept, "u": u, "v": v}, time="t", u="u", v="v")


def windows(ticks, values, memory, horizons):
    """Origins, lags and targets of all windows without a missing stamp or NaN, by a loop over single stamps."""
    at = {int(tick): row for row, tick in enumerate(ticks)}
    origins, lags, targets = [], [], []
    for tick, row in at.items():
        needed = range(tick - memory + 1, tick + max(horizons) + 1)
        if not all(other in at for other in needed):
            continue
        seen = [values[at[tick - lag]] for lag in range(memory)]
        later = [values[at[tick + horizon], 0] for horizon in horizons]
        if np.isfinite(seen).all() and np.isfinite(later).all():
            origins.append(row)
            lags.append(np.concatenate(seen))
            targets.append(later)
    width = memory * values.shape[1]
    return np.array(origins, int), np.reshape(lags, (-1, width)), np.reshape(targets, (-1, len(horizons)))


def ridge(kernel_rows, kernel_centers, Y, penalty):
    """Coefficients and intercepts that minimize mean squares plus penalty βᵀ k(C, C) β."""
    values, vectors = np.linalg.eigh(kernel_centers)
    root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    K = (kernel_rows - kernel_rows.mean(0)) / np.sqrt(len(Y))
    sides = np.concatenate([(Y - Y.mean(0)) / np.sqrt(len(Y)), np.zeros((len(root), Y.shape[1]))])
    # As least squares rather than normal equations, which square the condition number.
    beta = np.linalg.lstsq(np.concatenate([K, np.sqrt(penalty) * root]), sides, rcond=None)[0]
    return beta, Y.mean(0) - kernel_rows.mean(0) @ beta


def autoregression_deviations(first, second, horizons):
    """Standard deviations of the best forecasts of x_t = first x_{t-1} + second x_{t-2} + noise of variance one.

    That of horizon h is the root of the sum of ψ_0², …, ψ_{h-1}², where ψ is the response to one unit of noise.
    """
    psi = [1.0, first]
    while len(psi) < max(horizons):
        psi.append(first * psi[-1] + second * psi[-2])
    return np.sqrt([np.square(psi[:horizon]).sum() for horizon in horizons])


def moving_intervals(times, errors, first, horizons, hours, level):
    """Lower and upper bounds for the rows from `first` on: quantiles of the errors that are known when a period of so
    many hours begins, at a level that is corrected by 0.3 of the misses too many in 28 days."""
    begin, hour = times[first], np.timedelta64(1, "h")
    count, gain = len(times) - first, 0.3 * hours / (28 * 24)
    found = np.full((2, count, len(horizons)), np.nan)
    for place, horizon in enumerate(horizons):
        aimed, last = 100.0 - level, None
        for number in range(int((times[-1] - begin) / (hours * hour)) + 1):
            moment = begin + number * hours * hour
            known = [k for k in range(len(times)) if times[k] + horizon * hour < moment]
            if not any((times[first + k] - begin) // (hours * hour) == number for k in range(count)):
                continue
            missed = [
                not found[0, k - first, place] <= errors[k, place] <= found[1, k - first, place]
                for k in known
                if k >= first and (last is None or times[k] + horizon * hour >= last) and np.isfinite(errors[k, place])
            ]
            if missed:
                aimed += gain * (100.0 - level - 100.0 * np.mean(missed))
                aimed = min(max(aimed, 0.1 * (100 - level)), 3 * (100 - level), (200 - level) / 2)
            last = moment
            usable = sorted(errors[k, place] for k in known if np.isfinite(errors[k, place]))
            rank = int(np.ceil((len(usable) + 1) * (1 - aimed / 200) - 1e-9))
            for k in range(count):
                if (times[first + k] - begin) // (hours * hour) == number:
                    found[:, k, place] = usable[len(usable) - rank], usable[rank - 1]
    return found
