"""Forecasts of wind: errors beside persistence, a linear model and LightGBM, retraining, intervals, other stations.

The series come from the folder in $GYRFALCON_DATA. Everything is chosen on training years. LightGBM is optional.
mlforecast and skforecast run in an environment of their own, whose Python is named in $GYRFALCON_FORECASTING_PEERS
(`python -m venv peers && peers/bin/pip install mlforecast skforecast "pandas<3"`).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from gyrfalcon.forecasting import Backtest, KernelForecaster, Series, study

from . import machine, report
from .inverse_dynamics import load_frames

Array = np.ndarray[Any, Any]

PEERS = "GYRFALCON_FORECASTING_PEERS"
HORIZONS = (1, 3, 6, 12, 18, 24)
# Kernel models of the first study of these data, the better of two: what to reach within 1 %.
REFERENCE = {1: 0.0929, 3: 0.1887, 6: 0.2606, 12: 0.3253, 24: 0.3728}
MODES = ("static", "online", "incremental", "online-90D")
LEVEL = 90.0
PARTS = ("errors", "retraining", "windows", "ireland", "study", "peers")


def run(quick: bool, parts: tuple[str, ...] = PARTS) -> None:
    torch.set_num_threads(1)
    described = machine.describe()
    print(machine.headline(described))
    found: dict[str, Any] = {"machine": described}
    measures = dict(zip(PARTS, (_errors, _retraining, _windows, _ireland, _study, _peers), strict=True))
    with threadpool_limits(1):
        for name in parts:
            found[name] = measures[name](quick)
    report.write_json(report.FOLDER / "forecasting.json", found)


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def load_wind(quick: bool) -> tuple[Series, Series] | None:
    """2015 to 2017 to learn from, and 2018 to 2020 to test."""
    data = load_frames("wind_era5")
    if data is None:
        return None
    names = data["names"].tolist()
    table: dict[str, Any] = {"time": data["time"].astype("datetime64[s]")}
    for channel, column in (("u", "u_100"), ("v", "v_100"), ("speed", "ws_100m")):
        table[channel] = data["series"][:, names.index(column)].astype(np.float64)
    wind = Series(table, time="time", speed="speed", u="u", v="v")
    return (wind["2017-07":"2018"], wind["2018":"2018-04"]) if quick else (wind["2015":"2018"], wind["2018":])


def _row(name: str, errors: Array, seconds: float | None) -> None:
    shown = " ".join(f"{error:.4f}" for error in errors)
    print(f"  {name:<34} {shown}  {'' if seconds is None else f'{seconds:7.1f}'}")


# Errors.


def _errors(quick: bool) -> dict[str, Any]:
    wind = load_wind(quick)
    if wind is None:
        return {}
    train, test = wind
    print(f"\nNRMSE of {test!r}\n  {'horizon':<34} {' '.join(f'{h:6d}' for h in HORIZONS)}    CPU-s")
    found: dict[str, Any] = {}
    tests: dict[str, Backtest] = {}
    for name, model in (
        ("persistence", KernelForecaster(HORIZONS, 24, model="persistence")),
        ("linear s→s", KernelForecaster(HORIZONS, 24, "s->s", model="linear")),
        ("kernel s+zm→s", KernelForecaster(HORIZONS, 24, random_state=0)),
    ):
        began = time.process_time()
        tests[name] = model.fit(train).backtest(test, level=LEVEL)
        found[name] = {"nrmse": tests[name].nrmse.tolist(), "cpu": time.process_time() - began}
        _row(name, tests[name].nrmse, found[name]["cpu"])
    ours = tests["kernel s+zm→s"]
    trees = _trees(train, test)
    if trees is not None:
        found["LightGBM s+zm→s"] = {"nrmse": trees[0].tolist(), "cpu": trees[1]}
        _row("LightGBM s+zm→s, defaults", *trees)
        better = int((ours.nrmse <= trees[0]).sum())
        ratio = found["kernel s+zm→s"]["cpu"] / trees[1]
        print(f"  at most LightGBM's on {better} of {len(HORIZONS)} (asked 4) | {_verdict(better >= 4)}; "
              f"{ratio:.2f} of its CPU (asked 3) | {_verdict(ratio <= 3)}")  # fmt: skip
    ratios = {h: ours.nrmse[HORIZONS.index(h)] / asked for h, asked in REFERENCE.items()}
    print(f"  over the reference: {' '.join(f'{ratio:.3f}' for ratio in ratios.values())} (asked 1.01) | "
          f"{_verdict(max(ratios.values()) <= 1.01)}")  # fmt: skip
    print(f"  γ: {' '.join(f'{gamma:.3f}' for gamma in ours.gamma)}; persistence's is "
          f"{_verdict(bool((tests['persistence'].gamma == 1).all()))}, exactly 1")  # fmt: skip
    statistic = ours.diebold_mariano().statistic
    print(f"  Diebold and Mariano's statistic against persistence: {' '.join(f'{one:.1f}' for one in statistic)}")
    coverage = ours.coverage(LEVEL)
    print(f"  {LEVEL:g} % intervals cover {' '.join(f'{share:.3f}' for share in coverage)} (asked .87 to .93) | "
          f"{_verdict(bool((abs(coverage - 0.9) <= 0.03).all()))}")  # fmt: skip
    return found | {"coverage": coverage.tolist(), "gamma": ours.gamma.tolist()}


def _trees(train: Series, test: Series) -> tuple[Array, float] | None:
    """Errors of LightGBM's defaults on the same lags of the same channels, one model for each horizon, and CPU."""
    try:
        import lightgbm
    except ImportError:
        print("  LightGBM is left out: pip install lightgbm")
        return None
    problem = KernelForecaster(HORIZONS, 24, model="persistence").fit(train).problem_
    rows, history = problem.training(train), train.followed_by(test)
    origins = problem.origins(history)
    origins = origins[origins >= len(train)]
    X, Y = problem.features(train, rows).to_array(), problem.actual(train, rows)
    X_test, truth = problem.features(history, origins).to_array(), problem.actual(history, origins)
    began = time.process_time()
    models = [lightgbm.LGBMRegressor(n_jobs=1, verbose=-1).fit(X, y) for y in Y.T]
    guess = np.stack([model.predict(X_test) for model in models], 1)
    seconds = time.process_time() - began
    squares = np.nansum(np.square(truth - guess), axis=0) / np.nansum(np.square(truth), axis=0)
    return np.sqrt(squares), seconds


# Retraining.


def _retraining(quick: bool) -> dict[str, Any]:
    wind = load_wind(quick)
    if wind is None:
        return {}
    train, test = wind
    model = KernelForecaster([3], 24, random_state=0).fit(train)
    print("\nRetraining every four weeks, horizon 3\n  mode              NRMSE  deviation of months    CPU-s")
    found = {}
    for mode in MODES:
        began = time.process_time()
        result = model.backtest(test, retrain=mode, every="28D")
        seconds = time.process_time() - began
        deviation = float(np.std(result.by_month()["nrmse"]))
        found[mode] = {"nrmse": float(result.nrmse[0]), "deviation": deviation, "cpu": seconds}
        print(f"  {mode:<16} {result.nrmse[0]:.4f}               {deviation:.4f}  {seconds:7.1f}")
    errors = {mode: row["nrmse"] for mode, row in found.items()}
    ordered = errors["incremental"] <= errors["online"] <= errors["static"] <= errors["online-90D"]
    print(f"  incremental ≤ on-line ≤ static ≤ three months | {_verdict(ordered)}")
    return found


def _windows(quick: bool) -> dict[str, Any]:
    """Intervals of models of the last three months."""
    wind = load_wind(quick)
    if wind is None:
        return {}
    train, test = wind
    began = time.process_time()
    model = KernelForecaster(HORIZONS, 24, random_state=0).fit(train)
    result = model.backtest(test, retrain="online-90D", every="28D", level=LEVEL)
    coverage, seconds = result.coverage(LEVEL), time.process_time() - began
    errors = " ".join(f"{error:.4f}" for error in result.nrmse)
    print(f"\nModels of the last 90 days, every four weeks, {seconds:.0f} CPU-s: NRMSE {errors}; "
          f"{LEVEL:g} % intervals cover {' '.join(f'{share:.3f}' for share in coverage)} (asked .87 to .93) | "
          f"{_verdict(bool((abs(coverage - 0.9) <= 0.03).all()))}")  # fmt: skip
    return {"nrmse": result.nrmse.tolist(), "coverage": coverage.tolist(), "cpu": seconds}


# Stations.


def _ireland(quick: bool) -> dict[str, Any]:
    """Each station alone and with the others; the memory of each is chosen on the training years."""
    data = load_frames("wind_ireland")
    if data is None:
        return {}
    names = [str(name) for name in data["names"]]
    table: dict[str, Any] = {"time": data["time"].astype("datetime64[s]")}
    table |= {name: column.astype(np.float64) for name, column in zip(names, data["series"].T, strict=True)}
    errors: dict[str, list[Array]] = {"alone": [], "with the others": []}
    for name in names[: 2 if quick else None]:
        series = Series(table, time="time", target=name)
        for kind, exogenous in (("alone", None), ("with the others", "all")):
            options = {"exogenous": exogenous, "calendar": ["year"], "random_state": 0}
            models = [KernelForecaster([1, 2, 3], memory, "s->s", **options) for memory in (2, 4)]
            best = min((model.fit(series[:"1973"]) for model in models), key=_validation)
            errors[kind].append(best.backtest(series["1973":]).nrmse)
    alone, others = (np.array(rows) for rows in errors.values())
    print("\nIreland, 1973 to 1978, NRMSE one, two and three days ahead, means over stations")
    print(f"  each station alone {' '.join(f'{error:.4f}' for error in alone.mean(0))}")
    gain = alone - others
    mean, noise = gain.mean(0), gain.std(0, ddof=1) / np.sqrt(len(gain))
    print(f"  with the others    {' '.join(f'{error:.4f}' for error in others.mean(0))}; better at "
          f"{', '.join(str(count) for count in (gain > 0).sum(0))} of {len(alone)}, by "
          f"{', '.join(f'{one:+.4f} ± {error:.4f}' for one, error in zip(mean, noise, strict=True))}; "
          f"a day ahead | {_verdict(bool(mean[0] > 2 * noise[0]))}; no worse further ahead than by chance | "
          f"{_verdict(bool((mean >= -2 * noise).all()))}")  # fmt: skip
    return {"alone": alone.tolist(), "with the others": others.tolist()}


def _validation(model: KernelForecaster) -> float:
    assert model.errors_ is not None
    return float(np.log(np.mean(np.square(model.errors_), axis=0)).sum())


# The whole study.


def _study(quick: bool) -> dict[str, Any]:
    wind = load_wind(quick)
    if wind is None:
        return {}
    train, test = wind
    began, started = time.process_time(), time.perf_counter()
    found = study(
        {"La Haute Borne": train.followed_by(test)},
        split=test.times[0],
        memories=(2, 6) if quick else (2, 6, 24, 48, 72),
        verbose=False,
    )
    seconds, wall = time.process_time() - began, time.perf_counter() - started
    path = report.FOLDER / "forecasting.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    found.report(path, title="Wind at La Haute Borne")
    print(f"\n{found!r}\n  {seconds:.0f} CPU-s, {wall:.0f} s on one thread (asked 600 s of two cores) | "
          f"{_verdict(seconds <= 1200)}; {path}")  # fmt: skip
    return {"cpu": seconds, "wall": wall, "nrmse": {t.configuration.words: t.nrmse.tolist() for t in found.trials}}


# Peers.


def _peers(quick: bool) -> dict[str, Any]:
    """Least squares on the same lags: what mlforecast and skforecast say from the same origins, and of gaps."""
    python = os.environ.get(PEERS)
    wind = load_wind(quick)
    if wind is None or not python or not Path(python).exists():
        print(f"\npeers: left out, ${PEERS} does not name a Python that has mlforecast and skforecast")
        return {}
    horizons, lags, tested = [1, 3, 6], 24, 400
    series = wind[0][wind[0].times[-4400] :]
    start = len(series) - tested
    x = series.channel("speed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "series.npz")
        seconds = series.times.astype("datetime64[s]").astype(np.int64)
        np.savez(path, time=seconds, x=x, start=start, lags=lags, horizons=horizons)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        script = Path(__file__).with_name("forecasting_peers.py")
        done = subprocess.run(
            [python, str(script), str(path)], capture_output=True, text=True, check=True, env=os.environ | threads
        )
    theirs: dict[str, Any] = json.loads(done.stdout)
    train, origins = series[: series.times[start]], series.times[start - 1 : len(series) - max(horizons)]
    plain = {"model": "linear", "penalty": 0.0, "design": "s->s"}
    began = time.process_time()
    together = KernelForecaster(horizons, lags, **plain).fit(train).predict(series, origin=origins).mean
    cpu = time.process_time() - began
    single = [KernelForecaster([h], lags, **plain).fit(train).predict(series, origin=origins).mean for h in horizons]
    print(f"\nBeside {theirs['versions']}: least squares on {lags} lags, {len(origins)} origins; CPU-s {cpu:.2f} here")
    for name, own, words in (
        ("skforecast", together, "all horizons share the windows"),
        ("mlforecast", np.concatenate(single, 1), "each horizon has its own windows"),
    ):
        off = float(np.abs(np.array(theirs[name].pop("forecasts")) - own).max())
        theirs[name]["largest difference"] = off
        print(f"  {name}: largest difference {off:.1e} m/s ({words}) | {_verdict(off < 1e-8)}; "
              f"CPU-s {theirs[name]['cpu']:.2f}")  # fmt: skip
        for case in ("gap", "duplicate", "NaN"):
            print(f"    {case}: {theirs[name][case]}")
    hours = theirs["mlforecast"]["oldest lag behind a gap, without validation"]
    print(f"    mlforecast without validation, behind a gap of 30 hours: the first lag is {hours:g} hours old")
    return theirs
