"""Convert many plain calls in a row in bulk: put the importer state that they touch into tables for a compiled kernel.

Plain calls are the common ones without unusual arguments, and calls without effect on files; a stretch is a series of consecutive
plain calls.  `kernels/file_calls.py` does for them what the handlers do (the property tests compare both).  The tables
hold only what a stretch touches, so their cost depends on the stretch, not on how many files the trace has opened so far.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from operator import attrgetter
from typing import Any

import numpy as np

from scmsim.trace.syscalls.importer import (
    BOOKKEEPING,
    CREATES,
    FAILED_CALL,
    NOT_A_FILE,
    OUTSIDE,
    UNKNOWN_FD,
    WIDTH,
    Importer,
)
from scmsim.trace.syscalls.names import above_of, is_special
from scmsim.trace.syscalls.state import Description, Node, Table, Task

ENOUGH = 64  # minimum calls of a stretch: a shorter one is converted faster call by call
_REASONS = (UNKNOWN_FD, NOT_A_FILE, OUTSIDE, BOOKKEEPING, FAILED_CALL)  # in the order of the kernel's numbers
_FOUND = ("position", "doubt", "append", "synchronous", "path_only")
_of_node, _of_found = attrgetter(*Node.NUMBERS), attrgetter(*_FOUND)


def stretches(plain: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each stretch of at least ENOUGH calls; `plain` is a mask of the plain calls."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], plain, [False]))))
    for start, end in edges.reshape(-1, 2).tolist():
        if end - start >= ENOUGH:
            yield start, end


def in_parts(start: int, end: int, many: Callable[[int, int], int], each: Callable[[int, int], None]) -> None:
    """Convert a stretch in bulk as far as possible.

    `many(start, end)` converts calls in bulk up to the first that needs a handler, and returns how many; `each(start, end)` then
    converts some one by one.  The next bulk attempt is short, because an attempt costs the same however early it stops.
    """
    limit = end - start
    while end - start >= ENOUGH:
        stop = min(start + limit, end)
        done = many(start, stop)
        start += done
        limit *= 2
        if start < stop:
            limit = ENOUGH
            each(start, min(start + ENOUGH, end))
            start = min(start + ENOUGH, end)
    each(start, end)


def distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the index where each distinct value first occurs, ascending, and for each element its value's rank in that order."""
    if (values == values[0]).all():
        return np.zeros(1, "i8"), np.zeros(len(values), "i8")
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), "i8")
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse]


class Stretch:
    """The part of the importer's state that a stretch of calls touches, as tables for the kernel.

    Parameters
    ----------
    imp : Importer
    tasks : list of Task
        Tasks, indexed by the calls' column TASK.
    fds : sequence
        Descriptors as the keys of `Table.slots`, indexed by the calls' column FD.
    texts : optional
        The texts that -y prints for descriptors, by their numbers in the column RAW; its method `number` returns a text's number.
    """

    def __init__(self, imp: Importer, tasks: list[Task], fds: Sequence[Any], texts: Any = None) -> None:
        from scmsim.trace.kernels import file_calls

        self.imp, self.tasks, self.fds, self._texts, self._kernel = imp, tasks, fds, texts, file_calls
        self._nodes: list[Any] = []  # Node, or the name of a node that nothing refers to any more
        self._founds: list[Description] = []
        self._paths: list[str] = []
        self._known = array("q")  # records of the kernel's PATH_KNOWN
        self._path_index: defaultdict[str, int] = defaultdict(count().__next__)
        self._index: dict[int, int] = {}  # index of each node and description by its id

    def path(self, path: str) -> int:
        """Return the index of a path for the column PATH."""
        if path not in self._path_index:
            names, above = self.imp.names, above_of(path)
            parent = self.path(above) if above != path else len(self._paths)
            self._paths.append(path)
            self._known.extend((self._node_at(path), parent, names.inside(path), is_special(path), -1))
        return self._path_index[path]

    def paths(self, paths: list[str], above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of many paths, whose directories have the indices `above`, and which of the paths are special."""
        index, names, known, start = self._path_index, self.imp.names, self.imp.names.table, len(self._paths)
        each = np.array(list(map(index.__getitem__, paths)), "i8")
        new = list(islice(index, start, None))
        self._paths += new
        rows = np.full((len(new), 5), -1, "i8")
        rows[:, 0] = self._kernel.UNSEEN_NODE
        if not known.keys().isdisjoint(new):
            rows[:, 0] = list(map(self._node_at, new))
        rows[each[each >= start] - start, 1] = above[each >= start]
        rows[:, 2] = 1 if names.under is None else list(map(names.inside, new))
        folders, which = np.unique(rows[:, 1], return_inverse=True)
        special = [is_special(f"{self._paths[i]}/x") for i in folders.tolist()]
        rows[:, 3] = np.array(special, bool)[which]
        for i in np.flatnonzero(
            np.isin(rows[:, 1], [self._path_index.get(path, -1) for path in ("/", "/dev")])
        ).tolist():
            rows[i, 3] = is_special(new[i])  # /proc, but not /usr
        self._known.frombytes(rows.tobytes())
        return each, np.frombuffer(self._known, "i8").reshape(-1, 5)[each, 3] > 0

    def _node_at(self, path: str) -> int:
        """Return the index of the node of a path, or what the kernel has for a path without a node."""
        node, kernel = self.imp.names.at(path), self._kernel
        if node is None:
            return kernel.ABSENT_NODE if path in self.imp.names.table else kernel.UNSEEN_NODE
        return self._node(node)

    def _node(self, node: Node) -> int:
        index = self._index.get(id(node))
        if index is None:
            index = self._index[id(node)] = len(self._nodes)
            self._nodes.append(node)
        return index

    def _found(self, found: Description | None) -> int:
        if found is None:
            return -1
        index = self._index.get(id(found))
        if index is None:
            index = self._index[id(found)] = len(self._founds)
            self._founds.append(found)
        return index

    def is_doubtful(self) -> bool:
        """Return whether unreadable lines made the state doubtful, so that the handlers must process the calls."""
        return bool(self.imp.names.doubt) or any(task.is_doubtful() for task in self.tasks)

    def follow(self, calls: np.ndarray) -> int:
        """Convert calls up to the first that needs a handler; return how many, 0 if unreadable lines made the state doubtful."""
        kernel, imp = self._kernel, self.imp
        if self.is_doubtful():
            return 0
        tables = list({id(task.table): task.table for task in self.tasks}.values())
        row_of = {id(table): i for i, table in enumerate(tables)}
        slots = np.array([[self._found(table.slots.get(fd)) for fd in self.fds] for table in tables], "i8")
        named = int(np.isin(calls[:, kernel.OP], kernel.NAMED_OPS).sum())
        founds = self._found_table(named)
        nodes = self._node_table(2 * named)
        paths = np.array(self._known, "i8").reshape(-1, 5)
        counts = np.zeros(kernel.COUNTS, "i8")
        counts[[kernel.NODES, kernel.FOUNDS, kernel.THREADS]] = len(self._nodes), len(self._founds), imp.threads
        counts[kernel.FIRST_NUMBER] = len(imp.names.numbered)
        counts[[kernel.FIRST_ROW, kernel.OLDEST]] = imp.next_row(), imp.drained
        state = kernel.Tables(
            nodes=nodes.view(kernel.NODE).reshape(-1),
            founds=founds.view(kernel.FOUND).reshape(-1),
            paths=paths.copy().view(kernel.PATH_KNOWN).reshape(-1),
            slots=slots.copy(),
            at_exec=np.full_like(slots, -1),
            tasks=np.array([(row_of[id(task.table)], task.thread, task.lacked) for task in self.tasks], "i8"),
            numbered=np.empty(len(nodes), "i8"),
            mistaken=np.empty(len(calls), "i8"),
            counts=counts,
        )
        rows = np.empty((len(calls) + named, WIDTH), "i8")
        done = kernel.follow(state, calls, rows)
        imp.emit_table(rows[: counts[kernel.ROWS]])
        self._keep_nodes(nodes[: counts[kernel.NODES]], calls[:done], state)
        self._keep_founds(founds, tables, slots, state)
        self._keep_names(paths, state.paths.view("i8").reshape(-1, 5))
        self._keep_counts(state)
        return int(done)

    def _node_table(self, more: int) -> np.ndarray:
        table = np.zeros((len(self._nodes) + more, len(Node.NUMBERS) + 2), "i8")
        table[:, -1] = self._kernel.UNMOVED
        if self._nodes:
            table[: len(self._nodes), :-2] = np.array(list(map(_of_node, self._nodes)), "i8")
        return table

    def _found_table(self, more: int) -> np.ndarray:
        table = np.zeros((len(self._founds) + more, len(_FOUND) + 2), "i8")
        for row, found in zip(table, self._founds, strict=False):
            raw = -1 if found.raw is None or self._texts is None else self._texts.number(found.raw)
            node = -1 if found.node is None else self._node(found.node)
            row[:] = *_of_found(found), raw if raw >= 0 else self._kernel.ODD, node
        return table

    def _keep_nodes(self, table: np.ndarray, calls: np.ndarray, state: Any) -> None:
        """Store the numbers of the nodes; a new node becomes an object only if more than its name refers to it."""
        nodes, kernel, names, known = self._nodes, self._kernel, self.imp.names, len(self._nodes)
        path, moved, at = table[:, -2], table[:, -1], np.arange(len(table))
        held = np.isin(at, state.founds["node"][state.slots[state.slots >= 0]])
        lives = held | (at < known) | (path >= 0)
        asleep = (at >= known) & (path >= 0) & ~held & (table[:, kernel.IS_DIR] == 0) & (moved == kernel.UNMOVED)
        asleep[asleep] = state.paths["node"][path[asleep]] == at[asleep]  # false for a file that is already removed
        lives &= ~asleep
        opens = calls[(calls[:, kernel.OP] == kernel.OPEN) & (calls[:, kernel.PATH] < 0)]
        owners = zip(opens[:, kernel.TASK].tolist(), opens[:, kernel.FD].tolist(), strict=True)
        nodes += [self._paths[i] if i >= 0 else self._nameless(*next(owners)) for i in path[known:].tolist()]
        numbered = table[~lives & (table[:, kernel.IDENT] >= 0)]
        names.closed.update(zip(numbered[:, kernel.IDENT].tolist(), numbered[:, kernel.FIRST].tolist(), strict=True))
        names.put_to_sleep([nodes[i] for i in at[asleep].tolist()], table[asleep, :-2])
        state.paths["node"][path[asleep]] = kernel.UNSEEN_NODE  # `_keep_names` has nothing to do for them
        # lists of columns, not of rows: the garbage collector visits each list
        columns = table[lives, :-2].T.tolist()
        for i, numbers in zip(at[lives].tolist(), zip(*columns, strict=True), strict=True):
            if i >= known:
                nodes[i] = Node(nodes[i], True)
            nodes[i].set_numbers(numbers)
        for i in np.flatnonzero(moved >= 0).tolist():
            nodes[i].path = self._paths[int(moved[i])]

    def _nameless(self, task: int, fd: int) -> str:
        return self.imp.nameless_path(self.tasks[task], self.fds[fd])

    def _keep_founds(self, table: np.ndarray, tables: list[Table], before: np.ndarray, state: Any) -> None:
        founds = self._founds
        for found, (position, doubt) in zip(founds, table[: len(founds), :2].tolist(), strict=True):
            found.position, found.doubt = position, doubt
        made: dict[int, Description] = dict(enumerate(founds))
        for r, c in np.argwhere((state.slots != before) | (state.at_exec >= 0)).tolist():
            slots, fd, which, at_exec = tables[r], self.fds[c], int(state.slots[r, c]), int(state.at_exec[r, c])
            if which < 0:
                slots.slots.pop(fd, None)
            else:
                if which not in made:
                    made[which] = self._described(*table[which].tolist())
                slots.slots[fd] = made[which]
            if at_exec >= 0:
                (slots.at_exec.add if at_exec else slots.at_exec.discard)(fd)

    def _described(
        self, position: int, doubt: int, append: int, synchronous: int, _: int, raw: int, node: int
    ) -> Description:
        found = Description(None if node < 0 else self._nodes[node], None if raw < 0 else self._texts[raw])
        found.position, found.doubt, found.append, found.synchronous = position, doubt, bool(append), bool(synchronous)
        return found

    def _keep_names(self, before: np.ndarray, after: np.ndarray) -> None:
        names, paths, nodes = self.imp.names, self._paths, self._nodes
        changed = np.flatnonzero((before != after).any(1))
        for i, node, removed in zip(changed.tolist(), *after[changed][:, [0, 4]].T.tolist(), strict=True):
            if removed >= 0:
                names.deleted[paths[i]] = nodes[removed]
            if node >= -1:
                names.table[paths[i]] = nodes[node] if node >= 0 else None

    def _keep_counts(self, state: Any) -> None:
        imp, kernel, counts = self.imp, self._kernel, state.counts.tolist()
        imp.names.numbered += [self._nodes[i] for i in state.numbered[: counts[kernel.NUMBERED]].tolist()]
        for row in state.mistaken[: counts[kernel.MISTAKEN]].tolist():
            imp.existed(row)
        for task, (_, thread, lacked) in zip(self.tasks, state.tasks.tolist(), strict=True):
            task.thread, task.lacked = thread, bool(lacked)
        imp.threads = counts[kernel.THREADS]
        report = imp.report
        report.calls += counts[kernel.REASON + kernel.MADE]
        report.extra_rows += counts[kernel.EXTRA]
        report.left_out.update(dict(zip(_REASONS, counts[kernel.REASON :], strict=False)))
        report.creates.update(
            {CREATES[how]: counts[kernel.HOW + how] for how in range(1, 4) if counts[kernel.HOW + how]}
        )
