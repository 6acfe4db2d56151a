"""The lab's kernel out of a Debian package."""

import io
import subprocess
import tarfile
import types
from pathlib import Path

import pytest

from scmsim.lab import cache, kernel


def test_a_package_is_unpacked_below_the_labs_folder_by_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.2, Debian 12's own, has no extractall(filter=); names that lead out of the folder stay in it."""
    package, content = tmp_path / "linux-image-1.deb", io.BytesIO()
    package.touch()
    with tarfile.open(fileobj=content, mode="w") as files:
        for name in ("./boot/vmlinuz-1", "./lib/modules/1/nd.ko", "./usr/share/doc/x", "./../../boot/out"):
            files.addfile(tarfile.TarInfo(name), io.BytesIO())
    done = types.SimpleNamespace(returncode=0, stdout=content.getvalue())
    lab = tmp_path / "cache" / "lab"
    lab.mkdir(parents=True)
    monkeypatch.setattr(cache, "folder", lambda: lab)
    monkeypatch.setattr(kernel.shutil, "which", lambda program: program)
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)
    monkeypatch.setattr(tarfile.TarFile, "extractall", None)
    found = kernel.from_package(str(package))
    assert (found.release, Path(found.modules).name) == ("1", "1")
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {package.name, "vmlinuz-1", "nd.ko", "out"}
    assert all(lab in path.parents for path in tmp_path.rglob("*") if path.is_file() and path != package)
