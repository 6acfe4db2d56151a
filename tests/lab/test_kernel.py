"""Check the lab's kernel: from a Debian package or an image, its modules and configuration, and the archive it unpacks."""

import io
import subprocess
import tarfile
import types
from pathlib import Path

import pytest

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.lab import cache, initramfs, kernel


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


def test_archive_is_newc():
    import gzip

    content = gzip.decompress(initramfs.archive({"/a/b": b"12345"}))
    assert content.startswith(b"070701")
    assert b"a/b\0" in content and b"12345" in content and content.endswith(b"TRAILER!!!\0\0\0\0")
    assert len(content) % 4 == 0


def make_modules(folder):
    (folder / "fs").mkdir(parents=True)
    (folder / "fs/xfs.ko").write_bytes(b"\x7fELF\0license=GPL\0depends=libcrc32c,\0name=xfs\0")
    (folder / "fs/libcrc32c.ko").write_bytes(b"\x7fELF\0depends=\0")
    (folder / "fs/crc32c-intel.ko").write_bytes(b"\x7fELF\0depends=\0")
    return folder


def test_modules_come_after_those_that_they_need(tmp_path):
    found = kernel.module_files(
        kernel.Kernel("vmlinuz", str(make_modules(tmp_path / "6.1"))), ["crc32c-intel", "xfs", "builtin"]
    )
    assert list(found) == ["crc32c_intel", "libcrc32c", "xfs"]


def test_kernel_without_dax_is_told_from_its_configuration(tmp_path):
    config = tmp_path / "config"
    config.write_text("CONFIG_X86_PMEM_LEGACY=m\nCONFIG_BLK_DEV_PMEM=m\n# CONFIG_FS_DAX is not set\n")
    found = kernel.Kernel("vmlinuz", "", "9.9", str(config))
    found.check(dax=False)
    with pytest.raises(EnvironmentProblem, match="CONFIG_FS_DAX"):
        found.check()


def test_an_image_that_is_none(tmp_path):
    path = tmp_path / "bzImage"
    path.write_bytes(bytes(2048))
    with pytest.raises(UsageError, match="not a bzImage"):
        kernel.from_image(str(path))
    path.write_bytes(bytes(514) + b"HdrS" + bytes(512))
    assert kernel.from_image(str(path)).version() == "bzImage"
