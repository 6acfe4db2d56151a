"""Read from /proc/meminfo how many bytes of DRAM the kernel maps with each page size."""

import os
import re

from scmsim.core.errors import UsageError

_FIELDS = {"DirectMap4k": "direct_4k", "DirectMap2M": "direct_2m", "DirectMap1G": "direct_1g"}
_MOST = 1 << 20  # maximum bytes to read; /proc/meminfo has about 2 KiB


def read(path: str | os.PathLike[str]) -> dict[str, int]:
    """Return the bytes of DRAM mapped with each page size, by paging parameter: direct_4k, direct_2m, direct_1g.

    Raises
    ------
    UsageError
        If the file cannot be read or has no DirectMap lines.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {os.fspath(path)!r}: {reason}; give a copy of /proc/meminfo") from None
    found = dict(re.findall(r"^(DirectMap\w+): +(\d{1,15}) kB$", text, re.MULTILINE))
    if not found.keys() & _FIELDS.keys() or not any(map(int, found.values())):
        raise UsageError(
            f"{os.fspath(path)!r} has no lines DirectMap4k, DirectMap2M, DirectMap1G; give /proc/meminfo of an x86-64 machine"
        )
    return {name: int(found.get(field, 0)) << 10 for field, name in _FIELDS.items()}
