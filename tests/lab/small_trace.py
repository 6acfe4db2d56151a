"""Make traces of a few operations for the lab's tests."""

import numpy as np

from scmsim.core.records import CLOSE, CREATE, OP, READ, SETUP, WRITE, Files


class Trace:
    """A source of a few operations."""

    header = {"tool": "test"}

    def __init__(self, rows, files):
        self.files, self.rows = files, len(rows)
        self.array = np.zeros(len(rows), OP)
        self.array["file2"] = -1
        for i, row in enumerate(rows):
            for name, value in row.items():
                self.array[name][i] = value

    def batches(self, chunk=1 << 14):
        yield self.array.view(np.recarray)


def side_table(*rows):
    """Return the files of a trace; a row is (path, first size, whether it is a directory)."""
    paths, sizes, folders = zip(*rows, strict=True)
    return Files(list(paths), np.array(sizes, np.int64), np.array(folders))


def small_trace():
    """Return a trace that creates and writes one file and reads another."""
    files = side_table(("/d", 0, True), ("/d/a; rm -rf $HOME", -1, False), ("/b", 4096, False))
    return Trace(
        [
            {"op": CREATE, "file": 1, "file2": 0, "flag": SETUP},
            {"op": WRITE, "file": 1, "offset": 0, "length": 100},
            {"op": WRITE, "file": 1, "offset": 100, "length": 100},
            {"op": READ, "file": 2, "offset": 0, "length": 4096, "buffer": 64},
            {"op": CLOSE, "file": 1},
        ],
        files,
    )
