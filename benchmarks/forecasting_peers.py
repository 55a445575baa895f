"""mlforecast and skforecast on one series, run by the Python of an environment that has them: prints one JSON object.

The file that is named holds `time` (seconds since 1970), `x`, `start`, the row where the test begins, `lags` and
`horizons`. All models are least squares on the same lags, one for each horizon.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from mlforecast import MLForecast
from skforecast.direct import ForecasterDirect
from sklearn.linear_model import LinearRegression

Array = np.ndarray[Any, Any]


def frame(times: Any, x: Array) -> pd.DataFrame:
    return pd.DataFrame({"unique_id": "x", "ds": pd.DatetimeIndex(times), "y": x})


def by_mlforecast(times: Any, x: Array, start: int, lags: int, horizons: list[int]) -> Array:
    """Forecasts from all origins of the test, of shape (origins, horizons)."""
    model = MLForecast(models={"linear": LinearRegression()}, freq="h", lags=list(range(1, lags + 1)))
    top = max(horizons)
    windows = len(x) - start - top + 1
    found = model.cross_validation(frame(times, x), n_windows=windows, h=top, step_size=1, refit=False, max_horizon=top)
    grid = found.sort_values(["cutoff", "ds"])["linear"].to_numpy().reshape(windows, top)
    return np.asarray(grid[:, np.array(horizons) - 1])


def by_skforecast(times: Any, x: Array, start: int, lags: int, horizons: list[int]) -> Array:
    series = pd.Series(x, index=pd.DatetimeIndex(times), name="x")
    series = series.asfreq("h") if series.index.is_unique else series
    model = ForecasterDirect(steps=max(horizons), lags=lags, estimator=LinearRegression())
    model.fit(y=series.iloc[:start])
    origins = range(start, len(x) - max(horizons) + 1)
    rows = [model.predict(steps=horizons, last_window=series.iloc[stop - lags : stop]).to_numpy() for stop in origins]
    return np.array(rows)


def said(call: Callable[[], Any]) -> str:
    """What a call says: an error, warnings, or nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    words = [f"{one.category.__name__}: {' '.join(str(one.message).split())[:160]}" for one in caught]
    return "; ".join(dict.fromkeys(words)) or "nothing"


def oldest_lag(times: Any, x: Array, lags: int) -> float:
    """Hours between a stamp and what mlforecast takes for its first lag, at most, behind a gap."""
    model = MLForecast(models={}, freq="h", lags=[1], date_features=[])
    numbers = np.arange(len(x), dtype=float)  # a series whose values are their own rows
    made = model.preprocess(frame(times, numbers), validate_data=False)
    rows = made["lag1"].to_numpy().astype(int)
    ages = pd.DatetimeIndex(made["ds"]) - pd.DatetimeIndex(times)[rows]
    return float(ages.max() / pd.Timedelta(hours=1))


def main() -> None:
    with np.load(sys.argv[1]) as data:
        times, x = data["time"].astype("datetime64[s]"), data["x"]
        start, lags, horizons = int(data["start"]), int(data["lags"]), data["horizons"].tolist()
    found: dict[str, Any] = {"versions": {name: version(name) for name in ("mlforecast", "skforecast", "pandas")}}
    for name, call in (("mlforecast", by_mlforecast), ("skforecast", by_skforecast)):
        began = time.process_time()
        found[name] = {"forecasts": call(times, x, start, lags, horizons).tolist()}
        found[name]["cpu"] = time.process_time() - began
    part = slice(0, 2000)
    times, x = times[part], x[part]
    kept = np.delete(np.arange(len(x)), np.arange(900, 930))
    twice = np.sort(np.concatenate([np.arange(len(x)), [700]]))
    missing = x.copy()
    missing[800:803] = np.nan
    cases = {"gap": (times[kept], x[kept]), "duplicate": (times[twice], x[twice]), "NaN": (times, missing)}
    for case, (stamps, values) in cases.items():
        for name, call in (("mlforecast", by_mlforecast), ("skforecast", by_skforecast)):
            arguments = (stamps, values, 1500, lags, horizons)
            found[name][case] = said(lambda call=call, arguments=arguments: call(*arguments))
    found["mlforecast"]["oldest lag behind a gap, without validation"] = oldest_lag(*cases["gap"], lags)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
