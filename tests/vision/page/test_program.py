"""What the teaching page may ask, without a browser: marks arrive as drawn, and nonsense is refused in words."""

import io
import struct
import threading
import zlib
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from gyrfalcon.pages import Message, Server, encode_mask, encode_picture
from gyrfalcon.vision.page import Lesson, open_source
from gyrfalcon.vision.page.program import TeachingProgram
from reference.pages import ColorTeacher, scene
from reference.sockets import dial_page


class Recorder(ColorTeacher):
    """A teacher that remembers what it was shown."""

    def __init__(self):
        super().__init__()
        self.shown = []

    def observe(self, frame, marks, ignore=None):
        self.shown.append((frame, marks, ignore))
        return super().observe(frame, marks)


class Page:
    """A page without a browser."""

    def __init__(self, socket, teacher):
        self._socket, self.teacher = socket, teacher

    def tell(self, kind, *blobs, **fields):
        self._socket.send(Message(kind, fields, blobs).encode())

    def hear(self, kind):
        """The next message of a kind; an error that nobody asked for is one."""
        while True:
            said = Message.decode(self._socket.recv(timeout=30))
            if said.kind == kind:
                return said
            assert said.kind != "error", said.fields

    def ask(self, kind, answer, *blobs, **fields):
        self.tell(kind, *blobs, **fields)
        return self.hear(answer)


@contextmanager
def page(tmp_path, source="camera"):
    teacher = Recorder()
    lesson = Lesson(teacher, open_source(source))
    with (
        Server(TeachingProgram(lambda: lesson, tmp_path / "model.json", process=False)).background() as server,
        dial_page(server.gate) as socket,
    ):
        opened = Page(socket, teacher)
        opened.tell("hello", token=server.gate.token)
        opened.hear("state")
        yield opened


def png(picture):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return file.getvalue()


def test_marks_arrive_as_they_were_drawn(tmp_path):
    picture, masks = scene(3)
    with page(tmp_path) as opened:
        for name in ("ball", "brick"):
            opened.ask("add_class", "added", name=name)
        marks = [
            {"label": "ball", "mask": 1, "kept": False},
            {"label": "brick", "box": [10.5, -4, 30, 400], "kept": True},
            {"label": "brick", "box": [100.5, 20, 130, 40], "open": True},
        ]
        said = opened.ask("observe", "taught", png(picture), encode_mask(masks["ball"]), marks=marks)
        assert said.fields["taught"] == 1
        assert said.fields["classes"] == [{"name": "ball", "frames": 1}, {"name": "brick", "frames": 1}]
        ((frame, shown, ignored),) = opened.teacher.shown
        np.testing.assert_array_equal(frame, picture)
        np.testing.assert_array_equal(shown["ball"][0], masks["ball"])
        np.testing.assert_array_equal(shown["brick"], [[10.5, 0, 30, 240]])  # within the picture
        assert ignored[20:40, 100:130].all()
        assert ignored.sum() == 20 * 30
        opened.hear("trained")
        found = opened.ask("look", "found", png(picture), id=7)
        assert found.fields["id"] == 7
        ball = next(thing for thing in found.fields["found"] if thing["label"] == "ball")
        mask = np.asarray(Image.open(io.BytesIO(found.blobs[found.fields["found"].index(ball)])).convert("RGBA"))[
            ..., 3
        ]
        left, top = ball["corner"]
        whole = np.zeros(masks["ball"].shape, dtype=bool)
        whole[top : top + mask.shape[0], left : left + mask.shape[1]] = mask > 0
        np.testing.assert_array_equal(whole, masks["ball"])


def test_accuracy_is_that_of_drawn_marks_before_they_are_taught(tmp_path):
    with page(tmp_path) as opened:
        opened.ask("add_class", "added", name="ball")
        first, masks = scene(0)
        mark = [{"label": "ball", "mask": 1}]
        assert (
            opened.ask("observe", "taught", png(first), encode_mask(masks["ball"]), marks=mark).fields["overlaps"] == []
        )
        opened.hear("trained")
        second, masks = scene(9)
        said = opened.ask("observe", "taught", png(second), encode_mask(masks["ball"]), marks=mark)
        assert said.fields["overlaps"] == [1.0]
        opened.hear("trained")
        half = masks["ball"].copy()
        half[: int(np.flatnonzero(half.any(axis=1)).mean())] = False
        said = opened.ask("observe", "taught", png(second), encode_mask(half), marks=mark)
        assert said.fields["overlaps"] == [pytest.approx(half.sum() / masks["ball"].sum())]
        assert said.fields["accuracy"] == pytest.approx((1 + said.fields["overlaps"][0]) / 2)
        kept = [{"label": "ball", "mask": 1, "kept": True}]  # what was found cannot test what finds
        assert opened.ask("observe", "taught", png(second), encode_mask(half), marks=kept).fields["overlaps"] == []


def test_looking_goes_on_after_an_answer_that_cannot_be_sent(tmp_path, caplog):
    picture, masks = scene(0)
    with page(tmp_path) as opened:
        opened.ask("add_class", "added", name="ball")
        opened.ask("observe", "taught", png(picture), encode_mask(masks["ball"]), marks=[{"label": "ball", "mask": 1}])
        opened.hear("trained")
        predict = opened.teacher.predict
        opened.teacher.predict = lambda frame: [replace(seen, score=float("nan")) for seen in predict(frame)]
        assert "unexpected ValueError" in opened.ask("look", "error", png(picture), id=1).fields["message"]
        opened.teacher.predict = predict
        assert len(opened.ask("look", "found", png(picture), id=2).fields["found"]) == 1
    assert "look failed" in caplog.text


def test_updates_are_made_when_asked_for(tmp_path):
    picture, masks = scene(0)
    with page(tmp_path) as opened:
        assert not opened.ask("live", "state", on=False).fields["live"]
        assert "nothing has been taught" in opened.ask("train", "error").fields["message"]
        opened.ask("add_class", "added", name="ball")
        opened.ask("observe", "taught", png(picture), encode_mask(masks["ball"]), marks=[{"label": "ball", "mask": 1}])
        assert opened.ask("look", "found", png(picture), id=1).fields["found"] == []
        assert opened.ask("train", "trained").fields["trained"]
        assert len(opened.ask("look", "found", png(picture), id=2).fields["found"]) == 1
        assert not opened.ask("undo", "undone").fields["trained"]
        assert opened.ask("look", "found", png(picture), id=3).fields["found"] == []
        assert "nothing to undo" in opened.ask("undo", "error").fields["message"]


def test_a_class_that_could_not_be_added_teaches_nothing(tmp_path):
    """Marks of it may wait already when the teacher refuses it."""

    received = threading.Event()

    def refuse(name):
        received.wait(30)
        raise ValueError("no more classes")

    picture, masks = scene(0)
    with page(tmp_path) as opened:
        opened.teacher.add_class = refuse
        opened.tell("add_class", name="ball")
        opened.tell("observe", png(picture), encode_mask(masks["ball"]), marks=[{"label": "ball", "mask": 1}])
        opened.ask("look", "found", png(picture), id=1)  # messages are received in order
        received.set()
        said = [opened.hear("error").fields["message"] for _ in range(2)]
        assert "no more classes" in said[0]
        assert "there are no classes ['ball']" in said[1]
        assert opened.teacher.shown == []
        assert opened.ask("live", "state", on=False).fields["classes"] == []


def test_what_is_kept_and_what_waits_is_bounded(tmp_path, monkeypatch):
    picture, masks = scene(0)
    blobs, marks = (png(picture), encode_mask(masks["ball"])), [{"label": "ball", "mask": 1}]
    monkeypatch.setattr("gyrfalcon.vision.page.program.MOST_BYTES", 2 * sum(map(len, blobs)))
    monkeypatch.setattr("gyrfalcon.vision.page.program.MOST_WAITING", 3)
    started, go_on = threading.Event(), threading.Event()
    with page(tmp_path) as opened:
        opened.ask("live", "state", on=False)
        opened.ask("add_class", "added", name="ball")
        for count in range(1, 5):
            said = opened.ask("observe", "taught", *blobs, marks=marks)
            assert (said.fields["taught"], said.fields["classes"][0]["frames"]) == (count, count)
        for count in (3, 2):
            assert opened.ask("undo", "undone").fields["taught"] == count
        assert "older frames cannot be undone" in opened.ask("undo", "error").fields["message"]
        train = opened.teacher.train
        opened.teacher.train = lambda: (started.set(), go_on.wait(30), train())
        opened.tell("train")
        assert started.wait(30)
        for _ in range(3):
            opened.tell("observe", *blobs, marks=marks)
        said = opened.ask("observe", "error", *blobs, marks=marks)
        assert "3 requests wait already" in said.fields["message"]
        go_on.set()
        opened.hear("trained")
        assert [opened.hear("taught").fields["taught"] for _ in range(3)] == [3, 4, 5]


def bomb():
    """A PNG of 30,000 × 30,000 pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1 << 20)))


BALL = [{"label": "ball", "box": [0, 0, 20, 20]}]


@pytest.mark.parametrize(
    ("kind", "fields", "blobs", "words"),
    [
        ("look", {}, [], "picture is missing"),
        ("look", {"index": 0}, [], "between 0 and -1"),
        ("look", {"index": True}, [], "type int"),
        ("look", {"id": [1]}, ["picture"], "type int"),
        ("observe", {"marks": BALL * 101}, ["picture"], "may have 100 marks"),
        ("look", {}, [b"noise"], "not a JPEG or PNG"),
        ("look", {}, [bomb()], "pixels"),
        ("observe", {"marks": BALL}, [bomb()], "pixels"),
        ("observe", {"marks": [{"label": "ball", "mask": 1}]}, ["picture", bomb()], "pixels"),
        (
            "observe",
            {"marks": [{"label": "ball", "mask": 1}]},
            ["picture", encode_mask(np.ones((3, 3), bool))],
            "the mask has",
        ),
        (
            "observe",
            {"marks": [{"label": "ball", "mask": 1}]},
            ["picture", encode_mask(np.zeros((240, 320), bool))],
            "empty",
        ),
        ("observe", {"marks": [{"label": "ball", "mask": 5}]}, ["picture"], "place of a blob"),
        ("observe", {"marks": [{"label": "cat", "box": [0, 0, 9, 9]}]}, ["picture"], "label among"),
        ("observe", {"marks": [{"label": ["ball"], "box": [0, 0, 9, 9]}]}, ["picture"], "label among"),
        ("observe", {"marks": [{"label": "ball", "box": [0, 0, 9]}]}, ["picture"], "left, top"),
        ("observe", {"marks": [{"label": "ball", "box": [0, 0, 9, "9"]}]}, ["picture"], "left, top"),
        ("observe", {"marks": [{"label": "ball", "box": [5, 5, 5, 9]}]}, ["picture"], "is empty"),
        ("observe", {"marks": "ball"}, ["picture"], "type list"),
        ("add_class", {"name": " ball "}, [], "already"),
        ("add_class", {"name": " \t"}, [], "1 to 40 letters"),
        ("add_class", {"name": "x" * 41}, [], "1 to 40 letters"),
        ("add_class", {"name": "a\u202eb"}, [], "1 to 40 letters"),
        ("add_class", {}, [], "type str"),
        ("live", {"on": 1}, [], "type bool"),
        ("__init__", {}, [], "does not know"),
    ],
)
def test_nonsense_is_refused_in_words_and_survived(tmp_path, kind, fields, blobs, words):
    picture = encode_picture(scene(0)[0])
    blobs = [picture if blob == "picture" else blob for blob in blobs]
    with page(tmp_path) as opened:
        opened.ask("add_class", "added", name="ball")
        assert words in opened.ask(kind, "error", *blobs, **fields).fields["message"]
        assert opened.teacher.shown == []
        assert opened.ask("look", "found", picture, id=5).fields["id"] == 5


def test_there_are_not_endless_classes(tmp_path):
    with page(tmp_path) as opened:
        for number in range(32):
            opened.ask("add_class", "added", name=f"thing {number}")
        assert "32 classes already" in opened.ask("add_class", "error", name="one more").fields["message"]


def test_frames_of_a_folder_are_taught_exactly(tmp_path):
    (tmp_path / "frames").mkdir()
    for step in range(3):
        Image.fromarray(scene(step)[0]).save(tmp_path / "frames" / f"{step}.png")
    with page(tmp_path, tmp_path / "frames") as opened:
        opened.ask("add_class", "added", name="ball")
        found = opened.ask("look", "found", id=1, index=2)
        shown = np.asarray(Image.open(io.BytesIO(found.blobs[-1])))
        assert np.abs(shown.astype(int) - scene(2)[0]).mean() < 4
        opened.ask("observe", "taught", marks=BALL, index=2)
        np.testing.assert_array_equal(opened.teacher.shown[0][0], scene(2)[0])
        assert "between 0 and 2" in opened.ask("look", "error", id=2, index=3).fields["message"]
