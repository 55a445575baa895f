"""What takes a while says so: in the log where there is no terminal, and as a bar where there is one."""

import logging
import re
import sys
from itertools import pairwise

import numpy as np
import pytest

from gyrfalcon import progress
from gyrfalcon.progress import Bar, TimeLeft


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


def told(residuals, pace, goal, most, *, first=1):
    """What is said after each step: whether it is a bound, and the seconds, of which `ms` and `h` are not expected."""
    left, said = TimeLeft(goal, most), []
    for place, residual in enumerate(residuals):
        words = left.see(first + place, residual, 100.0 + pace * place)[1]
        found = re.fullmatch(r"(about|at most) ([\d.]+) (s|min) left", words)
        said.append(found and (found[1], float(found[2]) * {"s": 1, "min": 60}[found[3]]))
    return said


@pytest.mark.parametrize("first", [1, 57])  # from the beginning, and after a resume
@pytest.mark.parametrize("seed", range(5))
def test_the_time_left_is_nearly_right_after_ten_steps(first, seed):
    """Residuals that fall by a factor of 0.8 and jump about by as much, as those of conjugate gradients do."""
    random = np.random.default_rng(seed)
    steps = 60
    residuals = 0.8 ** np.arange(steps) * np.exp(random.normal(0, 0.4, steps))
    said = told(residuals, 3.0, 0.8**steps, 1000, first=first)
    truth = 3.0 * (steps - 1 - np.arange(steps))
    assert said[:4] == [None] * 4
    for place in range(10, steps - 10):
        kind, seconds = said[place]
        assert kind == "about"
        assert 0.4 * truth[place] <= seconds <= 2.5 * truth[place], place
    jumps = [after[1] / before[1] for before, after in pairwise(said[15:-10])]
    assert 0.6 < min(jumps) < max(jumps) < 1.5


def test_the_time_left_follows_a_rate_that_changes():
    """Fast at first, then a tenth as fast: the beginning does not promise an early end for long."""
    residuals = np.concatenate([0.3 ** np.arange(6), 0.3**5 * 0.85 ** np.arange(1, 60)])
    said = told(residuals, 1.0, residuals[-1], 1000)
    truth = len(residuals) - 1 - np.arange(len(residuals))
    for place in range(16, 45):
        assert 0.5 * truth[place] <= said[place][1] <= 2 * truth[place], place


def test_what_does_not_fall_is_bounded_by_the_number_of_steps():
    said = told(np.ones(10), 2.0, 1e-3, 50)
    assert said[4:] == [("at most", 2.0 * (50 - step)) for step in range(5, 11)]
    assert told(0.5 ** np.arange(10), 2.0, 0.0, 50)[-1] == ("at most", 80.0)  # only the number of steps ends it
