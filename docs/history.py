"""Keep the headline figures of a release, and write the page of trends: `python docs/history.py [--release 0.2.0]`.

With `--release`, figures of docs/results/*.json are added to docs/results/history.json under that version. The page
shows one row for each release, so that a change for the worse is seen before it is published.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
HISTORY = DOCS / "results" / "history.json"
HEAD = """# Trends

Headline figures of each release, and when they were measured: those that were not measured again since an earlier
version are of that version. Times depend on the machine, which is named; ratios to a peer that was measured in
the same run do so less. `python docs/history.py --release VERSION` adds a row from the results that the
[performance page](performance.md) shows.
"""


def _longest_stream(found: dict[str, Any]) -> float:
    return float(max(found["streamed"], key=lambda row: row["rows"])["seconds"])


FIGURES: dict[str, tuple[str, Callable[[dict[str, Any]], float]]] = {
    "fit of 100,000 rows, float64, in s": ("regressor", lambda found: found["fit"]["float64"]["seconds"]["gyrfalcon"]),
    "times faster than scikit-learn": ("regressor", lambda found: found["fit"]["float64"]["speed"]),
    "twenty million rows from a file, in s": ("stream", _longest_stream),
    "excess error of float32": ("precision", lambda found: found["default"] - 1),
    "share of regression tables no worse than boosting": (
        "tabular",
        lambda found: sum(row["better"] for row in found["rows"]) / len(found["rows"]),
    ),
    "MNIST, 10,000 centers, % right": (
        "mnist",
        lambda found: max(row["accuracy"] for row in found["rows"] if row["m"] == 10000),
    ),
}


def collect() -> dict[str, Any]:
    """The figures of the results that are there now, with the machine of the first."""
    found = {name: json.loads((DOCS / "results" / f"{name}.json").read_text()) for name, _ in FIGURES.values()}
    machine = found["regressor"]["machine"]
    dates = sorted(part["machine"]["date"][:10] for part in found.values())
    figures = {title: float(f"{figure(found[name]):.4g}") for title, (name, figure) in FIGURES.items()}
    described = f"{machine['cpu']}, {machine['threads']} threads, {machine['instruction_set']}"
    return {"measured": " to ".join(dict.fromkeys((dates[0], dates[-1]))), "machine": described, **figures}


def page(history: dict[str, dict[str, Any]]) -> str:
    titles = ["measured", "machine", *FIGURES]
    lines = [f"| release | {' | '.join(titles)} |", "| --- | --- | --- |" + " ---: |" * len(FIGURES)]
    for release, row in history.items():
        cells = [format(value, ".4g") if isinstance(value := row.get(title, "–"), float) else value for title in titles]
        lines.append(f"| {release} | {' | '.join(cells)} |")
    return HEAD + "\n" + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", help="the version whose figures docs/results holds")
    release = parser.parse_args().release
    history = json.loads(HISTORY.read_text()) if HISTORY.exists() else {}
    if release is not None:
        history[release] = collect()
        HISTORY.write_text(json.dumps(history, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (DOCS / "history.md").write_text(page(history), encoding="utf-8")


if __name__ == "__main__":
    main()
