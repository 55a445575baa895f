"""From checked data to a fitted function: choose kernel, penalty and centers, then solve. Knows no estimators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gyrfalcon import centers as center_rules
from gyrfalcon.arrays import AnyPoints, Array, as_kind, device_of, torch_dtype
from gyrfalcon.centers.rows import take
from gyrfalcon.data import Points, Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.losses import Squared, has_kink
from gyrfalcon.matrix import KernelMatrix
from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.partition import LocalFunction, Partition
from gyrfalcon.solvers import (
    EarlyStopping,
    EigenPro,
    Exact,
    LeastSquares,
    Record,
    Risk,
    Solution,
    Solver,
    Step,
    choose,
)
from gyrfalcon.solvers.rounding import shows_in
from gyrfalcon.threads import one_thread_but_for_products
from gyrfalcon.tuning import Grid, Trace
from gyrfalcon.tuning.automatic import Learned
from gyrfalcon.tuning.rows import Data

from .beginning import Beginning
from .choices import SMALL, Choices
from .deadline import Deadline
from .interrupts import what_was_reached
from .monitor import Monitor
from .partitioned import fit_leaves, global_model, leaves_of_neighbors, rows_in_memory
from .resuming import resume_solve
from .targets import Coefficients, RegressionTargets, Targets
from .transform_trial import try_transforms, with_residuals


@dataclass(frozen=True)
class Settings:
    """What an estimator's parameters say about its fit, checked.

    `solver` is a Solver, or None for the one that is expected to be fastest; `penalty` and `n_centers` are numbers or
    "auto"; `devices` share the rows, if they are not None. A partition that is on trial is kept if it errs less, and
    so is a transform of the targets that is "auto". Without a partition, neighbors may be asked for leaves.
    """

    kernel: Any
    length_scale: Any
    penalty: float | str
    centers: Any
    n_centers: int | str
    solver: Solver[Any] | None
    fit_intercept: bool
    early_stopping: EarlyStopping | None
    tune: Any
    devices: list[Any] | None
    partition: Partition | None = None
    partition_on_trial: bool = False
    asks_neighbors: bool = False
    target_transform: str | None = None


@dataclass(frozen=True)
class Validation:
    """Rows that the fit does not see, their targets and weights; `rows` are their numbers in `points` if that is a
    Source, from which they are gathered together with the sample that the fit takes."""

    points: AnyPoints
    y: Array
    weights: Array | None = None
    rows: Array | None = None

    def gathered(self) -> Validation:
        """The same with the rows in memory."""
        return self if self.rows is None else Validation(take(self.points, self.rows), self.y, self.weights)


@dataclass(frozen=True)
class Known:
    """Kernel, centers, penalty and coefficients of an earlier fit, to begin from."""

    kernel: Kernel
    centers: AnyPoints
    penalty: float
    start: Coefficients


@dataclass(frozen=True)
class Fitted:
    """What came of a fit; `problem` and `solution` are in the units of the solver."""

    targets: Any
    kernel: Kernel
    centers: AnyPoints
    penalty: float
    tuning: Trace | Grid | None
    problem: LeastSquares | Risk
    solution: Solution
    record: Record
    total_weight: float
    interrupted: bool
    local: LocalFunction | None = None
    deadline: Deadline | None = None


@dataclass(frozen=True)
class Chosen:
    """What a fit has chosen before it solves; `group` says which center each row is, where all are centers."""

    settings: Settings
    targets: Any
    kernel: Kernel
    centers: AnyPoints
    penalty: float
    group: Array | None = None
    tuning: Trace | Grid | None = None
    cuts: tuple[str, ...] = ()  # what a limit of time cut


FEW_CENTERS = 5000  # up to which more than one thread of BLAS saves less than a second
FEW_KEPT_ENTRIES = 5e7  # and so many entries of K that are kept, which are read in some hundredths of a second


Notify = Callable[[Callable[[], Coefficients]], bool]
"""Told of each iteration with a function that gives the coefficients so far; True stops the fit."""


def fit_function(
    settings: Settings,
    points: AnyPoints,
    y: Array,
    weights: Array | None,
    targets: Targets,
    beginning: Beginning,
    *,
    known: Known | None = None,
    validation: Validation | None = None,
    notify: Callable[[Solver[Any], Chosen], Notify] | None = None,
    callback: Callable[[Step], Any] | None = None,
) -> Fitted:
    """Fit f = Σⱼ βⱼ k(·, cⱼ) to rows and targets.

    Parameters
    ----------
    settings : Settings
    points : array, tensor, CSR or Source of shape (n, d)
    y : array of n targets
    weights : array of shape (n,), optional
    targets : Targets
    beginning : Beginning
        Seeds, the memory budget and the checkpoint.
    known : Known, optional
        An earlier fit to go on from, with its kernel and centers.
    validation : Validation, optional
        Rows to judge iterates by.
    notify : callable (Solver, Chosen) -> Notify, optional
        Makes what is told of each iteration of the solver.
    callback : callable (Step) -> bool or None, optional
        A function of the user's, told of each iteration too; True stops.
    """
    Y = targets.encode(y)
    if settings.partition is not None and not settings.partition_on_trial:
        points = rows_in_memory(points, beginning.budget)
    total = float(points.shape[0] if weights is None else weights.sum())
    if known is not None:
        chosen = _keep(settings, known, points, weights, targets)
    else:
        also = None if validation is None else validation.rows
        chosen = _choose(settings, Data(points, Y, weights), y, targets, total, beginning, also)
    if chosen.targets is not targets:
        targets, Y = chosen.targets, chosen.targets.encode(y)
    settings, kernel, C, penalty = chosen.settings, chosen.kernel, chosen.centers, chosen.penalty
    problem = _pose(settings, kernel, points, C, Y, weights, chosen.group, penalty, targets, beginning.budget)
    solver, reason = _solver_of(settings, problem, beginning.solver_seed)
    _check_options(settings, solver, targets, problem)
    if callback is not None and not solver.traits.iterates:
        raise ValueError(f"callback: solver={solver.name!r} does not iterate: leave it out, or take solver='falkon'")
    validation = None if validation is None else validation.gathered()

    def error(found: Coefficients, local: LocalFunction | None = None, *, wide: bool = False) -> float:
        assert validation is not None
        predict = Predictor(
            kernel, C, *targets.decode(found), wide=wide, memory_budget=beginning.budget, devices=settings.devices
        )
        values = predict(validation.points)
        values = values if local is None else values + local.local(validation.points)
        return targets.error(values, validation.y, validation.weights)

    monitor = Monitor(
        solver,
        validate=None if validation is None else error,
        stopping=settings.early_stopping,
        notify=None if notify is None else notify(solver, chosen),
        callback=callback,
        deadline=beginning.deadline,
    )
    with _threads_of(problem):
        solution, interrupted = _solve(problem, solver, known, monitor, beginning)
    if settings.early_stopping is not None and monitor.best is not None:
        solution = dataclasses.replace(solution, coefficients=monitor.best[0], intercept=monitor.best[1])
    found, local = (solution.coefficients, solution.intercept), None
    if not problem.K.symmetric and not interrupted:
        local = _leaves(chosen, Data(points, Y, weights), solution, targets, beginning.budget)
    if local is not None:
        reason = f"{reason}; {local.n_leaves} leaves are solved exactly"
    if validation is not None and (local is not None or not monitor.errors):  # what does not iterate is judged once
        monitor.errors.append(error(found, local, wide=shows_in(solution)))
    if chosen.cuts:
        reason = f"{reason}; time budget: {', '.join(chosen.cuts)}".removeprefix("; ")
    record = dataclasses.replace(
        solution.record,
        message=f"stopped early: {monitor.stopped}" if monitor.stopped else solution.record.message,
        reason=reason,
        plan=str(problem.K.plan()),
        validation_errors=monitor.errors or solution.record.validation_errors,
    )
    return Fitted(
        targets,
        kernel,
        C,
        penalty,
        chosen.tuning,
        problem,
        solution,
        record,
        total,
        interrupted,
        local,
        beginning.deadline,
    )


def _leaves(chosen: Chosen, data: Data, solution: Solution, targets: Any, budget: int) -> LocalFunction | None:
    """Leaves on what centers leave: those that were chosen, or others if neighbors ask for them.

    Means of transformed targets are made from residuals of the centers alone: neighbors are not asked there.
    """
    settings, kernel, own = chosen.settings, chosen.kernel, None
    partition = settings.partition
    asks = settings.asks_neighbors and not any(getattr(targets, "transforms", ()))
    if partition is None and not asks:
        return None
    total = float(len(data.Y) if data.weights is None else data.weights.sum())
    noise, base = chosen.penalty * total, global_model(kernel, chosen.centers, solution, budget)
    if partition is None:
        found = leaves_of_neighbors(base, kernel, data, noise, budget)
        if found is None:
            return None
        partition, advice = found
        if isinstance(chosen.tuning, Trace):
            chosen.tuning.stages.append(advice.stage.in_units_of(total))
        if not advice.better:
            return None
        own = advice.kernel, advice.noise
    local, seconds = fit_leaves(partition, kernel, data, base, noise=noise, targets=targets, budget=budget, own=own)
    solution.record.seconds["leaves"] = seconds
    return local


def _keep(settings: Settings, known: Known, points: AnyPoints, weights: Array | None, targets: Targets) -> Chosen:
    """The kernel and the centers of an earlier fit, and its penalty unless the settings say another."""
    C = as_kind(known.centers, points)
    penalty = known.penalty if isinstance(settings.penalty, str) else settings.penalty
    return Chosen(settings, targets, known.kernel, C, penalty, _same_rows(points, weights, C))


def _choose(
    settings: Settings,
    data: Data,
    y: Array,
    targets: Any,
    total: float,
    beginning: Beginning,
    also: Array | None,
) -> Chosen:
    """Transform, kernel, penalty, centers and leaves that suit the rows, where the settings leave them open."""
    choices = Choices(settings, data, targets.loss, beginning, also=also)
    learned = choices.kernel_and_noise()
    if settings.target_transform == "auto":
        targets, learned = _transformed(choices, learned, targets, y, data.weights)
    kernel, penalty = learned.kernel, learned.noise / total
    tuning = learned.trace.in_units_of(total) if isinstance(learned.trace, Trace) else learned.trace
    unpenalized = settings.solver is not None and not settings.solver.traits.needs_penalty
    if isinstance(settings.penalty, str) and (unpenalized or not (targets.loss.smooth or has_kink(targets.loss))):
        penalty = 0.0
    on_trial = settings.partition_on_trial
    roomy = choices.in_time(kernel, penalty * total, trial=on_trial)
    partition, n_centers = settings.partition if roomy or not on_trial else None, choices.settings.n_centers
    if on_trial and partition is not None:
        partition, count, stage = choices.tried_partition(partition, kernel, penalty * total)
        n_centers = n_centers if stage is None or partition is not None else count
        if stage is not None and isinstance(tuning, Trace):
            tuning.stages.append(stage.in_units_of(total))
    choices.settings = dataclasses.replace(choices.settings, partition=partition, n_centers=n_centers)
    if learned.centers is None:
        C, group = choices.centers(kernel, penalty)
    else:
        C, group = as_kind(learned.centers, data.points), None
    if isinstance(targets, RegressionTargets) and any(targets.transforms):
        through = None if partition is not None or group is not None else C
        targets = with_residuals(targets, choices.data, kernel, through, penalty * total, total, settings.fit_intercept)
    return Chosen(choices.settings, targets, kernel, C, penalty, group, tuning, tuple(choices.cuts))


def _transformed(
    choices: Choices, learned: Learned, targets: RegressionTargets, y: Array, weights: Array | None
) -> tuple[RegressionTargets, Learned]:
    """Targets as they are or with a transform, if that errs less, and what was then learned for them."""
    if not isinstance(learned.trace, Trace) or not choices.time_to_begin_again:
        return targets, learned
    intercept, open_noise = choices.settings.fit_intercept, isinstance(choices.settings.penalty, str)
    raw = choices.data.Y * targets.scale + targets.location
    trial = try_transforms(raw, choices.data, learned.kernel, learned.noise, intercept=intercept, open_noise=open_noise)
    if trial.transforms:
        targets = RegressionTargets.of(y, weights, targets.loss, centered=intercept, transforms=trial.transforms)
        learned = choices.begin_again(targets.encode(raw))
    if isinstance(learned.trace, Trace):
        learned.trace.stages[:0] = trial.stages
    return targets, learned


def _solver_of(settings: Settings, problem: LeastSquares | Risk, seed: int) -> tuple[Solver[Any], str]:
    """The solver, and why it was taken if the settings leave that open."""
    if settings.solver is not None:
        return settings.solver, ""
    if settings.partition is not None and problem.K.symmetric:
        return Exact(), f"partition: all {problem.K.shape[0]} points are in one leaf"
    solver, reason = choose(problem)
    return seeded(solver, seed), reason


def _check_options(settings: Settings, solver: Solver[Any], targets: Targets, problem: LeastSquares | Risk) -> None:
    """Refuse what does not apply to the solver, before it begins."""
    traits = solver.traits
    solver.check(loss=targets.loss)
    if traits.holds_out and problem.K.shape[0] < 2:
        raise ValueError(
            f"solver={solver.name!r} holds rows out, which needs two different ones: choose another solver"
        )
    if settings.early_stopping is None:
        return
    if traits.holds_out:
        own = "stopping=EarlyStopping(...)" if hasattr(solver, "stopping") else "validation=..."
        raise ValueError(
            f"early_stopping: solver={solver.name!r} holds out rows by itself: switch early_stopping off, and set "
            f"solver={type(solver).__name__}({own}) instead"
        )
    if not traits.iterates:
        raise ValueError(
            f"early_stopping: solver={solver.name!r} does not iterate: switch early_stopping off, or take 'falkon'"
        )


def _solve(
    problem: LeastSquares | Risk, solver: Solver[Any], known: Known | None, monitor: Monitor, beginning: Beginning
) -> tuple[Solution, bool]:
    """The solution, and whether an interrupt cut the solve short."""
    traits = solver.traits
    options: dict[str, Any] = {}
    if isinstance(problem, Risk):
        options["loss"] = problem.loss
    else:
        options["floor"] = problem.floor
    if traits.iterates:
        options["callback"] = monitor
    if known is not None and traits.starts:
        options["start"] = known.start
    try:
        state = solver.prepare(problem.K, problem.weights, problem.intercept)
        if traits.resumes:
            options |= resume_solve(beginning.checkpoint, state.seconds, monitor)
        return solver.solve(state, problem.Y, problem.penalty, **options), False
    except KeyboardInterrupt:
        if monitor.latest is None:
            raise
        return what_was_reached(solver.name, monitor.latest, problem.Y.shape[1]), True


def _threads_of(problem: LeastSquares | Risk) -> AbstractContextManager[None]:
    """One thread for what is no product with K, where there are few centers and the compiled core makes products."""
    K = problem.K
    small = K.shape[1] <= FEW_CENTERS and K.engine == "native"
    small = small and (not K.cached or K.shape[0] * K.shape[1] <= FEW_KEPT_ENTRIES)
    return one_thread_but_for_products() if small else nullcontext()


def _pose(
    settings: Settings,
    kernel: Kernel,
    points: AnyPoints,
    C: AnyPoints,
    Y: Array,
    weights: Array | None,
    group: Array | None,
    penalty: float,
    targets: Targets,
    budget: int,
) -> LeastSquares | Risk:
    """The problem that the solver gets; with one row for each center where all distinct rows are centers."""
    floor: Any = 0.0
    symmetric = False
    if group is not None and isinstance(targets.loss, Squared):
        Y, weights, floor = center_rules.merge(Y, weights, group, C.shape[0])
        points, symmetric = C, True
    elif group is not None and (equal := center_rules.merge_equal(Y, weights, group, C.shape[0])) is not None:
        Y, weights = equal
        points, symmetric = C, True
    elif group is None and not isinstance(points, Source):
        symmetric = Points(points).equals(Points(C))
    if weights is not None and weights.min() == weights.max():
        weights = None
    if weights is not None and isinstance(settings.solver, EigenPro):
        symmetric = False  # it weighs rows beside their centers
    dtype, device = torch_dtype(points), device_of(points)
    target_columns = torch.from_numpy(np.ascontiguousarray(Y)).to(device, dtype)
    w = None if weights is None else torch.from_numpy(weights / weights.max())[:, None].to(device, dtype)
    checked = Points(points)
    K = KernelMatrix(kernel, checked, None if symmetric else Points(C), memory_budget=budget, devices=settings.devices)
    if isinstance(targets.loss, Squared):
        return LeastSquares(K, target_columns, penalty, w, settings.fit_intercept, floor=floor)
    return Risk(K, target_columns, penalty, targets.loss, w, settings.fit_intercept)


def _same_rows(points: AnyPoints, weights: Array | None, C: AnyPoints) -> Array | None:
    """Which center each row is, if the centers of an earlier fit are the distinct rows of this one."""
    if isinstance(points, Source) or points.shape[0] > max(2 * C.shape[0], SMALL):
        return None
    rows, group = center_rules.distinct(points, weights)
    return group if Points(rows).equals(Points(C)) else None


def seeded(solver: Solver[Any], seed: int) -> Solver[Any]:
    """A solver with default settings that draws random numbers, with a seed."""
    return dataclasses.replace(solver, random_state=seed) if hasattr(solver, "random_state") else solver  # type: ignore[type-var]


def devices_of(device: Any, points: AnyPoints) -> list[Any] | None:
    """The devices that share the rows, if they are not all on one: blocks of rows go there, X stays where it is."""
    if isinstance(device, list | tuple):
        return list(device)
    return [device] if device is not None and isinstance(points, Source) else None
