"""The pictures of `make demo`, which reports draw: a report that changes must not break README's first command."""

import numpy as np
import pytest
from benchmarks.demo import _pictures
from benchmarks.synthetic import Split
from benchmarks.tasks import TASKS
from benchmarks.trial import Trial
from sklearn.datasets import load_digits

random = np.random.default_rng(0)


def trial(truth, prediction, **more):
    usual = {"deviation": None, "probabilities": None, "residuals": [1.0, 0.1, 0.01], "summary": "three iterations"}
    numbers = {"seconds": 1.0, "extra_bytes": 10**6, "error": 0.1, "log_loss": None}
    return Trial("Gyrfalcon", "", len(truth), len(truth), prediction=prediction, **(usual | numbers | more))


@pytest.fixture
def split(monkeypatch):
    """Instead of a million rows, which the demo loads again for their truth."""

    def give(truth):
        found = Split(np.zeros((1, 1)), truth[:1], np.zeros((len(truth), 1)), truth)
        for name, task in TASKS.items():
            monkeypatch.setitem(TASKS, name, type(task)(task.title, lambda: found, task.classes, task.contestants))

    return give


@pytest.mark.parametrize("name", ["million", "diabetes"])
def test_regressions_are_drawn(name, split):
    truth = random.normal(size=200)
    split(truth)
    ours = trial(truth, truth + 0.1, deviation=np.full(200, 0.2))
    drawn = "".join(_pictures(name, TASKS[name], [ours, ours]))
    assert drawn.count("<svg") >= 1
    assert ("95 %" in drawn) == (name == "diabetes")


def test_classes_are_drawn(split):
    truth = load_digits().target[:300]
    split(truth)
    chances = np.full((300, 10), 0.02)
    chances[np.arange(300), truth] = 0.82
    drawn = "".join(_pictures("digits", TASKS["digits"], [trial(truth, truth, probabilities=chances)]))
    assert "Which digits it confuses" in drawn
    assert drawn.count("<svg") >= 1
