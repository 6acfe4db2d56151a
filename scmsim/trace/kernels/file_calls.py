"""Follows plain calls one after the other: what opens, transfers, seeks, syncs, closes and unlinks do, and the rows that they make.

It does call by call what the handlers of `syscalls/data.py` and `paths.py` do, by the same `file_rules`, and stops
before a call that does not fit what is known: the handlers then take it.
"""

from collections import namedtuple

import numpy as np

from scmsim.core.records import (
    CLOSE,
    CONTINUES,
    CREATE,
    DIRECTORY,
    OPEN,
    READ,
    TRUNCATE,
    UNLINK,
    WRITE,
)
from scmsim.jit import kernel, subroutine
from scmsim.jit.binding import compiled
from scmsim.trace.kernels import file_rules
from scmsim.trace.kernels.file_rules import ABSENT, APPEND, ASSUMED, CLOEXEC, DIR, OPENED, PRESENT, SYNC, TRUNC, UNSEEN

rules = compiled(file_rules)

# columns of a call; PATH: index of the path that it names (-1: it has no name); FLAGS: those of an open, or of the row of an fsync
OP, NOW, TASK, FD, RAW, AT, ASKED, MOVED, PATH, FLAGS = range(10)
WIDTH = 10
SEEK, FAILED = -1, -2  # OP besides those of records
NO_RAW = -1
ODD = -2  # RAW or PATH that a call never fits
MOST = 1 << 31  # bytes that a call can move: Linux moves at most 0x7ffff000

_NODE = ("first", "length", "written", "row", "ident", "exact", "open_question", "inside", "is_dir", "doubt", "path")
FIRST, IDENT = _NODE.index("first"), _NODE.index("ident")
NODE = np.dtype((np.record, [(name, "i8") for name in _NODE]))
FOUND = np.dtype(
    (
        np.record,
        [(name, "i8") for name in ("position", "doubt", "append", "synchronous", "path_only", "raw", "node")],
    )
)
# `node`: index of the node or ABSENT_NODE, UNSEEN_NODE; `removed`: of the last node whose name this was and went, or -1
PATH_KNOWN = np.dtype((np.record, [(name, "i8") for name in ("node", "above", "inside", "special", "removed")]))
ABSENT_NODE, UNSEEN_NODE = -1, -2

# why a call makes no row, or that it does
UNKNOWN_FD, NOT_A_FILE, OUTSIDE, BOOKKEEPING, FAILED_CALL, MADE = range(6)
# counters: how many nodes, descriptions, numbered nodes, threads, rows and corrected rows there are; the number of the first node
# to be numbered and of the first row; the oldest row that can be corrected; rows beyond the first of their call; opens by what they
# did; calls by what became of them
NODES, FOUNDS, NUMBERED, THREADS, ROWS, MISTAKEN, FIRST_NUMBER, FIRST_ROW, OLDEST, EXTRA, HOW, REASON = *range(11), 15
COUNTS = REASON + MADE + 1

# slots: description by table and descriptor (-1: none); at_exec: whether the last open of it had O_CLOEXEC (-1: none opened it);
# tasks: index of the table, thread (-1: has no number); numbered, mistaken: nodes that got a number and rows to correct, in order
Tables = namedtuple("Tables", "nodes founds paths slots at_exec tasks numbered mistaken counts")


@subroutine
def _number(s, node):
    """The dense number of a node, given at its first use in a row."""
    if s.nodes[node].ident < 0:
        s.nodes[node].ident = s.counts[FIRST_NUMBER] + s.counts[NUMBERED]
        s.numbered[s.counts[NUMBERED]] = node
        s.counts[NUMBERED] += 1
    return s.nodes[node].ident


@subroutine
def _emit(s, out, call, op, node, offset, length, flag, above):
    """Add a row, if the node is inside; returns what became of it."""
    if not s.nodes[node].inside:
        return OUTSIDE
    parent = _number(s, above) if above >= 0 else -1
    ident, task = _number(s, node), call[TASK]
    if s.tasks[task, 1] < 0:
        s.tasks[task, 1] = s.counts[THREADS]
        s.counts[THREADS] += 1
    row = out[s.counts[ROWS]]
    row[0], row[1], row[2], row[3] = call[NOW], offset, length, ident
    row[4], row[5], row[6], row[7] = parent, s.tasks[task, 1], flag | s.nodes[node].doubt, op
    s.counts[ROWS] += 1
    return MADE


@subroutine
def _new_node(s, path, created):
    node = s.counts[NODES]
    s.counts[NODES] += 1
    one = s.nodes[node]
    one.first, one.exact, one.open_question = -1 if created else 0, created, not created
    one.length = one.written = one.is_dir = one.doubt = 0
    one.ident = one.row = -1
    one.path, one.inside = path, s.paths[path].inside if path >= 0 else 1
    if path >= 0:
        s.paths[path].node = node
    return node


@subroutine
def _node_at(s, path):
    """The node of a path; one that was there before the trace if it was never seen."""
    node = s.paths[path].node
    return node if node >= 0 else _new_node(s, path, False)


@subroutine
def _above(s, node, path):
    """The directory that holds a path, for the row of a node; -1 if that makes no row, or has no name."""
    if path < 0 or not s.nodes[node].inside:
        return -1
    above = _node_at(s, s.paths[path].above)
    s.nodes[above].is_dir = 1
    return above


@subroutine
def _seen(s, path):
    node = s.paths[path].node
    return PRESENT if node >= 0 else ABSENT if node == ABSENT_NODE else UNSEEN


@subroutine
def _made(s, path, how):
    """A node that an open made."""
    node = _new_node(s, path, True)
    if how == ASSUMED:
        s.nodes[node].row, s.nodes[node].exact = s.counts[FIRST_ROW] + s.counts[ROWS], 0
    return node


@subroutine
def _find_or_make(s, call):
    """Node and what the open of it did."""
    path, flags = call[PATH], call[FLAGS]
    if path < 0:
        how = rules.opened(flags, UNSEEN, False)
        return (_new_node(s, path, False) if how == OPENED else _made(s, path, how)), how
    above = s.paths[s.paths[path].above].node
    how = rules.opened(flags, _seen(s, path), above >= 0 and s.nodes[above].first < 0)
    if how != OPENED:
        return _made(s, path, how), how
    node = _node_at(s, path)
    if flags & DIR:
        s.nodes[node].is_dir = 1
    return node, how


@subroutine
def _open(s, out, call):
    flags, path = call[FLAGS], call[PATH]
    which = s.counts[FOUNDS]
    s.counts[FOUNDS] += 1
    found, table = s.founds[which], s.tasks[call[TASK], 0]
    s.slots[table, call[FD]], s.at_exec[table, call[FD]] = which, flags & CLOEXEC != 0
    found.position = found.doubt = found.path_only = 0
    found.raw, found.node = call[RAW], -1
    found.append, found.synchronous = flags & APPEND != 0, flags & SYNC != 0
    if path >= 0 and s.paths[path].special:
        found.append = found.synchronous = 0
        return NOT_A_FILE
    node, how = _find_or_make(s, call)
    found.node = node
    if path >= 0 or how == ASSUMED:
        s.counts[HOW + how] += 1
    if how != OPENED:
        made = _emit(s, out, call, CREATE, node, -1, 0, 0, _above(s, node, path))
        if made == OUTSIDE:
            s.nodes[node].row = -1
        return made
    made = _emit(s, out, call, OPEN, node, -1, 0, DIRECTORY if s.nodes[node].is_dir else 0, -1)
    if flags & TRUNC:
        rules.set_length(s.nodes[node], 0)
        if made == MADE:
            s.counts[EXTRA] += 1
            _emit(s, out, call, TRUNCATE, node, 0, 0, CONTINUES, -1)
    return made


@subroutine
def _remove(s, out, call):
    path = call[PATH]
    if s.paths[path].special:
        return NOT_A_FILE
    node = _node_at(s, path)
    s.paths[path].node, s.paths[path].removed = ABSENT_NODE, node
    return _emit(s, out, call, UNLINK, node, -1, 0, 0, _above(s, node, path))


@subroutine
def _transfer(s, out, call, found, node):
    at, asked, count, before = call[AT], call[ASKED], call[MOVED], s.nodes[node]
    if call[OP] == WRITE:
        start, flag = rules.write(before, found, at, count, 0)
        return _emit(s, out, call, WRITE, node, start, count, flag, -1)
    start, flag, row = rules.read(before, found, at, asked, count, s.counts[OLDEST])
    if row >= 0:
        s.mistaken[s.counts[MISTAKEN]] = row
        s.counts[MISTAKEN] += 1
    return _emit(s, out, call, READ, node, start, count, flag, -1)


@subroutine
def _on_descriptor(s, out, call, which):
    """A call on an open description."""
    op, found = call[OP], s.founds[which]
    if op == CLOSE:
        s.slots[s.tasks[call[TASK], 0], call[FD]] = -1
    node = found.node
    if node < 0:
        return NOT_A_FILE
    if op == READ or op == WRITE:
        return _transfer(s, out, call, found, node)
    if op == SEEK:
        rules.seek(found, call[MOVED])
        return BOOKKEEPING
    if op == CLOSE and found.path_only:
        return BOOKKEEPING
    flag = (DIRECTORY if s.nodes[node].is_dir else 0) | call[FLAGS]
    return _emit(s, out, call, op, node, -1, 0, flag, -1)


@subroutine
def _failed(s, call):
    """A call that failed; `MOVED` says whether it showed that its path leads nowhere."""
    if call[PATH] >= 0 and call[MOVED]:
        s.paths[call[PATH]].node = ABSENT_NODE
    return FAILED_CALL


@kernel
def follow(s, calls, out):
    """Work on calls up to the first odd one; returns how many."""
    for i in range(len(calls)):
        call = calls[i]
        op = call[OP]
        if call[PATH] == ODD or (op >= 0 and call[MOVED] > MOST):
            return i
        if op == FAILED:
            made = _failed(s, call)
        elif op == OPEN:
            made = _open(s, out, call)
        elif op == UNLINK:
            made = _remove(s, out, call)
        else:
            which = s.slots[s.tasks[call[TASK], 0], call[FD]]
            if call[RAW] != NO_RAW and (which < 0 or s.founds[which].raw != call[RAW]):
                return i
            made = UNKNOWN_FD if which < 0 else _on_descriptor(s, out, call, which)
        s.counts[REASON + made] += 1
    return len(calls)
