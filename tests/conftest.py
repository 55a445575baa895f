"""Lets every test import the oracles and the shared lists as `reference`, and keeps small products on one thread."""

import os
import sys
from pathlib import Path

# Before PyTorch is loaded, and for the processes that tests start: threads of several workers on the same processors
# wait for each other, which takes ten times as long as the products of tests. Tests of threads ask for their own.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))

# Files whose fixtures take longer than their tests: one worker runs all of such a file.
TOGETHER = {
    "test_bad_files.py",
    "test_browser.py",
    "test_commands.py",
    "test_dask.py",
    "test_planning.py",
    "test_styles.py",
}


def pytest_configure(config):
    # Hypothesis looks at it while it reports a failure, which the warning would otherwise hide.
    config.addinivalue_line("filterwarnings", "ignore:mypy_extensions.TypedDict is deprecated:DeprecationWarning")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(item.path.parent.name))


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
