"""A file's row in the arena: the fields that all families share, and the rows of a trace's files.

A family's additional fields start at OWN.
"""

from typing import Any

import numpy as np

from scmsim.core.records import Files
from scmsim.fs.engine.events import State
from scmsim.fs.engine.space import space_columns, space_report

# A file's row, one word each unless said otherwise:
SIZE = 0  # bytes
STATUS = 1  # flags: EXISTS, IS_DIR and the family's own
LINKS = 2  # names
NAME = 3  # bytes of the newest name, at most 255
INITIAL_SIZE = 4  # bytes before the trace + 1; 0: the file did not exist
OPENS = 5  # open descriptors
MAPPED = 6  # allocation units of the file with space on the device (the unit depends on the file-system family)
OWN = 7  # first field of the family
EXISTS, IS_DIR = 1, 2  # STATUS bits

FIELDS = [("files", "i8"), ("file_count", "i8")]  # of the state record: arena offset of the first row, number of rows


def add(state: State, files: Files, words: int, unnamed: int = 1) -> np.ndarray:
    """Allocate rows of `words` words for the trace's `files`, then `unnamed` others, of which the first is a directory."""
    record, known = state.record[0], len(files)
    record.files, record.file_count = record.arena_top, known + unnamed
    record.arena_top += record.file_count * words
    rows = of(state, words)
    rows[:known, NAME] = [min(len(path.rsplit("/", 1)[-1].encode()), 255) for path in files.path]
    rows[:known, STATUS] = np.where(files.is_dir, IS_DIR, 0)
    rows[:known, INITIAL_SIZE] = np.maximum(files.first_size + 1, 0)
    rows[known, STATUS] = EXISTS | IS_DIR
    return rows


def of(state: State, words: int) -> np.ndarray:
    """Return a view of all rows, of `words` words each."""
    record = state.record[0]
    return state.arena[record.files : record.files + record.file_count * words].reshape(-1, words)


def is_file(rows: np.ndarray) -> np.ndarray:
    """Return a mask of the rows that are existing files and not directories."""
    return (rows[:, STATUS] & (EXISTS | IS_DIR)) == EXISTS


def existing(rows: np.ndarray) -> int:
    """Return the number of existing files and directories."""
    return int((rows[:, STATUS] & EXISTS).sum())


def space(rows: np.ndarray, unit: int, **figures: Any) -> dict[str, int]:
    """Return the space report of the files among the rows, in pages of `unit` bytes; `figures` go to `space_report`."""
    files = rows[is_file(rows)]
    return space_report(files[:, SIZE], files[:, MAPPED], unit, **figures)


def by_file(rows: np.ndarray, unit: int) -> dict[str, np.ndarray]:
    """Return columns with one row per file: object id, length, allocated and wasted bytes; a page has `unit` bytes."""
    file = np.flatnonzero(is_file(rows))
    return space_columns(file, rows[file, SIZE], rows[file, MAPPED], unit)
