"""How often a fit looks at its data, and predictions from several threads at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import sklearn.utils.validation
import torch
from scipy import sparse

import gyrfalcon as gf
from gyrfalcon import arrays, data
from gyrfalcon.estimators import choices, streams
from gyrfalcon.solvers import SOLVERS

pytestmark = pytest.mark.usefixtures("one_thread")

N, D = 900, 7  # so many columns as no block of vectors has
random = np.random.default_rng(0)
X = random.normal(size=(N, D))
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.05 * random.normal(size=N)
labels = np.where(y > 0.4, "high", "low")
KERNEL = gf.kernels.Gaussian(1.5)


# Arrays in memory are checked once.


@pytest.fixture
def checked(monkeypatch):
    """The shapes of all matrices that are searched for NaN and infinity, by Gyrfalcon or by scikit-learn."""
    shapes = []

    def counting(original):
        def check(values, *args, **more):
            if getattr(values, "ndim", 0) == 2:
                shapes.append(tuple(values.shape))
            return original(values, *args, **more)

        return check

    for module, name in ((arrays, "_check_finite"), (sklearn.utils.validation, "_assert_all_finite")):
        monkeypatch.setattr(module, name, counting(getattr(module, name)))
    return shapes


def rows_checked(shapes):
    """How many rows of X, a row that was checked twice counting twice. Few together, such as centers, do not count."""
    return sum(rows for rows, columns in shapes if columns == D and rows > N // 2)


def test_the_counters_count(checked):
    arrays.as_matrix(X[:600], "X")
    arrays.as_matrix(X[600:], "X")
    sklearn.utils.validation.check_array(X)
    gf.KernelMatrix(KERNEL, X)
    assert rows_checked(checked) == 600 + 2 * N


CASES = {
    **{solver: {"kernel": KERNEL, "solver": solver, "n_centers": 50} for solver in SOLVERS if solver != "exact"},
    "exact": {"kernel": KERNEL, "solver": "exact", "n_centers": N},
    "automatic": {"kernel": KERNEL, "n_centers": 50},
    "early stopping": {"kernel": KERNEL, "solver": "falkon", "n_centers": 50, "early_stopping": True},
    "uncertainty": {"kernel": KERNEL, "solver": "falkon", "n_centers": 50, "uncertainty": True},
    "kmeans": {"kernel": KERNEL, "centers": "kmeans", "n_centers": 50},
    "leverage": {"kernel": KERNEL, "centers": "leverage", "n_centers": 50},
    "pivoted": {"kernel": KERNEL, "centers": "pivoted", "n_centers": 50},
    "tuned": {"kernel": "gaussian", "penalty": "auto", "n_centers": 20, "tune": gf.tuning.Tuning(steps=2, rows=200)},
    "tuned by a grid": {
        "kernel": "gaussian",
        "penalty": "auto",
        "n_centers": 20,
        "tune": gf.tuning.PenaltyPath(rows=100, n_centers=20),
    },
}
SHORT = {"nytro": gf.solvers.Nytro(max_iterations=20), "sgd": gf.solvers.SGD(max_iterations=2)}


@pytest.mark.parametrize("name", CASES)
def test_a_fit_checks_an_array_once(name, checked):
    settings = CASES[name] | ({"solver": SHORT[name]} if name in SHORT else {})
    gf.KernelRegressor(**{"penalty": 1e-4, "random_state": 0, **settings}).fit(X, y)
    assert rows_checked(checked) == N


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_a_fit_of_a_classifier_checks_an_array_once(loss, checked):
    solver = {"hinge": gf.solvers.SGD(max_iterations=2)}.get(loss, "auto")
    gf.KernelClassifier(KERNEL, loss=loss, solver=solver, penalty=1e-4, n_centers=50).fit(X, labels)
    assert rows_checked(checked) == N


@pytest.mark.parametrize("kind", [lambda X: X, lambda X: torch.from_numpy(X)], ids=["array", "tensor"])
def test_a_fit_and_its_validation_data_are_checked_once_each_at_most(kind, checked):
    model = gf.KernelRegressor(KERNEL, solver="falkon", penalty=1e-4, n_centers=50, random_state=0)
    model.fit(kind(X), y, X_val=kind(X[:600]), y_val=y[:600])
    assert model.n_iter_ > 2
    assert N <= rows_checked(checked) <= N + 600


def test_a_prediction_checks_its_rows_once_at_most(checked):
    model = gf.KernelRegressor(KERNEL, penalty=1e-4, n_centers=50, random_state=0).fit(X, y)
    checked.clear()
    model.predict(X)
    assert rows_checked(checked) <= N
    checked.clear()
    model.predict(torch.from_numpy(X))
    assert rows_checked(checked) == N


# Many threads.

THREADS = 8
KINDS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "tensor": lambda X: torch.from_numpy(X.astype(np.float32)),
    "sparse": sparse.csr_array,
}


def row(points, i):
    return points[[i]] if sparse.issparse(points) else points[i : i + 1]


def at_once(task, count):
    """The task for 0 … count - 1, on threads that begin together."""
    ready = Barrier(THREADS)

    def share(thread):
        ready.wait()
        return [(i, task(i)) for i in range(thread, count, THREADS)]

    with ThreadPoolExecutor(THREADS) as pool:
        found = dict(pair for part in pool.map(share, range(THREADS)) for pair in part)
    return [found[i] for i in range(count)]


def copied(model, folder):
    """A fitted model that has prepared nothing for predictions yet."""
    model.save(folder / "model.safetensors")
    return gf.load(folder / "model.safetensors")


@pytest.mark.parametrize("kind", KINDS)
def test_single_rows_from_many_threads(kind, tmp_path):
    points = KINDS[kind](X)
    model = gf.KernelRegressor(KERNEL, n_centers=50, solver="direct", penalty=1e-4, random_state=0).fit(points, y)
    alone = [np.asarray(model.predict(row(points, i))) for i in range(200)]
    fresh = copied(model, tmp_path)
    together = at_once(lambda i: np.asarray(fresh.predict(row(points, i))), 200)
    np.testing.assert_array_equal(together, alone)
    assert len({float(value[0]) for value in alone}) > 150  # rows that were mixed up would show


def test_deviations_from_many_threads(tmp_path):
    model = gf.KernelRegressor(KERNEL, n_centers=50, solver="direct", penalty=1e-4, random_state=0).fit(X, y)
    alone = [model.predict(X[i : i + 1], return_std=True) for i in range(100)]
    fresh = copied(model, tmp_path)
    np.testing.assert_array_equal(at_once(lambda i: fresh.predict(X[i : i + 1], return_std=True), 100), alone)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_classes_from_many_threads(method, tmp_path):
    model = gf.KernelClassifier(KERNEL, loss="logistic", n_centers=50, penalty=1e-4, random_state=0).fit(X, labels)
    alone = [getattr(model, method)(X[i : i + 1]) for i in range(100)]
    fresh = copied(model, tmp_path)
    np.testing.assert_array_equal(at_once(lambda i: getattr(fresh, method)(X[i : i + 1]), 100), alone)


def test_rows_of_other_numbers_from_many_threads(tmp_path):
    """Threads that ask for one row and for many at once."""
    model = gf.KernelRegressor(KERNEL, n_centers=50, solver="direct", penalty=1e-4, random_state=0).fit(X, y)
    sizes = [1, 7, 64, 300]
    alone = [model.predict(X[: sizes[i % 4]] + 0.01 * i) for i in range(80)]
    fresh = copied(model, tmp_path)
    together = at_once(lambda i: fresh.predict(X[: sizes[i % 4]] + 0.01 * i), 80)
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_array_equal(found, expected)


# Files are sampled once.


class Counted(data.Source):
    """Another source, and how many of its rows were read."""

    def __init__(self, inner):
        super().__init__(inner.where, inner.shape, inner.dtype, inner.names)
        self.inner, self.rows_read = inner, 0

    def _read(self, start, stop):
        for piece in self.inner._read(start, stop):
            self.rows_read += min(len(piece), stop - start)
            yield piece

    @property
    def sweeps(self):
        return self.rows_read / len(self)


@pytest.fixture(params=["parquet", "npy"])
def source(request, tmp_path):
    if request.param == "npy":
        np.save(tmp_path / "rows.npy", X)
        return Counted(data.open(tmp_path / "rows.npy").X)
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {f"f{j}": X[:, j] for j in range(D)}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=200)
    return Counted(data.open(tmp_path / "rows.parquet").X)


@pytest.fixture
def before_the_solve(source, monkeypatch):
    """Sweeps over the source that each fit had made when its solver was called."""
    monkeypatch.setattr(streams, "IN_MEMORY", 0)
    monkeypatch.setattr(choices, "RESERVOIR_ROWS", 200)
    found = []

    def counting(original):
        def prepare(*args, **more):
            found.append(source.sweeps)
            return original(*args, **more)

        return prepare

    for kind in (gf.solvers.Falkon, gf.solvers.Direct, gf.solvers.Newton, gf.solvers.EigenPro):
        monkeypatch.setattr(kind, "prepare", counting(kind.prepare))
    return found


def test_the_sweeps_are_counted(source):
    for _ in range(3):
        for _ in source.chunks():
            pass
    assert source.sweeps == 3
    source.take([0, N - 1])
    assert source.sweeps == 4


FITS = {
    "everything given": {"kernel": KERNEL, "penalty": 1e-4, "centers": X[:40], "solver": "falkon"},
    "uniform centers": {"kernel": KERNEL, "penalty": 1e-4, "n_centers": 40, "solver": "falkon"},
    "direct": {"kernel": KERNEL, "penalty": 1e-4, "n_centers": 40, "solver": "direct"},
    "eigenpro": {"kernel": KERNEL, "penalty": 1e-4, "n_centers": 40, "solver": "eigenpro"},
    "k-means": {"kernel": KERNEL, "penalty": 1e-4, "n_centers": 40, "centers": "kmeans", "solver": "falkon"},
    "leverage": {"kernel": KERNEL, "penalty": 1e-4, "n_centers": 40, "centers": "leverage", "solver": "falkon"},
    "pivoted": {"kernel": KERNEL, "penalty": 1e-4, "n_centers": 40, "centers": "pivoted", "solver": "falkon"},
    "length scale": {"kernel": "gaussian", "tune": None, "n_centers": 40, "solver": "falkon"},
    "tuned": {"n_centers": 40, "tune": gf.tuning.Tuning(steps=2, rows=100), "solver": "falkon"},
    "solver chosen": {"kernel": KERNEL, "penalty": 1e-4, "n_centers": 40},
    "robust": {"kernel": KERNEL, "penalty": 1e-4, "n_centers": 40, "loss": "robust"},
    "early stopping": {
        "kernel": KERNEL,
        "penalty": 1e-4,
        "n_centers": 40,
        "solver": "falkon",
        "early_stopping": True,
    },
}


@pytest.mark.parametrize("name", FITS)
def test_a_file_is_sampled_in_one_pass_before_the_solve(name, source, before_the_solve):
    model = gf.KernelRegressor(**FITS[name], random_state=0, verbose=False).fit(source, y)
    assert "streamed" in model.record_.plan
    assert before_the_solve[0] <= 1
    assert source.sweeps > 1  # the solve itself reads it
