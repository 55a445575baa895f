"""Problems at which fits used to take far longer than their arithmetic: CPU seconds beside something with a name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.svm import SVC, LinearSVC

import gyrfalcon as gf

from . import machine, report

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Row:
    """CPU seconds on one thread of what was measured and of what it is compared with, and what both reached."""

    problem: str
    seconds: float
    beside: str
    other_seconds: float
    remark: str

    def __str__(self) -> str:
        ratio = self.seconds / max(self.other_seconds, 1e-9)
        beside = f"{self.beside} {self.other_seconds:.2f} s, {ratio:.1f} x"
        return f"{self.problem:>34}: {self.seconds:.2f} s; {beside}; {self.remark}"


def run(quick: bool, only: str | None = None) -> None:
    machine.take_one_thread()
    described = machine.describe()
    print(machine.headline(described), "CPU seconds, one thread, default arguments", sep="\n")
    gf.KernelRegressor(verbose=False).fit(np.zeros((60, 1)) + np.arange(60.0)[:, None], np.arange(60.0))  # imports
    rows = []
    for name, measure in PROBLEMS.items():
        if only is None or name in only.split(","):
            rows.append(measure(10 if quick else 1))
            print(rows[-1], flush=True)
            report.write_json(report.FOLDER / "cliffs.json", {"machine": described, "rows": [asdict(r) for r in rows]})


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def _classifier(**settings: Any) -> gf.KernelClassifier:
    return gf.KernelClassifier(random_state=0, verbose=False, **settings)


def _regressor(**settings: Any) -> gf.KernelRegressor:
    return gf.KernelRegressor(random_state=0, verbose=False, **settings)


def digits(smaller: int) -> Row:
    """The logistic loss on ten classes, 1,197 rows."""
    X, y = load_digits(return_X_y=True)
    X, y, rest, truth = X[: 1197 // smaller], y[: 1197 // smaller], X[1197:], y[1197:]
    model, seconds = _timed(lambda: _classifier(loss="logistic").fit(X, y))
    other, other_seconds = _timed(lambda: SVC().fit(X, y))
    remark = f"accuracy {model.score(rest, truth):.4f}, {other.score(rest, truth):.4f}"
    return Row("digits, logistic loss", seconds, "SVC", other_seconds, remark)


def _groups(classes: int, rows: int) -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    labels = random.integers(classes, size=rows)
    return random.normal(size=(classes, 20))[labels] + 0.5 * random.normal(size=(rows, 20)), labels


def classes(count: int, smaller: int) -> Row:
    """So many classes of 5,000 rows, with a kernel that is given: the solve itself."""
    rows = 5000 // smaller
    X, y = _groups(max(3, count // smaller), 2 * rows)
    given = {"kernel": gf.kernels.Gaussian(4.0), "penalty": 1e-5}
    model, seconds = _timed(lambda: _classifier(loss="logistic", **given).fit(X[:rows], y[:rows]))
    other, other_seconds = _timed(lambda: _classifier(**given).fit(X[:rows], y[:rows]))
    remark = f"accuracy {model.score(X[rows:], y[rows:]):.4f}, {other.score(X[rows:], y[rows:]):.4f}"
    return Row(f"{count:,} classes, logistic loss", seconds, "squared loss", other_seconds, remark)


def wide(rows: int, features: int, smaller: int) -> Row:
    """Far more features than a kernel can use, beside the solve alone."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows // smaller, features // smaller))
    y = X[:, :5].sum(1) + 0.1 * random.normal(size=len(X))
    model, seconds = _timed(lambda: _regressor().fit(X, y))
    _, other_seconds = _timed(lambda: _regressor(kernel=model.kernel_, penalty=model.penalty_).fit(X, y))
    remark = f"kernel {type(model.kernel_).__name__}"
    return Row(f"{rows:,} rows of {features:,} features", seconds, "without tuning", other_seconds, remark)


def text(smaller: int) -> Row:
    """TF-IDF of 15,000 texts on 20 topics with 2,880 words, drawn by Zipf's law."""
    n = 15_000 // smaller
    X, y = _texts(n + 4000 // smaller)
    model, seconds = _timed(lambda: _classifier().fit(X[:n], y[:n]))
    other, other_seconds = _timed(lambda: LinearSVC().fit(X[:n], y[:n]))
    scores = f"accuracy {model.score(X[n:], y[n:]):.4f}, {other.score(X[n:], y[n:]):.4f}"
    return Row("sparse text", seconds, "LinearSVC", other_seconds, f"{scores}; {model.record_.reason}")


def _texts(n: int, words: int = 2880, topics: int = 20, share: float = 0.25) -> tuple[Any, Array]:
    """Words of a common language, of the topic and, in a quarter of the places, of another topic."""
    random = np.random.default_rng(0)
    common = 1 / np.arange(1, words + 1) ** 1.05
    common /= common.sum()
    own = random.gamma(0.06, size=(topics, words)) * common**0.7
    own /= own.sum(1, keepdims=True)
    chances = np.cumsum((1 - share) * common + share * own, axis=1)
    labels, others = random.integers(topics, size=(2, n))
    lengths = np.maximum(random.lognormal(np.log(80), 0.6, n).astype(int), 10)
    found = []
    for label, other, length in zip(labels, others, lengths, strict=True):
        mine = int(0.75 * length)
        found.append(np.searchsorted(chances[label], random.random(mine)))
        found.append(np.searchsorted(chances[other], random.random(length - mine)))
    places = np.minimum(np.concatenate(found), words - 1)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    counts = sparse.csr_matrix((np.ones(len(places)), places, starts), shape=(n, words))
    counts.sum_duplicates()
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts).tocsr(), labels


def deviations(centers: int, smaller: int) -> Row:
    """Standard deviations of 100,000 rows, beside their predictions."""
    random = np.random.default_rng(0)
    X = random.normal(size=(100_000 // smaller, 8))
    y = np.sin(X[:, 0]) + 0.1 * random.normal(size=len(X))
    given = {"kernel": gf.kernels.Gaussian(3.0), "penalty": 1e-6, "partition": None, "uncertainty": True}
    model = _regressor(**given, n_centers=centers // smaller).fit(X[: 20_000 // smaller], y[: 20_000 // smaller])
    model.predict(X[:100], return_std=True)
    _, seconds = _timed(lambda: model.predict(X, return_std=True))
    _, other_seconds = _timed(lambda: model.predict(X))
    return Row(f"deviations, {centers:,} centers", seconds, "predictions alone", other_seconds, "100,000 rows")


def one_feature(smaller: int) -> Row:
    """A million rows of one feature, beside ten thousand of them."""
    random = np.random.default_rng(0)
    X = random.uniform(0, 10, size=(1_000_000 // smaller, 1))
    y = np.sin(X[:, 0]) + 0.1 * random.normal(size=len(X))
    model, seconds = _timed(lambda: _regressor().fit(X, y))
    _, other_seconds = _timed(lambda: _regressor().fit(X[:10_000], y[:10_000]))
    remark = f"{len(model.centers_):,} centers, {model.record_.solver}"
    return Row("a million rows of one feature", seconds, "10,000 rows", other_seconds, remark)


def categories(smaller: int) -> Row:
    """A table of nothing but categories, beside the solve alone."""
    random = np.random.default_rng(0)
    codes = random.integers(8, size=(20_000 // smaller, 6))
    y = (codes[:, 0] == codes[:, 1]) + codes[:, 2] / 8 + 0.1 * random.normal(size=len(codes))
    table = {f"c{j}": np.array([f"k{code}" for code in column]) for j, column in enumerate(codes.T)} | {"y": y}
    model, seconds = _timed(lambda: gf.TableModel(_regressor()).fit(table, "y"))
    fitted = model.estimator_
    given = _regressor(kernel=fitted.kernel_, penalty=fitted.penalty_, partition=None)
    X = model.features({name: table[name] for name in table if name != "y"})
    _, other_seconds = _timed(lambda: given.fit(X, y))
    return Row("20,000 rows of six categories", seconds, "without tuning", other_seconds, f"{fitted.record_.solver}")


def noise(smaller: int) -> Row:
    """A target that has nothing to do with the features."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(4000 // smaller, 20)), random.normal(size=4000 // smaller)
    half = len(X) // 2
    model, seconds = _timed(lambda: _regressor().fit(X[:half], y[:half]))
    _, other_seconds = _timed(lambda: _regressor().fit(X[:half], np.sin(X[:half, 0])))
    return Row(
        "pure noise", seconds, "a sine", other_seconds, f"r2 of other rows {model.score(X[half:], y[half:]):.3f}"
    )


def dask(smaller: int) -> Row:
    """300,000 rows in partitions and 300 centers, beside the same rows in one array."""
    import dask.array as da

    random = np.random.default_rng(0)
    X = random.normal(size=(300_000 // smaller, 10))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * random.normal(size=len(X))
    parts = da.from_array(X, chunks=(50_000 // smaller, 10))
    model, seconds = _timed(lambda: _regressor(n_centers=300).fit(parts, y))
    _, other_seconds = _timed(lambda: _regressor(n_centers=300).fit(X, y))
    remark = f"r2 {model.score(parts, y):.4f}, threads of this process"
    return Row("300,000 rows of Dask", seconds, "one array", other_seconds, remark)


PROBLEMS: dict[str, Callable[[int], Row]] = {
    "digits": digits,
    "classes_300": lambda smaller: classes(300, smaller),
    "classes_1000": lambda smaller: classes(1000, smaller),
    "wide_2000": lambda smaller: wide(2000, 5000, smaller),
    "wide_200": lambda smaller: wide(200, 50_000, smaller),
    "wide_500": lambda smaller: wide(500, 20_000, smaller),
    "text": text,
    "deviations_300": lambda smaller: deviations(300, smaller),
    "deviations_3000": lambda smaller: deviations(3000, smaller),
    "one_feature": one_feature,
    "categories": categories,
    "noise": noise,
    "dask": dask,
}
