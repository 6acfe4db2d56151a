"""Find where the blocks of a real file are, and how its file system is mounted, without changing anything.

Source: Linux Documentation/filesystems/fiemap.rst, include/uapi/linux/fiemap.h; mountinfo in proc(5).
"""

import array
import errno
import fcntl
import os
import pathlib
import stat
import struct
from typing import NamedTuple

import numpy as np

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.study.page_size.rules import PAGE, Extents, joined

_FIEMAP = 0xC020660B  # FS_IOC_FIEMAP: _IOWR('f', 11, struct fiemap)
_SYNC = 1  # FIEMAP_FLAG_SYNC: allocate delayed blocks first
_LAST, _UNKNOWN, _DELALLOC, _UNWRITTEN = 1, 2, 4, 0x800  # FIEMAP_EXTENT_...
_HEAD, _EXTENT = struct.Struct("=QQIIII"), struct.Struct("=QQQ2QI3I")
_AT_ONCE = 512  # extents per FIEMAP request
_SECTOR = 512


class Place(NamedTuple):
    """The file system of a file."""

    fs: str
    options: dict[str, str]
    source: str
    device: str  # MAJOR:MINOR

    @property
    def dax(self) -> bool:
        """Return whether mappings bypass the page cache, according to the mount options."""
        return "dax" in self.options and self.options["dax"] in ("", "always")


def opened(path: "str | os.PathLike[str]") -> int:
    """Return a descriptor for reading a regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"cannot read {os.fspath(path)!r}: {(error.strerror or '').lower()}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{os.fspath(path)!r} is not a regular file; name a file that programs map")
    return descriptor


def place_of(descriptor: int, mountinfo: str = "/proc/self/mountinfo") -> Place:
    """Return the file system of a file, from the list of mounts."""
    number = os.fstat(descriptor).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    for line in pathlib.Path(mountinfo).read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        mount, _, after = line.partition(" - ")
        fields, (fs, source, *more) = mount.split(), after.split(" ")
        if fields[2] == device:
            words = [*fields[5].split(","), *"".join(more[:1]).split(",")]
            return Place(fs, dict(word.partition("=")[::2] for word in words if word), source, device)
    return Place("unknown", {}, "", device)


def device_start(device: str, sys: str = "/sys/dev/block") -> int | None:
    """Return the offset of a partition on its disk, bytes; 0 for a whole disk, None if `device` is not a block device."""
    folder = pathlib.Path(sys) / device
    try:
        return int((folder / "start").read_text()) * _SECTOR
    except FileNotFoundError:
        return 0 if folder.exists() else None


def extents(descriptor: int) -> Extents:
    """Return the extents of a file from FIEMAP; places are offsets on the file system's device, in pages of 4 KiB."""
    rows, start = [], 0
    while True:
        room = array.array("B", bytes(_HEAD.size + _AT_ONCE * _EXTENT.size))
        _HEAD.pack_into(room, 0, start, (1 << 63) - 1 - start, _SYNC, 0, _AT_ONCE, 0)
        try:
            fcntl.ioctl(descriptor, _FIEMAP, room)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL):
                raise EnvironmentProblem(
                    "this file system has no FIEMAP, so the places of the file's blocks are unknown; copy it to ext4 or xfs"
                ) from None
            raise
        mapped = _HEAD.unpack_from(room)[3]
        found = [_EXTENT.unpack_from(room, _HEAD.size + k * _EXTENT.size) for k in range(mapped)]
        rows += [(logical, physical, length, flags) for logical, physical, length, _, _, flags, *_ in found]
        if not mapped or found[-1][5] & _LAST:
            break
        start = found[-1][0] + found[-1][2]
    known = [row for row in rows if not row[3] & (_UNKNOWN | _DELALLOC)]
    logical, physical, length, flags = np.array(known, np.int64).reshape(-1, 4).T
    return joined(Extents(logical // PAGE, -(-length // PAGE), physical // PAGE, flags & _UNWRITTEN != 0))
