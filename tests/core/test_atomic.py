"""Output files: written atomically, and never in the place of a device."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from scmsim.core.atomic import unwritten, whole, writable, writable_folder
from scmsim.core.errors import EnvironmentProblem, UsageError


def test_a_draft_takes_the_place_of_the_file_and_follows_links(tmp_path: Path) -> None:
    (tmp_path / "link.txt").symlink_to(tmp_path / "file.txt")
    with whole(tmp_path / "link.txt") as draft:
        draft.write_text("new")
        assert not (tmp_path / "file.txt").exists() and draft.suffix == ".txt"
    assert (tmp_path / "link.txt").is_symlink() and (tmp_path / "file.txt").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(EnvironmentProblem, match=f"cannot write '{file}': no space left"), whole(file) as draft:
        draft.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_only_a_broken_disk_is_a_problem_of_the_environment() -> None:
    assert isinstance(unwritten("a", OSError(errno.EIO, "Input/output error")), EnvironmentProblem)
    assert isinstance(unwritten("a", PermissionError(errno.EACCES, "Permission denied")), UsageError)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is empty"),
        ("folder", "'folder' is a folder"),
        ("no/file", "no folder 'no' for 'file'; create it first"),
        ("pipe", "'pipe' is a device or a pipe, which a file would replace"),
        ("link", "'link' is a device or a pipe"),
    ],
)
def test_no_file_takes_the_place_of_something_else(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    os.mkfifo("pipe")
    Path("link").symlink_to("pipe")
    with pytest.raises(UsageError, match=message):
        writable(name)
    with pytest.raises(UsageError, match=message), whole(name):
        pass
    assert Path("pipe").is_fifo() and Path("link").is_symlink()


def test_a_trace_that_the_system_does_not_take_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "big.parquet"
    words = f"-q synth pattern --op overwrite --order random --calls 20000 -o {out}".split()
    done = subprocess.run(
        [sys.executable, "-m", "scmsim", *words],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert (done.returncode, done.stdout) == (2, "")
    # nor does it say what it compiled
    assert done.stderr.endswith(f"scmsim: error: cannot write '{out}': file too large; choose another place\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_for_output_is_there_or_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert writable_folder(tmp_path) == tmp_path and writable_folder(tmp_path / "new") == tmp_path / "new"
    for name, message in (("file", "is not a folder"), ("no/new", "no folder"), ("file/new", "no folder")):
        with pytest.raises(UsageError, match=message):
            writable_folder(tmp_path / name)
    monkeypatch.setattr(os, "access", lambda *_: False)
    for path in (tmp_path, tmp_path / "new"):
        with pytest.raises(UsageError, match="is not writable"):
            writable_folder(path)
