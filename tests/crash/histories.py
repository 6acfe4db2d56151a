"""Random histories of calls on three names."""

import numpy as np

from tests.fs import drive

LENGTHS = (512, 4096, 12_288, 40_000)
OLD = 9000  # bytes of file 2, which exists before the trace


def history(seed, count, align=8):
    """Return a source of random calls whose offsets and lengths are multiples of `align` bytes.

    A name that is created again is a new file, as the readers of traces have it.
    """
    random, rows, sizes, file_of = np.random.default_rng(seed), [], {2: OLD}, {1: 1, 2: 2, 3: 3}
    files = 3
    while len(rows) < count:
        name, kind = int(random.integers(1, 4)), str(random.choice(list("wwwtfguuscs")))
        file = file_of[name]
        if file not in sizes:
            rows.append(("create", file, 0, 0, 0))
            sizes[file] = 0
        elif kind == "w":
            offset, length = align * int(random.integers(0, 30_000 // align)), int(random.choice([align, *LENGTHS]))
            rows.append(("write", file, offset, length))
            sizes[file] = max(sizes[file], offset + length)
        elif kind == "t":
            sizes[file] = align * int(random.integers(0, sizes[file] // align + 1))
            rows.append(("truncate", file, sizes[file]))
        elif kind in "fg":
            at = 4096 if kind == "f" else 8192
            rows.append(("fallocate", file, at, at))
            sizes[file] = max(sizes[file], 2 * at)
        elif kind == "u":
            rows.append(("unlink", file, 0, 0, 0))
            files += 1
            file_of[name] = files
        else:
            rows.append(({"s": "fsync", "c": "close"}[kind], file))
    return drive.source(drive.files(0, -1, OLD, *[-1] * (files - 2), dirs=[0]), drive.ops(*rows))
