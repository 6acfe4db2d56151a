"""Compiling ahead: nothing is left to compile, and where kernels cannot be kept nothing is tried."""

import os
import signal
import subprocess
import sys

import click
import numba
import pytest

from scmsim.cli import warm
from scmsim.core import registry
from scmsim.core.errors import EnvironmentProblem
from scmsim.core.records import OPS
from scmsim.jit.cache import KernelCache
from scmsim.pipeline import compile_ahead
from tests.conftest import NO_JIT

_REPLAY = """
import scmsim, scmsim.jit
from numba.core import event
from scmsim.workload.microbench import Workload
class Teller(event.Listener):
    def on_start(self, event):
        print(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass
event.register("numba:compile", Teller())
scmsim.replay(Workload(total=1 << 20), "ramfs")
"""


def run(*line: str, cache: object) -> str:
    """What a Python of its own prints, with compiled kernels in a folder of their own."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("NUMBA_CACHE_DIR", None)
    return subprocess.run([sys.executable, *line], env=environment, capture_output=True, text=True, check=True).stdout


def test_its_operations_are_all_that_there_are() -> None:
    batch, side = compile_ahead.few_operations(OPS)
    assert {OPS[code] for code in batch.op} == set(OPS)
    assert batch.file.max() < len(side)
    assert {OPS[code] for code in compile_ahead.few_operations(["read"])[0].op} == {"create", "write", "read"}


@pytest.mark.skipif(NO_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("fs", registry.names("fs"))
def test_the_first_kernel_of_a_model_is_one_that_is_kept(fs: str) -> None:
    assert isinstance(compile_ahead.first_kernel(fs)._cache, KernelCache)


@pytest.mark.slow
@pytest.mark.skipif(NO_JIT, reason="nothing is compiled")
def test_a_replay_after_it_compiles_nothing(tmp_path) -> None:
    assert run("-m", "scmsim", "warm", "--fs", "ramfs", "--jobs", "2", cache=tmp_path) == "compiled: ramfs\n"
    assert run("-c", _REPLAY, cache=tmp_path) == ""
    assert "run_fast_path" in run("-c", _REPLAY.replace("ramfs", "ext2"), cache=tmp_path)


def test_nothing_is_missing_where_nothing_can_be_kept(monkeypatch) -> None:
    monkeypatch.setattr(compile_ahead, "keeps", lambda: False)
    assert compile_ahead.missing(["nova-cow"], ["linux"]) == []


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_left_is_named(monkeypatch) -> None:
    monkeypatch.setattr(compile_ahead, "build", _die)
    assert compile_ahead.compile_pieces(["ramfs"], [], [], 1, lambda *_: None) == ["ramfs"]


def test_warm_says_where_it_cannot_write(monkeypatch, tmp_path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file" / "cache"))
    # another test may have run the command line, which puts a check of the context around the command
    with click.Context(warm.command), pytest.raises(EnvironmentProblem, match="XDG_CACHE_HOME"):
        warm.command.callback("ramfs", 1)
