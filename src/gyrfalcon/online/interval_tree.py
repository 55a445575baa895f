"""Factors of the rows that are in a sliding window throughout an interval of time, made before the interval begins.

Time is cut in halves, again and again, down to leaves of a few moments. The factor of an interval is made during a time
as long as itself. It starts from that of the interval twice as long in which it lies: from the finished one, if it is
its second half; from the one that is being made, half-way, if it is its first. Then it takes up rows that arrive, and
old ones that leave the window later, in rounds as long as a leaf. So no moment has much more to do than another.

What a factor takes up, and in which order, depends on its interval alone. Whoever was not asked for a while, or comes
from a file, makes up for it and has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .factor import Factor

LEAF = 8  # moments of the shortest intervals


class Stage(NamedTuple):
    """How far the factor of an interval is made: rounds that are done, and whether the old rows of the next one are."""

    level: int
    number: int
    rounds: int
    begun: bool


class Node:
    """The factor of an interval at some stage: of the rows from `first` to before `end`, weighted as at the start."""

    def __init__(self, stage: Stage, start: int, target: int, factor: Factor, first: int, end: int):
        self.stage, self.start, self.target = stage, start, target
        self.factor, self.first, self.end = factor, first, end


class IntervalTree:
    """The intervals around the present moment, at each level the one that holds it and the one after it.

    Parameters
    ----------
    length : int
        The number of rows in the window.
    forgetting : float
    new : callable
        Makes the factor of no rows.
    take_up : callable of (factor, moment, first, end)
        Lets a factor take up the rows from `first` to before `end`, weighted as at a moment.
    """

    def __init__(
        self,
        length: int,
        forgetting: float,
        new: Callable[[], Factor],
        take_up: Callable[[Factor, int, int, int], None],
    ):
        self._length, self._forgetting, self._new, self._take_up = length, forgetting, new, take_up
        self.leaf = 1 << (min(LEAF, length).bit_length() - 1)
        self.levels = (length // self.leaf).bit_length()  # the longest intervals have at most `length` moments
        self.reset()

    def reset(self) -> None:
        self._now: dict[int, Node] = {}  # by level, finished: of the present moment
        self._next: dict[int, Node] = {}  # by level: being made
        self._tasks: list[int] = []  # levels with something to do before the next leaf begins
        self._ready = -1  # the last moment whose work was done

    def factors(self) -> Iterator[Factor]:
        """All that are kept."""
        for node in (*self._now.values(), *self._next.values()):
            yield node.factor

    def finished_leaf(self, moment: int) -> Node:
        """That of the leaf that holds a moment, whose row has come."""
        level = self.levels - 1
        stage = self._finished(level, moment // self.leaf)
        if level not in self._now or self._now[level].stage != stage:
            for node in self._make([stage]).values():
                if node.stage == self._finished(node.stage.level, moment // self._span(node.stage.level)):
                    self._now[node.stage.level] = node
        return self._now[level]

    def work_ahead(self, moment: int) -> None:
        """Do what belongs to a moment, whose row has come, so that later moments find their leaves finished."""
        phase = moment % self.leaf
        if self._ready != moment - 1 or self._ready < 0:
            self._catch_up(moment - phase)
        elif phase == 0:
            last = self.levels - 1
            self._arrive(self._next[last], moment)
            self._now[last] = self._next.pop(last)
            self._tasks = list(range(self.levels))
        for _ in range(-(-len(self._tasks) // max(1, self.leaf - 1 - phase)) if phase or self.leaf == 1 else 0):
            self._work(self._tasks.pop(0), moment - phase)
        self._ready = moment

    def _work(self, level: int, boundary: int) -> None:
        """What a level has to do at a boundary of leaves, after the levels before it."""
        node = self._next.get(level)
        if node is not None:
            self._arrive(node, boundary)
            if node.stage.rounds == self._rounds(level):
                self._now[level] = self._next.pop(level)
                node = None
        if node is None:
            number = boundary // self._span(level) + 1
            source = self._source(level, number)
            above = (
                None if source is None else self._now[source.level] if not source.begun else self._next[source.level]
            )
            assert above is None or above.stage == source
            node = self._next[level] = self._begin(level, number, above)
        self._add_old(node)

    def _catch_up(self, boundary: int) -> None:
        """Make all that would be there after the work of a boundary."""
        stages = []
        for level in range(self.levels):
            number, inside = divmod(boundary, self._span(level))
            stages += [self._finished(level, number), Stage(level, number + 1, inside // self.leaf, True)]
        made = self._make(stages)
        for level in range(self.levels):
            self._now[level], self._next[level] = made[stages[2 * level]], made[stages[2 * level + 1]]
        self._tasks = []

    # Stages.

    def _span(self, level: int) -> int:
        return self.leaf << (self.levels - 1 - level)

    def _rounds(self, level: int) -> int:
        return self._span(level) // self.leaf

    def _finished(self, level: int, number: int) -> Stage:
        return Stage(level, number, self._rounds(level), False)

    def _source(self, level: int, number: int) -> Stage | None:
        """What the factor of an interval starts from."""
        if level == 0:
            return None
        if number % 2:
            return self._finished(level - 1, number // 2)
        return Stage(level - 1, number // 2, self._rounds(level - 1) // 2, True)

    def _make(self, stages: Iterable[Stage]) -> dict[Stage, Node]:
        """Nodes at these stages, and at those that they start from; what is there already is not made again."""
        wanted: set[Stage] = set(stages)
        made = {node.stage: node for node in self._now.values() if node.stage in wanted}
        for level in range(self.levels - 1, 0, -1):
            for stage in [one for one in wanted if one.level == level and one not in made]:
                source = self._source(level, stage.number)
                assert source is not None
                wanted.add(source)
                made |= {node.stage: node for node in self._now.values() if node.stage == source}
        for level in range(self.levels):
            missing = sorted(one for one in wanted if one.level == level and one not in made)
            for number in sorted({one.number for one in missing}):
                source = self._source(level, number)
                node = self._begin(level, number, None if source is None else made[source])
                for stage in (one for one in missing if one.number == number):
                    self._advance(node, stage)
                    made[stage] = self._copied(node)
        return made

    def _copied(self, node: Node) -> Node:
        return Node(node.stage, node.start, node.target, node.factor.copy(), node.first, node.end)

    def _begin(self, level: int, number: int, source: Node | None) -> Node:
        span = self._span(level)
        start, stage = number * span, Stage(level, number, 0, False)
        target = max(0, start + span - self._length)  # the oldest row that stays until the interval ends
        if source is None:
            return Node(stage, start, target, self._new(), target, target)
        factor = source.factor.copy()
        if self._forgetting != 1.0 and start > source.start:
            factor.forget(self._forgetting ** (start - source.start))
        first, end = source.first, source.end
        if first == end:  # nothing yet, since all its rows are still to come: not so those of a shorter interval
            first = end = min(end, max(target, start - span + 1))
        return Node(stage, start, target, factor, first, end)

    def _advance(self, node: Node, stage: Stage) -> None:
        began = node.start - self._span(stage.level)
        while node.stage.rounds < stage.rounds:
            if not node.stage.begun:
                self._add_old(node)
            self._arrive(node, began + (node.stage.rounds + 1) * self.leaf)
        if stage.begun and not node.stage.begun:
            self._add_old(node)

    def _add_old(self, node: Node) -> None:
        """A share of the old rows that a node lacks: it has all of them half-way, when another starts from it."""
        rounds = self._rounds(node.stage.level) // 2 - node.stage.rounds
        first = node.first - -(-(node.first - node.target) // max(1, rounds))
        if first < node.first:
            self._take_up(node.factor, node.start, first, node.first)
        node.first, node.stage = first, node.stage._replace(begun=True)

    def _arrive(self, node: Node, moment: int) -> None:
        """Rows up to a moment, which is the end of a round."""
        if node.end <= moment:
            self._take_up(node.factor, node.start, node.end, moment + 1)
            node.end = moment + 1
        node.stage = node.stage._replace(rounds=node.stage.rounds + 1, begun=False)
