"""Plans: more work never takes less time, memory is as measured, and mistakes are named."""

import dataclasses
import subprocess
import sys
import textwrap
from itertools import pairwise

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.estimators.trial import allowed_seconds
from gyrfalcon.planning import calibration, cost, fit_plan, load, tuned
from gyrfalcon.planning.calibration import Rates, calibrate
from gyrfalcon.planning.law import Law
from gyrfalcon.progress import duration
from gyrfalcon.solvers.choice import expected

SIZES = {"n": 2_000_000, "d": 9, "m": 800, "t": 2, "iterations": 10}


def law(*best):
    return Law(best, tuple(1.3 * coefficient for coefficient in best))


# Like those of a machine of two cores, but the same in every run.
RATES = Rates(
    centers=law(1e-3, 1e-8, 1e-6),
    factor=law(1.7e-8, 1.3e-11),
    right_side=law(1e-3, 1e-8, 4e-10),
    product=law(1e-3, 2e-8, 4e-10),
    precondition=law(1e-4, 2.5e-9),
    filling=law(2e-9),
    reading=law(3e-9),
    reading_work=law(3e-9),
    seconds=1.0,
)


@pytest.fixture(scope="module", autouse=True)
def _short_calibrations():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "LONGEST", 0.2)
        patch.setattr(calibration, "PATIENCE", 0.2)
        patch.setattr(fit_plan, "load_of_machine", lambda: 0.0)
        yield


@pytest.fixture
def given_rates(monkeypatch):
    monkeypatch.setattr(fit_plan, "calibrate", lambda conditions: RATES)


@pytest.fixture(scope="module")
def measured():
    """A plan by a real calibration."""
    return gf.plan(**SIZES)


@pytest.mark.parametrize("storage", ["memory", "parquet"])
@pytest.mark.parametrize("name", ["n", "m", "t", "iterations"])
@pytest.mark.usefixtures("given_rates")
def test_more_work_never_takes_less(name, storage):
    plans = [gf.plan(**SIZES | {name: factor * SIZES[name]}, storage=storage) for factor in (1, 2, 5)]
    for less, more in pairwise(plans):
        assert more.total > less.total or name == "t"  # outputs change the rates, which are given here
        assert all(more.seconds[part].point >= less.seconds[part].point for part in less.seconds)
        assert more.peak_bytes >= less.peak_bytes


def test_more_work_never_takes_less_by_measured_rates(measured):
    for name in ("n", "m", "iterations"):  # the same calibration serves all of them
        assert gf.plan(**SIZES | {name: 2 * SIZES[name]}).total > measured.total


def test_more_outputs_take_longer_by_measured_rates(measured):
    assert gf.plan(**SIZES | {"t": 30}).total > measured.total  # several times as long


@pytest.mark.usefixtures("given_rates")
def test_workers_never_slow_down_what_they_compute(monkeypatch):
    monkeypatch.setattr(cost, "NETWORK_DELAY", 0.0)
    monkeypatch.setattr(cost, "NETWORK_BYTES", np.inf)
    totals = [gf.plan(**SIZES, workers=count).total for count in (1, 2, 3, 8, 64)]
    assert totals == sorted(totals, reverse=True)


@pytest.mark.usefixtures("given_rates")
def test_network_costs_grow_with_workers_and_vectors():
    def iterations(**changes):
        return gf.plan(**SIZES | {"n": 10_000} | changes).seconds["iterations"].point

    assert iterations(workers=1024, m=5000) > iterations(workers=64, m=5000)
    few, many = (gf.plan(**SIZES | {"t": t}, workers=64).seconds["right_side"].point for t in (1, 1000))
    assert many > few


@pytest.mark.usefixtures("given_rates")
def test_reading_slower_than_computing_sets_the_pace(monkeypatch):
    slow = dataclasses.replace(RATES, reading=law(1e-3))
    in_cache = gf.plan(**SIZES, storage="parquet")
    monkeypatch.setattr(fit_plan, "calibrate", lambda conditions: slow)
    from_disk = gf.plan(**SIZES, storage="parquet")
    assert from_disk.seconds["iterations"].point >= 10 * SIZES["n"] * SIZES["d"] * 1e-3
    assert in_cache.total < from_disk.total


def test_a_law_recovers_what_it_was_made_from():
    terms = [[1, 4096, 2e6], [1, 80_000, 4e7], [1, 30_000, 5e7]]
    times = np.array(terms) @ [1e-3, 2e-8, 4e-10]
    found = Law.fit(terms, [[2 * time, time, 1.5 * time] for time in times])
    np.testing.assert_allclose(found.best, [1e-3, 2e-8, 4e-10], rtol=1e-6)
    np.testing.assert_allclose(found.typical, np.multiply(1.5, found.best), rtol=1e-6)
    point, low, high = found(1, 1e6, 1e9)
    assert low < point < 1.5 * point < high


def test_the_interval_contains_the_point(measured):
    for part in measured.seconds.values():
        assert 0 <= part.low <= part.point <= part.high
    low, high = measured.interval
    assert low < measured.total < high
    parts = sum(part.point for name, part in measured.seconds.items() if name != "total")
    assert measured.total == pytest.approx(parts)


def test_the_calibration_is_made_once(measured, monkeypatch):
    monkeypatch.setattr(calibration, "_MiniatureFit", None)  # another calibration would call it
    again = gf.plan(**SIZES | {"n": 1e8, "m": 4000}, workers=4)
    assert again.total > measured.total
    with pytest.raises(TypeError, match="not callable"):
        gf.plan(**SIZES | {"d": 11})


def test_kept_matrices_are_calibrated_and_counted():
    plan = gf.plan(5000, 90, 100, iterations=5, memory_budget=1e9)
    assert plan.memory["kept"] == 5000 * 100 * 4
    assert "K kept" in str(plan)


@pytest.mark.usefixtures("given_rates")
def test_rows_that_are_not_held_are_not_kept():
    for elsewhere in ({"storage": "npy"}, {"workers": 2}, {"memory_budget": 1e6}):
        assert gf.plan(**{"n": 5000, "d": 90, "m": 100, "memory_budget": 1e9} | elsewhere).memory["kept"] == 0


def test_files_are_read_in_the_calibration():
    pytest.importorskip("pyarrow")
    plan = gf.plan(1e6, 9, 500, storage="parquet")
    setting = cost.Setting(**{field.name: getattr(plan, field.name) for field in dataclasses.fields(cost.Setting)})
    assert calibrate(setting.conditions()).reading.best[0] > 0
    assert "a disk that gives" in str(plan)


def test_memory_is_as_measured():
    """Within a third and 15 MB, that is, with room for allocators: a part that was forgotten would be larger."""
    n, d, m = 200_000, 30, 1200
    script = textwrap.dedent(f"""
        import numpy as np, torch, gyrfalcon as gf

        def status(field):
            with open("/proc/self/status") as file:
                return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))

        def fit(n, m):
            random = np.random.default_rng(0)
            X = random.standard_normal((n, {d}), dtype=np.float32)
            kernel = gf.kernels.Gaussian(5.0)
            C = gf.centers.select("uniform", kernel, X, m, random=random)
            Y = torch.from_numpy(X[:, :1].copy())
            problem = gf.solvers.LeastSquares(gf.KernelMatrix(kernel, X, C), Y, 1e-6)
            gf.solvers.solve(problem, gf.solvers.Falkon(tolerance=0.0, max_iterations=1))

        torch.set_num_threads(1)
        fit(2000, 100)
        before = status("VmRSS")
        fit({n}, {m})
        print(status("VmHWM") - before)
    """)
    try:
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    except subprocess.CalledProcessError as error:
        if "/proc/self/status" in error.stderr:
            pytest.skip("the peak of a process is read from /proc")
        raise
    setting = cost.Setting(n, d, m, 1, "float32", gf.kernels.Gaussian(5.0), 1, None, 1, "memory", 10**9)
    assert int(ran.stdout) == pytest.approx(cost.peak(cost.memory(setting)), rel=1 / 3, abs=15e6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n must be a whole number, 1 or more, got 0"),
        ({"n": 1.5}, "n must be .* got 1.5"),
        ({"n": float("inf")}, "n must be .* got inf"),
        ({"d": "9"}, "d must be .* got '9'"),
        ({"d": True}, "d must be .* got True"),
        ({"m": -1}, "m must be .* got -1"),
        ({"m": 3_000_000}, "m must be at most n.*m=3000000 and n=2000000"),
        ({"t": 0}, "t must be"),
        ({"iterations": -1}, "iterations must be .* 0 or more"),
        ({"workers": 0}, "workers must be"),
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64', got 'float16'"),
        ({"dtype": "single precision"}, "dtype must be"),
        ({"storage": "tape"}, "storage must be one of 'memory', 'parquet'.* got 'tape'"),
        ({"memory_budget": 0}, "memory_budget must be"),
        ({"devices": "cuda"}, "devices must be a list"),
        ({"kernel": "unheard"}, "kernel must be one of"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        gf.plan(**SIZES | changes)


@pytest.mark.usefixtures("given_rates")
def test_types_are_read_in_any_spelling():
    import torch

    for spelling in ("float64", np.float64, np.dtype("float64"), torch.float64):
        assert gf.plan(**SIZES, dtype=spelling).dtype == "float64"


@pytest.mark.usefixtures("given_rates")
def test_tables_have_a_plan_in_each_place():
    plan = gf.plan(**SIZES)
    table = plan.table()
    assert table.shape == (5, 4)
    assert (table[4, 3].n, table[4, 3].workers) == (10**9, 64)
    lines = str(table).split("\n")
    assert len(lines) == 7
    assert " ".join(lines[1].split()) == "rows 1 machine 2 machines 8 machines 64 machines memory of one"
    assert lines[-1].split()[0] == "1,000,000,000"
    assert table._repr_html_().count("<td>") == 5 * 6
    assert plan.table(rows=[SIZES["n"]], workers=[1])[0, 0] == plan
    for bad in ({"rows": ()}, {"rows": (0,)}, {"workers": 3}, {"workers": "1"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            plan.table(**bad)


@pytest.mark.usefixtures("given_rates")
def test_plans_say_what_they_assume():
    plan = gf.plan(**SIZES, workers=8, devices=["cpu", "cpu"])
    for words in ("8 machines like this one", "1.25 GB/s", "shared by cpu, cpu", "uniform centers"):
        assert words in str(plan)
    assert len(str(plan).split("\n")) == 4
    assert plan._repr_html_().startswith("<table><caption>falkon: 2,000,000 × 9 float32")


def test_durations_have_the_unit_that_suits_them():
    said = [duration(seconds) for seconds in (0.0021, 0.9, 1.0, 59, 119, 7200, 86400, 1e6)]
    assert said == ["2.1 ms", "900 ms", "1 s", "59 s", "2 min", "2 h", "24 h", "12 days"]


@pytest.mark.usefixtures("given_rates")
def test_a_busy_machine_is_told_and_widens_the_interval(monkeypatch):
    monkeypatch.setattr(load.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(load.torch, "get_num_threads", lambda: 2)
    quiet = gf.plan(**SIZES)
    monkeypatch.setattr(fit_plan, "load_of_machine", lambda: 6.0)
    busy = gf.plan(**SIZES)
    assert "busy" not in str(quiet)
    assert "the machine is busy, with a load of 6.0 on 2 processors" in str(busy)
    assert busy.total == quiet.total
    assert busy.interval == pytest.approx((quiet.interval[0], 4 * quiet.interval[1]))
    for plan in (quiet, busy):
        parts = [part for name, part in plan.seconds.items() if name != "total"]
        assert np.sum(parts, axis=0) == pytest.approx(plan.seconds["total"])


class TestTuned:
    """Plans of fits with default arguments."""

    @pytest.fixture(autouse=True)
    def _rates(self, monkeypatch):
        monkeypatch.setattr(tuned, "calibrate", lambda *_: tuned.Rates(tuning=0.3, exact=2.0, iterative=2.0))

    def test_what_comes_beside_the_solve_is_planned_too(self):
        plan = gf.plan(3000, 8)
        assert plan.tuned
        assert set(plan.seconds) == {"tuning", "solve", "total"}
        assert plan.seconds["tuning"].point == pytest.approx(0.3, rel=0.01)
        assert plan.total == pytest.approx(sum(plan.seconds[part].point for part in ("tuning", "solve")))
        assert plan.m == 3000
        assert str(plan).startswith("default fit: 3,000 × 8 float32 features in memory, up to 3,000 centers, 1 output")

    @pytest.mark.parametrize("changed", [{"n": 2000}, {"n": 6000}, {"n": 400_000}, {"d": 100}, {"d": 2000}, {"t": 40}])
    def test_more_work_takes_no_less_time(self, changed):
        base = {"n": 1500, "d": 8, "t": 1}
        assert gf.plan(**base | changed).total > gf.plan(**base).total

    def test_the_solve_has_the_price_of_what_would_be_taken(self, monkeypatch):
        """The same estimates that a fit decides by, times how much slower the machine is."""
        seen = []

        def watched(problem):
            seen.append((problem.K.shape, expected(problem).seconds))
            return expected(problem)

        monkeypatch.setattr("gyrfalcon.estimators.trial.expected", watched)
        solve = gf.plan(100_000, 8).seconds["solve"]
        assert {shape[0] for shape, _ in seen} == {100_000}
        most = max(price for _, price in seen if price <= allowed_seconds(100_000, 8))
        assert solve.low == pytest.approx(2.0 * most / tuned.SPREAD)  # as many centers as are allowed
        assert solve.low < solve.point < solve.high
        seen.clear()
        monkeypatch.setattr(tuned, "expected", watched)
        exact = gf.plan(4000, 8).seconds["solve"]
        assert [shape for shape, _ in seen] == [(4000, 4000)]
        assert exact.point == pytest.approx(2.0 * seen[0][1])

    def test_points_take_no_memory(self):
        assert gf.plan(10**9, 100).total > gf.plan(10**8, 100).total

    @pytest.mark.parametrize(
        "given", [{"kernel": "gaussian"}, {"iterations": 5}, {"workers": 2}, {"storage": "npy"}, {"devices": ["cpu"]}]
    )
    def test_what_says_how_falkon_fits_needs_centers(self, given):
        with pytest.raises(ValueError, match=f"{next(iter(given))}=.*give m, or leave"):
            gf.plan(1000, 3, **given)

    def test_tables_are_of_one_machine(self):
        table = gf.plan(1000, 3).table(rows=(1e4, 1e6))
        assert table.shape == (2, 1)
        assert table[1, 0].m == 3000
        assert "assumed" in str(gf.plan(1000, 3))
        with pytest.raises(ValueError, match="workers=\\(1, 8\\) is for fits with a number of centers"):
            gf.plan(1000, 3).table(workers=(1, 8))


def test_a_miniature_fit_tells_the_rates():
    rates = tuned.calibrate(120, 3, 1, "float32", 1)
    assert rates.tuning > 0
    assert rates.exact > 0
    assert rates.iterative > 0
