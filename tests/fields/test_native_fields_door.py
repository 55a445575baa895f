"""Calls straight into the compiled core: what does not fit together is refused before any memory is touched."""

from __future__ import annotations

import numpy as np
import pytest

native = pytest.importorskip("gyrfalcon._native")

SIZES, FEATURES = [[3, 4, 5]], 2
PARAMETERS = 2 * (12 + 15 + 20)


def decode(**changes):
    given = {
        "parameters": np.ones(PARAMETERS),
        "sizes": SIZES,
        "features": FEATURES,
        "multiplies": True,
        "points": np.full((6, 3), 0.5),
        "offsets": np.array([0, 2, 6]),
        "basis": np.ones((2, 3, 2)),
        "density_basis": np.ones(2),
        "lengths": np.ones(6),
        "shift": 0.0,
        "most": 9.0,
        "out": np.zeros((6, 4)),
        "counts": np.zeros(2, np.int64),
        "threads": 1,
    } | changes
    native.plane_decode(**given)
    return given["out"]


def test_native_decode_runs():
    assert decode(lengths=None)[0, 0] == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": np.ones(PARAMETERS - 1)}, "parameters: wrong shape"),
        ({"points": np.ones((6, 2))}, "points: wrong number of columns"),
        ({"offsets": np.array([0, 2, 7])}, "offsets: do not fit"),
        ({"offsets": np.array([1, 2, 6])}, "offsets: do not fit"),
        ({"offsets": np.array([0, 7, 6])}, "offsets: do not fit"),
        ({"offsets": np.array([], np.int64)}, "offsets: needs the end"),
        ({"basis": np.ones((1, 3, 2))}, "basis: wrong shape"),
        ({"basis": np.ones((2, 2, 2))}, "basis: wrong shape"),
        ({"density_basis": np.ones(3)}, "density_basis: wrong shape"),
        ({"lengths": np.ones(5)}, "lengths: wrong shape"),
        ({"out": np.zeros((6, 1))}, "out: wrong shape"),
        ({"counts": np.zeros(3, np.int64)}, "counts: wrong shape"),
        ({"sizes": [[1, 4, 5]]}, "2 to 32768 nodes"),
        ({"sizes": [[3]]}, "2 to 8 axes"),
        ({"sizes": [[3, 4, 5], [3, 4]]}, "as many axes"),
        ({"sizes": []}, "need a scale"),
        ({"features": 0}, "need a scale and a feature"),
    ],
)
def test_native_decode_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        decode(**changes)


def test_native_points_that_are_no_numbers_touch_no_foreign_memory():
    points = np.full((6, 3), np.nan)
    points[1], points[2], points[3] = np.inf, -np.inf, 1e300
    assert np.isfinite(decode(points=points, lengths=None)).all()


def test_native_backward_refuses_more_samples_than_there_are():
    with pytest.raises(ValueError, match="counts: more than the samples of a ray"):
        native.plane_decode_backward(
            np.ones(PARAMETERS), SIZES, FEATURES, True, np.ones((6, 3)), np.array([0, 2, 6]), np.array([3, 4]),
            np.ones((2, 3, 2)), np.ones(2), np.ones((6, 4)), np.zeros(PARAMETERS), np.zeros((2, 3, 2)), np.zeros(2), 1,
        )  # fmt: skip


def test_native_march_refuses_and_ends():
    rays = [np.zeros((2, 3)), np.ones((2, 3)), np.zeros(2), np.full(2, np.inf), np.zeros(2), None]
    with pytest.raises(ValueError, match="occupied: must be a cube"):
        native.march(*rays, np.ones((2, 2, 3), np.uint8), 0.1, False, 1)
    with pytest.raises(ValueError, match="step: must be positive"):
        native.march(*rays, np.ones((2, 2, 2), np.uint8), 0.0, False, 1)
    single = [None if part is None else part.astype(np.float32) for part in rays]
    with pytest.raises(ValueError, match="step: must be positive"):  # which single precision makes of it
        native.march(*single, np.ones((2, 2, 2), np.uint8), 1e-300, False, 1)
    with pytest.raises(ValueError, match="directions: wrong shape"):
        native.march(rays[0], np.ones((3, 3)), *rays[2:], np.ones((2, 2, 2), np.uint8), 0.1, False, 1)
    offsets, distances, _, points = native.march(*rays, np.ones((2, 2, 2), np.uint8), 0.15, False, 1)
    assert offsets[-1] == len(distances) == len(points) == 14
    rays[1] = np.full((2, 3), np.nan)
    assert native.march(*rays, np.ones((2, 2, 2), np.uint8), 0.1, False, 1)[0][-1] < 1 << 18


def test_native_update_refuses():
    arrays = [np.zeros(PARAMETERS) for _ in range(4)]
    with pytest.raises(ValueError, match="penalties: wrong shape"):
        native.plane_update(*arrays, SIZES, FEATURES, np.zeros((2, 4)), 0.1, 0.9, 0.99, 1e-8, 1, 1)
    with pytest.raises(ValueError, match="step: begins with one"):
        native.plane_update(*arrays, SIZES, FEATURES, np.zeros((3, 4)), 0.1, 0.9, 0.99, 1e-8, 0, 1)
    with pytest.raises(ValueError, match="mean: wrong shape"):
        native.plane_update(
            *arrays[:2], np.zeros(3), arrays[3], SIZES, FEATURES, np.zeros((3, 4)), 0.1, 0.9, 0.99, 1e-8, 1, 1
        )
