"""The kernels of mapped files beside the reference implementation, operation by operation, on each kind of file system."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core import records as r
from scmsim.fs.engine import costs, file_row
from scmsim.fs.linux import state as e
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.mechanisms import COSTS, SITES
from scmsim.fs.nova import state as nova
from scmsim.fs.pmfs import state as pmfs
from scmsim.fs.tmpfs import state as tmpfs
from tests.fs import drive
from tests.fs.mapping.reference import Mapped
from tests.fs.mapping.reference_entries import FAN

PAGES = 2 * FAN + 259  # of file 2, which exists before
SIZES = (0, -1, PAGES * 4096 - 100)
LARGE = {"data_alignment": "2MiB"}
DAX, SMALL_DAX, MEMORY = (
    {"kind": kind, "large": large} for kind, large in (("dax", True), ("dax", False), ("memory", True))
)
EXT4: dict = DAX | {"linux": True, "shares": True}  # the rest of a short extent comes along
# name -> file system, its parameters, and what `Mapped` takes
MODELS: dict[str, tuple[str, dict, dict]] = {
    "ext4-dax": ("ext4-dax", LARGE, EXT4),
    "ext4-dax not aligned": ("ext4-dax", {}, EXT4),
    "ext4-dax, faults of 6.1": ("ext4-dax", {**LARGE, "kernel": "6.1"}, EXT4 | {"fills": True, "loads_dirty": True}),
    "ext4-dax, faults of 6.12": ("ext4-dax", {**LARGE, "kernel": "6.12"}, EXT4 | {"fills": True}),
    "xfs-dax": ("xfs-dax", LARGE, DAX | {"linux": True, "xfs": True}),
    "ext2-dax": ("ext2-dax", LARGE, SMALL_DAX),
    "ext2-dax of 6.1": (
        "ext2-dax", {**LARGE, "kernel": "6.1"}, DAX | {"linux": True, "fills": True, "loads_dirty": True, "pointers": True},
    ),
    "tmpfs": ("tmpfs", {}, {"kind": "memory", "large": False}),
    "tmpfs huge": ("tmpfs", {"huge": "always"}, MEMORY),
    "tmpfs within size": ("tmpfs", {"huge": "within_size"}, MEMORY),
    "tmpfs within size, 6.1": ("tmpfs", {"huge": "within_size", "kernel": "6.1"}, MEMORY),
    "tmpfs as advised": ("tmpfs", {"huge": "advise"}, MEMORY),
    "ext4": ("ext4", {}, {"kind": "cache", "large": False}),
    "ext4 folios": ("ext4", {"folios": "always"}, {"kind": "cache", "large": True}),
    "nova": ("nova-inplace", {}, SMALL_DAX),
    "nova-cow": ("nova-cow", {}, SMALL_DAX),
    "pmfs-4k": ("pmfs-4k", {}, SMALL_DAX),
    "pmfs-2m": ("pmfs-2m", {}, DAX | {"whole_blocks": True}),
    "winefs": ("winefs", {}, DAX),
}  # fmt: skip
CHARGED = (  # costs of which the reference knows how often they are charged
    "page_table", "tree_node", "clean_entry", "unmap_table", "mmap_call", "munmap_call", "cut_mapping", "msync_call",
    "unmap_slot", "unmap_large", "huge_page", "passed_page",
)  # fmt: skip
ERRORS = {"not mapped": w.NOT_MAPPED, "denied": w.DENIED, "beyond end": w.BEYOND_END}

page = st.sampled_from([0, 1, 15, 16, 500, FAN - 1, FAN, FAN + 1, 2 * FAN - 1, 2 * FAN, 2 * FAN + 30, PAGES - 1, PAGES])
span = st.sampled_from([1, 2, 17, FAN - 1, FAN, FAN + 5, 2 * FAN, PAGES])
file = st.sampled_from([1, 2, 2])
SHARED, PRIVATE = r.WRITABLE_SHARED, r.PRIVATE


def paged(op, *more):
    """An operation on whole pages."""
    return st.tuples(st.just(op), file, page.map(lambda p: p << 12), span.map(lambda n: n << 12), *more)


touched = st.tuples(
    st.sampled_from(["load", "store", "store"]),
    file,
    st.tuples(page, st.sampled_from([0, 8, 4090])).map(lambda at: (at[0] << 12) + at[1]),
    st.sampled_from([1, 8, 100, 5000, 80_000]),
)
flags = st.sampled_from([SHARED, SHARED, SHARED | r.POPULATE, PRIVATE, PRIVATE | r.POPULATE, 0])
rows = st.lists(
    st.one_of(
        touched,
        touched,
        touched,
        paged("mmap", st.just(-1), flags),
        paged("munmap"),
        paged("mmap", st.just(-1), st.just(r.REMAPPED)),
        paged("msync"),
        paged("madvise", st.just(4)),
        paged("madvise", st.sampled_from([14, 15])),
        st.tuples(st.just("fsync"), file),
        st.tuples(st.just("truncate"), file, page.map(lambda p: (p << 12) - 5 if p else 0)),
        paged("fallocate"),
        paged("fallocate", st.just(-1), st.just(r.PUNCH_HOLE | r.KEEP_SIZE)),
        st.tuples(
            st.just("write"), file, page.map(lambda p: p << 12), st.sampled_from([100, 4096, 70_000, 70_000, FAN << 12])
        ),
    ),
    max_size=14,
)
START = [("create", 1, 0, 0, 0), ("mmap", 2, 0, PAGES << 12, -1, SHARED), ("load", 2, 0, 1)]


class Rows:
    """What a model whose files have rows of `engine.file_row` has of a file at a moment."""

    def __init__(self, model):
        record, arena, self.places, self.sizes = model.record, model.state.arena, {}, {}
        words, place = (nova.FILE_WORDS, self.nova) if "nova" in model.fs else (pmfs.FILE_WORDS, self.pmfs)
        for number in range(len(SIZES)):
            row = int(record.files) + number * words
            known = arena[row + file_row.STATUS] & file_row.EXISTS
            self.sizes[number] = int(arena[row + file_row.SIZE]) if known else 0
            self.places[number] = [place(record, arena, row, page) for page in range(PAGES + 4 * FAN)] if known else []

    def nova(self, record, arena, row, page):
        ref = self.entry(arena, row + nova.PAGES, page)
        if ref == 0:
            return 0
        at = (ref >> 9) + nova.PAGE_ENTRIES + 2 * ((ref & 511) * 8 >> int(record.entry_shift))
        return int((arena[at + 1] >> 24) + page - (arena[at] >> 24)) * 4096

    def pmfs(self, record, arena, row, page):
        pages = 1 << int(record.shift) - 12
        block = self.entry(arena, row + pmfs.BLOCKS, page // pages)
        return (block + page % pages) * 4096 if block else 0

    def entry(self, arena, handle, index):
        held = arena[handle] and index < 1 << int(arena[handle + 1])
        return int(arena[arena[handle] + index]) if held else 0

    def layout(self, file, page):
        return self.places[file][page] if page < len(self.places[file]) else 0

    def length(self, file):
        return self.sizes[file]

    cached = dirty = None


class Files:
    """What a model of Linux' families has of a file at a moment."""

    def __init__(self, model):
        record, arena = model.record, model.state.arena
        self.words, self.sizes, self.base = {}, {}, int(record.key_base)
        for number in range(len(SIZES)):
            at = int(arena[record.rows + number * e.ROW_WORDS])
            self.sizes[number] = int(arena[at + e.SIZE]) if at else 0
            begin, end = int(arena[at + e.PAGES]), int(arena[at + e.PAGE_COUNT])
            self.words[number] = arena[begin : begin + end].copy() if at else np.zeros(0, np.int64)

    def word(self, file, page):
        return int(self.words[file][page]) if page < len(self.words[file]) else 0

    def layout(self, file, page):
        word = self.word(file, page)
        place = (word >> e.BLOCK_SHIFT) << 12
        return -place if word & e.IS_UNWRITTEN else place

    def length(self, file):
        return self.sizes[file]

    def cached(self, file, page):
        return bool(self.word(file, page) & e.IS_CACHED)

    def dirty(self, file, page):
        return bool(self.word(file, page) & e.IS_DIRTY)

    def huge(self, file, page):
        return bool(self.word(file, page) & tmpfs.IS_HUGE)

    def folio(self, file, page):
        """Pages of a page's folio: those that entered with it, if what is left of them is one."""
        frames = {
            p: int(word) >> e.FRAME_SHIFT & e.FRAME_MASK
            for p, word in enumerate(self.words[file])
            if word & e.IS_CACHED
        }
        first = stop = page
        while self.word(file, first) & e.IS_TAIL:
            first -= 1
        while stop == page or (self.word(file, stop) & e.IS_TAIL and frames[stop] == frames[first] + stop - first):
            stop += 1
        while page >= (end := first + (1 << (stop - first).bit_length() - 1)) and first < stop:
            first = end
        size = end - first
        whole = all(frames.get(p) == frames[first] + p - first for p in range(first, end)) if first in frames else False
        return range(first, end) if whole and first % size == frames[first] % size == 0 else range(page, page + 1)


def tell(slow, row, had, has):
    """Let the reference do an operation; returns the bytes that a touch moves."""
    op, file, offset, length, _, flag = (*row, 0, 0, -1, 0)[:6] if len(row) < 6 else row
    slow.begin(had.layout, had.length, had.cached, had.dirty, has.layout)
    if slow.kind == "cache":
        slow.folio = had.folio
    if slow.kind == "memory":
        slow.huge = had.huge
    if op == "mmap" and flag & r.REMAPPED:
        slow.mremap(file, offset, length)
    elif op == "mmap":
        slow.mmap(file, offset, length, bool(flag & SHARED), bool(flag & PRIVATE), bool(flag & r.POPULATE))
    elif op == "munmap":
        slow.munmap(file, offset, length)
    elif op == "msync":
        slow.msync(file, offset >> 12, (offset + length + 4095) >> 12)
    elif op == "madvise":
        pages = offset >> 12, (offset + length + 4095) >> 12
        slow.leave(file, *pages) if row[4] == 4 else slow.advise(file, *pages, {14: "huge", 15: "small"}[row[4]])
    elif op == "fsync":
        slow.sync(file, 0, 1 << 40)
    elif op == "truncate":
        slow.truncate(file, offset)
    elif op == "fallocate" and flag & r.PUNCH_HOLE:
        slow.punch(file, offset, offset + length)
    elif op == "fallocate":
        slow.allocate(file)
    elif op == "write":
        slow.write(file, offset >> 12, (offset + length + 4095) >> 12)
    elif op in ("load", "store"):
        return slow.touch(file, offset, length, op == "store")
    return 0


def faults_of(events):
    """(Pages, negative where large; store; protected; major) -> faults."""
    found = Counter()
    for one in events[(events.code == r.MAP) & (events.space == r.USER)]:
        pages, how = int(one.length) >> 12, int(one.width)
        found[
            -pages if one.order == 21 else pages, bool(how & w.WRITES), bool(how & w.PROTECTED), bool(how & w.MAJOR)
        ] += 1
    return found


def of_site(model, events, site, *codes):
    """Events of a mechanism."""
    return events[(events.site == model.sites.index(site)) & np.isin(events.code, codes)]


COUNTED = {
    name: 10**6 * k + 1 for k, name in enumerate(COSTS, 1)
}  # instructions of each cost, which tell it and how often


def charges_of(model, events):
    """How often each cost of mappings was charged."""
    found, sites = Counter(), [model.sites.index(site) for site in SITES]
    for instructions in events.addr[(events.code == r.WORK) & np.isin(events.site, sites)] // r.MILLI:
        times = int(instructions) % 10**6
        found[COSTS[int(instructions) // 10**6 // times - 1]] += times
    return found


def counting(name, table):
    """Costs of mappings by which `charges_of` tells them apart; of tmpfs the second uses of pages alone."""
    if "mapping" in name:
        return {cost: {**row, "instructions": COUNTED[cost]} for cost, row in table.items()}
    if "tmpfs" in name:
        return {cost: {**row, "instructions": cost == "activate_page"} for cost, row in table.items()}
    return table


def pages_of(events):
    """(Address, bytes, address on the device or -1) of each page that events touch."""
    found = []
    for one in events:
        at = 0
        while at < one.length:
            vaddr = int(one.vaddr) + at
            size = min(4096 - vaddr % 4096, int(one.length) - at)
            found.append((vaddr, size, int(one.addr) + at if one.space == r.PM else -1))
            at += size
    return found


def agree(name, given_rows, room=1 << 12):
    with costs.changed(counting):
        return agree_in(name, given_rows, room)


def agree_in(name, given_rows, room):
    fs, params, kind = MODELS[name]
    model, slow = drive.Model(fs, drive.files(*SIZES, dirs=[0]), room, **params), Mapped(**kind)
    slow.option, slow.old = params.get("huge", "always"), "kernel" not in params
    for number, row in enumerate([*START, *given_rows]):
        where = f"{name}: operation {number}, {row}"
        if row[0] == "mmap" and row[1] == 2 and number == 1:
            model.feed(drive.ops(("open", 2)))
        files = Rows if fs.startswith(("nova", "pmfs", "winefs")) else Files
        had = files(model)
        batch = drive.ops(row)
        if row[0] == "madvise":
            batch.buffer = row[4]
        events = model.feed(batch)
        moved = tell(slow, row, had, files(model))
        assert faults_of(events) == slow.faults, where
        access = of_site(model, events, "mapped access", r.LOAD, r.STORE)
        assert access.length.sum() == moved and pages_of(access) == slow.accessed, where
        if slow.kind == "cache":
            assert access.length[access.order & r.CONTIGUOUS > 0].sum() == slow.contiguous, where
        assert of_site(model, events, "mapped write-back", r.FLUSH).length.sum() == slow.flushed, where
        assert len(of_site(model, events, "mapped write-back", r.INVALIDATE)) == sum(slow.invalidated.values()), where
        assert bool(len(of_site(model, events, "unmapping", r.UNMAP))) == bool(slow.removed), where
        charged = charges_of(model, events)
        for cost in set(CHARGED) - ({"unmap_slot"} if slow.kind == "memory" else set()):  # tmpfs unmaps by huge pages
            assert charged[cost] == slow.charged[cost], f"{where}: {cost}"
        if fs == "tmpfs":
            assert of_site(model, events, "page cache", r.WORK).addr.sum() == slow.second * r.MILLI, where
        assert charged["clean_line"] == slow.flushed // 64, where
        if model.mapped.active:
            for error, word in ERRORS.items():
                assert model.mapped._word(word) == slow.errors[error], f"{where}: {error}"
    return model


@pytest.mark.parametrize("name", MODELS)
@given(rows=rows)
def test_faults_are_those_of_the_reference(name, rows):
    agree(name, rows)


@settings(max_examples=10)
@given(rows=rows)
def test_the_room_for_events_changes_nothing(rows):
    agree("ext4-dax", rows, 70)


def test_large_folios_are_mapped_and_dirtied_as_a_whole():
    """2 MiB written at once: one entry of 2 MiB, a store makes all of it dirty, fsync takes the right to store from all of it."""
    at = FAN << 12
    rows = [
        ("write", 2, at, at),
        ("load", 2, at, 1),
        ("load", 2, at + 77_000, 8),
        ("store", 2, at + 5000, 8),
        ("fsync", 2),
    ]
    more = [
        ("store", 2, at + 5000, 8),
        ("truncate", 2, at + 0x1AB000),
        ("store", 2, at + 9000, 8),
        ("load", 2, at + 0x150000, 1),
    ]
    model = agree("ext4 folios", rows + more)
    events = model.feed(drive.ops(("msync", 2, at, at)))
    assert of_site(model, events, "mapped write-back", r.INVALIDATE).length.tolist() == [4096]
    model, rows = drive.Model("ext4", drive.files(*SIZES, dirs=[0]), folios="always"), [*START, *rows[:4]]
    model.feed(drive.ops(*rows[:-1], ("fsync", 2)))
    faults = faults_of(model.feed(drive.ops(rows[-1])))
    assert faults == {(-FAN, True, True, False): 1}
    stored = model.feed(drive.ops(("fsync", 2)))
    assert FAN << 12 in stored.length[(stored.code == r.NTSTORE) & (stored.space == r.PM)]


def test_entries_of_one_folio_of_64_kib_are_contiguous_until_one_differs():
    rows = [
        ("write", 2, 16 << 12, 65536),
        ("load", 2, 20 << 12, 8192),
        ("store", 2, 21 << 12, 1),
        ("load", 2, 22 << 12, 1),
    ]
    rows += [("store", 2, at << 12, 1) for at in range(16, 32)] + [
        ("load", 2, 16 << 12, 65536),
        ("munmap", 2, 20 << 12, 4096),
    ]
    agree("ext4 folios", [*rows, ("load", 2, 17 << 12, 4096)])
    agree("ext4 folios", [*rows[:2], *(("load", 2, (16 << 12) + at, 8) for at in range(0, 65536, 1000))])
