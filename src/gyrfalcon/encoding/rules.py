"""What becomes of a column: one rule a kind, learned from training data, made of what JSON can hold."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from .columns import Array, Column

RULES: dict[str, type[Rule]] = {}
OTHER = "another"  # what categories without a feature of their own are called
FEWEST = 2  # rows that a category with a feature of its own has
COUNTED = 10_000  # categories whose frequencies are kept


@dataclass(frozen=True)
class Rule:
    """Turns a column into the features that `labels` names; those of them that varied in the fit are `kept`."""

    kind: ClassVar[str]
    name: str
    kept: tuple[int, ...]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        RULES[cls.kind] = cls

    @property
    def labels(self) -> list[str]:
        raise NotImplementedError

    def features(self, column: Column) -> Array:
        """Of shape (rows, labels)."""
        raise NotImplementedError

    def unseen(self, column: Column) -> tuple[int, str]:
        """How many rows hold what was not in the fit, a category or a missing value, and an example of it."""
        raise NotImplementedError

    def values(self, features: Array) -> Array:
        """What the kept features say of the column: numbers, days since 1970, or names of categories."""
        return features[:, 0]

    def __str__(self) -> str:
        raise NotImplementedError

    @property
    def names(self) -> list[str]:
        return [self.labels[place] for place in self.kept]

    def __call__(self, column: Column) -> Array:
        return self.features(column)[:, self.kept]

    def keeping_what_varies(self, column: Column) -> Self:
        features = self.features(column)
        varies = features.min(0) != features.max(0)
        return dataclasses.replace(self, kept=tuple(np.flatnonzero(varies).tolist()))

    def to_dict(self) -> dict[str, Any]:
        return {"rule": self.kind, **dataclasses.asdict(self)}

    @staticmethod
    def from_dict(description: dict[str, Any]) -> Rule:
        known = RULES[description["rule"]]
        fields = {field.name: description[field.name] for field in dataclasses.fields(known)}
        arguments: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
        rule = known(**arguments)
        if not all(0 <= place < len(rule.labels) for place in rule.kept):
            raise ValueError(f"column {rule.name!r} has no feature of that number: {rule.kept}")
        return rule


def _median(values: Array) -> float:
    """The median of the numbers that are there; halved, since the sum of the two in the middle may overflow."""
    return 2 * float(np.nanmedian(0.5 * values))


def _check_median(name: str, median: Any) -> None:
    if not isinstance(median, float) or not math.isfinite(median):
        raise ValueError(f"column {name!r} has no median: {median!r}")


@dataclass(frozen=True)
class NumberRule(Rule):
    """The number, the median where it is missing, and whether it is."""

    kind = "number"
    median: float

    def __post_init__(self) -> None:
        _check_median(self.name, self.median)

    @classmethod
    def learn(cls, column: Column) -> NumberRule:
        return cls(column.name, (), _median(column.as_numbers())).keeping_what_varies(column)

    @property
    def labels(self) -> list[str]:
        return [self.name, f"{self.name} is missing"]

    def features(self, column: Column) -> Array:
        values = column.as_numbers()
        missing = np.isnan(values)
        return np.stack([np.where(missing, self.median, values), missing], 1)

    def unseen(self, column: Column) -> tuple[int, str]:
        return (0 if 1 in self.kept else int(np.isnan(column.as_numbers()).sum())), "no value"

    def __str__(self) -> str:
        indicator = " and are marked" if 1 in self.kept else ""
        return f"number; missing values become {self.median:g}{indicator}"


@dataclass(frozen=True)
class DateRule(Rule):
    """Days since 1970, and where in the year, the week and the day that is, each as a point on a circle."""

    kind = "date"
    median: float

    def __post_init__(self) -> None:
        _check_median(self.name, self.median)

    @classmethod
    def learn(cls, column: Column) -> DateRule:
        return cls(column.name, (), _median(column.as_days())).keeping_what_varies(column)

    @property
    def labels(self) -> list[str]:
        circles = [f"{self.name} {part} of {cycle}" for cycle in ("year", "week", "day") for part in ("sine", "cosine")]
        return [f"{self.name} days", *circles, f"{self.name} is missing"]

    def features(self, column: Column) -> Array:
        days = column.as_days()
        missing = np.isnan(days)
        days = np.where(missing, self.median, days)
        year = np.floor(days).astype("datetime64[D]").astype("datetime64[Y]")
        begins, ends = (y.astype("datetime64[D]").astype(np.float64) for y in (year, year + 1))
        angles = 2 * np.pi * np.stack([(days - begins) / (ends - begins), (days + 3) % 7 / 7, days % 1], 1)
        circles = np.stack([np.sin(angles), np.cos(angles)], 2).reshape(len(days), -1)
        circles[missing] = 0.0  # the middle of every circle
        return np.column_stack([days, circles, missing])

    def values(self, features: Array) -> Array:
        if 0 not in self.kept:  # all on one day
            return np.full(len(features), np.floor(self.median))
        return features[:, self.kept.index(0)]

    def unseen(self, column: Column) -> tuple[int, str]:
        return (0 if len(self.labels) - 1 in self.kept else int(np.isnan(column.as_days()).sum())), "no value"

    def __str__(self) -> str:
        middle = np.datetime64(int(self.median), "D")
        return f"date; {len(self.kept)} features; missing values become {middle}"


@dataclass(frozen=True)
class CategoryRule(Rule):
    """One feature for each frequent category; the others share one, and say how frequent they are if they are many.

    `categories` has None for a missing value; `counts` are the rows of every category in the fit.
    """

    kind = "category"
    categories: tuple[str | None, ...]
    other: bool
    many: bool
    counts: dict[str, int]

    @classmethod
    def learn(cls, column: Column, most: int, share: float) -> CategoryRule:
        cells = column.as_text()
        found = Counter(cells.tolist())
        ordered = sorted(found, key=lambda category: (-found[category], category is None, category or ""))
        own = [c for c in ordered[:most] if found[c] >= max(FEWEST, share * len(cells))]
        counts = {c: found[c] for c in ordered[:COUNTED] if c is not None}
        rule = cls(column.name, (), tuple(own), len(own) < len(found), len(found) > most, counts)
        rule = rule.keeping_what_varies(column)
        return dataclasses.replace(rule, kept=(0,)) if rule.is_pair else rule

    def __post_init__(self) -> None:
        if not all(category is None or isinstance(category, str) for category in self.categories):
            raise ValueError(f"column {self.name!r} has categories that are no text: {self.categories}")
        if not all(isinstance(count, int) and count > 0 for count in self.counts.values()):
            raise ValueError(f"column {self.name!r} has frequencies that are no counts: {self.counts}")

    @property
    def is_pair(self) -> bool:
        """Two categories and no other are one feature."""
        return len(self.categories) == 2 and not self.other

    @property
    def labels(self) -> list[str]:
        own = [f"{self.name} is missing" if c is None else f"{self.name} = {c}" for c in self.categories]
        others = [f"{self.name} is another"] if self.other else []
        return [*own, *others, *([f"{self.name} log frequency"] if self.many else [])]

    def features(self, column: Column) -> Array:
        cells = column.as_text()
        places = self._places(cells)
        out: Array = (places[:, None] == np.arange(len(self.labels))).astype(np.float64)
        if self.many:
            out[:, -1] = np.log([self.counts.get(cell, 1) for cell in cells])
        if self.is_pair:
            out[places < 0] = 0.5  # as far from one as from the other
        return out

    def values(self, features: Array) -> Array:
        """The frequent categories; the others are "another"."""
        named = ["(missing)" if category is None else category for category in self.categories]
        if self.is_pair:
            places = {1.0: named[0], 0.0: named[1]}
            return np.array([places.get(value, OTHER) for value in features[:, 0].tolist()], dtype=object)
        out = np.full(len(features), OTHER, dtype=object)
        for at, place in enumerate(self.kept):
            if place < len(named):
                out[features[:, at] == 1.0] = named[place]
        return out

    def _places(self, cells: Array) -> Array:
        """The number of each cell's feature: that of the others for what is none of the categories, -1 without one."""
        own = {category: place for place, category in enumerate(self.categories)}
        elsewhere = len(self.categories) if self.other else -1
        return np.fromiter((own.get(cell, elsewhere) for cell in cells), dtype=np.int64, count=len(cells))

    def unseen(self, column: Column) -> tuple[int, str]:
        if len(self.counts) == COUNTED:  # some may have been seen that were not counted
            return 0, ""
        known = self.counts.keys() | ({None} if self.other or None in self.categories else set())
        unknown = [cell for cell in column.as_text() if cell not in known]
        return len(unknown), f"{unknown[0]!r}" if unknown and unknown[0] is not None else "no value"

    def __str__(self) -> str:
        shown = ", ".join("missing" if c is None else repr(c) for c in self.categories[:3])
        more = f" and {len(self.categories) - 3} more" if len(self.categories) > 3 else ""
        other = "; the others together" if self.other else ""
        return f"category; {shown}{more}{other}{' and by frequency' if self.many else ''}"
