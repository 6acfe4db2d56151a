"""Convert loads and stores at addresses to rows on the files that are mapped there.

An access that starts where the access before it ended belongs to the same run, even if memory without a file was
accessed in between.  A run ends at a change of kind, file or thread, and at the next call.  Accesses to memory without
a file are counted.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from scmsim.core.records import ULOAD, USTORE
from scmsim.trace.syscalls.importer import Importer
from scmsim.trace.syscalls.state import Node, Task

NO_FILE = "access to memory that is not a file"
OTHER_FILE = "access to a file outside of the chosen directory"
SAME_RUN = "goes on with the run of the access above"
LOADS, STORES, BOTH = range(3)
_PARTS = (1, 1, 2)  # rows that an access of each kind may begin: a load, a store, a load and then a store
_PAGE = 4096


class Accesses:
    """A converter of accesses to rows, for one import.

    Attributes
    ----------
    seen : Counter
        Numbers of accesses to files and to other memory, and bytes accessed in files, for the header.
    """

    def __init__(self, imp: Importer) -> None:
        self.imp = imp
        self.seen: Counter[str] = Counter()
        self._run: tuple[int, ...] | None = None  # the open run, not yet a row: op, file, offset, end, thread, time

    def take(
        self, task: Task, now: np.ndarray, kind: np.ndarray, address: np.ndarray, length: np.ndarray,
        tasks: Sequence[Task] = (),
    ) -> np.ndarray:  # fmt: skip
        """Add accesses of `task`, or of `tasks` (one per access), which share their mappings; return the file of each access.

        The result is that of `_files`.  The report counts each access as a line.
        """
        if not len(kind):
            return np.zeros(0, "i8")
        report = self.imp.report
        report.lines += len(kind)
        file, offset, length = self._files(task, address, length)
        inside = np.flatnonzero(file >= 0)
        other, nowhere = int((file == -1).sum()), int((file == -2).sum())
        report.left_out[OTHER_FILE] += other
        report.left_out[NO_FILE] += nowhere
        self.seen += {"accesses to files": len(inside), "accesses to other memory": nowhere}
        if len(inside):
            threads = [self.imp.thread(tasks[i]) for i in inside.tolist()] if tasks else self.imp.thread(task)
            thread = np.broadcast_to(np.array(threads), inside.shape)
            self._runs(thread, *(column[inside] for column in (now, kind, file, offset, length)))
        return file

    def _files(self, task: Task, address: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return each access's file, offset in the file, and length, cut at the end of the mapping.

        The file is -1 outside of the chosen directory, and -2 for memory without a file.
        """
        starts, ends, offsets, nodes, private = task.maps.columns()
        where = np.searchsorted(starts, address, "right") - 1
        mapped = (where >= 0) & (address < ends[where]) if len(starts) else np.zeros(len(address), bool)
        place = np.where(mapped, where, 0)
        idents = np.full(max(len(nodes), 1), -1)
        length = np.where(mapped, np.minimum(length, ends[place] - address), length) if len(starts) else length
        offset = (
            np.where(mapped, address - starts[place] + offsets[place], 0) if len(starts) else np.zeros_like(address)
        )
        for i in np.unique(where[mapped]).tolist():
            if nodes[i].inside:
                idents[i] = self.imp.number(nodes[i])
                self._shows(nodes[i], private[i], offset[where == i], length[where == i])
        return np.where(mapped, idents[place], -2), offset, length

    def _shows(self, node: Node, private: bool, offset: np.ndarray, length: np.ndarray) -> None:
        """Record in the importer that the touched bytes exist in the file.

        The last page of a private mapping may have data beyond the file's end, so there only a page's first byte counts.
        """
        end = int(offset.max()) // _PAGE * _PAGE + 1 if private else int((offset + length).max())
        self.imp.holds(node, end)

    def _runs(
        self,
        thread: np.ndarray,
        now: np.ndarray,
        kind: np.ndarray,
        file: np.ndarray,
        offset: np.ndarray,
        length: np.ndarray,
    ) -> None:
        """Join accesses into runs; the last run stays open."""
        imp = self.imp
        line = np.repeat(np.arange(len(kind)), np.array(_PARTS)[kind])
        second = np.diff(line, prepend=-1) == 0
        op = np.where((kind[line] == STORES) | second, USTORE, ULOAD)
        table = np.stack([op, file[line], offset[line], offset[line] + length[line], thread[line], now[line]])
        is_new = np.ones(len(op), bool)
        same = (table[[0, 1, 4], 1:] == table[[0, 1, 4], :-1]).all(0)
        is_new[1:] = ~(same & (table[2, 1:] == table[3, :-1]))
        if self._run is not None:
            last = self._run
            is_new[0] = not (table[[0, 1, 4, 2], 0] == (last[0], last[1], last[4], last[3])).all()
        self.seen["bytes of files"] += int(length[line].sum())
        begun = np.bincount(line[is_new], minlength=len(kind))
        calls = int((begun > 0).sum())
        imp.report.calls += calls
        imp.report.extra_rows += int(begun.sum()) - calls
        imp.report.left_out[SAME_RUN] += len(kind) - calls
        self._emit(table, np.flatnonzero(is_new))

    def _emit(self, table: np.ndarray, firsts: np.ndarray) -> None:
        if self._run is not None and (not len(firsts) or firsts[0]):  # extend the open run
            stop = int(firsts[0]) if len(firsts) else table.shape[1]
            self._run = (*self._run[:3], int(table[3, stop - 1]), *self._run[4:])
        if not len(firsts):
            return
        self.end_run()
        lasts = np.append(firsts[1:], table.shape[1]) - 1
        ends = table[3, lasts]
        self._run = (*table[:3, firsts[-1]].tolist(), int(ends[-1]), *table[4:, firsts[-1]].tolist())
        op, file, offset, _, thread, now = table[:, firsts[:-1]]
        self.imp.emit_many(now, offset, ends[:-1] - offset, file, thread, 0, op)

    def end_run(self) -> None:
        """Make the open run a row; call this before anything else adds a row."""
        if self._run is not None:
            op, file, offset, end, thread, now = ([value] for value in self._run)
            self._run = None
            self.imp.emit_many(now, offset, [end[0] - offset[0]], file, thread, 0, op)

    def facts(self) -> dict[str, int]:
        """Return the counts for the header of the trace."""
        return dict(self.seen)
