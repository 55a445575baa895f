"""What users do to estimators: every case gives a clear error or a sound answer."""

import os
import signal
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gyrfalcon as gf
from gyrfalcon import progress
from gyrfalcon.estimators import Interrupted
from gyrfalcon.estimators.monitor import Monitor

random = np.random.default_rng(0)
X = random.normal(size=(60, 4))
y = np.sin(X[:, 0]) + 0.1 * random.normal(size=60)
labels = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
three = np.digitize(X[:, 0], [-0.5, 0.5])

REGRESSORS = {
    "exact": {"solver": "exact"},
    "direct": {"solver": "direct", "n_centers": 20},
    "falkon": {"solver": "falkon", "n_centers": 20},
    "robust": {"loss": "robust", "n_centers": 20},
}
CLASSIFIERS = {
    "squared": {"n_centers": 20},
    "simplex": {"coding": "simplex", "n_centers": 20},
    "logistic": {"loss": "logistic", "n_centers": 20},
    "exponential": {"loss": "exponential", "n_centers": 20},
}


def regressor(name, **more):
    return gf.KernelRegressor(**{"random_state": 0, **REGRESSORS[name], **more})


def precise(name):
    """The same regressor with a tolerance of 1e-9, if its solver iterates."""
    precise_solver = {"falkon": gf.solvers.Falkon(tolerance=1e-9), "robust": gf.solvers.Newton(tolerance=1e-9)}
    return regressor(name, **({"solver": precise_solver[name]} if name in precise_solver else {}))


def classifier(name, **more):
    return gf.KernelClassifier(**{"random_state": 0, **CLASSIFIERS[name], **more})


# Data that are hardly data.


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_values_are_refused(name, bad):
    spoiled = X.copy()
    spoiled[3, 1] = bad
    if np.isinf(bad):  # arrays may have gaps
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            regressor(name).fit(spoiled, y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        regressor(name).fit(torch.from_numpy(spoiled), y)
    targets = y.copy()
    targets[0] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        regressor(name).fit(X, targets)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        regressor(name).fit(X, y).predict(spoiled)


@pytest.mark.parametrize("name", REGRESSORS)
def test_one_row(name):
    model = regressor(name).fit(X[:1], y[:1])
    np.testing.assert_allclose(model.predict(X[:1]), y[:1], atol=1e-6)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_class(name):
    with pytest.raises(ValueError, match="one class"):
        classifier(name).fit(X, np.zeros(60))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_class_of_one_row(name):
    rare = np.array(["a"] * 58 + ["b", "c"])
    model = classifier(name).fit(X, rare)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (60, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1)


@pytest.mark.parametrize("name", REGRESSORS)
def test_constant_features_and_targets(name):
    padded = np.column_stack([X, np.full(60, 7.0), np.zeros(60)])
    np.testing.assert_allclose(
        regressor(name).fit(padded, y).predict(padded), regressor(name).fit(X, y).predict(X), atol=0.2
    )
    np.testing.assert_allclose(regressor(name).fit(X, np.full(60, 1e7)).predict(X), 1e7, rtol=1e-9)
    np.testing.assert_allclose(regressor(name).fit(np.zeros((60, 2)), y).predict(np.zeros((3, 2))), y.mean(), atol=0.1)


@pytest.mark.parametrize("name", REGRESSORS)
def test_every_row_many_times(name):
    once = regressor(name, penalty=1e-3, tune=None, n_centers=60).fit(X, y)
    often = regressor(name, penalty=1e-3, tune=None, n_centers=60).fit(np.tile(X, (5, 1)), np.tile(y, 5))
    assert often.centers_.shape == (60, 4)
    close = 1e-6 if name != "falkon" else 1e-2
    np.testing.assert_allclose(often.predict(X), once.predict(X), atol=close)


@pytest.mark.parametrize("name", ["direct", "falkon", "robust"])
@pytest.mark.parametrize("count", [1, 59, 60, 61, 10**6])
def test_fewer_rows_than_centers(name, count):
    model = regressor(name, n_centers=count).fit(X, y)
    assert len(model.centers_) == min(count, 60)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("estimator", [gf.KernelRegressor(), gf.KernelClassifier(), gf.Falkon(), gf.LogisticFalkon()])
def test_shapes_that_do_not_fit(estimator):
    for points, targets in [
        (np.zeros((5, 0)), np.arange(5) % 2),
        (np.zeros((0, 3)), np.zeros(0)),
        (np.zeros(5), np.arange(5) % 2),
        (np.zeros((5, 2, 2)), np.arange(5) % 2),
        (X, three[:-1]),
        (X, None),
        (torch.zeros(5), np.arange(5) % 2),
        (torch.zeros(0, 3), np.zeros(0)),
    ]:
        with pytest.raises(ValueError, match=r"\S"):
            estimator.fit(points, targets)
    estimator.fit(X, three)
    for wrong in (X[:, :3], torch.from_numpy(X[:, :3]), sparse.csr_array(X[:, :2]), X[0]):
        with pytest.raises(ValueError, match=r"features|2D"):
            estimator.predict(wrong)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e-6, 1e6, 1e30, 1e150])
@pytest.mark.parametrize("name", REGRESSORS)
def test_features_of_any_scale(name, scale):
    plain = precise(name).fit(X, y).predict(X)
    scaled = precise(name).fit(X * scale, y).predict(X * scale)
    np.testing.assert_allclose(scaled, plain, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-300, 1e200, 1e300])
def test_deviations_of_targets_of_any_scale(scale):
    given = {"kernel": "gaussian", "length_scale": 1.0, "penalty": 1e-3, "uncertainty": True}
    noisy = y + 0.1 * np.random.default_rng(0).normal(size=len(y))
    plain = gf.KernelRegressor(**given).fit(X, noisy).predict(X, return_std=True)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = gf.KernelRegressor(**given).fit(X, noisy * scale).predict(X, return_std=True)[1]
    np.testing.assert_allclose(scaled / scale, plain, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_float32_features_of_any_scale(scale):
    points = X.astype(np.float32)
    plain = gf.KernelRegressor().fit(points, y).predict(points)
    scaled = (X * scale).astype(np.float32)
    np.testing.assert_allclose(gf.KernelRegressor().fit(scaled, y).predict(scaled), plain, atol=1e-4)


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("length_scale", [1e-8, 1e8])
def test_length_scales_that_make_the_kernel_singular_or_diagonal(name, length_scale):
    model = regressor(name, length_scale=length_scale).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("name", REGRESSORS)
def test_penalty_zero_and_below(name):
    model = regressor(name, penalty=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    for bad in (-1.0, np.nan, np.inf, "much", True, None):
        with pytest.raises(ValueError, match="penalty"):
            regressor(name, penalty=bad).fit(X, y)


@pytest.mark.parametrize(
    "parameter",
    [
        {"kernel": "nearest"},
        {"kernel": 3},
        {"length_scale": "short"},
        {"length_scale": -1.0},
        {"length_scale": [1.0, 2.0]},
        {"kernel": gf.kernels.Gaussian(1.0), "length_scale": 2.0},
        {"centers": "middle"},
        {"centers": np.zeros((3, 9))},
        {"n_centers": 0},
        {"n_centers": 2.5},
        {"loss": "zero-one"},
        {"solver": "magic"},
        {"solver": "exact", "n_centers": 5},
        {"loss": "robust", "solver": "direct"},
        {"solver": 3},
        {"solver": gf.solvers.Falkon},
        {"early_stopping": "soon"},
        {"early_stopping": 2},
        {"early_stopping": gf.solvers.EarlyStopping(validation=5)},
        {"early_stopping": gf.solvers.EarlyStopping(validation=None)},
        {"memory_budget": 0},
        {"uncertainty": "some"},
    ],
)
def test_parameters_that_make_no_sense_are_named(parameter):
    with pytest.raises((ValueError, TypeError), match=list(parameter)[-1].removesuffix("s")):
        gf.KernelRegressor(**parameter).fit(X, y)


@pytest.mark.parametrize("estimator", [gf.Falkon, gf.LogisticFalkon])
@pytest.mark.parametrize("parameter", [{"tolerance": -1.0}, {"tolerance": np.nan}, {"max_iterations": 0}])
def test_settings_of_the_solver_that_make_no_sense_are_named(estimator, parameter):
    with pytest.raises(ValueError, match=next(iter(parameter))):
        estimator(**parameter).fit(X, three)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        *((kind, {"tolerance": -1.0}) for kind in ("Falkon", "Newton", "EigenPro", "EarlyStopping")),
        *((kind, {"max_iterations": 0}) for kind in ("Falkon", "Newton", "EigenPro", "Nytro", "NuMethod", "SGD")),
        *(("EarlyStopping", {"patience": patience}) for patience in (0, 2.5, True)),
        *(("EarlyStopping", {"validation": share}) for share in (0.0, 1.0, 1, "some")),
        *((kind, {"max_iterations": 2.5}) for kind in ("Falkon", "Newton", "EigenPro", "KernelCG", "SGD")),
    ],
)
def test_settings_that_make_no_sense_are_named_where_they_are_given(kind, setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        getattr(gf.solvers, kind)(**setting)


@pytest.mark.parametrize("parameter", [{"loss": "quantile"}, {"coding": "binary"}, {"class_weight": "heavy"}])
def test_classifier_parameters_that_make_no_sense_are_named(parameter):
    with pytest.raises(ValueError, match=next(iter(parameter))):
        gf.KernelClassifier(**parameter).fit(X, three)


def test_types_that_were_never_meant():
    whole = (10 * X).astype(np.int8)
    np.testing.assert_allclose(
        gf.KernelRegressor().fit(whole, y).predict(whole),
        gf.KernelRegressor().fit(whole.astype(float), y).predict(whole.astype(float)),
    )
    assert gf.KernelRegressor().fit(X.astype(np.float16), y).predict(X.astype(np.float16)).dtype == np.float64
    assert np.isfinite(gf.KernelRegressor().fit(X.astype(object), y).predict(X)).all()
    assert np.isfinite(gf.KernelRegressor().fit(X > 0, y).predict(X > 0)).all()
    assert gf.KernelRegressor().fit(torch.from_numpy(X).bfloat16(), y).predict(torch.from_numpy(X)).shape == (60,)
    for wrong in (X.astype(complex), np.array([["a", "b"]] * 60), torch.from_numpy(X + 1j)):
        with pytest.raises((ValueError, TypeError), match=r"[Cc]omplex|convert|float"):
            gf.KernelRegressor().fit(wrong, y)


def test_predict_before_fit():
    for model in (gf.KernelRegressor(), gf.KernelClassifier(), gf.Falkon(), gf.LogisticFalkon()):
        with pytest.raises(ValueError, match="not fitted"):
            model.predict(X)
        with pytest.raises(ValueError, match="not fitted"):
            model.save("nowhere.safetensors")


def test_weights_that_make_no_sense():
    for weights in (np.full(60, -1.0), np.zeros(60), np.ones(59), np.full(60, np.nan)):
        with pytest.raises(ValueError, match=r"[Ww]eight"):
            gf.KernelRegressor().fit(X, y, weights)


def test_an_indefinite_kernel_is_named():
    with pytest.raises(ValueError, match="kernel"):
        gf.KernelRegressor("sigmoid", length_scale=0.1, n_centers=30, solver="direct").fit(X, y)


# Kinds of data.


def frames():
    yield pd.DataFrame(X, columns=list("abcd"), index=np.arange(60) * 2)
    yield pl.DataFrame({name: X[:, i] for i, name in enumerate("abcd")})


@pytest.mark.parametrize("frame", list(frames()), ids=["pandas", "polars"])
def test_frames_come_back_as_series(frame):
    series = type(frame)({"price": y})["price"]
    if isinstance(frame, pd.DataFrame):
        series.index = frame.index
    model = gf.KernelRegressor().fit(frame, series)
    predicted = model.predict(frame)
    assert type(predicted) is type(series)
    assert predicted.name == "price"
    np.testing.assert_allclose(np.asarray(predicted), gf.KernelRegressor().fit(X, y).predict(X))
    if isinstance(frame, pd.DataFrame):
        assert (predicted.index == frame.index).all()
    assert model.feature_names_in_.tolist() == list("abcd")
    assert isinstance(model.set_output(transform="default").predict(frame), np.ndarray)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename({"a": "z"}) if isinstance(frame, pl.DataFrame) else frame.rename(columns={"a": "z"}))

    classifier = gf.KernelClassifier(loss="logistic").fit(frame, labels)
    probabilities = classifier.predict_proba(frame)
    assert type(probabilities) is type(frame)
    assert list(probabilities.columns) == ["down", "up"]
    assert type(classifier.predict(frame)) is type(series)
    assert type(classifier.predict_log_proba(frame)) is type(frame)
    assert isinstance(classifier.set_output(transform="polars").predict_proba(frame), pl.DataFrame)


def test_tensors_come_back_as_tensors():
    points = torch.from_numpy(X)
    model = gf.KernelRegressor(uncertainty=True).fit(points, torch.from_numpy(y))
    mean, deviation = model.predict(points, return_std=True)
    assert isinstance(mean, torch.Tensor)
    assert isinstance(deviation, torch.Tensor)
    np.testing.assert_allclose(model.predict(X), mean.numpy())
    classifier = gf.KernelClassifier().fit(points, torch.from_numpy(three))
    assert isinstance(classifier.predict(points), torch.Tensor)
    assert isinstance(classifier.predict_proba(points), torch.Tensor)
    assert isinstance(classifier.predict_log_proba(points), torch.Tensor)
    assert isinstance(gf.KernelClassifier().fit(points, labels).predict(points), np.ndarray)


def test_search_pipelines_and_processes():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), gf.KernelRegressor(n_centers=20, random_state=0)),
        {"kernelregressor__penalty": [1e-3, 1e-1], "kernelregressor__kernel": ["gaussian", gf.kernels.Laplacian(2.0)]},
        cv=3,
        n_jobs=2,
    ).fit(X, y)
    assert search.best_score_ > 0.5
    assert cross_val_score(gf.KernelClassifier(loss="logistic"), X, labels, cv=3).mean() > 0.85


def test_weights_are_routed():
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        model = gf.KernelRegressor().set_fit_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        weights = np.arange(60) % 3 + 0.0
        routed = pipe.fit(X, y, sample_weight=weights).predict(X)
    direct = gf.KernelRegressor().fit(StandardScaler().fit_transform(X), y, weights)
    np.testing.assert_allclose(routed, direct.predict(StandardScaler().fit_transform(X)))


def test_html_repr_lists_parameters():
    html = gf.KernelRegressor(penalty=1e-3)._repr_html_()
    assert "KernelRegressor" in html
    assert "penalty" in html


# Interrupts, callbacks and bars.


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.kill with SIGINT")
@pytest.mark.parametrize("kind", ["falkon", "newton"])
def test_an_interrupt_keeps_what_was_reached(kind, monkeypatch):
    """The signal comes from a timer, some time after the first iteration: most likely in the middle of a product."""
    points = random.normal(size=(20_000, 20)).astype(np.float32)
    target = np.stack([np.sin(points[:, 0]), np.cos(points[:, 1])], 1)
    common = {"n_centers": 500, "penalty": 1e-12, "random_state": 0}
    endless = {"tolerance": 0.0, "max_iterations": 100_000}
    original = Monitor.__call__
    interrupt = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))

    def then_interrupt(self, step):
        if step.iteration == 1:
            interrupt.start()
        return original(self, step)

    monkeypatch.setattr(Monitor, "__call__", then_interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have background jobs ignore it
    if kind == "falkon":
        model, truth = gf.KernelRegressor(solver=gf.solvers.Falkon(**endless), **common), target
    else:
        model = gf.KernelClassifier(loss="logistic", solver=gf.solvers.Newton(**endless), **common)
        truth = target[:, 0] > 0
    try:
        with pytest.warns(Interrupted, match="interrupted after") as warned:
            model.fit(points, truth)
    finally:  # a fit that failed first must not let the signal hit another test
        interrupt.cancel()
        signal.signal(signal.SIGINT, before)
    assert [warning.filename for warning in warned if warning.category is Interrupted] == [__file__]
    assert "interrupted" in model.record_.message
    assert np.isfinite(np.asarray(model.predict(points[:10]), dtype=float)).all()


@pytest.mark.parametrize("estimator", [gf.KernelRegressor, gf.KernelClassifier])
def test_a_tolerance_of_zero_runs_every_iteration(estimator):
    """The estimate of the time left once divided by it."""
    kind = gf.solvers.Newton if estimator is gf.KernelClassifier else gf.solvers.Falkon
    loss = "logistic" if estimator is gf.KernelClassifier else "squared"
    model = estimator(solver=kind(tolerance=0.0, max_iterations=5), loss=loss, penalty=1e-6, n_centers=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y > 0 if estimator is gf.KernelClassifier else y)
    assert model.record_.iterations == 5


def test_an_interrupt_before_the_first_iteration_is_one():
    class Stop:
        def __call__(self, *_):
            raise KeyboardInterrupt

    model = gf.KernelRegressor(Stop(), solver="falkon")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "coefficients_")


def test_a_failed_fit_leaves_the_old_model():
    model = gf.KernelRegressor(n_centers=20, random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="y"):
        model.fit(X[:, :2], np.full(60, np.nan))
    with pytest.raises(ValueError, match="penalty"):
        model.set_params(penalty=-1.0).fit(X[:, :2], y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_callbacks_of_scikit_learn_see_every_iteration_and_can_stop():
    pytest.importorskip("sklearn.callback")

    class Watch:
        def __init__(self):
            self.scores = []

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
            if fitted_estimator is not None:
                self.scores.append(fitted_estimator.score(X, y))
            return len(self.scores) == 4

    watch = Watch()
    falkon = gf.solvers.Falkon(tolerance=0.0)
    model = gf.KernelRegressor(solver=falkon, n_centers=30, penalty=1e-8, random_state=0)
    model.set_callbacks(watch).fit(X, y)
    assert model.n_iter_ == 4
    assert watch.scores[-1] > watch.scores[0]
    assert "callback" in model.record_.message


def test_a_bar_shows_on_terminals_only(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE_TO_SHOW", 0.0)
    make = lambda **more: gf.KernelRegressor(solver="falkon", n_centers=30, random_state=0, **more)  # noqa: E731
    make().fit(X, y)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    make().fit(X, y, X_val=X, y_val=y)
    shown = capsys.readouterr().err
    assert "iteration" in shown
    assert "objective" in shown
    assert "validation error" in shown
    make(verbose=False).fit(X, y)
    assert capsys.readouterr().err == ""


def test_fits_are_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gf.KernelRegressor().fit(X, y).predict(X)
        gf.KernelClassifier().fit(X, labels).predict_proba(X)


# What once had no words of its own.


def test_tensors_of_half_precision():
    targets, weights = torch.from_numpy(y).bfloat16(), torch.linspace(0.5, 1.0, 60).bfloat16()
    model = gf.KernelRegressor(tune=None).fit(X, targets, weights)
    known = gf.KernelRegressor(tune=None).fit(X, targets.float().numpy(), weights.float().numpy())
    np.testing.assert_allclose(model.predict(X), known.predict(X), rtol=1e-5)
    numbers = gf.KernelClassifier(tune=None).fit(X, torch.from_numpy(three).bfloat16())
    assert numbers.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("bad", [{0: 0.0, 1: 0.0, 2: 0.0}, {0: -1.0, 1: 1.0}, {0: np.nan, 1: 1.0}])
def test_bad_class_weights_are_named(bad):
    with pytest.raises(ValueError, match="class_weight must hold finite numbers"):
        gf.KernelClassifier(class_weight=bad).fit(X, three)


@pytest.mark.parametrize("solver", ["nytro", "nu_method", "kernel_cg", "sgd", "spectral_cutoff"])
def test_one_row_for_solvers_that_hold_rows_out(solver):
    with pytest.raises(ValueError, match=f"solver='{solver}' .*: choose another solver"):
        gf.KernelRegressor(solver=solver).fit(X[:1], y[:1])


def test_a_warm_start_with_other_outputs():
    model = gf.KernelRegressor(warm_start=True, tune=None).fit(X, np.stack([y, y], 1))
    with pytest.raises(ValueError, match="warm_start needs the 2 outputs of the last fit, but y has 1"):
        model.fit(X, y)
    assert model.predict(X).shape == (60, 2)


def test_one_more_row_changes_little():
    random = np.random.default_rng(0)
    X = random.normal(size=(2001, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * random.standard_t(2, size=2001)
    given = {"kernel": "laplacian", "length_scale": 3.0, "penalty": 1e-4, "loss": "robust", "verbose": False}
    before, after = (
        gf.KernelRegressor(**given, random_state=0).fit(X[:n], y[:n]).predict(X[:500]) for n in (2000, 2001)
    )
    assert np.abs(after - before).mean() < 1e-3


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_plain_frames_of_the_columns_of_the_fit_need_no_second_check(dtype, monkeypatch):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(60, 3)).astype(dtype), columns=["a", "b", "c"])
    model = gf.KernelRegressor("gaussian", verbose=False).fit(table, table["a"] + table["b"])
    expected = model.predict(table)
    for other in (table.iloc[:, ::-1], table.rename(columns={"a": "z"}), table[["a", "b"]]):
        with pytest.raises(ValueError, match="feature names"):
            model.predict(other)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(table.mask(table > 1))
    whole = model.predict(table.round().astype(int))  # which has another type

    def refuse(*args, **settings):
        raise AssertionError("checked again")

    monkeypatch.setattr("gyrfalcon.estimators.data.validate_data", refuse)
    np.testing.assert_array_equal(model.predict(table), expected)
    assert whole.shape == expected.shape
