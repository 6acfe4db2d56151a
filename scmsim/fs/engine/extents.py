"""Extents of a model's files: which bytes of a file are at which bytes of the device, and which bytes are free.

Unit: bytes.  `file` is the object id of the side table, FREE for a run of free space; `physical` is the offset on the model's
device or, for a file system in memory, in its memory.
"""

import numpy as np

from scmsim.alloc import buddy, contiguity
from scmsim.fs.engine import file_row
from scmsim.fs.engine.events import State

EXTENT = np.dtype([("file", "i8"), ("logical", "i8"), ("physical", "i8"), ("length", "i8"), ("unwritten", "?")])
FREE = -1


def free(record: np.record, arena: np.ndarray) -> np.ndarray:
    """Return extents of the free runs of a model's allocator, in order; none if the allocator has no bitmap."""
    if "touched" in (record.dtype.names or ()) and record["chunks"]:
        start, length = contiguity.joined(*buddy.free_runs(record, arena))
        block = 1 << buddy.SMALLEST_SHIFT
    elif runs := contiguity.of_model(record, arena):
        start, length, block = runs
    else:
        return np.zeros(0, EXTENT)
    found = np.zeros(len(start), EXTENT)
    found["file"], found["physical"], found["length"] = FREE, start * block, length * block
    return found


def of_file(
    file: int, pages: np.ndarray, places: np.ndarray, unit: "int | np.ndarray", unwritten: "bool | np.ndarray" = False
) -> np.ndarray:
    """Return a file's extents, joined, from its pages in order.

    Parameters
    ----------
    file : int
        Object id.
    pages : int64 array
        Numbers of the pages with a place, in order; page k begins at k times the bytes of a whole page.
    places : int64 array
        Offset of each page on the device.
    unit : int or int64 array
        Bytes of a page; an array has the bytes of each page that are on the device.
    unwritten : bool or array
        Whether a page has a place but no content.
    """
    found = np.zeros(len(pages), EXTENT)
    found["file"], found["physical"], found["length"], found["unwritten"] = file, places, unit, unwritten
    found["logical"] = pages * int(np.max(unit, initial=0))
    return joined(found)


def joined(extents: np.ndarray) -> np.ndarray:
    """Merge extents (sorted by file and offset) that continue one another both in the file and on the device."""
    if not len(extents):
        return extents
    before, after = extents[:-1], extents[1:]
    continues = (after["file"] == before["file"]) & (after["unwritten"] == before["unwritten"])
    for name in ("logical", "physical"):
        continues &= after[name] == before[name] + before["length"]
    first = np.flatnonzero(np.append(True, ~continues))
    found = extents[first]
    found["length"] = np.add.reduceat(extents["length"], first)
    return found


def gathered(parts: "list[np.ndarray]") -> np.ndarray:
    """Return the extents of several files as one array."""
    return np.concatenate([np.zeros(0, EXTENT), *parts])


def of_table(state: State, words: int, field: int, unit: int) -> np.ndarray:
    """Return the extents of files whose rows (`engine.file_row`) have a table at `field`: page of `unit` bytes -> 4 KiB block."""
    parts = []
    for file, row in data_rows(state, words):
        blocks = table_of(state, row, field)
        pages = np.flatnonzero(blocks)
        parts.append(of_file(file, pages, blocks[pages] << 12, unit))
    return gathered(parts)


def data_rows(state: State, words: int) -> "list[tuple[int, np.ndarray]]":
    """Return (object id, row) of each file of the trace that is not a directory; also of removed files, if open."""
    rows = file_row.of(state, words)
    return [(int(file), rows[file]) for file in np.flatnonzero(rows[:, file_row.STATUS] & file_row.IS_DIR == 0)]


def table_of(state: State, row: np.ndarray, field: int) -> np.ndarray:
    """Return a view of the values of a table (`engine.table`) whose handle is at `field` of a file's row."""
    at = int(row[field])
    return state.arena[at : at + (1 << int(row[field + 1]))] if at else state.arena[:0]
