"""What takes a while says so: in the log where there is no terminal, and as a bar where there is one."""

import logging
import re
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon import progress
from gyrfalcon.estimators.trial import try_partition
from gyrfalcon.planning import calibration
from gyrfalcon.progress import Bar, TimeLeft
from gyrfalcon.tables import files
from gyrfalcon.tuning.rows import Data


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when the test says so."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress._clock, "add", lambda bar: None)  # which would look between two lines of the test
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


@pytest.fixture
def looks(monkeypatch):
    """The threads that look at the clock look all the time, and the test can wait until one has looked."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 1e-4)
    monkeypatch.setattr(progress, "PATIENCE_TO_SHOW", 1e-3)


def wait_for(condition):
    ended = threading.Event()
    for _ in range(20_000):
        if condition():
            return
        ended.wait(1e-3)
    raise AssertionError("nothing was told")


def test_stages_without_steps_are_told(looks, caplog):
    with caplog.at_level(logging.INFO, logger="gyrfalcon"), Bar("fit", verbose=True):
        for name in ("choosing length scales", "calibrating probabilities"):
            progress.stage(name)
            wait_for(lambda name=name: any(record.message.startswith(name) for record in caplog.records))
    names = [record.message.partition(":")[0] for record in caplog.records]
    assert list(dict.fromkeys(names)) == ["choosing length scales", "calibrating probabilities"]


def test_a_stage_is_told_after_two_seconds(clock, caplog):
    """Of a fit of 13 seconds: what is going on after two, then each stage that takes as long, and again after ten."""
    with caplog.at_level(logging.INFO, logger="gyrfalcon"):
        bar = Bar("fit", verbose=True)
        for second, name in ((0, "tuning"), (3, "choosing centers"), (4, "fitting leaves"), (20, "the end")):
            while clock[0] < second:
                clock[0] += 1
                bar._tell()
            bar.stage(name)
    said = [record.message for record in caplog.records]
    assert said == ["tuning: 2 s", "fitting leaves: 6 s", "fitting leaves: 16 s"]


def test_of_two_bars_one_is_logged(clock, caplog):
    with caplog.at_level(logging.INFO, logger="gyrfalcon"), Bar("outer", verbose=True) as outer:
        with Bar("inner", verbose=True) as inner:
            for second in range(31):
                clock[0] = float(second)
                inner.look()
                outer.look()
        outer.look()
    said = [record.message for record in caplog.records if record.message.startswith("outer")]
    assert said == ["outer: 30 s"]


def test_bars_within_bars(clock, monkeypatch):
    """The inner one is shown alone, an inner one that is silent lets the outer one be, and nothing is left over."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Bar("outer", verbose=True) as outer:
        clock[0] = 3.0
        outer.step()
        assert outer._bar is not None
        with Bar("quiet", verbose=False):
            assert progress.stage("a stage").step() is False
            assert outer._bar is not None
        with Bar("inner", verbose=True) as inner:
            inner.step()
            assert outer._bar is not None  # a quick one does not disturb it
            clock[0] = 6.0
            inner.step()
            outer.step()
            assert (outer._bar, inner._bar is not None) == (None, True)
        outer.step()
        assert outer._bar is not None
    assert (outer._bar, progress._innermost.get()) == (None, None)


def test_quick_fits_share_a_thread(caplog, monkeypatch):
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(progress, "_clock", progress._Clock())
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread), start(thread)))
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 0.1)
    with caplog.at_level(logging.INFO, logger="gyrfalcon"), Bar("many", verbose=True):
        for _ in range(20):
            with Bar("one", verbose=True):
                pass
    (thread,) = started
    thread.join(20)
    assert not thread.is_alive()  # it ends when nothing is left to follow


def test_quiet_work_has_no_thread(monkeypatch):
    def start(thread):
        raise AssertionError("a thread was started")

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    for verbose in (True, False):  # the log does not take INFO
        with Bar("fit", verbose=verbose) as bar:
            bar.step()


def test_the_stages_of_a_fit(monkeypatch):
    seen = []
    begin = Bar._begin
    monkeypatch.setattr(Bar, "_begin", lambda bar, name, total: (seen.append(name), begin(bar, name, total))[1])
    random = np.random.default_rng(0)
    X = random.random((900, 2))
    y = X[:, 0] > X[:, 1] + 0.1 * random.standard_normal(900)
    gf.KernelClassifier(n_centers=100, random_state=0).fit(X, y)
    assert seen == [
        "reading",
        "choosing length scales",
        "tuning",
        "choosing centers",
        "solving",
        "calibrating probabilities",
    ]
    seen.clear()
    with Bar("study", verbose=True) as bar:
        gf.KernelRegressor(partition=gf.Partition(leaf_rows=200, centers=50), tune=None).fit(X, y)
        assert bar._name == "study"
    stages = ["choosing length scales", "choosing centers", "solving", "fitting leaves", "estimating uncertainty"]
    assert seen == ["study", "reading", *stages]
    seen.clear()
    gf.TableModel(gf.KernelRegressor(n_centers=50, tune=None)).fit({"a": X[:, 0], "y": X[:, 1]}, "y")
    assert seen[:4] == ["reading the table", "fitting", "reading", "choosing length scales"]


def test_a_trial_of_leaves_and_its_leaves_count(monkeypatch):
    seen = {}
    show = Bar.show

    def noted(bar, total, text, completed):
        seen.setdefault(bar._name, []).append((completed, total))
        show(bar, total, text, completed)

    monkeypatch.setattr(Bar, "show", noted)
    random = np.random.default_rng(0)
    X = random.random((900, 2))
    Y = np.sin(20 * X[:, :1])
    kernel = gf.kernels.Gaussian(0.3)
    with Bar("fit", verbose=True):
        settings = gf.Partition(leaf_rows=100, centers=50)
        try_partition(settings, kernel, Data(X, Y, None), 1e-3, 100, intercept=True, memory_budget=1 << 28)
    (counts,) = seen.values()
    assert list(seen) == ["trying centers and leaves"]
    assert counts == [(place, len(counts)) for place in range(1, len(counts) + 1)]
    bar = Bar("fitting leaves", verbose=False)
    local = gf.partition.fit_partition(kernel, X, Y, 1e-3, settings, bar=bar)
    assert seen["fitting leaves"] == [(place, local.n_leaves) for place in range(1, local.n_leaves + 1)]


def test_plans_say_that_they_calibrate(looks, monkeypatch, caplog):
    def measured(conditions):
        wait_for(lambda: caplog.records)
        raise KeyboardInterrupt

    monkeypatch.setattr(calibration, "_measured", measured)
    calibration.calibrate.cache_clear()  # another test may have asked for the same
    with caplog.at_level(logging.INFO, logger="gyrfalcon"), pytest.raises(KeyboardInterrupt):
        gf.plan(1_234_567, 3, 1000)
    assert caplog.records[0].message.startswith("calibrating to this machine: ")


def test_reading_a_table_is_told(looks, monkeypatch, caplog, tmp_path):
    (tmp_path / "homes.csv").write_text("a,b\n1,2\n")
    monkeypatch.setattr(files, "read_csv", lambda *_: wait_for(lambda: caplog.records) or {"a": np.ones(1)})
    with caplog.at_level(logging.INFO, logger="gyrfalcon"):
        gf.tables.read_table(tmp_path / "homes.csv")
    assert caplog.records[0].message.startswith("reading homes.csv: ")


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
