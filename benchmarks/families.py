"""Synthetic tables that defaults are chosen on: functions and classes of many shapes, features of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SYNTHETIC_ROWS = 3000


def _friedman(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = random.random((rows, 10))
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, signal + random.normal(size=rows)


def _few_of_many(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = random.normal(size=(rows, 30))
    signal = np.sin(2 * X[:, 0]) * X[:, 1] + np.abs(X[:, 2]) + X[:, 3] * X[:, 4]
    return X, signal + 0.3 * random.normal(size=rows)


def _steps(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = np.round(random.gamma(2, 2, size=(rows, 12)), 1)
    signal = 2.0 * (X[:, 0] > 3) + (X[:, 1] > X[:, 2]) + 0.3 * X[:, 3] * (X[:, 4] > 4)
    return X, signal + 0.3 * random.normal(size=rows)


def _smooth(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = random.random((rows, 8))
    directions, phases = 2 * random.normal(size=(8, 20)), 6 * random.random(20)
    return X, np.sin(X @ directions + phases) @ random.normal(size=20) + 0.05 * random.normal(size=rows)


def _noise(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    return random.normal(size=(rows, 8)), random.normal(size=rows)


def _lognormal(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    logarithms = random.normal(size=(rows, 8))
    signal = logarithms[:, 0] * logarithms[:, 1] + np.sin(2 * logarithms[:, 2]) + (logarithms[:, 3] > 0)
    return np.exp(3 * logarithms), signal + 0.2 * random.normal(size=rows)


def _rarely_huge(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = random.normal(size=(rows, 10))
    present = random.random((rows, 4)) < 0.03
    X[:, :4] = np.where(present, np.exp(3 * random.normal(size=(rows, 4)) + 5), 0.0)
    signal = 2.0 * present[:, 0] + 2 * present[:, 1] * X[:, 5] + np.sin(2 * X[:, 4]) + X[:, 6] * X[:, 7]
    return X, signal + 0.2 * random.normal(size=rows)


def _counts(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = random.poisson(np.exp(1.5 * random.normal(size=(rows, 10)))).astype(float)
    signal = np.log1p(X[:, 0]) + (X[:, 1] == 0) * np.log1p(X[:, 2]) + np.minimum(X[:, 3], 3)
    return X, signal + 0.2 * random.normal(size=rows)


def _raw_tails(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    X = np.exp(random.normal(size=(rows, 8)))
    return X, (np.sqrt(X[:, 0]) * X[:, 1] + X[:, 2]) * (1 + 0.05 * random.normal(size=rows))


def _prices(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """A product of what features are worth, with errors that are a part of it."""
    area, codes = np.exp(4.5 + 0.4 * random.normal(size=rows)), random.integers(8, size=rows)
    others = random.random((rows, 6))
    worth = (
        np.exp(0.4 * random.normal(size=8))[codes] * (1 + others[:, 0] * others[:, 1]) * np.exp(-(others[:, 2] ** 2))
    )
    y = 1000 * area * worth * (1 + 0.5 * (others[:, 3] > 0.7)) * np.exp(0.3 * random.normal(size=rows))
    return np.concatenate([area[:, None], np.eye(8)[codes], others], 1), y


def _durations(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Times until something happens, at a rate that features multiply."""
    X = random.normal(size=(rows, 10))
    return X, np.exp(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.5 * X[:, 3]) * random.weibull(1.5, size=rows)


def _events(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """How often something happens, with a rate that varies beyond what features tell."""
    X = random.normal(size=(rows, 8))
    rate = np.exp(1 + 0.8 * np.sin(2 * X[:, 0]) + 0.6 * np.abs(X[:, 1]) - 0.4 * X[:, 2] * (X[:, 3] > 0))
    return X, random.poisson(rate * random.gamma(4, 1 / 4, size=rows)).astype(float)


def _claims(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Amounts that are zero in most rows and have a long tail in the others."""
    X = random.normal(size=(rows, 8))
    present = random.random(rows) < 1 / (1 + np.exp(1 - X[:, 0] - np.abs(X[:, 1])))
    return X, present * np.exp(0.5 * X[:, 2] + 0.5 * np.sin(2 * X[:, 3]) + 0.7 * random.normal(size=rows))


def _outliers(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """A function with noise that is added, and now and then very large."""
    X, signal = _smooth(random, rows)
    return X, signal + 0.5 * random.standard_t(2.2, size=rows)


def _panel(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Several years of each of many people, whose level no feature tells: only other years of the same person do."""
    people = random.integers(max(2, rows // 6), size=rows)
    own, level = random.normal(size=(rows, 4)), random.normal(size=rows)
    own[:, 3] = np.round(own[:, 3])
    year = random.integers(7, size=rows).astype(float)
    changing = random.normal(size=(rows, 2))
    signal = 0.5 * own[people, 0] + level[people] + 0.1 * year + 0.3 * np.sin(2 * changing[:, 0])
    X = np.concatenate([own[people], year[:, None], changing], 1)
    return X, signal + 0.4 * random.normal(size=rows)


def _households(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Purchases of numbered households, each of which has a favorite brand."""
    household = random.integers(max(2, rows // 10), size=rows)
    taste, prices = random.normal(size=rows)[household], random.normal(size=(rows, 3))
    score = 1.5 * taste - prices[:, 0] + 0.5 * np.abs(prices[:, 1]) + 0.7 * random.normal(size=rows)
    return np.concatenate([household[:, None], prices], 1), (score > np.median(score)).astype(int)


def _storms(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Delays at sixty places in a year, with noise and eighty storms of a day or two and some hundred miles."""
    places = np.column_stack([30 + 15 * random.random(60), -120 + 50 * random.random(60)])
    middles = np.column_stack([30 + 15 * random.random(80), -120 + 50 * random.random(80)])
    days, place, day = random.integers(365, size=80), random.integers(60, size=rows), random.integers(365, size=rows)
    hour, usual = 24 * random.beta(2, 2, size=rows), random.normal(size=60)
    near = np.exp(-np.square((places[:, None] - middles) / [4.0, 10.0]).sum(2))
    storms = sum(2 * np.exp(-(((day - days[j]) / 1.2) ** 2)) * near[place, j] for j in range(80))
    signal = storms + 0.3 * np.sin(hour / 4) + 0.3 * usual[place]
    X = np.column_stack([day // 30.5 + 1, day % 30.5, day % 7, hour, places[place], random.gamma(2, 300, size=rows)])
    return X, signal + 1.5 * signal.std() * random.normal(size=rows)


def _halved(make: Callable[..., tuple[Array, Array]]) -> Callable[..., tuple[Array, Array]]:
    def classes(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
        X, y = make(random, rows)
        return X, (y > np.median(y)).astype(int)

    return classes


def _mixture(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Two classes of six normal clouds each."""
    labels, cloud = random.integers(2, size=rows), random.integers(6, size=rows)
    middles = 1.3 * random.normal(size=(2, 6, 12))
    return middles[labels, cloud] + random.normal(size=(rows, 12)), labels


def _words(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Frequencies of words, most of them zero, in two kinds of text."""
    labels = (random.random(rows) < 0.4).astype(int)
    rates = np.exp(random.normal(size=40) - 2.5)[None] * np.exp(0.8 * random.normal(size=(2, 40)))[labels]
    length = np.exp(4 + 0.8 * random.normal(size=(rows, 1)))
    return 100 * random.poisson(rates * length / 50) / length, labels


def _categories(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Four categories as columns of zeros and ones, beside six numbers; one class is rarer."""
    codes, numbers = random.integers(8, size=(rows, 4)), random.normal(size=(rows, 6))
    effects = random.normal(size=(4, 8))
    score = sum(effects[j, codes[:, j]] for j in range(4)) + (codes[:, 0] > 4) * numbers[:, 0] + np.abs(numbers[:, 1])
    X = np.concatenate([np.eye(8)[codes].reshape(rows, -1), numbers], 1)
    return X, (score + 0.7 * random.normal(size=rows) > np.quantile(score, 0.8)).astype(int)


def _rules(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """The votes of ten rules of two thresholds each, and one label of twenty is wrong."""
    X = np.round(random.gamma(2, 2, size=(rows, 15)), 1)
    votes = np.zeros(rows)
    for _ in range(10):
        first, second = random.choice(15, 2, replace=False)
        votes += random.normal() * (X[:, first] > random.gamma(2, 2)) * (X[:, second] > random.gamma(2, 2))
    wrong = random.random(rows) < 0.05
    return X, ((votes > np.median(votes)) ^ wrong).astype(int)


def _rare(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """One row of twenty in the class that is looked for."""
    X, y = _few_of_many(random, rows)
    return X, (y > np.quantile(y, 0.95)).astype(int)


def _customers(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Categories as zeros and ones, skewed amounts, counts and an age, with interactions; 5 % of labels are wrong."""
    codes, age = random.integers(6, size=(rows, 3)), random.integers(18, 90, size=rows).astype(float)
    amounts = np.exp(random.normal(size=(rows, 4)) * [1.0, 1.5, 0.7, 1.0])
    counts = random.poisson(np.exp(0.8 * random.normal(size=(rows, 3)))).astype(float)
    effects = 0.8 * random.normal(size=(3, 6))
    score = sum(effects[j, codes[:, j]] for j in range(3)) + 0.8 * np.log(amounts[:, 0]) * (codes[:, 0] > 2)
    score += 1.5 * (amounts[:, 1] > 2) * (counts[:, 0] > 1) + 0.5 * np.minimum(counts[:, 1], 3) - np.abs(age - 50) / 33
    labels = score + 0.5 * random.normal(size=rows) > np.quantile(score, 0.7)
    X = np.concatenate([np.eye(6)[codes].reshape(rows, -1), amounts, counts, age[:, None]], 1)
    return X, (labels ^ (random.random(rows) < 0.05)).astype(int)


def _survey(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """Answers from 1 to 5 that have three causes, and two categories as numbers without an order."""
    causes, codes = random.normal(size=(rows, 3)), random.integers(10, size=(rows, 2))
    answers = 3 + causes[:, random.integers(3, size=15)] + 0.8 * random.normal(size=(rows, 15))
    answers = np.clip(np.round(answers), 1, 5)
    effects = random.normal(size=(2, 10))
    score = 0.7 * causes[:, 0] * causes[:, 1] + 0.5 * causes[:, 2] + 0.4 * (answers[:, 3] > 3)
    score += 0.6 * sum(effects[j, codes[:, j]] for j in range(2)) + 0.5 * random.normal(size=rows)
    return np.concatenate([answers, codes.astype(float)], 1), (score > 0).astype(int)


def _five_classes(random: np.random.Generator, rows: int = SYNTHETIC_ROWS) -> tuple[Array, Array]:
    """The class with the largest of five noisy scores, which are linear but for one rule each; they differ in size."""
    parts = random.normal(size=(rows, 8)), np.exp(random.normal(size=(rows, 4))), random.integers(5, size=(rows, 4))
    X = np.concatenate(parts, 1)
    scores = (X - X.mean(0)) / X.std(0) @ (random.normal(size=(16, 5)) * (random.random((16, 5)) < 0.4))
    high = np.median(X, 0) < X
    for place, shift in enumerate((0.0, 0.5, 1.0, -0.5, -1.0)):
        first, second = random.choice(16, 2, replace=False)
        scores[:, place] += 2 * (high[:, first] & high[:, second]) + shift
    return X, (scores + 0.7 * random.gumbel(size=scores.shape)).argmax(1)


SYNTHETIC: dict[str, Callable[..., tuple[Array, Array]]] = {
    "friedman": _friedman,
    "few of many features": _few_of_many,
    "steps": _steps,
    "smooth": _smooth,
    "noise": _noise,
    "lognormal features": _lognormal,
    "features that are rarely huge": _rarely_huge,
    "counts": _counts,
    "signal in the tails": _raw_tails,
    "prices": _prices,
    "durations": _durations,
    "numbers of events": _events,
    "claims, most of them zero": _claims,
    "outliers": _outliers,
    "years of people": _panel,
    "storms": _storms,
    "rarely huge, two classes": _halved(_rarely_huge),
    "few of many, two classes": _halved(_few_of_many),
    "steps of two classes": _halved(_steps),
    "mixtures of two classes": _mixture,
    "words": _words,
    "categories": _categories,
    "rules": _rules,
    "a rare class": _rare,
    "customers": _customers,
    "survey": _survey,
    "five classes": _five_classes,
    "households": _households,
}
