"""Matrices in memory and in files that tests of linalg share."""

import numpy as np

from gyrfalcon.linalg.square import InMemory, OnDisk, Square


def positive(m, seed=0):
    B = np.random.default_rng(seed).normal(size=(m, m + 3))
    return B @ B.T / (m + 3) + 0.1 * np.eye(m)


def on_disk(values, tile):
    """A matrix in a file, with a budget that makes tiles of about that side when three are held."""
    square = Square.fitting(len(values), lambda start, stop: values[:, start:stop], memory_budget=1)
    assert isinstance(square, OnDisk)
    return OnDisk(square.array, memory_budget=int(3 * tile**2 * 8 / 0.8) + 1)


def in_memory(values):
    return InMemory(np.array(values, order="F"))


def assert_close(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max(initial=1.0))
