"""The report as one file that needs no other."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from .product import Row, Settings, legend

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --faint: #e4e4e4; --accent: #b34700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #16181b; --faint: #33373c; --accent: #ff9a57; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 64rem;
  margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { margin-bottom: 0; } .where { margin-top: .25rem; opacity: .75; }
img { width: 100%; border-radius: 8px; background: #fff; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
td.ours { color: var(--accent); font-weight: 600; }
pre { background: var(--faint); padding: .75rem 1rem; border-radius: 6px; overflow-x: auto; }
li { margin: .3rem 0; }
"""


def write(path: Path, rows: Sequence[Row], machine: dict[str, Any], settings: Settings, picture: Path) -> None:
    image = base64.b64encode(picture.read_bytes()).decode("ascii")
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    where = f"{machine['cpu']}, {machine['threads']} threads, {machine['instruction_set']}"
    facts = "".join(f"<li>{escape(fact)}</li>" for fact in legend(settings).splitlines())
    path.write_text(
        f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Gyrfalcon: the kernel product</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>The kernel product</h1>
<p class="where">{escape(where)} · {escape(machine["date"])}</p>
<img src="data:image/png;base64,{image}" alt="Time per kernel entry against the number of features, by library">
<h2>Nanoseconds per kernel entry</h2>
<div class="scroll">{_table(rows)}</div>
<h2>What was measured</h2>
<ul>{facts}</ul>
<h2>Reproduce</h2>
<pre>make demo    # this page
make bench   # the full table: n = 100,000, t = 1 and 10, and gram_mv</pre>
<p class="where">{escape(versions)}</p>
</body>
</html>
""",
        encoding="utf-8",
    )


def _table(rows: Sequence[Row]) -> str:
    heads = ("", "d", "gyrfalcon", "PyTorch", "NumPy", "× PyTorch", "× NumPy", "roofline", "share of it")
    body = "".join(
        f"<tr><td>{row.dtype}{' *' if row.disturbed else ''}</td><td>{row.d}</td>"
        f'<td class="ours">{row.gyrfalcon_ns:.2f}</td><td>{row.torch_ns:.2f}</td><td>{row.numpy_ns:.2f}</td>'
        f'<td class="ours">{row.ratio_torch:.1f}</td><td>{row.ratio_numpy:.1f}</td>'
        f"<td>{row.roofline_ns:.2f}</td><td>{row.roofline_fraction:.0%}</td></tr>"
        for row in rows
    )
    return f"<table><thead><tr>{''.join(f'<th>{h}</th>' for h in heads)}</tr></thead><tbody>{body}</tbody></table>"
