import gc
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gyrfalcon.linalg import rows, scratch
from gyrfalcon.linalg.scratch import ScratchFullError
from gyrfalcon.linalg.square import InMemory, OnDisk, Square
from gyrfalcon.linalg.strips import Triangle

from .squares import assert_close, in_memory, on_disk, positive


def both(test):
    """Sizes and sides of tiles, small enough for several strips of a file in each."""
    return settings(max_examples=30, deadline=None)(given(m=st.integers(1, 60), tile=st.integers(4, 70))(test))


@pytest.fixture(autouse=True, scope="module")
def few_rows_at_a_time():
    kept = rows._PASSING
    rows._PASSING = 1 << 12
    yield
    rows._PASSING = kept


def noise(m, columns=None):
    return np.random.default_rng(m).normal(size=(m, m if columns is None else columns))


@both
def test_mirror(m, tile):
    values = noise(m)
    for from_lower in (False, True):
        kept = np.tril(values) if from_lower else np.triu(values)
        for matrix in (in_memory(values), on_disk(values, tile)):
            matrix.mirror(from_lower=from_lower)
            np.testing.assert_array_equal(matrix.array, kept + kept.T - np.diag(np.diag(kept)))


@both
def test_change_lower(m, tile):
    values, places = np.round(100 * noise(m)), np.arange(m)

    def change(block, rows, columns):
        assert block.shape == (rows.stop - rows.start, columns.stop - columns.start)
        block *= 2
        block += places[rows, None] - 3 * places[None, columns]

    changed = 2 * values + places[:, None] - 3 * places
    for matrix in (in_memory(values), on_disk(values, tile)):
        matrix.change_lower(change)
        np.testing.assert_array_equal(matrix.array, np.tril(changed) + np.triu(values, 1))


@both
def test_add_gram(m, tile):
    values = noise(m)
    for count in (0, 1, 5):
        features = noise(m, count)
        expected = np.tril(values - 0.5 * features @ features.T) + np.triu(values, 1)
        for matrix in (in_memory(values), on_disk(values, tile)):
            matrix.add_gram(features, -0.5)
            assert_close(matrix.array, expected)


@both
def test_diagonals_and_blocks(m, tile):
    values = noise(m)
    for matrix in (in_memory(values), on_disk(values, tile)):
        np.testing.assert_array_equal(matrix.diagonal(), np.diag(values))
        part = matrix.block(slice(m // 3, m), slice(m // 4, m // 2))
        np.testing.assert_array_equal(part, values[m // 3 :, m // 4 : m // 2])
        matrix.set_diagonal(np.arange(m))
        np.testing.assert_array_equal(matrix.array, values - np.diag(np.diag(values)) + np.diag(np.arange(m)))


@both
def test_factor_and_square(m, tile):
    values = positive(m)
    L = np.linalg.cholesky(values)
    for matrix in (in_memory(values), on_disk(values, tile)):
        assert matrix.factor(lower=False)
        assert_close(matrix.array, L.T + np.tril(values, -1))
        matrix.set_diagonal(np.diag(values))
        assert matrix.factor(lower=True)
        assert_close(matrix.array, np.triu(L.T, 1) + L)
        matrix.square_lower()
        assert_close(matrix.array, np.triu(L.T, 1) + np.tril(L.T @ L))
        matrix.set_diagonal(-1.0)
        assert not matrix.factor(lower=True)


@both
def test_solves_and_products(m, tile):
    values, vectors, diagonal = positive(m), noise(m, 2), np.linspace(1, 2, m)
    matrices = in_memory(values), on_disk(values, tile)
    for lower in (False, True):
        for transposed in (False, True):
            triangle = Triangle(lower, transposed, diagonal)
            for name in ("solve", "multiply", "multiply_symmetric"):
                for right in (vectors, vectors[:, 0]):
                    found = [getattr(matrix, name)(right, triangle) for matrix in matrices]
                    assert found[0].shape == found[1].shape == right.shape
                    assert_close(found[1], found[0])
            second = Triangle(not lower, not transposed, diagonal[::-1])
            found = [matrix.solve_in_turn(vectors, triangle, second, vectors) for matrix in matrices]
            assert_close(found[1][0], found[0][0])
            assert_close(found[1][1], found[0][1])


# Where the matrix is.


@pytest.mark.parametrize(("share", "kind"), [(1.0, InMemory), (0.99, OnDisk)])
def test_half_the_budget_decides(share, kind, tmp_path):
    values = noise(50)
    calls = []

    def columns(start, stop):
        calls.append((start, stop))
        return values[:, start:stop]

    found = Square.fitting(50, columns, memory_budget=int(share * 2 * 8 * 50**2), directory=tmp_path)
    assert isinstance(found, kind)
    assert found.array.flags.f_contiguous
    np.testing.assert_array_equal(found.array, values)
    assert [start for start, _ in calls] == [0, *(stop for _, stop in calls[:-1])]
    assert calls[-1][1] == 50
    assert max(stop - start for start, stop in calls) <= 12  # an eighth of the budget


@pytest.mark.parametrize("budget", [10**6, 10**3])
def test_zero_where_nothing_is_given(budget):
    np.testing.assert_array_equal(Square.fitting(40, memory_budget=budget).array, np.zeros((40, 40)))


@pytest.mark.parametrize("budget", [10**6, 10**3])
def test_columns_of_a_wrong_shape_are_refused(budget):
    with pytest.raises(ValueError, match="columns must return an array of shape"):
        Square.fitting(40, lambda start, stop: np.zeros((39, stop - start)), memory_budget=budget)


def test_an_array_in_another_order_is_refused():
    with pytest.raises(ValueError, match="array must be Fortran-ordered"):
        InMemory(np.zeros((3, 3)))


def test_the_file_has_no_name_and_goes_with_the_object(tmp_path):
    found = Square.fitting(200, memory_budget=1000, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []
    if os.path.exists("/proc/self/maps"):
        assert _maps(tmp_path) > 0
        del found
        gc.collect()
        assert _maps(tmp_path) == 0


def _maps(folder):
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum(str(folder) in line for line in file)


def test_an_interrupted_filling_leaves_nothing(tmp_path):
    def columns(start, stop):
        if start > 20:
            raise KeyboardInterrupt
        return np.zeros((50, stop - start))

    with pytest.raises(KeyboardInterrupt):
        Square.fitting(50, columns, memory_budget=1000, directory=tmp_path)
    gc.collect()
    assert list(tmp_path.iterdir()) == []


# A full disk.


def test_a_disk_that_is_too_small_is_named_before_anything_is_made(tmp_path):
    def columns(start, stop):
        raise AssertionError

    with pytest.raises(
        ScratchFullError, match=r"8e\+09 GB .* TMPDIR .* memory_budget to twice .* fewer centers"
    ) as caught:
        Square.fitting(10**9, columns, memory_budget=10**6, directory=tmp_path)
    assert caught.value.filename == str(tmp_path)


@pytest.mark.parametrize("name", ["posix_fallocate", "write"])
def test_a_disk_that_others_fill_meanwhile(name, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    if name == "write":
        monkeypatch.setattr(scratch.Scratch, "_put", full, raising=True)
    else:
        monkeypatch.setattr(os, name, full, raising=False)
    with pytest.raises(ScratchFullError, match="does not fit"):
        Square.fitting(50, lambda start, stop: np.zeros((50, stop - start)), memory_budget=1000, directory=tmp_path)


def test_file_systems_that_cannot_allocate(tmp_path, monkeypatch):
    def unsupported(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported, raising=False)
    values = noise(50)
    found = Square.fitting(50, lambda start, stop: values[:, start:stop], memory_budget=1000, directory=tmp_path)
    np.testing.assert_array_equal(found.array, values)
    monkeypatch.delattr(os, "posix_fallocate")
    np.testing.assert_array_equal(Square.fitting(50, memory_budget=1000, directory=tmp_path).array, 0)


def test_a_temporary_directory_in_memory_is_avoided(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "_LARGE_FILES", tmp_path)
    monkeypatch.setattr(scratch, "_in_memory", lambda path: path != tmp_path)
    assert scratch._default_directory() == tmp_path
    monkeypatch.setattr(scratch, "_in_memory", lambda path: False)
    assert scratch._default_directory() != tmp_path
