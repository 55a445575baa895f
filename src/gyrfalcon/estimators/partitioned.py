"""A partition inside an estimator: what it goes with, and how its leaves are fitted to what the global model leaves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from gyrfalcon import progress
from gyrfalcon.arrays import AnyPoints, Array, as_numpy
from gyrfalcon.data import Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.partition import LocalFunction, Partition, fit_partition
from gyrfalcon.solvers import Solution
from gyrfalcon.solvers.rounding import shows_in
from gyrfalcon.threads import one_thread_each, threads_to_share

from .targets import Targets

if TYPE_CHECKING:
    from .base import KernelEstimator

COPIES = 3  # of the rows that a fit holds: those read, the distinct ones, and those of the leaves


def check_partition(estimator: KernelEstimator) -> tuple[Partition | None, bool]:
    """The partition, if there is one, once it is known to go with the other parameters; whether it is on trial."""
    partition = estimator.partition
    automatic = isinstance(partition, str) and partition == "auto"
    if partition is None:
        return None, False
    if automatic:
        partition = Partition()
    if not isinstance(partition, Partition):
        raise ValueError(f"partition must be 'auto', None or a gyrfalcon.Partition, got {partition!r}")
    loss = getattr(estimator.loss, "name", estimator.loss)
    refusals = {
        "loss": (loss != "squared", "leaves are solved for the squared loss: take loss='squared'"),
        "solver": (estimator.solver != "auto", "leaves are solved exactly: leave solver='auto'"),
        "n_centers": (estimator.n_centers != "auto", "set Partition(centers=...) instead"),
        "centers": (not isinstance(estimator.centers, str) and not callable(estimator.centers), "name a rule instead"),
        "early_stopping": (estimator.early_stopping is not False, "leaves do not iterate: switch it off"),
        "device": (estimator.device not in (None, "cpu"), "leaves are solved in main memory: leave it out"),
    }
    if automatic:
        usual = not any(refused for refused, _ in refusals.values()) and estimator.tune == "auto"
        return (partition, True) if usual and not estimator.updatable else (None, False)
    for name, (refused, remedy) in refusals.items():
        if refused:
            raise ValueError(f"{name}={getattr(estimator, name)!r} does not go with partition={partition!r}: {remedy}")
    return partition, False


def rows_in_memory(points: AnyPoints, budget: int) -> AnyPoints:
    """The rows of a source, all of which the model will keep; refused where they exceed the budget."""
    if not isinstance(points, Source):
        return points
    rows, features = points.shape
    needed = COPIES * rows * features * points.dtype.itemsize
    if needed > budget:
        raise ValueError(
            f"partition: the model keeps every row, and {rows:,} rows of {points.where} take {needed:,} bytes while it "
            f"is fitted, more than memory_budget={budget:,}: raise memory_budget, or leave partition out"
        )
    return points.to_array()


@one_thread_each
def fit_leaves(
    partition: Partition,
    kernel: Kernel,
    points: AnyPoints,
    Y: Array,
    weights: Array | None,
    centers: AnyPoints,
    solution: Solution,
    *,
    noise: float,
    targets: Targets,
    budget: int,
) -> tuple[LocalFunction, float]:
    """Leaves fitted to what the global model leaves, in the units of the targets, and the seconds that took.

    Each leaf keeps to one thread, and several are solved at the same time.
    """
    started = time.perf_counter()
    base = Predictor(
        kernel,
        centers,
        as_numpy(solution.coefficients),
        as_numpy(solution.intercept),
        wide=shows_in(solution),  # as it is when the model predicts
        memory_budget=budget,
    )
    local = fit_partition(
        kernel,
        points,
        Y,
        noise,
        partition,
        base=base,
        weights=weights,
        memory_budget=budget,
        threads=threads_to_share(),
        bar=progress.stage("fitting leaves"),
    )
    unit = np.broadcast_to(np.asarray(targets.unit, dtype=np.float64), Y.shape[1:])
    return local.in_units(unit), time.perf_counter() - started
