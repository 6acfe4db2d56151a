"""Compiled kernels on disk: no state of the folder stops a run, and a whole folder is used."""

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from scmsim.core import compiling, private
from scmsim.jit import cache, kernel
from tests.conftest import NO_JIT

pytestmark = pytest.mark.skipif(NO_JIT, reason="nothing is compiled")


def twice(x):
    return 2 * x


class Told(compiling.Watcher):
    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.ended = 0
        self.unkept: list[tuple[str, str]] = []

    def begins(self, module: str) -> None:
        self.compiled.append(module)

    def ends(self) -> None:
        self.ended += 1

    def not_kept(self, folder: str, why: str) -> None:
        self.unkept.append((folder, why))


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """A cache folder of the test's own."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache.KernelCache, "_keeps", True)
    monkeypatch.setattr(compiling, "watcher", Told())
    return compiling.watcher


def run() -> bool:
    """Call the kernel as a new process would; whether it was on disk."""
    fresh = kernel(twice)
    assert fresh(21) == 42
    return bool(fresh.stats.cache_hits)


def test_a_kernel_is_kept_and_only_compiling_is_told(told: Told) -> None:
    assert not run() and told.compiled == [__name__] and told.ended == 1
    assert run() and told.compiled == [__name__]


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "flipped"])
def test_a_damaged_file_is_made_anew(told: Told, tmp_path: Path, suffix: str, damage: str) -> None:
    run()
    (file,) = tmp_path.rglob(f"*{suffix}")
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    file.write_bytes(
        {"empty": b"", "cut": whole[: len(whole) // 2], "garbage": b"cgarbage\n" * 9, "flipped": bytes(flipped)}[damage]
    )
    assert not run(), "it is compiled again"
    assert run(), "and kept"
    assert not told.unkept and not list(tmp_path.rglob("*.tmp.*"))


def test_without_a_folder_it_is_compiled_and_told_once(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "/proc/nope")
    assert not run() and not run()
    ((folder, why),) = told.unkept
    assert folder.startswith("/proc/nope/") and why == "no such file or directory"
    package = Path(cache.__file__).parent
    assert not list(package.rglob("*.nbi")), "nor is anything written into the package"


def test_a_read_only_folder_is_read(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    run()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(private, "make", refuse)
    monkeypatch.setattr(cache._Files, "_open_for_write", refuse)
    assert run() and not told.unkept
    assert kernel(twice)(0.5) == 1.0 and told.unkept[0][1] == "read-only file system"


def test_a_full_disk_is_told_with_the_folder(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache._Files, "_save_data", full)
    assert not run() and not run()
    ((folder, why),) = told.unkept
    assert folder.startswith(str(tmp_path)) and why == "no space left on device"


def test_a_library_warns_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(
        UserWarning, match="cannot use '/a'.*read-only.*; name a writable folder of yours in XDG_CACHE_HOME"
    ):
        compiling.Watcher().not_kept("/a", "read-only file system")


def test_the_command_line_runs_without_a_cache_folder(tmp_path: Path) -> None:
    file = tmp_path / "a.u64"
    file.write_bytes(bytes(64))
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-m", "scmsim", "-q", "mmu", str(file), "--l1", "4x1", "--json"],
        env={**environment, "XDG_CACHE_HOME": "/proc/nope"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and '"accesses": 8' in done.stdout, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("scmsim: warning: compiled models are not kept") and "'/proc/nope/scmsim/" in line


class Planted:
    """What runs when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.mark),)


def plant(folder: Path, mark: Path) -> None:
    """Replace each index by one that makes a folder."""
    for index in folder.rglob("*.nbi"):
        data = pickle.dumps(Planted(mark))
        index.write_bytes(cache._digest(data) + data)


@pytest.mark.parametrize("where", ["folder", "parent", "file"])
def test_a_planted_index_does_not_run_where_others_can_write(told: Told, tmp_path: Path, where: str) -> None:
    run()
    mark = tmp_path / "ran"
    plant(tmp_path, mark)
    (index,) = tmp_path.rglob("*.nbi")
    place = {"folder": index.parent, "parent": tmp_path, "file": index}[where]
    place.chmod(0o777)
    cache._fault.cache_clear()
    assert not run() and not mark.exists()
    if where == "file":
        assert not told.unkept, "it is made again"
    else:
        assert [why for _, why in told.unkept] == [f"others can write to {str(place)!r}"]
        assert not run() and len(told.unkept) == 1
    cache._fault.cache_clear()
    place.chmod(0o700)
    plant(tmp_path, mark)
    run()
    assert mark.exists(), "the planted file works where it is trusted"


def test_folders_are_made_for_the_user_alone(told: Told, tmp_path: Path) -> None:
    run()
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert folders and all(path.stat().st_mode & 0o777 == 0o700 for path in folders)
