"""One HTML file about a Koopman model: forecasts, spectrum and time scales."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.data.atomic import replacing
from gyrfalcon.dynamics import ForecastErrors, Koopman, timescales

from . import page
from .origin import reproduction
from .page import Section
from .plot import Plot
from .scale import Scale
from .text import number

STEPS = (1, 2, 5, 10, 20)
MOST_MODES = 20  # in the table


def write_dynamics_report(
    path: str | os.PathLike[str],
    model: Koopman,
    X_test: Any,
    *,
    steps: Any = STEPS,
    dt: float = 1.0,
    trajectory: Any = None,
    inputs: Any = None,
    title: str = "Dynamics",
    reproduce: str | None = None,
) -> Path:
    """Write a report on a fitted Koopman model: one HTML file that needs no other, and no network.

    Parameters
    ----------
    path : path
        The file appears when it is complete.
    model : Koopman
    X_test, trajectory, inputs
        Runs that the model was not fitted to, as for `Koopman.fit`.
    steps : sequence of int
        How many steps ahead forecasts are judged.
    dt : float
        The time between frames.
    title : str
    reproduce : str, optional
        The command that made the model; some lines of Python by default.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf, tempfile
    >>> t = 0.1 * np.arange(600)
    >>> X = np.stack([np.cos(t), np.sin(t)], 1)
    >>> model = gf.dynamics.Koopman(n_centers=30, random_state=0).fit(X[:400])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = gf.report.write_dynamics_report(f"{folder}/report.html", model, X[400:])
    ...     "persistence" in path.read_text(encoding="utf-8")
    True
    """
    errors = model.errors(X_test, steps, trajectory=trajectory, inputs=inputs)
    sections = [_forecasts(errors, model.lag * dt), _spectrum(model, dt), _origin(model, reproduce)]
    today = datetime.datetime.now().astimezone().date().isoformat()
    subtitle = f"Koopman · {model.n_features_in_:,} variables · {model.n_pairs_:,} pairs at lag {model.lag} · {today}"
    text = page.document(title, subtitle, sections, lead=_summary(model, errors))
    with replacing(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def _summary(model: Koopman, errors: ForecastErrors) -> str:
    first = errors.steps[0]
    remark = f"persistence {number(errors.normalized_persistence[0])}"
    modulus = float(np.abs(model.eigenvalues_).max(initial=0.0))
    return page.cards(
        [
            (f"Error after {first} step{'s' * (first > 1)}", number(errors.normalized[0]), remark),
            ("Rank", f"{model.rank_:,}", f"{len(model.centers_):,} centers"),
            ("Largest modulus", number(modulus, 5), "of the eigenvalues"),
        ]
    )


def _forecasts(errors: ForecastErrors, unit: float) -> Section:
    times = np.array(errors.steps) * unit
    plot = Plot(
        Scale.of(times),
        Scale.of([0.0], errors.normalized, errors.normalized_persistence),
        "time ahead",
        "error / deviation",
    )
    plot.line(times, errors.normalized_persistence, "other", dashed=True)
    plot.line(times, errors.normalized)
    plot.dots(times, errors.normalized)
    drawing = plot.svg("errors of forecasts against time, beside persistence")
    keys = {"model": "ours", "persistence": "other"}
    caption = "Root mean square errors over all variables, in units of their deviation, of runs that were left out."
    rows = [
        [str(step), number(ahead), number(error), number(still), f"{count:,}"]
        for step, ahead, error, still, count in zip(
            errors.steps, times, errors.normalized, errors.normalized_persistence, errors.count, strict=True
        )
    ]
    table = page.table(["steps", "time", "error", "persistence", "forecasts"], rows, words=())
    return Section("Forecasts", page.figures([page.figure("Errors", drawing, caption, keys)]) + table)


def _spectrum(model: Koopman, dt: float) -> Section:
    values = model.eigenvalues_
    turn = np.linspace(0, 2 * np.pi, 120)
    limit = Scale.of([-1.0, 1.0], values.real, values.imag)
    plot = Plot(limit, limit, "real part", "imaginary part", height=400)
    plot.line(np.cos(turn), np.sin(turn), "soft")
    plot.dots(values.real, values.imag, size=6)
    drawing = plot.svg("eigenvalues in the complex plane, with the unit circle")
    shown = values[:MOST_MODES]
    scales = timescales(shown, model.lag, dt, warn=False)
    with np.errstate(divide="ignore"):
        periods = np.where(np.abs(shown.imag) > 0, 2 * np.pi * model.lag * dt / np.abs(np.angle(shown)), np.inf)
    rows = [
        [str(place), number(abs(value)), number(float(np.angle(value))), number(scale), number(period)]
        for place, (value, scale, period) in enumerate(zip(shown, scales, periods, strict=True))
    ]
    table = page.table(["mode", "modulus", "angle", "time scale", "period"], rows, words=())
    caption = "Eigenvalues between 0 and 1 decay and have a time scale. Those that turn have a period."
    return Section("Spectrum", page.figures([page.figure("Eigenvalues", drawing, caption)]) + table)


def _origin(model: Koopman, command: str | None) -> Section:
    if command is None:
        command = f"import gyrfalcon as gf\n\nmodel = gf.dynamics.{model!r}\nmodel.fit(runs)"
    fitted = {
        "Kernel": repr(model.kernel_),
        "Penalty": number(model.penalty_, 6),
        "Centers": f"{len(model.centers_):,}",
    }
    return reproduction(command, fitted)
