"""Products of planes as a module and as a transformer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from gyrfalcon.fields import PlaneFeatures


@pytest.mark.parametrize("dim", [2, 3, 4, 5])
@pytest.mark.parametrize("combine", ["product", "sum"])
def test_gradcheck_in_planes_and_points(dim, combine):
    module = PlaneFeatures(dim=dim, resolutions=(3, 4), features=2, combine=combine, random_state=0).double()
    points = 0.05 + 0.9 * torch.rand(5, dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def features(planes, given):
        return torch.func.functional_call(module, {"planes": planes}, (given,))

    planes = module.planes.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(features, (planes, points.requires_grad_()))


def test_the_module_trains_with_any_optimizer():
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(300, 3, generator=generator)
    target = (4 * points[:, :1]).sin() * points[:, 1:2]
    model = torch.nn.Sequential(PlaneFeatures(3, (8,), 8, random_state=0), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = (model(points) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.05 * losses[0]


def test_features_of_a_pipeline_beat_the_linear_model():
    random = np.random.default_rng(0)
    X = random.uniform(-2, 5, size=(2000, 4))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * X[:, 2]
    model = make_pipeline(PlaneFeatures(4, (8, 16), 8, random_state=0), Ridge(1e-2)).fit(X[:1500], y[:1500])
    assert model.score(X[1500:], y[1500:]) > 0.9 > Ridge().fit(X[:1500], y[:1500]).score(X[1500:], y[1500:])


def test_it_is_an_estimator():
    first = PlaneFeatures(3, (4,), 2, random_state=3)
    again = clone(first)
    assert again.get_params() == first.get_params()
    assert torch.equal(again.planes, first.planes)
    X = np.random.default_rng(0).normal(size=(50, 3))
    found = first.fit(X).transform(X)
    assert found.shape == (50, 2)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, again.fit(X).transform(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 1}, "dim=1 must be from 2 to 8"),
        ({"combine": "max"}, "combine='max' is unknown"),
        ({"resolutions": (1,)}, "at least 2 nodes"),
    ],
)
def test_bad_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PlaneFeatures(**options)
    with pytest.raises(ValueError, match=r"points have shape \(4, 2\), and \(n, 3\) is needed"):
        PlaneFeatures(3, (4,), 2)(torch.rand(4, 2))
    with pytest.raises(ValueError, match="X has 2 features, and dim=3"):
        PlaneFeatures(3, (4,), 2).fit(np.zeros((4, 2)))
