"""`gyrfalcon info`: show what is in a model file."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console

import gyrfalcon as gf

from .options import Json, Model
from .session import listing, tell

EXAMPLES = """
Examples:

gyrfalcon info homes.safetensors

gyrfalcon info homes.safetensors --json
"""


def command(model: Model, json: Json = False) -> None:
    """Show what a model predicts, from which columns, and how it was fitted. Nothing in the file is executed."""
    from .summary import length_scales, parts, summary

    loaded = gf.load(model)
    estimator, names, task, target = parts(loaded)
    facts: dict[str, Any] = {"command": "info", "file": model, "bytes": os.path.getsize(model)}
    facts |= {"target": target, "task": task, "model": summary(estimator)}
    if isinstance(loaded, gf.TableModel):
        preprocessor = loaded.preprocessor_
        facts["columns"] = {rule.name: str(rule) for rule in preprocessor.rules_}
        facts["dropped"] = preprocessor.dropped_
        readings = preprocessor.readings_ | ({target: loaded.target_reading_} if loaded.target_reading_ else {})
        facts["formats"] = {name: str(reading) for name, reading in readings.items()}
    facts["length_scales"] = length_scales(
        estimator.kernel_, names if estimator.encoder_ is None else estimator.kernel_feature_names
    )
    tell(facts, json, lambda console: _show(console, facts))


def _show(console: Console, facts: dict[str, Any]) -> None:
    from gyrfalcon.matrix.plan import readable

    model = facts["model"]
    head = {
        "file": f"{facts['file']}, {readable(facts['bytes'])}",
        "predicts": f"{facts['target']}, a {facts['task']}",
        **{name: ", ".join(value) if name == "classes" else value for name, value in model.items()},
    }
    console.print(listing("model", head))
    if "columns" in facts:
        console.print(listing("columns", facts["columns"]))
    if facts.get("formats"):
        console.print(listing("columns of text that are read as numbers or dates", facts["formats"]))
    if facts.get("dropped"):
        console.print(listing("columns that are not used", facts["dropped"]))
