"""A tuned KernelRegressor beside GPyTorch's SGPR and SVGP: test error and time, in one run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import gyrfalcon as gf

from . import THREADS, datasets, machine, report
from .process import in_fresh_process
from .synthetic import Split, rmse
from .timing import Race, race, timed

Array = np.ndarray[Any, Any]

SETS = ("uci_kin40k", "uci_protein", "uci_keggundirected")
OURS, SGPR, SVGP = "gyrfalcon", "SGPR", "SVGP"
TIME_TARGET = 1 / 5
EQUAL = 1.005  # test errors differ by that much from one draw of the centers to the next


@dataclass(frozen=True)
class Settings:
    rows: int | None
    centers: int
    sgpr: dict[str, Any]
    svgp: dict[str, Any]


FULL = Settings(
    rows=None,
    centers=5000,
    sgpr={"inducing": 512, "steps": 100, "learning_rate": 0.1},
    svgp={"inducing": 1000, "epochs": 10, "batch": 1024, "learning_rate": 0.01},
)
QUICK = Settings(
    rows=4000,
    centers=500,
    sgpr={"inducing": 64, "steps": 10, "learning_rate": 0.1},
    svgp={"inducing": 64, "epochs": 2, "batch": 1024, "learning_rate": 0.01},
)


def run(quick: bool) -> None:
    if importlib.util.find_spec("gpytorch") is None:
        print("GPyTorch is not installed, and there is nothing to compare with: pip install gpytorch")
        return
    settings = QUICK if quick else FULL
    described = machine.describe()
    print(machine.headline(described), legend(settings), sep="\n")
    found: dict[str, Any] = {}
    for name in SETS:
        missing = datasets.why_absent(name)
        if missing:
            print(f"\n{name}: skipped, {missing}")
            continue
        found[name] = _compare(name, settings)
        content = {"machine": described, "settings": asdict(settings), "sets": found}
        report.write_json(report.FOLDER / "gpytorch.json", content)


def ours(split: Split, settings: Settings) -> Array:
    model = gf.KernelRegressor("gaussian", tune="auto", n_centers=settings.centers, random_state=0, verbose=False)
    return model.fit(split.X, split.y).predict(split.X_test)


def theirs(fit: Callable[..., Tensor], given: dict[str, Any], split: Split, settings: Settings) -> Array:
    X, y, X_test = (torch.from_numpy(part) for part in (split.X, split.y, split.X_test))
    return fit(X, y, X_test, **given).numpy()


def _compare(name: str, settings: Settings) -> dict[str, Any]:
    found, errors, rows = in_fresh_process(_race, name, settings)
    print(f"\n{name}, {rows:,} rows\n{'':>12} {'test error':>10} {'seconds':>9} {'ratio':>7}")
    for who, error in errors.items():
        print(f"{who:>12} {error:10.4f} {found[who]:9.1f} {found[who] / found[OURS]:7.1f}")
    for who in (SGPR, SVGP):
        error, share = errors[OURS] / errors[who], found[OURS] / found[who]
        print(
            f"{'':>12} beside {who}: error {error:.3f} of theirs (asked: at most {EQUAL}, "
            f"{'met' if error <= EQUAL else 'MISSED'}); time 1/{1 / share:.1f} (asked: at most "
            f"1/{1 / TIME_TARGET:.0f}, {found.verdict(share <= TIME_TARGET)})",
            flush=True,
        )
    seconds = {who: found[who] for who in errors}
    return {"rows": rows, "errors": errors, "seconds": seconds, "disturbed": found.disturbed}


def _race(name: str, settings: Settings) -> tuple[Race, dict[str, float], int]:
    from . import gpytorch_models  # here, because it is optional; before the race, because that is not to time it

    machine.set_threads()
    split = datasets.standardized(datasets.load(name, 0, settings.rows), np.float32)
    errors: dict[str, float] = {}

    def once(who: str, predict: Callable[[Split, Settings], Array]) -> None:
        errors[who] = rmse(predict(split, settings), split.y_test) / float(split.y_test.std())

    runs = {
        OURS: ours,
        SGPR: partial(theirs, gpytorch_models.sgpr, settings.sgpr),
        SVGP: partial(theirs, gpytorch_models.svgp, settings.svgp),
    }
    found = race([timed(who, partial(once, who, predict), 1e9) for who, predict in runs.items()], 1, patience=0)
    return found, errors, len(split.X)


def legend(settings: Settings) -> str:
    def said(given: dict[str, Any]) -> str:
        return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in given.items())

    return (
        "\nSparse Gaussian processes: float32, Gaussian kernel with one length scale per feature, features and targets "
        f"standardized, {THREADS} threads; one run each, one after the other.\n"
        f"  {OURS}: KernelRegressor('gaussian', tune='auto', n_centers={settings.centers})\n"
        f"  {SGPR}: GPyTorch's InducingPointKernel, {said(settings.sgpr)}\n"
        f"  {SVGP}: GPyTorch's VariationalStrategy, {said(settings.svgp)}\n"
        "GPyTorch's length scales start from the median distance. test error: RMSE over the deviation of the test "
        "targets. seconds: from training rows to test predictions."
    )
