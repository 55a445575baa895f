"""Learning from streams: exactness and speed beside river, rare classes (table 7.1 of Camoriano 2017), sorted classes.

What needs data reads them from the folder in $GYRFALCON_DATA, and is left out where they are not.
"""

from __future__ import annotations

from typing import Any

import torch
from threadpoolctl import threadpool_limits

from . import machine, online_kills, online_pictures, online_rare_classes, online_sorted_classes, online_speed, report


def run(quick: bool) -> None:
    torch.set_num_threads(1)
    described = machine.describe()
    print(machine.headline(described))
    found: dict[str, Any] = {"machine": described}
    with threadpool_limits(1):
        for part in (online_speed, online_kills, online_rare_classes, online_sorted_classes, online_pictures):
            found |= part.measure(quick)
            report.write_json(report.FOLDER / "online.json", found)
    print(f"\nWritten: {report.FOLDER / 'online.json'}")
