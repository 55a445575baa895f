"""A model that learned nothing says so, and one that learned something does not."""

import numpy as np
import pytest
from sklearn import metrics

from gyrfalcon.tables.findings import findings
from gyrfalcon.tables.scores import decide, scores

random = np.random.default_rng(0)
Y = random.normal(size=100)


def test_a_regression_that_learned_nothing_says_so():
    (said,) = findings(Y, np.zeros(100), dropped={"sold": "text that is different in nearly every row, such as 'x'"})
    assert "learned nothing" in said
    assert "R² is -0." in said
    assert "'sold' (text that is different in nearly every row" in said
    assert "12 rows are too few" in findings(Y, np.zeros(100), train_rows=12)[0]
    assert "do not say much about the target" in findings(Y, np.zeros(100), train_rows=1200)[0]
    assert "predicting their mean is better" in findings(Y, Y + 3, train_rows=1200)[0]
    assert findings(Y, 0.9 * Y) == []
    assert findings(np.ones(5), np.zeros(5)) == []  # R² is not defined


def classified(n, share, signal, threshold=0.5):
    random = np.random.default_rng(1)
    truth = random.random(n) < share
    chance = np.clip(share + signal * (truth - share) + 0.02 * random.normal(size=n), 0.001, 0.999)
    return truth, chance >= threshold, np.stack([1 - chance, chance], 1), np.array([False, True])


def test_a_rare_class_that_is_never_predicted():
    (said,) = findings(*classified(2000, 0.03, signal=0.2))
    assert said.startswith("The class True is never predicted, though ")
    assert "The probabilities do rank the rows (ROC AUC 1.00)." in said
    assert "class_weight='balanced'" in said
    assert findings(*classified(2000, 0.03, signal=0.9)) == []


def test_a_classification_by_guessing():
    (said,) = findings(*classified(2000, 0.4, signal=0.0, threshold=0.4))
    assert "learned nothing" in said
    assert "guessing has 0.500" in said
    (said,) = findings(*classified(2000, 0.03, signal=0.0))  # never predicted and not ranked either
    assert "learned nothing" in said
    random = np.random.default_rng(2)
    labels = random.choice(["a", "b", "c"], 600)
    chances = random.dirichlet([1, 1, 1], 600)
    classes = np.array(["a", "b", "c"])
    (said,) = findings(labels, classes[chances.argmax(1)], chances, classes)
    assert "guessing has 0.333" in said
    assert findings(labels, labels, np.eye(3)[np.searchsorted(classes, labels)], classes) == []
    assert findings(labels[:1], labels[:1], chances[:1], classes) == []


def test_scores_are_those_of_scikit_learn():
    truth, predicted, chances, classes = classified(500, 0.2, signal=0.3)
    found = scores(truth, predicted, chances, classes)
    assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(truth, predicted))
    assert found["average_precision"] == pytest.approx(metrics.average_precision_score(truth, chances[:, 1]))
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(truth, chances[:, 1]))
    assert found["baseline_accuracy"] == pytest.approx(max(truth.mean(), 1 - truth.mean()))
    other = scores(truth, predicted, chances, classes, positive=False)
    assert other["average_precision"] == pytest.approx(metrics.average_precision_score(~truth, chances[:, 0]))
    labels, three = random.choice(["a", "b", "c"], 300), random.dirichlet([1, 1, 1], 300)
    found = scores(labels, labels, three, np.array(["a", "b", "c"]))
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(labels, three, multi_class="ovr"))
    assert "log_loss" not in scores(labels, labels, three[:, :2], np.array(["a", "b"]))  # c is unknown


def test_thresholds():
    chances = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
    classes = np.array(["no", "yes"])
    assert decide(chances, classes, 0.3).tolist() == ["no", "yes", "yes"]
    assert decide(chances, classes, 0.8, "no").tolist() == ["no", "yes", "yes"]
    with pytest.raises(ValueError, match="positive='maybe' is none of the classes, no and yes"):
        decide(chances, classes, 0.3, "maybe")
    with pytest.raises(ValueError, match="for two classes, and there are 3"):
        decide(np.ones((2, 3)) / 3, np.array(list("abc")), 0.3)


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**900, 2.0**1020])
def test_scores_of_targets_of_any_scale(scale):
    truth, predicted = np.array([1.0, 2.0, 4.0, 3.0]), np.array([1.5, 2.0, 3.0, 3.0])
    plain, found = scores(truth, predicted), scores(truth * scale, predicted * scale)
    assert found["r2"] == plain["r2"]
    assert [found["rmse"], found["mae"]] == [plain["rmse"] * scale, plain["mae"] * scale]
