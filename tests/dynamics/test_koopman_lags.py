"""Many lags from one pass, implied time scales, metastable states and pictures."""

import numpy as np
import pytest

from gyrfalcon import dynamics
from gyrfalcon.dynamics import Koopman, fit_lags, implied_timescales, states
from reference import diffusion


def wells(runs=200, frames=201, seed=0):
    return list(diffusion.sample(diffusion.triple_well, -2.3, 2.3, 0.2, runs, frames, seed))


OPTIONS = {"length_scale": 0.3, "n_centers": 60, "rank": 5, "random_state": 0}


def test_every_lag_is_the_model_of_that_lag():
    runs = wells(20)
    lags = [1, 3, 150]  # 150 of 201 frames: pairs are few
    for lag, model in zip(lags, fit_lags(Koopman(**OPTIONS), runs, lags), strict=True):
        alone = Koopman(lag=lag, **OPTIONS).fit(runs)
        assert model.lag == lag
        assert model.n_pairs_ == alone.n_pairs_ == 20 * (201 - lag)
        np.testing.assert_allclose(model.eigenvalues_[:3], alone.eigenvalues_[:3], atol=1e-9)


def test_implied_time_scales_hold_the_truth():
    truth = dynamics.timescales(diffusion.eigenvalues(diffusion.triple_well, -2.3, 2.3, 0.2, cells=500), 1, 0.2)
    found = implied_timescales(
        wells(), [1, 2, 5], dt=0.2, model=Koopman(**OPTIONS), count=2, bootstrap=40, random_state=0
    )
    low, high = found.band(0.98)
    assert found.samples.shape == (40, 3, 2)
    assert ((low < truth[1:3]) & (truth[1:3] < high)).all()
    np.testing.assert_allclose(found.timescales, np.broadcast_to(truth[1:3], (3, 2)), rtol=0.15)


def test_one_run_is_cut_into_blocks_for_the_bands():
    run = diffusion.sample(diffusion.double_well, -2.2, 2.2, 0.2, 1, 4000, 0)[0]
    found = implied_timescales(run, [1, 5], dt=0.2, model=Koopman(**OPTIONS), count=1, bootstrap=20)
    low, high = found.band()
    assert (low < found.timescales).all()
    assert (found.timescales < high).all()
    alone = implied_timescales(run, [1], dt=0.2, model=Koopman(**OPTIONS), count=1, bootstrap=0)
    assert alone.timescales[0, 0] == pytest.approx(Koopman(**OPTIONS).fit(run).timescales(0.2, 2)[1], rel=1e-9)
    with pytest.raises(ValueError, match="no samples"):
        alone.band()


@pytest.mark.parametrize("lags", [[], [0], [1, 1], [1.5], 3])
def test_bad_lags(lags):
    with pytest.raises(ValueError, match="lags must be"):
        implied_timescales(np.zeros((10, 1)), lags)


def test_metastable_states_are_the_wells():
    runs = wells()
    X = np.concatenate(runs)
    model = Koopman(**OPTIONS).fit(runs)
    found = states(model.eigenfunctions(X), n_states=3)
    np.testing.assert_allclose(found.memberships.sum(1), 1)
    assert (found.memberships >= 0).all()
    assert found.crispness > 0.8
    well = np.digitize(X[:, 0], [-2 / 3, 2 / 3])
    deep = np.abs(np.abs(X[:, 0]) - 2 / 3) > 0.4  # away from the barriers
    table = np.zeros((3, 3))
    np.add.at(table, (well[deep], found.labels[deep]), 1)
    assert table.max(1).sum() > 0.99 * table.sum()
    assert sorted(table.argmax(1)) == [0, 1, 2]


def test_states_of_indicator_functions_are_exact():
    labels = np.repeat([0, 1, 2], [30, 50, 20])
    member = np.eye(3)[labels]
    phi = np.stack([np.ones(100), member @ [1.0, -0.5, 0.2], member @ [0.3, 0.4, -2.0]], 1)
    found = states(phi, 3)
    assert found.crispness == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(np.sort(found.populations), [0.2, 0.3, 0.5], atol=1e-6)


def test_states_of_complex_pairs_use_both_parts():
    turn = np.repeat(np.exp(2j * np.pi * np.arange(3) / 3), 10)
    phi = np.stack([np.ones(30), turn, turn.conj()], 1)
    assert states(phi, 3).crispness == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("phi", "n_states", "match"),
    [
        (np.ones((10, 3)), 4, "between 2 and 3"),
        (np.ones((10, 3)), 1, "between 2 and 3"),
        (np.ones((10, 3)), 2, "constant or depend"),
        (np.full((10, 3), np.nan), 2, "finite"),
    ],
)
def test_bad_states(phi, n_states, match):
    with pytest.raises(ValueError, match=match):
        states(phi, n_states)


def test_pictures():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    runs = wells(20)
    model = Koopman(**OPTIONS).fit(runs)
    ax = dynamics.plot_spectrum(model)
    assert ax.get_aspect() == 1
    assert len(ax.get_lines()[-1].get_xdata()) == len(model.eigenvalues_)
    pyplot.close("all")
    line = dynamics.plot_eigenfunction(model, runs[0], 1).get_lines()[0]
    assert (np.diff(line.get_xdata()) >= 0).all()
    pyplot.close("all")
    forecast = dynamics.plot_forecast(model, runs[0], steps=10, dt=0.2).get_lines()[1]
    np.testing.assert_allclose(forecast.get_ydata()[1:], model.predict(runs[0][:1], range(1, 11))[0, :, 0])
    np.testing.assert_allclose(forecast.get_xdata(), 0.2 * np.arange(11))
    pyplot.close("all")
    found = implied_timescales(runs, [1, 2], model=Koopman(**OPTIONS), count=1, bootstrap=5)
    assert found.plot().get_yscale() == "log"
    pyplot.close("all")
    with pytest.raises(ValueError, match="index must be"):
        dynamics.plot_eigenfunction(model, runs[0], 50)
