"""Parse /proc/PID/smaps: how much of each file a process maps, and how much of that with entries of 2 MiB.

Units: KiB.  The lines of large pages exclude DAX (Linux fs/proc/task_mmu.c: smaps_pmd_entry counts only pages of
memory).  Source: proc_pid_smaps(5).
"""

import re

LINES = ("Size", "Rss", "FilePmdMapped", "ShmemPmdMapped", "KernelPageSize")
_HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+\s*(.*)$")
_LINE = re.compile(rf"({'|'.join(LINES)}):\s+(\d+) kB")


def by_file(text: str) -> dict[str, dict[str, int]]:
    """Return the sums of LINES over the mappings of each file; for KernelPageSize the minimum."""
    found: dict[str, dict[str, int]] = {}
    sums: dict[str, int] = {}
    for line in text.splitlines():
        if head := _HEAD.match(line):
            sums = found.setdefault(head[4], {}) if head[4].startswith("/") else {}
        elif value := _LINE.match(line):
            name, kib = value[1], int(value[2])
            sums[name] = min(sums.get(name, kib), kib) if name == "KernelPageSize" else sums.get(name, 0) + kib
    return found


def ranges(text: str, path: str) -> list[tuple[int, int, int]]:
    """Return (first address, address after the last, offset in the file) of each mapping of a file."""
    heads = (_HEAD.match(line) for line in text.splitlines())
    return [(int(head[1], 16), int(head[2], 16), int(head[3], 16)) for head in heads if head and head[4] == path]
