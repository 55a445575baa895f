"""What the demo fits: two real data sets that come with scikit-learn and a synthetic one of a million rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import gyrfalcon as gf

from .synthetic import Split, oblique

MILLION, FEWER = 1_000_000, 100_000
CENTERS = 1000
OURS = "Gyrfalcon"
PENALTIES = np.logspace(-5, -1, 5).tolist()


@dataclass(frozen=True)
class Contestant:
    name: str
    make: Callable[[], Any]
    rows: int | None = None  # the first rows only, where all would take too long
    note: str = ""


@dataclass(frozen=True)
class Task:
    title: str
    load: Callable[[], Split]
    classes: bool
    contestants: tuple[Contestant, ...]

    @property
    def error_name(self) -> str:
        return "test error" if self.classes else "test RMSE"


def _digits() -> Split:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    return Split(X_train, y_train, X_test, y_test)


def _diabetes() -> Split:
    X, y = load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    return Split(X_train, y_train, X_test, y_test)


def _kernel_ridge() -> Any:
    """Its kernel has no default scale that suits, so it gets the same number of values to search."""
    pipeline = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf", gamma=0.05))
    return GridSearchCV(pipeline, {"kernelridge__alpha": [300 * penalty for penalty in PENALTIES]})


TASKS = {
    "digits": Task(
        "Handwritten digits: 1,257 rows, 64 features, 10 classes",
        _digits,
        classes=True,
        contestants=(
            Contestant(
                f"{OURS}, logistic",
                lambda: gf.KernelClassifier(loss="logistic", random_state=0, verbose=False),
                note="KernelClassifier(loss='logistic')",
            ),
            Contestant(
                f"{OURS}, squared",
                lambda: gf.KernelClassifier(random_state=0, verbose=False),
                note="KernelClassifier()",
            ),
            Contestant("SVC", lambda: make_pipeline(StandardScaler(), SVC()), note="scaled, RBF kernel"),
            Contestant(
                "Gradient boosting",
                lambda: HistGradientBoostingClassifier(random_state=0),
                note="HistGradientBoostingClassifier",
            ),
            Contestant(
                "Logistic regression",
                lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
                note="scaled, linear",
            ),
        ),
    ),
    "diabetes": Task(
        "Diabetes progression: 309 rows, 10 features",
        _diabetes,
        classes=False,
        contestants=(
            Contestant(
                OURS,
                lambda: GridSearchCV(gf.KernelRegressor(random_state=0, verbose=False), {"penalty": PENALTIES}),
                note="KernelRegressor, penalty by 5-fold search",
            ),
            Contestant("Kernel ridge", _kernel_ridge, note="scaled, penalty by 5-fold search"),
            Contestant(
                "Gradient boosting",
                lambda: HistGradientBoostingRegressor(random_state=0),
                note="HistGradientBoostingRegressor",
            ),
            Contestant("Ridge", lambda: make_pipeline(StandardScaler(), Ridge()), note="scaled, linear"),
        ),
    ),
    "million": Task(
        "A million rows: synthetic, 10 features, float32, noise of deviation 0.2",
        lambda: oblique(MILLION, 50_000, np.float32),
        classes=False,
        contestants=(
            Contestant(
                OURS,
                lambda: gf.KernelRegressor(n_centers=CENTERS, penalty=PENALTIES[0], random_state=0, verbose=False),
                note=f"KernelRegressor(n_centers={CENTERS}, penalty={PENALTIES[0]:g})",
            ),
            Contestant(
                "Gradient boosting",
                lambda: HistGradientBoostingRegressor(random_state=0),
                note="HistGradientBoostingRegressor",
            ),
            Contestant(
                "Nystroem + Ridge",
                lambda: make_pipeline(
                    StandardScaler(),
                    Nystroem(gamma=0.025, n_components=CENTERS, random_state=0),
                    Ridge(alpha=FEWER * PENALTIES[0]),
                ),
                rows=FEWER,
                note=f"{CENTERS} components, the same kernel and penalty",
            ),
            Contestant("Ridge", lambda: Ridge(), note="linear"),
        ),
    ),
}
