"""Settings for the whole suite: examples without deadlines, and a mode without compiled kernels
(NUMBA_DISABLE_JIT=1)."""

import os
import signal
import threading

import numpy as np
import pytest
from hypothesis import settings

from tests import plain_records

NO_JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
if NO_JIT:
    plain_records.install()
    np.seterr(divide="raise")  # a compiled kernel goes on with whatever comes of it

# Derandomized, so that a run says something about the change and not about the draw; `--hypothesis-profile=search`
# draws.
settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.register_profile("no-jit", deadline=None, derandomize=True, max_examples=5)
settings.load_profile("no-jit" if NO_JIT else "default")


def pytest_configure() -> None:
    """Signals that nohup, cron or a script's background ignore would be ignored by every program that a test starts."""
    if threading.current_thread() is threading.main_thread():
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
            if signal.getsignal(number) == signal.SIG_IGN:
                signal.signal(number, usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without compiled kernels the slow tests are hopeless, not wrong."""
    if NO_JIT:
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow, and NUMBA_DISABLE_JIT is set"))
