"""Long work beside the event loop: an object in a process or a thread of its own, whose methods are called from here.

Calls of one lane are done in order, and those of different lanes at the same time: a page asks for pictures on one lane
while a model is trained on another. A process that was killed is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import multiprocessing
import os
import pickle
import queue
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from .wire import RequestError

MOST_DEATHS = 5  # in a row, without a call that ended in between
PATIENCE_TO_END = 2.0  # seconds that a process has to end by itself
LANES = ("work", "look")
LAST_JOB = b""  # which tells the worker to end

logger = logging.getLogger("gyrfalcon")

Make = Callable[[], Any]
Job = tuple[int, str, str, tuple[Any, ...]]  # number, lane, method, arguments


class JobError(RequestError):
    """A job that failed; its words are those of the error in the worker."""


class WorkerEndedError(RuntimeError):
    """The worker ended before the job did."""


class Worker:
    """An object that `make` builds in a worker, and calls of its methods.

    Parameters
    ----------
    make : callable
        Builds the object, in the worker. For a process it must be importable: a function of a module, or a partial one.
    process : bool
        True starts a process, which may be killed without harm to the server. False starts threads, which share the
        object with whoever made it.
    restore : callable, optional
        Awaited after a new process has taken the place of one that died, to bring the new object to the state of the
        old one. Calls on the first lane wait until it is done.
    lanes : sequence of str
        Names of the lanes.

    Examples
    --------
    >>> async def example():
    ...     worker = Worker(list, process=False)
    ...     await worker.start()
    ...     await worker.call("work", "append", 3)
    ...     try:
    ...         return await worker.call("look", "__len__")
    ...     finally:
    ...         await worker.close()
    >>> asyncio.run(example())
    1
    """

    def __init__(
        self,
        make: Make,
        *,
        process: bool = True,
        restore: Callable[[], Awaitable[None]] | None = None,
        lanes: Sequence[str] = LANES,
    ):
        self._make, self._as_process, self._restore, self._lanes = make, process, restore, tuple(lanes)
        self._numbers = itertools.count()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._process: multiprocessing.process.BaseProcess | None = None
        self._near: Connection | None = None
        self._sending = threading.Lock()  # a call that was given up may still be sending
        self._ready = asyncio.Event()
        self._revival: asyncio.Task[None] | None = None
        self._deaths, self._closed, self._failure = 0, False, ""

    @property
    def pid(self) -> int | None:
        """Number of the process; None where the work is done in threads."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the worker and wait until its object is built; raises JobError with the reason if it cannot be."""
        self._loop = asyncio.get_running_loop()
        await self._launch()
        self._ready.set()

    async def call(self, lane: str, method: str, *arguments: Any) -> Any:
        """What the method returns; raises JobError if it fails, and WorkerEndedError if the worker ends first."""
        await self._ready.wait()
        if self._failure or self._closed:
            raise WorkerEndedError(self._failure or "the worker is closed")
        return await self.call_now(lane, method, *arguments)

    async def call_now(self, lane: str, method: str, *arguments: Any) -> Any:
        """The same without waiting for `restore`, which uses it."""
        number, answer = next(self._numbers), self._loop.create_future()
        self._pending[number] = answer
        job: Job = (number, lane, method, arguments)
        try:
            assert self._near is not None
            await self._loop.run_in_executor(None, self._send, self._near, pickle.dumps(job))
        except OSError:
            self._pending.pop(number, None)
            raise WorkerEndedError("the worker has ended") from None
        try:
            return await answer
        finally:
            self._pending.pop(number, None)

    async def close(self) -> None:
        """End the worker: at once if it is a process, after what it is doing if it is a thread."""
        self._closed = True
        self._ready.set()
        if self._revival is not None:
            self._revival.cancel()
        if self._near is not None:
            last = self._loop.run_in_executor(None, self._send, self._near, LAST_JOB)
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(last, PATIENCE_TO_END)
        if self._process is not None:
            process = self._process
            await self._loop.run_in_executor(None, process.join, PATIENCE_TO_END)
            if process.is_alive():
                process.kill()
                await self._loop.run_in_executor(None, process.join)
            process.close()
            self._process = None

    async def _launch(self) -> None:
        self._near, far = multiprocessing.Pipe()
        if self._as_process:
            spawn = multiprocessing.get_context("spawn")
            self._process = spawn.Process(target=_child, args=(far, self._make, self._lanes), daemon=True)
            # Starting waits for the child to read what it is to do, and the event loop must not.
            await self._loop.run_in_executor(None, self._process.start)
            far.close()
        else:
            threading.Thread(target=_work, args=(far, self._make, self._lanes), daemon=True).start()
        number = next(self._numbers)
        built = self._pending[number] = self._loop.create_future()
        threading.Thread(target=self._listen, args=(self._near, number), daemon=True).start()
        await built

    def _send(self, near: Connection, data: bytes) -> None:
        """Send one message whole, from any thread."""
        with self._sending:
            near.send_bytes(data)

    def _listen(self, near: Connection, first: int) -> None:
        """Hand answers to the event loop, in a thread. What the worker says first is whether its object is built."""
        try:
            while True:
                number, error, value = pickle.loads(near.recv_bytes())
                self._tell(self._settle, first if number < 0 else number, error, value)
        except (EOFError, OSError):
            with self._sending:
                near.close()
            self._tell(self._bury, near)

    def _tell(self, function: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            self._loop.call_soon_threadsafe(function, *arguments)

    def _settle(self, number: int, error: str | None, value: Any) -> None:
        self._deaths = 0 if error is None else self._deaths
        answer = self._pending.pop(number, None)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(JobError(error))

    def _bury(self, near: Connection) -> None:
        """Fail what waits for a worker that has died, and start another one."""
        if near is not self._near:
            return
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(WorkerEndedError("the worker ended while it was at work"))
        self._pending.clear()
        if not self._closed and self._ready.is_set():
            self._ready.clear()
            self._revival = self._loop.create_task(self._revive())

    async def _revive(self) -> None:
        while not self._closed:
            self._deaths += 1
            if self._deaths > MOST_DEATHS:
                self._failure = f"the worker died {MOST_DEATHS} times in a row: see the terminal, then start again"
                break
            logger.warning("the worker ended unexpectedly and is started again")
            try:
                if self._process is not None:
                    await self._loop.run_in_executor(None, self._process.join)
                    self._process.close()
                await self._launch()
                if self._restore is not None and self._as_process:
                    await self._restore()
                break
            except (WorkerEndedError, JobError) as error:
                logger.warning("the new worker failed as well: %s", error)
        self._ready.set()


def _child(far: Connection, make: Make, lanes: Sequence[str]) -> None:
    """The process: it ends when the server does, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _work(far, make, lanes)
    os._exit(0)  # a lane may still be training, for nobody


def _work(far: Connection, make: Make, lanes: Sequence[str]) -> None:
    lock = threading.Lock()

    def answer(number: int, error: str | None, value: Any = None) -> None:
        try:
            with lock:
                far.send_bytes(pickle.dumps((number, error, value)))
        except OSError:  # nobody listens any more
            pass

    try:
        target = make()
    except Exception as error:
        answer(-1, _words(error))
        far.close()
        return
    answer(-1, None)
    queues: dict[str, queue.SimpleQueue[Job | None]] = {lane: queue.SimpleQueue() for lane in lanes}
    threads = [threading.Thread(target=_lane, args=(jobs, target, answer), daemon=True) for jobs in queues.values()]
    for thread in threads:
        thread.start()
    try:
        while data := far.recv_bytes():
            job: Job = pickle.loads(data)
            queues[job[1]].put(job)
    except (EOFError, OSError):
        pass
    for jobs in queues.values():
        jobs.put(None)
    with lock:
        far.close()


def _lane(jobs: queue.SimpleQueue[Job | None], target: Any, answer: Callable[..., None]) -> None:
    while (job := jobs.get()) is not None:
        number, _, method, arguments = job
        try:
            answer(number, None, getattr(target, method)(*arguments))
        except Exception as error:
            if not isinstance(error, ValueError):
                logger.exception("%s failed", method)
            answer(number, _words(error))


def _words(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {text}"
