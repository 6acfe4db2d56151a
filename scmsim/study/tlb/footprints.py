"""Build footprints from the touches that the lab recorded, matched with the model's calls.

All calls without a timer interrupt are kept: rare touches (one more page of a slab) cause most of a TLB's walks.
"""

import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from scmsim import footprint
from scmsim.core.errors import UsageError
from scmsim.core.records import CREATE, OPEN, OPS, SETUP, WORK, Source
from scmsim.footprint.describe import NONE, OPERATION, begin, describe
from scmsim.footprint.interleave import LINE, OPEN_FILE, PAGE
from scmsim.footprint.settle import LARGE
from scmsim.fs.engine.model import Model
from scmsim.lab import touches
from scmsim.lab.regions import DIRECT_MAP, PERSISTENT, PROGRAM, REGIONS
from scmsim.pipeline.arguments import Progress, model_params, open_source
from scmsim.pipeline.stages import Loop, Stage

# blocks of ext4's inode table in the page cache: like a slab with one object per inode; _FILLS_TABLE marks them
TABLE = "table of inodes"
_FILLS_TABLE = "ext4_fill_raw_inode"
INODES = re.compile(rf"inode_cache$|_inode$|^{TABLE}$")  # slab caches with one object per inode
OPEN_FILES = "filp"  # slab cache with one object per open file
TICK = "sysvec_apic_timer_interrupt"  # suffix of the names of a timer interrupt's first functions
# Functions that copy from or to the program (from Linux 6.4 on rep_movs_alternative), that copy or clear a whole page, and
# that only copy and clear.
_USER, _WHOLE, _BULK = map(
    re.compile,
    (
        "^copy_user|^rep_movs_alternative$",
        "^__memcpy_flushcache$|^clear_page_(erms|rep|orig)$",
        "copy_user|rep_movs_|memcpy|memset|memmove|clear_page|zero_user",
    ),
)
# any page of a cache that the calls on an object touch at least this often, relative to the page that they touch most,
# may be the object's page
SHARE = 0.8
INTERRUPT = -2  # call number of the touches of a timer interrupt
MOST_PAGES = 1 << 15  # pages that the 15 bits of a touch can distinguish; the 16th bit marks a store


class Call(NamedTuple):
    """A call as the model sees it: its kind, mechanisms (a bit each), amount moved, and the numbers of its inode and open file."""

    kind: int
    sites: int
    amount: int
    inode: int
    opening: int

    @property
    def made(self) -> int:
        """Return the number of the open file that the call makes."""
        return self.opening if self.kind in (OPEN, CREATE) else NONE


def make(
    trace: str, folder: str | os.PathLike[str], names: Sequence[str], out: str | os.PathLike[str], progress: Progress
) -> list[pathlib.Path]:
    """Write the footprints of file systems from a folder of `scmsim lab touches TRACE`; return the files.

    Raises
    ------
    UsageError
        For a folder without touches, or with touches of another trace.
    """
    source, _ = open_source(trace)
    target = pathlib.Path(out)
    target.mkdir(parents=True, exist_ok=True)
    made = []
    for number, name in enumerate(names):
        progress(name, number, len(names))
        header, table = touches.load(pathlib.Path(folder) / f"{name}-1{touches.SUFFIX}")
        model = Model(name, model_params("fs", name, {}), source.files)
        calls = dict(_paired(_kinds(table), calls_of(model, source), trace))
        made.append(target / f"{name}.npz")
        about = {"fs": name, "kernel": header["kernel"], "sites": model.sites, "trace": source.header}
        footprint.write(made[-1], about, **_arrays(_own_memory(table), calls, trace))
    return made


def calls_of(model: Model, source: Source) -> list[Call]:
    """Return the calls of a trace in order, setup left out."""
    seen = _Calls(source)
    loop = Loop(model, [seen], source.files)
    for batch in source.batches():
        loop.take(batch)
    return seen.calls


class _Calls(Stage):
    """Stage that builds a Call from each operation and the operation's events."""

    def __init__(self, source: Source) -> None:
        self.calls: list[Call] = []
        self.inodes, self.known = begin(source.files)

    def begin(self, batch: np.recarray) -> None:
        self.operations, self.counted = np.zeros(len(batch), OPERATION), (batch.flag & SETUP) == 0
        describe(self.inodes, self.known, batch.view(np.ndarray), self.operations)
        self.sites, self.amounts = self.operations["sites"].copy(), self.operations["freed"].copy()

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        np.bitwise_or.at(self.sites, events["op"], np.left_shift(1, events["site"].astype(np.int64)))
        moves = events[events["code"] != WORK]
        np.add.at(self.amounts, moves["op"], LINE + np.maximum(moves["length"], 0))

    def end(self) -> None:
        """Add the calls of the batch that ends."""
        seen = self.operations
        columns = (seen["kind"], self.sites, self.amounts, seen["inode"], seen["opening"])
        rows = (column[self.counted].tolist() for column in columns)
        self.calls += [Call(*row) for row in zip(*rows, strict=True)]


def _kinds(table: Any) -> list[str]:
    """Return the kind of each measured call, by its number; "" for a call without touches."""
    call = table.column("call").to_numpy()
    at, first = np.unique(call[call >= 0], return_index=True)
    names = table.column("kind").to_pylist()
    found = [""] * (int(at[-1]) + 1 if len(at) else 0)
    offset = int((call < 0).sum())
    for number, row in zip(at.tolist(), first.tolist(), strict=True):
        found[number] = names[offset + row]
    return found


def _paired(kinds: list[str], calls: list[Call], trace: str) -> Iterator[tuple[int, Call]]:
    """Yield (number of a measured call, the call as the model sees it); calls without touches have no number."""
    at = 0
    for number, kind in enumerate(kinds):
        while at < len(calls) and OPS[calls[at].kind] != kind:
            at += 1
        if at == len(calls):
            raise UsageError(
                f"the touches were not recorded with {trace!r}: their call {number} is a {kind}, which the trace lacks; "
                "give the trace of the recording"
            )
        yield number, calls[at]
        at += 1


class _Touched(NamedTuple):
    """Touches in order, one row each.

    A row has the number of the call, first address and log2 size of the page, whether it is a store, slab cache, first
    address of the 4 KiB page, and which lines of that page are touched (0: not recorded).
    """

    call: np.ndarray
    vaddr: np.ndarray
    order: np.ndarray
    store: np.ndarray
    cache: np.ndarray
    small: np.ndarray
    lines: np.ndarray

    def of(self, rows: np.ndarray) -> "_Touched":
        """Return the rows that a mask or indices choose."""
        return _Touched(*(column[rows] for column in self))


def _own_memory(table: Any) -> _Touched:
    """Return the calls' touches of the kernel's own memory: not of program, persistent memory or file data.

    Calls with a timer interrupt are left out: interrupts belong to the time that passes, not to a kind of call.  The
    interrupt that touches the median number of pages is kept as INTERRUPT.
    """
    call, address, order, store = (table.column(name).to_numpy() for name in ("call", "address", "order", "store"))
    region, cache, function = (_words(table, name) for name in ("region", "cache", "function"))
    loose, page = (region == REGIONS[DIRECT_MAP]) & (cache == ""), address >> np.uint64(12)
    data = _file_data(loose, page, function)
    cache[loose & np.isin(page, page[loose & (function == _FILLS_TABLE)])] = TABLE
    shift = order.astype(np.uint64)
    own = (call >= 0) & (region != REGIONS[PROGRAM]) & (region != REGIONS[PERSISTENT]) & ~data
    ticks = [name for name in set(function.tolist()) if name.endswith(TICK)]
    interrupted = np.isin(call, call[np.isin(function, ticks)])
    at = _interrupt(np.where(own & interrupted, call, NONE), function, set(function[~interrupted].tolist()))
    call = call.copy()
    call[at] = INTERRUPT
    own &= ~interrupted | (call == INTERRUPT)
    lines = table.column("lines").to_numpy() if "lines" in table.column_names else np.zeros(len(call), np.uint64)
    small = (page << np.uint64(12)).view(np.int64)
    return _Touched(call, (address >> shift << shift).view(np.int64), order, store, cache, small, lines).of(own)


def _interrupt(call: np.ndarray, function: np.ndarray, calls: set[str]) -> np.ndarray:
    """Return the rows of one interrupt: the interrupt with the median number of rows.

    They are touches by functions that uninterrupted calls (`calls`) do not run.  `call` is NONE without an interrupt.
    """
    rows = np.flatnonzero((call != NONE) & ~np.isin(function, sorted(calls)))
    each, count = np.unique(call[rows], return_counts=True)
    if not len(each):
        return rows
    return rows[call[rows] == each[np.argsort(count, kind="stable")[len(each) // 2]]]


def _file_data(loose: np.ndarray, page: np.ndarray, function: np.ndarray) -> np.ndarray:
    """Return which touches are on a page of a file's data: among those without a slab (`loose`), copies from or to the program.

    Data from before the first call is recognised by its write-back: it is copied to the device, and only functions that copy
    and clear touch it.  Pages that only a program stores to, through a mapping, are recognised by their clearing.  In a
    metadata block, or a page of the page table, some function reads or writes the fields.
    """
    names = sorted(set(function.tolist()))
    user, whole, bulk = (
        loose & np.isin(function, [name for name in names if kind.search(name)]) for kind in (_USER, _WHOLE, _BULK)
    )
    fields = page[loose & ~bulk]
    return loose & (np.isin(page, page[user]) | (np.isin(page, page[whole]) & ~np.isin(page, fields)))


def _words(table: Any, name: str) -> np.ndarray:
    """Return a dictionary-coded column as an array of strings."""
    number, words = touches.coded(table, name)
    found: np.ndarray = np.array(words, object)[number]
    return found


def _arrays(touched: _Touched, calls: dict[int, Call], trace: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file of footprints."""
    calls = {**calls, INTERRUPT: Call(NONE, 0, 0, NONE, NONE)}
    touched = touched.of(np.isin(touched.call, list(calls)))
    pairs = np.zeros(len(touched.call), PAGE)
    pairs["vaddr"], pairs["order"] = touched.vaddr, touched.order
    pages, number = np.unique(pairs, return_inverse=True)
    inode, opening = (np.array([calls[call][at] for call in touched.call.tolist()], np.int64) for at in (3, 4))
    objects = [(name, inode, 0) for name in sorted(set(touched.cache.tolist())) if INODES.search(name)]
    objects += [(OPEN_FILES, opening, OPEN_FILE)] if OPEN_FILES in touched.cache else []
    width = 2 + int(max(inode.max(initial=0), opening.max(initial=0)))
    table, last = np.zeros((len(objects), width), np.int64), np.zeros((len(objects), 1), np.int64)
    stand_ins, own = np.zeros(len(objects), PAGE), np.full(len(number), NONE)
    stand_ins["cache"] = [row + 1 | of for row, (_, _, of) in enumerate(objects)]
    for row, (name, which, _) in enumerate(objects):
        mine = (touched.cache == name) & (which != NONE)
        table[row] = _page_of_objects(touched.call[mine], number[mine], which[mine], width)
        last[row] = which[mine].max(initial=0)
        own[mine] = np.where(number[mine] == table[row][which[mine]], row, NONE)
    further = np.arange(width) > last
    slabs, table[further] = _grown(pages, table[further])
    number[own != NONE] = len(pages) + len(slabs) + own[own != NONE]
    pages = np.concatenate([pages, slabs, stand_ins])
    if len(pages) > MOST_PAGES:
        raise UsageError(
            f"the calls of {trace!r} touch more than {MOST_PAGES} pages; make footprints of a shorter trace"
        )
    touches, interrupt = (number << 1 | touched.store).astype(np.uint16), touched.call == INTERRUPT
    measured, count = np.unique(touched.call[~interrupt], return_counts=True)
    rows = [(*calls[call][:3], n, calls[call].made) for call, n in zip(measured.tolist(), count.tolist(), strict=True)]
    return {
        "calls": np.array(rows, footprint.MEASURED),
        "touches": touches[~interrupt],
        "interrupt": touches[interrupt],
        "pages": pages,
        "inodes": table,
        **_lines(touched, np.append(stand_ins["cache"], 0)[own], inode, opening),
    }


def _lines(touched: _Touched, cache: np.ndarray, inode: np.ndarray, opening: np.ndarray) -> dict[str, np.ndarray]:
    """Return distinct `blocks` of lines (footprint.LINES), and the index of each touch's block; {} if not recorded.

    Lines on an object of an inode or open file (`cache`) count from the object's most touched line.
    """
    if not touched.lines.any():
        return {}
    made = np.zeros(len(touched.call), footprint.LINES)
    made["lines"], made["store"], made["cache"] = touched.lines, touched.store, cache
    made["vaddr"] = np.where(cache > 0, 0, touched.small)
    for kind in np.unique(cache[cache > 0]).tolist():
        rows = np.flatnonzero(cache == kind)
        which = (opening if kind & OPEN_FILE else inode)[rows]
        rows = rows[np.argsort(which, kind="stable")]
        for some in np.split(rows, np.flatnonzero(np.diff(np.sort(which))) + 1):
            made["lines"][some] = _turned(touched.lines[some])
    blocks, number = np.unique(made, return_inverse=True)
    interrupt = touched.call == INTERRUPT
    return {
        "blocks": blocks,
        "lines": number[~interrupt].astype(np.uint32),
        "interrupt_lines": number[interrupt].astype(np.uint32),
    }


def _turned(lines: np.ndarray) -> np.ndarray:
    """Rotate sets of lines of one page so that the line that most sets contain becomes the first."""
    often = np.unpackbits(lines.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little").sum(axis=0)
    by = np.uint64(np.argmax(often))
    turned: np.ndarray = lines >> by | lines << (np.uint64(64) - by) % np.uint64(64) if by else lines
    return turned


def _grown(pages: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the 2 MiB pages of objects that were not measured, and each object's page, from len(pages) on.

    A slab grows with the files, and new memory is on large pages, except those that start-up split.
    """
    found = pages[objects]
    found["order"] = np.maximum(found["order"], LARGE)
    found["vaddr"] = found["vaddr"] >> LARGE << LARGE
    slabs, number = np.unique(found, return_inverse=True)
    return slabs, len(pages) + number.reshape(objects.shape)


def _page_of_objects(call: np.ndarray, page: np.ndarray, which: np.ndarray, count: int) -> np.ndarray:
    """Return the page of each object: of the pages that calls on it touch most, the one that the fewest other calls touch.

    A directory's inode is touched by calls on many files.  An object that no call touched gets the page of the object before
    it.
    """
    found = np.full(count, NONE)
    seen = np.unique(np.stack([which, page, call]), axis=1)
    pairs, often = np.unique(seen[:2], axis=1, return_counts=True)
    common = np.bincount(seen[1], minlength=int(page.max(initial=0)) + 1)
    for each in np.unique(pairs[0]).tolist():
        rows = np.flatnonzero(pairs[0] == each)
        likely = pairs[1][rows[often[rows] >= SHARE * often[rows].max()]]
        found[each] = likely[np.argmin(common[likely])]
    known = np.flatnonzero(found != NONE)
    at = np.maximum(np.searchsorted(known, np.arange(count), side="right") - 1, 0)
    return found[known[at]] if len(known) else np.zeros(count, np.int64)
