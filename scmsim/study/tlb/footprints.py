"""Build footprints (which kernel pages each kind of call touches) from the lab's recorded touches and the model's calls.

All calls without a timer interrupt are kept, because rare touches (of one more page of a slab) cause most of a TLB's walks.
"""

import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from scmsim import footprint
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import CREATE, OPEN, OPS, SETUP, WORK, Source
from scmsim.footprint.describe import NONE, OPERATION, begin, describe
from scmsim.footprint.interleave import DIRECTORY, LAST_NEW_PAGE, LINE, NEW_PAGE, OPEN_FILE, PAGE
from scmsim.footprint.settle import LARGE
from scmsim.fs.engine.model import Model
from scmsim.lab import touches
from scmsim.lab.regions import DIRECT_MAP, PERSISTENT, PROGRAM, REGIONS, layout
from scmsim.pipeline import kernels
from scmsim.pipeline.arguments import Progress, model_params, open_source
from scmsim.pipeline.stages import Loop, Stage
from scmsim.study.tlb import clock, objects, page_cache

# blocks of ext4's inode table in the page cache: like a slab with one object per inode; _FILLS_TABLE marks them
TABLE = "table of inodes"
ON_DISK = 256  # bytes of an inode in the table: default of mkfs
_FILLS_TABLE = "ext4_fill_raw_inode"
INODES = re.compile(rf"inode_cache$|_inode$|^{TABLE}$")  # slab caches with one object per inode
OPEN_FILES = "filp"  # slab cache with one object per open file
# slab caches whose objects may belong to one file: dentries, extents, nodes of trees, log items
NODES = re.compile(
    r"^(filp|dentry|ext4_extent_status|radix_tree_node|jbd2_inode|lsm_inode_cache|xfs_ili|xfs_ifork|fat_cache)$"
)
TICK = "sysvec_apic_timer_interrupt"  # suffix of the names of a timer interrupt's first functions
# a page of a slab cache may be an object's page if the calls on the object touch it at least this often, relative to the page
# that they touch most
SHARE = 0.8
INTERRUPT = -2  # call number of the touches of a timer interrupt
_REGION = layout()
MOST_PAGES = 1 << 15  # maximum number of pages: a touch has 15 bits for the page; the 16th bit marks a store


class Call(NamedTuple):
    """A call in the model: its kind, mechanisms (a bit each), amount moved, numbers of its inode and open file, and its file.

    A removed file's inode number is used again; `file` is the file's row in the trace, which is not.
    """

    kind: int
    sites: int
    amount: int
    inode: int
    opening: int
    file: int = NONE

    @property
    def made(self) -> int:
        """Return the number of the open file that the call creates; NONE if it creates none."""
        return self.opening if self.kind in (OPEN, CREATE) else NONE


def make(
    trace: str,
    folder: str | os.PathLike[str],
    names: Sequence[str],
    out: str | os.PathLike[str],
    progress: Progress,
    lines: bool = True,
) -> list[pathlib.Path]:
    """Write the footprints of file systems from a folder of `scmsim lab touches TRACE`; return the written paths.

    Only data caches need the `lines`.  Raises UsageError for a folder without touches, or with touches of another trace.
    """
    source, _ = open_source(trace)
    target = pathlib.Path(out)
    target.mkdir(parents=True, exist_ok=True)
    made = []
    for number, name in enumerate(names):
        progress(name, number, len(names))
        header, table = touches.load(pathlib.Path(folder) / f"{name}-1{touches.SUFFIX}")
        model = Model(name, model_params("fs", name, _guest(header["kernel"], name)), source.files)
        kinds = _kinds(table)
        numbers = dict(_paired(kinds, kinds_of(source), trace))
        timed = clock.Timed(source, _times(table, numbers, source.rows))
        seen = calls_of(model, timed)
        calls = {number: seen[at] for number, at in numbers.items()}
        made.append(target / f"{name}.npz")
        about = {"fs": name, "kernel": header["kernel"], "sites": model.sites, "trace": source.header}
        footprint.write(made[-1], about, **_arrays(_own_memory(table, lines), calls, trace))
    return made


def _guest(release: str, fs: str) -> dict[str, str | int]:
    """Return the parameters of a model for the guest's kernel and clock."""
    series = re.match(r"\d+\.\d+", release)
    known = registry.literals("fs", fs).get("PARAMS", {})
    found: dict[str, str | int] = dict(kernels.choose(series[0], [fs], {}, None).params.get(fs, {})) if series else {}
    return {**found, "timestamp_tick": clock.TICK_NS} if "timestamp_tick" in known else found


def _times(table: Any, numbers: dict[int, int], count: int) -> np.ndarray:
    """Return the time of each of at most `count` calls, ns; `numbers` maps numbers of measured calls to their positions."""
    call, function = table.column("call").to_numpy(), _words(table, "function")
    lines = table.column("lines").to_numpy() if "lines" in table.column_names else np.ones(len(call), np.uint64)
    ticks = [name for name in set(function.tolist()) if name.endswith(TICK)]
    measured = call >= 0
    length = np.bincount(call[measured], np.bitwise_count(lines[measured]).astype(float), max(numbers) + 1)
    weights = np.zeros(count)
    weights[list(numbers.values())] = length[list(numbers)]
    struck = np.unique(call[measured & np.isin(function, ticks)])
    return clock.times(weights, np.array([numbers[one] for one in struck.tolist()], np.int64))


def kinds_of(source: Source) -> list[int]:
    """Return the kind of each call of a trace, in order and without setup."""
    return [int(op) for batch in source.batches() for op in batch.op[batch.flag & SETUP == 0]]


def calls_of(model: Model, source: Source) -> list[Call]:
    """Replay a trace on a model and return its calls, in order and without setup."""
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
        """Add the calls of the finished batch."""
        seen = self.operations
        columns = (seen["kind"], self.sites, self.amounts, seen["inode"], seen["opening"], seen["file"])
        rows = (column[self.counted].tolist() for column in columns)
        self.calls += [Call(*row) for row in zip(*rows, strict=True)]


def _kinds(table: Any) -> list[str]:
    """Return the kind of each measured call by number; "" for a call without touches."""
    call = table.column("call").to_numpy()
    at, first = np.unique(call[call >= 0], return_index=True)
    names = table.column("kind").to_pylist()
    found = [""] * (int(at[-1]) + 1 if len(at) else 0)
    offset = int((call < 0).sum())
    for number, row in zip(at.tolist(), first.tolist(), strict=True):
        found[number] = names[offset + row]
    return found


def _paired(kinds: list[str], calls: list[int], trace: str) -> Iterator[tuple[int, int]]:
    """Yield (number of a measured call, its index in `calls`, the kinds of the trace's calls); skip calls without touches."""
    at = 0
    for number, kind in enumerate(kinds):
        while at < len(calls) and OPS[calls[at]] != kind:
            at += 1
        if at == len(calls):
            raise UsageError(
                f"the touches were not recorded with {trace!r}: their call {number} is a {kind}, which the trace lacks; "
                "give the trace of the recording"
            )
        yield number, at
        at += 1


class _Touched(NamedTuple):
    """Touches in order, one row each.

    A row has the number of the call, first address and log2 size of the page, whether it is a store, slab cache, first
    address of the 4 KiB page, which lines of that page are touched, bytes of an object of the slab, and the page's offset in it
    (0: not recorded), and the code of a metadata block (`page_cache.blocks`).
    """

    call: np.ndarray
    vaddr: np.ndarray
    order: np.ndarray
    store: np.ndarray
    cache: np.ndarray
    small: np.ndarray
    lines: np.ndarray
    size: np.ndarray
    start: np.ndarray
    block: np.ndarray

    def of(self, rows: np.ndarray) -> "_Touched":
        """Return the rows that a mask or indices choose."""
        return _Touched(*(column[rows] for column in self))


def _own_memory(table: Any, with_lines: bool) -> _Touched:
    """Return the calls' touches of the kernel's own memory: not of program, persistent memory or file data.

    Calls with a timer interrupt are left out: interrupts belong to the time that passes, not to a kind of call.  The
    interrupt that touches the median number of pages is kept as INTERRUPT.
    """
    call, address, order, store = (table.column(name).to_numpy() for name in ("call", "address", "order", "store"))
    region, cache, function = (_words(table, name) for name in ("region", "cache", "function"))
    loose, page = (region == REGIONS[DIRECT_MAP]) & (cache == ""), address >> np.uint64(12)
    data = page_cache.file_data(loose, page, function)
    cache[loose & np.isin(page, page[loose & (function == _FILLS_TABLE)])] = TABLE
    shift = order.astype(np.uint64)
    own = (call >= 0) & (region != REGIONS[PROGRAM]) & (region != REGIONS[PERSISTENT]) & ~data
    ticks = [name for name in set(function.tolist()) if name.endswith(TICK)]
    interrupted = np.isin(call, call[np.isin(function, ticks)])
    at = _interrupt(np.where(own & interrupted, call, NONE), function, set(function[~interrupted].tolist()))
    call = call.copy()
    call[at] = INTERRUPT
    own &= ~interrupted | (call == INTERRUPT)
    lines, size, start = (
        table.column(name).to_numpy() if with_lines and name in table.column_names else np.zeros(len(call), kind)
        for name, kind in (("lines", np.uint64), ("object", np.int32), ("start", np.int32))
    )
    size = np.where(cache == TABLE, ON_DISK, size)
    block = np.zeros(len(call), np.int64)
    columns = (call, _words(table, "kind"), function, page, store, lines)
    block[loose] = page_cache.blocks(*(column[loose] for column in columns))
    small = (page << np.uint64(12)).view(np.int64)
    large = (address >> shift << shift).view(np.int64)
    return _Touched(call, large, order, store, cache, small, lines, size, start, block).of(own)


def _interrupt(call: np.ndarray, function: np.ndarray, calls: set[str]) -> np.ndarray:
    """Return the rows of the interrupt with the median number of rows.

    `calls` lists the functions that run in uninterrupted calls; an interrupt's rows are the touches by all other functions.  A
    row's `call` is NONE if no interrupt hit its call.
    """
    rows = np.flatnonzero((call != NONE) & ~np.isin(function, sorted(calls)))
    each, count = np.unique(call[rows], return_counts=True)
    if not len(each):
        return rows
    return rows[call[rows] == each[np.argsort(count, kind="stable")[len(each) // 2]]]


def _words(table: Any, name: str) -> np.ndarray:
    """Return a dictionary-coded column as an array of strings."""
    number, words = touches.coded(table, name)
    found: np.ndarray = np.array(words, object)[number]
    return found


def _arrays(touched: _Touched, calls: dict[int, Call], trace: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file of footprints."""
    calls = {**calls, INTERRUPT: Call(NONE, 0, 0, NONE, NONE)}
    touched, kind = _split(touched.of(np.isin(touched.call, list(calls))), calls)
    pairs = np.zeros(len(touched.call), PAGE)
    pairs["vaddr"], pairs["order"] = touched.vaddr, touched.order
    pages, number = np.unique(pairs, return_inverse=True)
    inode, opening = (np.array([calls[call][at] for call in touched.call.tolist()], np.int64) for at in (3, 4))
    things = [(name, inode, 0) for name in sorted(set(touched.cache.tolist())) if INODES.search(name)]
    things += [(OPEN_FILES, opening, OPEN_FILE)] if OPEN_FILES in touched.cache else []
    width = 2 + int(max(inode.max(initial=0), opening.max(initial=0)))
    table, last = np.zeros((len(things), width), np.int64), np.zeros((len(things), 1), np.int64)
    stand_ins, own = np.zeros(len(things), PAGE), np.full(len(number), NONE)
    stand_ins["cache"] = [row + 1 | of for row, (_, _, of) in enumerate(things)]
    for row, (name, which, _) in enumerate(things):
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
        **_lines(touched, kind),
    }


def _split(touched: _Touched, calls: dict[int, Call]) -> tuple[_Touched, np.ndarray]:
    """Mark the touched lines of objects that belong to the call's file; return (touches, kind of each row's objects or 0).

    The kind is coded like PAGE's `cache`.

    A line of such an object gets its number among the file's lines of that kind, and its `small` is 0.  A new page's `small` is
    its number among the call's new pages, LAST_NEW_PAGE for a directory block.  A block in a commit has no lines.
    """
    kinds = np.zeros(len(touched.call), np.int64)
    lines = np.where(touched.block == page_cache.LOGGED, np.uint64(0), touched.lines)
    own = np.zeros(len(kinds), np.uint64)
    caches = sorted(set(touched.cache[touched.lines > 0].tolist()), key=lambda name: (not INODES.search(name), name))
    for number, name in enumerate([name for name in caches if INODES.search(name) or NODES.search(name)], 1):
        rows = np.flatnonzero(touched.cache == name)
        kinds[rows] = number | (OPEN_FILE if name == OPEN_FILES else 0)
        bits = np.unpackbits(lines[rows].astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        at, line = np.nonzero(bits)
        at = rows[at]
        called = [calls[call] for call in touched.call[at].tolist()]
        file = np.array([one.opening if name == OPEN_FILES else one.file for one in called], np.int64)
        columns = (touched.call, touched.small, touched.start, touched.size)
        call, small, start, size = (column[at].astype(np.int64) for column in columns)
        is_own, turned = objects.own(objects.Lines(call, file, line, small, start, size))
        np.bitwise_or.at(own, at[is_own], np.uint64(1) << turned[is_own].astype(np.uint64))
        np.bitwise_and.at(lines, at[is_own], ~(np.uint64(1) << line[is_own].astype(np.uint64)))
    new = np.full(len(kinds), NONE)
    loose = np.flatnonzero((touched.cache == "") & (_REGION.of(touched.small.view(np.uint64)) == DIRECT_MAP))
    new[loose] = objects.new_pages(*(column[loose] for column in (touched.small, touched.call, touched.store, lines)))
    new[touched.block == NEW_PAGE] = LAST_NEW_PAGE
    kinds[new >= 0] = NEW_PAGE
    own, lines = np.where(new >= 0, lines, own), np.where(new >= 0, np.uint64(0), lines)
    both = (own > 0) & (lines > 0)
    row = np.repeat(np.arange(len(kinds)), 1 + both)
    second = np.append(False, row[1:] == row[:-1])
    is_own = second | ((own > 0) & ~both)[row]
    small = np.where(is_own, np.maximum(new[row], 0), touched.small[row])
    found = touched.of(row)._replace(lines=np.where(is_own, own[row], lines[row]), small=small)
    return found, np.where(is_own, kinds[row], np.where(found.block == DIRECTORY, DIRECTORY, 0))


def _lines(touched: _Touched, kind: np.ndarray) -> dict[str, np.ndarray]:
    """Return the distinct `blocks` of lines (footprint.LINES) and the index of each touch's block; {} without recorded lines."""
    if not touched.lines.any():
        return {}
    made = np.zeros(len(touched.call), footprint.LINES)
    made["lines"], made["store"], made["cache"] = touched.lines, touched.store, kind
    made["vaddr"] = touched.small
    blocks, number = np.unique(made, return_inverse=True)
    interrupt = touched.call == INTERRUPT
    return {
        "blocks": blocks,
        "lines": number[~interrupt].astype(np.uint32),
        "interrupt_lines": number[interrupt].astype(np.uint32),
    }


def _grown(pages: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (2 MiB pages of objects that were not measured; each object's page, numbered from len(pages) on).

    A slab grows with the number of files, and new memory is on large pages, except those that were split during boot.
    """
    found = pages[objects]
    found["order"] = np.maximum(found["order"], LARGE)
    found["vaddr"] = found["vaddr"] >> LARGE << LARGE
    slabs, number = np.unique(found, return_inverse=True)
    return slabs, len(pages) + number.reshape(objects.shape)


def _page_of_objects(call: np.ndarray, page: np.ndarray, which: np.ndarray, count: int) -> np.ndarray:
    """Return the page of each object: of the pages that calls on the object touch most, the one that other calls touch least.

    The second condition excludes a directory's inode, which calls on many files touch.  An object that no call touched gets the
    page of the preceding object.
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
