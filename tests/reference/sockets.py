"""Websockets to this machine. A socket of their own keeps them from any proxy, which older releases cannot refuse."""

from contextlib import contextmanager
from socket import create_connection
from urllib.parse import urlsplit

from websockets.sync.client import connect


@contextmanager
def dial(address, port=None, **options):
    """A websocket to `address`; with a port, to this machine, which is told that this is its address."""
    place = urlsplit(address)
    host = place.hostname if port is None else "127.0.0.1"
    with (
        create_connection((host, port or place.port)) as sock,
        connect(address, sock=sock, max_size=None, **options) as opened,
    ):
        yield opened


def dial_page(gate):
    """A websocket as the page of a gate opens it."""
    return dial(f"ws://{gate.address}/socket", origin=f"http://{gate.address}")
