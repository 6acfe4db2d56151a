"""A file's tree of extents: insertion, merging, splitting and removal, and the blocks that the tree itself takes.

Linux 6.1, fs/ext4/extents.c.  Units: blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

WRITTEN_MOST, UNWRITTEN_MOST = 32768, 32767  # EXT_INIT_MAX_LEN, EXT_UNWRITTEN_MAX_LEN
END = 0xFFFFFFFF  # EXT_MAX_BLOCKS
_ROOT_ENTRIES = 4


@dataclass(eq=False)
class Extent:
    """Blocks of a file that are together on the device."""

    logical: int
    length: int
    physical: int
    unwritten: bool = False

    @property
    def end(self) -> int:
        """Return the logical block after the extent."""
        return self.logical + self.length

    def covers(self, logical: int) -> bool:
        """Return whether the extent maps a block."""
        return self.logical <= logical < self.end


@dataclass(eq=False)
class Node:
    """A block of the tree; the root (block 0) is in the inode.  `entries`: extents if the depth is 0, else children."""

    depth: int
    block: int
    most: int
    entries: list = field(default_factory=list)
    logical: int = 0  # ei_block: the first block in the parent's index
    known: bool = True  # whether it was read since it was made (buffer_verified)

    @property
    def full(self) -> bool:
        """Return whether no entry has room."""
        return len(self.entries) == self.most


@dataclass(eq=False)
class Step:
    """A node on the way to a block, and the entry taken; -1: the node is empty."""

    node: Node
    at: int

    @property
    def entry(self):
        """Return the entry; None if the node is empty."""
        return self.node.entries[self.at] if self.at >= 0 else None


Path = list[Step]


class ExtentTree:
    """The tree of one file.

    Parameters
    ----------
    new_block : callable
        Returns a block for the tree; takes a goal, whether to try the goal itself, and whether reserved blocks may be used.
    free_blocks : callable
        Frees blocks (first, length).
    inode_goal : callable
        Returns the goal of a file that has no blocks yet.
    on_read : callable
        Called with the extents of a leaf that a lookup reads.
    """

    def __init__(
        self,
        block_bytes: int,
        new_block: Callable[[int, bool, bool], int],
        free_blocks: Callable[[int, int], None],
        inode_goal: Callable[[], int],
        on_read: Callable[[list[Extent]], None] = lambda extents: None,
    ) -> None:
        self.most = (block_bytes - 12) // 12
        self.new_block, self.free_blocks, self.inode_goal = new_block, free_blocks, inode_goal
        self.on_read = on_read
        self.root = Node(0, 0, _ROOT_ENTRIES)

    @property
    def depth(self) -> int:
        """Return the number of levels below the root."""
        return self.root.depth

    def extents(self) -> list[Extent]:
        """Return all extents in order."""
        return list(_extents(self.root))

    def find(self, logical: int, cache: bool = True) -> Path:
        """Return the way to the extent at or before a block; to the first one if there is none before."""
        node, path = self.root, []
        if cache and not self.root.depth:
            self.on_read(self.root.entries)
        while True:
            at = 0 if node.entries else -1
            while at + 1 < len(node.entries) and node.entries[at + 1].logical <= logical:
                at += 1
            path.append(Step(node, at))
            if node.depth == 0:
                return path
            node = node.entries[at]
            if cache and not node.depth and not node.known:
                self.on_read(node.entries)
            node.known = True

    def goal(self, path: Path | None, logical: int) -> int:
        """Return where a block should be, so that the file is in one piece in the end: ext4_ext_find_goal."""
        near = path[-1].entry if path else None
        if near is not None:
            return near.physical + (logical - near.logical)
        if path and path[-1].node.block:
            return path[-1].node.block
        return self.inode_goal()

    def left_of(self, path: Path, logical: int) -> tuple[int, int]:
        """Return the nearest mapped block before an unmapped one, as (logical, physical); physical 0: none."""
        near = path[-1].entry
        if near is None or logical < near.logical:
            return logical, 0
        return near.end - 1, near.physical + near.length - 1

    def right_of(self, path: Path, logical: int) -> tuple[int, int]:
        """Return the nearest mapped block after an unmapped one, as (logical, physical); physical 0: none."""
        near = path[-1].entry
        if near is None:
            return logical, 0
        if logical >= near.logical:
            near = self._after(path)
        return (near.logical, near.physical) if near else (logical, 0)

    def next_mapped(self, path: Path) -> int:
        """Return the next mapped block after the extent of a path, as the indexes state it; END if there is none."""
        for step in reversed(path):
            if 0 <= step.at < len(step.node.entries) - 1:
                return step.node.entries[step.at + 1].logical
        return END

    def _after(self, path: Path) -> Extent | None:
        for step in reversed(path):
            if 0 <= step.at < len(step.node.entries) - 1:
                entry = step.node.entries[step.at + 1]
                while isinstance(entry, Node):
                    entry = entry.entries[0]
                return entry
        return None

    def insert(self, path: Path, new: Extent, merge: bool = True, reserved: bool = False) -> None:
        """Insert an extent at a path that leads to its place: ext4_ext_insert_extent."""
        leaf = path[-1]
        if merge and leaf.entry is not None:
            grown = _grow_neighbour(leaf, new)
            if grown >= 0:
                self._merged(path, grown)
                return
        if leaf.node.full:
            path = self._with_room(path, new, reserved)
            leaf = path[-1]
        at = leaf.at + 1 if leaf.entry is not None and new.logical > leaf.entry.logical else max(leaf.at, 0)
        leaf.node.entries.insert(at, new)
        leaf.at = at
        if merge:
            self._merged(path, at)
        else:
            _correct_indexes(path)

    def _merged(self, path: Path, at: int) -> None:
        self.merge(path, at)
        _correct_indexes(path)

    def merge(self, path: Path, at: int) -> None:
        """Merge an extent with its neighbours in the leaf, and a small leaf into the inode: ext4_ext_try_to_merge."""
        leaf = path[-1]
        if not (at > 0 and _merge_right(leaf, at - 1)):
            _merge_right(leaf, at)
        if len(path) == 2 and len(self.root.entries) == 1 and len(leaf.node.entries) <= _ROOT_ENTRIES:
            self.root.entries, self.root.depth = leaf.node.entries, 0
            path[:] = [Step(self.root, leaf.at)]
            self.free_blocks(leaf.node.block, 1)

    def _with_room(self, path: Path, new: Extent, reserved: bool) -> Path:
        """Return a path to a leaf with room for an extent."""
        if new.logical > path[-1].node.entries[-1].logical:
            following = next(
                (
                    step.node.entries[step.at + 1]
                    for step in reversed(path[:-1])
                    if step.at + 1 < len(step.node.entries)
                ),
                None,
            )
            if following is not None:
                other = self.find(following.logical)
                if not other[-1].node.full:
                    return other
        while path[-1].node.full:  # ext4_ext_create_new_leaf
            level = next((i for i in range(len(path) - 2, -1, -1) if not path[i].node.full), -1)
            if level >= 0:
                self._split(path, level, new, reserved)
                return self.find(new.logical)
            self._grow(reserved)
            path = self.find(new.logical)
        return path

    def _split(self, path: Path, level: int, new: Extent, reserved: bool) -> None:
        """Add a subtree below a node that has room, and move there what is right of the path: ext4_ext_split."""
        leaf = path[-1]
        last = leaf.at == len(leaf.node.entries) - 1
        border = new.logical if last else leaf.node.entries[leaf.at + 1].logical
        goal = self.goal(path, new.logical)
        blocks = self._new_blocks(len(path) - 1 - level, goal, reserved)
        made = Node(0, blocks.pop(), self.most, leaf.node.entries[leaf.at + 1 :], border, known=False)
        del leaf.node.entries[leaf.at + 1 :]
        for step in reversed(path[level + 1 : -1]):
            above = Node(step.node.depth, blocks.pop(), self.most, [made, *step.node.entries[step.at + 1 :]], border)
            del step.node.entries[step.at + 1 :]
            made = above
        at = path[level].at + 1 if border > path[level].entry.logical else path[level].at
        path[level].node.entries.insert(at, made)

    def _new_blocks(self, count: int, goal: int, reserved: bool) -> list[int]:
        blocks: list[int] = []
        try:
            while len(blocks) < count:
                blocks.append(self.new_block(goal, False, reserved))
        except Exception:
            for block in blocks:
                self.free_blocks(block, 1)
            raise
        return blocks

    def _grow(self, reserved: bool) -> None:
        """Move the root into a block of its own, one level down: ext4_ext_grow_indepth."""
        if self.root.depth:
            block = self.new_block(self.root.entries[0].block - 1, True, reserved)
        else:
            block = self.new_block(self.inode_goal(), False, reserved)
        moved = Node(self.root.depth, block, self.most, self.root.entries, self.root.entries[0].logical)
        self.root.entries, self.root.depth = [moved], self.root.depth + 1

    def split_at(
        self,
        path: Path,
        logical: int,
        first_unwritten: bool,
        second_unwritten: bool,
        merge: bool,
        reserved: bool = True,
    ) -> None:
        """Split an extent before a block and set the parts' states; at its start, set its state: ext4_split_extent_at."""
        extent = path[-1].entry
        if logical == extent.logical:
            extent.unwritten = second_unwritten
            if merge:
                self.merge(path, path[-1].at)
            return
        skipped = logical - extent.logical
        new = Extent(logical, extent.length - skipped, extent.physical + skipped, second_unwritten)
        extent.length, extent.unwritten = skipped, first_unwritten
        self.insert(path, new, merge, reserved)

    def remove(self, start: int, end: int) -> None:
        """Unmap the blocks [start, end), the last first; END: everything from `start` on: ext4_ext_remove_space."""
        if end != END:
            path = self.find(end - 1, cache=False)
            extent = path[-1].entry
            if extent is None:
                return
            if extent.logical <= end - 1 < extent.end - 1:
                self.split_at(path, end, extent.unwritten, extent.unwritten, merge=False)
        self._remove_below(self.root, start, end)
        if not self.root.entries:
            self.root.depth = 0

    def _remove_below(self, node: Node, start: int, end: int) -> None:
        if node.depth:
            for child in reversed(node.entries[:]):
                if child.logical >= end:
                    continue
                self._remove_below(child, start, end)
                if not child.entries:
                    node.entries.remove(child)
                    self.free_blocks(child.block, 1)
                elif child.logical < start:
                    break
            _correct_first(node)
            return
        for extent in reversed(node.entries[:]):
            if extent.end <= start:
                break
            if extent.logical >= end:
                continue
            first = max(extent.logical, start)
            self.free_blocks(extent.physical + first - extent.logical, extent.end - first)
            extent.length = first - extent.logical
            if not extent.length:
                node.entries.remove(extent)
        _correct_first(node)


def _extents(node: Node):
    for entry in node.entries:
        if isinstance(entry, Node):
            yield from _extents(entry)
        else:
            yield entry


def _mergeable(first: Extent, second: Extent) -> bool:
    most = UNWRITTEN_MOST if first.unwritten else WRITTEN_MOST
    return (
        first.unwritten == second.unwritten
        and first.end == second.logical
        and first.physical + first.length == second.physical
        and first.length + second.length <= most
    )


def _grow_neighbour(leaf: Step, new: Extent) -> int:
    """Append or prepend an extent to one next to the path's; return which one grew, -1: none."""
    at, entries = leaf.at, leaf.node.entries
    append = True
    if at < len(entries) - 1 and entries[at].end < new.logical:
        at, append = at + 1, False
    elif at > 0 and new.end < entries[at].logical:
        at -= 1
    near = entries[at]
    if append and _mergeable(near, new):
        near.length += new.length
        return at
    if _mergeable(new, near):
        near.logical, near.physical, near.length = new.logical, new.physical, near.length + new.length
        return at
    return -1


def _merge_right(leaf: Step, at: int) -> bool:
    """Merge an extent with all that follow and fit; return whether there was one."""
    entries, merged = leaf.node.entries, False
    while at + 1 < len(entries) and _mergeable(entries[at], entries[at + 1]):
        entries[at].length += entries.pop(at + 1).length
        merged = True
    return merged


def _correct_indexes(path: Path) -> None:
    """State a leaf's new first block in the indexes above it, if the path's extent is the first."""
    if len(path) == 1 or path[-1].at != 0:
        return
    border = path[-1].node.entries[0].logical
    for above, below in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
        below.node.logical = border
        if above.at != 0:
            break


def _correct_first(node: Node) -> None:
    if node.entries:
        node.logical = node.entries[0].logical
