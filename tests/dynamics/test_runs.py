"""Runs: pairs stay within them, their order does not matter, broken frames drop their pairs, files are streamed."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gyrfalcon as gf
from gyrfalcon.dynamics import Koopman, RunWarning
from gyrfalcon.dynamics.runs import Runs
from reference import koopman as oracle


def make(lengths, seed=0, d=2):
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.normal(size=(length, d)), 0) for length in lengths]


def plain(runs, centers, kernel, lag):
    """Pairs by their numbers, moments by two kernel matrices."""
    frames = np.concatenate(runs)
    i, j = oracle.pairs([len(run) for run in runs], lag)
    whole = np.isfinite(frames).all(1)
    i, j = i[whole[i] & whole[j]], j[whole[i] & whole[j]]
    K = [gf.KernelMatrix(kernel, frames[rows], centers) for rows in (i, j)]
    return gf.moments.CrossMoments.of(*K, whitening=gf.moments.SpectralWhitening.of(K[0]))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(4, 30), min_size=1, max_size=6), st.integers(1, 3))
def test_no_pair_bridges_a_boundary(lengths, lag):
    runs = make(lengths)
    centers, kernel = make([5], seed=9)[0], gf.kernels.Gaussian(3.0)
    model = Koopman("krr", kernel=kernel, centers=centers, lag=lag).fit(runs)
    expected = plain(runs, centers, kernel, lag)
    assert model.n_pairs_ == sum(length - lag for length in lengths) == expected.count
    np.testing.assert_allclose(model.moments_.cross.between, expected.between, atol=1e-10)
    np.testing.assert_allclose(model.moments_.cross.before, expected.before, atol=1e-10)


def test_blocks_do_not_matter(monkeypatch):
    runs = make([700, 50, 400])
    whole = Koopman("rrr", n_centers=40, rank=5, lag=7, random_state=0).fit(runs)
    monkeypatch.setattr("gyrfalcon.dynamics.lift.BLOCK_ROWS", 5)
    monkeypatch.setattr("gyrfalcon.dynamics.runs.CHUNK_ROWS", 33)
    pieces = Koopman("rrr", n_centers=40, rank=5, lag=7, random_state=0).fit(runs)
    assert pieces.n_pairs_ == whole.n_pairs_
    np.testing.assert_allclose(pieces.eigenvalues_, whole.eigenvalues_, atol=1e-9)


@pytest.mark.parametrize("centers", ["uniform", "kmeans", "leverage", "pivoted"])
def test_order_of_runs_does_not_matter(centers):
    runs = make([100, 80, 130, 60])
    one, two = (
        Koopman("rrr", centers=centers, n_centers=30, rank=4, random_state=0).fit(order) for order in (runs, runs[::-1])
    )
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_, atol=1e-12)
    np.testing.assert_allclose(one.predict(runs[0], 3), two.predict(runs[0], 3), atol=1e-12)


def test_labels_of_one_array_are_runs():
    runs = make([40, 50, 60])
    labels = np.repeat(["b", "a", "c"], [40, 50, 60])
    options = {"n_centers": 20, "rank": 3, "random_state": 0}
    one, two = Koopman(**options).fit(runs), Koopman(**options).fit(np.concatenate(runs), trajectory=labels)
    np.testing.assert_array_equal(one.eigenvalues_, two.eigenvalues_)
    with pytest.raises(ValueError, match="several places"):
        Koopman().fit(np.concatenate(runs), trajectory=np.arange(150) % 2)
    with pytest.raises(ValueError, match="one label for each"):
        Koopman().fit(runs[0], trajectory=[1, 2])


def test_short_runs_are_dropped_with_a_notice():
    runs = make([40, 3, 50, 2])
    with pytest.warns(RunWarning, match=r"2 of 4 runs have no more than lag=3"):
        model = Koopman(n_centers=20, rank=3, lag=3, random_state=0).fit(runs)
    assert model.n_pairs_ == 37 + 47


def test_a_broken_frame_drops_only_its_pairs():
    runs = make([60, 40])
    runs[0][30, 1] = np.nan
    runs[1][0, 0] = np.inf
    centers, kernel = make([5], seed=9)[0], gf.kernels.Gaussian(3.0)
    with pytest.warns(RunWarning, match="3 of 96 pairs hold NaN"):
        model = Koopman("krr", kernel=kernel, centers=centers, lag=2).fit(runs)
    expected = plain(runs, centers, kernel, 2)
    assert model.n_pairs_ == 58 + 38 - 3 == expected.count
    np.testing.assert_allclose(model.moments_.cross.between, expected.between, atol=1e-10)
    with pytest.warns(RunWarning):
        assert np.isfinite(Koopman(n_centers=30, rank=3).fit(runs).predict(np.zeros((1, 2)))).all()


def test_partial_fit_is_fit():
    runs = make([100, 80, 130, 60])
    options = {"centers": np.concatenate(runs)[::15], "kernel": gf.kernels.Gaussian(4.0), "rank": 5, "penalty": 1e-4}
    whole, pieces = Koopman(**options).fit(runs), Koopman(**options)
    for run in runs:
        pieces.partial_fit([run])
    assert pieces.n_pairs_ == whole.n_pairs_
    np.testing.assert_allclose(pieces.eigenvalues_, whole.eigenvalues_, atol=1e-10)
    np.testing.assert_allclose(pieces.predict(runs[0], 4), whole.predict(runs[0], 4), atol=1e-10)


def test_pairs_are_runs_of_two():
    run = make([80])[0]
    options = {"centers": run[::8], "kernel": gf.kernels.Gaussian(3.0), "rank": 4}
    one, two = Koopman(**options).fit(run), Koopman(**options).fit_pairs(run[:-1], run[1:])
    assert one.n_pairs_ == two.n_pairs_ == 79
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_, atol=1e-10)
    with pytest.raises(ValueError, match="one row of Y"):
        Koopman().fit_pairs(run[:-1], run)


@pytest.mark.parametrize("kind", ["parquet", "csv", "npy", "source", "table", "dask"])
def test_files_are_runs(tmp_path, kind):
    pandas = pytest.importorskip("pandas")
    runs = [run.astype(np.float32) for run in make([50, 70, 40])]
    frames, labels = np.concatenate(runs), np.repeat([3, 1, 2], [50, 70, 40])
    table = pandas.DataFrame({"x": frames[:, 0], "run": labels, "y": frames[:, 1]})
    trajectory = "run"
    if kind == "parquet":
        data = tmp_path / "runs.parquet"
        table.to_parquet(data)
    elif kind == "csv":
        data = tmp_path / "runs.csv"
        table.to_csv(data, index=False)
    elif kind == "npy":
        data, trajectory = tmp_path / "runs.npy", 1
        np.save(data, table.to_numpy())
    elif kind == "dask":
        dask_array = pytest.importorskip("dask.array")
        data, trajectory = dask_array.from_array(frames, chunks=(30, 2)), labels
    elif kind == "source":
        data, trajectory = gf.data.open(frames).X, labels
    else:
        table.to_parquet(tmp_path / "runs.parquet")
        data, trajectory = gf.data.open(tmp_path / "runs.parquet", target="run"), None
    options = {"centers": frames[::20], "kernel": gf.kernels.Gaussian(3.0), "rank": 4}
    found = Koopman(**options).fit(data, trajectory=trajectory)
    expected = Koopman(**options).fit(runs)
    assert found.n_pairs_ == 49 + 69 + 39
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, atol=1e-9)


def test_files_with_text_labels_inputs_and_gaps(tmp_path):
    pandas = pytest.importorskip("pandas")
    runs = make([50, 70], d=3)
    frames = np.concatenate(runs).astype(np.float32)
    frames[20, 0] = np.nan
    table = pandas.DataFrame(frames, columns=["x", "y", "u"])
    table["name"] = np.repeat(["left", "right"], [50, 70])
    path = tmp_path / "runs.parquet"
    table.to_parquet(path)
    with pytest.warns(RunWarning, match="2 of 118 pairs"):
        model = Koopman("krr", n_centers=20, random_state=0).fit(path, trajectory="name", inputs=["u"])
    assert (model.n_features_in_, model.n_inputs_, model.n_pairs_) == (2, 1, 116)


def test_cut_runs_and_parts():
    runs = Runs.of(make([100, 30, 10])).cut(7)
    assert runs.lengths.sum() == 140
    assert runs.lengths.max() <= 20
    parts = runs.parts(4)
    assert (np.diff(parts) >= 0).all()
    assert set(parts) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("runs", "match"),
    [
        ([], "empty"),
        ([np.zeros(5)], re.escape("x[:, None]")),
        ([np.zeros((5, 2)), np.zeros((5, 3))], "3 features"),
        (np.zeros((5, 2, 2)), "shape"),
        ([np.full((5, 2), np.nan)], "free of NaN"),
    ],
)
def test_bad_runs(runs, match):
    with pytest.raises(ValueError, match=match):
        Koopman().fit(runs)


def test_bad_inputs():
    run = make([20])[0]
    with pytest.raises(ValueError, match="list of 1 arrays"):
        Koopman().fit([run], inputs=[run, run])
    with pytest.raises(ValueError, match="shape"):
        Koopman().fit([run], inputs=[run[:5]])


MEMORY = """
import resource, sys
import numpy as np, gyrfalcon as gf
path, rows = sys.argv[1], int(sys.argv[2])
out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, 3))
for start in range(0, rows, 100_000):
    stop = min(rows, start + 100_000)
    t = np.arange(start, stop)
    out[start:stop] = np.stack([np.sin(0.01 * t), np.cos(0.013 * t), t // 50_000], 1)
    out.flush()
del out
options = {"n_centers": 30, "rank": 4, "lag": 5, "random_state": 0, "memory_budget": 50_000_000}
gf.dynamics.Koopman(**options).fit(gf.data.open(path).X[:20_000], trajectory=np.zeros(20_000))
open("/proc/self/clear_refs", "w").write("5")
model = gf.dynamics.Koopman(**options).fit(path, trajectory=2)
status = {line.split(":")[0]: line.split()[1] for line in open("/proc/self/status") if line.startswith("Vm")}
print(model.n_pairs_, int(status["VmHWM"]) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_frames(tmp_path):
    peaks = []
    for rows in (100_000, 1_000_000):
        ran = subprocess.run(
            [sys.executable, "-c", MEMORY, str(tmp_path / "runs.npy"), str(rows)], capture_output=True, text=True
        )
        if ran.returncode and "clear_refs" in ran.stderr:
            pytest.skip("the peak of memory cannot be reset here")
        assert ran.returncode == 0, ran.stderr
        pairs, peak = (int(word) for word in ran.stdout.split())
        assert pairs == rows - 5 * (rows // 50_000)
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 60  # MB; 1,000,000 rows of 30 kernel values would be 240
