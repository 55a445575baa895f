"""Reflections in the compiled core: whatever does not fit together is refused before any memory is touched."""

import numpy as np
import pytest

native = pytest.importorskip("gyrfalcon._native")


def _with_room(d, columns):
    """An identity with zeros beside it, in whole vectors of eight."""
    return np.eye(d, -(-columns // 8) * 8)


def _take_up(d=4, t=2, n=3, **changes):
    rng = np.random.default_rng(0)
    given = {"table": _with_room(d, d + t), "rows": rng.normal(size=(n, d + t)), "leftover": np.zeros((1, t))} | changes
    native.take_up(**given)
    return given


@pytest.mark.parametrize(("d", "t", "n"), [(1, 0, 1), (1, 1, 20), (33, 5, 9), (130, 1, 17), (0, 2, 3), (3, 2, 0)])
def test_native_reflections_keep_the_gram_matrix(d, t, n):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(n, d + t))
    given = _take_up(d, t, n, rows=rows.copy())
    stacked = np.vstack([np.eye(d, d + t), rows])
    table, beside = np.split(given["table"], [d + t], axis=1)
    gram = table.T @ table
    assert (beside == 0).all()
    np.testing.assert_allclose(gram[:d], (stacked.T @ stacked)[:d], atol=1e-12)
    squares = np.diag(gram)[d:] + given["leftover"][0]
    np.testing.assert_allclose(squares, np.diag(stacked.T @ stacked)[d:], atol=1e-12)


@pytest.mark.parametrize("room", [0, 5])
def test_native_projection_solves(room):
    rng = np.random.default_rng(2)
    whole = np.triu(rng.normal(size=(6, 9 + room))) + 3 * np.eye(6, 9 + room)
    table = whole[:, :9]
    rows = rng.normal(size=(4, 9))
    X, Y = rows[:, :6].copy(), rows[:, 6:].copy()
    native.project(table, rows)
    V = np.linalg.solve(table[:, :6].T, X.T).T
    np.testing.assert_allclose(rows[:, :6], V, atol=1e-12)
    np.testing.assert_allclose(rows[:, 6:], Y - V @ table[:, 6:], atol=1e-12)


def test_native_projection_of_what_nothing_is_known_of():
    rows = np.ones((1, 3))
    native.project(np.zeros((2, 3)), rows)
    assert (rows == [[0, 0, 1]]).all()


def test_native_reflections_leave_room_beside_the_table_alone():
    whole = np.full((3, 20), 7.0)
    whole[:, :8] = np.eye(3, 8)
    _take_up(3, 2, 4, table=whole)
    assert (whole[:, 8:] == 7).all()


REFUSED = {
    "table too narrow": {"table": np.eye(4, 3)},
    "table by columns": {"table": np.asfortranarray(np.eye(4, 8))},
    "table with steps between": {"table": np.zeros((4, 16))[:, ::2]},
    "table whose rows overlap": {"table": np.lib.stride_tricks.as_strided(np.zeros(40), (4, 8), (8, 8))},
    "table that runs backwards": {"table": np.zeros((4, 8))[::-1]},
    "table of floats": {"table": np.eye(4, 8, dtype=np.float32)},
    "table of one dimension": {"table": np.zeros(6)},
    "rows too short": {"rows": np.zeros((3, 3))},
    "rows too long": {"rows": np.zeros((3, 9))},
    "rows by columns": {"rows": np.asfortranarray(np.zeros((3, 6)))},
    "rows of floats": {"rows": np.zeros((3, 6), dtype=np.float32)},
    "leftover of one output": {"leftover": np.zeros((1, 1))},
    "leftover of two rows": {"leftover": np.zeros((2, 2))},
    "leftover of no rows": {"leftover": np.zeros((0, 2))},
}


@pytest.mark.parametrize("case", REFUSED)
def test_native_reflections_refuse(case):
    with pytest.raises((ValueError, TypeError)):
        _take_up(**REFUSED[case])


@pytest.mark.parametrize("case", [case for case in REFUSED if "leftover" not in case])
def test_native_projection_refuses(case):
    given = {"table": np.eye(4, 8), "rows": np.zeros((3, 6))} | REFUSED[case]
    with pytest.raises((ValueError, TypeError)):
        native.project(**given)


def test_native_reflections_refuse_a_table_without_room():
    with pytest.raises(ValueError, match="room for whole vectors"):
        _take_up(table=np.eye(4, 6))


def test_native_reflections_refuse_to_write_what_is_read_only():
    table = np.eye(4, 8)
    table.flags.writeable = False
    with pytest.raises((ValueError, TypeError)):
        _take_up(table=table)
