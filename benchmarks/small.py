"""The sets that everybody tries first, as they come: time and error beside scikit-learn's kernel machines."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import gyrfalcon as gf

from . import machine, report

SETS: dict[str, Callable[..., Any]] = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
}
LIMITS = {name: 0.6 if name == "digits" else 0.3 for name in SETS}  # seconds that a fit may take
FOLDS = 5


@dataclass(frozen=True)
class Row:
    """Mean errors of the folds, rates or root mean squares over the deviation, and median CPU seconds of a fit."""

    data: str
    errors: dict[str, float]
    seconds: dict[str, float]

    @property
    def ours(self) -> list[str]:
        return [name for name in self.errors if name.startswith("gyrfalcon")]

    @property
    def better(self) -> bool:
        return self.errors[self.ours[0]] <= min(e for name, e in self.errors.items() if name not in self.ours)


def run(quick: bool) -> None:
    machine.take_one_thread()
    described = machine.describe()
    print(
        machine.headline(described),
        f"{FOLDS} folds. Error (rate, or root mean square over the deviation) and CPU seconds of one fit, one thread; "
        "asked: at most 0.3 s, digits 0.6 s, and no larger an error than the best of the others on four of five sets.",
        sep="\n",
    )
    rows = []
    for name in ("iris",) if quick else SETS:
        rows.append(_measure(name))
        print(_line(rows[-1]), flush=True)
        report.write_json(report.FOLDER / "small.json", {"machine": described, "rows": [asdict(r) for r in rows]})
    print(f"no worse than the others on {sum(row.better for row in rows)} of {len(rows)}")


def _contenders(classes: bool, digits: bool) -> dict[str, Callable[[], Any]]:
    if not classes:
        kernel = ConstantKernel() * RBF() + WhiteKernel()
        return {
            "gyrfalcon": lambda: gf.KernelRegressor(random_state=0, verbose=False),
            "GaussianProcess": lambda: make_pipeline(
                StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
            ),
            "KernelRidge": lambda: make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")),
            "SVR": lambda: make_pipeline(StandardScaler(), SVR()),
        }
    found: dict[str, Callable[[], Any]] = {"gyrfalcon": lambda: gf.KernelClassifier(random_state=0, verbose=False)}
    if digits:
        found["gyrfalcon, logistic"] = lambda: gf.KernelClassifier(loss="logistic", random_state=0, verbose=False)
    found["SVC"] = lambda: make_pipeline(StandardScaler(), SVC())
    return found


def _measure(name: str) -> Row:
    X, y = SETS[name](return_X_y=True)
    classes = name != "diabetes"
    folds = (StratifiedKFold if classes else KFold)(FOLDS, shuffle=True, random_state=0)
    errors: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for train, test in folds.split(X, y):
        for label, make in _contenders(classes, name == "digits").items():
            model = make()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                began = time.process_time()
                model.fit(X[train], y[train])
                seconds.setdefault(label, []).append(time.process_time() - began)
            predicted = np.asarray(model.predict(X[test]))
            if classes:
                error = float(np.mean(predicted != y[test]))
            else:
                error = float(np.sqrt(np.mean((predicted - y[test]) ** 2)) / y[test].std())
            errors.setdefault(label, []).append(error)
    return Row(
        name,
        {label: statistics.mean(values) for label, values in errors.items()},
        {label: statistics.median(values) for label, values in seconds.items()},
    )


def _line(row: Row) -> str:
    parts = [f"{label} {row.errors[label]:.4f} in {row.seconds[label]:.2f} s" for label in row.errors]
    in_time = all(row.seconds[label] <= LIMITS[row.data] for label in row.ours)
    marks = f"{'as good' if row.better else 'WORSE'}, {'in time' if in_time else 'LATE'}"
    return f"{row.data:>14}: {'; '.join(parts)} | {marks}"
