"""Driver of mapped files: it passes the operations of a batch, in order, to the kernels of the file system and of mappings.

Until a trace touches a mapping, the driver only records the calls of mmap and munmap, and the file system's kernels charge their
costs.
"""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from scmsim.core import records as r
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import FREE_COST, State
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.mechanisms import CALLS, COSTS, MMAP_COST, SITES
from scmsim.jit import kernel

_TOUCHES = (r.ULOAD, r.USTORE, r.UFLUSH, r.UFENCE)
_MAPS = (r.MMAP, r.MUNMAP)
_CHANGES = (*_MAPS, r.MADVISE, r.MSYNC, r.FSYNC, r.TRUNCATE, r.FALLOCATE)
_ERRORS = {  # field of the table of mappings -> its error and text
    w.NOT_MAPPED: ("SIGSEGV", "touches of files have no mapping there"),
    w.DENIED: ("SIGSEGV", "stores went through a mapping that does not allow them"),
    w.BEYOND_END: ("SIGBUS", "touches are after the end of their file"),
    w.NO_SPACE: ("SIGBUS", "stores found the device full"),
    w.UNSUPPORTED: (
        "EINVAL",
        "mappings were refused: no bytes, no file, MAP_SYNC without support, or pages of one size that do not fit",
    ),
}

_MEASURED = ("ext4-dax", "xfs-dax", "ext2-dax", "tmpfs")  # models with their own cost tables
_CACHED = ("ramfs", "ext4", "ext4-linux4", "ext2", "xfs")  # models with a page cache, which use tmpfs's costs
# Kernels with mappings in a red-black tree; since 6.1 they are in a maple tree, which costs more.
_RED_BLACK = ("4.4", "5.13")
_TIMED = ("ext4-dax", "xfs-dax", "ext2-dax")  # models whose cost of mmap contains the update of the access time

Bound = Callable[[Any], tuple[ModuleType, Mapping[int, int]]]


def _set_of(*operations: int) -> np.ndarray:
    found = np.zeros(len(r.OPS), bool)
    found[list(operations)] = True
    return found


_IS_TOUCH, _IS_MAP, _IS_OURS = _set_of(*_TOUCHES, r.MADVISE), _set_of(*_MAPS), _set_of(*_TOUCHES, *_CHANGES)
_IS_EITHER = _IS_TOUCH | _IS_MAP


@kernel
def _next_of(kinds, operations, i):
    """Return the index of the first operation from `i` on whose code is in the set `kinds`; `operations.size` if none."""
    while i < operations.size and not kinds[operations[i].op]:
        i += 1
    return i


def lay_costs(record: Any, sites: Sequence[str], fs: str, kernel: str | None) -> int:
    """Append the costs of mappings to the cost table of model `fs`; return the first row.

    `sites` are all mechanisms of the model, `kernel` is the version of Linux that it models, if any.
    """
    free = record.cost[:, 3] == FREE_COST
    first = next(row for row in range(len(free)) if free[row : row + len(COSTS)].all())
    like = "tmpfs" if fs in _CACHED else fs
    record.cost[first : first + len(COSTS)] = costs.load(
        f"mapping-{like}" if like in _MEASURED else "mapping", COSTS, sites
    )
    record.map_cost = first + MMAP_COST
    if kernel in _RED_BLACK:
        older = "mapping-ext4-dax-5.13" if fs in _TIMED else "mapping-5.13"
        record.cost[record.map_cost : record.map_cost + len(CALLS)] = costs.load(older, CALLS, sites)
    return first


def lay_table(state: State, files: int, site: int, cost: int) -> np.ndarray:
    """Place the table of mappings, with the fields of `files` files, at the arena's top; return the table.

    `site` and `cost` are the first mechanism and the first cost row of mappings.
    """
    record = state.record[0]
    words = w.TABLE_WORDS + w.UPPER_WORDS + files * w.FILE_WORDS
    if record.arena_top + words > len(state.arena):
        state.grow(words)
    m = record.maps = int(record.arena_top)
    record.arena_top += words
    table = state.arena[m : m + w.TABLE_WORDS]
    table[w.UPPER], table[w.FILES] = m + w.TABLE_WORDS, m + w.TABLE_WORDS + w.UPPER_WORDS
    table[w.NEXT_ADDRESS], table[w.SITE], table[w.COST] = w.AREA, site, cost
    return table


class Mapped:
    """The mappings of one model; `SITES` are the mechanisms that they add.

    Parameters
    ----------
    model : Model
        The file system.
    bound : callable
        Called with the model's state record; returns the kernels bound to the family's hooks, and values for fields of the table of
        mappings (field -> value).
    files : int
        Number of files in the trace.
    """

    SITES = SITES

    def __init__(self, model: Any, bound: Bound, files: int) -> None:
        self.model, self.bound, self.files = model, bound, files
        self.kernels: Any = None
        self.active = False
        self.kept: list[np.ndarray] = []  # calls of mmap and munmap before the first touch
        self.next = 0  # next row of the batch that concerns mappings
        self.second = False  # whether one of the operation's two kernels (file system, mappings) has already run
        self.asked = np.zeros(0, r.OP)  # buffer for the operations that faults request from the file system
        self.site, sites = len(model.module.SITES), [*model.module.SITES, *SITES]
        self.cost = lay_costs(model.state.record[0], sites, model.fs, model.kernel)

    def begin(self, operations: np.ndarray) -> bool:
        """Return whether a batch of operations concerns mappings; create the tables at the first batch that touches a mapping."""
        if not self.active and _next_of(_IS_EITHER, operations, 0) < len(operations):
            self._first(operations)
        if not self.active:
            return False
        if len(self.asked) < len(operations):
            self.asked = np.zeros(len(operations), r.OP)
        self.next = _next_of(_IS_OURS, operations, 0)
        return self.next < len(operations)

    def _first(self, operations: np.ndarray) -> None:
        """Create the tables if a batch touches a mapping, else keep its mmap and munmap calls."""
        codes = operations["op"]
        touches = _IS_TOUCH[codes] | ((codes == r.MMAP) & (operations["flag"] & r.POPULATE > 0))
        if (operations["file"][touches] >= 0).any():
            self._attach()
        elif _IS_MAP[codes].any():
            self.kept.append(operations[_IS_MAP[codes]].copy())

    def attached(self) -> Any:
        """Return the kernels; create the tables first if no touch has done so."""
        if not self.active:
            self._attach()
        return self.kernels

    def _attach(self) -> None:
        """Create the tables of mappings at the arena's top, and the mappings of the calls kept so far."""
        state, record = self.model.state, self.model.state.record[0]
        table = lay_table(state, self.files, self.site, self.cost)
        self.kernels, options = self.bound(record)
        for word, value in options.items():
            table[word] = value
        self.active = True
        for batch in self.kept:
            self.begin(batch)
            i = 0
            while i < len(batch):
                i = self.kernels.change(state.record, state.arena, batch, i, self.model.out)
                self.model.make_room(batch[min(i, len(batch) - 1)])
        self.kept = []

    def emit(self, operations: np.ndarray, i: int) -> int:
        """Run one kernel from row `i` on and return the index of the first operation not done, as a model's `emit` does."""
        state, out = self.model.state, self.model.out
        if state.arena[int(state.record[0].maps) + w.REQUEST]:
            return self._answer(operations, i)
        code = operations["op"][i]
        if _IS_TOUCH[code]:
            kernel = self.kernels.change if code == r.MADVISE else self.kernels.touch
            then = kernel(state.record, state.arena, operations, i, out)
            return then if then > i or self._waits() else self._pass_by(i)
        if self.next < i:
            self.next = _next_of(_IS_OURS, operations, i)
        if self.next > i:
            return int(self.model.module.emit(state.record, state.arena, operations[: self.next], i, out))
        # mmap: first the file system's call, then the mapping; all other calls change the mappings first
        if self.second != (code == r.MMAP):
            if code == r.MSYNC and not self.kernels.is_synced(state.record, state.arena, operations, i):
                self.asked[i : i + 1] = operations[i]
                self.asked["op"][i] = r.MUNMAP  # a call that changes nothing in the file system
                operations = self.asked
            then = int(self.model.module.emit(state.record, state.arena, operations[: i + 1], i, out))
        else:
            then = int(self.kernels.change(state.record, state.arena, operations, i, out))
        if then > i:
            self.second = not self.second
        return i if self.second else then

    def _waits(self) -> bool:
        """Return whether the last kernel stopped for arena words or buffer space, or for a request to the file system."""
        record = self.model.status[0]
        asks = self.model.state.arena[int(record["maps"]) + w.REQUEST]
        return bool(asks or record["need_events"] or record["need_words"])

    def _pass_by(self, i: int) -> int:
        """Count a touch without a file as done; return the next row."""
        self.model.status[0]["seen"] += 1
        return i + 1

    def _answer(self, operations: np.ndarray, i: int) -> int:
        """Let the file system run the request of a fault, as an operation that replaces row `i`; return `i`."""
        state, status = self.model.state, self.model.status[0]
        table = state.arena[int(status["maps"]) :]
        asks, op = int(table[w.REQUEST]), self.asked[i : i + 1]
        op[:] = operations[i]
        op["file"] = (table[w.REQUEST_FILE] - table[w.FILES]) // w.FILE_WORDS
        op["offset"], op["length"] = table[w.REQUEST_PAGE] * w.PAGE, w.PAGE
        codes = {w.ASK_TURN: r.ULOAD, w.ASK_BLOCK: r.FALLOCATE, w.ASK_SYNC: r.FSYNC, w.ASK_CLOSE: r.CLOSE}
        flags = {w.ASK_BLOCK: r.KEEP_SIZE, w.ASK_SYNC: r.DATA_ONLY}
        op["op"], op["flag"] = codes[asks], flags.get(asks, 0) | r.CONTINUES | operations["flag"][i] & r.SETUP
        counts = ("seen", "failed", "first_failed", "refused", "ignored")
        before = {name: int(status[name]) for name in counts if name in status.dtype.names}
        then = self.model.module.emit(state.record, state.arena, self.asked[: i + 1], i, self.model.out)
        if then > i:
            refused = int(status["failed"]) > before["failed"]
            table = state.arena[int(status["maps"]) :]
            table[w.REQUEST], table[w.REPLY] = 0, w.REFUSED if refused else asks
            if asks == w.ASK_CLOSE:
                table[w.REPLY] = 0
            for name, value in before.items():
                status[name] = value
        return i

    def errors(self) -> dict[str, int]:
        """Return the number of failed touches and mappings per error name."""
        found: dict[str, int] = {}
        for word, (name, _) in _ERRORS.items():
            if count := self._word(word):
                found[name] = found.get(name, 0) + count
        return found

    def remarks(self) -> list[str]:
        """Return remarks on touches and mappings that failed or were replaced, and on private copies."""
        lines = [f"{self._word(word):,} {text}" for word, (_, text) in _ERRORS.items() if self._word(word)]
        if replaced := self._word(w.REPLACED):
            lines.append(f"{replaced:,} mappings lost pages to a later one at the same addresses")
        if copies := self._word(w.COPIES):
            lines.append(
                f"{copies:,} pages of private mappings were copied: what is stored there does not reach the file"
            )
        return lines

    def _word(self, word: int) -> int:
        record = self.model.state.record[0]
        return int(self.model.state.arena[int(record.maps) + word]) if self.active else 0
