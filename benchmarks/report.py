"""Files in report/."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .gram import GramRow
from .product import Row

FOLDER = Path("report")
PRODUCT = FOLDER / "product.json"


def write_product(path: Path, machine: dict[str, Any], rows: Sequence[Row], grams: Sequence[GramRow]) -> None:
    content = {"machine": machine, "rows": [asdict(row) for row in rows], "gram": [asdict(row) for row in grams]}
    write_json(path, content)


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def kept(path: Path, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a file holds, or else what `measure` finds, which is then kept there."""
    if not path.exists():
        write_json(path, measure())
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
