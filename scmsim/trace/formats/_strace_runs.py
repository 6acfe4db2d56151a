"""Many data calls at once: a stretch of reads, writes, seeks and syncs with nothing else between them, as columns.

It does what `_strace_data.do_read` and `do_write` do call by call (the property tests compare them): within such a stretch no
descriptor changes its meaning, so positions are running sums and sizes are running maxima.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.records import DATA_ONLY, DIRECTORY, FSYNC, READ, SYNCHRONOUS, WRITE
from scmsim.trace.formats._strace_importer import BOOKKEEPING, NOT_A_FILE, OUTSIDE, UNKNOWN_FD, Importer
from scmsim.trace.formats._strace_state import Description, Node, Task

ENOUGH = 64  # calls for which a run pays (measured: equal at 60, twice as fast at 128)
SEEK = -1  # op of a seek
HERE = -1  # `at` of a transfer at the position
MOST = 1 << 31  # bytes that a call can move


class Run(NamedTuple):
    """Finished calls in order, as int64 columns.

    `op` is READ, WRITE, FSYNC (`asked` = flags) or SEEK (`moved` = the new position); `at` is an offset or HERE; `asked` is what a
    read asked for (0: not known); `task` and `found` index the lists of the tasks and descriptions in question.
    """

    now: np.ndarray
    op: np.ndarray
    at: np.ndarray
    asked: np.ndarray
    moved: np.ndarray
    task: np.ndarray
    found: np.ndarray


def stretches(plain: np.ndarray) -> Iterator[tuple[int, int]]:
    """Where the stretches of plain data calls are that pay: (start, end)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], plain, [False]))))
    for start, end in edges.reshape(-1, 2).tolist():
        if end - start >= ENOUGH:
            yield start, end


def distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each distinct value comes first, in that order, and for each value which of them it is."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), "i8")
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse]


def unique(founds: list[Description | None]) -> tuple[list[Description | None], np.ndarray]:
    """Each description once (dup makes two descriptors of one), and where each of the given ones is among them."""
    once = {id(found): found for found in founds}
    place = {key: i for i, key in enumerate(once)}
    return list(once.values()), np.array([place[id(found)] for found in founds], "i8")


def apply(imp: Importer, run: Run, tasks: list[Task], founds: list[Description | None]) -> bool:
    """Add the rows of a run; false, with nothing done, if it must be worked on call by call."""
    if (run.moved[run.op != SEEK] > MOST).any() or any(found is not None and found.append for found in founds):
        return False
    offset, doubt = _positions(run, founds)
    nodes = [None if found is None else found.node for found in founds]
    if _ends_are_shown(run, nodes, doubt):
        return False
    _move(run, founds)
    for node in {id(node): node for node in nodes if node is not None}.values():
        rows = np.isin(run.found, [i for i, other in enumerate(nodes) if other is node])
        _grow(imp, node, run, offset, rows)
    _emit(imp, run, offset, doubt, tasks, founds)
    return True


def _positions(run: Run, founds: list[Description | None]) -> tuple[np.ndarray, np.ndarray]:
    """Offset of each transfer, and its OFFSET_UNKNOWN or 0."""
    offset, doubt = run.at.copy(), np.zeros(len(run.op), "i8")
    offset[(run.op == FSYNC) | (run.op == SEEK)] = -1
    here = (run.at == HERE) & (run.op != FSYNC)
    for i, found in enumerate(founds):
        rows = np.flatnonzero(here & (run.found == i))
        if found is None or not len(rows):
            continue
        seek, count = run.op[rows] == SEEK, run.moved[rows]
        moved = np.where(seek, 0, count)
        before = np.cumsum(moved) - moved
        last = np.maximum.accumulate(np.where(seek, np.arange(len(rows)), -1))  # the seek that a row comes after
        since = np.where(last >= 0, count[last] - before[last], found.position)
        offset[rows] = np.where(seek, -1, since + before)
        doubt[rows] = np.where((last < 0) & ~seek, found.doubt, 0)
    return offset, doubt


def _move(run: Run, founds: list[Description | None]) -> None:
    """Leave each description at the position that the run brings it to."""
    here = (run.at == HERE) & (run.op != FSYNC)
    for i, found in enumerate(founds):
        rows = np.flatnonzero(here & (run.found == i))
        if found is None or found.node is None or not len(rows):
            continue
        seeks = np.flatnonzero(run.op[rows] == SEEK)
        if len(seeks):
            found.position, found.doubt = int(run.moved[rows[seeks[-1]]]), 0
            rows = rows[seeks[-1] + 1 :]
        found.position += int(run.moved[rows].sum())


def _ends_are_shown(run: Run, nodes: list[Node | None], doubt: np.ndarray) -> bool:
    """Whether a short read shows the size of a file that was not known: that changes what later calls mean."""
    open_question = np.array([node is not None and not node.exact for node in nodes], bool)[run.found]
    short = (run.op == READ) & (run.moved > 0) & (run.moved < run.asked) & (doubt == 0)
    return bool((short & open_question).any())


def _grow(imp: Importer, node: Node, run: Run, offset: np.ndarray, rows: np.ndarray) -> None:
    read, write = rows & (run.op == READ) & (run.moved > 0), rows & (run.op == WRITE)
    ends = offset + run.moved
    if not node.exact and read.any():
        written = np.maximum.accumulate(np.where(write, ends, 0))
        unseen = read & (ends > np.maximum(written, node.written))
        if unseen.any():
            imp.holds(node, int(ends[unseen].max()))
        node.length = max(node.length, int(ends[read].max()))
    if write.any():
        imp.grown(node, int(ends[write].max()))


def _emit(
    imp: Importer, run: Run, offset: np.ndarray, doubt: np.ndarray, tasks: list[Task], founds: list[Description | None]
) -> None:
    reasons = np.array([_reason(found) for found in founds], "i8")[run.found]
    left_out = imp.report.left_out
    for code, reason in enumerate((UNKNOWN_FD, NOT_A_FILE)):
        left_out[reason] += int((reasons == code).sum())
    known = reasons >= _INSIDE - 1
    left_out[BOOKKEEPING] += int((known & (run.op == SEEK)).sum())
    left_out[OUTSIDE] += int(((reasons == _INSIDE - 1) & (run.op != SEEK)).sum())
    rows = np.flatnonzero((reasons == _INSIDE) & (run.op != SEEK))
    if not len(rows):
        return
    idents = _numbers(run.found[rows], len(founds), lambda i: imp.number(founds[i].node))  # type: ignore[union-attr,arg-type]
    threads = _numbers(run.task[rows], len(tasks), lambda i: imp.thread(tasks[i]))
    flag = doubt + np.where(run.op == FSYNC, run.asked, 0)
    flag += np.array([SYNCHRONOUS if found is not None and found.synchronous else 0 for found in founds])[run.found] * (
        run.op == WRITE
    )
    flag += np.array([DIRECTORY if _is_dir(found) else 0 for found in founds])[run.found] * (run.op == FSYNC)
    length = np.where(run.op == FSYNC, 0, run.moved)
    imp.emit_many(run.now[rows], offset[rows], length[rows], idents, threads, flag[rows], run.op[rows])
    imp.report.calls += len(rows)


_INSIDE = 3  # codes of _reason: 0 unknown descriptor, 1 not a file, 2 outside, 3 inside


def _reason(found: Description | None) -> int:
    if found is None:
        return 0
    return 1 if found.node is None else 2 + found.node.inside


def _is_dir(found: Description | None) -> bool:
    return found is not None and found.node is not None and found.node.is_dir


def _numbers(index: np.ndarray, count: int, number: Callable[[int], int]) -> np.ndarray:
    """`number(i)` for each index, asked for in the order of first use."""
    out = np.zeros(count, "i8")
    found, first = np.unique(index, return_index=True)
    for i in found[np.argsort(first)].tolist():
        out[i] = number(i)
    return out[index]


def one_by_one(imp: Importer, run: Run, tasks: list[Task], founds: list[Description | None], bad: Any) -> None:
    """The same, call by call; `bad(i, error)` takes the calls that no program can make."""
    from scmsim.trace.formats._strace_data import do_fsync, do_read, do_seek, do_write

    left_out = imp.report.left_out
    for i, (now, op, at, asked, count, task, which) in enumerate(
        zip(*(column.tolist() for column in run), strict=True)
    ):
        imp.now = now
        found, start = founds[which], None if at == HERE else at
        try:
            if op == READ:
                reason = do_read(imp, tasks[task], found, start, asked, count)
            elif op == WRITE:
                reason = do_write(imp, tasks[task], found, start, count, 0)
            elif op == SEEK:
                reason = do_seek(found, count)
            else:
                reason = do_fsync(imp, tasks[task], found, asked & DATA_ONLY)
        except ValueError as error:
            bad(i, error)
            continue
        if reason is None:
            imp.report.calls += 1
        else:
            left_out[reason] += 1
