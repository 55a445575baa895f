"""KernelRegressor against the dense minimizer, scikit-learn and the Gaussian process it is the mean of."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

import gyrfalcon as gf
from reference.ridge import nystrom

random = np.random.default_rng(0)
X = random.uniform(-2, 2, (300, 3)) * [1.0, 10.0, 0.1]
Y = np.stack([np.sin(2 * X[:, 0]) + 3, np.cos(X[:, 1] / 5) * 1e3 + X[:, 2]], 1) + 0.1 * random.normal(size=(300, 2))
C = X[::7]
NEW = X[:20] + 0.01
SCALES = [1.5, 12.0, 0.2]
GAUSSIAN = gf.kernels.Gaussian(SCALES)


def dense(points, centers):
    gap = (points[:, None] - centers[None]) / SCALES
    return np.exp(-0.5 * (gap**2).sum(-1))


def solver_of(name, tolerance, max_iterations=100):
    """The solver of that name, with these settings if it iterates."""
    if not hasattr(gf.solvers.SOLVERS.get(name), "max_iterations"):
        return name
    return gf.solvers.SOLVERS[name](tolerance=tolerance, max_iterations=max_iterations)


@pytest.mark.parametrize("solver", ["direct", "falkon", "newton", "auto"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_nystrom_predictions_are_those_of_the_dense_minimizer(solver, weighted, intercept):
    weights = random.integers(0, 4, len(X)).astype(float) if weighted else None
    model = gf.KernelRegressor(
        GAUSSIAN,
        centers=C,
        penalty=1e-4,
        # The tolerance of Falkon is one of the objective, which is a square.
        solver=solver_of(solver, 1e-14 if solver == "falkon" else 1e-10, 300),
        fit_intercept=intercept,
    ).fit(X, Y, weights)
    beta, offset = nystrom(dense(X, C), dense(C, C), Y, 1e-4, weights, intercept)
    expected = dense(NEW, C) @ beta + offset
    assert np.abs(model.predict(NEW) - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("intercept", [False, True])
def test_all_points_as_centers(intercept):
    weights = random.integers(1, 4, len(X)).astype(float)
    model = gf.KernelRegressor(GAUSSIAN, penalty=1e-3, fit_intercept=intercept).fit(X, Y, weights)
    assert model.record_.solver == "exact"
    beta, offset = nystrom(dense(X, X), dense(X, X), Y, 1e-3, weights, intercept)
    expected = dense(NEW, X) @ beta + offset
    assert np.abs(model.predict(NEW) - expected).max() <= 1e-6 * np.abs(expected).max()


def test_agrees_with_kernel_ridge_of_scikit_learn():
    ours = gf.KernelRegressor("rbf", length_scale=2.0, penalty=0.01 / len(X), fit_intercept=False).fit(X, Y)
    theirs = KernelRidge(kernel="rbf", gamma=1 / 8, alpha=0.01).fit(X, Y)
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), rtol=1e-7)


@pytest.mark.parametrize("repeated", [False, True])
def test_deviation_is_that_of_the_gaussian_process(repeated):
    points, y = (np.tile(X, (2, 1)), np.tile(Y[:, 0], 2) + np.repeat([0.1, -0.2], len(X))) if repeated else (X, Y[:, 0])
    n, penalty = len(points), 1e-3
    model = gf.KernelRegressor(gf.kernels.Gaussian(2.0), penalty=penalty, fit_intercept=False).fit(points, y)
    assert model.record_.solver == "exact"
    process = GaussianProcessRegressor(RBF(2.0), alpha=n * penalty, optimizer=None).fit(points, y)
    mean, deviation = process.predict(NEW, return_std=True)
    # The scale that maximises the likelihood of s²(K + nλI), the noise being s²nλ.
    K = RBF(2.0)(points) + n * penalty * np.eye(n)
    scale = y @ np.linalg.solve(K, y) / n
    ours, ours_deviation = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(ours, mean, rtol=1e-6)
    np.testing.assert_allclose(ours_deviation, np.sqrt(scale * (deviation**2 + n * penalty)), rtol=1e-5)


@pytest.mark.parametrize("solver", ["direct", "falkon"])
def test_deviation_with_centers_is_that_of_the_projected_process(solver):
    weights = random.uniform(0.5, 2, len(X))
    total, penalty = weights.sum(), 1e-3
    model = gf.KernelRegressor(
        GAUSSIAN,
        centers=C,
        penalty=penalty,
        solver=solver_of(solver, 1e-9),
        fit_intercept=False,
        uncertainty=True,
    ).fit(X, Y, weights)
    K, Kmm, k = dense(X, C), dense(C, C), dense(NEW, C)
    B = K.T @ (weights[:, None] * K) + penalty * total * Kmm
    variance = (
        1
        - np.einsum("ij,ji->i", k, np.linalg.solve(Kmm, k.T))
        + penalty * total * np.einsum("ij,ji->i", k, np.linalg.solve(B, k.T))
    )
    beta = np.linalg.solve(B, K.T @ (weights[:, None] * Y))
    noise = (weights[:, None] * Y * (Y - K @ beta)).sum(0) / total
    expected = np.sqrt(noise / (penalty * total) * variance[:, None] + noise)
    np.testing.assert_allclose(model.predict(NEW, return_std=True)[1], expected, rtol=1e-4)


def test_deviation_of_float32_data_is_that_of_float64():
    rows = np.random.default_rng(1).uniform(-3, 3, (800, 2)).astype(np.float32)
    targets = np.sin(rows[:, 0])
    deviations = [
        gf.KernelRegressor(gf.kernels.Gaussian(2.0), centers=points[:200], penalty=1e-6, solver="direct")
        .fit(points, targets.astype(np.float64))
        .predict(points + points.dtype.type(0.5), return_std=True)[1]
        for points in (rows, rows.astype(np.float64))
    ]
    np.testing.assert_allclose(*deviations, rtol=1e-3)


def test_memory_maps_are_read_as_arrays(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    fits = [gf.KernelRegressor(n_centers=40, random_state=0).fit(points, Y).predict(points) for points in (X, mapped)]
    np.testing.assert_array_equal(*fits)


def test_deviation_covers_new_observations():
    rows = np.random.default_rng(1).uniform(-3, 3, (6000, 1))
    y = np.sin(rows[:, 0]) + 0.3 * np.random.default_rng(2).normal(size=6000)
    model = gf.KernelRegressor(length_scale=1.0, penalty=1e-5, n_centers=100, uncertainty=True, random_state=0).fit(
        rows[:3000], y[:3000]
    )
    mean, deviation = model.predict(rows[3000:], return_std=True)
    inside = np.abs(y[3000:] - mean) < 1.96 * deviation
    assert 0.93 < inside.mean() < 0.97
    assert model.predict([[100.0]], return_std=True)[1] > 3 * deviation.max()


def test_deviation_that_was_not_kept_says_how_to_get_it():
    model = gf.KernelRegressor(uncertainty=False).fit(X, Y)
    with pytest.raises(ValueError, match="uncertainty=True"):
        model.predict(X, return_std=True)
    with pytest.raises(ValueError, match="positive penalty"):
        gf.KernelRegressor(penalty=0).fit(X[:20], Y[:20]).predict(X, return_std=True)


def test_robust_loss_ignores_outliers():
    y = np.sin(2 * X[:, 0])
    spoiled = y.copy()
    spoiled[::20] += 50
    robust = gf.KernelRegressor(GAUSSIAN, loss="robust", penalty=1e-4).fit(X, spoiled).predict(X)
    squared = gf.KernelRegressor(GAUSSIAN, penalty=1e-4).fit(X, spoiled).predict(X)
    assert np.abs(robust - y).mean() < 0.15 < 1.5 < np.abs(squared - y).mean()


def test_no_scaling_step_is_needed():
    scale = np.array([1e-3, 1.0, 1e5])
    plain = gf.KernelRegressor(penalty=1e-4).fit(X, Y).predict(NEW)
    scaled = gf.KernelRegressor(penalty=1e-4).fit(X * scale + scale, Y).predict(NEW * scale + scale)
    np.testing.assert_allclose(scaled, plain, rtol=1e-7)


@pytest.mark.parametrize("factor", [1e-30, 1e-6, 1e6, 1e30, 1e200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_of_any_scale(factor, dtype):
    points = X.astype(dtype)
    model = gf.KernelRegressor(penalty=1e-4, n_centers=50, random_state=0)
    plain = model.fit(points, Y).predict(points)
    scaled = model.fit(points, Y * factor).predict(points)
    close = 1e-9 if dtype == np.float64 else 2e-3  # targets are rounded to float32 in another place
    assert np.abs(scaled / factor - plain).max() <= close * np.abs(plain).max()


def test_early_stopping_keeps_the_best_iterate():
    y = Y[:, 0] + random.normal(size=len(X))
    model = gf.KernelRegressor(
        gf.kernels.Gaussian(0.3),
        penalty=1e-9,
        solver=gf.solvers.Falkon(tolerance=0.0),
        early_stopping=gf.solvers.EarlyStopping(validation=0.1, patience=3, tolerance=0.0),
    )
    X_val = random.uniform(-2, 2, (200, 3)) * [1.0, 10.0, 0.1]
    y_val = np.sin(2 * X_val[:, 0]) + 3
    model.fit(X, y, X_val=X_val, y_val=y_val)
    errors = model.record_.validation_errors
    assert len(errors) == model.n_iter_ < 100
    assert "validation" in model.record_.message
    assert np.sqrt(np.mean((model.predict(X_val) - y_val) ** 2)) == pytest.approx(min(errors))


def test_validation_part_is_set_aside():
    stopping = gf.solvers.EarlyStopping(validation=0.3)
    model = gf.KernelRegressor(solver="falkon", early_stopping=stopping, random_state=0)
    model.fit(X, Y)
    assert len(model.record_.validation_errors) == model.n_iter_
    assert len(model.centers_) == 210


def test_warm_start_takes_fewer_iterations():
    falkon = gf.solvers.Falkon(tolerance=1e-8)
    model = gf.KernelRegressor(GAUSSIAN, centers=C, penalty=1e-6, solver=falkon, warm_start=True)
    first = model.fit(X, Y).n_iter_
    centers = model.centers_
    second = model.fit(X, Y + 1e-6).n_iter_
    assert second < first / 2
    assert model.centers_ is centers or (model.centers_ == centers).all()


@pytest.mark.parametrize("rule", ["uniform", "kmeans", "leverage", "pivoted"])
def test_same_seed_same_model(rule):
    fits = [gf.KernelRegressor(centers=rule, n_centers=40, random_state=3).fit(X, Y).predict(NEW) for _ in range(2)]
    np.testing.assert_array_equal(*fits)


def test_sparse_and_dense_agree():
    points = X / SCALES * (random.uniform(size=X.shape) < 0.6)
    fits = [
        gf.KernelRegressor("rbf", length_scale=1.0, centers=kind(points[:30]), penalty=1e-4, solver="direct")
        .fit(kind(points), Y)
        .predict(kind(NEW / SCALES))
        for kind in (np.asarray, sparse.csr_array, sparse.csc_matrix)
    ]
    for found in fits[1:]:
        assert np.abs(found - fits[0]).max() <= 1e-6 * np.abs(fits[0]).max()


def test_float32_data_give_the_float64_answer():
    wide = gf.KernelRegressor(GAUSSIAN, centers=C, penalty=1e-5).fit(X, Y).predict(NEW)
    narrow = gf.KernelRegressor(GAUSSIAN, centers=C.astype(np.float32), penalty=1e-5)
    found = narrow.fit(X.astype(np.float32), Y.astype(np.float32)).predict(NEW.astype(np.float32))
    assert found.dtype == np.float32
    assert np.abs(found - wide).max() <= 1e-3 * np.abs(wide).max()


def test_callable_kernel():
    def quadratic(a, b):
        return (1 + a @ b.T) ** 2

    ours = gf.KernelRegressor(quadratic, penalty=1e-6).fit(X, Y).predict(NEW)
    named = gf.KernelRegressor(gf.kernels.Polynomial(1.0, degree=2, offset=1.0), penalty=1e-6).fit(X, Y).predict(NEW)
    assert np.abs(ours - named).max() <= 1e-6 * np.abs(named).max()


@pytest.mark.parametrize("device", ["cpu", *([f"cuda:{i}" for i in range(torch.cuda.device_count())])])
def test_devices(device):
    model = gf.KernelRegressor(GAUSSIAN, centers=C, penalty=1e-4, device=device).fit(X, Y)
    reference = gf.KernelRegressor(GAUSSIAN, centers=C, penalty=1e-4).fit(X, Y)
    assert isinstance(model.predict(NEW), np.ndarray)
    np.testing.assert_allclose(model.predict(NEW), reference.predict(NEW), rtol=1e-6)
    tensor = torch.from_numpy(NEW).to(device)
    assert model.predict(tensor).device == tensor.device


def test_a_printed_record_is_a_short_table():
    X = np.random.default_rng(0).normal(size=(200, 2))
    record = gf.KernelRegressor(solver="falkon", n_centers=20, tune=None, random_state=0).fit(X, X[:, 0]).record_
    lines = str(record).splitlines()
    assert [line.split()[0] for line in lines] == ["solver", "ended", "iterations", "objective", "seconds", "products"]
    assert lines[0] == "solver      falkon"
    assert max(map(len, lines)) <= 120
    assert str(dataclasses.replace(record, converged=False)).splitlines()[1].endswith("it has not converged")
