"""A worker does two things at once, tells its errors, and is there again after it was killed."""

import asyncio
import functools
import hashlib
import os
import signal
import threading

import pytest

from gyrfalcon.pages import JobError, Worker, WorkerEndedError, worker
from reference.pages import Bench, broken


def run(job, **options):
    """Run `job(worker)` with a worker around a Bench."""

    async def main():
        made = Worker(options.pop("make", Bench), **options)
        await made.start()
        try:
            return await asyncio.wait_for(job(made), 60)
        finally:
            await made.close()

    return asyncio.run(main())


@pytest.mark.parametrize("process", [True, False])
def test_calls_return_and_errors_are_told(process):
    async def job(made):
        assert await made.call("work", "add", 2) == 2
        assert await made.call("work", "add", 3) == 5
        with pytest.raises(JobError, match="three is not four"):
            await made.call("work", "fail", ValueError("three is not four"))
        with pytest.raises(JobError, match="KeyError"):
            await made.call("look", "fail", KeyError("x"))
        assert (made.pid is not None) == process
        return await made.call("look", "add", 1)

    assert run(job, process=process) == 6


@pytest.mark.parametrize("process", [True, False])
def test_one_lane_answers_while_the_other_is_busy(process, tmp_path):
    async def job(made):
        long = asyncio.ensure_future(made.call("work", "wait_for", str(tmp_path / "go")))
        for number in range(3):
            assert await made.call("look", "add", 1) == number + 1
        assert not long.done()
        (tmp_path / "go").touch()
        return await long

    assert run(job, process=process) == "done"


def test_a_killed_process_is_replaced_and_restored(tmp_path):
    restored = []

    async def job(made):
        async def restore():
            restored.append(await made.call_now("work", "add", 40))

        made._restore = restore
        await made.call("work", "add", 7)
        first = made.pid
        waiting = asyncio.ensure_future(made.call("work", "wait_for", str(tmp_path / "never")))
        await made.call("look", "add", 0)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(WorkerEndedError):
            await waiting
        assert await made.call("work", "add", 2) == 42
        assert made.pid != first
        return await made.call("look", "add", 3)

    assert run(job) == 45
    assert restored == [40]


def test_a_worker_that_always_dies_is_given_up(monkeypatch, tmp_path):
    monkeypatch.setattr(worker, "MOST_DEATHS", 1)
    flag = tmp_path / "die"

    async def job(made):
        flag.touch()
        os.kill(made.pid, signal.SIGKILL)
        with pytest.raises(WorkerEndedError):
            await made.call("work", "add", 1)
        with pytest.raises(WorkerEndedError, match="times in a row"):
            await made.call("work", "add", 1)

    run(job, make=functools.partial(broken, str(flag)))


def test_an_object_that_cannot_be_built_says_why(tmp_path):
    (tmp_path / "refuse").touch()
    with pytest.raises(JobError, match="no weights here"):
        run(None, make=functools.partial(broken, str(tmp_path / "none"), str(tmp_path / "refuse")))


def test_closing_ends_a_process_that_is_at_work(tmp_path):
    seen = []

    async def job(made):
        waiting = asyncio.ensure_future(made.call("work", "wait_for", str(tmp_path / "never")))
        await made.call("look", "add", 0)
        seen.append(made.pid)
        await made.close()
        with pytest.raises(WorkerEndedError):
            await waiting

    run(job)
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)


def test_threads_share_the_object():
    bench = Bench()
    before = threading.active_count()
    assert run(lambda made: made.call("work", "add", 5), make=lambda: bench, process=False) == 5
    assert bench.total == 5
    assert threading.active_count() <= before + 8


def test_large_messages_of_both_lanes_arrive_whole():
    async def job(made):
        async def send(lane, number):
            data = bytes([number]) * 3_000_000
            assert await made.call(lane, "digest", data) == hashlib.sha256(data).hexdigest()

        await asyncio.gather(*(send(lane, number) for number in range(12) for lane in ("work", "look")))

    run(job)
