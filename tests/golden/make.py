"""Writes the golden files: counters of small replays on every file system, exact.

Run from the top of the checkout: python -m tests.golden.make [FS ...]
A change that alters a figure needs the files made again and a line under "Results changed" in CHANGELOG.md, with its
reason.
"""

import json
import os
import pathlib
import sys
from typing import Any

import scmsim
from scmsim.core import registry
from scmsim.core.counters import SCHEMA
from scmsim.core.records import DATA_ONLY, KEEP_SIZE, PUNCH_HOLE, SYNCHRONOUS, Source
from scmsim.workload.microbench import PASSES, Workload
from tests.fs import drive
from tests.golden import events, limits, options

FOLDER = pathlib.Path(__file__).parent
UNITS = (512, 4096, 65536)
TOTAL = 512 << 10
LEFT_OUT = ("free_bytes", "free_2m_bytes", "largest_free_bytes", "uncommitted_bytes")  # tested elsewhere

# Every operation that changes names or lengths; file 0 and 7 are directories, file 4 existed before with 50,000 bytes.
NAMES = (
    ("mkdir", 7, 0, 0, 0), ("create", 1, 0, 0, 7), ("write", 1, 0, 10_000), ("close", 1),
    ("create", 2, 0, 0, 0), ("write", 2, 100, 5_000, -1, SYNCHRONOUS), ("write", 2, 4096, 8192), ("fsync", 2),
    ("rename", 2, 0, 0, 1), ("stat", 2), ("link", 2, 0, 0, 7), ("unlink", 2, 0, 0, 7), ("truncate", 2, 6_000),
    ("read", 2, 0, 8_192), ("open", 4), ("read", 4, 1_000, 30_000), ("write", 4, 49_000, 3_000),
    ("fsync", 4, 0, 0, -1, DATA_ONLY), ("create", 3, 0, 0, 0), ("fallocate", 3, 0, 1 << 20),
    ("write", 3, 12_345, 45_678), ("fallocate", 3, 0, 2 << 20, -1, KEEP_SIZE),
    ("fallocate", 3, 8192, 16_384, -1, KEEP_SIZE | PUNCH_HOLE), ("read", 3, 0, 65_536),
    ("truncate", 3, 1 << 21), ("fsync", 3), ("readdir", 0, 0, 48 + 5 * 32), ("readdir", 0), ("mmap", 3, 0, 4096),
    ("munmap", 3, 0, 4096),
    ("msync", 3, 0, 4096), ("truncate", 3, 0), ("close", 3), ("unlink", 3, 0, 0, 0), ("unlink", 2, 0, 0, 0),
    ("close", 2), ("close", 4), ("unlink", 4, 0, 0, 0), ("rmdir", 7, 0, 0, 0), ("sync", -1),
)  # fmt: skip


def cells() -> dict[str, Source]:
    """Name of a cell -> what is replayed."""
    found: dict[str, Source] = {
        f"{op} {unit}": Workload(op=op, unit=unit, total=TOTAL) for op in PASSES for unit in UNITS
    }
    names = drive.ops(*NAMES)
    names.time_ns = [400_000_000 * i for i in range(len(NAMES))]
    found["names"] = drive.source(drive.files(0, -1, -1, -1, 50_000, -1, -1, 0, dirs=[0, 7]), names)
    return found


def figures(fs: str) -> dict[str, Any]:
    """Cell -> counters that are not 0, stored bytes by kind and the space report (no times, no free space)."""
    table = {}
    for name, trace in cells().items():
        run = scmsim.replay(trace, fs, footprints="none").runs[0]
        table[name] = {
            "calls": run.calls,
            "counters": {
                field: count for field, count in run.counters.items() if count and SCHEMA[field].unit != "cycles"
            },
            "stored_bytes": {kind: count for kind, count in run.stored_bytes.items() if count},
            "space": {key: value for key, value in run.space.items() if value and key not in LEFT_OUT},
        }
    return table


def path(fs: str) -> pathlib.Path:
    """The golden file of a file system."""
    return FOLDER / f"{fs}.json"


def main(names: list[str]) -> None:
    """Write the files of the named file systems, or of all."""
    if problem := options.problem(names):
        sys.exit(f"tests.golden.make: {problem}")
    for fs in names or registry.names("fs"):
        temporary = FOLDER / f".{fs}.json.tmp"
        temporary.write_text(json.dumps(figures(fs), indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, path(fs))
        print(path(fs), file=sys.stderr)
    events.write(names)
    limits.write(names)


if __name__ == "__main__":
    main(sys.argv[1:])
