"""The server's side of the viewer: the newest view is rendered coarsely at once, then finer and finer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gyrfalcon.pages import (
    JobError,
    Latest,
    Message,
    Peer,
    RequestError,
    Worker,
    WorkerEndedError,
    assemble,
    encode_picture,
)

from ..stage import Stage
from ..views import UnwantedError

Array = np.ndarray[Any, Any]

HERE = Path(__file__).parent
QUALITY = 92  # of JPEGs
KINDS = ("color", "depth", "opacity")
SECONDS_OF_FIRST = 0.08  # that the first, coarse picture may take
SMALLEST_SIDE = 24  # pixels of the longer side of a coarse picture
FIRST_GUESS = 5e4  # pixels a second, until it is measured


class Viewable(Protocol):
    """A field that can be viewed, such as `KPlanes`."""

    def render(
        self,
        pose: Any,
        shape: tuple[int, int],
        *,
        time: float | None = None,
        appearance: int | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> tuple[Array, Array, Array]: ...

    def stage(self) -> Stage: ...


class Studio:
    """What the worker of the viewer does."""

    def __init__(self, field: Viewable):
        self._field = field
        self._newest = 0

    def stage(self) -> Stage:
        return self._field.stage()

    def take(
        self,
        turn: int,
        pose: list[float],
        shape: tuple[int, int],
        kind: str,
        moment: float | None,
        appearance: int | None,
    ) -> tuple[bytes, float] | None:
        """A picture as a JPEG file, and the seconds that rendering it took; None if a later turn comes before its end.

        Turns count views; those that come later are asked for on another lane.
        """
        began = time.perf_counter()
        self._newest = max(self._newest, turn)
        chosen: dict[str, Any] = {} if moment is None else {"time": moment}
        chosen |= {} if appearance is None else {"appearance": appearance}
        try:
            seen = self._field.render(
                np.array(pose).reshape(4, 4), shape, wanted=lambda: turn >= self._newest, **chosen
            )
        except UnwantedError:
            return None
        seconds = time.perf_counter() - began
        return encode_picture(_shown(seen, kind), QUALITY), seconds


def _shown(seen: tuple[Array, Array, Array], kind: str) -> Array:
    """Bytes of the colors; or of depths, near ones light, where there is something; or of opacities."""
    color, depth, opacity = (np.asarray(part, dtype=np.float64) for part in seen)
    if kind == "color":
        values = color
    else:
        values = opacity
        if kind == "depth":
            there = opacity > 0.5
            near, far = (depth[there].min(), depth[there].max()) if there.any() else (0.0, 1.0)
            values = opacity * (1 - 0.85 * np.clip((depth - near) / max(far - near, 1e-12), 0, 1))
        values = np.repeat(values[:, :, None], 3, axis=2)
    return np.asarray(np.clip(255 * values + 0.5, 0, 255), dtype=np.uint8)


@dataclass(frozen=True)
class View:
    """A picture that the page asks for."""

    number: int
    pose: list[float]
    kind: str
    time: float | None
    appearance: int | None
    moving: bool


class ViewingProgram:
    """View a field through a page.

    Parameters
    ----------
    make : callable
        Makes the Studio, in the worker.
    size : int
        Pixels of the longer side of the finest picture.
    process : bool
        Whether the worker is a process, which `make` must then be importable for.
    """

    document = assemble(
        (HERE / "view.html").read_text(encoding="utf-8"),
        [HERE / "view.css"],
        [HERE / "camera.js", HERE / "view.js"],
    )

    def __init__(self, make: Callable[[], Studio], size: int = 480, process: bool = True):
        # Fine pictures have a lane of their own, so that one that nobody wants any more holds up no coarse one.
        self.worker = Worker(make, process=process, lanes=("coarse", "fine"))
        self._size, self._rate = size, FIRST_GUESS
        self._views: Latest[tuple[View, Peer]] = Latest()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.worker.start()
        self._stage: Stage = await self.worker.call("coarse", "stage")
        self._task = asyncio.create_task(self._render())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.worker.close()

    async def welcome(self, peer: Peer) -> None:
        await peer.send("welcome", **asdict(self._stage), size=self._shape(self._size))

    async def leave(self, peer: Peer) -> None:
        self._views.clear()

    async def receive(self, message: Message, peer: Peer) -> None:
        if message.kind != "view":
            raise RequestError(f"the page asks for {message.kind!r:.40}, which this server does not know: reload it")
        self._views.put((self._view(message), peer))

    async def _render(self) -> None:
        """Render the newest view, from coarse to fine, until there is a newer one."""
        for turn in itertools.count(1):
            view, peer = await self._views.take()
            sides = self._sides(view.moving)
            for place, side in enumerate(sides):
                lane = "coarse" if place == 0 else "fine"
                call = self.worker.call(
                    lane, "take", turn, view.pose, self._shape(side), view.kind, view.time, view.appearance
                )
                try:
                    answer = await self._unless_newer(call, place > 0)
                except (JobError, WorkerEndedError) as error:
                    await peer.refuse("view", str(error))
                    break
                if answer is None:
                    break
                picture, seconds = answer
                height, width = self._shape(side)
                self._rate += 0.3 * (height * width / max(seconds, 1e-4) - self._rate)
                last = place == len(sides) - 1 and not view.moving
                await peer.send(
                    "picture", (picture,), id=view.number, shape=[height, width], seconds=seconds, last=last
                )

    async def _unless_newer(self, call: Any, interruptible: bool) -> Any:
        """What a call returns, or None if a newer view comes first."""
        rendering = asyncio.ensure_future(call)
        while interruptible and not rendering.done():
            await asyncio.wait([rendering], timeout=0.02)
            if self._views.waiting and not rendering.done():
                rendering.cancel()
                return None
        return await rendering

    def _sides(self, moving: bool) -> list[int]:
        """Longer sides of the pictures of a view: one that is quick, then twice as long, up to the finest."""
        height, width = self._stage.shape
        proportion = min(height, width) / max(height, width)
        quick = int((self._rate * SECONDS_OF_FIRST / proportion) ** 0.5)
        sides = [min(self._size, max(SMALLEST_SIDE, quick))]
        while sides[-1] < self._size and not moving:
            sides.append(self._size if 3 * sides[-1] > self._size else 2 * sides[-1])
        return sides

    def _shape(self, side: int) -> tuple[int, int]:
        height, width = self._stage.shape
        scale = side / max(height, width)
        return max(1, round(height * scale)), max(1, round(width * scale))

    def _view(self, message: Message) -> View:
        pose = message.get("pose", list)
        if len(pose) != 16 or not all(type(value) in (int, float) and abs(value) < 1e9 for value in pose):
            raise RequestError("view: pose must be 16 numbers")
        moment, kind = message.fields.get("time"), message.fields.get("show", "color")
        if (moment is None) != (self._stage.times is None):
            raise RequestError("view: time is for fields that move, and for them only")
        if self._stage.times is not None:
            low, high = self._stage.times
            if not isinstance(moment, int | float) or isinstance(moment, bool) or not low <= moment <= high:
                raise RequestError(f"view: time={moment!r:.40} must be between {low:g} and {high:g}")
        appearance = message.fields.get("appearance")
        if appearance is not None and (type(appearance) is not int or not 0 <= appearance < self._stage.appearances):
            raise RequestError(f"view: appearance={appearance!r:.40} must be below {self._stage.appearances}")
        if kind not in KINDS:
            raise RequestError(f"view: show={kind!r:.40} must be one of {', '.join(KINDS)}")
        moving = message.fields.get("moving") is True
        return View(message.get("id", int), [float(value) for value in pose], kind, moment, appearance, moving)
