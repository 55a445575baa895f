"""Reports hold the numbers that scikit-learn has for them, and survive whatever models and rows there are."""

import html
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.impute import SimpleImputer
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gyrfalcon as gf
from gyrfalcon.report import learning, metrics
from gyrfalcon.report.evidence import gather
from gyrfalcon.report.plot import MANY_DOTS, Plot
from gyrfalcon.report.scale import Scale
from gyrfalcon.report.text import number

SECTIONS = ["Predictions", "Features", "Learning", "Data", "Time", "Reproduce"]


class Reader(HTMLParser):
    """Counts that what is opened is closed, and collects words, tags and what would be fetched."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.fetched = [], set(), []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.fetched += [
            value for name, value in attributes if name in ("src", "href") and not value.startswith(("#", "data:"))
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def written(tmp_path, model, X, y, **settings):
    path = gf.report.write_report(tmp_path / "report.html", model, X, y, **settings)
    text = path.read_text(encoding="utf-8")
    reader = Reader(text)
    assert not reader.fetched
    assert "script" not in reader.tags
    assert "url(" not in text
    assert "@import" not in text
    drawn = re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    assert not re.search(r"\b(nan|inf|None)\b", " ".join(re.findall(r' (?:d|x|y|style|stroke-width)="([^"]*)"', drawn)))
    assert not re.search(r"(?<!\w)(nan|inf)(?!\w)", re.sub(r"<[^>]*>", " ", drawn))
    assert len(text) < 300_000
    return text


def regression(n=120, outputs=None, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * random.normal(size=n)
    return X, y if outputs is None else np.stack([(place + 1) * y for place in range(outputs)], 1)


def regressor(**settings):
    return gf.KernelRegressor(random_state=0, verbose=False, **settings)


def classifier(**settings):
    return gf.KernelClassifier(random_state=0, verbose=False, tune=None, **settings)


def test_everything_asked_for_is_there(tmp_path):
    X, y = regression(200)
    model = regressor().fit(X[:150], y[:150])
    text = written(tmp_path, model, X[150:], y[150:], X_train=X[:150], y_train=y[:150], title="Sines")
    titles = re.findall("<h2>(.*?)</h2>", text)
    assert [title for title in titles if title != "Uncertainty"] == SECTIONS
    for drawn in ("Predicted and actual", "Residuals", "Learning curve", "Tuning", "Bands against what they hold"):
        assert f"<h3>{drawn}</h3>" in text
    for words in ("<h1>Sines</h1>", "KernelRegressor(random_state=0", f"gyrfalcon {gf.__version__}", "150"):
        assert words in text
    assert "prefers-color-scheme" in text or "light-dark(" in text


def test_the_method_writes_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = regression()
    model = regressor(tune=None).fit(X, y)
    path = model.report(X, y)
    assert str(path) == "report.html"
    other = gf.report.write_report("other.html", model, X, y)
    without_times = [re.sub(r'id="time".*?</div>', "", file.read_text(encoding="utf-8")) for file in (path, other)]
    assert without_times[0] == without_times[1]
    assert not list(tmp_path.glob(".*"))


def test_metrics_of_a_regression_are_those_of_scikit_learn():
    X, y = regression(90, outputs=2)
    model = regressor(tune=None).fit(X, y)
    X_new, y_new = regression(80, outputs=2, seed=1)
    found = metrics.by_output(gather(model, X_new, y_new))
    for place, row in enumerate(found):
        predicted = model.predict(X_new)[:, place]
        for metric, score in zip(row, (r2_score, root_mean_squared_error, mean_absolute_error), strict=True):
            assert metric.value == pytest.approx(score(y_new[:, place], predicted))
            assert metric.low < metric.value < metric.high
        naive = np.full(80, y_new[:, place].mean())
        assert [metric.naive for metric in row[1:]] == pytest.approx(
            [root_mean_squared_error(y_new[:, place], naive), mean_absolute_error(y_new[:, place], naive)]
        )


def test_metrics_of_a_classification_are_those_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    model = classifier(loss="logistic").fit(X[::2], y[::2])
    found = {metric.name: metric for metric in metrics.measure(gather(model, X[1::2], y[1::2]))}
    probabilities, predicted, truth = model.predict_proba(X[1::2]), model.predict(X[1::2]), y[1::2]
    assert found["Accuracy"].value == pytest.approx(accuracy_score(truth, predicted))
    assert found["Balanced accuracy"].value == pytest.approx(balanced_accuracy_score(truth, predicted))
    assert found["Log loss"].value == pytest.approx(log_loss(truth, probabilities))
    assert found["ROC AUC"].value == pytest.approx(roc_auc_score(truth, probabilities[:, 1]))
    assert all(metric.low <= metric.value <= metric.high for metric in found.values())


@pytest.mark.parametrize("n", [400, metrics.MOST_ROWS + 5000])
def test_intervals_hold_the_truth_as_often_as_they_say(n):
    inside = 0
    for seed in range(40 if n < 1000 else 3):
        values = np.random.default_rng(seed).exponential(size=n)
        low, high = metrics.bootstrap(lambda w, values=values: np.array([w @ values / w.sum()]), n)
        inside += low[0] <= 1.0 <= high[0]
        assert high[0] - low[0] == pytest.approx(2 * 1.96 * values.std() / np.sqrt(n), rel=0.25)
    assert inside >= (34 if n < 1000 else 2)


def test_bands_of_transformed_targets_are_their_intervals(tmp_path):
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(1000, 2))
    y = np.exp(np.sin(3 * X[:, 0]) + 0.8 * random.normal(size=1000))
    model = gf.KernelRegressor(target_transform="log", random_state=0).fit(X[:500], y[:500])
    evidence = gather(model, X[500:], y[500:])
    low, high = (end[:, 0] for end in evidence.band)
    np.testing.assert_array_equal((low, high), model.predict_interval(X[500:]))
    inside = (low <= y[500:]) & (y[500:] <= high)
    np.testing.assert_array_equal(evidence.distance[:, 0] <= 1.96, inside)
    assert (low > 0).all()
    assert 0.91 < inside.mean() < 0.98
    assert 0.42 < (evidence.distance < 0.6745).mean() < 0.58
    path = model.report(X[500:], y[500:], tmp_path / "page.html", X_train=X[:500], y_train=y[:500])
    assert "log(y / " in path.read_text()
    automatic = gf.KernelRegressor(random_state=0).fit(X[:500], y[:500])
    assert automatic.tuning_.stages[0].name == "transform of y"
    assert "transform of y" in automatic.report(X[500:], y[500:], tmp_path / "page.html").read_text()


def test_kinds_of_rows(tmp_path):
    X, y = regression()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    kinds = {
        "array": (X, y),
        "float32": (X.astype(np.float32), y.astype(np.float32)),
        "list": (X.tolist(), y.tolist()),
        "pandas": (frame, pd.Series(y, name="height")),
        "polars": (pl.DataFrame(X, schema=["a", "b", "c"]), pl.Series("height", y)),
        "tensor": (torch.from_numpy(X), torch.from_numpy(y)),
        "sparse": (sparse.csr_array(np.where(X > 0, X, 0.0)), y),
    }
    for points, targets in kinds.values():
        model = regressor(tune=None).fit(points, targets)
        written(tmp_path, model, points, targets, X_train=points, y_train=targets)


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], ["a", "b", "c"], list(range(14)), list(range(70))])
def test_classes(tmp_path, labels):
    random = np.random.default_rng(0)
    y = np.array(labels)[np.arange(3 * len(labels) + 40) % len(labels)]
    X = random.normal(size=(len(y), 4)) + np.searchsorted(labels, y)[:, None]
    model = classifier().fit(X, y)
    text = written(tmp_path, model, X, y, X_train=X, y_train=y)
    assert ("Confusion" in text) == (len(labels) <= 60)
    assert str(labels[-1]) in text


def test_classes_that_the_fit_has_not_seen_are_told(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = classifier().fit(X[:100], y[:100])
    text = written(tmp_path, model, X[50:], y[50:])
    assert '<th class="words" title="2">2</th>' in text
    assert gather(model, X[50:], y[50:]).probabilities.shape == (100, 3)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_tests(tmp_path, n):
    X, y = regression()
    text = written(tmp_path, regressor(tune=None).fit(X, y), X[:n], y[:n])
    assert n > 2 or "too few rows" in text
    written(tmp_path, classifier().fit(X, y > 0), X[:n], (y > 0)[:n])


def test_constant_targets_and_features(tmp_path):
    X, y = regression()
    X[:, 1] = 3.0
    text = written(
        tmp_path, regressor(tune=None).fit(X, np.ones(len(X))), X, np.ones(len(X)), X_train=X, y_train=np.ones(len(X))
    )
    assert "<b>–</b>" in text  # R² is not defined
    written(tmp_path, regressor(tune=None).fit(X, y), X, 1e200 * y)
    written(tmp_path, classifier().fit(X, y > 0), X[y > 0], np.ones((y > 0).sum(), dtype=bool))


def test_many_outputs_and_many_features(tmp_path):
    X, y = regression(60, outputs=70)
    text = written(tmp_path, regressor(tune=None).fit(X, y), X, y, X_train=X, y_train=y)
    assert "20 more" in text
    assert "on average over the outputs" in text
    wide = np.random.default_rng(0).normal(size=(60, 3000))
    text = written(tmp_path, regressor(tune=None).fit(wide, y[:, 0]), wide, y[:, 0])
    assert "3,000 features are too many to shuffle one by one" in text
    text = written(tmp_path, regressor(tune=None).fit(wide[:, :100], y[:, 0]), wide[:, :100], y[:, 0])
    assert "80 more features matter less" in text
    assert "12 of 100 features, by importance" in text


def test_many_rows_stay_small(tmp_path):
    X, y = regression(30_000)
    model = regressor(tune=None, n_centers=50, solver="falkon").fit(X, y)
    text = written(tmp_path, model, X, y)
    assert "<h3>Convergence</h3>" in text
    assert "uncertainty=True" in text


@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {"tune": gf.tuning.PenaltyPath()}, {"loss": "robust"}])
def test_other_ways_to_fit(tmp_path, settings):
    X, y = regression()
    written(tmp_path, regressor(**({"tune": None} | settings)).fit(X, y), X, y, X_train=X, y_train=y)


def test_models_of_other_kinds(tmp_path):
    X, y = regression()
    falkon = gf.Falkon(length_scale=1.0, penalty=1e-4, n_centers=30, random_state=0, verbose=False).fit(X, y)
    written(tmp_path, falkon, X, y, X_train=X, y_train=y)
    falkon.save(tmp_path / "model.safetensors")
    written(tmp_path, gf.load(tmp_path / "model.safetensors"), X, y)


def test_pipelines_show_what_the_last_step_sees(tmp_path):
    X, y = regression()
    X[3, 1] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = make_pipeline(SimpleImputer(), StandardScaler(), regressor(tune=None)).fit(frame, y)
    text = written(tmp_path, model, frame, y, X_train=frame, y_train=y)
    assert "<dt>Missing values</dt><dd>1</dd>" in text
    assert '<td class="words">b</td>' in text


def test_hostile_names_are_only_names(tmp_path):
    X, y = regression()
    evil = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "'; </style></title>&amp;" * 40]
    frame = pd.DataFrame(X, columns=evil)
    labels = np.array(evil)[np.digitize(y, [-0.5, 0.5])]
    text = written(tmp_path, classifier().fit(frame, labels), frame, labels, title=evil[0], reproduce=evil[1])
    assert html.escape(evil[0]) in text
    assert "<img" not in text
    series = pd.Series(y, name=evil[1])
    assert "<img" not in written(tmp_path, regressor(tune=None).fit(frame, series), frame, series)


def test_learning_curves_go_down(tmp_path, monkeypatch):
    from gyrfalcon.report import learning

    X, y = regression(600)
    evidence = gather(regressor().fit(X[:400], y[:400]), X[400:], y[400:], X[:400], y[:400])
    refits = [learning._refit(evidence, X[:n], y[:n], 400 / n) for n in (25, 100, 400)]
    errors = [learning._error(evidence, model, X[400:], y[400:]) for model in refits]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] == pytest.approx(learning._error(evidence, evidence.model, X[400:], y[400:]), rel=1e-6)
    monkeypatch.setattr(learning, "MOST_SECONDS", -1.0)
    assert "<h3>Learning curve</h3>" not in learning.learning(evidence).body


def test_what_cannot_be_reported_is_named(tmp_path):
    X, y = regression()
    model = regressor(tune=None).fit(X, y)
    path = tmp_path / "report.html"
    with pytest.raises(ValueError, match="X_train and y_train go together"):
        gf.report.write_report(path, model, X, y, X_train=X)
    with pytest.raises(ValueError, match="feature_names has 1 names but the model has 3"):
        gf.report.write_report(path, model, X, y, feature_names=["a"])
    with pytest.raises(ValueError, match="y_test has shape"):
        gf.report.write_report(path, model, X, np.stack([y, y], 1))
    with pytest.raises(ValueError, match="X has 120 rows but y has"):
        gf.report.write_report(path, model, X, y[:5])
    with pytest.raises(ValueError, match="in memory"):
        gf.report.write_report(path, model, tmp_path / "rows.npy", y)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [
        (0, 1, False),
        (-3.7, 12.2, False),
        (1e-12, 2e-12, False),
        (1e7, 1.00001e7, False),
        (-1e308, 1e308, False),
        (3, 4, True),
        (1e-9, 1e3, True),
    ],
)
def test_ticks_lie_on_the_axis_and_are_told_apart(low, high, log):
    scale = Scale(low, high, log)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 8
    assert all(-1e-6 <= float(scale.place(value)) <= 1 + 1e-6 for value, _ in ticks)
    assert len({label for _, label in ticks}) == len(ticks)


def test_hexagons_count_every_point():
    points = np.random.default_rng(0).uniform(size=(MANY_DOTS + 1, 2))
    plot = Plot(Scale(0, 1), Scale(0, 1), "", "")
    plot.cloud(*points.T)
    assert 'class="fill' in plot.svg("")
    from gyrfalcon.report.plot import _hexagons

    places, counts = _hexagons(100 * points, 3.0)
    assert counts.sum() == len(points)
    nearest = np.sqrt(((100 * points[:, None] - places[None]) ** 2).sum(2).min(1))
    assert nearest.max() <= 3.0 + 1e-9  # the corners of a hexagon lie a side away


def test_few_values_of_a_feature_are_groups(tmp_path):
    """Also those that few rows have: groups of equal size would not tell them from the others."""
    X, y = regression(200)
    X = np.column_stack([X, np.arange(200) % 40 == 0])
    y = y + 5 * X[:, 3]
    text = written(tmp_path, regressor(tune=None).fit(X, y), X, y, feature_names=["a", "b", "c", "rare"])
    drawn = re.search(r'aria-label="residuals over rare.*?</svg>', text, re.S)[0]
    assert re.search(r'class="line ours" d="M[\d. ]+L', drawn)


def test_names_of_many_classes_stand_upright(tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 2))
    for name, kinds in (("a long name, no. {}", "cells upright"), ("{}", "cells")):
        labels = np.array([name.format(place) for place in np.arange(120) % 8])
        assert f'<table class="{kinds}">' in written(tmp_path, classifier().fit(X, labels), X, labels)


def sold_homes(n=300, seed=0):
    random = np.random.default_rng(seed)
    sold = np.datetime64("2021-01-01") + random.integers(0, 4 * 365, n)
    city = random.choice(["Rome", "Oslo", "Bari"], n, p=[0.5, 0.3, 0.2])
    area = random.uniform(30, 90, n)
    price = area * np.where(city == "Rome", 3.0, 2.0) + (sold - np.datetime64("2021-01-01")).astype(float) / 30
    return pd.DataFrame({"sold": sold, "city": city, "lift": random.random(n) < 0.5, "area": area}), price


def test_dates_are_dates_and_categories_are_bars(tmp_path):
    table, price = sold_homes()
    model = make_pipeline(gf.TablePreprocessor(), regressor(tune=None)).fit(table[:200], price[:200])
    text = written(tmp_path, model, table[200:], price[200:])
    figures = dict(re.findall(r"<figure><h3>([^<]*)</h3>(.*?)</figure>", text, flags=re.DOTALL))
    ticks = re.findall(r"<text[^>]*>([^<]*)</text>", figures["sold"])
    assert {"2022", "2023", "2024"} <= set(ticks)
    assert "sold days" not in figures
    names = re.findall(r'<span title="([^"]*)">', figures["city"])
    assert names == ["Rome", "Oslo", "Bari"]
    assert "city = Rome" not in figures
    assert "The RMSE in each category" in figures["city"]
    residuals = price[200:] - model.predict(table[200:])
    rome = np.sqrt(np.mean(residuals[(table["city"] == "Rome")[200:]] ** 2))
    assert f"{number(rome, 3)}, mean" in figures["city"]
    labels = np.where(price > 150, "dear", "cheap")
    model = make_pipeline(gf.TablePreprocessor(), classifier()).fit(table[:200], labels[:200])
    text = written(tmp_path, model, table[200:], labels[200:])
    assert "The share of the rows that is wrong." in text


@pytest.mark.parametrize(("low", "high"), [(0, 10), (19_000, 19_030), (19_000, 19_400), (10_000, 20_000), (-7e5, 9e5)])
def test_ticks_of_dates(low, high):
    ticks = Scale(low, high, dates=True).ticks()
    assert 1 <= len(ticks) <= 6
    assert all(low <= place <= high for place, _ in ticks)
    for place, label in ticks:
        assert str(np.datetime64(int(place), "D")).startswith(label)
    assert len({label for _, label in ticks}) == len(ticks)
    assert Scale(-1e9, 1e9, dates=True).ticks()  # beyond all calendars


def test_the_learning_curve_ends_at_the_headline(monkeypatch):
    monkeypatch.setattr(learning, "MOST_TEST_ROWS", 10)  # by which the refits are judged
    X, y = regression(300)
    model = regressor(tune=None).fit(X[:200], y[:200])
    evidence = gather(model, X[200:], y[200:], X[:200], y[:200])
    rmse = next(metric for metric in metrics.measure(evidence) if metric.name == "RMSE")
    assert learning._headline(evidence) == pytest.approx(rmse.value, rel=1e-12)
    labels = np.where(y > 0, "up", "down")
    evidence = gather(classifier().fit(X[:200], labels[:200]), X[200:], labels[200:], X[:200], labels[:200])
    accuracy = next(metric for metric in metrics.measure(evidence) if metric.name == "Accuracy")
    assert learning._headline(evidence) == pytest.approx(1 - accuracy.value, abs=1e-12)


def test_average_precision_and_thresholds(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    model = classifier(loss="logistic").fit(X[:300], y[:300])
    for positive, place in ((None, 1), (0, 0)):
        evidence = gather(model, X[300:], y[300:], positive=positive, threshold=0.8)
        chances = model.predict_proba(X[300:])[:, place]
        found = {metric.name: metric for metric in metrics.measure(evidence)}
        expected = average_precision_score(y[300:] == place, chances)
        assert found["Average precision"].value == pytest.approx(expected, rel=1e-9)
        assert found["Average precision"].naive == pytest.approx((y[300:] == place).mean())
        assert found["ROC AUC"].value == pytest.approx(roc_auc_score(y[300:] == place, chances), rel=1e-9)
        predicted = np.where(chances >= 0.8, place, 1 - place)
        assert found["Accuracy"].value == pytest.approx((predicted == y[300:]).mean())
    text = written(tmp_path, model, X[300:], y[300:], threshold=0.8)
    assert "false positive rate" in text
    assert "baseline" in text
    assert "engine:" not in text
    with pytest.raises(ValueError, match="threshold and positive are for classifications"):
        gather(regressor(tune=None).fit(X[:300, 1:], X[:300, 0]), X[300:, 1:], X[300:, 0], threshold=0.5)


def test_a_model_that_learned_nothing_begins_with_a_warning(tmp_path):
    X, y = regression(200)
    noise = np.random.default_rng(5).normal(size=200)
    model = regressor(tune=None, penalty=1e-8).fit(X[:100], noise[:100])
    text = written(tmp_path, model, X[100:], noise[100:], X_train=X[:100], y_train=noise[:100])
    assert re.search(r'</header>\s*<p class="warning" role="alert">The model has learned nothing', text)
    text = written(tmp_path, regressor(tune=None).fit(X[:100], y[:100]), X[100:], y[100:])
    assert 'role="alert"' not in text
