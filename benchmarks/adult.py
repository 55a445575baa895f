"""Stochastic gradients on the adult data beside table 6.2 of Camoriano's thesis: SGM and SIGM with the hinge loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

import gyrfalcon as gf
from gyrfalcon.losses import Hinge
from gyrfalcon.solvers import SGD, EarlyStopping, Risk, solve

from . import THREADS, datasets, machine, report
from .mnist import why_absent
from .synthetic import Split

NAME = "a9a"
LENGTH_SCALE = 4.0
GUESSES = 30
EPOCHS = {1000: 100, None: 20}  # of SIGM, at most
DRAWS = {1000: 10, None: 3}

# By number of rows, None being all: hinge loss, classification error in % and its deviation.
PUBLISHED: dict[int | None, dict[str, tuple[float, float, float]]] = {
    1000: {
        "SGM, constant": (0.380, 16.6, 0.3),
        "SGM, decaying": (0.378, 16.2, 0.2),
        "SIGM, constant": (0.383, 16.1, 0.0),
        "SIGM, decaying": (0.450, 23.6, 0.0),
    },
    None: {
        "SGM, constant": (0.342, 15.2, 0.8),
        "SGM, decaying": (0.340, 15.1, 0.7),
        "SIGM, constant": (0.343, 15.7, 0.9),
        "SIGM, decaying": (0.364, 17.1, 0.8),
    },
}
MARGIN = 0.5  # points, where the published deviation is less


@dataclass(frozen=True)
class Row:
    n: int
    name: str
    hinge: float
    error: float
    deviation: float
    seconds: float
    published_hinge: float
    published_error: float
    published_deviation: float
    met: bool
    chosen: list[str]

    def line(self) -> str:
        return (
            f"{self.n:>6,} {self.name:>15} | {self.hinge:6.3f} {self.published_hinge:6.3f} | {self.error:5.1f} ± "
            f"{self.deviation:3.1f} % {self.published_error:5.1f} % {'met' if self.met else 'MISSED':6} | "
            f"{self.seconds:7.1f} s | {self.chosen[0]}"
        )


def run(quick: bool, draws: dict[int | None, int] | None = None) -> None:
    draws = draws or {n: 2 if quick else count for n, count in DRAWS.items()}
    described = machine.describe()
    print(
        machine.headline(described),
        f"\nAdult (a9a): hinge loss, Gaussian kernel of length scale {LENGTH_SCALE:g}, all points are centers, "
        f"float32, no penalty, a fifth of the rows held out, {THREADS} threads.\nSGM: one epoch, {GUESSES} steps, or "
        "decays of the step 1/4, tried at once; SIGM: steps 1/√n, or t^(-½)/4, the number of epochs chosen.\n"
        f"asked: at most the published error and its deviation, or {MARGIN} points if that is less; each number beside "
        "the published.",
        f"{'n':>6} {'':15} | {'hinge loss':^13} | {'test error':^28} | {'fit':>9} | chosen",
        sep="\n",
    )
    if reason := why_absent(NAME):
        print(f"skipped: {reason}")
        return
    rows = []
    for n, table in PUBLISHED.items():
        if quick and n is None:
            continue
        for name, (hinge, error, deviation) in table.items():
            rows.append(_row(n, name, hinge, error, deviation, draws[n]))
            print(rows[-1].line(), flush=True)
    report.write_json(report.FOLDER / "adult.json", {"machine": described, "rows": [asdict(row) for row in rows]})


def _row(n: int | None, name: str, published: float, published_error: float, deviation: float, draws: int) -> Row:
    losses, errors, times, chosen = [], [], [], []
    for seed in range(draws):
        data = datasets.load(NAME, seed, n)
        data = Split(*(part.astype(np.float32) for part in (data.X, data.y, data.X_test, data.y_test)))
        K = gf.KernelMatrix(gf.kernels.Gaussian(LENGTH_SCALE), torch.from_numpy(data.X), cache=False)
        problem = Risk(K, torch.from_numpy(data.y[:, None]), 0.0, Hinge())
        began = time.perf_counter()
        solution = solve(problem, SOLVERS[name](seed, EPOCHS[n]))
        times.append(time.perf_counter() - began)
        path: Any = solution.record.path
        chosen.append(f"{solution.record.reason}, {path.chosen} of {solution.record.iterations} epochs")
        at = gf.KernelMatrix(K.kernel, torch.from_numpy(data.X_test), K.centers, cache=False)
        margins = data.y_test * (at @ solution.coefficients.float())[:, 0].numpy()
        losses.append(float(np.maximum(0, 1 - margins).mean()))
        errors.append(100 * float(np.mean(margins <= 0)))
    error = float(np.mean(errors))
    return Row(
        n=len(data.X),
        name=name,
        hinge=float(np.mean(losses)),
        error=error,
        deviation=float(np.std(errors)),
        seconds=min(times),
        published_hinge=published,
        published_error=published_error,
        published_deviation=deviation,
        met=error <= published_error + max(deviation, MARGIN),
        chosen=chosen,
    )


def _sgm(seed: int, step: Any, decay: Any) -> SGD:
    """One epoch, with the step or the decay chosen by hold-out."""
    return SGD(max_iterations=1, step=step, decay=decay, averaging=None, random_state=seed)


def _sigm(seed: int, epochs: int, step: Any, decay: float) -> SGD:
    """Several epochs, with their number chosen by hold-out."""
    rule = EarlyStopping(patience=3)
    return SGD(rule, max_iterations=epochs, step=step, decay=decay, averaging=None, random_state=seed)


STEPS = tuple(np.logspace(-3, 0, GUESSES).tolist())
DECAYS = tuple(np.linspace(0, 1, GUESSES).tolist())
SOLVERS: dict[str, Callable[[int, int], SGD]] = {
    "SGM, constant": lambda seed, _: _sgm(seed, step=STEPS, decay=0.0),
    "SGM, decaying": lambda seed, _: _sgm(seed, step=0.25, decay=DECAYS),
    "SIGM, constant": lambda seed, epochs: _sigm(seed, epochs, step=None, decay=0.0),
    "SIGM, decaying": lambda seed, epochs: _sigm(seed, epochs, step=0.25, decay=0.5),
}
