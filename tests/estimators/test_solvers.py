"""Solvers and losses that estimators take by name."""

import numpy as np
import pytest
import torch
from sklearn.svm import SVC

import gyrfalcon as gf

pytestmark = pytest.mark.usefixtures("one_thread")

STOPPED_EARLY = ["kernel_cg", "nu_method", "nytro", "sgd", "spectral_cutoff"]


def waves(n=400, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    truth = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    return X, truth + noise * rng.standard_normal(n), truth


@pytest.mark.parametrize("solver", STOPPED_EARLY)
def test_the_number_of_iterations_regularizes_in_the_place_of_a_penalty(solver):
    X, y, truth = waves()
    model = gf.KernelRegressor("gaussian", length_scale=1.0, solver=solver, n_centers=60, random_state=0).fit(X, y)
    assert model.penalty_ == 0
    assert model.record_.solver == solver
    assert model.record_.path.chosen > 0
    assert np.mean((model.predict(X) - truth) ** 2) < 0.1 * truth.var()
    again = gf.KernelRegressor("gaussian", length_scale=1.0, solver=solver, n_centers=60, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    given = gf.KernelRegressor("gaussian", length_scale=1.0, solver=solver, penalty=0.1, n_centers=60, random_state=0)
    assert given.fit(X, y).penalty_ == 0.1


@pytest.mark.parametrize("solver", STOPPED_EARLY)
def test_classes(solver):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=300)
    X = 3 * np.eye(3)[labels] + rng.normal(size=(300, 3))
    names = np.array(["a", "b", "c"])[labels]
    for coding in ("one-hot", "simplex"):
        model = gf.KernelClassifier("gaussian", length_scale=2.0, solver=solver, coding=coding, random_state=0)
        assert model.fit(X, names).score(X, names) > 0.9


def test_quantiles_are_covered():
    X, y, _ = waves(1500)
    kernel = gf.kernels.Gaussian(1.0)
    for level in (0.1, 0.5, 0.9):
        model = gf.KernelRegressor(kernel, loss=gf.losses.Quantile(level), n_centers=60, random_state=0).fit(X, y)
        assert model.record_.solver == "smoothed_newton"
        assert np.mean(y <= model.predict(X)) == pytest.approx(level, abs=0.05)


def test_the_absolute_loss_does_not_see_how_far_outliers_are():
    X, y, truth = waves(noise=0.1)
    y[::6] += 50
    kernel = gf.kernels.Gaussian(1.0)
    errors = {
        loss: np.abs(gf.KernelRegressor(kernel, loss=loss, n_centers=60, random_state=0).fit(X, y).predict(X) - truth)
        for loss in ("absolute", "squared")
    }
    assert np.median(errors["absolute"]) < 0.3
    assert np.median(errors["absolute"]) < 0.1 * np.median(errors["squared"])


def test_the_hinge_loss_agrees_with_support_vectors():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    model = gf.KernelClassifier(gf.kernels.Gaussian(1.0), loss="hinge", random_state=0).fit(X, y)
    svc = SVC(gamma=0.5, C=1.0).fit(X, y)
    fresh = rng.normal(size=(1000, 2))
    assert np.mean(model.predict(fresh) == svc.predict(fresh)) > 0.93
    assert not hasattr(model, "predict_proba")


def test_the_hinge_loss_is_minimized_where_kernels_are_narrow_too():
    X, y = gf.datasets.make_cube(800)
    labels = y > np.median(y)
    model = gf.KernelClassifier(gf.kernels.Gaussian(0.3), loss="hinge", random_state=0).fit(X[:400], labels[:400])
    assert model.score(X[400:], labels[400:]) > 0.82


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_eigenpro_where_all_rows_are_centers(weighted, times):
    X, y, _ = waves(120)
    X, y = np.tile(X, (times, 1)), np.tile(y, times)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X)) if weighted else None
    settings = {"kernel": gf.kernels.Laplacian(2.0), "penalty": 1e-2, "random_state": 0}
    eigenpro = gf.solvers.EigenPro(tolerance=1e-6, max_iterations=300)
    model = gf.KernelRegressor(solver=eigenpro, **settings).fit(X, y, weights)
    exact = gf.KernelRegressor(solver="exact", **settings).fit(X, y, weights)
    assert model.record_.converged
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-3)


DRAWING = ["eigenpro", "kernel_cg", "nu_method", "nytro", "sgd", "spectral_cutoff"]


def assert_the_seed_counts(first, again, other):
    np.testing.assert_array_equal(first.coefficients_, again.coefficients_)
    if first.record_.solver in ("eigenpro", "sgd"):
        assert not np.array_equal(first.coefficients_, other.coefficients_)
    else:  # it decides the rows that are held out, which the model is fitted to as well
        assert first.record_.path.errors != other.record_.path.errors


@pytest.mark.parametrize("solver", DRAWING)
def test_the_seed_reaches_the_solver(solver):
    X, y, _ = waves(300)
    settings = {"kernel": gf.kernels.Laplacian(2.0), "centers": X[:50], "solver": solver}
    assert_the_seed_counts(*(gf.KernelRegressor(**settings, random_state=seed).fit(X, y) for seed in (1, 1, 2)))


@pytest.mark.parametrize("solver", DRAWING)
def test_a_solver_with_settings_has_a_seed_of_its_own(solver):
    X, y, _ = waves(300)
    kind = gf.solvers.SOLVERS[solver]
    few = {"max_iterations": 5} if hasattr(kind, "max_iterations") else {"max_components": 5}
    settings = {"kernel": gf.kernels.Laplacian(2.0), "centers": X[:50]}
    assert_the_seed_counts(
        *(
            gf.KernelRegressor(**settings, solver=kind(**few, random_state=own), random_state=seed).fit(X, y)
            for seed, own in ((1, 1), (2, 1), (1, 2))
        )
    )


STOPPING = gf.solvers.EarlyStopping(validation=0.1, patience=3, tolerance=0.0)


@pytest.mark.parametrize(
    ("loss", "how"),
    [
        (gf.losses.Robust(), {"early_stopping": STOPPING}),
        # Solvers of losses with kinks hold out rows themselves, or none: then the last iterate is the model.
        (
            gf.losses.Quantile(0.9),
            {"solver": gf.solvers.SGD(stopping=gf.solvers.EarlyStopping(validation=None), max_iterations=5, step=0.1)},
        ),
    ],
    ids=["robust", "quantile"],
)
def test_validation_errors_are_means_of_the_loss_itself(loss, how):
    X, y, _ = waves(400, noise=1.0)
    model = gf.KernelRegressor(
        gf.kernels.Gaussian(1.0), loss=loss, penalty=1e-6, n_centers=60, random_state=0, **how
    ).fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    value = loss.value(torch.from_numpy(model.predict(X[300:]))[:, None], torch.from_numpy(y[300:])[:, None])
    errors = model.record_.validation_errors
    assert len(errors) > 1
    reached = min(errors) if "early_stopping" in how else errors[-1]
    np.testing.assert_allclose(reached, float(value.mean()), rtol=1e-9)


def test_deviations_do_not_depend_on_the_solver_or_on_how_many_outputs_there_are():
    X, y, _ = waves(80)
    X[1::2], how = X[::2], {"length_scale": 1.0, "penalty": 1e-2, "uncertainty": True}
    expected = gf.KernelRegressor(**how, solver="direct").fit(X, y).predict(X, return_std=True)[1]
    model = gf.KernelRegressor(**how, solver="newton").fit(X, np.stack([y] * 4, axis=1))
    deviations = model.predict(X, return_std=True)[1]
    np.testing.assert_allclose(deviations, np.stack([expected] * 4, axis=1), rtol=1e-4)


class Quartic(gf.losses.ResidualLoss):
    name = "quartic"

    def phi(self, u):
        return u**4

    def slope(self, u):
        return 4 * u**3

    def bend(self, u):
        return 12 * u**2


@pytest.mark.parametrize("penalty", ["auto", 1e-3])
def test_a_loss_without_curvature_at_the_target(penalty):
    X, y, truth = waves(200)
    model = gf.KernelRegressor(loss=Quartic(), penalty=penalty, random_state=0).fit(X, y)
    assert model.penalty_ > 0
    assert np.mean((model.predict(X) - truth) ** 2) < 0.1 * truth.var()
