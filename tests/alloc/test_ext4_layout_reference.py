"""The reference of ext4's layout beside real file systems: what mke2fs made, and where Linux 6.1 put files' blocks."""

import gzip
import json
import pathlib

import pytest

from tests.reference.ext4_layout import CachedLayout, Ext4Layout, Mballoc, Mkfs, NoSpaceLeft, Request, mkfs
from tests.reference.ext4_layout.history import Replay, options_of

_DATA = pathlib.Path(__file__).parents[1] / "data" / "ext4_layout"
_MIB, _GIB, _KIB = 1 << 20, 1 << 30, 1 << 10
_LARGE = 512  # blocks of a 2 MiB page


def _read(name):
    return json.loads(gzip.decompress((_DATA / name).read_bytes()))


_MADE = _read("mke2fs.json.gz")["cases"]
_HISTORIES = _read("histories.json.gz")["histories"]


def _runs(group, first):
    """Return the free runs of a group as [first, last] blocks."""
    found, at = [], group.bitmap.find(0)
    while at >= 0:
        end = group.bitmap.find(1, at)
        end = len(group.bitmap) if end < 0 else end
        found.append([first + at, first + end - 1])
        at = group.bitmap.find(0, end)
    return found


@pytest.mark.parametrize("case", _MADE, ids=lambda case: " ".join([f"{case['mib']} MiB", *case["words"]]))
def test_mke2fs_puts_its_blocks_there(case):
    disk = mkfs.make(options_of(case["words"], case["mib"]))
    sizes = disk.blocks, disk.inodes_per_group, disk.reserved_gdt_blocks, disk.blocks_per_group
    assert sizes == (case["blocks"], case["inodes_per_group"], case["reserved"], case["blocks_per_group"])
    for number, (group, real) in enumerate(zip(disk.groups, case["groups"], strict=True)):
        tables = [group.block_bitmap, group.inode_bitmap, group.inode_table]
        about = [group.free_inodes, group.directories, int(group.block_uninit)]
        assert [*tables, *about, _runs(group, disk.first_block(number))] == real, f"group {number}"


@pytest.mark.parametrize("each", _HISTORIES, ids=lambda each: f"{each['kind']}-{each['seed']}")
def test_a_real_kernel_puts_files_there(each):
    replay = Replay(options_of(each["words"], each["mib"]))
    replay.run(each["lines"])
    assert {path: json.loads(json.dumps(replay.show(path))) for path in each["shown"]} == each["shown"]


def _large_pages(extents):
    """Return how many 2 MiB pages a mapping of the file can have."""
    count = 0
    for logical, physical, length, _ in extents:
        if (logical - physical) % _LARGE == 0:
            count += max((logical + length) // _LARGE - -(-logical // _LARGE), 0)
    return count


@pytest.mark.parametrize(
    ("unit", "size_first", "pages"),
    [
        (4 * _KIB, False, 0),
        (16 * _KIB, False, 0),
        (64 * _KIB, False, 0),
        (128 * _KIB, False, 8),
        (_MIB, False, 8),
        (4 * _MIB, False, 8),
        (64 * _KIB, True, 8),
    ],
)
def test_the_unit_of_writes_decides_on_large_pages(unit, size_first, pages):
    layout = Ext4Layout(Mkfs(2 * _GIB))
    other = layout.create(layout.root, "other")
    for offset in range(0, _MIB, 64 * _KIB):
        layout.write(other, offset, 64 * _KIB)
    layout.close(other)
    file = layout.create(layout.root, "file")
    if size_first:
        layout.truncate(file, 16 * _MIB)
    for offset in range(0, 16 * _MIB, unit):
        layout.write(file, offset, unit)
    assert _large_pages(layout.extents(file)) == pages


def test_the_last_writer_gives_preallocated_blocks_back():
    layout = Ext4Layout(Mkfs(_GIB))
    free = sum(group.free for group in layout.mballoc.groups.all)
    file = layout.create(layout.root, "file")
    layout.write(file, 0, 300 * _KIB)
    assert free - sum(group.free for group in layout.mballoc.groups.all) == 128  # 512 KiB
    layout.close(file)
    assert free - sum(group.free for group in layout.mballoc.groups.all) == 75


def test_freed_blocks_wait_for_the_commit():
    layout = Ext4Layout(Mkfs(_GIB))
    free = sum(group.free for group in layout.mballoc.groups.all)
    file = layout.create(layout.root, "file")
    layout.write(file, 0, 4 * _MIB)
    layout.close(file)
    layout.unlink(layout.root, "file", file)
    assert sum(group.free for group in layout.mballoc.groups.all) == free - 1024
    layout.commit()
    assert sum(group.free for group in layout.mballoc.groups.all) == free


class _Owner:
    """A file as the allocator sees it."""

    def __init__(self):
        self.size, self.writers, self.preallocations = 0, 1, []


def test_the_allocator_serves_on_its_own_until_it_is_full():
    allocator = Mballoc(mkfs.make(Mkfs(64 * _MIB)))
    free, owner, taken = allocator.free.exact, _Owner(), {}
    with pytest.raises(NoSpaceLeft):
        while True:
            at = sum(taken.values())
            first, length = allocator.allocate(Request(owner, at, 100, 0, data=True))
            assert not taken.keys() & set(range(first, first + length))
            taken[first] = length
            owner.size = (at + length) * 4096
    assert free - sum(taken.values()) == allocator.reserved


def test_the_page_cache_makes_one_request_of_many_writes():
    layout = CachedLayout(Mkfs(_GIB))
    file = layout.create(layout.root, "file")
    for offset in range(0, 4 * _MIB, 4 * _KIB):
        layout.write(file, offset, 4 * _KIB)
    assert layout.extents(file) == []
    layout.fsync(file)
    ((logical, _, length, unwritten),) = layout.extents(file)
    assert (logical, length, unwritten) == (0, 1024, False)


def test_pages_that_are_dropped_before_write_back_take_no_blocks():
    layout = CachedLayout(Mkfs(_GIB))
    free = layout.mballoc.free.exact
    file = layout.create(layout.root, "file")
    layout.write(file, 0, _MIB)
    layout.close(file)
    layout.unlink(layout.root, "file", file)
    layout.commit()
    assert layout.mballoc.free.exact == free
