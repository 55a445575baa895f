"""Moments in fixed point: order does not matter, and undoing leaves no trace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gyrfalcon as gf
from gyrfalcon.moments import ExactMoments, Moments

random = np.random.default_rng(0)
X, Y = random.normal(size=(400, 4)), np.sign(random.normal(size=(400, 2)))
K = gf.KernelMatrix(gf.kernels.Gaussian(2.0), X, X[:30])
PARTS = np.array_split(np.arange(400), 7)
WHITENING = Moments.of(K, Y).whitening
MOMENTS = [Moments.of(K.rows(part), Y[part], whitening=WHITENING) for part in PARTS]
NAMES = ("second", "features", "cross", "targets", "squares")


def same(first, second):
    return first.count == second.count and all(np.array_equal(getattr(first, n), getattr(second, n)) for n in NAMES)


def total(order):
    exact = ExactMoments.empty(WHITENING, 2)
    for place in order:
        exact = exact.plus(MOMENTS[place])
    return exact


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(7)), st.integers(0, 7))
def test_any_order_and_any_undo_give_the_same_bits(order, kept):
    exact = total(order)
    assert same(exact, total(range(7)))
    for place in order[kept:]:
        exact = exact.minus(MOMENTS[place])
    assert same(exact, total(sorted(order[:kept])))


def test_it_is_the_sum_of_the_moments():
    """Each of 7 parts is rounded by at most 2⁻³⁹."""
    exact, plain = total(range(7)).moments(), Moments.of(K, Y, whitening=WHITENING)
    assert exact.count == plain.count == exact.sums.weight
    np.testing.assert_allclose(exact.second, plain.second, rtol=0, atol=7 * 2.0**-39 + 400 * 2.0**-50)
    np.testing.assert_allclose(exact.sums.cross, plain.sums.cross, rtol=0, atol=7 * 2.0**-39 + 400 * 2.0**-50)
    np.testing.assert_allclose(exact.solve(1e-4)[0], plain.solve(1e-4)[0], rtol=1e-6)


def test_a_new_output_is_what_it_would_have_been():
    wide = [Moments.of(K.rows(p), np.column_stack([Y[p], -np.ones(len(p))]), whitening=WHITENING) for p in PARTS]
    exact = ExactMoments.empty(WHITENING, 3)
    for part in wide:
        exact = exact.plus(part)
    grown = total(range(7)).with_output(-1.0)
    # The sum of -z is rounded like that of z, but products are summed in another order.
    np.testing.assert_allclose(grown.cross, exact.cross, atol=8)
    assert np.array_equal(grown.targets, exact.targets)
    assert np.array_equal(grown.squares, exact.squares)


def test_round_trip():
    facts, arrays = total(range(7)).pack()
    assert same(ExactMoments.unpack(facts, arrays), total(range(7)))
    with pytest.raises(ValueError, match="fit together"):
        ExactMoments.unpack(facts, arrays | {"cross": arrays["cross"][:3]})


def test_refusals():
    exact = total([0])
    with pytest.raises(ValueError, match="other centers"):
        exact.plus(Moments.of(gf.KernelMatrix("rbf", X, X[:5]), Y))
    with pytest.raises(ValueError, match="weight one"):
        exact.plus(Moments.of(K, Y, np.full(400, 2.0), whitening=WHITENING))
    with pytest.raises(ValueError, match="1 or -1"):
        exact.with_output(0.5)
