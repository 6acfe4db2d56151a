"""Check that `scmsim perf run` goes on after kills and signals: no cell is lost or measured twice."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from scmsim.perf import targets
from tests.perf.helper import ONE_CELL, config, matrix, measure, needs_perf, records, result


@needs_perf
def test_what_a_kill_after_the_last_cell_left_is_removed(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path, **{**ONE_CELL, "backend": "software"})
    assert measure(small, tmp_path / "out") == 2
    (tmp_path / "a" / targets.MARKER).write_text("")
    (tmp_path / "a" / targets.DATA).write_text("left")
    (tmp_path / "out" / "loop").write_text("left")
    assert measure(small, tmp_path / "out") == 0
    assert os.listdir(tmp_path / "a") == [] and not (tmp_path / "out" / "loop").exists()


def test_a_finished_matrix_is_not_run_again(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path)
    assert measure(small, tmp_path / "out") == 16
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").iterdir()}
    assert measure(small, tmp_path / "out") == 0
    assert before == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").iterdir()}


MANY = {
    "operations": ("write", "rewrite", "read", "reread"),
    "file_sizes": (1 << 16, 1 << 17, 1 << 18),
    "units": (1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16),
    "repeats": 4,
}


def test_killed_fifty_times_nothing_is_lost_or_run_twice(tmp_path: pathlib.Path) -> None:
    whole = matrix(tmp_path, **MANY)
    measure(whole, tmp_path / "whole")
    slow = matrix(tmp_path, **MANY, backend_params={"delay": 300_000})
    out, draw, kills = tmp_path / "killed", random.Random(5), 0
    seen: dict[str, tuple[int, int]] = {}
    for _ in range(50):
        child = os.fork()
        if child == 0:
            try:
                measure(slow, out)
            finally:
                os._exit(0)
        wanted, late = len(seen) + draw.choice((0, 1)), time.monotonic() + 60  # cells, however slow the machine is
        while len(list((out / "cells").glob("[!.]*.json"))) < wanted and time.monotonic() < late:
            time.sleep(0.001)
        time.sleep(draw.uniform(0.0, 0.004))
        os.kill(child, signal.SIGKILL)
        kills += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        now = {path.name: path.stat() for path in (out / "cells").glob("[!.]*.json")} if out.exists() else {}
        found = {name: (about.st_ino, about.st_mtime_ns) for name, about in now.items()}
        assert seen.items() <= found.items()  # nothing lost, nothing written a second time
        seen = found
    assert kills == 50 and 10 < len(seen) < len(whole.cells())
    assert measure(slow, out) == len(whole.cells()) - len(seen)
    assert records(out) == records(tmp_path / "whole")
    assert result(slow, out).runs == result(whole, tmp_path / "whole").runs


@pytest.mark.slow
@needs_perf
def test_the_command_killed_and_stopped_while_it_measures(tmp_path: pathlib.Path) -> None:
    path = config(tmp_path)
    # enough cells, however slow this process is
    path.write_text(path.read_text().replace("repeats = 2", "repeats = 40"))
    argv = [
        sys.executable,
        "-m",
        "scmsim",
        "perf",
        "run",
        str(path),
        "--backend",
        "software",
        "-o",
        str(tmp_path / "out"),
    ]
    for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)):
        before = len(list((tmp_path / "out").glob("cells/*.json")))
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while child.poll() is None and len(list((tmp_path / "out").glob("cells/*.json"))) < before + 3:
            time.sleep(0.01)
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)
        assert child.returncode == code, (before, len(list((tmp_path / "out").glob("cells/*.json"))), errors)
        if number != signal.SIGKILL:
            assert "finished cells are kept" in errors.splitlines()[-1]
            assert list((tmp_path / "a").iterdir()) == [] and not (tmp_path / "out" / "loop").exists()
        wait_for_nobody(str(tmp_path))
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(records(tmp_path / "out")) == 320
    assert list((tmp_path / "a").iterdir()) == []


def wait_for_nobody(word: str) -> None:
    """No process that names the folder survives its parent."""
    for _ in range(200):
        lines = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        if not [line for line in lines if word.encode() in line]:
            return
        time.sleep(0.02)
    raise AssertionError([line for line in lines if word.encode() in line])
