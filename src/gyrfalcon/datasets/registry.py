"""Every data set that `load` knows, as registry.toml lists them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from .entry import Entry

_LISTED = tomllib.loads((Path(__file__).parent / "registry.toml").read_text(encoding="utf-8"))

REGISTRY = {name: Entry(name, **_LISTED[name]) for name in sorted(_LISTED)}
