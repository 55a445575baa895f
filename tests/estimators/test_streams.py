"""Estimators on data that are read in passes: the same models as on arrays, and what only files have."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import gyrfalcon as gf
from gyrfalcon import data
from gyrfalcon.estimators import choices, streams

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, D = 3000, 4
NAMES = [f"f{j}" for j in range(D)]
random = np.random.default_rng(0)
X = random.normal(size=(N, D)).astype(np.float32)
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.05 * random.normal(size=N)
labels = np.where(y > 0.4, "high", "low")
weights = random.uniform(0.2, 2.0, size=N)
C = X[:60]
fixed = {"kernel": gf.kernels.Gaussian(1.5), "penalty": 1e-4, "centers": C, "random_state": 0, "verbose": False}


@pytest.fixture(autouse=True)
def nothing_fits_memory(monkeypatch):
    monkeypatch.setattr(streams, "IN_MEMORY", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("streams")
    columns = {name: X[:, j] for j, name in enumerate(NAMES)} | {"y": y, "label": labels, "w": weights}
    pq.write_table(pa.table(columns), place / "rows.parquet", row_group_size=700)
    np.save(place / "rows.npy", np.column_stack([X, y, weights]))
    numbers = np.column_stack([X[:400], y[:400]])
    np.savetxt(place / "rows.csv", numbers, delimiter=",", header=",".join([*NAMES, "y"]), comments="")
    return place


frame = pd.DataFrame(X, columns=NAMES)


def at(model, rows=slice(None)):
    """Predictions in memory, of points with names if the model knows them."""
    return np.asarray(model.predict((frame if hasattr(model, "feature_names_in_") else X)[rows]))


def chunks():
    return ((X[a : a + 900], y[a : a + 900]) for a in range(0, N, 900))


@pytest.mark.parametrize(
    "solver",
    [gf.solvers.Falkon(tolerance=1e-9, max_iterations=300), gf.solvers.Direct()],
    ids=lambda solver: solver.name,
)
def test_the_model_is_that_of_the_same_rows_in_memory(folder, solver):
    known = gf.KernelRegressor(**fixed, solver=solver).fit(X, y)
    named = {"target": "y", "features": NAMES}
    for source, how in (
        (folder / "rows.parquet", named),
        (str(folder / "rows.parquet"), named),
        (folder / "rows.npy", {"target": 4, "features": range(4)}),
        (chunks, {}),
        (data.open(folder / "rows.parquet", **named), {}),
        (data.open(X).X, {"y": y}),
    ):
        model = gf.KernelRegressor(**fixed, solver=solver).fit(source, **how)
        assert "streamed" in model.record_.plan
        assert_allclose(at(model, slice(200)), at(known, slice(200)), rtol=0, atol=2e-4)


def test_weights_are_a_column(folder):
    model = gf.KernelRegressor(**fixed).fit(folder / "rows.parquet", target="y", weight="w", features=NAMES)
    known = gf.KernelRegressor(**fixed).fit(X, y, sample_weight=weights.astype(np.float32))
    plain = gf.KernelRegressor(**fixed).fit(X, y)
    assert_allclose(at(model, slice(200)), at(known, slice(200)), rtol=0, atol=2e-4)
    assert np.abs(at(model, slice(200)) - at(plain, slice(200))).max() > 1e-3


def test_everything_left_to_the_library(folder):
    model = gf.KernelRegressor(n_centers=100, random_state=0, verbose=False)
    model.fit(folder / "rows.parquet", target="y", features=NAMES)
    assert model.tuning_ is not None
    assert model.score(frame, y) > 0.98
    assert list(model.feature_names_in_) == NAMES
    assert isinstance(model.centers_, np.ndarray)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_labels_may_be_text(folder, loss):
    model = gf.KernelClassifier(**fixed, loss=loss).fit(folder / "rows.parquet", target="label", features=NAMES)
    assert list(model.classes_) == ["high", "low"]
    known = gf.KernelClassifier(**fixed, loss=loss).fit(X, labels)
    assert np.mean(model.predict(folder / "rows.parquet") == known.predict(X)) > 0.99


def test_columns_are_found_by_name(folder, tmp_path):
    """In another order, among others."""
    model = gf.KernelRegressor(**fixed).fit(folder / "rows.parquet", target="y", features=NAMES)
    columns = {"extra": y} | {name: X[:, j] for j, name in reversed(list(enumerate(NAMES)))}
    pq.write_table(pa.table(columns), tmp_path / "new.parquet")
    assert_allclose(model.predict(tmp_path / "new.parquet"), model.predict(folder / "rows.parquet"), rtol=1e-6)


@pytest.mark.parametrize("ending", ["parquet", "npy", "csv", "feather"])
def test_predictions_are_written_in_chunks(folder, tmp_path, ending):
    model = gf.KernelRegressor(**fixed).fit(folder / "rows.parquet", target="y", features=NAMES)
    assert model.write_predictions(folder / "rows.parquet", tmp_path / f"out.{ending}") == N
    path = tmp_path / f"out.{ending}"
    written = np.load(path) if ending == "npy" else data.open(path).X.to_array()[:, 0]
    assert_allclose(written, at(model), rtol=1e-4, atol=1e-5)


def test_probabilities_are_written_by_class(folder, tmp_path):
    model = gf.KernelClassifier(**fixed, loss="logistic").fit(X, labels)
    assert model.write_predictions(X, tmp_path / "out.parquet", method="predict_proba") == N
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["probability_high", "probability_low"]
    assert_allclose(table["probability_high"].to_numpy(), model.predict_proba(X)[:, 0], rtol=1e-5)
    with pytest.raises(ValueError, match="no rows"):
        model.write_predictions(X[:0], tmp_path / "none.parquet")
    assert not (tmp_path / "none.parquet").exists()
    with pytest.raises(ValueError, match="method"):
        model.write_predictions(X, tmp_path / "out.parquet", method="fit")


def test_early_stopping_holds_rows_out_without_gathering_the_others(folder, monkeypatch):
    monkeypatch.setattr(choices, "RESERVOIR_ROWS", 500)  # kept to choose from: fewer than there are
    monkeypatch.setattr(choices, "RESERVOIR_ROWS_PER_CENTER", 1)
    taken = []
    original = data.Source.take
    monkeypatch.setattr(data.Source, "take", lambda self, rows: taken.append(len(rows)) or original(self, rows))
    model = gf.KernelRegressor(**fixed, n_centers=60, early_stopping=True, solver="falkon")
    model.fit(folder / "rows.parquet", target="y", features=NAMES)
    assert N // 10 < taken[0] <= N // 10 + 500  # with the sample, in one pass
    assert max(taken) < N // 2
    assert len(model.record_.validation_errors) == model.n_iter_
    known = gf.KernelRegressor(**fixed, solver="falkon").fit(X, y)
    assert model.score(frame, y) == pytest.approx(known.score(X, y), abs=0.01)


def test_several_devices_share_the_rows(folder):
    known = gf.KernelRegressor(**fixed).fit(X, y)
    model = gf.KernelRegressor(**fixed, device=["cpu", "cpu"]).fit(folder / "rows.parquet", target="y", features=NAMES)
    assert "split" in model.record_.plan
    assert_allclose(at(model, slice(50)), at(known, slice(50)), rtol=0, atol=2e-4)


def test_dask_collections_are_streams_too():
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    known = gf.KernelRegressor(**fixed).fit(X, y)
    model = gf.KernelRegressor(**fixed).fit(da.from_array(X, chunks=(900, D)), y)
    assert "dask" in model.record_.plan
    assert_allclose(at(model, slice(50)), at(known, slice(50)), rtol=0, atol=2e-4)
    table = dd.from_pandas(frame.assign(y=y), npartitions=3)
    model = gf.KernelRegressor(n_centers=60, random_state=0, verbose=False).fit(table, target="y")
    assert model.score(frame, y) > 0.95
    assert_allclose(model.predict(table[NAMES]), at(model), rtol=1e-5)


def test_predictions_of_dask_collections_are_dask_collections():
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    rows, table = da.from_array(X, chunks=(900, 1)), dd.from_pandas(frame.assign(y=y), npartitions=3)
    model = gf.KernelRegressor(**fixed, uncertainty=True).fit(X, y)
    found = model.predict(rows)
    assert isinstance(found, da.Array)
    assert found.chunks == (rows.chunks[0],)
    assert_allclose(found.compute(), model.predict(X), rtol=1e-12)
    for lazy, known in zip(model.predict(rows, return_std=True), model.predict(X, return_std=True), strict=True):
        assert_allclose(lazy.compute(), known, rtol=1e-9)
    assert isinstance(model.predict_interval(rows)[0], da.Array)
    some = rows[rows[:, 0] > 0]  # of which nobody knows how many there are
    assert model.score(some, y[X[:, 0] > 0]) == pytest.approx(model.score(X[X[:, 0] > 0], y[X[:, 0] > 0]), rel=1e-12)
    model = gf.KernelRegressor(**fixed).fit(frame, y)
    found = model.predict(table)  # which has one more column
    assert isinstance(found, dd.Series)
    assert_allclose(found.compute(), model.predict(frame), rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[NAMES[1:]])
    with pytest.raises(ValueError, match="return_cov needs all rows"):
        model.predict(table, return_cov=True)
    labels = np.array(["low", "high"])[(y > np.median(y)).astype(int)]
    classifier = gf.KernelClassifier(**fixed).fit(X, labels)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        found, known = getattr(classifier, method)(rows), getattr(classifier, method)(X)
        assert isinstance(found, da.Array)
        assert (found.shape, found.dtype) == (known.shape, known.dtype)
        np.testing.assert_array_equal(found.compute(), known)
    assert classifier.score(some, labels[X[:, 0] > 0]) == classifier.score(X[X[:, 0] > 0], labels[X[:, 0] > 0])
    classifier = gf.KernelClassifier(**fixed).fit(frame, labels)
    assert list(classifier.predict_proba(table).columns) == ["high", "low"]
    with pytest.raises(TypeError, match="got Bag"):
        classifier.predict(pytest.importorskip("dask.bag").from_sequence([1, 2]))


def test_dask_frames_with_categories_are_predicted_by_partition():
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": X[:300, 0], "kind": pd.Categorical(np.array(["a", "b", "c"])[np.arange(300) % 3])})
    table.loc[::9, "x"] = np.nan
    model = gf.KernelRegressor("gaussian", penalty=1e-3, verbose=False).fit(table, y[:300])
    found = model.predict(dd.from_pandas(table, npartitions=4))
    assert_allclose(found.compute(), model.predict(table), rtol=1e-12)


def test_files_of_models_of_tables_are_refused_in_words(folder):
    table = frame.head(200).copy()
    table.iloc[::7, 0] = np.nan
    model = gf.KernelRegressor("gaussian", penalty=1e-3, verbose=False).fit(table, y[:200])
    with pytest.raises(ValueError, match=r"not in memory.*pass data frames of some rows at a time"):
        model.predict(folder / "rows.parquet")


def test_a_checkpoint_of_a_stream_ends_the_same(folder, tmp_path, monkeypatch):
    from gyrfalcon.checkpoints import Checkpoint

    def model(**more):
        return gf.KernelRegressor(**fixed | {"centers": "uniform"}, n_centers=50, solver="falkon", **more)

    where = {"X": folder / "rows.parquet", "target": "y", "features": NAMES}
    whole = model().fit(**where)
    monkeypatch.setattr(Checkpoint, "due", property(lambda self: True), raising=False)
    original, count = Checkpoint.save, []

    def cut_short(self, stage, *args):
        saved = original(self, stage, *args)
        if stage == "solver" and len(count) == 3:
            raise RuntimeError("killed")
        count.append(stage)
        return saved

    monkeypatch.setattr(Checkpoint, "save", cut_short)
    with pytest.raises(RuntimeError, match="killed"):
        model(checkpoint=tmp_path / "kept").fit(**where)
    monkeypatch.setattr(Checkpoint, "save", original)
    again = model(checkpoint=tmp_path / "kept").fit(**where)
    np.testing.assert_array_equal(again.coefficients_, whole.coefficients_)


def test_few_rows_are_read_at_once(folder, monkeypatch):
    monkeypatch.setattr(streams, "IN_MEMORY", 1 << 20)
    model = gf.KernelRegressor(n_centers=50, random_state=0, verbose=False).fit(folder / "rows.csv", target="y")
    assert "streamed" not in model.record_.plan
    assert list(model.feature_names_in_) == NAMES
    assert model.score(frame[:400], y[:400]) > 0.9


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"X": "nowhere.parquet", "target": "y"}, "nowhere.parquet"),
        ({"target": "z", "features": NAMES}, "'z'"),
        ({"features": NAMES}, "target="),
        ({"target": "y", "y": y, "features": NAMES}, "given twice"),
        ({"target": "y"}, "label"),
        ({"target": "label", "features": NAMES}, "y must hold numbers"),
        ({"X": X, "y": y, "target": "y"}, "target='y'"),
        ({"target": "y", "weight": "w", "features": NAMES, "sample_weight": weights}, "given twice"),
    ],
)
def test_what_is_wrong_is_named(folder, how, message):
    how = {"X": folder / "rows.parquet"} | how
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        gf.KernelRegressor(**fixed).fit(**how)


def test_other_columns_at_predict_are_refused(folder, tmp_path):
    model = gf.KernelRegressor(**fixed).fit(folder / "rows.parquet", target="y", features=NAMES)
    pq.write_table(pa.table(dict.fromkeys(NAMES[:3], X[:, 0])), tmp_path / "few.parquet")
    with pytest.raises(ValueError, match="f3"):
        model.predict(tmp_path / "few.parquet")
    with pytest.raises(ValueError, match="3 features"):
        model.predict(data.open(X[:, :3]).X)
