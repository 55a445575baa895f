"""Options of estimators: for every solver and loss each one is honored, which shows, or refused by its name."""

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.checkpoints import Checkpoint

pytestmark = pytest.mark.usefixtures("one_thread")

random = np.random.default_rng(0)
X = random.uniform(-3, 3, (120, 2))
truth = np.sin(2 * X[:, 0]) + X[:, 1] / 2
y = truth + 0.1 * random.normal(size=120)
three = np.array(["a", "b", "c"])[np.digitize(truth, [-0.5, 0.5])]
C = X[:30]
KERNEL = gf.kernels.Gaussian(1.0)
TRAIN, HELD = slice(0, 90), slice(90, 120)

# What the solvers can do, written down once more: a solver that joins has to be named here.
CONVEX = ["sgd", "smoothed_newton"]
SMOOTH = ["newton", *CONVEX]
ITERATING = ["eigenpro", "falkon", "newton", "smoothed_newton"]  # and not holding out rows of their own
CLOSED = ["direct", "exact"]
HOLDING_OUT = ["kernel_cg", "nu_method", "nytro", "sgd", "spectral_cutoff"]
ALL = sorted([*ITERATING, *CLOSED, *HOLDING_OUT])
STARTING = ["eigenpro", "falkon", "newton", "sgd", "smoothed_newton"]
RESUMING = ["eigenpro", "falkon", "newton", "sgd", "smoothed_newton"]

LOSSES = {"squared": ALL, "robust": SMOOTH, "absolute": CONVEX}
CLASS_LOSSES = {"squared": ALL, "logistic": SMOOTH, "softmax": SMOOTH, "exponential": SMOOTH, "hinge": CONVEX}
FITTING = [(solver, loss) for loss, able in LOSSES.items() for solver in able]


def regressor(solver, **more):
    """Thirty centers, or all rows for the solver that needs them."""
    centers = {} if "exact" in (solver, getattr(solver, "name", None)) else {"centers": C}
    return gf.KernelRegressor(**{"kernel": KERNEL, "solver": solver, "random_state": 0, **centers, **more})


def classifier(solver, **more):
    centers = {} if solver == "exact" else {"centers": C}
    return gf.KernelClassifier(**{"kernel": KERNEL, "solver": solver, "random_state": 0, **centers, **more})


def few(solver, **more):
    """The solver with settings that keep a fit short, if it has any."""
    kind = gf.solvers.SOLVERS[solver]
    iterations = {"nytro": 100, "sgd": 25}
    return kind(max_iterations=iterations[solver], **more) if solver in iterations else kind(**more)


def error_of(model, loss="squared", rows=HELD):
    """What validation errors are: a root mean square, or the mean of a loss that is not squared."""
    gap = model.predict(X[rows]) - y[rows]
    if loss == "squared":
        return np.sqrt(np.mean(gap**2))
    return np.mean(np.abs(gap)) if loss == "absolute" else np.mean(np.log(np.cosh(gap)))


def test_every_solver_is_in_the_table():
    assert sorted(gf.solvers.SOLVERS) == ALL


# solver × loss


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", ALL)
def test_a_loss_is_minimized_or_refused(solver, loss):
    model = regressor(solver, loss=loss)
    if solver in LOSSES[loss]:
        assert model.fit(X, y).record_.solver == solver
        assert model.score(X, truth) > 0.95
    else:
        with pytest.raises(ValueError, match=f"solver='{solver}' solves .* only, not the {loss} loss"):
            model.fit(X, y)
        assert not hasattr(model, "coefficients_")


@pytest.mark.parametrize("loss", CLASS_LOSSES)
@pytest.mark.parametrize("solver", ALL)
def test_a_loss_of_classes_is_minimized_or_refused(solver, loss):
    model = classifier(few(solver) if solver != "exact" else solver, loss=loss, penalty=1e-4)
    if solver in CLASS_LOSSES[loss]:
        assert model.fit(X, three).record_.solver == solver
        assert model.score(X, three) > 0.75
    else:
        meant = "softmax" if loss == "logistic" else loss  # that is what it is for three classes
        with pytest.raises(ValueError, match=f"solver='{solver}' solves .* only, not the {meant} loss"):
            model.fit(X, three)


# early_stopping


@pytest.mark.parametrize(("solver", "loss"), FITTING)
def test_early_stopping_stops_or_is_refused(solver, loss):
    stopping = gf.solvers.EarlyStopping(validation=0.25, patience=2, tolerance=0.0)
    for wish in (True, stopping):
        model = regressor(solver, loss=loss, penalty=1e-9, early_stopping=wish)
        if solver in CLOSED:
            with pytest.raises(ValueError, match=f"early_stopping: solver='{solver}' does not iterate"):
                model.fit(X, y)
        elif solver in HOLDING_OUT:
            with pytest.raises(ValueError, match=f"early_stopping: solver='{solver}' holds out rows by itself"):
                model.fit(X, y)
    if solver in ITERATING:
        kind = gf.solvers.SOLVERS[solver]
        model.set_params(solver=kind(tolerance=0.0)).fit(X[TRAIN], y[TRAIN], X_val=X[HELD], y_val=y[HELD])
        errors = model.record_.validation_errors
        assert len(errors) == model.n_iter_
        assert error_of(model, loss) == pytest.approx(min(errors))
        if "stopped early" in model.record_.message:
            assert errors.index(min(errors)) == len(errors) - 3  # two iterations of patience after the best


def test_early_stopping_goes_by_its_patience_and_its_tolerance():
    """What it is told decides where it stops; True waits for five iterations, whatever little they bring."""

    def reached(wish):
        model = regressor(gf.solvers.Falkon(tolerance=0.0), penalty=1e-9, early_stopping=wish)
        model.fit(X[TRAIN], y[TRAIN] + random.normal(size=90), X_val=X[HELD], y_val=y[HELD])
        assert "stopped early" in model.record_.message
        return model.record_.validation_errors

    errors = reached(gf.solvers.EarlyStopping(patience=1, tolerance=0.0))
    assert errors[-1] >= errors[-2]
    assert (np.diff(errors[:-1]) < 0).all()
    errors = reached(True)
    assert len(errors) - 1 - int(np.argmin(errors)) == 5
    errors = reached(gf.solvers.EarlyStopping(patience=1, tolerance=0.5))
    assert errors[-1] >= 0.5 * errors[-2]
    assert (np.array(errors[1:-1]) < 0.5 * np.array(errors[:-2])).all()


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_early_stopping_sets_its_share_of_the_rows_aside(share, monkeypatch):
    """All other rows are centers, so that they can be counted."""
    stopping = gf.solvers.EarlyStopping(validation=share)
    model = gf.KernelRegressor(KERNEL, solver="falkon", early_stopping=stopping, random_state=0).fit(X, y)
    assert len(model.centers_) == 120 - round(120 * share)


@pytest.mark.parametrize("wish", [gf.solvers.EarlyStopping(validation=4), gf.solvers.EarlyStopping(validation=None)])
def test_early_stopping_of_estimators_takes_a_share_only(wish):
    with pytest.raises(ValueError, match=r"early_stopping: .* validation must be a number between 0 and 1"):
        regressor("falkon", early_stopping=wish).fit(X, y)


def test_early_stopping_that_the_automatic_choice_cannot_honor():
    """All rows are centers, and are solved exactly."""
    with pytest.raises(ValueError, match="early_stopping: solver='exact' does not iterate"):
        gf.KernelRegressor(KERNEL, early_stopping=True).fit(X, y)


# X_val, y_val


@pytest.mark.parametrize(("solver", "loss"), FITTING)
def test_validation_data_are_watched(solver, loss):
    """Every iteration, or once at the end; the model is one of those that were watched."""
    model = regressor(solver, loss=loss, penalty=1e-5)
    model.fit(X[TRAIN], y[TRAIN], X_val=X[HELD], y_val=y[HELD])
    errors = model.record_.validation_errors
    assert len(errors) == model.n_iter_
    path = model.record_.path
    chosen = len(errors) if path is None or solver == "spectral_cutoff" else path.chosen
    assert errors[chosen - 1] == pytest.approx(error_of(model, loss))
    assert len(errors) > 1 or solver in (*CLOSED, "spectral_cutoff")
    plain = regressor(solver, loss=loss, penalty=1e-5).fit(X[TRAIN], y[TRAIN])
    np.testing.assert_array_equal(model.coefficients_, plain.coefficients_)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_half_of_the_validation_data_is_refused(make):
    targets = y if make is regressor else three
    with pytest.raises(ValueError, match="y_val"):
        make("direct").fit(X, targets, X_val=X)
    with pytest.raises(ValueError, match="X_val"):
        make("direct").fit(X, targets, y_val=targets)


# warm_start


@pytest.mark.parametrize(("solver", "loss"), FITTING)
def test_a_warm_start_keeps_kernel_and_centers_and_begins_there(solver, loss):
    """Solvers that begin nowhere, in a closed form or with zero, find what they would have found."""
    settings = {"loss": loss, "penalty": 1e-5, "warm_start": True}
    model = regressor(solver, **settings).fit(X, y)
    first, centers = model.n_iter_, model.centers_
    model.set_params(kernel=gf.kernels.Gaussian(9.0), **({} if solver == "exact" else {"centers": X[50:60]}))
    model.fit(X, y)
    assert model.kernel_ == KERNEL
    np.testing.assert_array_equal(model.centers_, centers)
    if solver in STARTING:
        assert model.n_iter_ < first
    else:
        cold = regressor(solver, **settings).fit(X, y)
        np.testing.assert_allclose(model.predict(X), cold.predict(X), rtol=1e-10, atol=1e-10)


# checkpoint


class KilledError(BaseException):
    """Stands for a signal that ends the process."""


@pytest.mark.parametrize(("solver", "loss"), FITTING)
def test_a_checkpoint_is_written_and_resumed(solver, loss, tmp_path, monkeypatch):
    """What is kept are the centers that were chosen, and the iterations of solvers that can go on from one."""
    from gyrfalcon import checkpoints

    monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "PAUSE", 0)
    chosen = {} if solver == "exact" else {"centers": "uniform", "n_centers": 30}
    wish = few(solver) if solver != "exact" else solver
    whole = regressor(wish, loss=loss, penalty=1e-5, **chosen).fit(X, y)
    stages = []
    original = Checkpoint.save

    def save(self, stage, *rest):
        written = original(self, stage, *rest)
        stages.append(stage)
        if len(stages) == 3:
            raise KilledError
        return written

    monkeypatch.setattr(Checkpoint, "save", save)
    model = regressor(wish, loss=loss, penalty=1e-5, checkpoint=tmp_path, **chosen)
    if solver in RESUMING:
        with pytest.raises(KilledError):
            model.fit(X, y)
        assert stages == ["centers", "solver", "solver"]
        assert not hasattr(model, "coefficients_")
    model.fit(X, y)
    if solver not in RESUMING:
        assert stages == ([] if solver == "exact" else ["centers"])
    np.testing.assert_array_equal(model.coefficients_, whole.coefficients_)
    assert model.n_iter_ == whole.n_iter_
    assert list(tmp_path.iterdir()) == []


# sample_weight and class_weight


@pytest.mark.parametrize(("solver", "loss"), FITTING)
def test_weights_count(solver, loss):
    """Every row comes twice, one above and one below the truth: weights draw the model towards the heavier ones."""
    points, targets = np.tile(X, (2, 1)), np.concatenate([truth + 1, truth - 1])
    model = regressor(few(solver) if solver != "exact" else solver, loss=loss, penalty=1e-5)
    plain = model.fit(points, targets).predict(X)
    weighted = model.fit(points, targets, np.repeat([3.0, 1.0], 120)).predict(X)
    least = {"squared": 0.45, "robust": 0.6, "absolute": 0.7}[loss]
    most = 0.55 if loss == "squared" else 1.1
    assert least < np.mean(weighted - plain) < most


@pytest.mark.parametrize("solver", ALL)
def test_class_weights_count(solver):
    noisy = np.where(random.uniform(size=120) < 0.5, "rare", "common")
    noisy[truth > 0] = "common"
    model = classifier(few(solver) if solver != "exact" else solver, penalty=1e-3)
    plain = np.count_nonzero(model.fit(X, noisy).predict(X) == "rare")
    heavy = model.set_params(class_weight={"rare": 5.0, "common": 1.0}).fit(X, noisy)
    assert np.count_nonzero(heavy.predict(X) == "rare") > plain
    by_row = classifier(few(solver) if solver != "exact" else solver, penalty=1e-3)
    by_row.fit(X, noisy, np.where(noisy == "rare", 5.0, 1.0))
    np.testing.assert_array_equal(by_row.coefficients_, heavy.coefficients_)


# penalty, fit_intercept


@pytest.mark.parametrize(("solver", "loss"), FITTING)
def test_a_penalty_shrinks_and_auto_is_one_where_it_is_needed(solver, loss):
    wish = few(solver) if solver != "exact" else solver
    spreads = []
    for penalty in (1e-6, 1e-1, 1e3):
        model = regressor(wish, loss=loss, penalty=penalty).fit(X, y)
        assert model.penalty_ == penalty
        spreads.append(model.predict(X).std())
    assert spreads[0] > 1.5 * spreads[1]
    assert spreads[2] < 1e-3
    automatic = regressor(wish, loss=loss, penalty="auto", tune=None).fit(X, y)
    assert automatic.penalty_ == (0.0 if solver in HOLDING_OUT else 0.01 / 120)


@pytest.mark.parametrize(("solver", "loss"), FITTING)
def test_an_intercept_is_fitted_or_not(solver, loss):
    wish = few(solver) if solver != "exact" else solver
    found = {fit: regressor(wish, loss=loss, penalty=1.0, fit_intercept=fit).fit(X, y + 100) for fit in (True, False)}
    assert found[False].intercept_ == 0
    assert found[True].intercept_ == pytest.approx(100, abs=1)
    assert found[True].predict(X).mean() == pytest.approx(100, abs=1)
    assert found[False].predict(X).mean() < 95  # the penalty shrinks all of it


# uncertainty


@pytest.mark.parametrize("solver", ALL)
def test_deviations_are_kept_on_demand(solver):
    """They do not depend on the solver, but for the noise, which is the objective that it reached."""
    known = regressor("exact" if solver == "exact" else "direct", penalty=1e-3).fit(X, y)
    _, expected = known.predict(X, return_std=True)
    wanted = regressor(solver, penalty=1e-3, uncertainty=True).fit(X, y)
    _, deviations = wanted.predict(X, return_std=True)
    np.testing.assert_allclose(deviations, expected, rtol=1e-3 if solver not in HOLDING_OUT else 0.1)
    for wish in ("auto", False):
        model = regressor(solver, penalty=1e-3, uncertainty=wish).fit(X, y)
        if solver in CLOSED and wish == "auto":
            np.testing.assert_array_equal(model.predict(X, return_std=True)[1], deviations)
        else:
            with pytest.raises(ValueError, match="uncertainty=True"):
                model.predict(X, return_std=True)


@pytest.mark.parametrize(("solver", "loss"), [(solver, loss) for solver, loss in FITTING if loss != "squared"])
def test_deviations_of_other_losses_are_refused(solver, loss):
    with pytest.raises(ValueError, match="uncertainty"):
        regressor(few(solver), loss=loss, penalty=1e-3, uncertainty=True).fit(X, y)


@pytest.mark.parametrize("solver", HOLDING_OUT)
def test_deviations_without_a_penalty_are_refused(solver):
    with pytest.raises(ValueError, match="penalty"):
        regressor(few(solver), uncertainty=True).fit(X, y).predict(X, return_std=True)


# centers, n_centers


@pytest.mark.parametrize("solver", ALL)
def test_centers_are_those_asked_for_or_refused(solver):
    for how in ({"centers": X[:20]}, {"centers": "uniform", "n_centers": 20}):
        model = regressor(few(solver) if solver != "exact" else solver, **how)
        if solver == "exact":
            with pytest.raises(ValueError, match="solver='exact' needs every distinct point as a center"):
                model.fit(X, y)
        else:
            assert model.fit(X, y).centers_.shape == (20, 2)


# Remedies that errors name can be taken.


@pytest.mark.parametrize("solver", HOLDING_OUT)
def test_the_remedy_for_early_stopping_is_one(solver):
    with pytest.raises(ValueError, match="early_stopping") as caught:
        regressor(solver, early_stopping=True).fit(X, y)
    kind = gf.solvers.SOLVERS[solver]
    remedy = str(caught.value).rpartition(f"solver={kind.__name__}(")[2]
    assert remedy.partition("=")[0] in kind.__dataclass_fields__
