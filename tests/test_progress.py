"""What takes a while says so: in the log where there is no terminal, and as a bar where there is one."""

import logging
import sys

import pytest

from gyrfalcon import progress
from gyrfalcon.progress import Bar


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when the test says so."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_lines_are_logged(clock, caplog):
    with caplog.at_level(logging.INFO, logger="gyrfalcon"), Bar("fit", verbose=True) as bar:
        for second in range(31):
            clock[0] = float(second)
            bar.show(40, f"iteration {second}", second)
    assert [record.message for record in caplog.records] == [
        f"fit: {second} of 40, {second} s, iteration {second}" for second in (2, 12, 22)
    ]


def test_quick_and_quiet_work_is_not_logged(clock, caplog):
    with caplog.at_level(logging.INFO, logger="gyrfalcon"):
        for verbose, last in ((True, 1.9), (False, 100.0)):
            with Bar("fit", verbose=verbose) as bar:
                clock[0] += last
                bar.step()
    assert caplog.records == []


def test_notebooks_have_a_bar(clock, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with Bar("fit", verbose=True) as bar:
        clock[0] = 3.0
        bar.step()
        assert bar._bar is not None
    assert caplog.records == []
