"""`gyrfalcon bench`: time products and a fit on this machine, beside PyTorch and scikit-learn, and write JSON."""

from __future__ import annotations

import json as json_text
import operator
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import gyrfalcon as gf

from .options import Json
from .session import check_output, shown, tell, warn

EXAMPLES = """
Examples:

gyrfalcon bench --out bench.json

gyrfalcon bench --full --out product.json
"""
SETTINGS = [(name, d) for name in ("float32", "float64") for d in (3, 30, 90)]
CENTERS, ROUNDS = 1000, 3
LENGTH_SCALE, PENALTY, NOISE = 3.0, 1e-5, 0.2


def command(
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write (.json).")] = Path("bench.json"),
    rows: Annotated[int, typer.Option(min=1000, help="Rows of the products and of the fit.")] = 20_000,
    full: Annotated[
        bool, typer.Option("--full", help="The whole benchmark of products, minutes long; in the folder of a checkout.")
    ] = False,
    json: Json = False,
) -> None:
    """Time products and a fit on this machine, beside PyTorch and scikit-learn, and write the numbers as JSON.

    Each time is the best of some rounds, taken in turns. Quiet machines give numbers to trust.
    """
    from gyrfalcon.persistence import write_whole

    from .machine import machine, versions

    check_output(out, (".json",))
    warn_if_busy()
    if full:
        facts = _run_full(out)
    else:
        facts = {
            "machine": machine() | {"date": datetime.now(UTC).isoformat(timespec="seconds")},
            "versions": versions(),
            "rows": [_product(name, d, rows) for name, d in SETTINGS],
            "fit": _fit(rows),
        }
        write_whole(out, json_text.dumps(facts, indent=1, ensure_ascii=False).encode() + b"\n")
    tell({"command": "bench", "out": out, **facts}, json, lambda console: _show(console, facts, out))


def warn_if_busy() -> None:
    """Say that times will be too long, if other programs use the processors."""
    from gyrfalcon.planning.load import busy_words, is_busy, load_of_machine

    if is_busy(load := load_of_machine()):
        warn(f"the machine is busy, with {busy_words(load)}: times will be too long")


def _run_full(out: Path) -> dict[str, Any]:
    from gyrfalcon.data.atomic import replacing

    if not Path("benchmarks", "product.py").is_file():
        raise ValueError("--full runs the benchmarks of a checkout: change to the folder of the repository first")
    with replacing(out) as temporary:
        command = [sys.executable, "-m", "benchmarks", "product", "--out", str(temporary)]
        # A session of its own: interrupts come here alone, and end it without a word of its own.
        code = subprocess.run(command, stdout=sys.stderr, check=False, start_new_session=True).returncode
        if code:
            raise ValueError(f"the benchmark ended with exit code {code}")
        facts: dict[str, Any] = json_text.loads(temporary.read_text(encoding="utf-8"))
    return facts


def _product(name: str, d: int, rows: int) -> dict[str, Any]:
    import numpy as np
    import torch

    random = np.random.default_rng(0)
    X, C = random.normal(size=(rows, d)).astype(name), random.normal(size=(CENTERS, d)).astype(name)
    V = torch.from_numpy(random.normal(size=(CENTERS, 1)).astype(name))
    kernel = gf.kernels.Gaussian(float(np.sqrt(d)))
    runs: dict[str, Callable[[], Any]] = {}
    for engine in (None, "torch"):
        K = gf.KernelMatrix(kernel, X, C, engine=engine, cache=False)
        runs[engine or "gyrfalcon"] = partial(operator.matmul, K, V)
    ns = {who: 1e9 * seconds / (rows * CENTERS) for who, seconds in _best(runs).items()}
    about = {"dtype": name, "d": d, "t": 1, "n": rows, "m": CENTERS}
    return about | {
        "gyrfalcon_ns": ns["gyrfalcon"],
        "torch_ns": ns["torch"],
        "ratio_torch": ns["torch"] / ns["gyrfalcon"],
    }


def _fit(rows: int) -> dict[str, Any]:
    """Compare fits with the same kernel, penalty and number of centers."""
    import numpy as np
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    random = np.random.default_rng(0)
    X = random.normal(size=(rows + 2000, 10)).astype(np.float32)
    signal = np.sin(X[:, 0] + X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + np.tanh(X[:, 4])
    y = (signal + NOISE * random.normal(size=len(X))).astype(np.float32)
    kernel = gf.kernels.Gaussian(LENGTH_SCALE)
    models = {
        "gyrfalcon": gf.KernelRegressor(kernel, penalty=PENALTY, n_centers=CENTERS, random_state=0, verbose=False),
        "scikit-learn": make_pipeline(
            Nystroem(gamma=1 / (2 * LENGTH_SCALE**2), n_components=CENTERS, random_state=0), Ridge(alpha=rows * PENALTY)
        ),
    }
    seconds = _best({who: partial(model.fit, X[:rows], y[:rows]) for who, model in models.items()})
    errors = {who: float(np.sqrt(np.mean((model.predict(X[rows:]) - y[rows:]) ** 2))) for who, model in models.items()}
    ratio = seconds["scikit-learn"] / seconds["gyrfalcon"]
    return {"n": rows, "d": 10, "m": CENTERS, "seconds": seconds, "rmse": errors, "ratio": ratio}


def _best(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The shortest time of each contender. They take turns, and the first turn is a warm-up."""
    found: dict[str, float] = {}
    for turn in range(ROUNDS + 1):
        for who, run in runs.items():
            began = time.perf_counter()
            run()
            took = time.perf_counter() - began
            if turn:
                found[who] = min(took, found.get(who, took))
    return found


def _show(console: Console, facts: dict[str, Any], out: Path) -> None:
    products = Table("", "d", "gyrfalcon", "PyTorch", "ratio", box=None, title_justify="left", title="ns an entry of K")
    for row in facts["rows"]:
        products.add_row(row["dtype"], *(shown(row[k]) for k in ("d", "gyrfalcon_ns", "torch_ns", "ratio_torch")))
    console.print(products)
    if "fit" in facts:
        title = f"a fit of {facts['fit']['n']:,} rows"
        fit = Table("", "seconds", "test RMSE", box=None, title_justify="left", title=title)
        for who, seconds in facts["fit"]["seconds"].items():
            fit.add_row(who, shown(seconds), shown(facts["fit"]["rmse"][who]))
        console.print(fit)
    console.print(f"written: {out}")
