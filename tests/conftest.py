"""Lets every test import the oracles and the shared lists as `reference`, and keeps small products on one thread."""

import sys
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure(config):
    # Hypothesis looks at it while it reports a failure, which the warning would otherwise hide.
    config.addinivalue_line("filterwarnings", "ignore:mypy_extensions.TypedDict is deprecated:DeprecationWarning")


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
