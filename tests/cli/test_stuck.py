"""A signal ends a process whose kernel does not return."""

import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import NO_JIT

ENDLESS = """
import os, sys, threading
import numba
from scmsim.cli import _stuck

@numba.njit(nogil=True)
def endless(x):
    while x > 0:
        x = x * 3 & 0xffff | 1
    return x

def work():
    endless(1)

endless(0)
_stuck.watch(os._exit, os.path.dirname(os.path.abspath(__file__)))
if sys.argv[1] == "pool":
    threading.Thread(target=work).start()
print("ready", flush=True)
endless(1) if sys.argv[1] == "main" else threading.Event().wait()
"""


@pytest.mark.skipif(NO_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("thread", ["main", "pool"])
def test_a_kernel_that_does_not_return_is_left(tmp_path, thread):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS, encoding="utf-8")
    with subprocess.Popen([sys.executable, str(script), thread], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        time.sleep(0.5)  # until it is in the kernel
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(20)
        finally:
            process.kill()
    assert code == 130
    assert time.monotonic() - start < 10
