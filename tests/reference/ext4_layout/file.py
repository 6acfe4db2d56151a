"""A file of a mounted ext4: how its blocks are looked up, allocated and converted.

Linux 6.1, fs/ext4/inode.c (ext4_map_blocks), extents.c (ext4_ext_map_blocks, ext4_ext_convert_to_initialized).
"""

from dataclasses import dataclass

from tests.reference.ext4_layout.mballoc import Mballoc, NoSpaceLeft, Request
from tests.reference.ext4_layout.preallocation import Preallocation
from tests.reference.ext4_layout.search import FLEX_DIR_SCHEME
from tests.reference.ext4_layout.status import PROMISED, StatusTree
from tests.reference.ext4_layout.tree import END, UNWRITTEN_MOST, WRITTEN_MOST, Extent, ExtentTree, Path

_ZEROED_BYTES = 32 << 10  # s_extent_max_zeroout_kb: parts of unwritten extents that are cheaper to zero than to split


@dataclass(frozen=True)
class Create:
    """How missing blocks are made (EXT4_GET_BLOCKS_*)."""

    unwritten: bool = False  # fallocate
    normalize: bool = True
    before_io: bool = False  # write-back: the blocks stay unwritten until the data is there
    promised: bool = False  # write-back of delayed blocks, which were counted when they were written


@dataclass
class Mapped:
    """A mapped run; physical 0: a hole."""

    length: int
    physical: int
    state: str


class File:
    """A file or directory in memory, with its extents."""

    def __init__(self, mballoc: Mballoc, number: int, group: int, regular: bool) -> None:
        self.mballoc, self.number, self.group, self.regular = mballoc, number, group, regular
        self.size, self.writers, self.opened, self.links = 0, 0, 0, 1
        self.preallocations: list[Preallocation] = []
        self.known = StatusTree()
        self.tree = ExtentTree(
            mballoc.disk.options.block_bytes, self._new_tree_block, mballoc.free_blocks, self.inode_goal, self._cache
        )

    def inode_goal(self) -> int:
        """Return the first goal of a file: the start of its group, or of its flex group's files: ext4_inode_to_goal_block."""
        group, flex = self.group, self.mballoc.disk.flex_size
        if flex >= FLEX_DIR_SCHEME:
            group = group // flex * flex + (1 if self.regular else 0)
        return self.mballoc.disk.first_block(group)

    def _new_tree_block(self, goal: int, try_goal: bool, reserved: bool) -> int:
        request = Request(self, 0, 1, goal, data=False, try_goal=try_goal, reserved=reserved)
        return self.mballoc.allocate(request)[0]

    def _cache(self, extents: list[Extent]) -> None:
        """Remember the extents of a leaf that was read, and the holes between them: ext4_cache_extents."""
        before = 0
        for extent in extents:
            if before and before != extent.logical:
                self.known.cache(before, extent.logical - before, 0, "hole")
            self.known.cache(extent.logical, extent.length, extent.physical, _state(extent))
            before = extent.end

    def lookup(self, logical: int, length: int) -> Mapped:
        """Return what is mapped at a block, at most `length` blocks: ext4_map_blocks without CREATE."""
        run = self.known.lookup(logical)
        if run:
            return Mapped(min(length, run.length), run.physical, run.state.partition(",")[0])
        path = self.tree.find(logical)
        extent = path[-1].entry
        if extent is not None and extent.covers(logical):
            length = min(length, extent.end - logical)
            physical = extent.physical + logical - extent.logical
            found = Mapped(length, physical, _state(extent))
            self._learn(logical, found, False)
            return found
        start, end = 0, END
        if extent is not None and logical < extent.logical:
            start, end = logical, extent.logical
        elif extent is not None:
            start, end = extent.end, self.tree.next_mapped(path)
        delayed = [run for run in self.known.runs if run.state == "delayed" and run.logical < end and run.end > start]
        if any(run.end <= logical for run in delayed):
            start = logical
        end = next((run.logical for run in delayed if run.logical > logical), end)
        self.known.insert(start, end - start, 0, "hole")
        return Mapped(min(length, end - logical), 0, "hole")

    def map(self, logical: int, length: int, create: Create) -> Mapped:
        """Return a run of blocks, made if need be: ext4_map_blocks with CREATE."""
        found = self.lookup(logical, length)
        if found.state == "written":
            return found
        path = self.tree.find(logical)
        extent = path[-1].entry
        if extent is not None and extent.covers(logical):
            if not extent.unwritten:
                made = Mapped(
                    min(found.length, extent.end - logical), extent.physical + logical - extent.logical, "written"
                )
            else:
                made = self._write_unwritten(path, logical, found.length, create)
        else:
            made = self._allocate(path, logical, found.length, create)
        self._learn(logical, made, create.promised)
        return made

    def _learn(self, logical: int, made: Mapped, promised: bool) -> None:
        """Remember a run; unwritten blocks of dirty pages that were only promised some are not like others: ext4_map_blocks."""
        waits = made.state == "unwritten" and not promised and self.known.waits(logical, made.length)
        self.known.insert(logical, made.length, made.physical, PROMISED if waits else made.state)

    def _write_unwritten(self, path: Path, logical: int, length: int, create: Create) -> Mapped:
        extent = path[-1].entry
        physical = extent.physical + logical - extent.logical
        if create.before_io:
            self._split(path, logical, logical + length, False, written=False)
        if create.unwritten:
            return Mapped(min(length, extent.end - logical), physical, "unwritten")
        return Mapped(min(length, self._initialize(path, logical, length)), physical, "written")

    def _allocate(self, path: Path, logical: int, length: int, create: Create) -> Mapped:
        """Allocate blocks for a hole: the last part of ext4_ext_map_blocks."""
        length = min(length, UNWRITTEN_MOST if create.unwritten else WRITTEN_MOST)
        near = path[-1].entry
        if near is not None:
            following = near.logical if near.logical >= logical else self.tree.next_mapped(path)
            length = min(length, following - logical)
        request = Request(
            self, logical, length, self.tree.goal(path, logical), self.regular,
            self.tree.left_of(path, logical), self.tree.right_of(path, logical), not create.normalize,
            promised=create.promised,
        )  # fmt: skip
        physical, found = self.mballoc.allocate(request)
        length = min(found, length)
        try:
            new = Extent(logical, length, physical, create.unwritten)
            self.tree.insert(path, new, merge=not create.before_io, reserved=create.promised)
        except NoSpaceLeft:  # for the tree itself
            self.mballoc.preallocations.discard(self)
            self.mballoc.free_blocks(physical, found)
            raise
        return Mapped(length, physical, "unwritten" if create.unwritten else "written")

    def _initialize(self, path: Path, logical: int, length: int) -> int:
        """Make part of an unwritten extent written; return how many blocks are: ext4_ext_convert_to_initialized."""
        extent, block = path[-1].entry, self.mballoc.disk.options.block_bytes
        if self._moved_to_neighbour(path, logical, length):
            return length
        end_of_file = max(-(-self.size // block), logical + length)
        start, end, allocated = logical, logical + length, extent.end - logical
        most = _ZEROED_BYTES // block if extent.end <= end_of_file else 0
        zeroed = []
        if most and allocated > length:
            if allocated <= most:
                zeroed.append((end, extent.end - end))
                end = extent.end
            if end - extent.logical < most:
                zeroed.append((extent.logical, start - extent.logical))
                start, allocated = extent.logical, length
        first, physical = extent.logical, extent.physical
        self._split(path, start, end, bool(most))
        for at, count in zeroed:
            self.known.insert(at, count, physical + at - first, "written")
        return allocated

    def complete(self, logical: int, length: int) -> None:
        """Make blocks written whose data is there: ext4_convert_unwritten_extents."""
        end = logical + length
        while logical < end:
            found = self.lookup(logical, end - logical)
            if found.state == "unwritten":
                path = self.tree.find(logical)
                extent = path[-1].entry
                found.length = min(found.length, extent.end - logical)
                if extent.logical != logical or extent.length > found.length:
                    self._split(path, logical, logical + found.length, False, written=False)
                    path = self.tree.find(logical)
                path[-1].entry.unwritten = False
                self.tree.merge(path, path[-1].at)
                self.known.insert(logical, found.length, found.physical, "written")
            logical += found.length

    def _split(self, path: Path, start: int, end: int, may_zero: bool, written: bool = True) -> None:
        """Make [start, end) of an unwritten extent an extent of its own: ext4_split_extent."""
        if end < path[-1].entry.end:
            self._split_or_zero(path, end, True, merge=False, may_zero=may_zero)
        path = self.tree.find(start, cache=False)
        unwritten = path[-1].entry.unwritten
        if unwritten or start > path[-1].entry.logical:
            self._split_or_zero(path, start, not written, merge=written, may_zero=may_zero and unwritten)

    def _split_or_zero(self, path: Path, at: int, second_unwritten: bool, merge: bool, may_zero: bool) -> None:
        """Split an extent; if the tree has no room and cannot grow, zero all of it instead, where that is allowed."""
        extent = path[-1].entry
        before = extent.length, extent.unwritten
        try:
            self.tree.split_at(path, at, extent.unwritten, second_unwritten, merge)
        except NoSpaceLeft:
            extent.length, extent.unwritten = before
            if not may_zero:
                raise
            extent.unwritten = False
            path = self.tree.find(extent.logical, cache=False)
            self.tree.merge(path, path[-1].at)
            self.known.insert(extent.logical, before[0], extent.physical, "written")

    def _moved_to_neighbour(self, path: Path, logical: int, length: int) -> bool:
        """Move blocks at an end of an unwritten extent to a written neighbour, if there is one."""
        entries, at = path[-1].node.entries, path[-1].at
        extent = entries[at]
        if length >= extent.length:
            return False
        if logical == extent.logical:
            other = entries[at - 1] if at else None
            if other is None or not _abut(other, extent) or other.length >= WRITTEN_MOST - length:
                return False
            extent.logical, extent.physical = extent.logical + length, extent.physical + length
        elif logical + length == extent.end:
            other = entries[at + 1] if at + 1 < len(entries) else None
            if other is None or not _abut(extent, other) or other.length >= WRITTEN_MOST - length:
                return False
            other.logical, other.physical = other.logical - length, other.physical - length
        else:
            return False
        extent.length, other.length = extent.length - length, other.length + length
        return True


def _abut(first: Extent, second: Extent) -> bool:
    """Return whether exactly one of two extents is written, and they are neighbours in the file and on the device."""
    together = first.end == second.logical and first.physical + first.length == second.physical
    return together and first.unwritten != second.unwritten


def _state(extent: Extent) -> str:
    return "unwritten" if extent.unwritten else "written"
