"""Rows that wait to be taken up together: the answers are those of rows taken up at once."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gyrfalcon as gf
from gyrfalcon.online import RecursiveRegressor
from gyrfalcon.persistence import describe

random = np.random.default_rng(0)
X = random.normal(size=(60, 5))
y = X @ [1.0, -2.0, 0.5, 0.0, 3.0] + 0.1 * random.normal(size=60)
NAMES = list("abcde")


def rows(order=NAMES):
    return [{name: row[NAMES.index(name)] for name in order} for row in X.tolist()]


def learned(count, order=NAMES, **options):
    model = RecursiveRegressor(penalty=0.1, **options)
    for place, (x, target) in enumerate(zip(rows(), y.tolist(), strict=True)):
        if place == count:
            break
        model.learn_one(x if place == 0 else {name: x[name] for name in order}, target)
    return model


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 10, 25, 60])
@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]])
@pytest.mark.parametrize("intercept", [True, False])
def test_dictionaries_are_learned_as_rows(count, order, intercept):
    model = learned(count, order, fit_intercept=intercept)
    whole = RecursiveRegressor(penalty=0.1, fit_intercept=intercept).fit(X[:count], y[:count])
    assert model.n_seen_ == count
    np.testing.assert_allclose(model.predict_one(rows()[3]), whole.predict(X[3:4])[0], atol=1e-11)
    np.testing.assert_allclose(model.coefficients_, whole.coefficients_, atol=1e-10)
    np.testing.assert_allclose(model.noise_variance_, whole.noise_variance_, atol=1e-10)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), copy.copy])
def test_copies_have_the_rows_that_wait(again):
    model = learned(13)
    np.testing.assert_array_equal(again(model).coefficients_, model.coefficients_)


def test_saved_models_have_them_too(tmp_path):
    model = learned(13)
    model.save(tmp_path / "m.safetensors")
    loaded = gf.load(tmp_path / "m.safetensors")
    for one in (model, loaded):
        one.learn_one(rows()[13], y[13])
    np.testing.assert_array_equal(loaded.coefficients_, model.coefficients_)


def test_threads_that_predict_see_every_row_once():
    expected = RecursiveRegressor(penalty=0.1).fit(X[:15], y[:15]).predict(X)
    for _ in range(20):
        model = learned(15)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _, model=model: model.predict(X), range(8)))
        for values in found:
            np.testing.assert_allclose(values, expected, atol=1e-11)


@pytest.mark.parametrize(
    ("x", "target"),
    [
        ({**rows()[0], "c": np.nan}, 1.0),
        ({**rows()[0], "c": np.inf}, 1.0),
        ({**rows()[0], "c": 1e200}, 1.0),
        ({**rows()[0], "c": "many"}, 1.0),
        (dict.fromkeys("abcd", 1.0), 1.0),
        (dict.fromkeys("abcdz", 1.0), 1.0),
        (rows()[0], np.nan),
        (rows()[0], 1e200),
    ],
)
def test_what_is_wrong_changes_nothing(x, target):
    model = learned(13)
    before, seen = describe(copy.deepcopy(model)), model.n_seen_
    with pytest.raises((TypeError, ValueError)):
        model.learn_one(x, target)
    after = describe(model)
    assert model.n_seen_ == seen
    assert after[0] == before[0]
    assert all(after[1][name].tobytes() == array.tobytes() for name, array in before[1].items())
