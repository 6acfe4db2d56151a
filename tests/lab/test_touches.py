"""First touches of calls: the plugin's records, and the slab caches found in a guest's memory."""

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.lab import qemu, slab, touches
from scmsim.lab.measured import Measured
from scmsim.lab.pagetable import TEXT_MAP
from scmsim.lab.plan import Plan, Region

TOP, DIRECT, PAGES, IMAGE = (
    0x1000,
    0,
    0x200000,
    0x400000,
)  # where the guest's memory has its page table, and what is mapped there
DENTRY, INODE, KMALLOC = DIRECT + 0x10000, DIRECT + 0x11000, DIRECT + 0x12000  # kmem_caches
TO_LIST, WORD = 0x68, 3  # a kmem_cache's list head, and which word of a struct page refers to one
SYMBOLS = b"""\
ffffffff80001000 D init_top_pgt
ffffffff80400100 d slab_caches
ffffffff81000000 T vfs_read
ffffffff83000000 B _end
"""


class Guest:
    """The file that backs a guest's memory."""

    def __init__(self, path):
        self.path, self.bytes = path, np.zeros(8 << 20, np.uint8)
        for at, base in ((qemu.DIRECT_MAP, DIRECT), (0xFFFFEA0000000000, PAGES), (TEXT_MAP + IMAGE, IMAGE)):
            self.map(at, base)

    def word(self, at, value):
        self.bytes[at : at + 8] = np.frombuffer(np.uint64(value).tobytes(), np.uint8)

    def map(self, address, physical):
        """One page of 2 MiB, through tables of its own."""
        tables = [TOP, *(0x100000 + 0x3000 * (address >> 39 & 511) + 0x1000 * k for k in range(2))]
        for shift, at, below in zip((39, 30), tables, tables[1:], strict=False):
            self.word(at + 8 * (address >> shift & 511), below | 1)
        self.word(tables[-1] + 8 * (address >> 21 & 511), physical | 1 | 1 << 7)

    def cache(self, at, name, following, size=0):
        self.word(at + 24, size)
        place = at + 0x800
        self.bytes[place : place + len(name) + 1] = np.frombuffer(name.encode() + b"\0", np.uint8)
        self.word(at + TO_LIST - 8, qemu.DIRECT_MAP + place)
        self.word(at + TO_LIST, following)

    def page(self, number, **words):
        for word, value in words.items():
            self.word(PAGES + 64 * number + 8 * int(word[1:]), value)

    def write(self):
        self.bytes.tofile(self.path)
        return self.path


@pytest.fixture
def ram(tmp_path):
    guest = Guest(tmp_path / "ram")
    head = TEXT_MAP + IMAGE + 0x100
    guest.word(IMAGE + 0x100, qemu.DIRECT_MAP + DENTRY + TO_LIST)
    guest.cache(DENTRY, "dentry", qemu.DIRECT_MAP + INODE + TO_LIST, 192)
    guest.cache(INODE, "ext4_inode_cache", qemu.DIRECT_MAP + KMALLOC + TO_LIST, 1184)
    guest.cache(KMALLOC, "kmalloc-2k", head, 2048)
    guest.page(5, w3=qemu.DIRECT_MAP + DENTRY)
    guest.page(8, w3=qemu.DIRECT_MAP + INODE)
    guest.page(9, w1=0xFFFFEA0000000000 + 64 * 8 + 1)  # a tail of it
    guest.page(12, w3=qemu.DIRECT_MAP + 0x1234000)  # of no slab
    return guest.write()


def page(number):
    return qemu.DIRECT_MAP + 4096 * number


def test_pages_of_slabs_have_the_names_of_their_caches(ram):
    wanted = np.array([page(n) for n in (4, 5, 8, 9, 12, 100_000_000)], np.uint64)
    found = slab.caches(ram, SYMBOLS, wanted)
    inodes = "ext4_inode_cache", 1184
    assert found == {page(5): ("dentry", 192, 0), page(8): (*inodes, 0), page(9): (*inodes, 4096)}


def test_without_symbols_or_slabs_no_page_has_a_cache(ram, tmp_path):
    wanted = np.array([page(5)], np.uint64)
    assert slab.caches(ram, b"", wanted) == {}
    assert slab.caches(ram, SYMBOLS, np.array([page(4)], np.uint64)) == {}
    assert slab.caches(Guest(tmp_path / "empty").write(), SYMBOLS, wanted) == {}


def records(*rows):
    return touches.by_page(np.array(list(rows), touches.RECORD.descr[:3]))


def mark(number):
    return ((1 << 64) - 1, 0, number)


def measured(found, caches=None):
    about = {"buffer_bytes": 0, "huge_bytes": 0}
    ranges = [(qemu.DIRECT_MAP, qemu.DIRECT_MAP + (1 << 30), 21)]
    return Measured(np.zeros(0), SYMBOLS, about, 1.0, ranges=ranges, touches=found, caches=caches or {})


MADE = Plan(np.zeros(0), np.zeros(0), [Region("create"), Region("write")])


def test_touches_are_kept_with_their_calls_and_what_they_are_of(tmp_path, ram):
    code = 0xFFFFFFFF81000010
    found = records(
        mark(2),
        (page(5) + 8, code, 2 << 1 | 1),
        (0x400010, 0x400000, 2 << 1),
        mark(2),
        mark(1),
        (page(4), code, 1 << 1),
    )
    path = tmp_path / "a.touches.parquet"
    touches.keep(path, "ext4-dax", MADE, measured(found, touches.caches(ram, SYMBOLS, found)), "6.1")
    header, table = touches.load(path)
    assert (header["fs"], header["kernel"]) == ("ext4-dax", "6.1")
    rows = table.to_pylist()
    assert rows == [
        {"call": 0, "kind": "write", "address": page(5) + 8, "order": 21, "store": True, "region": "direct map",
         "cache": "dentry", "function": "vfs_read", "lines": 1, "object": 192, "start": 0},
        {"call": 0, "kind": "write", "address": 0x400010, "order": 12, "store": False, "region": "program",
         "cache": "", "function": "(user)", "lines": 1, "object": 0, "start": 0},
        {"call": 2, "kind": "create", "address": page(4), "order": 21, "store": False, "region": "direct map",
         "cache": "", "function": "vfs_read", "lines": 1, "object": 0, "start": 0},
    ]  # fmt: skip
    assert touches.sums(path) == [("direct map", "", 0.5, 1), ("direct map", "dentry", 0.5, 1), ("program", "", 0.5, 1)]


def test_nothing_touched_is_an_empty_table(tmp_path):
    path = tmp_path / "a.touches.parquet"
    touches.keep(path, "tmpfs", MADE, measured(records()), "6.1")
    assert touches.load(path)[1].num_rows == 0 and touches.sums(path) == []


@pytest.mark.parametrize("content", [b"", b"PAR1 nothing PAR1", None])
def test_what_has_no_touches_is_refused(tmp_path, content):
    path = tmp_path / "a.touches.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="has no touches"):
        touches.load(path)
