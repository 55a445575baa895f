"""Files of pipelines: every transformer comes back as it was, and what cannot be saved is named."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, QuantileTransformer, StandardScaler

import gyrfalcon as gf
from gyrfalcon.persistence import ModelFileError, compose, parse
from gyrfalcon.pipelines import TRANSFORMERS

pytestmark = pytest.mark.usefixtures("one_thread")

X = np.random.default_rng(0).normal(size=(80, 4)) * [1.0, 10.0, 100.0, 0.1] + 3
Y = np.sin(X[:, 0])
CASES = [kind() for kind in TRANSFORMERS] + [
    StandardScaler(with_std=False),
    MinMaxScaler((-1, 2), clip=True),
    PCA(2, whiten=True),
    QuantileTransformer(n_quantiles=10, output_distribution="normal", random_state=0),
]
CASES = [step.set_params(n_quantiles=20) if isinstance(step, QuantileTransformer) else step for step in CASES]


def model():
    return gf.KernelRegressor("gaussian", tune=None, penalty=1e-3)


@pytest.mark.parametrize("step", CASES, ids=repr)
def test_transformers_come_back(step, tmp_path):
    fitted = make_pipeline(step, model()).fit(X, Y)
    gf.save(fitted, tmp_path / "model.safetensors")
    again = gf.load(tmp_path / "model.safetensors")
    # Components come back in another order in memory, with which products round in another way.
    np.testing.assert_allclose(again.predict(X), fitted.predict(X), rtol=1e-9, atol=1e-12)
    assert again[0].get_params() == fitted[0].get_params()
    assert again[:-1].get_feature_names_out().tolist() == fitted[:-1].get_feature_names_out().tolist()
    again.fit(X, Y)  # as any other


def test_names_frames_and_several_steps(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    labels = np.where(Y > 0, "up", "down")
    fitted = make_pipeline(StandardScaler(), "passthrough", PCA(3), gf.KernelClassifier(tune=None)).fit(frame, labels)
    gf.save(fitted, tmp_path / "model.safetensors")
    again = gf.load(tmp_path / "model.safetensors")
    assert list(again.named_steps) == list(fitted.named_steps)
    assert again.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_allclose(again.predict_proba(frame), fitted.predict_proba(frame), rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"a": "z"}))
    table = make_pipeline(gf.TablePreprocessor(), model()).fit(frame.assign(e=labels), Y)
    gf.save(table, tmp_path / "table.safetensors")
    found = gf.load(tmp_path / "table.safetensors").predict(frame.assign(e=labels))
    np.testing.assert_array_equal(found, table.predict(frame.assign(e=labels)))


def test_models_are_saved_as_by_themselves(tmp_path):
    fitted = model().fit(X, Y)
    gf.save(fitted, tmp_path / "model.safetensors")
    again = gf.KernelRegressor.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_what_cannot_be_saved_is_named(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(TypeError, match="step 'functiontransformer' of the pipeline is a FunctionTransformer"):
        gf.save(make_pipeline(FunctionTransformer(np.tanh), model()).fit(X, Y), path)
    with pytest.raises(TypeError, match="got TransformedTargetRegressor"):
        gf.save(TransformedTargetRegressor(model()).fit(X, Y), path)
    with pytest.raises(ValueError, match="not fitted"):
        gf.save(make_pipeline(StandardScaler(), model()), path)

    class Scaler(StandardScaler):
        pass

    with pytest.raises(TypeError, match="is a Scaler"):
        gf.save(make_pipeline(Scaler(), model()).fit(X, Y), path)
    assert not path.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"StandardScaler"', '"os.system"'),
        lambda text: text.replace('"n_features_in_"', '"transform"'),
        lambda text: text.replace('"with_mean"', '"__class__"'),
        lambda text: text.replace('"version": 1', '"version": 9', 1),
    ],
)
def test_files_that_were_changed_are_refused(change, tmp_path):
    path = tmp_path / "model.safetensors"
    gf.save(make_pipeline(StandardScaler(), model()).fit(X, Y), path)
    description, arrays = parse(path.read_bytes())
    path.write_bytes(compose(json.loads(change(json.dumps(description))), arrays))
    with pytest.raises(ModelFileError):
        gf.load(path)


def changed(fitted, change, path):
    """The file of a pipeline, after something was done to its description and arrays."""
    gf.save(fitted, path)
    description, arrays = parse(path.read_bytes())
    arrays = {name: np.array(values) for name, values in arrays.items()}
    change(description, arrays)
    path.write_bytes(compose(description, arrays))
    return path


def _wider(description, arrays):
    arrays["0.scale_"] = np.ones(9)


def _of_no_number(description, arrays):
    arrays["0.mean_"] = np.array([np.nan, 0, 0, 0])


def _of_other_width(description, arrays):
    description["steps"][0]["fitted"]["n_features_in_"] = 3


def _of_no_width(description, arrays):
    description["steps"][0]["fitted"]["n_features_in_"] = "four"


def _names(description, arrays):
    description["steps"][0]["fitted"]["feature_names_in_"] = ["a"]


@pytest.mark.parametrize("change", [_wider, _of_no_number, _of_other_width, _of_no_width, _names])
def test_attributes_that_do_not_fit_together_are_refused(change, tmp_path):
    fitted = make_pipeline(StandardScaler(), model()).fit(X, Y)
    with pytest.raises(ModelFileError, match="StandardScaler"):
        gf.load(changed(fitted, change, tmp_path / "model.safetensors"))


@pytest.mark.parametrize("name", ["components_", "mean_", "explained_variance_", "singular_values_"])
def test_every_array_of_a_projection_is_checked(name, tmp_path):
    fitted = make_pipeline(PCA(2), model()).fit(X, Y)

    def cut(description, arrays):
        arrays[f"0.{name}"] = arrays[f"0.{name}"][:1]

    with pytest.raises(ModelFileError, match="PCA"):
        gf.load(changed(fitted, cut, tmp_path / "model.safetensors"))


def test_steps_that_do_not_follow_each_other_are_refused(tmp_path):
    fitted = make_pipeline(PCA(2), StandardScaler(), model()).fit(X, Y)
    narrow = make_pipeline(PCA(3), StandardScaler(), model()).fit(X, Y)
    gf.save(narrow, tmp_path / "other.safetensors")
    _, others = parse((tmp_path / "other.safetensors").read_bytes())

    def swap(description, arrays):
        description["steps"][0]["fitted"]["n_components_"] = 3
        arrays |= {name: np.array(values) for name, values in others.items() if name.startswith("0.")}

    with pytest.raises(ModelFileError, match="takes 2 features, but the one before gives 3"):
        gf.load(changed(fitted, swap, tmp_path / "model.safetensors"))
