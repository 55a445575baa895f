"""Stochastic steps in the compiled core: whatever does not fit together is refused before any memory is touched."""

import numpy as np
import pytest

native = pytest.importorskip("gyrfalcon._native")

ones, zeros = np.ones, np.zeros


def _call(n=5, t=2, runs=3, batch=2, **changes):
    batches = -(-n // batch) if batch > 0 else 1
    given = {
        "loss": "squared",
        "parameter": 0.5,
        "batch": batch,
        "gram": np.eye(n),
        "f": zeros((runs * t, n)),
        "targets": ones((n, t)),
        "weights": ones((runs, n)),
        "steps": np.full((runs, batches), 0.25),
        "votes": ones((runs, batches)),
        "penalty": 0.0,
        "rate": 0.0,
        "coefficients": np.full((runs * t, n), np.nan),
        "averages": np.full((runs * t, n), np.nan),
        "shrinks": np.full((runs, 1), np.nan),
        "shares": np.full((runs, 1), np.nan),
        "intercepts": zeros((runs, t)),
        "sums": zeros((runs, t)),
        "threads": 2,
    } | changes
    native.run_sgd(**given)
    return given


def test_native_steps_take_what_fits():
    given = _call()
    assert (given["coefficients"][:, :4] == 0.25).all()  # the mean over two rows, each of slope -2
    assert (given["coefficients"][:, 4] == 0.5).all()
    assert (given["averages"][:, :2] == 0.5).all()  # before the second and the third step
    assert (given["averages"][:, 4] == 0).all()
    assert (given["shrinks"] == 1).all()
    assert (given["shares"] == 3).all()


@pytest.mark.parametrize("loss", native.losses())
@pytest.mark.parametrize(("n", "t", "runs", "batch"), [(1, 1, 1, 1), (9, 3, 2, 4), (300, 1, 5, 1), (17, 40, 1, 17)])
@pytest.mark.parametrize("threads", [-1, 1, 4])
def test_native_steps_of_any_shape_are_finite(loss, n, t, runs, batch, threads):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n, 3))
    codes = np.eye(t)[rng.integers(t, size=n)]
    gram = np.exp(-((points[:, None] - points) ** 2).sum(2))
    given = _call(n, t, runs, batch, loss=loss, targets=codes, gram=gram, penalty=1.0, rate=1.0, threads=threads)
    for name in ("f", "coefficients", "averages", "shrinks", "shares", "intercepts", "sums"):
        assert np.isfinite(given[name]).all()
    assert (given["shrinks"] < 1).all()


@pytest.mark.parametrize("loss", native.losses())
def test_native_steps_survive_predictions_far_off(loss):
    far = np.repeat([[1e6], [-1e6]], 5, axis=1)
    given = _call(runs=1, loss=loss, f=far, targets=np.tile([1.0, 0.0], (5, 1)), batch=1, gram=zeros((5, 5)))
    assert np.isfinite(given["coefficients"]).all()


def test_native_steps_of_zero_leave_models_alone():
    given = _call(steps=zeros((3, 3)), intercepts=ones((3, 2)), penalty=0.1, rate=1.0)
    assert (given["coefficients"] == 0).all()
    assert (given["intercepts"] == 1).all()
    assert (given["shares"] == 0).all()
    assert (given["f"] == 1).all()
    given = _call(weights=zeros((3, 5)), rate=1.0)
    assert (given["coefficients"] == 0).all()
    assert (given["intercepts"] == 0).all()


def test_native_one_batch_needs_no_gram_matrix():
    assert (_call(batch=5, gram=None)["coefficients"] == 0.1).all()


def test_native_steps_through_no_rows_or_no_runs():
    given = _call(n=0)
    assert (given["shrinks"] == 1).all()
    assert (given["shares"] == 0).all()
    _call(runs=0)


REFUSED = {
    "unknown loss": {"loss": "cubic"},
    "loss by number": {"loss": 0},
    "parameter is NaN": {"parameter": np.nan},
    "penalty is infinite": {"penalty": np.inf},
    "rate is NaN": {"rate": np.nan},
    "batch of none": {"batch": 0},
    "negative batch": {"batch": -1},
    "no gram matrix for many batches": {"gram": None},
    "gram matrix too small": {"gram": np.eye(4)},
    "gram matrix not square": {"gram": ones((5, 4))},
    "gram matrix in columns": {"gram": np.asfortranarray(ones((5, 5)))},
    "gram matrix of floats": {"gram": np.eye(5, dtype=np.float32)},
    "f too short": {"f": zeros((6, 4))},
    "f of one run": {"f": zeros((2, 5))},
    "f with steps between": {"f": zeros((6, 10))[:, ::2]},
    "targets of no output": {"targets": zeros((5, 0))},
    "targets of one dimension": {"targets": ones(5)},
    "weights too short": {"weights": ones((3, 4))},
    "steps too few": {"steps": ones((3, 2))},
    "steps of one run": {"steps": ones((1, 3))},
    "votes too many": {"votes": ones((3, 4))},
    "coefficients too few": {"coefficients": zeros((6, 4))},
    "averages too few": {"averages": zeros((5, 5))},
    "shrinks too few": {"shrinks": zeros((2, 1))},
    "shares too wide": {"shares": zeros((3, 2))},
    "intercepts of one output": {"intercepts": zeros((3, 1))},
    "sums of one run": {"sums": zeros((1, 2))},
    "threads by name": {"threads": "all"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_native_steps_refuse(case):
    with pytest.raises((ValueError, TypeError)):
        _call(**REFUSED[case])


def test_native_steps_refuse_to_write_what_is_read_only():
    f = zeros((6, 5))
    f.flags.writeable = False
    with pytest.raises((ValueError, TypeError)):
        _call(f=f)
