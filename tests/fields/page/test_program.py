"""What the viewer may ask, without a browser: pictures come from coarse to fine, and the newest view wins."""

import io
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from gyrfalcon.fields.page import Studio, ViewingProgram
from gyrfalcon.fields.page import program as programs
from gyrfalcon.pages import Message, Server
from reference.pages import BallField, ball_field
from reference.sockets import dial_page

POSE = np.array(BallField().stage().pose)


class Page:
    """A page without a browser."""

    def __init__(self, socket):
        self._socket, self._number = socket, 0

    def tell(self, kind="view", **fields):
        self._number += 1
        given = {"id": self._number, "pose": POSE.ravel().tolist(), "time": 0.0} | fields
        self._socket.send(Message(kind, given).encode())
        return self._number

    def hear(self):
        return Message.decode(self._socket.recv(timeout=30))

    def pictures(self, **fields):
        """All pictures of one view, from coarse to fine."""
        number, heard = self.tell(**fields), []
        while not heard or not heard[-1].fields["last"]:
            heard.append(self.hear())
            assert heard[-1].kind == "picture", heard[-1].fields
            assert heard[-1].fields["id"] == number
        return heard


@contextmanager
def page(make=ball_field, size=320):
    with Server(ViewingProgram(make, size, process=False)).background() as server, dial_page(server.gate) as socket:
        opened = Page(socket)
        opened._socket.send(Message("hello", {"token": server.gate.token}).encode())
        assert opened.hear().fields["times"] == [0.0, 2.0]
        yield opened


def pixels(message):
    return np.asarray(Image.open(io.BytesIO(message.blobs[0]))).astype(float) / 255


def test_pictures_come_from_coarse_to_fine(monkeypatch):
    monkeypatch.setattr(programs, "SECONDS_OF_FIRST", 1e-9)
    with page() as opened:
        heard = opened.pictures(time=0.5)
        assert [message.fields["shape"] for message in heard] == [[18, 24], [36, 48], [72, 96], [144, 192], [240, 320]]
        assert [message.fields["last"] for message in heard] == [False] * 4 + [True]
        for message in heard:
            wanted = BallField().render(POSE, tuple(message.fields["shape"]), time=0.5)[0]
            assert np.abs(pixels(message) - wanted).mean() < 0.04
        moving = opened.tell(moving=True)
        assert opened.hear().fields["shape"] == [18, 24]
        assert opened.pictures()[0].fields["id"] == moving + 1  # and nothing finer of the one that moved


def test_what_is_quick_is_not_made_coarse(monkeypatch):
    monkeypatch.setattr(programs, "SECONDS_OF_FIRST", 1e9)
    with page() as opened:
        assert [message.fields["shape"] for message in opened.pictures()] == [[240, 320]]


def test_the_newest_view_wins(monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "SECONDS_OF_FIRST", 1e-9)
    field = BallField(str(tmp_path / "gate"))
    with page(lambda: Studio(field)) as opened:
        first = opened.tell(time=0.25)
        assert [opened.hear().fields["shape"][1] for _ in range(3)] == [24, 48, 96]  # and the next one waits for a file
        second = opened.tell(time=1.5)
        coarse = opened.hear()
        assert coarse.fields["id"] == second == first + 1
        assert [opened.hear().fields["shape"][1] for _ in range(2)] == [48, 96]  # the lane of fine pictures is free
        assert field.unwanted == [0.25]
        (tmp_path / "gate").touch()
        last = coarse
        while not last.fields["last"]:
            last = opened.hear()
            assert last.fields["id"] == second
        assert np.abs(pixels(last) - BallField().render(POSE, (240, 320), time=1.5)[0]).mean() < 0.02


@pytest.mark.parametrize("kind", ["depth", "opacity"])
def test_depths_and_opacities_are_shown(kind):
    with page() as opened:
        picture = pixels(opened.pictures(show=kind)[-1])
        _, depth, opacity = BallField().render(POSE, (240, 320), time=0.0)
        assert np.abs(picture - picture.mean(axis=2, keepdims=True)).max() < 0.02
        assert picture[opacity == 0].mean() < 0.02
        assert picture[opacity > 0].mean() > 0.3
        if kind == "depth":
            near, far = depth[opacity > 0].min(), depth[opacity > 0].max()
            nearer = picture[(opacity > 0) & (depth < near + 0.1 * (far - near))].mean()
            assert nearer > picture[(opacity > 0) & (depth > near + 0.5 * (far - near))].mean() + 0.2


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pose": [1.0] * 15}, "16 numbers"),
        ({"pose": ["1"] * 16}, "16 numbers"),
        ({"pose": None}, "type list"),
        ({"time": None}, "time is for fields that move"),
        ({"time": 2.5}, "between 0 and 2"),
        ({"time": "1"}, "between 0 and 2"),
        ({"time": True}, "between 0 and 2"),
        ({"appearance": 3}, "below 3"),
        ({"appearance": -1}, "below 3"),
        ({"appearance": 1.0}, "below 3"),
        ({"show": "secrets"}, "one of color"),
        ({"id": "x"}, "type int"),
        ({"kind": "save"}, "does not know"),
    ],
)
def test_nonsense_is_refused_in_words_and_survived(fields, words):
    with page() as opened:
        opened.tell(**fields)
        said = opened.hear()
        assert said.kind == "error"
        assert words in said.fields["message"]
        assert opened.pictures()[-1].fields["last"]
