"""Targets with a long tail: what they are transformed to, and what is said of them on their own scale."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.kernel_ridge import KernelRidge

import gyrfalcon as gf
from gyrfalcon.estimators.target_transform import TargetTransform


def signal(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]


def multiplicative(rows, seed=0, noise=0.5):
    """Rows, targets and what these are in the mean."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, size=(rows, 4))
    f = signal(X)
    return X, np.exp(f + noise * random.normal(size=rows)), np.exp(f + noise**2 / 2)


def left_out(K, z, noise):
    """What ridge regression with an intercept predicts for each row if it is fitted to the others; plainly."""
    found = []
    for row in range(len(z)):
        kept = np.delete(np.arange(len(z)), row)
        ones = np.ones((len(kept), 1))
        system = np.block([[K[np.ix_(kept, kept)] + noise * np.eye(len(kept)), ones], [ones.T, np.zeros((1, 1))]])
        solution = np.linalg.solve(system, np.append(z[kept], 0.0))
        found.append(K[row, kept] @ solution[:-1] + solution[-1])
    return np.array(found)


def test_predictions_are_those_of_ridge_regression_of_logarithms_times_a_mean_of_residuals():
    X, y, _ = multiplicative(120)
    X_new = multiplicative(50, seed=1)[0]
    model = gf.KernelRegressor(gf.kernels.Gaussian(1.0), penalty=0.3 / 120, target_transform="log").fit(X, y)
    ridge = KernelRidge(kernel="rbf", gamma=0.5, alpha=0.3)
    # Kernel ridge has no intercept: a constant kernel of great variance is as good as one.
    K, K_new = gf.kernels.Gaussian(1.0)(X), gf.kernels.Gaussian(1.0)(X_new, X)
    ridge.set_params(kernel="precomputed")
    naive = TransformedTargetRegressor(ridge, func=np.log, inverse_func=np.exp).fit(K + 1e6, y).predict(K_new + 1e6)
    growth = np.exp(np.log(y) - left_out(K, np.log(y), 0.3)).mean()
    assert growth > 1.1
    np.testing.assert_allclose(model.predict(X_new), growth * naive, rtol=1e-4)


def test_what_grows_like_a_sine_is_brought_back_with_both_means():
    X, y, _ = multiplicative(120)
    model = gf.KernelRegressor(gf.kernels.Gaussian(1.0), penalty=0.3 / 120, target_transform="arsinh").fit(X, y)
    origin, scale = model.target_transform_.origin, model.target_transform_.scale
    assert origin == np.sort(y)[1]
    assert scale == pytest.approx(0.3 * np.abs(y - origin).mean())
    z = np.arcsinh((y - origin) / scale)
    K = gf.kernels.Gaussian(1.0)(X)
    residuals = z - left_out(K, z, 0.3)
    ones = np.ones((120, 1))
    system = np.block([[K + 0.3 * np.eye(120), ones], [ones.T, np.zeros((1, 1))]])
    solution = np.linalg.solve(system, np.append(z, 0.0))
    f = K @ solution[:-1] + solution[-1]
    expected = np.array([np.mean(origin + scale * np.sinh(one + residuals)) for one in f])
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-8)


def test_predictions_are_means_where_naive_ones_are_a_third_too_small():
    X, y, _ = multiplicative(1500, noise=0.9)
    X_new, _, means = multiplicative(8000, seed=1, noise=0.9)
    model = gf.KernelRegressor(target_transform="log", random_state=0).fit(X, y)
    predicted = model.predict(X_new)
    assert predicted.mean() / means.mean() == pytest.approx(1, abs=0.05)
    lowest, highest = np.quantile(means, [0.1, 0.9])
    for some in (means < lowest, means > highest):  # shrinkage moves the ends a little
        assert predicted[some].mean() / means[some].mean() == pytest.approx(1, abs=0.15)
    middle = model.predict_interval(X_new, coverage=1e-9)[0]
    assert middle.mean() / means.mean() < 0.7


@pytest.mark.parametrize("transform", ["log", "arsinh", "auto"])
def test_intervals_hold_as_many_as_they_say(transform):
    X, y, _ = multiplicative(1200)
    X_new, y_new, means = multiplicative(8000, seed=1)
    model = gf.KernelRegressor(target_transform=transform, random_state=0).fit(X, y)
    assert model.target_transform_ is not None
    low, high = model.predict_interval(X_new, coverage=0.9)
    inside, small = (low <= y_new) & (y_new <= high), means < np.median(means)
    assert 0.87 < inside.mean() < 0.93
    for some in (small, ~small):
        assert 0.84 < inside[some].mean() < 0.96
    plain = gf.KernelRegressor(target_transform=None, random_state=0).fit(X, y)
    low, high = plain.predict_interval(X_new, coverage=0.9)
    assert np.mean(((low <= y_new) & (y_new <= high))[small]) > 0.97  # one width for all is too much for small targets
    deviations, spreads = model.predict(X_new, return_std=True)[1], means * np.sqrt(np.expm1(0.25))
    assert np.corrcoef(np.log(deviations), np.log(spreads))[0, 1] > 0.9
    assert np.sqrt(np.mean(deviations**2) / np.mean(spreads**2)) == pytest.approx(1, abs=0.35)


def test_the_defaults_learn_more_where_noise_grows_with_the_targets():
    ratios = []
    for seed in range(3):
        X, y, _ = multiplicative(600, seed)
        X_new, _, means = multiplicative(4000, seed=seed + 100)
        plain, automatic = (
            gf.KernelRegressor(target_transform=wish, random_state=0).fit(X, y).predict(X_new) - means
            for wish in (None, "auto")
        )
        ratios.append(np.mean(automatic**2) / np.mean(plain**2))
    assert np.exp(np.mean(np.log(ratios))) < 0.7


def test_the_decision_is_told():
    X, y, _ = multiplicative(600)
    model = gf.KernelRegressor(random_state=0).fit(X, y)
    stage = model.tuning_.stages[0]
    assert stage.name == "transform of y"
    assert [one.kernel[:8] for one in stage.candidates] == ["y", "arsinh((", "arsinh((", "arsinh(("]
    assert stage.chosen == np.argmin([one.value for one in stage.candidates]) > 0
    assert str(model.target_transform_) == stage.candidates[stage.chosen].kernel


def test_targets_without_a_tail_cost_nothing_and_stay():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(500, 3))
    y = signal(X) + 0.1 * random.normal(size=500)
    automatic, plain = (gf.KernelRegressor(target_transform=wish, random_state=0).fit(X, y) for wish in ("auto", None))
    np.testing.assert_array_equal(automatic.predict(X), plain.predict(X))
    assert [stage.name for stage in automatic.tuning_.stages] == [stage.name for stage in plain.tuning_.stages]


def test_what_is_additive_stays_although_it_has_a_tail():
    random = np.random.default_rng(0)
    X = np.exp(random.normal(size=(600, 4)))
    y = X[:, 0] + 2 * X[:, 1] + 0.5 * X[:, 2] + 0.5 * random.normal(size=600)
    model = gf.KernelRegressor(random_state=0).fit(X, y)
    assert model.tuning_.stages[0].name == "transform of y"
    assert model.tuning_.stages[0].chosen == 0
    assert model.target_transform_ is None
    np.testing.assert_array_equal(
        model.predict(X), gf.KernelRegressor(target_transform=None, random_state=0).fit(X, y).predict(X)
    )


@pytest.mark.parametrize(("factor", "shift"), [(1000.0, -5.0), (1e-3, 2.0), (-20.0, 100.0)])
def test_units_and_directions_of_targets_do_not_matter(factor, shift):
    X, y, _ = multiplicative(400)
    settings = {"kernel": gf.kernels.Gaussian(1.0), "random_state": 0}
    one, other = (gf.KernelRegressor(**settings).fit(X, z) for z in (y, factor * y + shift))
    assert one.target_transform_ is not None
    spread = abs(factor) * y.std()
    np.testing.assert_allclose(other.predict(X), factor * one.predict(X) + shift, atol=1e-6 * spread)
    np.testing.assert_allclose(
        other.predict(X, return_std=True)[1], abs(factor) * one.predict(X, return_std=True)[1], atol=1e-6 * spread
    )
    ends = [factor * end + shift for end in one.predict_interval(X)]
    np.testing.assert_allclose(other.predict_interval(X), np.sort(ends, 0), atol=1e-6 * spread)


def test_the_order_of_rows_does_not_matter():
    X, y, _ = multiplicative(400)
    order = np.random.default_rng(7).permutation(400)
    one = gf.KernelRegressor(random_state=0).fit(X, y)
    other = gf.KernelRegressor(random_state=0).fit(X[order], y[order])
    assert one.target_transform_.origin == other.target_transform_.origin
    assert one.target_transform_.scale == pytest.approx(other.target_transform_.scale)
    np.testing.assert_allclose(other.predict(X), one.predict(X), rtol=1e-3)


@pytest.mark.parametrize("transform", ["log", "arsinh"])
def test_a_weight_of_two_is_two_rows(transform):
    X, y, _ = multiplicative(150)
    weights = np.random.default_rng(3).integers(1, 4, size=150)
    settings = {"kernel": gf.kernels.Gaussian(1.0), "penalty": 1e-3, "target_transform": transform}
    weighted = gf.KernelRegressor(**settings).fit(X, y, weights)
    repeated = gf.KernelRegressor(**settings).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    y[0] = 1.0 if transform == "arsinh" else -1.0
    weights[0] = 0  # whatever its target is
    gf.KernelRegressor(**settings).fit(X, y, weights)


def test_rows_without_weight_have_no_say_in_the_decision():
    X, y, _ = multiplicative(200)
    weights = np.append(np.ones(200), 0)
    settings = {"kernel": gf.kernels.Gaussian(1.0), "random_state": 0}
    alone = gf.KernelRegressor(**settings).fit(X, y)
    with np.errstate(all="raise"):
        beside = gf.KernelRegressor(**settings).fit(np.append(X, X[:1], 0), np.append(y, 1e120), weights)
    assert beside.target_transform_ == alone.target_transform_ is not None


def test_each_output_has_a_transform_of_its_own(tmp_path):
    X, y, _ = multiplicative(500)
    random = np.random.default_rng(1)
    Y = np.stack([y, signal(X) + 0.1 * random.normal(size=500), -y], 1)
    model = gf.KernelRegressor(random_state=0).fit(X, Y)
    first, second, third = model.target_transform_
    assert second is None
    assert third.origin == -first.origin
    assert [stage.name for stage in model.tuning_.stages[:2]] == [
        "transform of y, output 1 of 3",
        "transform of y, output 3 of 3",
    ]
    mean, deviation = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean[:, 0], -mean[:, 2], atol=1e-6 * y.max())
    np.testing.assert_allclose(deviation[:, 0], deviation[:, 2], atol=1e-6 * y.max())
    covariance = model.predict(X[:20], return_cov=True)[1]
    np.testing.assert_allclose(np.einsum("iit->it", covariance), deviation[:20] ** 2, rtol=1e-6)
    assert model.sample_y(X[:20], 5).shape == (20, 3, 5)
    low, high = model.predict_interval(X)
    assert (low < high).all()
    model.save(tmp_path / "model")
    again = gf.load(tmp_path / "model")
    assert again.target_transform_ == model.target_transform_
    np.testing.assert_array_equal(again.predict(X), mean)
    np.testing.assert_array_equal(again.predict_interval(X), (low, high))
    with pytest.raises(ValueError, match="requires gradients"):
        model.predict_interval(torch.tensor(X, requires_grad=True))
    columns = again.prediction_columns(X, return_std=True, interval=0.95)
    np.testing.assert_array_equal(columns["prediction_y0"], mean[:, 0])
    np.testing.assert_array_equal(columns["standard_deviation_y0"], deviation[:, 0])
    np.testing.assert_array_equal(columns["lower_y2"], low[:, 2])


@pytest.mark.parametrize("transform", [TargetTransform("log"), TargetTransform("arsinh", 0.5, 0.3)])
def test_moments_are_those_of_what_is_drawn(transform):
    z = np.array([0.2, 1.0, 1.4])
    root = np.array([[0.5, 0, 0], [0.3, 0.4, 0], [-0.2, 0.1, 0.3]])
    covariance = root @ root.T
    draws = transform.back(z[:, None] + root @ np.random.default_rng(0).normal(size=(3, 1_000_000)))
    np.testing.assert_allclose(transform.covariance(z, covariance), np.cov(draws), rtol=0.02, atol=0.003)
    spread = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(transform.deviation(z, spread), draws.std(1), rtol=0.01)


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200, 1e290])
@pytest.mark.parametrize("transform", ["log", "arsinh"])
def test_deviations_follow_the_unit_where_its_square_is_not_a_number(transform, unit):
    X, y, _ = multiplicative(60)
    settings = {"kernel": gf.kernels.Gaussian(1.0), "penalty": 1e-2, "target_transform": transform}
    usual, other = (gf.KernelRegressor(**settings).fit(X, z).predict(X, return_std=True) for z in (y, unit * y))
    np.testing.assert_allclose(np.divide(other, unit), usual, rtol=1e-6)


def test_covariances_of_what_is_certain_are_zero():
    with np.errstate(all="raise"):
        assert not TargetTransform("log").covariance(np.zeros(2), np.zeros((2, 2))).any()


def test_nothing_explodes_far_from_the_targets_of_the_fit():
    X, y, _ = multiplicative(300)
    model = gf.KernelRegressor(gf.kernels.Polynomial(3), penalty=1e-4, target_transform="log", uncertainty=True).fit(
        X, y
    )
    away = 30 * np.random.default_rng(0).normal(size=(200, 4))
    latent = model.kernel_(away, model.centers_) @ model.coefficients_ + model.intercept_
    latent += np.log(model.target_transform_.scale)
    assert latent.max() > 100  # what a polynomial says
    mean, deviation = model.predict(away, return_std=True)
    bound = model.target_transform_.growth * y.max()
    assert bound < 2 * y.max()
    assert (mean >= 0).all()
    assert (mean <= bound * (1 + np.maximum(latent - np.log(y.max()), 0)) * (1 + 1e-9)).all()
    assert np.isfinite(deviation).all()


@pytest.mark.parametrize("transform", ["log", "arsinh"])
@pytest.mark.parametrize("sign", [1, -1])
def test_means_stay_inside_their_intervals_far_from_the_targets_of_the_fit(transform, sign):
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    y = np.exp(X[:, 0] + 0.5 * X[:, 1] + 0.4 * random.normal(size=400))
    y = y if transform == "log" else sign * y
    model = gf.KernelRegressor("linear", target_transform=transform, random_state=0).fit(X, y)
    away = 10 * X
    mean = model.predict(away)
    low, high = model.predict_interval(away)
    assert np.abs(mean).max() > 3 * np.abs(y).max()
    assert (low <= mean).all()
    assert (mean <= high).all()
    assert np.abs([low, high]).max() < 10 * np.abs(mean).max()
    columns = model.prediction_columns(away, interval=0.95)
    np.testing.assert_array_equal(columns["upper"], high)
    assert np.abs(model.sample_y(away[:50], 20)).max() < 10 * np.abs(mean).max()


def test_gradients_are_those_of_the_predictions():
    X, y, _ = multiplicative(300)
    for transform in ("log", "arsinh"):
        model = gf.KernelRegressor(penalty=1e-3, target_transform=transform, random_state=0).fit(X, y)
        points = torch.tensor(X[:5], requires_grad=True)
        predicted = model.predict(points)
        np.testing.assert_allclose(predicted.detach(), model.predict(X[:5]), rtol=1e-8)
        (gradient,) = torch.autograd.grad(predicted.sum(), points)
        step = np.zeros((5, 4))
        step[:, 2] = 1e-5
        slope = (model.predict(X[:5] + step) - model.predict(X[:5] - step)) / 2e-5
        np.testing.assert_allclose(gradient[:, 2], slope, rtol=1e-4, atol=1e-5)


def test_files_and_sparse_rows_are_as_good(tmp_path):
    X, y, _ = multiplicative(800)
    np.save(tmp_path / "rows.npy", X)
    settings = {"kernel": gf.kernels.Gaussian(1.0), "n_centers": 100, "target_transform": "log", "random_state": 0}
    in_memory = gf.KernelRegressor(centers=X[:100], **settings | {"n_centers": "auto"}).fit(X, y)
    streamed = gf.KernelRegressor(centers=X[:100], **settings | {"n_centers": "auto"}).fit(
        str(tmp_path / "rows.npy"), y
    )
    np.testing.assert_allclose(streamed.predict(X), in_memory.predict(X), rtol=0.02)
    thin = gf.KernelRegressor(random_state=0).fit(sparse.csr_array(X), y)
    assert thin.target_transform_ is not None
    assert np.corrcoef(thin.predict(sparse.csr_array(X)), in_memory.predict(X))[0, 1] > 0.9
    streamed = gf.KernelRegressor(random_state=0).fit(str(tmp_path / "rows.npy"), y)
    assert streamed.tuning_.stages[0].name == "transform of y"


def test_dask_gets_intervals_of_its_own():
    dask = pytest.importorskip("dask.array")
    X, y, _ = multiplicative(200)
    model = gf.KernelRegressor(penalty=1e-3, target_transform="log", random_state=0).fit(X, y)
    rows = dask.from_array(X, chunks=(70, 4))
    for lazy, known in zip(model.predict_interval(rows), model.predict_interval(X), strict=True):
        np.testing.assert_allclose(lazy.compute(), known)
    mean, deviation = model.predict(rows, return_std=True)
    np.testing.assert_allclose(mean.compute(), model.predict(X))
    np.testing.assert_allclose(deviation.compute(), model.predict(X, return_std=True)[1])


def test_leaves_are_fitted_to_what_targets_are_transformed_to(tmp_path):
    X, y, _ = multiplicative(2500)
    X_new, y_new, means = multiplicative(3000, seed=1)
    settings = {"partition": gf.Partition(leaf_rows=600, centers=100), "random_state": 0}
    model = gf.KernelRegressor(target_transform="log", **settings).fit(X, y)
    assert model.partition_.n_leaves > 1
    predicted = model.predict(X_new)
    assert predicted.mean() / means.mean() == pytest.approx(1, abs=0.05)
    plain = gf.KernelRegressor(target_transform=None, **settings).fit(X, y)
    assert np.mean((predicted - means) ** 2) < 0.7 * np.mean((plain.predict(X_new) - means) ** 2)
    low, high = model.predict_interval(X_new, coverage=0.9)
    assert 0.86 < np.mean((low <= y_new) & (y_new <= high)) < 0.94
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(gf.load(tmp_path / "model").predict(X_new), predicted)


def test_validation_errors_are_those_of_the_targets():
    X, y, _ = multiplicative(500)
    X_val, y_val, _ = multiplicative(200, seed=1)
    model = gf.KernelRegressor(
        gf.kernels.Gaussian(1.0),
        penalty=1e-3,
        n_centers=80,
        solver="falkon",
        early_stopping=True,
        target_transform="log",
    )
    model.set_params(random_state=0).fit(X, y, X_val=X_val, y_val=y_val)
    error = np.sqrt(np.mean((model.predict(X_val) - y_val) ** 2))
    assert min(model.record_.validation_errors) == pytest.approx(error, rel=1e-6)


def test_more_rows_are_learned_as_they_were_transformed():
    X, y, _ = multiplicative(400)
    settings = {"kernel": gf.kernels.Gaussian(1.0), "centers": X[::8], "penalty": 1e-3, "updatable": True}
    whole = gf.KernelRegressor(target_transform="log", **settings).fit(X, y)
    model = gf.KernelRegressor(target_transform="log", **settings)
    for rows in (slice(0, 300), slice(300, 400)):
        model.partial_fit(X[rows], y[rows])
    np.testing.assert_allclose(
        np.log(model.predict_interval(X)), np.log(whole.predict_interval(X)), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=0.05)  # residuals are those of the first rows
    with pytest.raises(ValueError, match="target_transform='log' needs positive targets, but y holds -2"):
        model.partial_fit(X[:1], [-2.0])
    assert gf.KernelRegressor(**settings).fit(X, y).target_transform_ is None  # "auto" leaves what is updated alone


@pytest.mark.parametrize("transform", ["log", "arsinh"])
def test_more_rows_may_have_targets_that_the_first_ones_did_not_have(transform):
    X, y, _ = multiplicative(400)
    order = np.argsort(y)
    settings = {"kernel": gf.kernels.Gaussian(1.0), "penalty": 1e-3, "target_transform": transform}
    model = gf.KernelRegressor(centers=X[::8], updatable=True, **settings)
    for rows in (order[:200], order[200:]):
        model.partial_fit(X[rows], y[rows])
    assert model.predict(X).max() > 2 * y[order[200]]
    transform = model.target_transform_
    np.testing.assert_allclose([transform.low, transform.high], transform.forward(y[order[[0, -1]]]))
    model = gf.KernelRegressor(n_centers=50, random_state=0, **settings)
    model.fit_stream([(X[rows], y[rows]) for rows in (order[:200], order[200:])], first_rows=200)
    transform = model.target_transform_
    assert transform.high == pytest.approx(transform.forward(y.max()))


def test_batches_and_warm_starts_keep_the_transform():
    X, y, _ = multiplicative(1500)
    batches = [(X[start : start + 100], y[start : start + 100]) for start in range(0, 1500, 100)]
    model = gf.KernelRegressor(n_centers=60, target_transform="log", random_state=0)
    model.fit_stream(batches, first_rows=400)
    assert model.score(X, y) > 0.5
    with pytest.raises(ValueError, match="needs positive targets"):
        model.fit_stream([*batches[:5], (X[:5], -y[:5])], first_rows=400)
    model = gf.KernelRegressor(warm_start=True, random_state=0).fit(X[:500], y[:500])
    before = model.target_transform_
    again = model.fit(X[:700], 2 * y[:700]).target_transform_
    assert (again.name, again.origin, again.scale) == (before.name, before.origin, before.scale)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"target_transform": None}, {"target_transform": "log"}),
        ({"target_transform": "log"}, {"target_transform": None}),
        ({"target_transform": "log"}, {"target_transform": "arsinh"}),
        ({"target_transform": "log"}, {"target_transform": "auto", "loss": "absolute"}),
    ],
)
def test_a_warm_start_refuses_another_transform(first, then):
    X, y, _ = multiplicative(60)
    settings = {"kernel": gf.kernels.Gaussian(1.0), "penalty": 1e-3, "warm_start": True}
    model = gf.KernelRegressor(**settings).set_params(**first).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="warm_start=True keeps the transform of the last fit"):
        model.set_params(**then).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)
    for same in (first["target_transform"], "auto"):
        again = model.set_params(target_transform=same, loss="squared").fit(X, y)
        np.testing.assert_allclose(again.predict(X), before, rtol=1e-5)


def test_a_killed_fit_goes_on_with_its_transform(tmp_path):
    X, y, _ = multiplicative(600)
    settings = {"solver": "falkon", "n_centers": 100, "random_state": 0}
    whole = gf.KernelRegressor(**settings).fit(X, y)
    assert whole.target_transform_ is not None

    class Killed(BaseException):
        pass

    def kill(step):
        if step.iteration == 2:
            raise Killed

    with pytest.raises(Killed):
        gf.KernelRegressor(checkpoint=tmp_path, **settings).fit(X, y, callback=kill)
    assert {file.name for file in tmp_path.iterdir()} >= {"gyrfalcon-second-tuning.safetensors"}
    resumed = gf.KernelRegressor(checkpoint=tmp_path, **settings).fit(X, y)
    assert resumed.target_transform_ == whole.target_transform_
    np.testing.assert_array_equal(resumed.coefficients_, whole.coefficients_)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_fit_predicts_what_it_had_on_the_scale_of_the_targets():
    X, y, _ = multiplicative(400)
    model = gf.KernelRegressor(gf.kernels.Gaussian(1.0), penalty=1e-3, n_centers=80, solver="falkon", random_state=0)

    def interrupt(step):
        if step.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        model.set_params(target_transform="log").fit(X, y, callback=interrupt)
    assert model.target_transform_.growth > 1
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.6


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"target_transform": "sqrt"}, "target_transform must be 'auto', None, 'log' or 'arsinh', got 'sqrt'"),
        ({"target_transform": "log", "loss": "robust"}, "target_transform='log' does not go with loss='robust'"),
        ({"target_transform": "log", "solver": "sgd"}, "target_transform='log' does not go with solver='sgd'"),
        ({"target_transform": "arsinh", "penalty": 0}, "target_transform='arsinh' does not go with penalty=0"),
        ({"target_transform": "log"}, "needs positive targets, but y holds -1: choose 'arsinh'"),
    ],
)
def test_what_does_not_apply_is_refused(settings, words):
    X, y, _ = multiplicative(30)
    with pytest.raises(ValueError, match=words):
        gf.KernelRegressor(**settings).fit(X, np.append(y[1:], -1.0))


@pytest.mark.parametrize("settings", [{"loss": "robust"}, {"solver": "sgd"}, {"penalty": 0.0}, {"tune": None}])
def test_where_it_does_not_apply_the_default_leaves_targets_alone(settings):
    X, y, _ = multiplicative(150)
    assert gf.KernelRegressor(random_state=0, **settings).fit(X, y).target_transform_ is None


@pytest.mark.parametrize("y", [np.ones(200), np.append(np.zeros(199), 1e-320), np.append(np.zeros(199), 1.7e308)])
def test_odd_targets_are_no_reason_to_fail(y):
    X = np.random.default_rng(0).normal(size=(200, 2))
    for transform in ("auto", "arsinh"):
        with np.errstate(all="ignore"):
            model = gf.KernelRegressor(target_transform=transform, random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()


def test_a_sample_without_the_tail_leaves_targets_alone():
    """Of so many rows with the same target, the sample that decides holds none with another."""
    X = np.random.default_rng(0).normal(size=(3000, 2))
    with np.errstate(all="raise", under="ignore"):
        model = gf.KernelRegressor(gf.kernels.Gaussian(1.0), random_state=0).fit(X, (np.arange(3000) < 1) * 1.0)
    assert model.tuning_.stages[0].name == "transform of y"
    assert [one.value for one in model.tuning_.stages[0].candidates] == [0.0] * 4
    assert model.target_transform_ is None


@pytest.mark.parametrize("least", [5e-324, 1e-308, 1e-300])
def test_a_logarithm_of_the_least_numbers_is_no_reason_to_fail(least):
    X, y, _ = multiplicative(60)
    y[0] = least
    with np.errstate(over="raise"):
        model = gf.KernelRegressor(gf.kernels.Gaussian(1.0), penalty=1e-2, target_transform="log").fit(X, 1e5 * y)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("rows", [2, 3, 5])
@pytest.mark.parametrize("transform", ["log", "arsinh"])
def test_residuals_of_very_few_rows_do_not_multiply_predictions(transform, rows):
    for seed in range(6):
        X, y, _ = multiplicative(rows, seed, noise=1.5)
        model = gf.KernelRegressor(target_transform=transform, random_state=0).fit(X, y)
        assert model.predict(X).max() < 1.1 * y.max()
