"""Messages between a page and its server: a JSON object, and blobs of bytes such as pictures after it.

A message without blobs is a text frame of JSON. One with blobs is a binary frame: the length of the JSON in four bytes
(little-endian), the JSON, whose field `blobs` lists the lengths of the blobs, and the blobs one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

LARGEST_MESSAGE = 4 << 20  # bytes that a page may send at once
LARGEST_HEADER = 64 << 10
MOST_BLOBS = 64

T = TypeVar("T", int, str, bool, list[Any], dict[str, Any])


class RequestError(ValueError):
    """A request of the page that is refused; its words are shown there."""


@dataclass(frozen=True)
class Message:
    """What a page or its server says: the kind of message, its fields and its blobs.

    >>> frame = Message("look", {"id": 3}, (b"a picture",)).encode()
    >>> Message.decode(frame) == Message("look", {"id": 3}, (b"a picture",))
    True
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    blobs: Sequence[bytes] = ()

    def encode(self) -> str | bytes:
        header = {"kind": self.kind, **self.fields}
        if not self.blobs:
            return json.dumps(header, allow_nan=False)
        text = json.dumps(header | {"blobs": [len(blob) for blob in self.blobs]}, allow_nan=False).encode()
        return b"".join((len(text).to_bytes(4, "little"), text, *self.blobs))

    @classmethod
    def decode(cls, frame: str | bytes) -> Message:
        """Read a frame; raises a RequestError that says what is wrong with it."""
        text: str | bytes = frame
        body = b""
        if isinstance(frame, bytes):
            length = int.from_bytes(frame[:4], "little")
            if len(frame) < 4 or length > min(LARGEST_HEADER, len(frame) - 4):
                raise RequestError("the message is cut off: its header is longer than what has arrived")
            text, body = frame[4 : 4 + length], frame[4 + length :]
        elif len(frame) > LARGEST_HEADER:
            raise RequestError(f"a message of text may have {LARGEST_HEADER} characters, and this one has {len(frame)}")
        try:
            header = json.loads(text)
        except (ValueError, RecursionError):
            raise RequestError("the message is not JSON") from None
        if not isinstance(header, dict) or not isinstance(header.get("kind"), str):
            raise RequestError("the message is not a JSON object with a field 'kind'")
        return cls(header.pop("kind"), header, _split(body, header.pop("blobs", [])))

    def get(self, name: str, kind: type[T]) -> T:
        """A field of the right type; raises a RequestError if it is missing or of another."""
        value = self.fields.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise RequestError(f"{self.kind}: the field {name!r} must be of type {kind.__name__}, got {value!r:.60}")
        return value


def _split(body: bytes, lengths: Any) -> tuple[bytes, ...]:
    if not isinstance(lengths, list) or not all(type(length) is int and length >= 0 for length in lengths):
        raise RequestError("the field 'blobs' of the message must be a list of lengths")
    if len(lengths) > MOST_BLOBS:
        raise RequestError(f"a message may have {MOST_BLOBS} blobs, and this one has {len(lengths)}")
    if sum(lengths) != len(body):
        raise RequestError(f"the blobs of the message should have {sum(lengths)} bytes together, and have {len(body)}")
    blobs, start = [], 0
    for length in lengths:
        blobs.append(body[start : start + length])
        start += length
    return tuple(blobs)
