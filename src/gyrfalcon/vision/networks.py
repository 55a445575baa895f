"""Extractors by name or by value, loaded when they are first needed."""

from __future__ import annotations

import re
from typing import Any

from .extractors import NETWORKS, Array, Extractor, Maps, extractor

DEFAULT_SIZE = 512


class NamedNetwork:
    """An extractor that is known by its name and size, and loaded with the first image.

    Parameters
    ----------
    name : str
    size : int
    """

    def __init__(self, name: str, size: int = DEFAULT_SIZE):
        if name not in NETWORKS:
            raise ValueError(f"net must be a callable or one of {tuple(NETWORKS)}, got {name!r}")
        self.name, self.size = name, size
        self._net: Extractor | None = None

    def __call__(self, image: Array) -> Maps:
        if self._net is None:
            self._net = extractor(self.name, self.size)
        return self._net(image)


class MissingNetwork:
    """Stands for a callable that a file cannot hold."""

    def __call__(self, image: Array) -> Maps:
        raise ValueError("the model was taught with a callable that its file cannot hold: load it with net=<callable>")


def resolve(net: Any) -> Extractor:
    """An extractor; a name stands for that network, and may say the size, as in "tiny-vit@320"."""
    if isinstance(net, str):
        match = re.fullmatch(r"([a-z0-9-]+)(?:@([0-9]{1,5}))?", net)
        if match is None:
            raise ValueError(f"net must be a callable or a name such as 'tiny-vit' or 'tiny-vit@320', got {net!r}")
        return NamedNetwork(match[1], int(match[2] or DEFAULT_SIZE))
    if not callable(net):
        raise TypeError(f"net must be a callable or a name such as 'tiny-vit', got {net!r}")
    checked: Extractor = net
    return checked


def name_of(net: Any) -> str | None:
    """The name by which `resolve` finds a network again, or None if it has none."""
    if isinstance(net, str):
        return net
    name, size = getattr(net, "name", None), getattr(net, "size", None)
    return f"{name}@{size}" if name in NETWORKS and isinstance(size, int) else None
