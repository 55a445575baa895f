"""Who may talk to the server: the page that it served itself, opened with its token, and nobody else."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from pathlib import Path

TOKEN_BYTES = 16  # 128 bits
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Settings:
    """Where a page is served.

    Parameters
    ----------
    host : str
        The address to listen on. Addresses that other machines can reach need a certificate.
    port : int
        Zero takes a free port at random.
    certificate, key : path, optional
        A certificate and its key in PEM format; the page is then served by HTTPS.

    Examples
    --------
    >>> Settings().loopback
    True
    >>> Settings(host="192.168.1.20")
    Traceback (most recent call last):
    ...
    ValueError: host='192.168.1.20' can be reached by other machines: give a certificate and its key, ...
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"port={self.port} must be between 0 and 65535; 0 takes a free one")
        if self.host in ("", "0.0.0.0", "::"):
            raise ValueError(
                f"host={self.host!r} means every network: name the one address that the page is for, so that requests "
                "for other names can be refused"
            )
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together: give both or neither")
        for path in (self.certificate, self.key):
            if path is not None and not Path(path).is_file():
                raise ValueError(f"{path} is no file")
        if not self.loopback and self.certificate is None:
            raise ValueError(
                f"host={self.host!r} can be reached by other machines: give a certificate and its key, "
                "or leave host at 127.0.0.1 and forward the port (ssh -L, adb reverse)"
            )

    @property
    def loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"


@dataclass(frozen=True)
class Gate:
    """The checks of a server that listens on `port`.

    A browser sends the name that a page believes to talk to as `Host`, and the page that asks as `Origin`. Both must be
    this server's: a foreign page whose name was made to point here (DNS rebinding) shows its own name in them. The
    token keeps out other users and programs of this machine.

    >>> gate = Gate(Settings(), port=4000)
    >>> gate.knows_host("localhost:4000"), gate.knows_host("evil.example:4000"), gate.knows_host("127.0.0.1:4001")
    (True, False, False)
    >>> gate.knows_origin("http://localhost:4000", "localhost:4000"), gate.knows_origin(None, "localhost:4000")
    (True, False)
    >>> gate.admits(gate.token), gate.admits("0" * 22), len(gate.token) >= 22
    (True, False, True)
    """

    settings: Settings
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES), repr=False)

    @property
    def address(self) -> str:
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address of the page with its token, which browsers keep to themselves: it is after the #."""
        return f"{self.settings.scheme}://{self.address}/#{self.token}"

    def knows_host(self, host: str | None) -> bool:
        known = {self.address.lower()}
        if self.settings.loopback:
            known |= {f"{name}:{self.port}" for name in LOOPBACK_NAMES}
        if self.port == DEFAULT_PORTS[self.settings.scheme]:  # which browsers leave out
            known |= {name.removesuffix(f":{self.port}") for name in known}
        return host is not None and host.lower() in known

    def knows_origin(self, origin: str | None, host: str | None) -> bool:
        return self.knows_host(host) and origin == f"{self.settings.scheme}://{host}"

    def admits(self, token: object) -> bool:
        """Whether it is the token, in a time that does not tell how much of it was right."""
        return isinstance(token, str) and hmac.compare_digest(token.encode(errors="replace"), self.token.encode())
