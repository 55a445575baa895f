"""The HTML page, which needs no other files. All text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

_STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
_LOOKS = ("Auto", "Light", "Dark")


@dataclass(frozen=True)
class Section:
    """A heading and the HTML below it."""

    title: str
    body: str

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def html(self) -> str:
        return f'<section id="{self.anchor}"><h2>{escape(self.title)}</h2>{self.body}</section>'


def document(title: str, subtitle: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """The whole page. `lead` is HTML between the title and the first section.

    >>> page = document("<Title>", "", [Section("Data", "<p>three rows</p>")])
    >>> "&lt;Title&gt;" in page, '<section id="data">' in page
    (True, True)
    """
    links = "".join(f'<a href="#{section.anchor}">{escape(section.title)}</a>' for section in sections)
    looks = "".join(
        f'<label><input type="radio" name="look" id="{look.lower()}"{" checked" * (look == "Auto")}>{look}</label>'
        for look in _LOOKS
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<header><div><h1>{escape(title)}</h1><p class="soft">{escape(subtitle)}</p></div>'
        f'<fieldset class="look" aria-label="Look">{looks}</fieldset></header>\n'
        f"{lead}<nav>{links}</nav>\n" + "\n".join(section.html() for section in sections) + "\n</body>\n</html>\n"
    )


def paragraph(text: str, *, soft: bool = False) -> str:
    return f"<p{_class('soft', soft)}>{escape(text)}</p>"


def warning(text: str) -> str:
    """A paragraph that nobody overlooks."""
    return f'<p class="warning" role="alert">{escape(text)}</p>'


def figure(title: str, drawing: str, caption: str, keys: Mapping[str, str] | None = None) -> str:
    """A figure with a title and a caption. `keys` maps the name of each line to its kind."""
    named = "".join(f'<span><i class="key {kind}"></i>{escape(name)}</span>' for name, kind in (keys or {}).items())
    legend = f'<div class="keys">{named}</div>' if named else ""
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure><h3>{escape(title)}</h3>{legend}{drawing}{words}</figure>"


def figures(drawn: Sequence[str]) -> str:
    return f'<div class="figures">{"".join(drawn)}</div>' if drawn else ""


def cards(items: Sequence[tuple[str, str, str]]) -> str:
    """Tiles with a name, a number and a remark."""
    drawn = "".join(
        f'<div class="card"><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(remark)}</span></div>'
        for name, value, remark in items
    )
    return f'<div class="cards">{drawn}</div>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[int] = (0,), ours: str = "") -> str:
    """A table. Columns are numbers, except `words`. Rows whose first cell starts with `ours` are highlighted."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{_class('words', place in words)}>{escape(cell)}</{tag}>" for place, cell in enumerate(row)
        )

    body = "".join(
        f"<tr{_class('ours', bool(ours) and row[0].startswith(ours))}>{cells('td', row)}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{cells("th", heads)}</tr></thead><tbody>{body}</tbody></table></div>'


def bars(rows: Sequence[tuple[str, float, str]], *, kinds: Sequence[str] | None = None) -> str:
    """Names, bars with lengths relative to the largest value, and the text after each bar."""
    top = max((value for _, value, _ in rows), default=0.0)
    kinds = kinds or ["ours"] * len(rows)
    drawn = "".join(
        f'<span title="{escape(name)}">{escape(name)}</span>'
        f'<i class="{kind}" style="width:{100 * value / top if top > 0 else 0:.1f}%"></i><span>{escape(label)}</span>'
        for (name, value, label), kind in zip(rows, kinds, strict=True)
    )
    return f'<div class="bars">{drawn}</div>'


def facts(items: Mapping[str, str]) -> str:
    """A list of terms and their values."""
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in items.items()) + "</dl>"


def code(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _class(name: str, given: bool) -> str:
    return f' class="{name}"' if given else ""
