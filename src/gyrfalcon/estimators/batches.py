"""Fitting to batches that come once: a first model from the first rows, which later ones improve."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse

from gyrfalcon.arrays import as_kind, device_of, torch_dtype
from gyrfalcon.progress import Bar
from gyrfalcon.solvers import Step, eigenpro_stream
from gyrfalcon.solvers.stopping import check_count

from .beginning import draw_seed

Array = np.ndarray[Any, Any]


def fit_batches(estimator: Any, batches: Iterable[tuple[Any, Any]], first_rows: int) -> None:
    """Fit the estimator to the first rows, then take a step of EigenPro for each batch that follows."""
    check_count("first_rows", first_rows)
    stream = iter(batches)
    X, y = _together(_first(stream, first_rows))
    estimator.fit(X, y)
    head = next(stream, None)
    if head is None:
        return
    coefficients, unit = estimator.coefficients_, estimator._targets.unit
    with Bar("fit", verbose=bool(estimator.verbose)) as bar:

        def show(step: Step) -> bool:
            bar.show(step.iteration + 1, f"batch {step.iteration} · residual {step.residual:.4g}", step.iteration)
            return False

        solution = eigenpro_stream(
            estimator.kernel_,
            estimator.centers_,
            _residual_targets(estimator, itertools.chain([head], stream)),
            start=torch.from_numpy(coefficients.reshape(len(coefficients), -1) / unit),
            callback=show,
            random_state=draw_seed(estimator),
            memory_budget=estimator.memory_budget,
        )
    estimator.coefficients_ = (solution.coefficients.cpu().numpy() * unit).reshape(coefficients.shape)
    reason = f"kernel, centers and a first model come from the first {_rows(X)} rows"
    estimator.record_ = dataclasses.replace(solution.record, reason=reason)
    estimator.n_iter_ = solution.record.iterations
    estimator._evidence, estimator._posterior = {}, None  # they were those of the first rows
    estimator._predictor = None


def _residual_targets(estimator: Any, batches: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Batches as the solver takes them: targets in the estimator's coding and unit, less the intercept, which stays."""
    C = estimator.centers_
    for X, y in batches:
        points = as_kind(estimator._read(X, reset=False), C)
        y = estimator._read_y(y, points.shape[0])
        known = estimator._targets = estimator._targets.reaching(y, None)
        start = known.start(estimator.coefficients_, estimator.intercept_)[1].numpy()
        targets = known.encode(y) - start
        yield points, torch.from_numpy(targets).to(device_of(C), torch_dtype(C))


def _first(stream: Iterator[tuple[Any, Any]], rows: int) -> list[tuple[Any, Any]]:
    taken: list[tuple[Any, Any]] = []
    while sum(_rows(X) for X, _ in taken) < rows:
        batch = next(stream, None)
        if batch is None:
            break
        taken.append(batch)
    if not taken:
        raise ValueError("batches must yield at least one pair (X, y): a generator can be used up only once")
    return taken


def _together(batches: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    if len(batches) == 1:
        return batches[0]
    X, y = zip(*batches, strict=True)
    return _stacked(X), _stacked(y)


def _stacked(parts: tuple[Any, ...]) -> Any:
    if isinstance(parts[0], torch.Tensor):
        return torch.cat(parts)
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    library = type(parts[0]).__module__.partition(".")[0]
    if library in ("pandas", "polars") and all(isinstance(part, type(parts[0])) for part in parts):
        return sys.modules[library].concat(parts)  # with the names of its columns
    return np.concatenate([np.asarray(part) for part in parts])


def _rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
