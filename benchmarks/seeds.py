"""Every number of the papers behind Gyrfalcon that one machine can check, in one table.

Each part runs a benchmark of its own, takes rows from what it found, and keeps them in `report/seeds/`. A part that is
kept is not run again, so the command continues where it was cut; `--only` runs the named parts anew.
`docs/seeds.py` makes the page from the parts in `docs/results/seeds/`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from . import machine, report, seeds_core, seeds_rooms
from .seeds_row import Row

FOLDER = report.FOLDER / "seeds"
PARTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "eigenpro": seeds_core.eigenpro,
    "sgd": seeds_core.sgd,
    "rare_classes": seeds_core.rare_classes,
    "simplex": seeds_core.simplex_codes,
    "objectives": seeds_core.tuning,
    "koopman": seeds_core.koopman_operators,
    "falkon_rate": seeds_core.falkon_rate,
    "wind": seeds_rooms.wind,
    "segmentation": seeds_rooms.segmentation,
    "fields": seeds_rooms.planes,
    "absent": seeds_core.absent,
}


def run(quick: bool, only: str | None) -> None:
    names = only.split(",") if only else list(PARTS)
    if unknown := set(names) - set(PARTS):
        raise SystemExit(f"--only: unknown parts {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    folder = FOLDER / "quick" if quick else FOLDER
    for name in names:
        path = folder / f"{name}.json"
        if path.exists() and not only:
            continue
        print(f"\n== {name}", flush=True)
        described, began = machine.describe(), _processor_time()
        rows = [row.as_dict() for row in PARTS[name](quick)]
        report.write_json(path, {"rows": rows, "seconds": _processor_time() - began, "machine": described})
    for name in PARTS:
        if (path := folder / f"{name}.json").exists():
            part = json.loads(path.read_text())
            print(f"\n{name}, {part['seconds']:.0f} s of processor time")
            print("\n".join(map(line, part["rows"])))


def _processor_time() -> float:
    """Of this process and of those that it waited for."""
    return sum(os.times()[:4])


def line(row: dict[str, Any]) -> str:
    numbers = " ".join(f"{'-' if row[key] is None else format(row[key], '.4g'):>8}" for key in ("published", "ours"))
    return f"  {row['what']:<76} {numbers} {row['unit']:<8} {row['verdict']}"
