"""Find how much memory this process may still allocate: the free memory of the machine or of its control group (Linux)."""

import os
from pathlib import Path

from scmsim.core.errors import EnvironmentProblem

_GROUPS = Path("/sys/fs/cgroup")
# files of a control group, versions 2 and 1: limit, current use, and the field of `memory.stat` with reclaimable page cache
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
_SMALL = 1 << 26  # bytes; smaller requests are never checked


def expect_room(count: int, what: str) -> None:
    """Raise EnvironmentProblem if fewer than `count` bytes of memory are available; `what` names their use in the error."""
    if count < _SMALL:
        return
    free = available()
    if free is not None and count > free:
        raise EnvironmentProblem(
            f"{what} need {count / 2**30:.1f} GiB of memory and this machine has {free / 2**30:.1f} GiB free; "
            "replay a part of the trace (trace cut, --under), or use a machine with more memory"
        )


def available() -> int | None:
    """Return the bytes available without swapping; None if unknown."""
    found = [_of_machine(), *_of_groups()]
    known = [free for free in found if free is not None]
    return max(min(known), 0) if known else None


def _of_machine() -> int | None:
    for line in _text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None


def _of_groups() -> list[int]:
    """Return the bytes left below the limit of each limited control group, from this process's group up to the root."""
    found = []
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _GROUPS / "memory" if controllers else _GROUPS
        group = Path(os.path.normpath(f"{root}/{name}"))
        while group.is_relative_to(root):
            found += _left(group)
            group = group.parent
    return found


def _left(group: Path) -> list[int]:
    for limit, taken, cache in _FILES:
        most, now = _text(group / limit).strip(), _text(group / taken).strip()
        if most.isdecimal() and now.isdecimal():
            stat = dict(line.split(maxsplit=1) for line in _text(group / "memory.stat").splitlines())
            return [int(most) - int(now) + int(stat.get(cache, 0))]
    return []


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
