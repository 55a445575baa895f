"""What holds for every source: the rows are those of the array, however they are cut, sliced, cast or gathered."""

import gc
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from gyrfalcon import data
from gyrfalcon.data.read_ahead import read_ahead

N, D = 83, 3
lightly = settings(
    derandomize=True,
    deadline=None,
    max_examples=10,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def _points(n=N, d=D):
    return np.random.default_rng(n).standard_normal((n, d))


def _npy(folder, X, size):
    np.save(folder / "x.npy", X)
    return data.open(folder / "x.npy").X


def _fortran(folder, X, size):
    np.save(folder / "f.npy", np.asfortranarray(X))
    return data.open(folder / "f.npy").X


def _memmap(folder, X, size):
    np.save(folder / "m.npy", X)
    return data.open(np.load(folder / "m.npy", mmap_mode="r")).X


def _table(X):
    return pa.table({f"x{j}": column for j, column in enumerate(X.T)})


def _parquet(folder, X, size):
    parquet.write_table(_table(X), folder / "x.parquet", row_group_size=size)
    return data.open(folder / "x.parquet").X


def _feather(folder, X, size, compression=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(folder / "x.feather", _table(X).schema, options=options) as writer:
        writer.write_table(_table(X), size)
    return data.open(folder / "x.feather").X


def _compressed(folder, X, size):
    return _feather(folder, X, size, "lz4")


def _zarr(folder, X, size):
    stored = zarr.open(folder / "c.zarr", mode="w", shape=X.shape, chunks=(size, 2), dtype=X.dtype)
    stored[:] = X
    return data.open(folder / "c.zarr").X


def _zarr_group(folder, X, size):
    group = zarr.open_group(folder / "g.zarr", mode="w")
    for j in range(D):
        group.create_array(f"x{j}", data=np.ascontiguousarray(X[:, j]), chunks=(size,))
    return data.open(folder / "g.zarr").X


def _hdf5(folder, X, size):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=(min(size, len(X)), D))
    return data.open(folder / "x.h5").X


def _hdf5_group(folder, X, size):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "g.h5", "w") as file:
        for j in range(D):
            file[f"inside/x{j}"] = X[:, j]
    return data.open(folder / "g.h5" / "inside").X


def _csv(folder, X, size):
    np.savetxt(folder / "x.csv", X, delimiter=",", header=",".join(f"x{j}" for j in range(D)), comments="", fmt="%.17g")
    return data.open(folder / "x.csv").X


def _list(folder, X, size):
    return data.open([X[i : i + size] for i in range(0, len(X), size)]).X


def _function(folder, X, size):
    return data.open(lambda: (X[i : i + size] for i in range(0, len(X), size))).X


def _array(folder, X, size):
    return data.open(X).X


READERS = {
    make.__name__[1:]: make
    for make in (
        *(_npy, _fortran, _memmap, _parquet, _feather, _compressed, _zarr, _zarr_group, _hdf5, _hdf5_group, _csv),
        *(_list, _function, _array),
    )
}
every_reader = pytest.mark.parametrize("reader", READERS)


def _gather(chunks):
    return [(rows.start, rows.stop, chunk) for rows, chunk in chunks]


@every_reader
@lightly
@given(data_=st.data(), size=st.sampled_from([1, 7, 40, 200]))
def test_rows_are_those_of_the_array(tmp_path, reader, data_, size):
    X = _points()
    source, X = READERS[reader](tmp_path, X, size), X.astype(np.float32)
    assert (source.shape, len(source), source.dtype) == ((N, D), N, np.float32)
    start = data_.draw(st.integers(0, N))
    stop = data_.draw(st.integers(start, N))
    rows = data_.draw(st.integers(1, N + 5))
    part = source[start:stop]
    assert part.shape == (stop - start, D)
    at = 0
    for first, last, chunk in _gather(part.chunks(rows=rows)):
        assert first == at
        assert len(chunk) == last - first == min(rows, stop - start - first)
        assert chunk.dtype == np.float32
        assert chunk.flags.c_contiguous
        np.testing.assert_array_equal(chunk, X[start + first : start + last])
        at = last
    assert at == stop - start
    np.testing.assert_array_equal(part.astype(np.float64).to_array(), X[start:stop].astype(np.float64))
    wanted = data_.draw(st.lists(st.integers(-N, N - 1), max_size=9))
    np.testing.assert_array_equal(source.take(wanted), X[np.array(wanted, dtype=int)])


@every_reader
def test_small_slices_in_turn(tmp_path, reader):
    X = _points()
    source = READERS[reader](tmp_path, X, 13)
    source.chunk_rows = lambda budget=None: 16
    view = source[5:]
    for start in (0, 4, 8, 40, 60, 8):
        np.testing.assert_array_equal(view[start : start + 9].to_array(), X[5:][start : start + 9].astype(np.float32))


@every_reader
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_is_an_error_with_file_and_row(tmp_path, reader, value):
    X = _points()
    X[57, 2] = value
    source = READERS[reader](tmp_path, X, 20)
    place = "column 2" if source.names is None else "column 'x2'"
    with pytest.raises(ValueError, match=rf"{source.where.rpartition('/')[2]}: row 57, {place}.*(drop|no value)"):
        _gather(source[10:].chunks(rows=9))
    assert all(np.isfinite(chunk).all() for *_, chunk in _gather(source[:57].chunks(rows=9)))


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda s: s[::2], ValueError, "step 1"),
        (lambda s: s[3], TypeError, "take"),
        (lambda s: s.take([0.5]), TypeError, "integers"),
        (lambda s: s.take([N]), IndexError, f"{N}"),
        (lambda s: s.chunks(rows=0), ValueError, "rows must be"),
        (lambda s: s.astype(np.int32), ValueError, "float32"),
        (np.asarray, TypeError, "to_array"),
    ],
)
def test_misuse(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(data.open(_points()).X)


def test_no_rows_give_no_chunks():
    source = data.ArraySource(np.zeros((0, 2)))
    assert list(source.chunks()) == []
    assert source.to_array().shape == (0, 2)


def test_chunks_shrink_with_the_budget_and_with_wide_rows():
    narrow, wide = (data.ArraySource(np.zeros((10, d), np.float32)) for d in (4, 4096))
    assert narrow.chunk_rows() == 1 << 17
    assert wide.chunk_rows() * 4096 * 4 == 16 << 20
    assert narrow.chunk_rows(1 << 20) * 16 <= (1 << 20) // 8
    assert narrow.chunk_rows(1) == 1


# Reading ahead.


def _readers():
    return [thread for thread in threading.enumerate() if thread.name == "gyrfalcon-reader"]


def test_reads_ahead_but_not_without_bound():
    begun = []
    items = read_ahead(begun.append(i) or i for i in range(100))
    assert next(items) == 0
    deadline = time.monotonic() + 5
    while len(begun) < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert begun == [0, 1, 2, 3]  # one is here, two wait, one is in hand
    items.close()


def test_errors_of_the_reader_surface_after_what_came_before():
    def items():
        yield 1
        raise KeyError("broken")

    iterator = read_ahead(items())
    assert next(iterator) == 1
    with pytest.raises(KeyError, match="broken"):
        next(iterator)
    assert not _readers()


@pytest.mark.parametrize("leave", ["close", "drop", "interrupt"])
def test_the_thread_ends_with_its_user(leave):
    closed = []

    def items():
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    iterator = read_ahead(items())
    assert next(iterator) == 0
    assert len(_readers()) == 1
    if leave == "close":
        iterator.close()
    elif leave == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            iterator.throw(KeyboardInterrupt())
    del iterator
    gc.collect()
    assert not _readers()
    assert closed == [True]
