"""Rows on the workers of a Dask cluster: what conformance, which runs in threads of this process, does not see."""

import contextlib
import itertools
import os
import signal
import sys
import threading
import time

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import torch
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import gyrfalcon as gf
from gyrfalcon import data
from gyrfalcon.data import DaskSource
from gyrfalcon.kernels import Function, Gaussian, Matern
from gyrfalcon.matrix import choice, dask_tasks
from gyrfalcon.solvers import LeastSquares
from reference import DTYPES, TOLERANCE, Comparison, dense, relative_error
from reference.solving import falkon


class Parts(DaskSource):
    """A source whose partitions are not joined."""

    def task_rows(self):
        return 1


@contextlib.contextmanager
def _cluster(**options):
    with LocalCluster(dashboard_address=":0", **options) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def client():
    with _cluster(processes=False, n_workers=2, threads_per_worker=1) as client:
        yield client


pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # Earlier releases of Dask warn of what some tests mean to do.
    pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler:UserWarning"),
]
on_cluster = pytest.mark.usefixtures("client")


def _points(n, d=3, dtype=np.float64, seed=0):
    return (1 + np.random.default_rng([n, d, seed]).standard_normal((n, d))).astype(dtype)


def _parts(X, rows=16, kind=Parts):
    return kind(da.from_array(X, chunks=(rows, -1)))


@on_cluster
@settings(derandomize=True, deadline=None, max_examples=8, database=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    m=st.integers(1, 9),
    joined=st.booleans(),
    known=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    engine=st.sampled_from([None, "native", "torch"]),
)
def test_any_partitions_agree_with_the_array(counts, m, joined, known, dtype, engine):
    X, C, kernel = _points(sum(counts), 3, dtype), _points(m, 3, dtype, 1), Matern(1.5, nu=1.5)
    collection = da.from_array(X, chunks=(tuple(counts), (3,)))
    if not known:
        collection = collection[collection[:, 0] > -np.inf]
        assert np.isnan(collection.shape[0])
    source = (DaskSource if joined else Parts)(collection)
    assert len(source.parts) == (min(1, len(X)) if joined else sum(count > 0 for count in counts))
    compared = Comparison(gf.KernelMatrix(kernel, source, C, engine=engine), dense(kernel, X, C), TOLERANCE[dtype])
    compared.products(2)
    compared.grams()
    compared.entries()
    assert not compared.missed


@on_cluster
def test_bits_depend_on_the_partitions_alone():
    X, C = _points(900, 4, np.float32), _points(20, 4, np.float32, 1)
    V, W, weights = (_points(n, 2, np.float32, 2) for n in (20, 900, 900))

    def results():
        K = gf.KernelMatrix(Gaussian(1.0), _parts(X, 40), C)
        return [K @ V, K.T @ W, K.gram_mv(V, weights[:, 0]), K.gram(), K.to_dense()]

    expected = results()
    for other in (results, lambda: _on_one_worker(results), lambda: _in_this_thread(results)):
        for found, value in zip(other(), expected, strict=True):
            np.testing.assert_array_equal(found, value)


def _on_one_worker(call):
    with _cluster(processes=False, n_workers=1, threads_per_worker=1):
        return call()


def _in_this_thread(call):
    with dask.config.set(scheduler="synchronous"):
        return call()


@on_cluster
def test_small_partitions_are_joined_and_large_ones_left_alone():
    class UpTo100(DaskSource):
        def task_rows(self):
            return 100

    X = _points(600)
    source = UpTo100(da.from_array(X, chunks=((30, 30, 30, 30, 0, 300, 10, 90, 80), (3,))))
    assert [part.stop for part in source.parts] == [90, 30, 300, 100, 80]
    np.testing.assert_array_equal(source.to_array(), X)


@on_cluster
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_come_as_from_any_source(dtype):
    X = _points(200, 3, dtype)
    source = _parts(X, 30)
    np.testing.assert_array_equal(source.take([199, 3, -1, 3, 45]), X[[199, 3, -1, 3, 45]])
    assert source.take([]).shape == (0, 3)
    with pytest.raises(IndexError, match=r"\[-200, 200\)"):
        source.take([200])
    some = source[25:171]
    assert isinstance(some, DaskSource)
    np.testing.assert_array_equal(some[10:].to_array(), X[35:171])
    np.testing.assert_array_equal(some.take([0, 145]), X[[25, 170]])
    for rows, chunk in source.chunks(5, 150, rows=37):
        np.testing.assert_array_equal(chunk, X[rows])
    assert isinstance(source.astype(np.float64), DaskSource)
    np.testing.assert_array_equal(source.astype(np.float32).to_array(), X.astype(np.float32))
    with pytest.raises(ValueError, match="step 1"):
        source[::2]
    centers = gf.centers.select("uniform", Gaussian(1.0), source, 10, random=np.random.default_rng(0))
    assert {tuple(row) for row in centers} <= {tuple(row) for row in X}


@on_cluster
def test_chunks_across_columns_and_other_types():
    X = np.arange(60).reshape(20, 3)
    source = DaskSource(da.from_array(X, chunks=(7, 2)))
    assert source.dtype == np.float64
    np.testing.assert_array_equal(source.to_array(), X)
    table = data.open(da.from_array(X, chunks=(7, 2)), target=1, weight=0)
    assert table.X.dtype == np.float32
    np.testing.assert_array_equal(table.X.to_array(), X[:, 2:])
    np.testing.assert_array_equal(table.y, X[:, 1])
    np.testing.assert_array_equal(table.weights, X[:, 0])


FRAME = pd.DataFrame(
    {
        "a": np.linspace(0, 1, 40),
        "b": np.arange(40, dtype=np.int32),
        "flag": np.arange(40) % 3 == 0,
        "whole": pd.array(np.arange(40), dtype="Int64"),
        "label": ["red", "green", "blue", "green"] * 10,
        "y": np.linspace(-1, 1, 40),
    }
)


@on_cluster
def test_data_frames():
    frame = dd.from_pandas(FRAME, npartitions=4)
    table = data.open(frame, target="y", weight="b", features=["whole", "flag", "a"], dtype=np.float64)
    assert table.X.names == ("whole", "flag", "a")
    np.testing.assert_array_equal(table.X.to_array(), FRAME[["whole", "flag", "a"]].to_numpy(np.float64))
    np.testing.assert_array_equal(table.y, FRAME["y"])
    np.testing.assert_array_equal(table.weights, FRAME["b"])
    assert data.open(frame, target="label").y.tolist() == FRAME["label"].tolist()
    two = data.open(frame, target=["y", "a"], features=["b"])
    np.testing.assert_array_equal(two.y, FRAME[["y", "a"]].to_numpy(np.float32))
    filtered = data.open(frame[frame["a"] > 0.5], target="y", features=["a"], dtype=np.float64)  # one part is empty
    np.testing.assert_array_equal(filtered.X.to_array()[:, 0], FRAME["a"][FRAME["a"] > 0.5])
    assert len(filtered.y) == len(filtered.X) == 20


@on_cluster
def test_every_partition_is_loaded_once():
    loaded = []

    def load(block):
        loaded.append(len(block))
        return block

    X = _points(60)
    array = da.from_array(X, chunks=(20, -1)).map_blocks(load, dtype=X.dtype, meta=np.empty((0, 0)))
    with dask.config.set(scheduler="threads"):  # whose tasks see the list
        table = data.open(array, target=0, dtype=np.float64)
        K = gf.KernelMatrix(Gaussian(1.0), table.X, X[:4, 1:].copy())
        for _ in range(3):
            K.gram_mv(np.ones(4))
    assert loaded == [20, 20, 20]


@on_cluster
@pytest.mark.parametrize("bad", [np.nan, -np.inf, 1e300])
def test_bad_numbers_are_found_on_the_workers(bad):
    X = _points(60)
    X[45, 1] = bad
    with pytest.raises(ValueError, match=r"array: partition 2, row 5 of it, column 1 is .*float32: drop or impute"):
        data.open(da.from_array(X, chunks=(20, -1)))
    frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]), npartitions=3)
    with pytest.raises(ValueError, match="dataframe: partition 2, row 5 of it, column 'b' is"):
        data.open(frame)
    if np.isnan(bad):
        with pytest.raises(ValueError, match="partition 2, column 'b' has rows of no value"):
            data.open(frame, target="b")


@on_cluster
def test_numbers_too_large_for_another_type():
    wide = _parts(np.array([[1.0], [1e300]]))
    with pytest.raises(ValueError, match="too large for float32"):
        gf.KernelMatrix(Gaussian(1.0), wide.astype(np.float32), np.zeros((1, 1), np.float32)) @ np.ones(1, np.float32)


@on_cluster
def test_weights_may_be_overwritten_between_products():
    X = _points(50)
    D = dense(Gaussian(1.0), X, X[:4])
    for scheduler in (None, "threads"):
        with dask.config.set(scheduler=scheduler):
            K = gf.KernelMatrix(Gaussian(1.0), _parts(X), X[:4])
            weights = np.ones(50)
            K.gram(weights)
            sent = K._engine._shared[1]
            K.gram_mv(np.ones(4), np.ones(50))
            assert K._engine._shared[1] is sent
            weights[:] = 2.0
            assert relative_error(K.gram(np.ones(50)), D.T @ D) <= TOLERANCE[np.float64]
            assert relative_error(K.gram(weights), 2 * D.T @ D) <= TOLERANCE[np.float64]


@on_cluster
def test_gradients():
    X, C = _points(50), torch.tensor(_points(5, seed=1), requires_grad=True)
    scale = torch.tensor(1.2, dtype=torch.float64, requires_grad=True)
    V, found = torch.ones(5, dtype=torch.float64), []
    for points in (X, _parts(X)):
        K = gf.KernelMatrix(Gaussian(scale * 1.0), points, C)
        (K @ V).square().sum().backward()
        found.append((C.grad.clone(), scale.grad.clone(), K.row_gradients(slice(7, 45), np.ones((38, 5))).C))
        C.grad = scale.grad = None
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def _fit(points, X, callback=None):
    y = torch.from_numpy(np.sin(X[:, :1].astype(np.float64))).to(torch.from_numpy(X).dtype)
    C = points.take(np.arange(0, len(X), 40)) if isinstance(points, DaskSource) else points[::40]
    problem = LeastSquares(gf.KernelMatrix(Gaussian(1.0), points, C), y, 1e-4)
    solution = falkon(problem, tolerance=0.0, max_iterations=8, callback=callback)
    return solution.coefficients.numpy()


@on_cluster
@pytest.mark.parametrize("dtype", DTYPES)
def test_solvers_do_not_notice(dtype):
    X = _points(800, 3, dtype)
    assert relative_error(_fit(_parts(X, 70), X), _fit(X, X)) <= 1e-6


def test_products_take_turns_with_all_threads_of_their_worker():
    def task(number):
        with dask_tasks.turn(7):
            began = time.perf_counter()
            time.sleep(0.05)
            return began, time.perf_counter(), torch.get_num_threads()

    for threads in (1, 2):
        with _cluster(processes=False, n_workers=1, threads_per_worker=threads) as client:
            spans = sorted(client.gather(client.map(task, range(3), pure=False)))
        assert [span[2] for span in spans] == [threads] * 3
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert task(0)[2] == 7  # no worker
    assert torch.get_num_threads() == 1


def test_workers_of_one_process_do_not_wait_for_each_other(client):
    def task(number):
        with dask_tasks.turn(1):
            began = time.perf_counter()
            time.sleep(0.2)
            return began, time.perf_counter()

    workers = list(client.nthreads())
    (a, b), (c, d) = client.gather([client.submit(task, i, workers=[workers[i]], pure=False) for i in range(2)])
    assert max(a, c) < min(b, d)


def test_no_client():
    with dask.config.set(scheduler="threads"):
        K = gf.KernelMatrix(Gaussian(1.0), da.from_array(_points(30), chunks=(10, -1)), _points(4))
    assert "in threads of this process" in K.plan().reason
    assert relative_error(K.gram(), np.linalg.multi_dot([K.to_dense().T, K.to_dense()])) <= TOLERANCE[np.float64]


@on_cluster
def test_plan():
    X = _points(50)
    K = gf.KernelMatrix(Gaussian(1.0), _parts(X), X[:3])
    plan = K.plan()
    assert (plan.engine, plan.cache, plan.block_rows, plan.threads) == ("dask", False, 16, 2)
    assert "X is in 4 parts, each of which goes to the native engine on workers of inproc://" in str(plan)
    assert "X is on a cluster" in str(plan)
    odd = gf.KernelMatrix(Function(lambda x, y: x @ y.T), _parts(X), X[:3])
    assert "torch engine on workers of" in odd.plan().reason
    assert relative_error(odd @ np.ones(3), X @ X[:3].sum(0)) <= TOLERANCE[np.float64]
    kept = gf.KernelMatrix(Gaussian(1.0), _parts(X), X[:3], cache=True)
    results = [kept @ np.ones(3) for _ in range(3)]
    assert kept.engine == "cached"
    assert relative_error(results[2], results[0]) <= TOLERANCE[np.float64]
    wide = gf.KernelMatrix(Gaussian(1.0), _parts(X.astype(np.float32)), X[:3].astype(np.float32))
    wide._X.values.chunk_rows = lambda budget=None: 10
    assert wide.widened().engine == "dask"
    assert gf.KernelMatrix(Gaussian(1.0), _parts(X), X[:3], engine="streamed").engine == "streamed"


@on_cluster
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: data.open(dask.bag.from_sequence([1])), "must be a Dask array or data frame, got Bag"),
        (lambda: DaskSource(np.ones((3, 3))), "must be a Dask array or data frame, got ndarray"),
        (lambda: DaskSource(da.ones(3)), "two dimensions"),
        (lambda: DaskSource(da.ones((3, 2), dtype=complex)), "column 0 holds complex128"),
        (lambda: data.open(da.ones((3, 2)), target=2), "no column 2: it has columns 0 to 1"),
        (lambda: data.open(da.ones((0, 2))), "has no rows"),
        (lambda: data.open(dd.from_pandas(FRAME, npartitions=2), target="z"), "no column 'z': it has a, b, flag"),
        (lambda: data.open(dd.from_pandas(FRAME, npartitions=2)), "column 'label' holds .*only numbers.*encode them"),
        (lambda: data.open(dd.from_pandas(FRAME, npartitions=2)["a"]), "two dimensions"),
        (lambda: gf.KernelMatrix("rbf", da.ones((3, 2))), "C must be in memory"),
        (lambda: gf.KernelMatrix("rbf", np.ones((3, 2)), engine="dask"), "needs a Dask array or data frame"),
        (lambda: gf.KernelMatrix("rbf", da.ones((3, 2)), np.ones((1, 2)), engine="sparse"), "needs sparse points"),
        (
            lambda: choice.choose(Gaussian(1.0), _parts(_points(3)), None, torch.device("cuda"), 1, None),
            r"C is on cuda .*\.cpu",
        ),
    ],
)
def test_misuse(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_kernels_that_cannot_be_sent(client):
    lock = threading.Lock()

    def k(x, y):
        with lock:
            return x @ y.T

    with pytest.raises(TypeError, match=r"kernel: .* cannot be sent to Dask workers"):
        gf.KernelMatrix(Function(k), _parts(_points(20)), _points(3))


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"pip install 'gyrfalcon\[dask\]'"):
        DaskSource(None)
    X = _points(5)
    assert gf.KernelMatrix("rbf", data.open(X, dtype=X.dtype).X, X).engine == "streamed"  # nobody else needs it


@pytest.fixture(scope="module")
def processes():
    with _cluster(processes=True, n_workers=2, threads_per_worker=1) as client:
        yield client


def test_blas_has_the_threads_of_the_worker(processes):
    def threads():
        with threadpool_limits(5, user_api="blas"), dask_tasks.turn(7):  # in a worker, neither five nor seven counts
            return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}

    assert processes.submit(threads, pure=False).result() == {1}


def test_a_worker_killed_between_products(processes):
    X, killed = _points(4000), []

    def kill(step):
        if step.iteration == 3:
            killed.extend(processes.run(os.getpid).values())
            os.kill(killed[0], signal.SIGKILL)
        return False

    expected = _fit(X, X)
    assert relative_error(_fit(_parts(X, 300), X, kill), expected) <= 1e-6
    assert killed


def test_a_worker_killed_within_a_product(processes, tmp_path):
    X, mark, client_id = _points(2000), str(tmp_path / "killed"), os.getpid()

    def k(x, y):  # the first process that comes here dies
        import os

        assert os.getpid() != client_id
        with contextlib.suppress(FileExistsError):
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), 9)
        return x @ y.T

    K = gf.KernelMatrix(Function(k), _parts(X, 200), X[:5])
    W = np.ones((2000, 1))
    D = X @ X[:5].T
    assert relative_error(K.T @ W, D.T @ W) <= TOLERANCE[np.float64]
    assert os.path.exists(mark)
    assert relative_error(K.gram_mv(np.ones(5), W[:, 0]), D.T @ (D @ np.ones(5))) <= TOLERANCE[np.float64]
