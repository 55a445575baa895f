"""Both engines against plain loops, autograd and each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from gyrfalcon.fields.engine import AdamState, RayBatch, Samples
from gyrfalcon.fields.layout import Layout, PenaltyWeights, penalties, penalty_slopes
from gyrfalcon.fields.torch_engine import TorchEngine, gather, plane_features
from gyrfalcon.native import core
from reference import fields as reference

ENGINES = {"torch": TorchEngine()}
if core is not None:
    from gyrfalcon.fields.native_engine import NativeEngine

    ENGINES["native"] = NativeEngine(2)
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(params=sorted(ENGINES))
def engine(request):
    return ENGINES[request.param]


def layout_of(dim, features, *, product=True):
    sizes = tuple(tuple(n + axis for axis in range(dim)) for n in (3, 6))
    return Layout(sizes, features, product, timed=dim == 4)


def problem(dim, features, dtype, *, product=True, count=40):
    """Planes and points, among them borders, corners, nodes and points outside."""
    generator = torch.Generator().manual_seed(dim + features)
    layout = layout_of(dim, features, product=product)
    planes = 0.5 + torch.rand(layout.parameters, generator=generator, dtype=torch.float64)
    points = torch.rand(count, dim, generator=generator, dtype=torch.float64) * 1.2 - 0.1
    points[0], points[1], points[2] = 0, 1, 0.5  # nodes, where sizes are odd
    points[3, 0], points[4, 1], points[5, 0] = -0.5, 1.5, 0
    return layout, planes.to(dtype), points.to(dtype)


def close(found, expected, dtype):
    scale = max(1.0, float(expected.abs().max()))
    assert float((found - expected).abs().max()) <= TOLERANCES[dtype] * scale


@pytest.mark.parametrize("product", [True, False])
@pytest.mark.parametrize(("dim", "features"), [(2, 1), (3, 16), (4, 3), (5, 4)])
def test_features_equal_plain_loops(engine, dim, features, product):
    layout, planes, points = problem(dim, features, torch.float64, product=product)
    scales = [[view.numpy() for plane, view in layout.views(planes) if plane.scale == s] for s in range(2)]
    expected = reference.features(scales, dim, points.numpy(), product=product)
    np.testing.assert_allclose(engine.features(layout, planes, points).numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
@pytest.mark.parametrize("features", [1, 3, 4, 8, 16, 32])
@pytest.mark.parametrize("dim", [3, 4, 5])
def test_derivatives_of_features_equal_autograd(engine, dim, features, dtype):
    layout, planes, points = problem(dim, features, dtype)
    slope = torch.randn(len(points), layout.width, generator=torch.Generator().manual_seed(1), dtype=dtype)
    inputs = planes.double().clone().requires_grad_(), points.double().clone().requires_grad_()
    expected = torch.autograd.grad(plane_features(layout, *inputs), inputs, slope.double())
    in_planes = torch.zeros_like(planes)
    in_points = engine.features_backward(layout, planes, points, slope, in_planes, in_points=True)
    close(in_planes, expected[0], dtype)
    inside = torch.arange(len(points)) > 5  # at a node, float32 may fall on its other side
    close(in_points[inside], expected[1][inside], dtype)


@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
@pytest.mark.parametrize("product", [True, False])
@pytest.mark.parametrize(("dim", "features"), [(3, 16), (3, 4), (4, 16), (4, 2), (5, 8)])
def test_decoding_equals_autograd(engine, dim, features, product, dtype):
    layout, planes, points = problem(dim, features, dtype, product=product)
    generator = torch.Generator().manual_seed(2)
    offsets = torch.tensor([0, 7, 7, 20, 40])
    basis = torch.randn(4, 3, layout.width, generator=generator, dtype=dtype)
    density = torch.randn(layout.width, generator=generator, dtype=dtype)
    slope = torch.randn(40, 4, generator=generator, dtype=dtype)
    inputs = [given.double().clone().requires_grad_() for given in (planes, basis, density)]
    f = plane_features(layout, inputs[0], points.double())
    rays = torch.arange(4).repeat_interleave(offsets.diff())
    expected = torch.cat([f @ inputs[2][:, None], (inputs[1][rays] * f[:, None]).sum(2)], 1)
    outputs, counts = engine.decode(layout, planes, points, offsets, basis, density)
    close(outputs, expected.detach(), dtype)
    assert counts.tolist() == offsets.diff().tolist()
    in_planes = torch.zeros_like(planes)
    in_basis, in_density = engine.decode_backward(
        layout, planes, points, offsets, counts, basis, density, slope, in_planes
    )
    wanted = torch.autograd.grad(expected, inputs, slope.double())
    for found, value in zip((in_planes, in_basis, in_density), wanted, strict=True):
        close(found, value, dtype)


def test_density_alone_is_the_first_output(engine):
    layout, planes, points = problem(3, 16, torch.float64)
    offsets = torch.tensor([0, 40])
    density = torch.randn(layout.width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    alone, _ = engine.decode(layout, planes, points, offsets, None, density)
    beside, _ = engine.decode(layout, planes, points, offsets, torch.ones(1, 3, layout.width).double(), density)
    assert alone.shape == (40, 1)
    close(alone[:, 0], beside[:, 0], torch.float64)


@pytest.mark.skipif(core is None, reason="needs the compiled core")
@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
def test_native_results_do_not_depend_on_threads(dtype):
    layout, planes, points = problem(4, 16, dtype, count=3000)
    offsets = torch.arange(0, 3001, 30)
    generator = torch.Generator().manual_seed(3)
    basis = torch.randn(100, 3, layout.width, generator=generator, dtype=dtype)
    density = torch.randn(layout.width, generator=generator, dtype=dtype)
    slope = torch.randn(3000, 4, generator=generator, dtype=dtype)
    results = []
    for threads in (1, 2, 5):
        engine = NativeEngine(threads)
        state = AdamState.of(planes.clone())
        outputs, counts = engine.decode(layout, planes, points, offsets, basis, density)
        pair = engine.decode_backward(layout, planes, points, offsets, counts, basis, density, slope, state.gradient)
        in_points = engine.features_backward(
            layout, planes, points, engine.features(layout, planes, points), state.gradient, in_points=True
        )
        gradient = state.gradient.clone()
        engine.update(layout, state, penalty_slopes(layout, PenaltyWeights(1e-2, 1e-2, 1e-2)), 0.01)
        results.append((outputs, *pair, in_points, gradient, state.parameters))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def slab(dtype, pieces, density=1.7, length=0.8):
    """One ray through a homogeneous slab, cut into pieces."""
    lengths = torch.tensor(pieces, dtype=dtype) * length / sum(pieces)
    distances = 2 + lengths.cumsum(0) - lengths / 2
    samples = Samples(torch.tensor([0, len(pieces)]), distances, lengths, torch.zeros(len(pieces), 3, dtype=dtype))
    outputs = torch.zeros(len(pieces), 4, dtype=dtype)
    outputs[:, 0] = float(np.log(density))
    outputs[:, 1:] = torch.tensor([0.3, -1.0, 2.0], dtype=dtype)
    return samples, outputs


@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
def test_a_slab_is_as_opaque_as_its_thickness(engine, dtype):
    samples, outputs = slab(dtype, [1.0] * 40)
    seen = engine.composite(samples, outputs, 0.0, torch.ones(1, 3, dtype=dtype))
    assert float(seen.opacity[0]) == pytest.approx(1 - np.exp(-1.7 * 0.8), abs=1e-6)
    assert float(seen.weights.sum() + np.exp(-1.7 * 0.8)) == pytest.approx(1, abs=1e-6)


def test_cutting_homogeneous_samples_changes_nothing(engine):
    background = torch.full((1, 3), 0.25, dtype=torch.float64)
    whole = engine.composite(*slab(torch.float64, [2.0, 3.0]), 0.0, background)
    cut = engine.composite(*slab(torch.float64, [0.5, 1.5, 1.0, 1.0, 1.0]), 0.0, background)
    torch.testing.assert_close(whole.color, cut.color, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(whole.opacity, cut.opacity, rtol=1e-13, atol=1e-13)


def many_rays(count=30, seed=0):
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, 9, (count,), generator=generator)
    offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    total = int(offsets[-1])
    distances = torch.cat([torch.rand(int(n), generator=generator).sort().values for n in counts]).double()
    lengths = torch.rand(total, generator=generator, dtype=torch.float64)
    samples = Samples(offsets, distances, lengths, torch.zeros(total, 3, dtype=torch.float64))
    outputs = torch.randn(total, 4, generator=generator, dtype=torch.float64)
    background = torch.rand(count, 3, generator=generator, dtype=torch.float64)
    return samples, outputs, background, generator


def test_rays_gather_what_plain_loops_do(engine):
    samples, outputs, background, _ = many_rays()
    seen = engine.composite(samples, outputs, 0.4, background)
    densities, colors = (outputs[:, 0] + 0.4).exp().numpy(), torch.sigmoid(outputs[:, 1:]).numpy()
    for r, (a, b) in enumerate(itertools.pairwise(samples.offsets.tolist())):
        color, depth, opacity, weights = reference.render(
            densities[a:b],
            colors[a:b],
            samples.lengths[a:b].numpy(),
            samples.distances[a:b].numpy(),
            background[r].numpy(),
        )
        np.testing.assert_allclose(seen.color[r], color, atol=1e-12)
        np.testing.assert_allclose(seen.depth[r], depth, atol=1e-12)
        np.testing.assert_allclose(seen.opacity[r], opacity, atol=1e-12)
        np.testing.assert_allclose(seen.weights[a:b], weights, atol=1e-12)
        assert weights.sum() + (1 - float(seen.opacity[r])) == pytest.approx(1, abs=1e-12)


def test_the_adjoint_of_compositing_equals_autograd(engine):
    samples, outputs, background, generator = many_rays()
    in_color = torch.randn(len(background), 3, generator=generator, dtype=torch.float64)
    in_weights = torch.randn(len(outputs), generator=generator, dtype=torch.float64)
    given = outputs.clone().requires_grad_()
    seen = gather(samples, given, 0.4, background)
    (expected,) = torch.autograd.grad((seen.color * in_color).sum() + (seen.weights * in_weights).sum(), given)
    found = engine.composite_backward(samples, outputs, 0.4, background, in_color, in_weights=in_weights)
    close(found, expected, torch.float64)


def test_the_compositing_that_autograd_follows_passes_gradcheck():
    samples, outputs, background, _ = many_rays(6)

    def colors(given):
        return gather(samples, given, 0.4, background).color

    assert torch.autograd.gradcheck(colors, outputs.requires_grad_())


def test_extreme_densities_stay_finite(engine):
    samples, outputs = slab(torch.float32, [1.0] * 3)
    outputs[0, 0], outputs[1, 0], outputs[2, 0] = 500.0, float("-inf"), -500.0
    background = torch.ones(1, 3)
    seen = engine.composite(samples, outputs, 0.0, background)
    assert float(seen.opacity[0]) == 1
    slope = engine.composite_backward(samples, outputs, 0.0, background, torch.ones(1, 3))
    assert bool(slope.isfinite().all())


def test_opaque_rays_are_not_followed():
    if core is None:
        pytest.skip("needs the compiled core")
    engine = ENGINES["native"]
    layout, planes, points = problem(3, 16, torch.float32)
    density = torch.full((layout.width,), 3.0)
    basis = torch.ones(1, 3, layout.width)
    offsets, lengths = torch.tensor([0, 40]), torch.full((40,), 0.5)
    outputs, counts = engine.decode(layout, planes, points, offsets, basis, density, lengths=lengths)
    assert 0 < int(counts[0]) < 40
    assert bool(torch.isneginf(outputs[int(counts[0]) :, 0]).all())
    whole, _ = engine.decode(layout, planes, points, offsets, basis, density)
    samples = Samples(offsets, torch.arange(40.0), lengths, points)
    background = torch.ones(1, 3)
    a, b = (engine.composite(samples, o, 0.0, background).color for o in (outputs, whole))
    assert float((a - b).abs().max()) < 2e-4


def test_distortion_equals_a_double_sum_and_its_derivatives_autograd(engine):
    samples, outputs, background, _ = many_rays()
    weights = engine.composite(samples, outputs, 0.0, background).weights
    values, slope = engine.distortion(samples, weights)
    for r, (a, b) in enumerate(itertools.pairwise(samples.offsets.tolist())):
        parts = [t[a:b].clone() for t in (weights, samples.distances, samples.lengths)]
        assert float(values[r]) == pytest.approx(reference.distortion(*(p.tolist() for p in parts)), abs=1e-12)
        w = parts[0].requires_grad_()
        gaps = (parts[1][:, None] - parts[1]).abs()
        loss = (w[:, None] * w * gaps).sum() + (w.square() * parts[2]).sum() / 3
        torch.testing.assert_close(slope[a:b], torch.autograd.grad(loss, w)[0], rtol=1e-10, atol=1e-10)


def test_penalties_equal_plain_loops():
    layout = Layout(((3, 4, 5, 6), (5, 4, 3, 6)), 2, timed=True)
    planes = torch.rand(layout.parameters, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    views = [(layout.is_time(plane), view.numpy()) for plane, view in layout.views(planes)]
    timed = [view for is_time, view in views if is_time]
    found = [float(value) for value in penalties(layout, planes)]
    expected = reference.total_variation([view for _, view in views], [is_time for is_time, _ in views])
    assert found == pytest.approx([expected, reference.time_smoothness(timed), reference.transients(timed)], rel=1e-12)


@pytest.mark.parametrize("times", [2, 3, 4, 40, 67])
def test_a_pass_over_the_parameters_is_adam_on_loss_and_penalties(engine, times):
    """Bands of rows must not see each other's new values, so there are more rows than a band has."""
    layout = Layout(((4, 37, 5, times),), 3, timed=True)
    generator = torch.Generator().manual_seed(0)
    start = 0.5 + torch.rand(layout.parameters, generator=generator, dtype=torch.float64)
    loss = torch.randn(3, layout.parameters, generator=generator, dtype=torch.float64)
    weights = PenaltyWeights(0.3, 0.7, 0.2)
    expected = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([expected], lr=0.01, betas=(0.9, 0.99), eps=1e-15)
    state = AdamState.of(start.clone())
    for slope in loss:
        variation, bends, ones = penalties(layout, expected)
        total = (expected * slope).sum() + 0.3 * variation + 0.7 * bends + 0.2 * ones
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        state.gradient += slope
        engine.update(layout, state, penalty_slopes(layout, weights), 0.01)
        assert not bool(state.gradient.any())
    torch.testing.assert_close(state.parameters, expected.detach(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("contracted", [False, True])
def test_engines_march_alike(contracted):
    if core is None:
        pytest.skip("needs the compiled core")
    generator = torch.Generator().manual_seed(0)
    origins = 2 * torch.randn(200, 3, generator=generator, dtype=torch.float64)
    aim = 0.5 * torch.randn(200, 3, generator=generator, dtype=torch.float64) - origins
    directions = torch.nn.functional.normalize(aim)
    directions[0] = torch.tensor([0.0, 0.0, 1.0])  # along an axis
    occupied = (torch.rand(8, 8, 8, generator=generator) < 0.3).to(torch.uint8)
    near, far = (torch.full((200,), t, dtype=torch.float64) for t in (0.1, 9.0))
    jitter, times = torch.rand(2, 200, generator=generator, dtype=torch.float64)
    rays = RayBatch(origins, directions, near, far, jitter, times)
    one, other = (engine.march(rays, occupied, 0.05, contracted) for engine in ENGINES.values())
    assert torch.equal(one.offsets, other.offsets)
    assert len(one.distances) > 1000
    for name in ("distances", "lengths", "points"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=1e-12, atol=1e-12)


def test_samples_lie_in_occupied_cells_inside_the_cube(engine):
    generator = torch.Generator().manual_seed(1)
    origins = torch.randn(100, 3, generator=generator)
    directions = torch.nn.functional.normalize(torch.randn(100, 3, generator=generator))
    occupied = (torch.rand(4, 4, 4, generator=generator) < 0.5).to(torch.uint8)
    jitter = torch.rand(100, generator=generator)
    rays = RayBatch(origins, directions, torch.zeros(100), torch.full((100,), 50.0), jitter)
    samples = engine.march(rays, occupied, 0.01, False)
    assert float(samples.points.min()) > -1e-5
    assert float(samples.points.max()) < 1 + 1e-5
    cell = (samples.points * 4).long().clamp(0, 3)
    inside = occupied[cell[:, 2], cell[:, 1], cell[:, 0]].bool()
    assert float(inside.float().mean()) > 0.999  # rounding at borders
    at = origins[samples.rays] + samples.distances[:, None] * directions[samples.rays]
    torch.testing.assert_close(at / 2 + 0.5, samples.points, rtol=1e-4, atol=1e-5)
