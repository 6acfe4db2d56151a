"""Tabulate where a guest's files and free space are, from the extents that the guest reported.

On a file system with a device, `physical` is the offset on the device.  On tmpfs and ramfs it is the guest's physical address.
Source: Linux include/uapi/linux/fiemap.h, fsmap.h, Documentation/admin-guide/mm/pagemap.rst.
"""

import os
import pathlib
from typing import Any

import numpy as np

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.fs.engine.extents import EXTENT, FREE, joined
from scmsim.lab import qemu
from scmsim.lab.measured import Measured
from scmsim.lab.systems import System
from scmsim.result import extents as tables

SUFFIX = ".extents.parquet"
_NO_PLACE, _UNWRITTEN = 0x2 | 0x4, 0x800  # FIEMAP_EXTENT_UNKNOWN and _DELALLOC, FIEMAP_EXTENT_UNWRITTEN
_BY_PAGES, _IN_ALL, _FREE = 1 << 31, 1 << 30, (1 << 32) - 1  # BY_PAGES, IN_ALL and FREE of guest_layout.c


def extents(measured: Measured, system: System) -> np.ndarray:
    """Return the extents that a guest reported at its end: files by offset, then free space, with adjacent extents joined.

    The guest reports the pages of a mapping by physical address, which is converted to an offset on the device.  Pages outside
    the device, such as the page of zeros that represents a hole, are left out.
    """
    raw = measured.extents
    raw = raw[(raw["flags"] & (_NO_PLACE | _IN_ALL)) == 0]
    found = np.zeros(len(raw), EXTENT)
    for name in ("file", "logical", "physical", "length"):
        found[name] = raw[name]
    found["file"][raw["file"] == _FREE] = FREE
    found["unwritten"] = raw["flags"] & _UNWRITTEN > 0
    if system.source == "DEVICE":
        by_pages = raw["flags"] & _BY_PAGES > 0
        found["physical"][by_pages] -= qemu.PM_AT
        on_device = (found["physical"] >= 0) & (found["physical"] < qemu.PM_BYTES)
        found = found[~by_pages | on_device]
    return in_order(found)


def free_bytes(measured: Measured) -> int | None:
    """Return the number of free bytes if the file system does not report where they are; None if it does."""
    found = measured.extents["length"][measured.extents["flags"] & _IN_ALL > 0]
    return int(found[0]) if len(found) else None


def in_order(found: np.ndarray) -> np.ndarray:
    """Return extents sorted by file, offset and place, free extents last, with adjacent extents joined."""
    order = np.lexsort((found["physical"], found["logical"], found["file"], found["file"] == FREE))
    found = found[order]
    free = found["file"] == FREE
    spaces = found[free]
    spaces["logical"] = spaces["physical"]  # free space has no file offset, so that place alone decides which join
    spaces = joined(spaces)
    spaces["logical"] = 0
    return np.concatenate([joined(found[~free]), spaces])


def keep(path: str | os.PathLike[str], fs: str, measured: Measured, system: System, paths: Any) -> None:
    """Write the table of a guest's extents; `paths` are the paths of the trace's files."""
    tables.write({fs: tables.frame(extents(measured, system), paths)}, path)


def read(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the extents of a table (CSV or Parquet) that was recorded for one file system.

    Raises UsageError if the file is not such a table.
    """
    import pandas as pd

    place = pathlib.Path(path)
    try:
        table = pd.read_csv(place, keep_default_na=False) if place.suffix == ".csv" else pd.read_parquet(place)
        if "model" in table:
            raise ValueError("it has the extents of several file systems")
        found = np.zeros(len(table), EXTENT)
        for name in EXTENT.names or ():
            if table[name].dtype.kind != found[name].dtype.kind:
                raise ValueError(
                    f"its column {name} has no {'truth values' if name == 'unwritten' else 'whole numbers'}"
                )
            found[name] = table[name]
    except (OSError, ValueError, KeyError) as error:  # pyarrow's errors are ValueErrors or OSErrors
        why = f"it has no column {error}" if isinstance(error, KeyError) else str(error).splitlines()[0][:120]
        raise UsageError(
            f"{str(path)!r} is not a table of extents ({why}); record one with scmsim lab run TRACE --extents FILE"
        ) from None
    if (found["file"] < FREE).any() or (found["length"] <= 0).any() or (found["logical"] < 0).any():
        raise UsageError(f"{str(path)!r} has an extent with a negative number or no bytes; use lab run --extents again")
    return in_order(found)


def check_told(found: np.ndarray, fs: str) -> None:
    """Raise EnvironmentProblem if a guest reported no extents, neither of files nor of free space."""
    if not len(found):
        raise EnvironmentProblem(
            f"{fs}: the guest reported no extents; the file system has neither FIEMAP nor pages that can be mapped, "
            "or the trace leaves no file with content"
        )
