"""Waves in the compiled core: angles of many turns, structured frequencies, and what the door refuses."""

import math

import numpy as np
import pytest

import gyrfalcon as gf

native = pytest.importorskip("gyrfalcon._native")
EPSILON = {dtype: float(np.finfo(dtype).eps) for dtype in (np.float32, np.float64)}
every_type = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@every_type
@pytest.mark.parametrize("turns", [0.5, 30, 1e4])
def test_native_waves_lose_no_more_digits_than_their_angles(dtype, turns):
    X = (np.linspace(-1, 1, 4001)[:, None] * turns * math.tau).astype(dtype)
    found = gf.KernelMatrix(gf.kernels.Fourier(), X, np.ones((1, 1), dtype), engine="native").to_dense()
    expected = np.cos(X.astype(np.longdouble)) + np.sin(X.astype(np.longdouble))
    assert np.abs(found - expected).max() <= 6 * (1 + turns) * EPSILON[dtype]


@every_type
@pytest.mark.parametrize("size", [1e5, 1e7, 3e7, 1e8, 1e16, 3e16, 1e30])
def test_native_waves_of_any_angle_are_at_most_one(dtype, size):
    X = (size * np.linspace(1, 3, 200)[:, None]).astype(dtype)
    found = gf.KernelMatrix(gf.kernels.Fourier(), X, np.ones((1, 1), dtype), engine="native").to_dense()
    assert np.abs(found).max() <= 1.4143


@every_type
@pytest.mark.parametrize("shape", [(300, 5, 201), (97, 40, 1030)])
def test_native_products_with_waves(dtype, shape):
    n, d, D = shape
    rng = np.random.default_rng(0)
    X, W = (rng.normal(size=(rows, d)).astype(dtype) for rows in (n, D))
    V, U, w = (rng.normal(size=size).astype(dtype) for size in ((D, 3), (n, 3), (n,)))
    Z = gf.KernelMatrix(gf.kernels.Fourier(amplitude=D**-0.5), X, W, engine="native", cache=False)
    angles = X.astype(np.float64) @ W.T.astype(np.float64)
    expected = (np.cos(angles) + np.sin(angles)) / D**0.5
    for found, exact in [
        (Z.to_dense(), expected),
        (Z @ V, expected @ V),
        (Z.rmv(U), expected.T @ U),
        (Z.gram_mv(V, w), expected.T @ (w[:, None] * (expected @ V))),
        (Z.gram(), expected.T @ expected),
        (Z.prior_diagonal(), (expected**2).sum(1)),
    ]:
        assert np.linalg.norm(found - exact) <= 30 * EPSILON[dtype] * np.linalg.norm(exact)
    halves = [gf.KernelMatrix(Z.kernel, part, W, engine="native") for part in (X[:41], X[41:])]
    np.testing.assert_array_equal(np.concatenate([half @ V for half in halves]), Z @ V)
    together = halves[0].rmv(U[:41]) + halves[1].rmv(U[41:])
    assert np.linalg.norm(together - Z.rmv(U)) <= 10 * EPSILON[dtype] * np.linalg.norm(together)


def structured(n=37, d=50, length=64, blocks=2, D=200, dtype=np.float64, **changes):
    rng = np.random.default_rng(0)
    given = {
        "x": rng.normal(size=(n, d)).astype(dtype),
        "scale": np.linspace(0.5, 1.5, d).tolist(),
        "signs": rng.choice([-1, 1], size=(3 * blocks, length)).astype(dtype),
        "radii": (rng.random((blocks, length)) / length).astype(dtype),
        "amplitude": 0.3,
        "out": np.full((n, D), np.nan, dtype),
        "threads": 2,
    } | changes
    native.run_waves(**given)
    return given


def expected(x, scale, signs, radii, amplitude, out, **_):
    blocks, length = radii.shape
    H = np.ones((1, 1))
    while len(H) < length:
        H = np.block([[H, H], [H, -H]])
    z = np.pad(x.astype(np.float64) * scale, ((0, 0), (0, length - x.shape[1])))
    turns = []
    for b in range(blocks):
        D3, D2, D1 = signs[3 * b : 3 * b + 3].astype(np.float64)
        turns.append((((z * D3) @ H * D2) @ H * D1) @ H * radii[b])
    q = np.concatenate(turns, 1)
    pairs = np.stack([np.cos(math.tau * (q - 1 / 8)), np.cos(math.tau * (-q - 1 / 8))], 2)
    return amplitude * pairs.reshape(len(x), 2 * q.shape[1])[:, : out.shape[1]]


@every_type
@pytest.mark.parametrize(
    "case",
    [
        {},
        {"n": 0},
        {"n": 1},
        {"n": 16},
        {"d": 1},
        {"d": 64},
        {"blocks": 1, "D": 1},
        {"D": 256},
        {"length": 128, "D": 300},
        {"length": 256, "D": 513},
        {"length": 512, "D": 1025},
        {"length": 2048, "d": 1500, "blocks": 1, "D": 4096},
    ],
    ids=str,
)
def test_native_structured_waves(dtype, case):
    given = structured(dtype=dtype, **case)
    turns = (
        np.abs(given["radii"]).max()
        * given["signs"].shape[1] ** 1.5
        * np.linalg.norm(given["x"] * 1.5, axis=1).max(initial=0)
    )
    assert np.abs(given["out"] - expected(**given)).max(initial=0) <= 3 * (1 + turns) * EPSILON[dtype]


def test_native_structured_waves_of_any_layout():
    x = np.random.default_rng(1).normal(size=(37, 50))
    plain = structured(x=x)["out"]
    for kind in (np.asfortranarray(x), x[::-1].copy()[::-1], np.repeat(x, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(structured(x=kind, threads=1)["out"], plain)
    np.testing.assert_array_equal(structured(x=x, out=np.empty((200, 37)).T)["out"], plain)


ones = np.ones
REFUSED = {
    "block that is no power of two": {"radii": ones((2, 96)), "signs": ones((6, 96))},
    "block that is too short": {"d": 3, "radii": ones((2, 32)), "signs": ones((6, 32)), "D": 100},
    "no block": {"radii": ones((0, 64)), "signs": ones((0, 64)), "D": 0},
    "more columns than a block is long": {"d": 65},
    "short scale": {"scale": [1.0] * 49},
    "too few signs": {"signs": ones((5, 64))},
    "narrow signs": {"signs": ones((6, 63))},
    "amplitude is infinite": {"amplitude": math.inf},
    "out has other rows": {"out": ones((36, 200))},
    "out is too wide": {"D": 257},
    "out leaves a block unused": {"D": 128},
    "signs of another type": {"signs": ones((6, 64), np.float32)},
    "out of another type": {"out": ones((37, 200), np.float32)},
    "x of one dimension": {"x": ones(50)},
}


@pytest.mark.parametrize("case", REFUSED)
def test_native_waves_refuse(case):
    with pytest.raises((ValueError, TypeError)):
        structured(**REFUSED[case])
