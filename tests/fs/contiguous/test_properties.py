"""The kernels of files that are contiguous in virtual memory against their reference implementation; laws of any history."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import INVALIDATE, LOAD, MAP, PM, REMAP, STORE, UNMAP
from scmsim.fs.contiguous import state as n
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.contiguous.reference import PIECE, Scmfs
from tests.fs.ctfs.reference import Ctfs
from tests.fs.simfs.reference import Simfs

PLAIN = st.integers(1, 4)
MIB = 1 << 20

offsets = st.one_of(
    st.integers(0, 70_000), st.integers(0, 20).map(lambda page: page * 4096), st.integers(2_000_000, 5_000_000)
)
lengths = st.one_of(st.integers(1, 20_000), st.integers(1, 900).map(lambda page: page * 4096), st.just(0))


large = laws.command("write", PLAIN, laws.ZERO, st.integers(500, 1200).map(lambda page: page * 4096))
commands = laws.commands(offsets, lengths, large)

STEP = 400_000  # ns between two operations: less than the copy of 1 MiB takes
SUPER = {"boundary": 12288, "threshold": 256, "quiet": 500_000}
LP = {"normal_percent": 50, "threshold": MIB, "quiet": 500_000}
VARIANTS = {
    "scmfs": ("scmfs", {}, {}),
    "nothing kept": ("scmfs", {"preallocate": 0, "null_files": 0}, {"spare": 0, "nulls": 0}),
    "collector": ("scmfs", {"collect_above": 8192, "collect_every": 1_000_000}, {"tidy_above": 2, "tidy_every": 1_000_000}),
    "superpages": ("scmfs-lp", LP, SUPER),
    "whole superpages only": ("scmfs-lp", {**LP, "tail": "normal"}, {**SUPER, "whole": False}),
    "simfs": ("simfs", {}, {}),
    "simfs atomic": ("simfs", {"update": "atomic"}, {"atomic": True}),
    "ctfs": ("ctfs", {}, {}),
    "ctfs atomic": ("ctfs", {"update": "atomic"}, {"atomic": True}),
}  # fmt: skip
MAPPED = [variant for variant in VARIANTS if not variant.startswith("simfs")]  # always, not while a file is open


def timed(row, number):
    batch = drive.ops(row)
    batch.time_ns = STEP * number
    return batch


def start(variant, capacity=96 * MIB):
    fs, params, more = VARIANTS[variant]
    model = drive.Model(fs, drive.files(*laws.SIZES, dirs=[0], names=laws.NAMES), capacity=capacity, **params)
    reference = {"simfs": Simfs, "ctfs": Ctfs}.get(fs, Scmfs)
    return model, reference(laws.names_of(laws.NAMES), laws.SIZES, (0,), capacity // 4096, **more)


def same(model, slow, events):
    assert int(events["length"][np.isin(events["code"], [UNMAP, REMAP])].sum()) == slow.unmapped * 4096
    names = ("free_blocks", "free_supers", "migrations", "waited_writes", "spare_blocks")
    mine = [len(slow.free), len(slow.super_free), slow.migrations, slow.waited, slow.unused()]
    assert [int(model.record[name]) for name in names] == mine, names
    flushes = np.count_nonzero((events["code"] == INVALIDATE) & (events["length"] > 33 * 4096))
    assert flushes == getattr(slow, "flushed", 0)


FAMILY = laws.BySite(
    start,
    same,
    ("loaded", "stored", "flushes", "fences"),
    batch=lambda number, row: timed(row, number),
    row=lambda number, row: (STEP * number, *row),
)


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=4 if NO_JIT else 25, deadline=None)
@given(rows=st.lists(commands, max_size=14))
def test_kernels_do_what_the_twin_does(variant, rows):
    FAMILY.agree(rows, variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_edges_of_blocks(variant):
    FAMILY.agree(laws.edges_of_blocks(4096), variant)


@pytest.mark.parametrize("variant", ["superpages", "whole superpages only"])
def test_a_migration_copies_the_pages_of_its_superpages_only(variant):
    """The end of the file, or what a hole separates from it, stays on normal pages."""
    rows = [("write", 1, 2 * MIB + 8192, 1), ("write", 1, 0, 2 * MIB + 4096), ("create", 1)]
    _, slow = FAMILY.agree(rows, variant)
    assert slow.moving and slow.loaded["migration"] == 2 * MIB == slow.stored["migration"]


def test_a_growing_file_goes_to_superpages_and_a_write_waits_for_it():
    rows = [("create", 1), *[("write", 1, i * 65536, 65536) for i in range(40)], ("close", 1)]
    rows += [("read", 1, 0, MIB), ("write", 1, 0, 4096), ("open", 1), ("write", 1, 40 * 65536, 3 * MIB), ("close", 1)]
    model, slow = FAMILY.agree(rows, "superpages")
    assert slow.migrations >= 1 and slow.waited >= 1 and len(slow.files[1].supers) == 3


class Pages:
    """The page table that MAP and UNMAP events build: page of virtual addresses -> page of the device."""

    def __init__(self):
        self.at = {}

    def take(self, events):
        for e in events:
            first, count = int(e.vaddr) >> 12, int(e.length) >> 12
            if e.code == MAP:
                for k in range(count):
                    self.at[first + k] = None if e.order == 21 else (int(e.addr) >> 12) + k
            elif e.code == REMAP:
                moved = [self.at.pop(first + k, 0) for k in range(count)]
                self.at |= {(int(e.addr) >> 12) + k: block for k, block in enumerate(moved) if block != 0}
            elif e.code == UNMAP:
                for k in range(count):
                    self.at.pop(first + k, None)


@pytest.mark.parametrize("variant", MAPPED)
@settings(max_examples=3 if NO_JIT else 15, deadline=None)
@given(rows=st.lists(commands, max_size=12))
def test_every_copy_goes_where_the_page_table_says(variant, rows):
    """Data events lie at mapped addresses whose page on the device is the one that they name; no two pages share one."""
    fs, params, _ = VARIANTS[variant]
    model = drive.Model(fs, drive.files(0, -1, -1, -1, -1, dirs=[0], names=laws.NAMES), capacity=96 * MIB, **params)
    table = Pages()
    copies = [model.sites.index(site) for site in ("data copy", "block zeroing")]
    for number, row in enumerate(rows):
        for e in model.feed(timed(row, number)):
            table.take([e])
            if e.site in copies and e.space == PM and e.code in (LOAD, STORE) and e.length > 0:
                for page in range(int(e.vaddr) >> 12, (int(e.vaddr) + int(e.length) - 1 >> 12) + 1):
                    device = (int(e.addr) >> 12) + page - (int(e.vaddr) >> 12)
                    assert page in table.at and table.at[page] in (None, device), (number, row)
                assert (int(e.addr) - int(e.vaddr)) % (1 << int(e.order)) == 0
    held = Counter(block for block in table.at.values() if block is not None)
    assert not held or max(held.values()) == 1


@settings(max_examples=3 if NO_JIT else 20, deadline=None)
@given(rows=st.lists(commands, max_size=20))
def test_no_two_files_share_a_superpage(rows):
    """So files of different permissions never do; a device of few superpages falls back to normal pages."""
    model = drive.Model(
        "scmfs-lp",
        drive.files(*laws.SIZES, dirs=[0], names=laws.NAMES),
        capacity=72 * MIB,
        **{**LP, "normal_percent": 80},
    )
    for number, row in enumerate(rows):
        model.feed(timed(row, number))
        record, arena = model.record, model.state.arena
        words = arena[record.files : record.files + record.file_count * n.FILE_WORDS].reshape(-1, n.FILE_WORDS)
        held = [arena[w[n.SUPERS] + k] for w in words for k in range(w[n.HELD])]
        held += [arena[w[n.NEWER] + k] for w in words for k in range(w[n.FILLED])]
        held += arena[record.stack : record.stack + record.free_supers].tolist()
        assert len(set(held)) == len(held) == int(record.supers) - int(record.lent)
        assert all((block - int(record.boundary)) % PIECE == 0 for block in held)


def test_a_full_region_lends_or_falls_back_and_says_so():
    model = drive.Model(
        "scmfs-lp", drive.files(0, -1, -1, dirs=[0]), capacity=64 * MIB, normal_percent=75, threshold=MIB, quiet=0
    )
    rows = [("create", 1), *[("write", 1, i * MIB, MIB) for i in range(60)], ("close", 1), ("stat", 1)]
    for number, row in enumerate(rows):
        model.feed(timed(row, 1000 * number))
    space = model.space()
    assert space["superpage_fallbacks"] > 0 and space["superpage_bytes"] == 16 * MIB and int(model.record.failed) > 0
    model = drive.Model("scmfs-lp", drive.files(0, *[-1] * 60, dirs=[0]), capacity=64 * MIB, normal_percent=25)
    model.feed(drive.ops(*[row for i in range(1, 55) for row in (("create", i, 0, 0, 0), ("write", i, 0, MIB))]))
    space = model.space()
    assert space["lent_superpages"] > 0 and space["live_bytes"] == 54 * MIB and int(model.record.failed) == 0
    assert np.all(np.array(list(space.values())) >= 0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_sparse_file_holds_no_names(variant):
    """A trace that mixes up its ids must not have a sparse file scanned for names."""
    rows = [("create", 1), ("create", 2), ("truncate", 2, 8 * MIB), ("create", 3, 0, 0, 2), ("link", 3, 0, 0, 2)]
    FAMILY.agree([*rows, ("rename", 3), ("unlink", 3, 0, 0, 2), ("unlink", 1, 0, 0, 2)], variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_names_do_not_outlive_their_directory(variant):
    """A file may take the id of a directory that went with a name in it."""
    fs, params, _ = VARIANTS[variant]
    model = drive.Model(fs, drive.files(-1, -1), capacity=96 * MIB, **params)
    rows = [("mkdir", 0), ("create", 1, 0, 0, 0), ("rmdir", 0), ("create", 0), ("truncate", 0, 1 << 40)]
    events = model.feed(drive.ops(*rows, ("stat", 1), ("rename", 1), ("unlink", 1)))
    assert len(events) < 200
