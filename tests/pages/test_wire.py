"""Messages survive the wire, and what is no message is refused with words, never with another error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gyrfalcon.pages import Message, RequestError, wire

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20), st.lists, max_leaves=5
)
names = st.text(max_size=8).filter(lambda name: name not in ("kind", "blobs"))


@given(st.text(max_size=9), st.dictionaries(names, plain, max_size=4), st.lists(st.binary(max_size=50), max_size=4))
def test_round_trip(kind, fields, blobs):
    message = Message(kind, fields, tuple(blobs))
    assert Message.decode(message.encode()) == message


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_noise_is_refused(frame):
    with pytest.raises(RequestError):
        Message.decode(frame)


@given(st.data())
def test_damaged_frames_are_refused_or_read(data):
    frame = bytearray(Message("look", {"id": 1}, (b"abc", b"defg")).encode())
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = Message.decode(bytes(frame))
    except RequestError:
        return
    assert sum(map(len, message.blobs)) <= len(frame)


@pytest.mark.parametrize("lengths", [[8], [3], [-1, 8], [True], "7", [1] * (wire.MOST_BLOBS + 1), {}])
def test_blobs_must_add_up(lengths):
    text = json.dumps({"kind": "look", "blobs": lengths}).encode()
    with pytest.raises(RequestError, match="blobs"):
        Message.decode(len(text).to_bytes(4, "little") + text + b"sevenby")


def test_deep_and_long_texts_are_refused():
    with pytest.raises(RequestError, match="not JSON"):
        Message.decode("[" * 50_000)
    with pytest.raises(RequestError, match="characters"):
        Message.decode('"' + "a" * wire.LARGEST_HEADER + '"')


def test_fields_have_types():
    message = Message("look", {"id": 3, "live": True, "label": "mug"})
    assert message.get("id", int) == 3
    assert message.get("live", bool) is True
    for name, kind in (("live", int), ("label", int), ("missing", str)):
        with pytest.raises(RequestError, match=name):
            message.get(name, kind)
