"""Where mappings are cut and holes end: entries of 2 MiB beside those that go, on each kind of file system."""

import random

import pytest

from scmsim.core import records as r
from scmsim.core.records import joined
from scmsim.fs.mapping import words as w
from tests.fs import drive
from tests.fs.mapping.reference_entries import FAN
from tests.fs.mapping.test_properties import MODELS, PAGES, SIZES, agree

PAGE = 4096
CUTS = [
    (FAN - 1, FAN),
    (FAN - 1, FAN + 1),
    (FAN, FAN + 1),
    (1, FAN),
    (FAN + 1, 2 * FAN - 1),
    (0, 1),
    (2 * FAN - 1, PAGES),
]


@pytest.mark.parametrize(
    "name", ["ext4-dax", "ext4-dax, faults of 6.1", "xfs-dax", "tmpfs huge", "ext4 folios", "pmfs-2m"]
)
@pytest.mark.parametrize(("low", "high"), CUTS)
def test_what_lies_beside_the_pages_that_are_unmapped_stays(name, low, high):
    """Every page of both 2 MiB was touched; then those at the edges of what went are again."""
    edges = [page * PAGE for page in (low - 1, low, high) if 0 <= page < PAGES]
    rows = [("store", 2, region * FAN * PAGE, 8) for region in (0, 1)] + [("load", 2, at, 8) for at in edges]
    rows += [("munmap", 2, low * PAGE, (high - low) * PAGE), *[("load", 2, at, 8) for at in edges]]
    again = ("mmap", 2, low * PAGE, 2 * PAGE, -1, r.WRITABLE_SHARED)
    agree(name, [*rows, again, *[("store", 2, at, 1) for at in edges]])


@pytest.mark.parametrize("name", ["ext4-dax", "xfs-dax", "ext2-dax", "ext2-dax of 6.1"])
@pytest.mark.parametrize("block", [None, 3, 100, FAN - 1, 2 * FAN + 100, 4 * FAN])
def test_holes_of_2_mib_beside_a_block(name, block):
    """ext2 tells a hole by the pointer blocks that are missing: 12 blocks in the inode, then 1024 a pointer block."""
    rows = [("truncate", 1, 24 << 20), ("mmap", 1, 0, 24 << 20, -1, r.WRITABLE_SHARED)]
    rows += [] if block is None else [("write", 1, block * PAGE, PAGE)]
    holes = [0, 11, 12, FAN, FAN + 8, 2 * FAN, 2 * FAN + 11, 2 * FAN + 12, 3 * FAN, 5 * FAN + 7, 11 * FAN]
    agree(name, rows + [(op, 1, page * PAGE + 8, 8) for page in holes for op in ("load", "store")])


def program():
    """Touches of two threads, one of which is a process of its own, and calls between them: rows, threads, places asked for."""
    draw, at = random.Random(5), 1 << 33
    yield from ((("mmap", 2, 0, PAGES * PAGE, -1, r.WRITABLE_SHARED), 0, 0), (("create", 1, 0, 0, 0), 0, 0))
    yield (("mmap", 2, 0, FAN * PAGE, -1, r.WRITABLE_SHARED | r.OWN_PROCESS), 1, 0)
    for number in range(120):
        place = draw.choice([0, 7, 8, 600, 1023]) * PAGE + draw.choice([0, 8, 4088, 4092])
        op = draw.choice(["load"] * 4 + ["store"] * 4 + ["flush", "fence"])
        flag = r.NON_TEMPORAL if op == "store" and draw.random() < 0.3 else 0
        yield (op, -1 if op == "fence" else 2, place, draw.choice([0, 1, 8, 16, 5000]), -1, flag), number // 20 % 2, 0
        if number % 30 == 29:  # the first pages of another file come to lie over some of these
            yield ("mmap", 1, 0, 3 * PAGE, -1, draw.choice([0, r.PRIVATE, r.WRITABLE_SHARED])), 0, at
            yield from (((op, 2, 0, PAGE), 0, 0) for op in ("msync", "fsync", "load"))
    yield ("mmap", 2, 5 * PAGE, 9 * PAGE, -1, r.WRITABLE_SHARED), 0, at + PAGE
    for flag, pages in ((r.WRITABLE_SHARED, FAN + 9), (r.PRIVATE, 20), (0, 100)):
        yield ("mmap", 2, 300 * PAGE, pages * PAGE, -1, flag | r.POPULATE), 0, 0
    yield from (((op, file, page * PAGE, 8), 0, 0) for page in range(8) for file in (1, 2) for op in ("load", "store"))


@pytest.mark.parametrize("name", ["ext4-dax", "tmpfs huge", "ext4 folios", "nova", "pmfs-2m"])
def test_rows_may_come_one_by_one_or_together(name):
    """And whatever room the events have; each event says which row it is of."""
    fs, params, *_ = MODELS[name]
    rows, threads, places = zip(*program(), strict=True)
    batch = drive.ops(*rows)
    batch.thread, batch.buffer, batch.time_ns = threads, places, 0
    alone, together, narrow = (
        drive.Model(fs, drive.files(*SIZES, dirs=[0]), room, **params) for room in (1 << 12, 1 << 12, 45)
    )
    parts = [alone.feed(batch[at : at + 1]) for at in range(len(batch))]
    found, names = together.feed(batch), [name for name in together.out.dtype.names if name != "op"]
    assert joined(parts)[names].tolist() == found[names].tolist()
    assert found.op.tolist() == [at for at, part in enumerate(parts) for _ in part]
    assert narrow.feed(batch).tolist() == found.tolist()
    assert {model.mapped._word(w.REPLACED) for model in (alone, together, narrow)} == {
        3 + 1
    }  # of the first file, then of the other


@pytest.mark.parametrize("name", ["ext4-dax", "tmpfs", "tmpfs huge", "ext4 folios", "nova", "pmfs-2m"])
def test_a_mapping_that_moves_takes_its_entries_along(name):
    """mremap, with another mapping behind it: first all of it, made longer, then a part of it, made shorter."""
    pages = (0, 1, 5, FAN - 1, FAN, FAN + 200, 2 * FAN + 3)
    rows = [("store", 2, page * PAGE, 8) for page in pages]
    for first, length in ((0, PAGES + FAN), (1, FAN + 100)):
        rows += [("mmap", 1, 0, PAGE, -1, 0), ("mmap", 2, first * PAGE, length * PAGE, -1, r.REMAPPED)]
        rows += [(op, 2, page * PAGE, 8) for page in pages for op in ("load", "store")]
    agree(name, [*rows, ("munmap", 2, 0, PAGES * PAGE)])


@pytest.mark.parametrize("name", ["xfs-dax", "ext4-dax"])
def test_a_mapped_file_grows_behind_a_page_that_it_has_in_part(name):
    rows = [("store", 2, 0, 8), ("truncate", 2, PAGES * PAGE + 5000), ("store", 2, PAGES * PAGE - 50, 8)]
    agree(name, [*rows, ("truncate", 2, 7 * PAGE - 5), ("store", 2, 6 * PAGE, 8), ("truncate", 2, 9 * PAGE)])
