"""One published number, and ours."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

AS_PUBLISHED, BETTER, WORSE = "as published", "better", "worse"
SAME_SHAPE, OTHER_SHAPE, NOT_COMPARABLE = "same shape", "other shape", "not comparable"


@dataclass(frozen=True)
class Row:
    """One published number, and ours.

    `published` and `ours` are None where there is no such number; `note` then says why. The verdict compares the two
    within `margin`, in the unit of the numbers. Where the data or the size are others, `neutral` is the number that
    stands for no effect, and the verdict says whether both numbers are on the same side of it. Numbers that are not
    `comparable` only stand beside each other.
    """

    source: str
    what: str
    unit: str
    published: float | None
    ours: float | None
    margin: float
    higher_is_better: bool
    data: str
    note: str = ""
    comparable: bool = True
    neutral: float | None = None
    seconds: float | None = None  # of a fit, where it was measured apart

    @property
    def verdict(self) -> str:
        if self.published is None or self.ours is None or not self.comparable:
            return NOT_COMPARABLE
        if self.neutral is not None:
            same = (self.ours > self.neutral) == (self.published > self.neutral)
            return SAME_SHAPE if same else OTHER_SHAPE
        ahead = (self.ours - self.published) * (1 if self.higher_is_better else -1)
        if abs(ahead) <= self.margin:
            return AS_PUBLISHED
        return BETTER if ahead > 0 else WORSE

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict}
