"""Eigenvalues of systems whose spectrum is known: an Ornstein-Uhlenbeck process and diffusions in potentials."""

import numpy as np
import pytest

from gyrfalcon.dynamics import Koopman, timescales
from reference import diffusion

DECAY = np.exp(-0.5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["rrr", "krr"])
def test_ornstein_uhlenbeck(seed, method):
    runs = list(diffusion.ornstein_uhlenbeck(DECAY, 10_001, seed, runs=10))
    model = Koopman(method, n_centers=100, rank=6 if method == "rrr" else None, random_state=seed).fit(runs)
    assert model.n_pairs_ == 100_000
    off = np.abs(model.eigenvalues_[:4] - DECAY ** np.arange(4))
    assert (off <= [0.001, 0.012, 0.02, 0.05]).all()


@pytest.mark.parametrize("seed", range(2))
def test_prinz_potential(seed):
    truth = diffusion.eigenvalues(diffusion.prinz, -1.5, 1.5, 0.05)
    np.testing.assert_allclose(truth[:4], [1, 0.9418, 0.6741, 0.4639], atol=1e-4)
    runs = list(diffusion.sample(diffusion.prinz, -1.5, 1.5, 0.05, runs=1000, frames=401, seed=seed))
    model = Koopman(length_scale=0.2, n_centers=100, rank=6, random_state=seed).fit(runs)
    off = np.abs(model.eigenvalues_[:4] - truth[:4])
    assert (off <= [0.001, 0.002, 0.01, 0.01]).all()


def test_bridging_runs_is_what_it_must_not_do():
    """The same frames as one long run lose a quarter of the longest time scale, so that the check above can fail."""
    runs = diffusion.sample(diffusion.prinz, -1.5, 1.5, 0.05, runs=400, frames=51, seed=0)
    options = {"length_scale": 0.2, "n_centers": 100, "rank": 6, "random_state": 0}
    apart = Koopman(**options).fit(list(runs)).timescales(count=2)[1]
    bridged = Koopman(**options).fit(runs.reshape(-1, 1)).timescales(count=2)[1]
    assert bridged < 0.85 * apart


@pytest.mark.parametrize("m", [50, 100, 300])
def test_no_eigenvalue_outside_the_unit_circle(m):
    for seed in range(20):
        run = diffusion.sample(diffusion.prinz, -1.5, 1.5, 0.05, runs=20, frames=251, seed=seed)
        model = Koopman(length_scale=0.2, n_centers=m, rank=10, random_state=seed).fit(list(run))
        assert np.abs(model.eigenvalues_).max() <= 1.002


@pytest.mark.parametrize(
    ("potential", "edge", "slow"), [(diffusion.double_well, 2.2, 1), (diffusion.triple_well, 2.3, 2)]
)
def test_time_scales_of_wells(potential, edge, slow):
    lag = 0.2
    truth = timescales(diffusion.eigenvalues(potential, -edge, edge, lag, cells=500), 1, lag)
    runs = list(diffusion.sample(potential, -edge, edge, lag, runs=2000, frames=301, seed=0))
    model = Koopman(length_scale=0.2, n_centers=100, rank=6, random_state=0).fit(runs)
    found = model.timescales(lag, count=slow + 1)[1:]
    np.testing.assert_allclose(found, truth[1 : slow + 1], rtol=0.05)
