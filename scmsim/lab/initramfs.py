"""Build the guest's initial RAM disk: the lab's program as init, mkfs tools with their libraries, kernel modules.

The archive format is cpio's "newc" (Linux, Documentation/driver-api/early-userspace/buffer-format.rst).  It is written
here, so that neither cpio nor root is needed.
"""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping

from scmsim.core.errors import EnvironmentProblem

PACKAGES = {"mke2fs": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs", "mkfs.f2fs": "f2fs-tools"}
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def tool(name: str) -> str:
    """Return the path of a tool; raises EnvironmentProblem, naming the package that contains it, if it is missing."""
    path = shutil.which(name, path=_PATH)
    if path is None:
        raise EnvironmentProblem(f"no program {name!r}; run: apt-get install {PACKAGES.get(name, name)}")
    return path


def with_libraries(path: str) -> dict[str, str]:
    """Return a program and the shared libraries that it needs: place in the guest -> file on this machine."""
    found = {path: path}
    done = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=60, env={"LC_ALL": "C"})
    for line in done.stdout.splitlines():
        match = re.match(r"\s*(?:(\S+) => )?(/\S+) \(0x", line)
        if match:
            found[match[1] if match[1] and match[1].startswith("/") else match[2]] = match[2]
    return found


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a gzipped newc archive of regular files, all executable, with their folders."""
    parts = [_entry(folder, b"", 0o040755, number) for number, folder in enumerate(_folders(files), 1)]
    parts += [_entry(name.lstrip("/"), content, 0o100755, 1000 + i) for i, (name, content) in enumerate(files.items())]
    parts.append(_entry("TRAILER!!!", b"", 0, 0))
    return gzip.compress(b"".join(parts), compresslevel=1, mtime=0)


def read(path: str | pathlib.Path) -> bytes:
    """Return the content of a file that goes into the archive."""
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise EnvironmentProblem(f"cannot read {str(path)!r}: {(error.strerror or str(error)).lower()}") from None


def _folders(names: Iterable[str]) -> list[str]:
    found = {str(parent).lstrip("/") for name in names for parent in pathlib.PurePosixPath("/", name).parents}
    return sorted(found - {""})


def _entry(name: str, content: bytes, mode: int, number: int) -> bytes:
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % value for value in fields) + path
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)
