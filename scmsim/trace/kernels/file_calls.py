"""Follow plain calls in order: their effects on files, names and descriptors, and their rows.

The kernel `follow` does per call what the handlers of `syscalls/data.py` and `paths.py` do, with the same `file_rules`,
and stops before a call that contradicts the known state: the handlers then process that call.
"""

from collections import namedtuple

import numpy as np

from scmsim.core.records import (
    CLOSE,
    CONTINUES,
    CREATE,
    DIRECTORY,
    LINK,
    MKDIR,
    OPEN,
    READ,
    READDIR,
    RENAME,
    RMDIR,
    STAT,
    TRUNCATE,
    UNLINK,
    WRITE,
)
from scmsim.jit import kernel, subroutine
from scmsim.jit.binding import compiled
from scmsim.trace.kernels import file_rules
from scmsim.trace.kernels.file_rules import (
    ABSENT,
    APPEND,
    ASSUMED,
    CLOEXEC,
    DIR,
    HERE,
    OPENED,
    PRESENT,
    SYNC,
    TRUNC,
    UNSEEN,
)
from scmsim.trace.kernels.strace_text import IS_DIRECTORY

rules = compiled(file_rules)

# columns of a call:
# - AT: offset of a transfer, new length of a TRUNCATE, length that a SEEK to the end has shown; HERE: none
# - ASKED: for a STAT, as in `strace_text`
# - PATH, PATH2: indices of the call's paths (-1: none)
# - FLAGS: flags of an open, or of the row of an fsync; DIR: the UNLINK removes a directory
OP, NOW, TASK, FD, RAW, AT, ASKED, MOVED, PATH, FLAGS, PATH2 = range(11)
WIDTH = 11
SEEK, FAILED, NOTHING = -1, -2, -3  # values of the column OP besides the codes of `records`
NAMED_OPS = (OPEN, UNLINK, STAT, RENAME, LINK, MKDIR)  # operations on paths
NO_RAW = -1
ODD = -2  # value of RAW, PATH or PATH2 with which `follow` stops before the call
MOST = 1 << 31  # limit of bytes moved by a call: Linux moves at most 0x7ffff000 (MAX_RW_COUNT)

_NODE = tuple("first length written row ident exact open_question inside is_dir doubt path now".split())
# `path`: index of a new node's first path; `now`: index of the path of a node that was renamed, UNMOVED or SHARED (several names)
UNMOVED, SHARED = -1, -2
FIRST, IDENT, IS_DIR = map(_NODE.index, ("first", "ident", "is_dir"))
NODE = np.dtype((np.record, [(name, "i8") for name in _NODE]))
FOUND = np.dtype(
    (
        np.record,
        [(name, "i8") for name in ("position", "doubt", "append", "synchronous", "path_only", "raw", "node")],
    )
)
# `node`: index of the node, ABSENT_NODE or UNSEEN_NODE; `removed`: index of the last node removed from this path, or -1
PATH_KNOWN = np.dtype((np.record, [(name, "i8") for name in ("node", "above", "inside", "special", "removed")]))
ABSENT_NODE, UNSEEN_NODE = -1, -2

# reasons why a call makes no row; MADE: the call makes one; NOT_HERE: the handlers must process the call
NOT_HERE = -1
UNKNOWN_FD, NOT_A_FILE, OUTSIDE, BOOKKEEPING, FAILED_CALL, MADE = range(6)
# indices in `counts`: how many nodes, descriptions, newly numbered nodes, threads, rows and rows to correct there are; the
# first new file number and row number; the oldest row that can still be corrected; how many rows are additional rows of a
# call; then opens by effect, and calls by the reason why they make no row
NODES, FOUNDS, NUMBERED, THREADS, ROWS, MISTAKEN, FIRST_NUMBER, FIRST_ROW, OLDEST, EXTRA, HOW, REASON = *range(11), 15
COUNTS = REASON + MADE + 1

# slots: description by table and descriptor (-1: none); at_exec: whether its last open had O_CLOEXEC (-1: no open);
# tasks: index of the table, thread number (-1: none yet), whether a call needed an unknown descriptor; numbered, mistaken: nodes
# with a number and rows to correct
Tables = namedtuple("Tables", "nodes founds paths slots at_exec tasks numbered mistaken counts")


@subroutine
def _number(s, node):
    """Return the dense number of a node, assigned at its first use in a row."""
    if s.nodes[node].ident < 0:
        s.nodes[node].ident = s.counts[FIRST_NUMBER] + s.counts[NUMBERED]
        s.numbered[s.counts[NUMBERED]] = node
        s.counts[NUMBERED] += 1
    return s.nodes[node].ident


@subroutine
def _emit(s, out, call, op, node, offset, length, flag, above):
    """Add a row if the node is inside the chosen directory; return MADE or OUTSIDE."""
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
    one.now = UNMOVED
    one.path, one.inside = path, s.paths[path].inside if path >= 0 else 1
    if path >= 0:
        s.paths[path].node = node
    return node


@subroutine
def _node_at(s, path):
    """Return the node of a path; if the path has none, add a node from before the trace."""
    node = s.paths[path].node
    return node if node >= 0 else _new_node(s, path, False)


@subroutine
def _above(s, node, path):
    """Return the node of the directory that holds a path, for the row of `node`; -1 if `node` makes no row, or has no path."""
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
    """Add a node for a file that an open created (`how`: see `file_rules.opened`); return its index."""
    node = _new_node(s, path, True)
    if how == ASSUMED:  # remember the CREATE row: a later read may show that the file existed (`file_rules.holds`)
        s.nodes[node].row, s.nodes[node].exact = s.counts[FIRST_ROW] + s.counts[ROWS], 0
    return node


@subroutine
def _find_or_make(s, call):
    """Return the node of an opened path, and the effect of the open (see `file_rules.opened`)."""
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
    if path >= 0 and s.paths[path].special:  # not a file of a file system: calls on it make no rows
        found.append = found.synchronous = 0
        return NOT_A_FILE
    node, how = _find_or_make(s, call)
    found.node = node
    if path >= 0 or how == ASSUMED:
        s.counts[HOW + how] += 1
    if how != OPENED:
        made = _emit(s, out, call, CREATE, node, -1, 0, 0, _above(s, node, path))
        if made == OUTSIDE:  # no CREATE row to correct
            s.nodes[node].row = -1
        return made
    made = _emit(s, out, call, OPEN, node, -1, 0, DIRECTORY if s.nodes[node].is_dir else 0, -1)
    if flags & TRUNC:
        rules.set_length(s.nodes[node], 0)
        if made == MADE:
            s.counts[EXTRA] += 1  # O_TRUNC: the open makes a second row
            _emit(s, out, call, TRUNCATE, node, 0, 0, CONTINUES, -1)
    return made


@subroutine
def _remove(s, out, call):
    path = call[PATH]
    if s.paths[path].special:
        return NOT_A_FILE
    node, op, flag = _node_at(s, path), UNLINK, 0
    if call[FLAGS] & DIR:
        s.nodes[node].is_dir, op, flag = 1, RMDIR, DIRECTORY
    s.paths[path].node, s.paths[path].removed = ABSENT_NODE, node
    return _emit(s, out, call, op, node, -1, 0, flag, _above(s, node, path))


@subroutine
def _make_directory(s, out, call):
    path = call[PATH]
    if s.paths[path].special:
        return NOT_A_FILE
    node = _new_node(s, path, True)
    s.nodes[node].is_dir = 1
    return _emit(s, out, call, MKDIR, node, -1, 0, DIRECTORY, _above(s, node, path))


@subroutine
def _rename(s, out, call):
    old, new = call[PATH], call[PATH2]
    node, replaced = s.paths[old].node, s.paths[new].node
    if node < 0 or s.nodes[node].inside != s.paths[new].inside:
        return NOT_HERE
    if s.nodes[node].is_dir or (s.nodes[node].first >= 0 and s.nodes[node].length == 0):
        return NOT_HERE  # a directory, or perhaps one: the names below it change
    if replaced == node:  # two names of one inode: Linux does nothing
        replaced = -1
    else:
        s.paths[old].node, s.paths[new].node, s.nodes[node].now = ABSENT_NODE, node, new
    if replaced >= 0:
        s.paths[new].removed = replaced
        replaced = replaced if s.nodes[replaced].inside else -1
    return _emit(s, out, call, RENAME, node, -1, 0, 0, replaced)


@subroutine
def _link(s, out, call):
    path, node = call[PATH2], _node_at(s, call[PATH])
    s.paths[path].node = node
    if s.nodes[node].now == UNMOVED:
        s.nodes[node].now = SHARED
    return _emit(s, out, call, LINK, node, -1, 0, 0, _above(s, node, path))


@subroutine
def _on_paths(s, out, call):
    op, path = call[OP], call[PATH]
    if op == OPEN:
        return _open(s, out, call)
    if op == UNLINK:
        return _remove(s, out, call)
    if op == MKDIR:
        return _make_directory(s, out, call)
    if op == STAT:
        return NOT_A_FILE if s.paths[path].special else _stat(s, out, call, _node_at(s, path))
    if s.paths[path].special or s.paths[call[PATH2]].special:
        return NOT_HERE
    return _rename(s, out, call) if op == RENAME else _link(s, out, call)


@subroutine
def _correct(s, row):
    """Note the CREATE row of a file that existed before the row (`file_rules.holds`); NONE: no row."""
    if row >= 0:
        s.mistaken[s.counts[MISTAKEN]] = row
        s.counts[MISTAKEN] += 1


@subroutine
def _measured(s, node, length):
    """Note that a stat or seek has shown the file's length."""
    _correct(s, rules.holds(s.nodes[node], length, s.counts[OLDEST]))
    rules.set_length(s.nodes[node], length)


@subroutine
def _stat(s, out, call, node):
    if call[ASKED] == IS_DIRECTORY:
        s.nodes[node].is_dir = 1
    elif call[ASKED] >= 0:
        _measured(s, node, call[ASKED])
    return _emit(s, out, call, STAT, node, -1, 0, DIRECTORY if s.nodes[node].is_dir else 0, -1)


@subroutine
def _transfer(s, out, call, found, node):
    at, asked, count, before = call[AT], call[ASKED], call[MOVED], s.nodes[node]
    if call[OP] == WRITE:
        start, flag = rules.write(before, found, at, count, 0)
        return _emit(s, out, call, WRITE, node, start, count, flag, -1)
    start, flag, row = rules.read(before, found, at, asked, count, s.counts[OLDEST])
    _correct(s, row)
    return _emit(s, out, call, READ, node, start, count, flag, -1)


@subroutine
def _on_descriptor(s, out, call, which):
    """Apply a call on an open description; return MADE, or the reason why the call makes no row."""
    op, found = call[OP], s.founds[which]
    if op == CLOSE:
        s.slots[s.tasks[call[TASK], 0], call[FD]] = -1
    node = found.node
    if node < 0:
        return NOT_A_FILE
    if op == READ or op == WRITE:
        return _transfer(s, out, call, found, node)
    if op == SEEK:
        if call[AT] != HERE and not s.nodes[node].is_dir:
            _measured(s, node, call[AT])
        rules.seek(found, call[MOVED])
        return BOOKKEEPING
    if op == CLOSE and found.path_only:  # O_PATH opened nothing, so there is nothing to release
        return BOOKKEEPING
    if op == STAT:
        return _stat(s, out, call, node)
    if op == TRUNCATE:
        rules.set_length(s.nodes[node], call[AT])
        return _emit(s, out, call, TRUNCATE, node, call[AT], 0, 0, -1)
    if op == READDIR:
        s.nodes[node].is_dir = 1
        return _emit(s, out, call, READDIR, node, -1, call[MOVED], DIRECTORY, -1)
    flag = (DIRECTORY if s.nodes[node].is_dir else 0) | call[FLAGS]
    return _emit(s, out, call, op, node, -1, 0, flag, -1)


@subroutine
def _failed(s, call):
    """Apply a call that failed; `MOVED` is nonzero if the error shows that its path does not exist."""
    if call[PATH] >= 0 and call[MOVED]:
        s.paths[call[PATH]].node = ABSENT_NODE
    return FAILED_CALL


@kernel
def follow(s, calls, out):
    """Apply calls up to the first call that needs the handlers; return the number of applied calls."""
    for i in range(len(calls)):
        call = calls[i]
        op = call[OP]
        if op == NOTHING:
            continue
        if call[PATH] == ODD or call[PATH2] == ODD or (op >= 0 and call[MOVED] > MOST):
            return i
        if op == FAILED:
            made = _failed(s, call)
        elif call[PATH] >= 0 or op == OPEN:
            made = _on_paths(s, out, call)
        else:
            which = s.slots[s.tasks[call[TASK], 0], call[FD]]
            if call[RAW] != NO_RAW and (which < 0 or s.founds[which].raw != call[RAW]):
                return i  # the descriptor's printed path differs from the known one: the handlers resolve it
            made = UNKNOWN_FD if which < 0 else _on_descriptor(s, out, call, which)
            s.tasks[call[TASK], 2] |= made == UNKNOWN_FD
        if made == NOT_HERE:
            return i
        s.counts[REASON + made] += 1
    return len(calls)
