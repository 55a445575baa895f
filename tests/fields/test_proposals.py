"""Resampling and the histogram loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gyrfalcon.fields.proposals import histogram_loss, resample
from reference import fields as reference


def histograms(rays=5, fine=9, wide=6, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def edges(count):
        inner = torch.rand(rays, count - 1, generator=generator, dtype=torch.float64).sort(1).values
        return torch.nn.functional.pad(inner, (1, 1)).index_fill_(1, torch.tensor([count]), 1.0)

    weights = torch.rand(rays, fine, generator=generator, dtype=torch.float64)
    bounds = torch.rand(rays, wide, generator=generator, dtype=torch.float64) * 0.3
    return edges(fine), weights, edges(wide), bounds


def test_the_histogram_loss_equals_plain_loops():
    edges, weights, wide, bounds = histograms()
    values, _ = histogram_loss(edges, weights, wide, bounds)
    expected = [
        reference.histogram_loss(*(t[r].tolist() for t in (edges, weights, wide, bounds))) for r in range(len(edges))
    ]
    np.testing.assert_allclose(values, expected, rtol=1e-10)
    assert min(expected) > 0


def test_its_derivatives_equal_differences():
    edges, weights, wide, bounds = histograms()
    _, slope = histogram_loss(edges, weights, wide, bounds)
    for k in range(bounds.shape[1]):
        step = torch.zeros_like(bounds)
        step[:, k] = 1e-6
        up, down = (histogram_loss(edges, weights, wide, bounds + sign * step)[0] for sign in (1, -1))
        torch.testing.assert_close((up - down) / 2e-6, slope[:, k], rtol=1e-5, atol=1e-5)


def test_a_bound_that_holds_costs_nothing():
    edges, weights, _, _ = histograms()
    values, slope = histogram_loss(edges, weights, edges, weights)
    assert float(values.abs().max()) < 1e-20
    assert float(slope.abs().max()) < 1e-6


@pytest.mark.parametrize("jittered", [False, True])
def test_resampled_intervals_are_where_the_weights_are(jittered):
    edges = torch.linspace(0, 1, 11).expand(3, -1)
    weights = torch.zeros(3, 10)
    weights[:, 4] = 1.0
    generator = torch.Generator().manual_seed(0) if jittered else None
    found = resample(edges, weights, 40, generator)
    assert found.shape == (3, 41)
    assert bool((found.diff(dim=1) >= 0).all())
    assert bool((found[:, 0] == 0).all())
    assert bool((found[:, -1] == 1).all())
    inside = ((found > 0.399) & (found < 0.501)).float().mean()
    assert float(inside) > 0.9


def test_rays_that_meet_nothing_are_sampled_evenly():
    edges = torch.linspace(0, 1, 9).expand(2, -1)
    found = resample(edges, torch.zeros(2, 8), 4)
    torch.testing.assert_close(found, torch.linspace(0, 1, 5).expand(2, -1))
