"""Modified Andrew Benchmark, phases I to IV: make directories, copy a source tree, stat every file, read every file.

Phase V (compile and link) is left out, as on the board of "Research on a software architecture for storage class memory" (SCM
manager, section 5.2).  The phases are those of Howard et al. 1988 (Scale and performance in a distributed file system).  The
papers do not publish the original's list of files: 70 files, 200 KiB in all, are its stated totals; 20 directories,
log-normal sizes (sigma 1, ours) scaled to the exact total, and 8 KiB per call are our choice.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    DIRECTORY,
    DOTS_BYTES,
    ENTRY_BYTES,
    MKDIR,
    OPEN,
    READ,
    READDIR,
    SETUP,
    STAT,
    WRITE,
)
from scmsim.workload import _stream
from scmsim.workload._stream import ops, weave

SUMMARY = "the Modified Andrew Benchmark, phases I to IV: mkdir, copy a tree, stat it, read it"
PARAMS = {
    "phase": ("all", "all|makedir|copy|scandir|readall", "the phase that is counted; those before it are preparation"),
    "files": ("70", "files", "number of files in the source tree"),
    "total": ("200KiB", "bytes", "bytes of all files together"),
    "dirs": ("20", "directories", "number of directories in the source tree"),
    "unit": ("8KiB", "bytes", "bytes of one read or write"),
    "repeats": ("1", "trees", "runs of the benchmark, each in a fresh tree"),
    "seed": ("1", "seed", "seed of the file sizes"),
    "interval": ("1us", "time", "trace time between two calls"),
}
PHASES = ("makedir", "copy", "scandir", "readall")


class Workload(_stream.Stream):
    """Stream of the benchmark's operations (a records.Source); see PARAMS, sizes in bytes, interval in nanoseconds.

    Raises UsageError for an unknown phase, a count below 1, or fewer bytes in total than files.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("phase", p.phase, ("all", *PHASES))
        p.at_least(1, "files", "dirs", "unit", "repeats")
        if p.total < p.files:
            raise UsageError(f"total = {p.total} is less than one byte for each of {p.files} files; raise total")
        self.phase, self.unit = p.phase, p.unit
        self.counts = p.dirs, p.files, p.repeats
        self.sizes = tree_sizes(p.files, p.total, p.seed)
        tree = ["", *[f"/dir-{i}" for i in range(1, p.dirs)]]
        leaves = [f"{tree[i % p.dirs]}/file-{i}" for i in range(p.files)]
        roots = ["/andrew/src", *[f"/andrew/copy-{i}" for i in range(p.repeats)]]
        paths = ["/andrew", *[root + path for root in roots for path in (*tree, *leaves)]]
        first = np.concatenate(
            [[0], np.zeros(p.dirs, np.int64), self.sizes, np.full(p.repeats * (p.dirs + p.files), -1)]
        )
        is_dir = np.array([True, *([True] * p.dirs + [False] * p.files) * (1 + p.repeats)])
        self.files = _stream.table(paths, first, is_dir)

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the calls, one phase at a time."""
        for repeat in range(self.counts[2]):
            for phase in PHASES:
                rows = getattr(self, f"_{phase}")(self._tree(repeat + 1))
                if self.phase == phase:
                    yield rows
                    break
                if self.phase != "all":
                    rows["flag"] |= SETUP
                yield rows

    def _tree(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of the directories and of the files of a tree; 0 is the source."""
        dirs, files, _ = self.counts
        first = 1 + number * (dirs + files)
        return np.arange(first, first + dirs), np.arange(first + dirs, first + dirs + files)

    def _makedir(self, tree: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        dirs, _ = tree
        parent = np.full(len(dirs), dirs[0])
        parent[0] = 0
        return ops(MKDIR, dirs, parent=parent, flag=DIRECTORY)

    def _copy(self, tree: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the calls that copy each file.

        The copy opens the source, creates the copy, alternates reads and writes, reads 0 bytes at the end of the file, and closes
        both.
        """
        (dirs, copies), (_, originals) = tree, self._tree(0)
        which, reads = _stream.transfers(READ, originals, self.sizes, self.unit)
        writes = reads.copy()
        writes["op"], writes["file"] = WRITE, copies[which]
        index = np.arange(len(copies))
        parts = (
            (0, ops(OPEN, originals)), (1, ops(CREATE, copies, parent=dirs[index % len(dirs)])),
            (2, reads), (2, writes), (3, ops(READ, originals, self.sizes)),
            (4, ops(CLOSE, copies)), (5, ops(CLOSE, originals)),
        )  # fmt: skip
        last = int(-(-self.sizes.max() // self.unit)) + 2  # positions of a file's open, create, reads and writes
        step = last + 6

        def place(order: int, rows: np.ndarray) -> np.ndarray:
            file = which if order == 2 else index
            turn = rows["offset"] // self.unit if order == 2 else 0
            return file * step + (order if order < 2 else 2 + turn if order == 2 else last + order)

        return weave(*((place(order, rows), rows) for order, rows in parts))

    def _scandir(self, tree: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the calls that list each directory, then stat its files."""
        dirs, files = tree
        inside = np.arange(len(files)) % len(dirs)
        listed = DOTS_BYTES + ENTRY_BYTES * np.bincount(inside, minlength=len(dirs))
        return weave(
            (np.arange(len(dirs)), ops(READDIR, dirs, entry_bytes=listed, flag=DIRECTORY)), (inside, ops(STAT, files))
        )

    def _readall(self, tree: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        _, files = tree
        which, reads = _stream.transfers(READ, files, self.sizes, self.unit)
        index = np.arange(len(files))
        ends = ops(READ, files, self.sizes)
        return weave((index, ops(OPEN, files)), (which, reads), (index, ends), (index, ops(CLOSE, files)))


def tree_sizes(files: int, total: int, seed: int) -> np.ndarray:
    """Return log-normal sizes (sigma 1) of at least one byte each that sum to exactly `total` bytes."""
    shares = np.random.default_rng(seed).lognormal(0.0, 1.0, files)
    sizes = 1 + np.floor(shares / shares.sum() * (total - files)).astype(np.int64)
    sizes[np.argsort(-shares)[: total - sizes.sum()]] += 1
    return sizes
