"""The report as one file that needs no other."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from .figure import Picture

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --soft: #5c5c5c; --faint: #e6e6e6; --accent: #b34700; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #16181b; --soft: #a9adb3; --faint: #33373c; --accent: #ff9a57; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 68rem;
  margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { margin: 0; font-size: 2.2rem; } h2 { margin: 3rem 0 .5rem; font-size: 1.4rem; }
.soft, figcaption { color: var(--soft); }
.figures { display: grid; gap: 1.5rem 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  align-items: start; margin-top: 1rem; }
figure { margin: 0; max-width: 40rem; } figure h3 { margin: 0 0 .3rem; font-size: 1.05rem; }
figcaption { font-size: .9rem; }
img { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .6rem; text-align: right; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th { font-weight: 600; color: var(--soft); }
th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; }
tr.ours td { color: var(--accent); font-weight: 600; }
pre { background: var(--faint); padding: .75rem 1rem; border-radius: 6px; overflow-x: auto; }
li { margin: .3rem 0; }
"""


@dataclass(frozen=True)
class Table:
    """The first and the last column are words, the others numbers; the rows of ours stand out."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    ours: str

    def html(self) -> str:
        heads = "".join(f"<th>{escape(head)}</th>" for head in self.heads)
        body = "".join(
            f'<tr class="{"ours" if row[0].startswith(self.ours) else ""}">'
            + "".join(f"<td>{escape(cell)}</td>" for cell in row)
            + "</tr>"
            for row in self.rows
        )
        return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    table: Table
    pictures: Sequence[Picture]

    def html(self) -> str:
        figures = "".join(_figure(picture) for picture in self.pictures)
        return (
            f"<section><h2>{escape(self.title)}</h2><p>{escape(self.text)}</p>{self.table.html()}"
            f'<div class="figures">{figures}</div></section>'
        )


def write(path: Path, machine: dict[str, Any], sections: Sequence[Section], facts: Sequence[str]) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    where = f"{machine['cpu']}, {machine['threads']} threads, {machine['instruction_set']}"
    body = "\n".join(section.html() for section in sections)
    notes = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    path.write_text(
        f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Gyrfalcon: the demo</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Gyrfalcon</h1>
<p class="soft">Kernel machines beside scikit-learn, in one run · {escape(where)} · {escape(machine["date"])}</p>
{body}
<section><h2>What was measured</h2><ul>{notes}</ul></section>
<section><h2>Reproduce</h2><pre>make demo    # this page
python -m benchmarks --help    # the full tables</pre>
<p class="soft">{escape(versions)}</p></section>
</body>
</html>
""",
        encoding="utf-8",
    )


def _figure(picture: Picture) -> str:
    light, dark = (base64.b64encode(path.read_bytes()).decode("ascii") for path in (picture.light, picture.dark))
    return (
        f"<figure><h3>{escape(picture.title)}</h3><picture>"
        f'<source media="(prefers-color-scheme: dark)" srcset="data:image/png;base64,{dark}">'
        f'<img src="data:image/png;base64,{light}" alt="{escape(picture.title)}. {escape(picture.caption)}"></picture>'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )
