"""What a fit chooses before it solves: kernel, penalty and centers, each as the estimator's parameters say."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse

from gyrfalcon import centers as center_rules
from gyrfalcon import progress
from gyrfalcon.arrays import AnyPoints, as_kind, device_of, torch_dtype
from gyrfalcon.data import Source
from gyrfalcon.kernels import Kernel
from gyrfalcon.losses import Loss, ResidualLoss, Squared, has_kink
from gyrfalcon.partition import Partition
from gyrfalcon.persistence import pack_points, unpack_points
from gyrfalcon.tuning import Trace
from gyrfalcon.tuning.automatic import Learned, learn
from gyrfalcon.tuning.journal import Journal
from gyrfalcon.tuning.neighborhoods import ask_neighbors, confirmed, neighborhoods
from gyrfalcon.tuning.packing import pack, unpack
from gyrfalcon.tuning.path import PenaltyPath
from gyrfalcon.tuning.rows import Data
from gyrfalcon.tuning.settings import Recipe, Tuning
from gyrfalcon.tuning.settings import read as tuning_settings

from .beginning import Beginning
from .deadline import TUNING_SHARE, affordable
from .length_scale import resolve_kernels
from .loss_noise import noise_of_loss
from .trial import Trial, try_partition

if TYPE_CHECKING:
    from .pipeline import Settings

Array = np.ndarray[Any, Any]

AUTO_PENALTY = 0.01  # over the sum of the weights: a noise of a hundredth of the prior's variance
RESERVOIR_ROWS = 50_000  # of a source, that one pass brings into memory, at least
RESERVOIR_ROWS_PER_CENTER = 20
RESERVOIR_SHARE = 4  # the share of the memory budget, as a divisor, that they may take
_BLOCK = 1 << 18  # rows of targets looked at together
MANY_UNSEEN = 2  # times the rows that kernels were judged by, from which on most rows have not been looked at
SMALL = 5000  # rows that are always searched for repetitions


class Choices:
    """Makes the choices of one fit, in the order in which they draw random numbers: kernel and penalty, then centers.

    What a checkpoint holds of them is taken from there, with the state of the random numbers that it left.

    Parameters
    ----------
    settings : Settings
        What the estimator's parameters say.
    data : Data
        AnyPoints, targets as the solver gets them, weights.
    loss : Loss
    beginning : Beginning
    also : array of ints, optional
        Numbers of rows of a source that are to be brought into memory in the same pass.
    """

    def __init__(self, settings: Settings, data: Data, loss: Loss, beginning: Beginning, *, also: Array | None = None):
        self.settings, self.loss = settings, loss
        self.random, self.budget, self.checkpoint = beginning.random(), beginning.budget, beginning.checkpoint
        self.deadline = beginning.deadline
        self.cuts: list[str] = []  # what there was no time for
        self._round = ""  # how the stages begin, in the checkpoint, of the tuning that comes next
        self._rows = data.points.shape[0]
        self.total = float(self._rows if data.weights is None else data.weights.sum())
        self.data = self._sampled(data, also)

    def _sampled(self, data: Data, also: Array | None) -> Data:
        """All rows, or those of a source that one pass brings into memory: length scales, tuning, centers and the
        solver's preconditioner are made from them."""
        source = data.points
        if not isinstance(source, Source):
            return data
        numbers = max(1, source.shape[1]) * source.dtype.itemsize
        wanted = max(RESERVOIR_ROWS, RESERVOIR_ROWS_PER_CENTER * self._count_of(source, data.Y.shape[1]))
        count = min(self._rows, max(1, min(wanted, self.budget // (RESERVOIR_SHARE * numbers))))
        present = np.arange(self._rows) if data.weights is None else np.flatnonzero(data.weights)
        rows = np.sort(self.random.choice(present, min(count, len(present)), replace=False, shuffle=False))
        weights = None if data.weights is None else data.weights[rows]
        source.keep(rows if also is None else np.union1d(rows, also))
        return Data(source.take(rows), data.Y[rows], weights)

    @property
    def time_to_begin_again(self) -> bool:
        """Whether tuning took so little of its time that it could be done twice."""
        return self.deadline is None or self.deadline.tuning_seconds >= TUNING_SHARE / 2 * self.deadline.seconds

    def begin_again(self, Y: Array) -> Learned:
        """The kernel and the noise for other targets of the same rows."""
        self.data, self._round = dataclasses.replace(self.data, Y=Y), "second-"
        return self.kernel_and_noise()

    def kernel_and_noise(self) -> Learned:
        """The kernel and the noise to fit with: tuned if they are to be, or what the parameters say."""
        settings, (points, Y, weights) = self.settings, (self.data.points, self.data.Y, self.data.weights)
        given = None if isinstance(settings.penalty, str) else settings.penalty * self.total
        progress.stage("choosing length scales")
        kernels = resolve_kernels(settings.kernel, settings.length_scale, points, weights, self.random)
        how = tuning_settings(settings.tune)
        untuned = Learned(kernels[0], AUTO_PENALTY if given is None else given, None, None)
        # "auto" tunes what was left to it, if it can; an objective that was asked for tunes everything.
        automatic = settings.tune == "auto"
        fixed_penalty = automatic and given is not None
        left_open = isinstance(settings.kernel, str) and isinstance(settings.length_scale, str)
        fixed_kernel = automatic and not (left_open and kernels[0].positive_definite)
        if how is None or (fixed_penalty and fixed_kernel):
            return untuned
        if automatic and not kernels[0].positive_definite:
            return untuned
        mean = np.average(Y, axis=0, weights=weights) if settings.fit_intercept else np.zeros(Y.shape[1])
        spread = _spread(Y, mean, weights)
        if spread <= 4 * np.finfo(float).eps * max(1.0, float(np.abs(mean).max())):
            return untuned  # constant targets
        factor = _curvature(self.loss, Y, spread) / 2  # of the squared loss it is two
        normalized = Data(points, Y, weights, mean, spread)
        learned = self._learn(
            kernels,
            normalized,
            how,
            noise=None if given is None else given / factor,
            fixed_penalty=fixed_penalty,
            fixed_kernel=fixed_kernel,
        )
        if learned is None:
            return untuned
        if isinstance(how, Tuning) and how.follows_recipe and not fixed_kernel:
            learned = self._near(learned, normalized, how.recipe, fixed_penalty=fixed_penalty)
        noise = given if given is not None and fixed_penalty else learned.noise * factor
        if has_kink(self.loss) and given is None:
            also: dict[str, Any] = {"intercept": settings.fit_intercept, "memory_budget": self.budget}
            noise = noise_of_loss(learned.kernel, self.data, self.loss, noise, **also)
        trace = learned.trace.scaled(factor) if isinstance(learned.trace, Trace) else learned.trace
        return dataclasses.replace(learned, noise=noise, trace=trace)

    def _near(self, learned: Learned, data: Data, recipe: Recipe, *, fixed_penalty: bool) -> Learned:
        """What was learned from a part of the rows, corrected by rows as near to each other as all rows are.

        Where every row is a center, of the whole model or of leaves that were asked for: fewer do not tell them apart.
        """
        points, settings = data.points, self.settings
        asked_for = settings.partition is not None and not settings.partition_on_trial
        named = isinstance(settings.centers, str)
        exact = named and self._count_without_leaves(points, data.Y.shape[1]) >= self._rows
        dense = not sparse.issparse(points) and device_of(points).type == "cpu" and points.shape[0] == self._rows
        if not (asked_for or exact) or not dense or not self.time_to_begin_again:
            return learned
        if not recipe.asks_neighbors or self._rows < MANY_UNSEEN * recipe.fitted_rows:
            return learned
        progress.stage("asking neighbors")
        parts = [data.at(rows) for rows in neighborhoods(learned.kernel, points, data.weights)]
        advice = ask_neighbors(
            learned.kernel,
            learned.noise,
            parts,
            fixed_penalty=fixed_penalty,
            memory_budget=self.budget,
        )
        if advice is None:
            return learned
        stages = [advice.stage]
        if advice.better and exact:
            before, after = (learned.kernel, learned.noise), (advice.kernel, advice.noise)
            stages.append(confirmed(before, after, data, self.budget))
        if isinstance(learned.trace, Trace):
            learned.trace.stages += stages
        return dataclasses.replace(learned, kernel=advice.kernel, noise=advice.noise) if stages[-1].chosen else learned

    def _learn(
        self, kernels: Sequence[Kernel], data: Data, settings: Tuning | PenaltyPath, **known: Any
    ) -> Learned | None:
        checkpoint, journal = self.checkpoint, None
        if checkpoint is not None:
            kept = checkpoint.load(f"{self._round}tuning")
            if kept is not None:
                self.random.bit_generator.state = kept[0].pop("random")
                return unpack(*kept)
            evaluations = f"{self._round}evaluations"
            journal = Journal(checkpoint.load(evaluations), partial(checkpoint.keep, evaluations))
            if isinstance(settings, Tuning) and settings.seconds is not None:
                settings = dataclasses.replace(settings, seconds=max(1e-3, settings.seconds - journal.seconds))
        if self.deadline is not None and isinstance(settings, Tuning):
            allowed = self.deadline.tuning_seconds
            settings = dataclasses.replace(settings, seconds=min(allowed, settings.seconds or allowed))
        steps = getattr(settings, "steps", 0)
        learned = learn(
            kernels,
            data,
            settings,
            **known,
            n_centers=self._count(),
            random=self.random,
            memory_budget=self.budget,
            callback=progress.stage("tuning", steps).step,
            journal=journal,
        )
        packed = None if checkpoint is None or learned is None else pack(learned)
        if checkpoint is not None and packed is not None:
            facts, arrays = packed
            if checkpoint.save(f"{self._round}tuning", facts | {"random": self.random.bit_generator.state}, arrays):
                checkpoint.remove(f"{self._round}evaluations")
        return learned

    def _count(self) -> int:
        return self._count_of(self.data.points, self.data.Y.shape[1])

    def _count_of(self, points: AnyPoints, outputs: int) -> int:
        """How many centers there are to be."""
        wish = self.settings.centers
        if not isinstance(wish, str) and not callable(wish):
            return int(np.shape(wish)[0]) if np.ndim(wish) == 2 else int(wish.shape[0])
        if self.settings.partition is not None:
            return self.settings.partition.centers
        return self._count_without_leaves(points, outputs)

    def _count_without_leaves(self, points: AnyPoints, outputs: int) -> int:
        if not isinstance(self.settings.n_centers, str):
            return self.settings.n_centers
        itemsize = torch_dtype(points).itemsize
        return center_rules.automatic_count(self._rows, itemsize, self.budget, outputs)

    def in_time(self, kernel: Kernel, noise: float, *, trial: bool) -> bool:
        """Take fewer centers where a deadline asks for it; whether there is time for a trial."""
        points = self.data.points
        own = not isinstance(self.settings.centers, str) and not callable(self.settings.centers)
        if self.deadline is None or own or sparse.issparse(points):
            return True
        if trial:
            self.settings = dataclasses.replace(self.settings, partition=None)
        wanted = min(self._count(), self._rows)
        count, roomy = affordable(
            self.deadline,
            kernel,
            self.data,
            self._rows,
            wanted,
            noise=noise,
            squared=isinstance(self.loss, Squared),
            memory_budget=self.budget,
        )
        if count < wanted:
            self.cuts.append(f"{wanted:,} → {count:,} centers")
            self.settings = dataclasses.replace(self.settings, n_centers=count)
        elif trial and not roomy and wanted < self._rows:
            self.cuts.append("no trial of a partition")
        return roomy and count == wanted

    def tried_partition(self, partition: Partition, kernel: Kernel, noise: float) -> Trial:
        """The partition if it errs less than the centers that there would be without."""
        self.settings = dataclasses.replace(self.settings, partition=None)
        count, intercept = self._count(), self.settings.fit_intercept
        return try_partition(partition, kernel, self.data, noise, count, intercept=intercept, memory_budget=self.budget)

    def centers(self, kernel: Kernel, penalty: float) -> tuple[AnyPoints, Array | None]:
        """The centers and, if they are all the distinct rows, which of them each row is (-1: it has no weight)."""
        wish, points, weights = self.settings.centers, self.data.points, self.data.weights
        count = self._count()
        partition = self.settings.partition
        exact = count if partition is None else max(count, partition.leaf_rows)  # rows that one leaf may have
        few = self._rows == points.shape[0] <= max(2 * exact, SMALL)
        if few and (partition is not None or (isinstance(wish, str) and wish in center_rules.RULES)):
            rows, group = center_rules.distinct(points, weights)
            if rows.shape[0] <= exact:
                return rows, group
        checkpoint = self.checkpoint if isinstance(wish, str) or callable(wish) else None
        kept = None if checkpoint is None else checkpoint.load("centers")
        if kept is not None:
            return as_kind(unpack_points(kept[1], "centers"), points), None
        progress.stage("choosing centers")
        chosen = center_rules.select(
            wish,
            kernel,
            points,
            count,
            weights=weights,
            penalty=penalty,
            random=self.random,
            memory_budget=self.budget,
        )
        if checkpoint is not None:
            checkpoint.save("centers", {}, pack_points(chosen, "centers"))
        return chosen, None


def _spread(Y: Array, mean: Array, weights: Array | None) -> float:
    """The root of the mean of (Y - mean)², without a copy of Y."""
    total, count = 0.0, 0.0
    for start in range(0, len(Y), _BLOCK):
        rows = slice(start, start + _BLOCK)
        squares = np.square(Y[rows] - mean).mean(1)
        w = np.ones(len(squares)) if weights is None else weights[rows]
        total, count = total + float(w @ squares), count + float(w.sum())
    return math.sqrt(total / count)


def _curvature(loss: Loss, Y: Array, spread: float) -> float:
    """The second derivative of a loss where it is most: at the target, or at f = 0 if it is one of margins; that of the
    squared loss for one that has none there. Of residuals with a kink, its mean if they are normal with that spread.
    """
    if isinstance(loss, ResidualLoss) and loss.kink is not None:
        left = float(loss.slope(torch.tensor(loss.kink - 1, dtype=torch.float64)))
        below = (left + loss.jump) / loss.jump  # the share of residuals below the kink, where the slopes balance
        normal = NormalDist(sigma=spread)
        return loss.jump * normal.pdf(normal.inv_cdf(below)) if 0 < below < 1 else 2.0
    if not loss.smooth:
        return 2.0
    targets = torch.from_numpy(np.ascontiguousarray(Y[:1]))
    start = targets if isinstance(loss, ResidualLoss) else torch.zeros_like(targets)
    found = float(loss.curvature(start, targets))
    return found if 0 < found < math.inf else 2.0
