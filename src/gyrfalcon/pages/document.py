"""One HTML document from its pieces, and the headers that let it do what it needs and nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ASSETS = Path(__file__).parent / "assets"
STYLE, SCRIPT = "<!-- style -->", "<!-- script -->"

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=(), display-capture=(), usb=(), payment=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class Document:
    """A page that needs no other files, and the hashes of the script and the style that may run in it."""

    html: str
    style_hash: str
    script_hash: str

    def policy(self, host: str, scheme: str = "http") -> str:
        """The content security policy: only this script and this style, and a websocket to the same server.

        >>> "script-src 'sha256-" in assemble("<!-- style --><!-- script -->", [], []).policy("localhost:4000")
        True
        """
        socket = "ws" if scheme == "http" else "wss"
        return "; ".join(
            (
                "default-src 'none'",
                f"script-src '{self.script_hash}'",
                f"style-src '{self.style_hash}'",
                "img-src blob: data:",
                "media-src blob: mediastream:",
                f"connect-src {socket}://{host}",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
            )
        )


def assemble(html: str, styles: Sequence[Path], scripts: Sequence[Path]) -> Document:
    """Put styles and scripts into a page, where `<!-- style -->` and `<!-- script -->` stand.

    The look and the wire that all pages share come first.
    """
    style = "\n".join(path.read_text(encoding="utf-8") for path in (ASSETS / "base.css", *styles))
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ASSETS / "base.js", *scripts))
    script = f'"use strict";\n(() => {{\n{code}\n}})();\n'
    html = html.replace(STYLE, f"<style>{style}</style>").replace(SCRIPT, f"<script>{script}</script>")
    return Document(html, _hash(style), _hash(script))


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
