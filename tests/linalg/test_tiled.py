import mmap
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import lapack, solve_triangular

from gyrfalcon.linalg import rows, tiled, tiles
from gyrfalcon.linalg.strips import tiled_solve
from gyrfalcon.linalg.tiled import tiled_cholesky, tiled_lauum

DTYPES = [np.float32, np.float64]


def positive(m, dtype=np.float64, order="C", seed=0):
    B = np.random.default_rng(seed).normal(size=(m, m + 3))
    return np.array(B @ B.T / (m + 3) + 0.1 * np.eye(m), dtype=dtype, order=order)


def budget_for(side, dtype, workers=1):
    """Bytes just enough for tiles of a side."""
    return int(np.ceil(workers * 3 * side**2 * np.dtype(dtype).itemsize / 0.8)) + 1


def triangle(matrix, lower):
    return np.tril(matrix) if lower else np.triu(matrix)


def other(matrix, lower):
    return np.triu(matrix, 1) if lower else np.tril(matrix, -1)


def assert_close(found, expected, dtype=np.float64):
    tolerance = 1e-12 if np.dtype(dtype) == np.float64 else 2e-4
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def layouts(test):
    """Sizes, sides of tiles that need not divide them, and all ways to keep a triangle."""
    return settings(max_examples=40, deadline=None)(
        given(
            m=st.integers(1, 70),
            side=st.integers(1, 80),
            workers=st.integers(1, 3),
            dtype=st.sampled_from(DTYPES),
            order=st.sampled_from("CF"),
            lower=st.booleans(),
        )(test)
    )


@layouts
def test_cholesky(m, side, workers, dtype, order, lower):
    side = max(side, m // 12)
    A = positive(m, dtype, order, seed=m)
    L = np.linalg.cholesky(A.astype(np.float64))
    above = A.copy()
    tiled_cholesky(A, memory_budget=budget_for(side, dtype, workers), lower=lower, device=["cpu"] * workers)
    assert_close(triangle(A, lower), L if lower else L.T, dtype)
    np.testing.assert_array_equal(other(A, lower), other(above, lower))


@layouts
def test_lauum(m, side, workers, dtype, order, lower):
    side = max(side, m // 12)
    A = np.array(np.random.default_rng(m).normal(size=(m, m)), dtype=dtype, order=order)
    T = triangle(A, lower).astype(np.float64)
    above = A.copy()
    tiled_lauum(A, memory_budget=budget_for(side, dtype, workers), lower=lower, device=["cpu"] * workers)
    assert_close(triangle(A, lower), triangle(T.T @ T if lower else T @ T.T, lower), dtype)
    np.testing.assert_array_equal(other(A, lower), other(above, lower))


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(1, 70),
    strip=st.integers(1, 80),
    columns=st.integers(0, 4),
    dtype=st.sampled_from(DTYPES),
    order=st.sampled_from("CF"),
    lower=st.booleans(),
    transposed=st.booleans(),
)
def test_solve(m, strip, columns, dtype, order, lower, transposed):
    rng = np.random.default_rng(m)
    A = np.array(rng.normal(size=(m, m)) / m + 2 * np.eye(m), dtype=dtype, order=order)
    right = rng.normal(size=(m, columns) if columns else m).astype(dtype)
    budget = int(np.ceil(strip * m * A.itemsize / 0.8)) + 1
    found = tiled_solve(A, right, memory_budget=budget, lower=lower, transposed=transposed)
    T = A.astype(np.float64)
    expected = solve_triangular(T, right.astype(np.float64), lower=lower, trans=int(transposed))
    assert found.shape == right.shape
    assert_close(found, expected, dtype)


@pytest.mark.parametrize("workers", [1, 2])
def test_as_lapack_with_tiles_large_enough_for_its_blocks(workers):
    A = positive(1003, order="F")
    expected, _ = lapack.dpotrf(A, lower=1, clean=0)
    budget = budget_for(150, np.float64, workers)
    tiled_cholesky(A, memory_budget=budget, device=["cpu"] * workers)
    assert_close(np.tril(A), np.tril(expected))
    product, _ = lapack.dlauum(expected, lower=1)
    tiled_lauum(A, memory_budget=budget, device=["cpu"] * workers)
    assert_close(np.tril(A), np.tril(product))


@pytest.mark.parametrize("operation", [tiled_cholesky, tiled_lauum])
def test_the_same_bits_for_any_number_of_workers(operation):
    results = []
    for workers in (1, 2, 3, 3):
        A = positive(300, np.float32)
        operation(A, memory_budget=budget_for(20, np.float32, workers), device=["cpu"] * workers)
        results.append(A)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("operation", [tiled_cholesky, tiled_lauum])
def test_workers_wait_for_a_slow_one(operation, monkeypatch):
    read, write = tiles.Tiles.read, tiles.Tiles.write

    def slowly(method):
        def late(self, i, j, *rest):
            if (i + 2 * j) % 3 == 0:
                time.sleep(0.002)
            return method(self, i, j, *rest)

        return late

    monkeypatch.setattr(tiles.Tiles, "read", slowly(read))
    monkeypatch.setattr(tiles.Tiles, "write", slowly(write))
    A, alone = positive(60), positive(60)
    operation(A, memory_budget=budget_for(5, A.dtype, 3), device=["cpu"] * 3)
    operation(alone, memory_budget=budget_for(5, A.dtype))
    np.testing.assert_array_equal(A, alone)


@pytest.mark.parametrize("operation", [tiled_cholesky, tiled_lauum])
def test_budget_bounds_what_workers_hold(operation, monkeypatch):
    A = positive(200)
    held = []
    init = tiles.NumpyWorker.__init__

    def noted(self, *args):
        init(self, *args)
        held.extend(buffer.nbytes for buffer in self._buffers)

    monkeypatch.setattr(tiles.NumpyWorker, "__init__", noted)
    operation(A, memory_budget=20_000, device=["cpu", "cpu"])
    assert len(held) == 6
    assert 10_000 < sum(held) <= 16_000


# Memory maps.


@pytest.fixture
def mapped(tmp_path):
    def make(values, mode="w+", order="C", offset=0):
        path = tmp_path / "matrix"
        file = np.memmap(path, values.dtype, "w+", offset, values.shape, order)
        file[:] = values
        file.flush()
        return np.memmap(path, values.dtype, mode, offset, values.shape, order) if mode != "w+" else file

    return make


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("offset", [0, 4096 + 128])
def test_memory_map(mapped, monkeypatch, order, offset):
    monkeypatch.setattr(rows, "_PASSING", 1 << 13)  # several strips a tile
    A, right = positive(301), np.arange(301.0)
    file = mapped(A, order=order, offset=offset)
    tiled_cholesky(file, memory_budget=budget_for(80, A.dtype, 2), device=["cpu", "cpu"])
    L = np.linalg.cholesky(A)
    on_disk = np.memmap(file.filename, A.dtype, "r", offset, A.shape, order)
    assert_close(np.tril(on_disk), L)
    assert_close(tiled_solve(on_disk, right, memory_budget=10**5), solve_triangular(L, right, lower=True))
    tiled_lauum(file, memory_budget=budget_for(80, A.dtype))
    assert_close(np.tril(on_disk), np.tril(L.T @ L))


def test_private_copy_of_a_file_is_not_dropped(mapped):
    A = positive(200)
    private = mapped(A, mode="c")
    tiled_cholesky(private, memory_budget=budget_for(64, A.dtype))
    assert_close(np.tril(private), np.linalg.cholesky(A))
    np.testing.assert_array_equal(np.memmap(private.filename, A.dtype, "r", 0, A.shape), A)


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="pages cannot be given back here")
@pytest.mark.parametrize("operation", [tiled_cholesky, tiled_lauum, tiled_solve])
def test_pages_of_a_file_do_not_stay(mapped, monkeypatch, operation):
    monkeypatch.setattr(rows, "_PASSING", 1 << 18)
    A = positive(600)
    file = mapped(A)
    rows.Rows(file).release(0, len(A))
    before = _resident_file(file)
    if operation is tiled_solve:
        operation(file, np.ones(len(A)), memory_budget=10**6)
    else:
        operation(file, memory_budget=10**6)
    assert before == _resident_file(file) == 0
    assert file[0, 0] != 0
    assert _resident_file(file) > 0  # the measure can tell


def _resident_file(file):
    """Kilobytes of a mapping that this process has in memory."""
    try:
        with open("/proc/self/smaps", encoding="utf-8") as smaps:
            lines = iter(smaps.read().splitlines())
    except OSError:
        pytest.skip("needs /proc")
    total = 0
    for line in lines:
        if str(file.filename) in line:
            total += next(int(entry.split()[1]) for entry in lines if entry.startswith("Rss:"))
    return total


# Failures.


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("minor", [1, 20, 57])
def test_not_positive_definite_names_the_leading_minor(minor, workers):
    A = positive(60)
    A[minor - 1, minor - 1] = -1
    with pytest.raises(np.linalg.LinAlgError, match=f"leading minor of order {minor} "):
        tiled_cholesky(A, memory_budget=budget_for(7, A.dtype, workers), device=["cpu"] * workers)


@pytest.mark.parametrize("operation", [tiled_cholesky, tiled_lauum])
@pytest.mark.parametrize("where", [(0, 0), (4, 2), (8, 8)])
def test_an_error_in_a_worker_surfaces_and_all_threads_end(operation, where, monkeypatch):
    write = tiles.Tiles.write

    def failing(self, i, j, tile):
        if (i, j) == where:
            raise OSError("no space left")
        write(self, i, j, tile)

    monkeypatch.setattr(tiles.Tiles, "write", failing)
    before = threading.active_count()
    outcome = []

    def attempt():
        try:
            operation(positive(90), memory_budget=budget_for(10, np.float64, 3), device=["cpu"] * 3)
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert threading.active_count() == before
    assert isinstance(outcome[0], OSError)


# PyTorch's arithmetic, on its own as no other device may be here.


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("lower", [False, True])
def test_torch_worker(monkeypatch, order, lower):
    class OnCpu(tiles.TorchWorker):
        def __init__(self, of):
            super().__init__(of, torch.device("cpu"))

    monkeypatch.setattr(tiled, "NumpyWorker", OnCpu)
    A = positive(50, order=order)
    above, L = A.copy(), np.linalg.cholesky(A)
    tiled_cholesky(A, memory_budget=2 * budget_for(13, A.dtype, 2), lower=lower, device=["cpu", "cpu"])
    assert_close(triangle(A, lower), L if lower else L.T)
    tiled_lauum(A, memory_budget=2 * budget_for(13, A.dtype, 2), lower=lower, device=["cpu", "cpu"])
    assert_close(triangle(A, lower), triangle(L.T @ L, lower))
    np.testing.assert_array_equal(other(A, lower), other(above, lower))
    A[20, 20] = -100
    with pytest.raises(np.linalg.LinAlgError, match="order 21 "):
        tiled_cholesky(A, memory_budget=2 * budget_for(13, A.dtype), lower=lower)


# Input.


@pytest.mark.parametrize("operation", [tiled_cholesky, tiled_lauum])
@pytest.mark.parametrize(
    ("matrix", "options", "error", "words"),
    [
        (np.ones((3, 4)), {}, ValueError, "matrix must be square"),
        (np.ones(4), {}, ValueError, "matrix must be square"),
        ([[1.0]], {}, TypeError, "matrix must be a NumPy array"),
        (np.eye(3, dtype=int), {}, TypeError, "matrix must hold float32 or float64"),
        (np.eye(3, dtype=">f8"), {}, TypeError, "native byte order"),
        (np.eye(8)[::2, ::2], {}, ValueError, "matrix must be contiguous"),
        (np.broadcast_to(1.0, (1, 1)), {}, ValueError, "mode='r\\+'"),
        (np.eye(3), {"memory_budget": -1}, ValueError, "memory_budget must be a positive"),
        (np.eye(3), {"memory_budget": 0.5}, ValueError, "memory_budget must be a positive"),
        (np.eye(3), {"memory_budget": 20}, ValueError, "memory_budget=20 .* raise it"),
        (np.eye(3), {"device": "abacus"}, ValueError, "device='abacus'"),
        (np.eye(3), {"device": []}, ValueError, "device must name"),
    ],
)
def test_what_is_refused(operation, matrix, options, error, words):
    with pytest.raises(error, match=words):
        operation(matrix, **{"memory_budget": 10**6, **options})


def test_solve_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"right must have shape \(3,\) or \(3, t\)"):
        tiled_solve(np.eye(3), np.ones(4), memory_budget=100)
    with pytest.raises(ValueError, match="memory_budget must be a positive"):
        tiled_solve(np.eye(3), np.ones(3), memory_budget=0)


@pytest.mark.parametrize("devices", ["cpu", ["cpu", "cpu"]])
def test_nothing_to_do(devices):
    empty = np.empty((0, 0))
    tiled_cholesky(empty, memory_budget=1000, device=devices)
    tiled_lauum(empty, memory_budget=1000, device=devices)
    assert tiled_solve(empty, np.empty((0, 2)), memory_budget=1000).shape == (0, 2)
