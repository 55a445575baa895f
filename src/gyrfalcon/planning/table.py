"""A table of plans."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from gyrfalcon.matrix.plan import readable
from gyrfalcon.progress import duration

if TYPE_CHECKING:
    from .fit_plan import FitPlan


@dataclass(frozen=True)
class PlanTable:
    """Plans for growing n, one row each, and growing numbers of machines, one column each; `table[i, j]` is a plan.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> table = gf.plan(1e6, 9, 100).table(rows=(1e6, 1e7), workers=(1, 2, 8))
    >>> table.shape, table[1, 2].n, table[1, 2].workers
    ((2, 3), 10000000, 8)
    """

    plans: tuple[tuple[FitPlan, ...], ...]
    title: str

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.plans), len(self.plans[0])

    def __getitem__(self, place: tuple[int, int]) -> FitPlan:
        return self.plans[place[0]][place[1]]

    def _cells(self) -> list[list[str]]:
        counts = [plan.workers for plan in self.plans[0]]
        head = ["rows", *(f"{count} machine{'s' if count > 1 else ''}" for count in counts), "memory of one"]
        sizes = [(readable(line[0].peak_bytes), readable(line[-1].peak_bytes)) for line in self.plans]
        return [
            head,
            *(
                [f"{line[0].n:,}", *(duration(plan.total) for plan in line), " … ".join(dict.fromkeys(size))]
                for line, size in zip(self.plans, sizes, strict=True)
            ),
        ]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
        return "\n".join((self.title, *lines))

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in body)
        return f"<table><caption>{escape(self.title)}</caption><tr>{top}</tr>{rows}</table>"
