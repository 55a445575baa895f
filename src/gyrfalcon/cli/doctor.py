"""`gyrfalcon doctor`: show what is installed and check that it computes correct results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

import gyrfalcon as gf

from .options import Json
from .session import FAILED, listing, tell

EXAMPLES = """
Examples:

gyrfalcon doctor

gyrfalcon doctor --json
"""
LARGEST = {"float32": 1e-5, "float64": 1e-12}  # errors of a product relative to a dense one in float64


def command(json: Json = False) -> None:
    """Show versions, engine, threads and devices, and check products, a fit and a model file.

    The exit code is 1 if a check fails.
    """
    from .machine import machine, versions

    checks = {name: _outcome(check) for name, check in CHECKS.items()}
    facts = {"command": "doctor", "machine": machine(), "versions": versions(), "checks": checks}
    healthy = all(check["passed"] for check in checks.values())
    tell(facts | {"healthy": healthy}, json, lambda console: _show(console, facts, healthy))
    if not healthy:
        raise typer.Exit(FAILED)


def _outcome(check: Callable[[], str]) -> dict[str, Any]:
    try:
        return {"passed": True, "found": check()}
    except Exception as error:  # whatever is wrong with an installation is a finding
        return {"passed": False, "found": " ".join(f"{type(error).__name__}: {error}".split())}


def _products() -> str:
    import numpy as np
    import torch

    random = np.random.default_rng(0)
    X, C, v = random.normal(size=(300, 5)), random.normal(size=(40, 5)), random.normal(size=40)
    distances = ((X[:, None] - C) ** 2).sum(2)
    truth = np.exp(-distances / 2) @ v
    errors = {}
    for name, largest in LARGEST.items():
        K = gf.KernelMatrix("gaussian", X.astype(name), C.astype(name))
        product = torch.as_tensor(K @ torch.from_numpy(v.astype(name))).double().numpy()
        errors[name] = float(np.abs(product - truth).max() / np.abs(truth).max())
        if not errors[name] <= largest:
            raise ArithmeticError(f"a product in {name} is wrong by {errors[name]:.1e}, more than {largest:g}")
    return ", ".join(f"{name} agrees with a dense product to {error:.0e}" for name, error in errors.items())


def _fit() -> str:
    import numpy as np

    X = np.linspace(0, 6, 200)[:, None]
    score = gf.KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0]))
    if not score > 0.99:
        raise ArithmeticError(f"a sine is fitted with R² = {score:.3f}, less than 0.99")
    return f"R² = {score:.4f} for a sine"


def _model_file() -> str:
    import numpy as np

    table = {"x": np.arange(40.0), "c": ["a", "b"] * 20, "y": np.sin(np.arange(40.0))}
    model = gf.TableModel(gf.KernelRegressor(tune=None)).fit(table, "y")
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.safetensors"))
        again = gf.load(Path(folder, "model.safetensors"))
    if not np.array_equal(again.predict(table), model.predict(table)):
        raise ArithmeticError("a model that was saved and loaded predicts something else")
    return "predictions are the same after saving and loading"


CHECKS = {"products": _products, "fit": _fit, "model file": _model_file}


def _show(console: Console, facts: dict[str, Any], healthy: bool) -> None:
    from gyrfalcon.matrix.plan import readable

    found = dict(facts["machine"])
    compiled = found["engine"] == "native"
    found["engine"] = "native" if compiled else "torch: the compiled core is missing, products are slower"
    found["gpus"] = ", ".join(found["gpus"]) or "none"
    found["memory_budget"] = readable(found["memory_budget"])
    console.print(listing("machine", {name.replace("_", " "): value for name, value in found.items()}))
    console.print(listing("versions", {name: value or "not installed" for name, value in facts["versions"].items()}))
    said = {name: f"{'passed' if one['passed'] else 'FAILED'}: {one['found']}" for name, one in facts["checks"].items()}
    console.print(listing("checks", said))
    console.print("all is well" if healthy else "something is wrong: see the checks")
