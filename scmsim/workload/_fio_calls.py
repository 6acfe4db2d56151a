"""Turn rows of fio's compiled loop into calls of the job's engine, and generate the reads that verify what was written.

Source: fio 3.33, engines (sync.c, mmap.c, ftruncate.c, falloc.c, fileoperations.c), iolog.c (log_io_piece), backend.c
(do_verify).
"""

import bisect
from collections.abc import Iterator

import numpy as np

from scmsim.core.records import (
    CLOSE,
    CREATE,
    DATA_ONLY,
    DIRECTORY,
    FALLOCATE,
    FSYNC,
    KEEP_SIZE,
    MKDIR,
    MMAP,
    MSYNC,
    MUNMAP,
    OPEN,
    PUNCH_HOLE,
    READ,
    RMDIR,
    STAT,
    SYNCHRONOUS,
    TRUNCATE,
    ULOAD,
    UNLINK,
    USTORE,
    WRITABLE_SHARED,
    WRITE,
)
from scmsim.workload._fio_job import BY_OPENING, FOLDERS, Job
from scmsim.workload._steps import calls
from scmsim.workload.kernels.fio_job import CLOSING, DATASYNCING, OPENING, READING, SYNCING, WRITING

_PAGE = 4096
# The call of each kind of row, by engine: reading, writing, syncing, data-syncing, opening, closing; -1: no call.
_CALLS = {
    "transfers": (READ, WRITE, FSYNC, FSYNC, OPEN, CLOSE),
    "mmap": (ULOAD, USTORE, MSYNC, MSYNC, OPEN, CLOSE),
    "ftruncate": (-1, TRUNCATE, -1, -1, OPEN, CLOSE),
    "falloc": (FALLOCATE, FALLOCATE, -1, -1, OPEN, CLOSE),
    "filecreate": (-1, -1, -1, -1, CREATE, CLOSE),
    "filestat": (-1, -1, -1, -1, STAT, -1),
    "filedelete": (-1, -1, -1, -1, UNLINK, -1),
    "dircreate": (-1, -1, -1, -1, MKDIR, -1),
    "dirstat": (-1, -1, -1, -1, STAT, -1),
    "dirdelete": (-1, -1, -1, -1, RMDIR, -1),
}


class Calls:
    """Converter of the rows of one job's loop to calls of its engine."""

    def __init__(self, job: Job, ids: np.ndarray, folders: np.ndarray, spans: list[int]) -> None:
        self.job, self.ids, self.folders, self.spans = job, ids, folders, np.array(spans, np.int64)
        self.done = 0  # number of transfers so far
        self.fresh = np.full(len(ids), True)  # files not created (filecreate) or mapped (mmap) yet
        self.codes = np.array(_CALLS.get(job.engine, _CALLS["transfers"]))
        self.history = History(job) if job.verify and job.do_verify and job.writes else None

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return the STEPs of the job's engine for rows (what, file, offset, length)."""
        job, what, file = self.job, rows[:, 0], rows[:, 1]
        if self.history is not None:
            self.history.add(rows[what == WRITING])
        steps = calls(len(rows), op=self.codes[what], file=self.ids[file], length=rows[:, 3], thread=job.number - 1)
        moves = what <= WRITING
        steps["offset"] = np.where(moves, rows[:, 2], -1)
        steps["flag"] = np.where(what == DATASYNCING, DATA_ONLY, 0) | np.where(
            (what == WRITING) & job.sync, SYNCHRONOUS, 0
        )
        if job.engine == "mmap":
            return self._mapped(steps, what, file)
        if job.engine == "falloc":
            steps["flag"] = np.where(what == READING, KEEP_SIZE | (PUNCH_HOLE if job.trims else 0), 0)
        elif job.engine == "ftruncate":
            steps["length"] = 0
        elif job.engine == "filecreate":
            self._only_once(steps, file)
        elif job.engine in ("filedelete", "dircreate", "dirdelete"):
            steps["parent"] = self.folders[file]
        if job.engine in BY_OPENING:
            steps["offset"], steps["length"] = -1, 0
            steps["flag"] = DIRECTORY if job.engine in FOLDERS else 0
        elif len(self.ids):
            self._place_buffers(steps)
        return steps[steps["op"] >= 0]

    def _only_once(self, steps: np.ndarray, file: np.ndarray) -> None:
        """Turn every creation of a file after the first into an open."""
        for i in np.flatnonzero(steps["op"] == CREATE):
            if not self.fresh[file[i]]:
                steps["op"][i] = OPEN
            else:
                self.fresh[file[i]], steps["parent"][i] = False, self.folders[file[i]]

    def _mapped(self, steps: np.ndarray, what: np.ndarray, file: np.ndarray) -> np.ndarray:
        """Return the steps of the engine mmap: the first transfer after an open maps the whole range."""
        self._place_buffers(steps)
        syncs = (what == SYNCING) | (what == DATASYNCING)
        steps["flag"][~syncs] = 0
        steps["offset"][syncs], steps["length"][syncs], steps["flag"][syncs] = 0, self.spans[file[syncs]], 0
        parts = []
        first = 0
        for i in np.flatnonzero(self.fresh[file] & (what <= WRITING)).tolist():
            if self.fresh[file[i]]:
                self.fresh[file[i]] = False
                parts += [steps[first:i], self._map(MMAP, file[i : i + 1])]
                first = i
        parts.append(steps[first:])
        steps = np.concatenate(parts)
        if not self.job.direct:
            return steps
        moves = (steps["op"] == ULOAD) | (steps["op"] == USTORE)
        twice = np.repeat(steps, 1 + moves)
        after = np.cumsum(1 + moves)[moves] - 1
        twice["op"][after] = MSYNC
        twice["buffer"][after] = 0
        return twice

    def _map(self, op: int, files: np.ndarray) -> np.ndarray:
        steps = calls(len(files), op=op, file=self.ids[files], offset=0, length=self.spans[files])
        steps["thread"] = self.job.number - 1
        steps["flag"] = WRITABLE_SHARED if op == MMAP and self.job.writes else 0
        return steps

    def _place_buffers(self, steps: np.ndarray) -> None:
        """Set the buffers: fio has one page-aligned buffer for each unit of its queue, one after another."""
        moves = np.flatnonzero(
            (steps["op"] == READ) | (steps["op"] == WRITE) | (steps["op"] == ULOAD) | (steps["op"] == USTORE)
        )
        room = -(-max(self.job.most) // _PAGE) * _PAGE
        steps["buffer"][moves] = (np.arange(self.done, self.done + len(moves)) % self.job.iodepth) * room
        self.done += len(moves)

    def end_of_pass(self, is_open: np.ndarray) -> np.ndarray:
        """Return the syncs of end_fsync; `is_open` marks the open files."""
        ops: list[tuple[int, int]] = []
        if self.job.writes and self.job.end_fsync:
            for file, opened in enumerate(is_open):
                if opened and self.job.engine == "mmap":
                    ops.append((MSYNC, file))
                else:
                    ops += [(FSYNC, file)] if opened else [(OPEN, file), (FSYNC, file), (CLOSE, file)]
        steps = self._plain(ops)
        mapped = steps["op"] == MSYNC
        steps["offset"][mapped] = 0
        steps["length"][mapped] = self.spans[[file for op, file in ops if op == MSYNC]]
        return steps

    def closes(self, is_open: np.ndarray, last: bool) -> np.ndarray:
        """Return the closes of files that are open; at the end of the job, `unlink` removes each file before its close."""
        ops: list[tuple[int, int]] = []
        for file, opened in enumerate(is_open):
            if last and self.job.unlink:
                ops.append((UNLINK, file))
            if opened and self.codes[CLOSING] >= 0:
                ops.append((CLOSE, file))
        steps = self._plain(ops)
        gone = steps["op"] == UNLINK
        steps["parent"][gone] = self.folders[: int(gone.sum())]
        if last and self.job.engine == "mmap":
            return np.concatenate((self._map(MUNMAP, np.flatnonzero(~self.fresh)), steps))
        return steps

    def _plain(self, ops: list[tuple[int, int]]) -> np.ndarray:
        made = np.array(ops, np.int64).reshape(-1, 2)
        return calls(len(ops), op=made[:, 0], file=self.ids[made[:, 1]], thread=self.job.number - 1)

    def verifying(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the reads that verify the writes of the pass, with a mask of the files that are open afterwards."""
        is_open = np.zeros(len(self.ids), bool)
        if self.history is None:
            return
        for rows in self.history.taken():
            parts, first = [], 0
            for i in np.flatnonzero(~is_open[rows[:, 1]]).tolist():
                if not is_open[rows[i, 1]]:
                    is_open[rows[i, 1]] = True
                    parts += [rows[first:i], [[OPENING, rows[i, 1], 0, 0]]]
                    first = i
            yield self.of(np.concatenate([*parts, rows[first:]])), is_open


class History:
    """The writes of a pass, in the order in which fio reads them back."""

    def __init__(self, job: Job) -> None:
        self.in_order = bool(job.random) and not job.norandommap and job.generator != "lfsr"
        self.rows: list[np.ndarray] = []
        self.starts: list[tuple[int, int]] = []  # sorted (file, offset) of writes that were not overwritten
        self.lengths: dict[tuple[int, int], int] = {}

    def add(self, rows: np.ndarray) -> None:
        """Record the writes among the rows; a write drops earlier writes to the same bytes."""
        if self.in_order:
            self.rows.append(rows[:, 1:].copy())
            return
        for file, offset, length in rows[:, 1:].tolist():
            at = bisect.bisect_left(self.starts, (file, offset))
            if at and self.starts[at - 1][0] == file and sum(self._of(at - 1)) > offset:
                at -= 1
            while at < len(self.starts) and self.starts[at] < (file, offset + length):
                del self.lengths[self.starts.pop(at)]
            self.starts.insert(at, (file, offset))
            self.lengths[file, offset] = length

    def _of(self, at: int) -> tuple[int, int]:
        return self.starts[at][1], self.lengths[self.starts[at]]

    def taken(self) -> Iterator[np.ndarray]:
        """Yield rows that read all recorded writes back, and forget the writes."""
        found = [*self.rows, np.array([(*key, self.lengths[key]) for key in self.starts], np.int64).reshape(-1, 3)]
        self.rows, self.starts, self.lengths = [], [], {}
        for part in found:
            if len(part):
                yield np.column_stack((np.full(len(part), READING), part))
