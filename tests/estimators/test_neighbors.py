"""Leaves are added to centers that leave what neighbors tell of each other, with a kernel of their own."""

import dataclasses

import numpy as np
import pytest
import torch

import gyrfalcon as gf
from gyrfalcon.estimators.partitioned import as_judged
from gyrfalcon.estimators.pipeline import Fitted
from gyrfalcon.partition import fit_partition
from gyrfalcon.solvers import Record, Solution

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = 12_000


def people(each):
    """Rows of people, each with a level of its own; all of them alone if `each` is one."""
    rng = np.random.default_rng(0)
    person = rng.permutation(ROWS) // each
    own, level = rng.normal(size=(ROWS // each, 3)), rng.normal(size=ROWS // each)
    X = np.column_stack([own[person], rng.normal(size=ROWS)]).astype(np.float32)
    return X, level[person] + np.sin(2 * own[person, 0]) + 0.3 * rng.normal(size=ROWS)


@pytest.fixture(scope="module")
def halves():
    X, y = people(4)
    held = np.arange(ROWS) % 10 == 0
    return X[~held], y[~held], X[held], y[held]


@pytest.fixture(scope="module")
def model(halves):
    return gf.KernelRegressor(random_state=0, verbose=False).fit(*halves[:2])


def test_neighbors_are_worth_leaves_where_rows_come_in_groups(model, halves):
    X, y, X_held, y_held = halves
    assert model.partition_ is not None
    assert model.partition_.kernel is not model.kernel_
    (stage,) = (stage for stage in model.tuning_.stages if stage.name == "neighbors")
    assert stage.candidates[0].kernel == "no correction"
    assert stage.chosen == 1
    assert model.partition_.noise == pytest.approx(len(y) * stage.candidates[1].penalty)
    alone = gf.KernelRegressor(random_state=0, verbose=False, partition=None).fit(X, y)
    errors = [np.mean((each.predict(X_held) - y_held) ** 2) for each in (model, alone)]
    assert errors[0] < 0.6 * errors[1]


def test_leaves_are_those_of_their_own_kernel_on_what_the_centers_leave(model, halves):
    X, y, X_held, _ = halves
    leaves = model.partition_
    alone = gf.KernelRegressor(
        model.kernel_, penalty=model.penalty_, centers=model.centers_, solver="direct", partition=None
    ).fit(X, y)
    settings = gf.Partition(leaf_rows=1000, overlap=0.05)
    left = y - alone.predict(X)
    expected = fit_partition(leaves.kernel, X, left[:, None], leaves.noise, settings)
    difference = model.predict(X_held) - alone.predict(X_held) - expected.predict(X_held)[:, 0]
    assert np.abs(difference).max() < 0.02 * y.std()  # the centers' solver iterates in float32
    np.testing.assert_allclose(leaves.noise_variance, expected.noise_variance, rtol=0.01)  # of what is left


def test_files_and_warm_starts_keep_the_kernel_of_the_leaves(model, halves, tmp_path):
    X, y, X_held, _ = halves
    model.save(tmp_path / "model.safetensors")
    loaded = gf.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict(X_held), model.predict(X_held))
    assert loaded.partition_.kernel is not loaded.kernel_
    assert loaded.partition_.kernel.to_dict() == model.partition_.kernel.to_dict()
    again = gf.KernelRegressor(random_state=0, verbose=False).fit(X, y).set_params(warm_start=True)
    again.fit(X, y)
    assert again.partition_.kernel is not again.kernel_
    assert np.abs(again.predict(X_held) - model.predict(X_held)).max() < 0.05 * y.std()
    again.set_params(penalty=1.0).fit(X, y)  # which leaves have to follow
    assert again.partition_ is None
    loaded.set_params(warm_start=True).fit(X, y)
    assert loaded.partition_ is not None


def test_intervals_hold_as_many_rows_as_they_say(model, halves):
    *_, X_held, y_held = halves
    low, high = model.predict_interval(X_held, coverage=0.9)
    assert 0.84 < np.mean((low <= y_held) & (y_held <= high)) < 0.96


def test_classes_are_judged_among_neighbors_too():
    X, y = people(4)
    labels, held = (y > np.median(y)).astype(int), np.arange(ROWS) % 10 == 0
    model = gf.KernelClassifier(random_state=0, verbose=False).fit(X[~held], labels[~held])
    assert model.partition_ is not None
    chances = model.predict_proba(X[held])
    likelihood = -np.log(np.maximum(chances[np.arange(held.sum()), labels[held]], 1e-12)).mean()
    errors = np.mean(model.predict(X[held]) != labels[held])
    assert errors < 0.16  # .27 without leaves
    assert likelihood < 0.4  # that of a coin is .69


def test_rows_without_groups_are_left_to_the_centers():
    X, y = people(1)
    model = gf.KernelRegressor(random_state=0, verbose=False).fit(X, y)
    assert [stage.chosen for stage in model.tuning_.stages if stage.name == "neighbors"] in ([0], [])
    assert model.partition_ is None or model.partition_.kernel is model.kernel_


@pytest.mark.parametrize(
    "settings",
    [
        {"tune": None},
        {"solver": "falkon"},
        {"n_centers": 300},
        {"partition": None},
        {"penalty": 1e-3},
        {"kernel": gf.kernels.Gaussian(2.0)},
        {"length_scale": 2.0},
        {"uncertainty": True},
    ],
)
def test_what_is_set_is_not_asked(settings, halves):
    model = gf.KernelRegressor(random_state=0, verbose=False, **settings).fit(*halves[:2])
    assert model.partition_ is None or model.partition_.kernel is model.kernel_


def test_rows_that_judge_are_neighbors_of_leaves_that_have_a_kernel_of_their_own(model, halves):
    X, y, *_ = halves
    record = Record("falkon", objective=[1.0])
    solution = Solution(torch.from_numpy(model.coefficients_[:, None]), torch.tensor([model.intercept_]), record)
    fitted = Fitted(
        None, model.kernel_, model.centers_, model.penalty_, None, None, None, None, float(len(y)), False, None
    )
    assert "rows" not in as_judged(fitted, X, intercept=True)
    found = as_judged(dataclasses.replace(fitted, local=model.partition_, solution=solution), X, intercept=True)
    assert (found["kernel"], found["noise"]) == (model.partition_.kernel, model.partition_.noise)
    assert not found["intercept"]
    np.testing.assert_array_equal(np.sort(found["rows"]), np.unique(found["rows"]))
    assert len(found["rows"]) <= 1200  # which are one matrix
    rows = found["rows"][:50]
    local = model.predict(X[rows]) - model.partition_.local(X[rows])[:, 0]
    np.testing.assert_allclose(found["below"](rows)[:, 0], local, rtol=1e-4, atol=1e-4)


def test_rows_without_weight_are_neither_asked_nor_judged(halves):
    X, y, X_held, y_held = halves
    weights = np.ones(len(y))
    weights[::7] = 0
    spoiled = np.where(weights > 0, y, 1e3)
    model = gf.KernelRegressor(random_state=0, verbose=False).fit(X, spoiled, weights)
    assert model.partition_.kernel is not model.kernel_
    low, high = model.predict_interval(X_held, coverage=0.9)
    assert np.mean((model.predict(X_held) - y_held) ** 2) < 0.5 * y_held.var()
    assert 0.84 < np.mean((low <= y_held) & (y_held <= high)) < 0.97


def test_transformed_targets_are_left_to_the_centers(halves):
    X, y, *_ = halves
    model = gf.KernelRegressor(target_transform="arsinh", random_state=0, verbose=False).fit(X, np.exp(y))
    assert "neighbors" not in [stage.name for stage in model.tuning_.stages]
    assert model.partition_ is None or model.partition_.kernel is model.kernel_


def test_parts_of_the_data_may_have_no_weight(halves):
    X, y, *_ = halves
    weights = (X[:, 0] > 0.5).astype(float)
    assert np.isfinite(gf.KernelRegressor(random_state=0, verbose=False).fit(X, y, weights).predict(X)).all()
    exact = gf.KernelRegressor(random_state=0, verbose=False).fit(X[:4000], y[:4000], weights[:4000])
    assert np.isfinite(exact.predict(X)).all()


def test_weights_that_are_all_small_do_not_hide_what_is_sure(model, halves):
    X, y, X_held, y_held = halves
    other = gf.KernelRegressor(random_state=0, verbose=False).fit(X, y, np.full(len(y), 0.01))
    errors = [np.mean((each.predict(X_held) - y_held) ** 2) for each in (model, other)]
    assert other.partition_ is not None
    assert errors[1] < 1.2 * errors[0]


def test_leaves_that_do_not_fit_the_memory_are_not_taken(halves):
    X, y, *_ = halves
    model = gf.KernelRegressor(memory_budget=8_000_000, random_state=0, verbose=False).fit(X, y)
    assert model.partition_ is None


def test_reports_tell_of_the_leaves(model, halves, tmp_path):
    *_, X_held, y_held = halves
    model.report(X_held, y_held, tmp_path / "report.html")
    assert "Kernel of the leaves" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("described", "words"),
    [(gf.kernels.Gaussian([1.0, 2.0]).to_dict(), "length_scale"), ([], "partition_kernel"), ({}, None)],
)
def test_a_file_whose_leaves_have_a_kernel_that_does_not_fit_is_refused(model, described, words):
    values, arrays = model._state()
    with pytest.raises((ValueError, KeyError), match=words):
        gf.KernelRegressor()._set_state(values | {"partition_kernel": described}, arrays)
