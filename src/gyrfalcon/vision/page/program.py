"""The server's side of the teaching page: what the page may ask, and what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import unicodedata
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gyrfalcon.pages import (
    JobError,
    Latest,
    Message,
    Peer,
    RequestError,
    Worker,
    WorkerEndedError,
    assemble,
)

from .lesson import Lesson, Picture
from .protocols import Mark

HERE = Path(__file__).parent
MOST_CLASSES = 32
LONGEST_NAME = 40
MOST_MARKS = 100  # of one frame
REMEMBERED = 10  # marks over which the accuracy is a mean
MOST_WAITING = 32  # jobs
MOST_BYTES = 64 << 20  # of taught pictures and marks, kept to be undone or to be taught again to a new worker
ATTEMPTS = 3  # at a job whose worker was killed
RESTARTED = "The worker has ended and was started again. It has learned again what you taught it."
PARTLY = "The worker has ended and was started again. It has learned again the last {} frames that you taught it."

logger = logging.getLogger("gyrfalcon")


@dataclass
class Frame:
    """A frame that was taught, kept so that it can be undone, or taught again to a new worker."""

    picture: Picture
    marks: Sequence[Mark]
    frame_id: Any
    overlaps: Sequence[float]

    @property
    def labels(self) -> set[str]:
        """The classes that it taught."""
        return {mark.label for mark in self.marks if not mark.open}

    @property
    def size(self) -> int:
        """Bytes, about."""
        picture = len(self.picture) if isinstance(self.picture, bytes) else 0
        return picture + sum(len(mark.mask or b"") for mark in self.marks)


class TeachingProgram:
    """Teach a model through a page.

    Parameters
    ----------
    make : callable
        Makes the Lesson, in the worker.
    out : path
        Where the page saves the model.
    process : bool
        Whether the worker is a process, which `make` must then be importable for.
    """

    document = assemble(
        (HERE / "teach.html").read_text(encoding="utf-8"),
        [HERE / "teach.css"],
        [HERE / name for name in ("drawing.js", "marks.js", "teach.js")],
    )

    def __init__(self, make: Callable[[], Lesson], out: Path, process: bool = True):
        self._out = out
        self.worker = Worker(make, process=process, restore=self._restore)
        self._peer: Peer | None = None
        self._pictures: Latest[tuple[Picture, int | None, Peer]] = Latest()
        self._jobs: asyncio.Queue[tuple[str, Callable[[], Awaitable[None]]]] = asyncio.Queue(MOST_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._classes: list[str] = []
        self._taught: deque[Frame] = deque()  # the last ones; see `MOST_BYTES`
        self._bytes, self._dropped = 0, 0
        self._counts: Counter[str] = Counter()  # of frames that show a class
        self._overlaps: deque[float] = deque(maxlen=REMEMBERED)
        self._frames, self._first_version, self._version = 0, 0, 0
        self._live, self._training, self._dirty, self._unsaved = True, False, False, False
        self._seconds: float | None = None

    async def start(self) -> None:
        await self.worker.start()
        facts = await self.worker.call("look", "facts")
        self._classes, self._frames = list(facts["classes"]), int(facts["frames"])
        self._version = self._first_version = int(facts["version"])
        self._tasks = [asyncio.create_task(self._look()), asyncio.create_task(self._work())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.worker.close()

    async def welcome(self, peer: Peer) -> None:
        self._peer = peer
        await peer.send("welcome", frames=self._frames, out=str(self._out))
        await self._tell_state()

    async def leave(self, peer: Peer) -> None:
        if self._peer is peer:
            self._peer = None
            self._pictures.clear()

    async def receive(self, message: Message, peer: Peer) -> None:
        if message.kind == "look":
            number = message.get("id", int) if "id" in message.fields else None
            self._pictures.put((self._picture(message), number, peer))
        elif message.kind == "observe":
            picture, marks = self._picture(message), self._marks(message)
            self._do(message.kind, lambda: self._observe(picture, marks))
        elif message.kind == "live":
            self._live = message.get("on", bool)
            self._do(message.kind, self._tell_state)
        elif message.kind == "add_class":
            name = self._name(message.get("name", str))
            self._do(message.kind, lambda: self._add_class(name))
            self._classes.append(name)
        elif message.kind in ("train", "undo", "save"):
            self._do(message.kind, {"train": self._train, "undo": self._undo, "save": self._save}[message.kind])
        else:
            raise RequestError(f"the page asks for {message.kind!r:.40}, which this server does not know: reload it")

    def _do(self, kind: str, job: Callable[[], Awaitable[None]]) -> None:
        try:
            self._jobs.put_nowait((kind, job))
        except asyncio.QueueFull:
            raise RequestError(f"{MOST_WAITING} requests wait already: try again when they are done") from None

    async def _work(self) -> None:
        """Do one job after the other. Live, train after the last of those that wait."""
        while True:
            kind, job = await self._jobs.get()
            await self._guarded(kind, job)
            if self._live and self._dirty and self._jobs.empty():
                await self._guarded("train", self._train)

    async def _guarded(self, kind: str, job: Callable[[], Awaitable[None]]) -> None:
        words = ""
        for _ in range(ATTEMPTS):
            try:
                await job()
                return
            except WorkerEndedError as error:
                words = str(error)
            except (RequestError, JobError) as error:
                words = str(error)
                break
            except Exception as error:
                logger.exception("%s failed", kind)
                words = f"unexpected {type(error).__name__}: the terminal shows where"
                break
        if self._peer is not None:
            await self._peer.refuse(kind, words)
        await self._tell_state()

    async def _look(self) -> None:
        """Answer the newest picture, then the newest of those that came meanwhile, and so on."""
        while True:
            picture, number, peer = await self._pictures.take()
            try:
                await self._tell_found(picture, number, peer)
            except WorkerEndedError as error:
                await peer.send("unseen", id=number, message=str(error))
            except Exception as error:
                words = str(error)
                if not isinstance(error, JobError):
                    logger.exception("look failed")
                    words = f"unexpected {type(error).__name__}: the terminal shows where"
                await peer.refuse("look", words)
                await peer.send("unseen", id=number, message=words)

    async def _tell_found(self, picture: Picture, number: int | None, peer: Peer) -> None:
        answer = await self.worker.call("look", "look", picture)
        shown = () if answer.picture is None else (answer.picture,)
        await peer.send(
            "found",
            (*answer.masks, *shown),
            id=number,
            size=answer.size,
            found=answer.found,
            seconds=answer.seconds,
            version=answer.version,
            picture=bool(shown),
        )

    async def _observe(self, picture: Picture, marks: Sequence[Mark]) -> None:
        unknown = {mark.label for mark in marks} - set(self._classes)
        if unknown:
            raise RequestError(f"observe: there are no classes {sorted(unknown)}")
        taught = await self.worker.call("work", "observe", picture, marks)
        self._remember(Frame(picture, marks, taught.frame_id, taught.overlaps))
        self._overlaps.extend(taught.overlaps)
        self._dirty = self._unsaved = True
        await self._tell_state("taught", overlaps=taught.overlaps)

    def _remember(self, frame: Frame) -> None:
        """Keep a frame that was taught, and no more of older ones than there is room for."""
        self._taught.append(frame)
        self._bytes += frame.size
        self._counts.update(frame.labels)
        while self._bytes > MOST_BYTES and len(self._taught) > 1:
            self._bytes -= self._taught.popleft().size
            self._dropped += 1

    @property
    def _learned(self) -> int:
        """How many frames the teacher has learned from."""
        return self._dropped + len(self._taught)

    async def _train(self) -> None:
        if not self._learned and self._first_version == 0:
            raise RequestError("nothing has been taught yet: mark an object first")
        self._training = True
        try:
            await self._tell_state()
            self._seconds = await self.worker.call("work", "train")
            self._version += 1
            self._dirty = False
        finally:
            self._training = False
        await self._tell_state("trained")

    async def _undo(self) -> None:
        if not self._taught:
            raise RequestError("there is nothing to undo" if not self._dropped else "older frames cannot be undone")
        last = self._taught[-1]
        await self.worker.call("work", "forget", last.frame_id)
        self._taught.pop()
        self._bytes -= last.size
        self._counts.subtract(last.labels)
        for _ in range(min(len(last.overlaps), len(self._overlaps))):
            self._overlaps.pop()
        self._dirty = self._unsaved = True
        if not self._learned and self._first_version == 0:
            await self.worker.call("work", "clear")
            self._dirty, self._version = False, self._version + 1
        await self._tell_state("undone")

    async def _add_class(self, name: str) -> None:
        try:
            await self.worker.call("work", "add_class", name)
        except JobError:
            self._classes.remove(name)
            raise
        self._unsaved = True
        await self._tell_state("added", name=name)

    async def _save(self) -> None:
        if self._dirty:
            await self._train()
        size = await self.worker.call("work", "save", str(self._out))
        self._unsaved = False
        await self._tell_state("saved", path=str(self._out), bytes=size)

    async def _restore(self) -> None:
        """Bring a new worker to the state of the one that died."""
        taught = [(frame.picture, frame.marks) for frame in self._taught]
        trained = self._version > 0 and (bool(taught) or self._first_version > 0)
        dropped, self._dropped = self._dropped, 0
        self._counts = Counter(label for frame in self._taught for label in frame.labels)
        numbers = await self.worker.call_now("work", "replay", list(self._classes), taught, trained)
        for frame, number in zip(self._taught, numbers, strict=True):
            frame.frame_id = number
        await self._notify(PARTLY.format(len(taught)) if dropped else RESTARTED)

    async def _notify(self, words: str) -> None:
        if self._peer is not None:
            await self._peer.send("notice", message=words)

    async def _tell_state(self, kind: str = "state", **more: Any) -> None:
        if self._peer is None:
            return
        accuracy = sum(self._overlaps) / len(self._overlaps) if self._overlaps else None
        await self._peer.send(
            kind,
            classes=[{"name": name, "frames": self._counts[name]} for name in self._classes],
            taught=self._learned,
            live=self._live,
            training=self._training,
            trained=self._version > 0 and (self._learned > 0 or self._first_version > 0),
            dirty=self._dirty,
            unsaved=self._unsaved,
            train_seconds=self._seconds,
            accuracy=accuracy,
            tested=len(self._overlaps),
            **more,
        )

    def _picture(self, message: Message) -> Picture:
        index = message.fields.get("index")
        if index is not None:
            index = message.get("index", int)
            if not 0 <= index < self._frames:
                raise RequestError(f"{message.kind}: index={index} must be between 0 and {self._frames - 1}")
            return index
        if not message.blobs:
            raise RequestError(f"{message.kind}: the picture is missing")
        return message.blobs[0]

    def _marks(self, message: Message) -> list[Mark]:
        listed = message.get("marks", list)
        if len(listed) > MOST_MARKS:
            raise RequestError(f"observe: a frame may have {MOST_MARKS} marks, and this one has {len(listed)}")
        marks = []
        for given in listed:
            if not isinstance(given, dict) or given.get("label") not in self._classes:
                raise RequestError(f"observe: each mark needs a label among {self._classes}")
            label, kept, left_open = given["label"], given.get("kept") is True, given.get("open") is True
            if "mask" in given:
                place = given["mask"]
                if type(place) is not int or not 0 <= place < len(message.blobs):
                    raise RequestError(f"observe: mask={place!r:.40} must be the place of a blob")
                marks.append(Mark(label, mask=message.blobs[place], kept=kept))
            else:
                marks.append(Mark(label, _box(given.get("box")), kept=kept, open=left_open))
        return marks

    def _name(self, given: str) -> str:
        name = " ".join(unicodedata.normalize("NFC", given).split())
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise RequestError(f"a class needs a name of 1 to {LONGEST_NAME} letters")
        if name in self._classes:
            raise RequestError(f"there is a class {name!r} already")
        if len(self._classes) >= MOST_CLASSES:
            raise RequestError(f"there are {MOST_CLASSES} classes already, which is the most")
        return name


def _box(given: Any) -> tuple[float, float, float, float]:
    if (
        not isinstance(given, list)
        or len(given) != 4
        or not all(type(edge) in (int, float) and -1e6 < edge < 1e6 for edge in given)
    ):
        raise RequestError(f"observe: box={given!r:.60} must be left, top, right and bottom")
    left, top, right, bottom = map(float, given)
    return left, top, right, bottom
