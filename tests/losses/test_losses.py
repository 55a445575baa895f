"""Every loss against its formula and its own derivatives, and far from zero."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gyrfalcon.losses import (
    LOSSES,
    Absolute,
    Exponential,
    Hinge,
    Logistic,
    OneHot,
    Quantile,
    Simplex,
    Softmax,
    smoothed,
)
from reference.losses import FORMULAS

pytestmark = pytest.mark.usefixtures("one_thread")  # small products, many of them

CLASSES = {"logistic": Simplex, "exponential": Simplex, "hinge": Simplex, "softmax": OneHot}
EXTREMES = [0.0, 1.0, -1.0, 30.0, -30.0, 49.9, -50.1, 700.0, -750.0, 1e6, -1e6]


def targets(name, n, t, seed=0):
    rng = np.random.default_rng(seed)
    if name == "multilabel_logistic":
        return rng.choice([-1.0, 1.0], size=(n, t))
    if name not in CLASSES:
        return rng.normal(size=(n, t))
    k = t + 1 if CLASSES[name] is Simplex else t
    return CLASSES[name](k).encode(rng.integers(k, size=n))


def case(name, t, seed=0, n=7):
    F = np.random.default_rng(seed + 1).normal(size=(n, t)) * 3
    return torch.from_numpy(F), torch.from_numpy(targets(name, n, t, seed))


EVERY = pytest.mark.parametrize(
    ("name", "t"), [(name, t) for name in LOSSES for t in (1, 2, 4) if (name, t) != ("softmax", 1)]
)


def test_every_loss_has_a_formula_and_its_own_name():
    assert set(LOSSES) == set(FORMULAS)
    assert all(LOSSES[name].name == name for name in LOSSES)
    assert Logistic() == LOSSES["logistic"]


@EVERY
def test_agrees_with_its_formula(name, t):
    F, Y = case(name, t)
    value, gradient, hessian = FORMULAS[name](F.numpy(), Y.numpy())
    V = np.random.default_rng(5).normal(size=F.shape)
    loss = LOSSES[name]
    np.testing.assert_allclose(loss.value(F, Y), value, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(loss.gradient(F, Y), gradient, rtol=1e-12, atol=1e-14)
    product = np.einsum("ikl,il->ik", hessian, V)
    np.testing.assert_allclose(loss.hessian_product(F, Y, torch.from_numpy(V)), product, rtol=1e-10, atol=1e-13)
    trace = np.einsum("ikk->i", hessian)[:, None] / t
    np.testing.assert_allclose(loss.curvature(F, Y), trace, rtol=1e-10, atol=1e-13)


@EVERY
def test_derivatives_are_those_of_the_value(name, t):
    loss, (F, Y) = LOSSES[name], case(name, t, seed=3)
    V = torch.randn(F.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad(loss.value(F.requires_grad_(), Y).sum(), F)
    torch.testing.assert_close(loss.gradient(F, Y).detach(), gradient)
    if not loss.smooth:
        assert not loss.hessian_product(F, Y, V).any()
        return
    (product,) = torch.autograd.grad((loss.gradient(F, Y) * V).sum(), F)
    torch.testing.assert_close(loss.hessian_product(F, Y, V).detach(), product)


@EVERY
def test_float32_in_float64_out(name, t):
    loss, (F, Y) = LOSSES[name], case(name, t)
    F, Y = F.float(), Y.float()
    results = [loss.value(F, Y), loss.gradient(F, Y), loss.curvature(F, Y), loss.hessian_product(F, Y, F)]
    assert [r.dtype for r in results] == [torch.float64] * 4
    assert [tuple(r.shape) for r in results] == [(7,), (7, t), (7, 1), (7, t)]


@EVERY
def test_nothing_overflows(name, t):
    loss, Y = LOSSES[name], torch.from_numpy(targets(name, len(EXTREMES), t))
    for shift in range(t):
        F = torch.from_numpy(np.roll(np.outer(EXTREMES, np.r_[1.0, -np.ones(t - 1)]), shift, axis=1))
        for sign in (1, -1):
            results = [loss.value(sign * F, Y), loss.gradient(sign * F, Y), loss.curvature(sign * F, Y)]
            results.append(loss.hessian_product(sign * F, Y, F))
            assert all(bool(r.isfinite().all()) for r in results)
            assert bool((results[0] >= 0).all())
            assert bool((results[2] >= 0).all())


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(LOSSES)),
    numbers=st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=6),
    part=st.floats(0, 1),
)
def test_convex(name, numbers, part):
    """Between two predictions it lies below the chord, and above the tangent at either."""
    loss, Y = LOSSES[name], torch.from_numpy(targets(name, 1, 3))
    a, b = (torch.tensor([numbers[i : i + 3]], dtype=torch.float64) for i in (0, 3))
    at_a, at_b = (float(loss.value(point, Y)) for point in (a, b))
    slack = 1e-9 * (1 + abs(at_a) + abs(at_b))
    assert float(loss.value(part * a + (1 - part) * b, Y)) <= part * at_a + (1 - part) * at_b + slack
    rise = float((loss.gradient(a, Y) * (b - a)).sum())
    assert at_b >= at_a + rise - slack - 1e-9 * abs(rise)
    assert float((loss.hessian_product(a, Y, b) * b).sum()) >= -1e-12 * float(b.square().sum())


def test_the_exponential_loss_is_smooth_where_it_becomes_a_parabola():
    u = torch.tensor([[-50.0 - 1e-9], [-50.0 + 1e-9]], dtype=torch.float64)
    for part in (Exponential().phi, Exponential().slope, Exponential().bend):
        below, above = part(u)[:, 0].tolist()
        assert below == pytest.approx(above, rel=1e-8)


@pytest.mark.parametrize("loss", [Logistic(), Exponential()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_probabilities_are_those_whose_risk_the_prediction_minimizes(loss, k):
    """Where the expected loss of f under p is stationary, f is turned back into p."""
    codes = torch.from_numpy(Simplex(k).codes)
    F = torch.randn(4, k - 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    P = loss.probabilities(F)
    torch.testing.assert_close(P.sum(1), torch.ones(4, dtype=torch.float64))
    slope = sum(P[:, [c]] * loss.gradient(F, codes[[c]].expand(4, -1)) for c in range(k))
    torch.testing.assert_close(slope, torch.zeros_like(slope), atol=1e-12, rtol=0)


def test_binary_probabilities_are_the_sigmoid():
    F = torch.linspace(-800, 800, 9, dtype=torch.float64)[:, None]
    torch.testing.assert_close(Logistic().probabilities(F)[:, 1:], torch.sigmoid(F))
    torch.testing.assert_close(Exponential().probabilities(F)[:, 1:], torch.sigmoid(2 * F))


@pytest.mark.parametrize("loss", [Logistic(), Exponential(), Softmax()], ids=lambda loss: loss.name)
def test_targets_of_the_wrong_kind_are_named(loss):
    with pytest.raises(ValueError, match="Y must hold"):
        loss.check_targets(torch.tensor([[0.0], [2.0]]))
    for t in (2, 4):
        loss.check_targets(torch.from_numpy(targets(loss.name, 9, t)).float())


def test_losses_with_kinks():
    with pytest.raises(ValueError, match="probabilities"):
        Hinge().probabilities(torch.zeros(2, 1))
    for level in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="level"):
            Quantile(level)
    numbers = torch.randn(999, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for loss, level in ((Absolute(), 0.5), (Quantile(0.9), 0.9), (Quantile(0.2), 0.2)):
        best = numbers.sort(0).values[int(level * 999)].expand_as(numbers)
        values = [float(loss.value(best + shift, numbers).mean()) for shift in (-0.05, 0.0, 0.05)]
        assert values[1] == min(values)


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.9)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("t", [1, 3])
def test_rounded_corners(loss, t):
    F, Y = case(loss.name, t, seed=3)
    near = smoothed(loss, 0.2)
    V = torch.randn(F.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad(near.value(F.requires_grad_(), Y).sum(), F, create_graph=True)
    torch.testing.assert_close(near.gradient(F, Y), gradient)
    (product,) = torch.autograd.grad((near.gradient(F, Y) * V).sum(), F)
    F = F.detach()
    torch.testing.assert_close(near.hessian_product(F, Y, V), product)
    above = near.by_output(F, Y) - loss.by_output(F, Y)
    assert above.min() >= 0
    assert above.max() <= loss.jump * 0.2 * np.log(2)
    assert (near.gap(F, Y) >= 0).all()
    torch.testing.assert_close(smoothed(loss, 1e-12).value(F, Y), loss.value(F, Y))


def test_only_kinks_are_rounded():
    with pytest.raises(ValueError, match="squared loss names no kink"):
        smoothed(LOSSES["squared"], 0.1)
    with pytest.raises(ValueError, match="width must be positive, got 0"):
        smoothed(Hinge(), 0)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_second_derivatives_at_a_point_keep_type_and_order(name, t, dtype):
    F, Y = case(name, t)
    V = torch.randn((t, len(F)), dtype=dtype, generator=torch.Generator().manual_seed(0)).T
    found = LOSSES[name].hessian_at(F, Y, like=V)(V)
    assert (found.dtype, found.shape) == (dtype, V.shape)
    torch.testing.assert_close(found.double(), LOSSES[name].hessian_product(F, Y, V), rtol=1e-5, atol=1e-6)


def test_float32_keeps_second_derivatives_of_sure_points():
    """Where one class has all but 1e-9 of the probability, those of the others are far below the rounding of one."""
    F, Y = torch.tensor([[20.0, 0.0, -1.0]], dtype=torch.float64), torch.tensor([[1.0, 0.0, 0.0]])
    V = torch.tensor([[1.0, 2.0, 4.0]])
    found = LOSSES["softmax"].hessian_at(F, Y, like=V)(V)
    _, _, hessian = FORMULAS["softmax"](F.numpy(), Y.numpy())
    np.testing.assert_allclose(found.numpy(), np.einsum("ikl,il->ik", hessian, V.numpy()), rtol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_that_are_relative_do_not_notice_a_constant(name):
    F, Y = case(name, 4)
    same = torch.allclose(LOSSES[name].value(F + 3, Y), LOSSES[name].value(F, Y))
    assert same == LOSSES[name].relative
