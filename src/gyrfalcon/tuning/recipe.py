"""Automatic tuning: a few kernels on a few hundred rows, length scales of the best, and rows held out to judge by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from gyrfalcon.kernels import Kernel, Warped
from gyrfalcon.solvers import LeastSquares
from gyrfalcon.threads import one_thread_each

from .batches import Batches, tune_on_batches
from .judging import FAR, Judge, Judged
from .kinds import Kind, is_absolute, kind_of, summed, worth_adding
from .objectives import KFold, Objective
from .optimizers import FAILURES
from .parameters import length_scales
from .reweighting import reweighted
from .rotation import narrowed, widened_as
from .rows import Data, noise_of, shuffled
from .settings import Recipe
from .stages import Run
from .trace import Step
from .tuner import Tuned
from .warping import unwarped, warped_as

NOTHING_LEARNED = 0.98  # of the variance: a kernel that leaves more is not worth adding to
COMMON, FUNCTION, ERROR = range(3)
STEPS = ("one factor for all features", "gradients of the fitted function", "gradients of the error")


@one_thread_each
def search(
    kernels: Sequence[Kernel],
    data: Data,
    noise: float,
    run: Run,
    memory_budget: int,
    *,
    per_feature: bool | None = None,
) -> tuple[Tuned, float]:
    """The best kernel and noise for some rows, as a tuned problem on few of them, and the noise.

    Kernels are screened with a common factor of their length scales. For each of the best, length scales are then made
    from the gradients of the fitted function, and tuned by the gradient of the error, with a price for each move. All
    of these are judged on rows held out, or by folds of few; of kernels that err alike the simplest is taken.
    `per_feature` says whether single length scales are tuned, None leaves it to the rows. The sum of the best kernels
    of each kind is judged too, and taken unless it errs more than the best.
    """
    n, recipe = data.points.shape[0], run.settings.recipe
    run = replace(run, objective=_objective(n, recipe), entries=recipe.search_rows**2, moves_centers=False)
    last = COMMON if per_feature is False or n < recipe.least_rows else ERROR
    found = _Search(kernels, data, noise, run, memory_budget, recipe, last, forced=per_feature is True)
    return found.result()


def _objective(rows: int, recipe: Recipe) -> Objective:
    return KFold(folds=_folds(rows, recipe), random_state=None)


def _folds(rows: int, recipe: Recipe) -> int:
    return min(rows, recipe.folds_of_few) if rows <= recipe.few_rows else 2


class _Pace:
    """A callback that ends a run which would not reach a value in its steps if each gained as much as the last."""

    def __init__(self, inner: Callable[[Step], bool], steps: int, aim: float):
        self.inner, self.left, self.aim = inner, steps, aim
        self.last: float | None = None

    def __call__(self, step: Step) -> bool:
        ended = self.inner(step)
        if self.last is not None:
            self.left -= 1
            ended = ended or step.value * (step.value / self.last) ** self.left > self.aim
        self.last = step.value
        return ended


class _Search:
    """One search: its rows in the order in which they are used, and the kernels as they were screened."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        data: Data,
        noise: float,
        run: Run,
        memory_budget: int,
        recipe: Recipe,
        last: int,
        *,
        forced: bool,
    ):
        self.data, self.run, self.recipe, self.memory_budget = data, run, recipe, memory_budget
        self.last, self.forced = last, forced  # the last step, and whether it is taken whatever the errors say
        # Of the rows, what a fold is fitted to: with the weight of all, a penalty would be more noise than it was.
        self.fitted = 1.0 if run.fixed_penalty else 1 - 1 / _folds(data.points.shape[0], recipe)
        self.order = shuffled(data.points)
        rows = len(self.order)
        held = min(recipe.judging_rows, int(recipe.judging_share * rows))
        self.kept, self.held = self.order[: rows - held], self.order[rows - held :]
        few = data.at(self.order[: recipe.screening_rows])
        first = few.problem(kernels[0], None, noise, memory_budget)
        self.problems = [first.at(kernel=kernel) for kernel in kernels]
        self.screened: list[Tuned] = []
        self.values: list[float] = []
        for problem in self.problems:
            self.screened.append(self._tune(problem, recipe.screening_steps, aim=self._worth_reaching(problem)))
            self.values.append(min(self.screened[-1].trace.values))
            if run.late:  # what was tried so far has to do
                break
        self.problems = self.problems[: len(self.screened)]

    def result(self) -> tuple[Tuned, float]:
        families = self._families()
        if self.run.late:
            tuned = self.screened[int(np.argmin(self.values))]
            return tuned, self._noise(tuned)
        recipe = self.recipe
        factors = () if self.run.fixed_penalty else recipe.noise_factors
        if len(self.held) >= recipe.least_judging_rows:
            judge = Judge(self.data, self.kept[: recipe.fitted_rows], self.held, factors, self.memory_budget)
        else:
            judge = Judge(self.data, self.order, None, factors, self.memory_budget)
        searched = self.data.at(self.order[: recipe.search_rows])
        found = [one for family in families for one in self._candidates(family, searched, judge)]
        if not judge.honest:
            found = [one._replace(error=one.error * self._optimism(one.step)) for one in found]
        best = found[self._decide(found, judge.criterion)]
        if recipe.sums and not self.run.settings.feature_map:  # which maps the points of one kernel
            best = self._alone_or_added(best, found, judge)
        return best.tuned, best.noise

    def _alone_or_added(self, best: Judged, found: list[Judged], judge: Judge) -> Judged:
        """The kernel or, if it errs no more than by a tie, its sum with the best of each other kind."""
        lowest: dict[Kind, Judged] = {kind_of(best.tuned.problem.K.kernel): best}
        for one in sorted(found, key=lambda one: one.error):
            lowest.setdefault(kind_of(one.tuned.problem.K.kernel), one)
        parts = worth_adding(list(lowest.values()))
        if self.run.late or len(parts) == 1 or best.error > NOTHING_LEARNED:
            return best
        problem, step = best.tuned.problem, max(one.step for one in parts)
        kernel, noise = summed(parts)
        posed = problem.at(kernel=kernel, penalty=noise / problem.total_weight)
        added = judge(replace(best.tuned, problem=posed), step, noise)
        if not judge.honest:
            added = added._replace(error=added.error * self._optimism(step))
        chosen = int(added.error < (1 + self.recipe.tie) * best.error)
        self.run.decide(
            "sum of kernels",
            f"{judge.criterion}, of that of a constant",
            [(one.tuned, one.noise, one.error) for one in (best, added)],
            chosen,
            f"the sum, unless it errs more by {self.recipe.tie:.0%}: it depends less on which kernel was chosen",
        )
        return (best, added)[chosen]

    def _optimism(self, step: int) -> float:
        """By how much an error is too low that is judged by rows which one length scale per feature was tuned on."""
        return 1 + self.recipe.optimism * step * self.problems[0].K.n_features / len(self.order)

    def _worth_reaching(self, problem: LeastSquares) -> float:
        """The value that keeps a kernel in the race: near the best of its kind, and what `_finalists` asks so far."""
        kind = kind_of(problem.K.kernel)
        lowest: dict[Kind, float] = {}
        for other, value in zip(self.problems, self.values, strict=False):
            lowest[kind_of(other.K.kernel)] = min(value, lowest.get(kind_of(other.K.kernel), np.inf))
        aim = FAR * lowest.pop(kind, np.inf)
        ahead = sorted(lowest, key=lowest.__getitem__)[: self.recipe.finalists]
        if len(ahead) < self.recipe.finalists:
            return aim
        last = lowest[ahead[-1]]
        if self.recipe.both_metrics and is_absolute(kind) not in map(is_absolute, ahead):
            last = max(last, FAR * lowest[ahead[0]])
        return min(aim, last)

    def _families(self) -> list[list[int]]:
        """The places of kernels of one kind together, but for those far behind the best of it; the best kinds."""
        families: dict[Kind, list[int]] = {}
        for place in np.argsort(self.values, kind="stable"):
            family = families.setdefault(kind_of(self.problems[place].K.kernel), [])
            if not family or self.values[place] <= FAR * self.values[family[0]]:
                family.append(int(place))
        finalists = self._finalists(families)
        if len(self.values) > 1:
            tried = zip(self.screened, self.values, strict=True)
            self.run.decide(
                "kernel",
                f"{self.run.objective.name} on {self.problems[0].K.shape[0]} rows",
                [(tuned, noise_of(tuned.problem), value) for tuned, value in tried],
                int(np.argmin(self.values)),
                f"the lowest error; {len(finalists)} of {len(families)} go on",
            )
        return finalists

    def _finalists(self, families: dict[Kind, list[int]]) -> list[list[int]]:
        """The best kinds and, if all of them have one metric, the best kind of the other unless it is far behind.

        Screening says too little of the metric to leave one out: where few features matter, length scales of single
        features change it.
        """
        kinds = list(families)
        finalists, others = kinds[: self.recipe.finalists], kinds[self.recipe.finalists :]
        if self.recipe.both_metrics:
            limit = FAR * self.values[families[kinds[0]][0]]
            metrics = set(map(is_absolute, finalists))
            near = (kind for kind in others if is_absolute(kind) not in metrics)
            finalists += [kind for kind in islice(near, 1) if self.values[families[kind][0]] <= limit]
        return [families[kind] for kind in finalists]

    def _candidates(self, family: list[int], data: Data, judge: Judge) -> list[Judged]:
        """Kernels of one kind, in order of simplicity: as screened, then tuned on some rows."""
        plain = [self._judged(judge, self.screened[place], COMMON) for place in family]
        best = family[int(np.argmin([one.error for one in plain]))]
        first, constant = self.problems[best], float(np.mean(self.problems[best].value_at_zero))
        # What explains next to nothing may have been led to a constant function: gradients start elsewhere.
        start = self.screened[best].problem if self.values[best] < self.recipe.learned * constant else first
        refined = self._refined(start, data, judge)
        return refined[-1:] if self.forced and refined else plain + refined

    def _refined(self, screened: LeastSquares, data: Data, judge: Judge) -> list[Judged]:
        """A kernel with length scales feature by feature, from those that it was screened with."""
        kernel, d, recipe = screened.K.kernel, screened.K.n_features, self.recipe
        scales = {name: scale for name, scale in length_scales(kernel).items() if scale.ndim <= 1}
        if self.run.late or self.last == COMMON or self.run.fixed_kernel or screened.K.sparse or d == 1 or not scales:
            return []
        each = kernel.with_parameters({name: np.broadcast_to(scale, d).tolist() for name, scale in scales.items()})
        start = data.problem(each, None, noise_of(screened), self.memory_budget)
        found = []
        try:
            before = self.run.objective.evaluate(unwarped(start), self.run.method, gradient=False).value
            weighted = self._tune(start.at(kernel=reweighted(start)), recipe.screening_steps)
            if min(weighted.trace.values) < before:
                start = weighted.problem
                found.append(self._judged(judge, weighted, FUNCTION))
            if self.forced or data.points.shape[0] >= recipe.rows_per_scale * d:
                found.append(self._judged(judge, self._per_feature(start), ERROR))
        except FAILURES:  # a function that does not change, or an objective that has no value
            pass
        return found

    def _per_feature(self, start: LeastSquares) -> Tuned:
        """Length scales feature by feature: from other rows at each step where there are many, or else from some."""
        recipe, kept = self.recipe, len(self.kept)
        if kept < recipe.batches * recipe.batch_rows:
            return self._tune(start, recipe.search_steps, per_feature=True)
        data = self.data.at(self.kept)
        if isinstance(start.K.kernel, Warped):
            data = replace(data, points=start.K.kernel.warp(data.points))
        tuned = tune_on_batches(
            unwarped(start),
            Batches(data, recipe.batch_rows, self.memory_budget),
            self.run,
            steps=min(recipe.batch_steps, self.run.settings.steps),
            learning_rate=recipe.batch_rate,
            shrinkage=recipe.shrinkage / kept,
        )
        return self._posed(start, tuned, tuned.problem.K.kernel)

    def _posed(self, problem: LeastSquares, tuned: Tuned, kernel: Kernel) -> Tuned:
        """What was tuned, with a kernel that belongs to the points of a problem as they are mapped."""
        posed = problem.at(kernel=warped_as(problem, kernel), penalty=tuned.problem.penalty)
        return replace(tuned, problem=posed)

    def _judged(self, judge: Judge, tuned: Tuned, step: int) -> Judged:
        return judge(tuned, step, self._noise(tuned))

    def _noise(self, tuned: Tuned) -> float:
        """The noise of the rows that folds were fitted to."""
        return self.fitted * noise_of(tuned.problem)

    def _tune(self, problem: LeastSquares, steps: int, *, per_feature: bool = False, aim: float = np.inf) -> Tuned:
        """Some steps, or fewer if at the rate of the last one the value would not come down to the `aim`."""
        price = self.recipe.shrinkage / problem.K.shape[0]
        steps = min(steps, self.run.settings.steps)
        plain = unwarped(problem)
        posed = plain if per_feature else narrowed(plain)
        run = self.run if np.isinf(aim) else replace(self.run, callback=_Pace(self.run.callback, steps, aim))
        tuned = run(posed, steps, per_feature=per_feature, shrinkage=price)
        found = tuned.problem.K.kernel
        return self._posed(problem, tuned, found if posed is plain else widened_as(plain, found))

    def _decide(self, found: list[Judged], criterion: str) -> int:
        """The place of the lowest error or, of the same kind, of the simplest that errs alike."""
        best = min(found, key=lambda one: one.error)
        kind, limit = kind_of(best.tuned.problem.K.kernel), (1 + self.recipe.tie) * best.error
        alike = [kind_of(one.tuned.problem.K.kernel) == kind and one.error <= limit for one in found]
        chosen = alike.index(True)
        self.run.decide(
            "length scales",
            f"{criterion}, of that of a constant",
            [(one.tuned, one.noise, one.error) for one in found],
            chosen,
            f"{STEPS[found[chosen].step]}: the lowest error, or the simplest of those within {self.recipe.tie:.0%}",
        )
        return chosen
