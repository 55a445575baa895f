"""A partition inside an estimator: what it goes with, and how its leaves are fitted to what the global model leaves."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from gyrfalcon import progress
from gyrfalcon.arrays import AnyPoints, as_numpy, device_of
from gyrfalcon.centers.rows import take
from gyrfalcon.data import Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.partition import LocalFunction, Partition, fit_partition
from gyrfalcon.partition.leaves import MATRICES
from gyrfalcon.solvers import Solution
from gyrfalcon.solvers.rounding import shows_in
from gyrfalcon.threads import one_thread_each, threads_to_share
from gyrfalcon.tuning.neighborhoods import Advice, ask_neighbors, neighborhoods
from gyrfalcon.tuning.parameters import length_scales
from gyrfalcon.tuning.rows import Data

from .targets import Targets
from .trial import MOST_ROWS

if TYPE_CHECKING:
    from .base import KernelEstimator
    from .pipeline import Fitted

LEAF_ROWS, LEAF_OVERLAP = 1000, 0.05  # of leaves for neighbors, who are near enough
WORTH_LEAVES = 0.95  # of the error of the global model that leaves may leave of it: they make a model of every row
JUDGED = 4  # one neighborhood of so many is left out row by row, so that it is about as many rows as of other models
COPIES = 3  # of the rows that a fit holds: those read, the distinct ones, and those of the leaves


def asks_neighbors(estimator: KernelEstimator, *, on_trial: bool) -> bool:
    """Whether leaves may have a kernel and a noise of their own: where the defaults choose all of it."""
    open_ = ("kernel", "length_scale", "penalty")
    given = any(not isinstance(getattr(estimator, name), str) for name in open_)
    asked_for_posterior = getattr(estimator, "uncertainty", None) is True  # which leaves do not have in common
    return on_trial and estimator.time_budget is None and not given and not asked_for_posterior


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


def global_model(kernel: Kernel, centers: AnyPoints, solution: Solution, budget: int | None = None) -> Predictor:
    """The function that leaves correct, in the units of the solver."""
    return Predictor(
        kernel,
        centers,
        as_numpy(solution.coefficients),
        as_numpy(solution.intercept),
        wide=shows_in(solution),  # as it is when the model predicts
        memory_budget=budget,
    )


def leaves_of_neighbors(
    base: Predictor, kernel: Kernel, data: Data, noise: float, budget: int
) -> tuple[Partition, Advice] | None:
    """Leaves for what a global model leaves, if neighbors tell it of each other, with the kernel that suits them.

    Centers too few to tell neighbors apart leave it, and a trial on a sample of the rows, where they are far from each
    other, does not show it.
    """
    points, rows = data.points, data.points.shape[0]
    if isinstance(points, Source) or sparse.issparse(points) or device_of(points).type != "cpu" or kernel.explicit:
        return None
    partition = Partition(leaf_rows=LEAF_ROWS, overlap=LEAF_OVERLAP)
    fits = 8 * MATRICES * partition.leaf_rows**2 <= budget
    if not (fits and length_scales(kernel) and 2 * partition.leaf_rows <= rows <= MOST_ROWS):
        return None
    progress.stage("asking neighbors")
    parts = []
    for near in neighborhoods(kernel, points, data.weights):
        part = data.at(near)
        parts.append(dataclasses.replace(part, Y=part.Y - base(part.points)))
    also: dict[str, Any] = {"fixed_penalty": False, "correction": True, "worth": WORTH_LEAVES}
    advice = ask_neighbors(kernel, noise, parts, memory_budget=budget, **also)
    return None if advice is None else (partition, advice)


@one_thread_each
def fit_leaves(
    partition: Partition,
    kernel: Kernel,
    data: Data,
    base: Predictor,
    *,
    noise: float,
    targets: Targets,
    budget: int,
    own: tuple[Kernel, float] | None = None,
) -> tuple[LocalFunction, float]:
    """Leaves fitted to what the global model leaves, in the units of the targets, and the seconds that took.

    Each leaf keeps to one thread, and several are solved at the same time. With a kernel and a noise of their `own`,
    their prior is that of what is left, and not of the targets.
    """
    started, Y = time.perf_counter(), data.Y
    if own is not None:
        kernel, noise, Y = *own, Y - base(data.points)
    local = fit_partition(
        kernel,
        data.points,
        Y,
        noise,
        partition,
        base=base if own is None else None,
        weights=data.weights,
        memory_budget=budget,
        threads=threads_to_share(),
        bar=progress.stage("fitting leaves"),
    )
    unit = np.broadcast_to(np.asarray(targets.unit, dtype=np.float64), data.Y.shape[1:])
    return local.in_units(unit), time.perf_counter() - started


def as_judged(fitted: Fitted, points: AnyPoints, *, intercept: bool) -> dict[str, Any]:
    """What `leave_out` has to know of a fit: the kernel, the centers, the noise and whether there is an intercept.

    Of leaves that have a kernel of their own also which rows to take, which are neighbors, and what they correct.
    """
    local, noise = fitted.local, fitted.penalty * fitted.total_weight
    if local is None or local.kernel is fitted.kernel:
        centers = fitted.centers if local is None else None
        return {"kernel": fitted.kernel, "centers": centers, "noise": noise, "intercept": intercept}
    base = global_model(fitted.kernel, fitted.centers, fitted.solution)
    return {
        "kernel": local.kernel,
        "centers": None,
        "noise": local.noise,
        "intercept": False,
        "rows": np.concatenate(neighborhoods(local.kernel, points)[::JUDGED]),
        "below": lambda rows: base(take(points, rows)),
    }
