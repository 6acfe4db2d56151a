"""The recovery model of docs/guide/crash.md checks the file system of notebook 07: a sound one passes, a broken order is found."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from scmsim import cli

ROOT = pathlib.Path(__file__).parents[2]
MODEL = re.search(  # type: ignore[index]
    r"MODEL = '''\n(.*?)'''",
    (ROOT / "notebooks" / "07_your_own_file_system.py").read_text(encoding="utf-8"),
    re.DOTALL,
)[1]
RECOVERY = re.search(  # type: ignore[index]
    r"^## A recovery model of your own$.*?^```python\n(.*?)^```$",
    (ROOT / "docs/guide/crash.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)[1]
HEAD = "op,path,path2,offset,length\n"
TRACE = HEAD + "\n".join(
    [
        "create,/a,,,", "write,/a,,0,10000", "write,/a,,10000,100", "create,/b,,,", "write,/b,,0,4096",
        "write,/a,,4000,5000", "write,/b,,8,24", "fsync,/b,,,", "read,/a,,0,10100", "write,/b,,4096,70000",
    ]
)  # fmt: skip
BROKEN = {  # a line of the model that is left out -> what is found
    "TAIL_FLUSH": r"/a has 0 bytes, expected 10000",
    "TAIL_FENCE": r"/a byte 4000 holds page 0 of operation 1, expected page 0 of operation 5",
    "LOG_FENCE": r"/a the commit has arrived, but not all of the record",
}


def crash(folder: pathlib.Path, model: str, trace: str) -> subprocess.CompletedProcess[str]:
    """Run `scmsim crash` on the model in a process of its own, as plug-ins stay imported."""
    for kind, text in (("fs", model), ("crash", RECOVERY)):
        (folder / kind).mkdir()
        (folder / kind / "redo_log.py").write_text(text, encoding="utf-8")
    (folder / "trace.csv").write_text(trace, encoding="utf-8")
    stored = str(folder / "trace.parquet")
    assert CliRunner().invoke(cli.main, ["trace", "convert", str(folder / "trace.csv"), stored]).exit_code == 0
    command = [sys.executable, "-m", "scmsim", "crash", stored, "--fs", "redo-log"]
    given = os.environ | {"SCMSIM_PLUGINS": str(folder), "NUMBA_DISABLE_JIT": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=given)


def without(line: str) -> str:
    """Return the model without one of its events."""
    changed, count = re.subn(rf"^ *emit_run\(s, out, {line},.*\n", "", MODEL, flags=re.MULTILINE)
    assert count == 1
    return changed


def test_a_sound_file_system_passes(tmp_path: pathlib.Path) -> None:
    done = crash(tmp_path, MODEL, TRACE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_fence_after_the_data_is_not_needed(tmp_path: pathlib.Path) -> None:
    done = crash(tmp_path, without("IN_PLACE_FENCE"), TRACE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("line", BROKEN)
def test_a_missing_flush_or_fence_is_found(tmp_path: pathlib.Path, line: str) -> None:
    done = crash(tmp_path, without(line), TRACE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(BROKEN[line], done.stdout), done.stdout


def test_what_the_model_has_no_stores_for_is_refused(tmp_path: pathlib.Path) -> None:
    done = crash(tmp_path, MODEL, TRACE + "\nunlink,/a,,,")
    assert done.returncode == 2
    assert "redo-log has no stores for 'unlink'" in done.stderr
