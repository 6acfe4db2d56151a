"""Find mounted file systems that access persistent memory directly (DAX), by three indicators that must agree.

The indicators are statx of a file there, the options in /proc/mounts, and `queue/dax` of the block device. An option alone
proves nothing: older kernels accepted `dax` and silently used the page cache, and without the option ext4 on a pmem device
uses the page cache too. Alignments are in bytes.
Sources: Linux Documentation/filesystems/dax.rst and fs/dax.c.
"""

import re
from typing import NamedTuple

from scmsim.perf.machine import Machine

HUGE = 2 << 20  # bytes that one PMD entry maps on x86-64, and on arm64 with 4 KiB pages

_SHOWN = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "NOVA", "virtiofs", "erofs"}
_CAN_DAX = {"ext2", "ext4", "xfs", "virtiofs", "erofs"}


class Mount(NamedTuple):
    """One mounted file system.

    `dax` is None if the indicators disagree or are unavailable; `remark` states why, or how files are accessed.
    """

    point: str
    device: str
    type: str
    option: str  # "always", "inode", "never", or "default" if none is shown
    statx: bool | None
    queue: bool | None
    dax: bool | None
    remark: str


def mounts(machine: Machine) -> list[Mount]:
    """Return the mounted file systems that can hold an experiment, in the order of /proc/mounts."""
    found = {}
    for line in (machine.text("/proc/self/mounts") or machine.text("/proc/mounts") or "").splitlines():
        fields = [_unescaped(field) for field in line.split(" ")]
        if len(fields) >= 4 and fields[2] in _SHOWN:
            device, point, kind, options = fields[:4]
            found[point] = _examined(machine, device, point, kind, options.split(","))
    return list(found.values())


def _unescaped(field: str) -> str:
    """Return a field of /proc/mounts with its octal escapes (space, tab, newline, backslash) undone."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _examined(machine: Machine, device: str, point: str, kind: str, options: list[str]) -> Mount:
    option = next((o.partition("=")[2] or "always" for o in options if o == "dax" or o.startswith("dax=")), "default")
    queue = queue_dax(machine, device)
    statx = machine.dax(str(machine.path(point))) if kind in _CAN_DAX else None
    dax, remark = _verdict(kind, option, statx, queue)
    return Mount(point, device, kind, option, statx, queue, dax, remark)


def queue_dax(machine: Machine, device: str) -> bool | None:
    """Return whether a block device (or the disk of a partition) can do DAX; None if it is not a block device."""
    name = device.removeprefix("/dev/")
    if not device.startswith("/dev/") or "/" in name:
        return None
    folder = f"/sys/class/block/{name}"
    if machine.text(f"{folder}/partition") is not None:
        folder += "/.."  # in sysfs the kernel follows the link of class/block before it goes up
    value = machine.number(f"{folder}/queue/dax")
    return None if value is None else value == 1


def _verdict(kind: str, option: str, statx: bool | None, queue: bool | None) -> tuple[bool | None, str]:
    if kind == "NOVA":
        return True, "NOVA always reaches the medium directly"
    if kind not in _CAN_DAX:
        return False, "in memory" if kind == "tmpfs" else "page cache"
    if statx is None:
        return (None, "a file there could not be examined") if option != "never" and queue else (False, "page cache")
    if statx:
        return (None, "statx reports DAX, but queue/dax is 0") if queue is False else (True, "direct access")
    if option == "always":
        return None, "mounted with dax, but files are accessed through the page cache"
    return False, "page cache in front of persistent memory: mount with dax=always" if queue else "page cache"


class Region(NamedTuple):
    """A pmem block device or a partition of one: where it starts, and whether 2 MiB mappings are possible."""

    device: str
    start: int | None  # physical address; None if only root may read it
    align: int | None  # alignment of the namespace, as ndctl set it
    numa_node: int | None
    huge: bool | None
    remark: str


def regions(machine: Machine) -> list[Region]:
    """Return the persistent-memory block devices with their alignment."""
    return [_region(machine, name) for name in machine.names("/sys/class/block") if name.startswith("pmem")]


def _region(machine: Machine, name: str) -> Region:
    folder = f"/sys/class/block/{name}"
    partition = machine.text(f"{folder}/partition") is not None
    offset = 512 * (machine.number(f"{folder}/start") or 0) if partition else 0
    disk = f"{folder}/.." if partition else folder
    start = machine.number(f"{disk}/device/resource")
    align = machine.number(f"{disk}/device/align")
    node = machine.number(f"{disk}/device/numa_node")
    if offset % HUGE:
        huge, remark = False, f"the partition starts at {offset}, not at a multiple of 2 MiB"
    elif start is not None and start % HUGE:
        huge, remark = False, f"the namespace starts at {start:#x}, not at a multiple of 2 MiB"
    elif align is not None and align < HUGE:
        huge, remark = False, f"the namespace is aligned to {align} bytes"
    elif start is None and align is None:
        huge, remark = None, "its start can be read by root only"
    else:
        huge, remark = True, "2 MiB mappings are possible"
    return Region(f"/dev/{name}", start, align, node, huge, remark)
