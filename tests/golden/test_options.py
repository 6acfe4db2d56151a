"""The command that makes the golden files says in one line what it lacks, before it writes any."""

import os
import subprocess
import sys
from pathlib import Path

from tests.golden import options


def make(*names: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.golden.make", *names], cwd=Path(__file__).parents[2], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "NUMBA_DISABLE_JIT": "1", **environment},
    )  # fmt: skip


def test_a_model_without_a_small_device(tmp_path: Path) -> None:
    (tmp_path / "fs").mkdir()
    model = 'SUMMARY = "mine"\nSITES = {}\nPARAMS = {}\ndef start(p, f): ...\ndef emit(): ...\ndef space(s): ...\n'
    (tmp_path / "fs" / "mine.py").write_text(model)
    done = make("mine", SCMSIM_PLUGINS=str(tmp_path))
    expected = (
        "tests.golden.make: no capacity of a small device for 'mine'; add it to SMALL in tests/golden/options.py\n"
    )
    assert (done.returncode, done.stderr) == (1, expected)


def test_a_name_that_is_no_file_system() -> None:
    done = make("nova-cov")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "no file system named 'nova-cov'; did you mean 'nova-cow'?" in done.stderr


def test_every_bundled_model_has_a_small_device() -> None:
    assert options.problem([]) == ""
