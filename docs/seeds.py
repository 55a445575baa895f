"""Write seeds.md, the published numbers beside ours, from results/seeds.json: `python docs/seeds.py [--collect]`.

With `--collect`, the results of `python -m benchmarks seeds` are first copied from report/ to docs/results/.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS / "results" / "seeds.json"
HEAD = """# Published numbers, and ours

Gyrfalcon implements two theses and three papers. This page puts the numbers that they publish, and that one machine
can check, beside what `python -m benchmarks seeds` measured. "As published" means that the two differ by no more than
the error of the published number, or by the margin that the row's unit allows. Where the data are not to be had, or
where the machine and not the method would be compared, the verdict is "not comparable".
"""


def page(found: dict[str, Any]) -> str:
    sections = [HEAD]
    for part in found.values():
        lines = ["| | published | ours | | data | verdict |", "| --- | ---: | ---: | --- | --- | --- |"]
        for row in part["rows"]:
            published, ours = ("–" if row[key] is None else f"{row[key]:.4g}" for key in ("published", "ours"))
            cells = (row["what"], published, ours, row["unit"], row["data"], row["verdict"])
            lines.append(f"| {' | '.join(cells)} |")
        notes = dict.fromkeys(row["note"] for row in part["rows"] if row["note"])
        words = "".join(f"\n\n{note[0].upper()}{note[1:]}." for note in notes)
        title, table = part["rows"][0]["source"], "\n".join(lines)
        sections.append(f"## {title}\n\n{table}{words}\n\nThis part took {part['seconds']:.0f} s.\n")
    return "\n".join(sections)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collect", action="store_true", help="copy new results from report/ first")
    if parser.parse_args().collect:
        shutil.copy(DOCS.parent / "report" / "seeds.json", RESULTS)
    (DOCS / "seeds.md").write_text(page(json.loads(RESULTS.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
