"""Add the calls of one footprint file that ran after many changes without a sync to all calls of another file.

Run: python tools/join_footprints.py ALL.npz PILED.npz OUT.npz

The guest of a longer mix has its objects at other addresses, and the effect of the addresses is as large as the model's
error.  So the bundled calls stay unchanged.  A replay uses the other guest's pages only while that many changes are
pending (`scmsim.footprint.describe.PILED`).
"""

import json
import pathlib
import sys
from typing import Any

import numpy as np

from scmsim import footprint
from scmsim.footprint.describe import MANY_DIRTY_INODES
from scmsim.footprint.interleave import OPEN_FILE

Arrays = dict[str, np.ndarray]


def read(path: str) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a file."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(str(arrays.pop("header"))), arrays


def joined(every: Arrays, other: Arrays) -> Arrays:
    """Return `every` followed by the calls of `other` with PILED, and both tables of objects, one below the other."""
    chosen = other["calls"]["sites"] & MANY_DIRTY_INODES != 0
    pages, tables, count = other["pages"].copy(), len(every["inodes"]), len(every["pages"])
    objects = pages["cache"] > 0
    pages["cache"][objects] += tables
    if tables + len(other["inodes"]) >= OPEN_FILE or count + len(pages) > 1 << 15:
        raise SystemExit("too many pages or kinds of objects for one file; join shorter ones")
    touches = other["touches"][np.repeat(chosen, other["calls"]["count"])] + np.uint16(count << 1)
    return {
        "calls": np.concatenate([every["calls"], other["calls"][chosen]]),
        "touches": np.concatenate([every["touches"], touches]),
        "interrupt": every["interrupt"],
        "pages": np.concatenate([every["pages"], pages]),
        "inodes": stacked(every["inodes"], other["inodes"] + count),
    }


def stacked(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return two tables, one below the other; the last column has all further objects."""
    width = max(one.shape[1], other.shape[1])
    return np.concatenate([np.pad(table, ((0, 0), (0, width - table.shape[1])), "edge") for table in (one, other)])


def main(every: str, other: str, out: str) -> None:
    """Read both files and write the joined one."""
    (header, first), (theirs, second) = read(every), read(other)
    if header["sites"] != theirs["sites"] or header["kernel"] != theirs["kernel"]:
        raise SystemExit(
            "footprints of two kernels or of two versions of a model cannot be joined; make one of them again"
        )
    about = {name: value for name, value in header.items() if name != "format"}
    footprint.write(pathlib.Path(out), {**about, "piled": theirs["trace"]}, **joined(first, second))


if __name__ == "__main__":
    main(*sys.argv[1:])
