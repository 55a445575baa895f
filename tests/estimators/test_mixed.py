"""Estimators given missing values, categories and dates: as with a preprocessor before them, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon.tables import UnseenWarning

pytestmark = pytest.mark.usefixtures("one_thread")

RANDOM = np.random.default_rng(0)
CITY = RANDOM.choice(["Rome", "Oslo", "Bern"], 120)
CODE = RANDOM.choice([10, 20, 30], 120)
AREA = np.where(RANDOM.random(120) < 0.2, np.nan, RANDOM.normal(size=120))
SOLD = np.datetime64("2024-01-01") + RANDOM.integers(0, 300, 120).astype("m8[D]")
Y = np.nan_to_num(AREA, nan=2.0) + (CITY == "Rome") - 2.0 * (CODE == 20) + 0.05 * RANDOM.normal(size=120)
TABLE = {"area": AREA, "city": CITY, "code": CODE, "sold": SOLD}


def of_pandas():
    return pd.DataFrame(TABLE).astype({"city": "category", "code": "category"})


def of_polars():
    return pl.DataFrame(TABLE).with_columns(
        pl.col("city").cast(pl.Categorical), pl.col("code").cast(pl.String).cast(pl.Enum(["10", "20", "30"]))
    )


def model(**settings):
    return gf.KernelRegressor("gaussian", length_scale=2.0, penalty=1e-4, tune=None, **settings)


@pytest.mark.parametrize("make", [of_pandas, of_polars])
def test_frames_are_encoded_as_a_preprocessor_would(make):
    frame = make()
    preprocessor = gf.TablePreprocessor(categorical=["city", "code"]).fit(TABLE)
    expected = model().fit(preprocessor.transform(TABLE), Y)
    fitted = model().fit(frame, Y)
    assert (fitted.n_features_in_, fitted.feature_names_in_.tolist()) == (4, list(TABLE))
    assert fitted.kernel_feature_names == preprocessor.get_feature_names_out().tolist()
    assert "code = 20" in fitted.kernel_feature_names
    assert "area is missing" in fitted.kernel_feature_names
    np.testing.assert_array_equal(fitted.predict(frame), expected.predict(preprocessor.transform(TABLE)))
    assert type(fitted.predict(frame)).__module__.startswith(type(frame).__module__.partition(".")[0])
    assert fitted.score(frame, Y) > 0.95


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arrays_with_gaps(kind):
    X = np.stack([AREA, RANDOM.normal(size=120)], 1).astype(kind)
    fitted = model().fit(X, Y)
    assert fitted.kernel_feature_names == ["x0", "x0 is missing", "x1"]
    assert fitted.centers_.dtype == kind
    assert fitted.predict(X[:1]).shape == (1,)
    again = model().fit(np.nan_to_num(X), Y)  # which forgets the encoder
    assert again.encoder_ is None
    assert again.centers_.shape[1] == 2


def test_classes_files_pickles_and_reports(tmp_path):
    frame, labels = of_pandas(), np.where(np.median(Y) < Y, "high", "low")
    fitted = gf.KernelClassifier(penalty=1e-3, tune=None).fit(frame, labels)
    assert fitted.score(frame, labels) > 0.9
    fitted.save(tmp_path / "model.safetensors")
    again = gf.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    assert again.kernel_feature_names == fitted.kernel_feature_names
    regressor = model(uncertainty=True).fit(frame, Y)
    assert len(regressor.predict(frame, return_std=True)[1]) == 120
    page = regressor.report(frame, Y, tmp_path / "report.html", X_train=frame, y_train=Y).read_text(encoding="utf-8")
    assert "Rome" in page
    assert gf.tuning.plot_relevance(gf.KernelRegressor(random_state=0, verbose=False).fit(frame, Y)) is not None
    assert regressor.behind_encoder().n_features_in_ == len(regressor.kernel_feature_names)
    path = tmp_path / "predictions.csv"
    assert regressor.write_predictions(frame, path) == 120


def test_more_rows_and_new_categories():
    frame = of_pandas()
    fitted = model(updatable=True).fit(frame[:80], Y[:80])
    fitted.partial_fit(frame[80:], Y[80:])
    assert fitted.moments_.count == 120
    new = frame[:2].assign(city=pd.Categorical(["Bergen", "Rome"]))
    with pytest.warns(UnseenWarning, match="'city' in 1 of 2 rows, such as 'Bergen'"):
        fitted.predict(new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(frame)


def test_what_is_refused():
    frame, plain = of_pandas(), np.random.default_rng(1).normal(size=(120, 2))
    text = pd.DataFrame({"area": AREA, "city": CITY})
    for rows in (text, text.assign(area=1.0), pd.DataFrame(TABLE).astype({"code": "category"})):
        with pytest.raises(ValueError, match=r"X holds text.* takes numbers, categories and dates") as raised:
            model().fit(rows, Y)
        assert "gyrfalcon.TableModel().fit(table, target)" in str(raised.value)
    gaps = plain.copy()
    gaps[3, 1] = np.nan
    fitted = model().fit(plain, Y)
    with pytest.raises(ValueError, match=r"contains NaN, and the rows that KernelRegressor was fitted to had no"):
        fitted.predict(gaps)
    named = model().fit(pd.DataFrame(plain, columns=["a", "b"]), Y)
    with pytest.raises(ValueError, match="contains NaN in column 'b'"):
        named.predict(pd.DataFrame(gaps, columns=["a", "b"]))
    gaps[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model().fit(gaps, Y)
    with pytest.raises(ValueError, match="NaN"):
        model().fit(sparse.csr_array(np.where(np.isinf(gaps), 0.0, gaps)), Y)
    with pytest.raises(ValueError, match=r"infinity|NaN"):
        model().fit(torch.from_numpy(gaps), Y)
    mixed = model().fit(frame, Y)
    with pytest.raises(ValueError, match="X is a tensor, and KernelRegressor was fitted to a table"):
        mixed.predict(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="feature names"):
        mixed.predict(frame.rename(columns={"area": "size"}))
    before = mixed.predict(frame)
    with pytest.raises(ValueError, match="penalty"):
        mixed.set_params(penalty=-1.0).fit(plain, Y)
    pd.testing.assert_series_equal(mixed.predict(frame), before)  # a fit that fails leaves the encoder
