"""`tune=` in the estimators: what is learned, what is left alone, and that nothing breaks."""

import warnings

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

import gyrfalcon as gf
from gyrfalcon.tuning import GCV, SGPR, Grid, PenaltyPath, Trace, Tuning
from gyrfalcon.tuning.parameters import length_scales
from reference.solving import direct

random = np.random.default_rng(0)
X = random.normal(size=(700, 6))
y = np.sin(3 * X[:, 0]) + 0.1 * random.normal(size=700)
train, test = slice(0, 500), slice(500, 700)
labels = (y > 0).astype(int)
FEW = Tuning(steps=15)


def score(model, target=y):
    return model.fit(X[train], target[train]).score(X[test], target[test])


def test_irrelevant_features_are_found_out():
    plain, tuned = gf.KernelRegressor(tune=None, random_state=0), gf.KernelRegressor(random_state=0)
    assert score(plain) < 0.6
    assert score(tuned) > 0.96
    relevance = gf.tuning.relevance(tuned)
    assert relevance[0] == 1
    assert relevance[1:].max() < 0.2
    assert isinstance(tuned.tuning_, Trace)
    assert plain.tuning_ is None


def test_classes_too():
    tuned = gf.KernelClassifier(random_state=0)
    assert score(tuned, labels) > score(gf.KernelClassifier(tune=None, random_state=0), labels) + 0.03
    for loss in ("logistic", "softmax", "exponential"):
        assert score(gf.KernelClassifier(loss=loss, tune=FEW, random_state=0), labels) > 0.85


def test_few_rows_of_many_classes_are_not_called_noise():
    scores = []
    for seed in range(3):
        X, y = make_classification(400, 20, n_informative=5, n_classes=5, random_state=seed)
        model = gf.KernelClassifier(random_state=0).fit(X[:80], y[:80])
        scores.append(model.score(X[80:], y[80:]))
    assert np.mean(scores) > 0.3  # chance is 0.2, an untuned model has 0.39


def test_scales_and_noise_suit_many_centers():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (6000, 2)).astype(np.float32)
    y = np.sin(12 * X[:, 0]) * np.cos(9 * X[:, 1]) + 0.1 * random.standard_normal(6000)
    model = gf.KernelRegressor(random_state=0, n_centers=1000).fit(X[:5000], y[:5000])
    error = np.mean((model.predict(X[5000:]) - y[5000:]) ** 2)
    assert error < 0.0115  # the noise alone is 0.01


def test_auto_leaves_alone_what_was_set():
    kernel = gf.kernels.Gaussian(1.5)
    model = gf.KernelRegressor(kernel, penalty=1e-4).fit(X, y)
    assert model.kernel_ == kernel
    assert model.penalty_ == 1e-4
    assert model.tuning_ is None
    model = gf.KernelRegressor(kernel).fit(X, y)
    assert model.kernel_ == kernel
    assert model.penalty_ != 0.01 / 700
    model = gf.KernelRegressor("laplacian", penalty=1e-4).fit(X, y)
    assert model.penalty_ == 1e-4
    assert type(model.kernel_) is gf.kernels.Laplacian
    assert np.ptp(model.kernel_.length_scale) > 1
    assert gf.KernelRegressor("laplacian", length_scale=2.0).fit(X, y).kernel_ == gf.kernels.Laplacian(2.0)


def test_an_objective_that_is_asked_for_tunes_everything():
    kernel = gf.kernels.Gaussian(1.5)
    model = gf.KernelRegressor(kernel, penalty=1e-2, tune="gcv", random_state=0).fit(X[train], y[train])
    assert model.kernel_ != kernel
    assert model.penalty_ != 1e-2
    assert model.score(X[test], y[test]) > 0.95


@pytest.mark.parametrize("objective", sorted(gf.tuning.OBJECTIVES))
def test_every_objective_by_name(objective):
    model = gf.KernelRegressor("gaussian", tune=objective, random_state=0)
    least = {"creg": 0.2, "proposed": 0.0}.get(objective, 0.9)  # those two take the noise for as large as the signal
    assert score(model) > least
    assert model.tuning_.objective == objective


def test_centers_are_tuned_with_the_rest():
    few = {"kernel": "gaussian", "n_centers": 12, "random_state": 0}
    fixed = gf.KernelRegressor(**few, tune=Tuning("sgpr", steps=60))
    moved = gf.KernelRegressor(**few, tune=Tuning("sgpr", centers=True, steps=60))
    assert score(moved) > score(fixed)
    assert moved.centers_.shape == (12, 6)
    assert not any((center == X).all(1).any() for center in moved.centers_)


def test_stochastic_agrees_with_exact():
    shared = {"kernel": "gaussian", "random_state": 0, "n_centers": 200}
    exact, guess = (
        gf.KernelRegressor(**shared, tune=Tuning("gcv", optimizer="adam", method=method, steps=60, n_centers=100))
        for method in ("exact", "stochastic")
    )
    assert abs(score(exact) - score(guess)) < 0.02


def test_a_map_finds_a_direction_that_no_feature_is():
    z = X @ np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    target = np.sin(0.6 * z) + 0.1 * random.normal(size=700)
    scales = score(gf.KernelRegressor(random_state=0), target)
    model = gf.KernelRegressor(tune="map", random_state=0)
    assert score(model, target) > scales + 0.05
    matrix = np.array(model.kernel_.matrix)
    top = np.linalg.svd(matrix)[2][0]
    assert abs(top @ np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])) / np.sqrt(6) > 0.99


def test_gradient_outer_product_of_every_kernel():
    C, beta = X[:20], random.normal(size=(20, 2))
    for kernel in (
        gf.kernels.Gaussian([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]),
        gf.kernels.Laplacian(2.0),
        gf.kernels.Mapped(gf.kernels.Matern(2.0, nu=2.5), random.normal(size=(3, 6))),
        gf.kernels.Gaussian(2.0) + gf.kernels.Linear(),
    ):
        points = torch.tensor(X[:30], requires_grad=True)
        values = kernel.block(points, torch.tensor(C)) @ torch.tensor(beta)
        slopes = [torch.autograd.grad(column.sum(), points, retain_graph=True)[0].numpy() for column in values.T]
        expected = sum(slope.T @ slope for slope in slopes) / 30
        found = gf.tuning.gradient_outer_product(kernel, X[:30], C, beta)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        twice = gf.tuning.gradient_outer_product(kernel, X[:30], C, beta, weights=np.full(30, 2.0))
        np.testing.assert_allclose(twice, found, rtol=1e-12)


# A grid.


def test_path_equals_separate_fits_by_fold():
    penalties = np.array([1e-6, 1e-3, 1.0])
    Y = torch.from_numpy(y[:200, None] - y[:200].mean())
    problem = gf.solvers.LeastSquares(gf.KernelMatrix("gaussian", torch.from_numpy(X[:200]), X[:40]), Y, 1.0)
    errors = gf.tuning.cross_validate(problem, penalties, 4, np.random.default_rng(3))
    folds = np.random.default_rng(3).permutation(200) % 4
    for fold in range(4):
        kept, held = torch.from_numpy(folds != fold), torch.from_numpy(folds == fold)
        for place, penalty in enumerate(penalties):
            points = torch.from_numpy(X[:200])
            K = gf.KernelMatrix("gaussian", points[kept], X[:40])
            beta = direct(gf.solvers.LeastSquares(K, Y[kept], penalty)).coefficients
            residual = gf.KernelMatrix("gaussian", points[held], X[:40]) @ beta - Y[held]
            np.testing.assert_allclose(errors[fold, place], float(residual.square().mean()), rtol=1e-5)


def test_path_in_an_estimator_and_in_a_search():
    path = PenaltyPath(penalties=(1e-8, 1e-6, 1e-4), length_scales=(0.2, 1.0), folds=3)
    model = gf.KernelRegressor(tune=path, random_state=0).fit(X, y)
    assert isinstance(model.tuning_, Grid)
    assert model.tuning_.errors.shape == (2, 3)
    row, column = model.tuning_.best
    np.testing.assert_allclose(model.penalty_, (1e-8, 1e-6, 1e-4)[column])
    assert model.tuning_.errors[row, column] == model.tuning_.errors.min()
    search = GridSearchCV(gf.KernelRegressor(tune=path, random_state=0), {"kernel": ["gaussian", "laplacian"]}, cv=2)
    assert isinstance(search.fit(X[:200], y[:200]).best_estimator_.tuning_, Grid)


# Sameness.


def test_same_seed_same_model_and_clone():
    model = gf.KernelRegressor(tune=FEW, random_state=3)
    first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    assert first.kernel_ == second.kernel_
    assert np.array_equal(first.predict(X), second.predict(X))


@pytest.mark.parametrize("kind", ["float32", "torch", "pandas"])
def test_kinds_of_data(kind):
    expected = gf.KernelRegressor(tune=FEW, random_state=0).fit(X[train], y[train])
    if kind == "torch":
        points = torch.from_numpy(X)
    elif kind == "pandas":
        points = pytest.importorskip("pandas").DataFrame(X, columns=list("abcdef"))
    else:
        points = X.astype(np.float32)
    model = gf.KernelRegressor(tune=FEW, random_state=0).fit(points[train], y[train])
    np.testing.assert_allclose(model.score(points[test], y[test]), expected.score(X[test], y[test]), atol=0.01)


def test_sparse_points_have_one_scale():
    points = sparse.csr_array(np.where(random.random(X.shape) < 0.5, X, 0))
    model = gf.KernelRegressor(random_state=0).fit(points[:150], y[:150])
    scales = length_scales(model.kernel_)  # of a sum, those of its parts
    assert scales
    assert all(scale.ndim == 0 for scale in scales.values())
    with pytest.raises(ValueError, match="dense"):
        gf.KernelRegressor(tune="map").fit(points, y)
    with pytest.raises(ValueError, match="dense"):
        gf.KernelRegressor(tune=Tuning(centers=True)).fit(points, y)


def test_rows_are_a_part_and_all_are_fitted():
    model = gf.KernelRegressor(tune=Tuning(rows=300, n_centers=50, steps=10), random_state=0, n_centers=400).fit(X, y)
    assert model.centers_.shape == (400, 6)
    assert model.score(X[test], y[test]) > 0.9


def test_model_files_hold_what_was_tuned(tmp_path):
    model = gf.KernelRegressor(tune=FEW, random_state=0).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    again = gf.load(tmp_path / "model.safetensors")
    assert again.kernel_ == model.kernel_
    assert np.array_equal(again.predict(X), model.predict(X))


# Data that are hardly data.


@pytest.mark.parametrize("tune", ["auto", "gcv", "kfold", "map", PenaltyPath(folds=2)])
def test_hard_data_give_finite_models_or_clear_errors(tune):
    cases = {
        "constant target": (X[:40], np.ones(40)),
        "constant feature": (np.column_stack([X[:40], np.ones(40)]), y[:40]),
        "all features constant": (np.ones((40, 2)), y[:40]),
        "repeated rows": (np.repeat(X[:8], 5, axis=0), np.repeat(y[:8], 5)),
        "two distinct rows": (np.repeat(X[:2], 10, axis=0), np.arange(20.0)),
        "few rows": (X[:4], y[:4]),
        "huge": (1e100 * X[:40], 1e100 * y[:40]),
        "tiny": (1e-100 * X[:40], 1e-100 * y[:40]),
        "noise": (X[:100], random.normal(size=100)),
    }
    for name, (points, target) in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            model = gf.KernelRegressor(tune=tune, random_state=0).fit(points, target)
        assert np.isfinite(model.predict(points)).all(), name
        assert model.penalty_ > 0, name


def test_bad_settings_are_named():
    for bad in ("nonsense", 3, ["gcv"]):
        with pytest.raises(ValueError, match="tune"):
            gf.KernelRegressor(tune=bad).fit(X, y)
    for name, value in {
        "objective": "best",
        "optimizer": "sgd",
        "method": "fast",
        "per_feature": 2,
        "rows": 0,
        "n_centers": -1,
        "steps": 0,
        "patience": 1.5,
        "probes": 0,
        "learning_rate": 0,
        "seconds": -1,
        "tolerance": 0,
    }.items():
        with pytest.raises(ValueError, match=name):
            Tuning(**{name: value})
    for name, value in {
        "penalties": [0.0],
        "length_scales": [-1.0],
        "folds": 1,
        "rows": 0,
    }.items():
        with pytest.raises(ValueError, match=name):
            PenaltyPath(**{name: value})
    for empty in ([], np.array([])):
        with pytest.raises(ValueError, match="empty"):
            PenaltyPath(length_scales=empty)


def test_length_scales_of_a_path_may_be_an_array():
    path = PenaltyPath(penalties=np.array([1e-6, 1e-3]), length_scales=np.array([1.0, 2.0]), folds=2)
    assert gf.KernelRegressor(tune=path, random_state=0).fit(X[:100], y[:100]).tuning_.errors.shape == (2, 2)


def test_objects_of_their_own():
    for objective in (GCV(), SGPR(amplitude=True), gf.tuning.ComplexityRegularization(noise=0.01)):
        assert score(gf.KernelRegressor("gaussian", tune=objective, random_state=0)) > 0.9


# Pictures.


def test_plots():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    model = gf.KernelRegressor(tune="sgpr", random_state=0).fit(X[:200], y[:200])
    axes = gf.tuning.plot_trace(model)
    assert {"sgpr", "fit", "approximation", "penalty (right)"} <= {t.get_text() for t in axes.get_legend().get_texts()}
    axes = gf.tuning.plot_relevance(model, most=3)
    assert axes.get_yticklabels()[0].get_text() == "x0"
    grid = gf.KernelRegressor(tune=PenaltyPath(folds=2)).fit(X[:100], y[:100])
    assert gf.tuning.plot_path(grid).get_xscale() == "log"
    with pytest.raises(ValueError, match="tune"):
        gf.tuning.plot_trace(grid)
    with pytest.raises(ValueError, match="PenaltyPath"):
        gf.tuning.plot_path(model)
    pyplot.close("all")


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_penalties_of_decisions_are_in_the_units_of_the_model(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    model = gf.KernelClassifier(loss=loss, random_state=0, verbose=False).fit(
        X, X[:, 0] + 0.5 * rng.normal(size=300) > 0
    )
    stage = model.tuning_.stages[-1]
    assert stage.candidates[stage.chosen].penalty == pytest.approx(model.penalty_, rel=0.5)


def test_relevance_of_several_kernels_is_that_of_the_most_nonlinear():
    rough, smooth = gf.kernels.Gaussian([0.5, 4.0, 9.0]), gf.kernels.Gaussian([2.0, 1.0, 9.0])
    warped = gf.kernels.Warped(0.5 * rough + 0.5 * smooth, [2], [[-9.0, 9.0]], [[-900.0, 900.0]])
    model = gf.KernelRegressor(kernel=warped + gf.kernels.Linear(), penalty=1e-3, tune=None).fit(X[:50, :3], y[:50])
    moves = X[:50, :3].std(0) / [0.5, 1.0, 0.09]
    np.testing.assert_allclose(gf.tuning.relevance(model), moves / moves.max(), rtol=1e-6)


def test_relevance_of_mapped_kernels_is_that_of_the_features_before_the_map():
    matrix = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    both = 0.5 * gf.kernels.Gaussian([1.0, 2.0]) + 0.5 * gf.kernels.Matern([2.0, 1.0])
    model = gf.KernelRegressor(kernel=gf.kernels.Mapped(both, matrix), penalty=1e-3, tune=None)
    moves = X[:50, :3].std(0) * [1.0, 2.0, 3.0]
    np.testing.assert_allclose(gf.tuning.relevance(model.fit(X[:50, :3], y[:50])), moves / moves.max(), rtol=1e-6)


def test_relevance_needs_dense_centers():
    model = gf.KernelRegressor(tune=None).fit(sparse.csr_array(X[:50]), y[:50])
    with pytest.raises(ValueError, match="sparse centers"):
        gf.tuning.relevance(model)


def test_a_feature_map_is_of_one_kernel():
    """On these rows the sum of two kernels erred least among those that a map could start from."""
    random = np.random.default_rng(0)
    points = random.normal(size=(250, 3))
    bump = 2 * np.exp(-3 * (points[:, 0] ** 2 + points[:, 1] ** 2))
    targets = bump + np.floor(2 * points[:, 0]) + 0.1 * random.normal(size=250)
    model = gf.KernelRegressor(tune="map", random_state=0).fit(points, targets)
    assert "sum of kernels" not in [stage.name for stage in model.tuning_.stages]
    assert model.score(points, targets) > 0.9
