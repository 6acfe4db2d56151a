"""Implement the disk of ext4's reference: blocks, extent leaves and the journal, with plain sets and lists.

Written from the same description as scmsim/fs/linux/blocks.py and jbd2.py, and shares no code with them; blocks come from
the reference of ext4's allocator.
"""

from dataclasses import dataclass, field

from tests.reference.ext4_layout import mkfs
from tests.reference.ext4_layout.hashing import seed_of
from tests.reference.ext4_layout.inodes import Inodes
from tests.reference.ext4_layout.mballoc import Mballoc, NoSpaceLeft, Request
from tests.reference.ext4_layout.status import StatusTree

PAGE = 4096
GROUP = 32768
CHUNK = 2048  # pages per step of write-back
SECONDS = 10**9


@dataclass
class Page:
    """One page of a file: its block (None: not allocated yet), and its state."""

    block: int | None = None
    dirty: bool = False
    cached: bool = False
    unwritten: bool = False
    promised: bool = False  # a fallocate gave it its block while it waited for one


@dataclass
class Node:
    """A file or directory."""

    inode: int
    group: int = 0
    is_root: bool = False
    last_group: int | None = None
    size: int = 0
    is_dir: bool = False
    links: int = 1
    opens: int = 0
    parent: int = -1
    used: int = 0  # bytes of directory entries
    renamed: int = 0  # bytes of them that renames added
    end: int = 0  # first page after all pages that were ever mapped
    tid: int = 0
    data_tid: int = 0
    stamp: int = -1
    read_stamp: int = 0
    since: int = 0
    emptied: bool = False  # cut to nothing since it was last closed
    pages: dict[int, Page] = field(default_factory=dict)
    preallocations: list = field(default_factory=list)
    writers: int = 1
    leaves: list[int] = field(default_factory=list)
    known: StatusTree = field(default_factory=StatusTree)  # what look-ups of blocks are remembered

    @property
    def number(self):
        """Return the inode's number, as the reference of ext4's inodes calls it."""
        return self.inode

    def dirty(self):
        """Return the numbers of the dirty pages in order."""
        return sorted(number for number, page in self.pages.items() if page.dirty)

    def waits(self):
        """Return whether a dirty page waits for a block."""
        return any(page.block is None for page in self.pages.values())


class Disk:
    """The blocks and the journal."""

    def __init__(self, dax, files, capacity, journal, commit_interval, dirty_expire, clock_tick):
        self.dax, self.files = dax, files
        self.commit_interval, self.dirty_expire, self.clock_tick = commit_interval, dirty_expire, clock_tick
        self.blocks, self.journal = capacity // PAGE, journal // PAGE
        self.layout = mkfs.make(mkfs.Mkfs(capacity, journal_blocks=self.journal))
        self.allocator = Mballoc(self.layout)
        self.group_inodes = self.layout.inodes_per_group
        self.inodes = Inodes(self.layout, self.allocator, seed_of(self.layout.options.hash_seed))
        self.nodes, self.gone, self.begun = {}, set(), None
        self.txn, self.txn_joins, self.txn_since, self.tid, self.revokes = set(), 0, 0, 1, 0
        self.held, self.checkpoint_since, self.log_used = set(), 0, 0
        self.lent = 0  # leaves that the current operation took, whose blocks it may take of those kept for leaves
        self.inserting = 0  # blocks of the extent that is being inserted, which still count as promised
        self.uncut = -1  # last page of a request that does not fit as a whole
        self.queue = []  # dirty files, oldest first
        self.tick, self.now, self.closes, self.commits, self.failed, self.short_writes = 5 * SECONDS, 0, 0, 0, 0, 0

    def file_time(self):
        """Return the time that a file's times are set to: the clock's last tick, or without ticks the transaction."""
        return self.now - self.now % self.clock_tick if self.clock_tick else self.tid

    # Blocks

    def free_count(self):
        """Return the number of free blocks, including preallocated ones and those that wait for a commit."""
        return self.allocator.free.exact

    def available(self):
        """Return how many blocks can still be reserved."""
        return self.free_count() - self.promised() - self.allocator.reserved

    def promised(self):
        """Return how many pages wait for a block of their own."""
        waiting = sum(page.block is None for node in self.nodes.values() for page in node.pages.values())
        return waiting + self.inserting

    def neighbour(self, node, page, step):
        """Return the nearest page with a block before or after `page`, and its block; (0, 0) if there is none."""
        pages = [number for number, one in node.pages.items() if one.block is not None and (number - page) * step > 0]
        nearest = min(pages, key=lambda number: abs(number - page), default=None)
        return (0, 0) if nearest is None else (nearest, node.pages[nearest].block)

    def home(self, node):
        """Return the block near which a file without blocks starts."""
        group = node.group // 16 * 16 + (not node.is_dir)
        return group * GROUP

    def take(self, node, page, want, unwritten=False):
        """Take up to `want` contiguous blocks for `page`."""
        left, right = self.neighbour(node, page, -1), self.neighbour(node, page, 1)
        goal = self.home(node)
        if left[1] or right[1]:
            goal = left[1] + page - left[0] if left[1] else right[1] - (right[0] - page)
        # write-back claimed its blocks when its pages became dirty (EXT4_GET_BLOCKS_DELALLOC_RESERVE)
        claimed = not node.is_dir and not unwritten and self.promised() > 0
        request = Request(
            node, page, want, goal, not node.is_dir, left, right, no_preallocation=unwritten, reserved=claimed
        )
        kept = self.promised() * unwritten - self.lent
        self.allocator.reserved += kept
        try:
            return self.served(node, request)
        finally:
            self.allocator.reserved -= kept

    def take_leaf(self, node):
        """Take a block for an extent leaf."""
        left = self.neighbour(node, node.end, -1) if node.leaves else (0, 0)
        goal = left[1] + node.end - left[0] if left[1] else self.home(node)
        return self.served(node, Request(node, node.end, 1, goal, data=False, reserved=True))[0]

    def served(self, node, request):
        """Return the blocks that a request gets; on a full device, those that wait for a commit become free before it."""
        node.writers = node.opens if self.closes else 1
        try:
            first, count = self.allocator.allocate(request)
        except NoSpaceLeft:
            self.allocator.commit()
            first, count = self.allocator.allocate(request)
        return list(range(first, first + count))

    def release(self, blocks):
        """Free blocks as soon as the transaction commits."""
        for block in blocks:
            self.allocator.free_blocks(block, 1)

    def close_window(self, node):
        """Free the unused blocks of a file's preallocations."""
        self.allocator.preallocations.discard(node)

    def allocate(self, node, page, want, **state):
        """Allocate contiguous blocks for up to `want` pages from `page` on; return for how many."""
        taken = self.take(node, page, want, **state)
        for number, block in enumerate(taken, page):
            entry = node.pages.setdefault(number, Page())
            entry.block = block
            for name, value in state.items():
                setattr(entry, name, value)
        node.end = max(node.end, page + len(taken))
        self.merge_leaf(node)
        return len(taken)

    def keep_promise(self, node, page, want):
        """Give blocks to dirty pages, whose extent joins its neighbours only when it is stored; return how many got one."""
        before = self.extents_of(node)
        blocks = self.take(node, page, want)
        for number, block in enumerate(blocks, page):
            node.pages[number].block = block
        self.inserting = len(blocks)
        for group in sorted({block // GROUP for block in blocks}):
            self.join(self.layout.groups[group].block_bitmap)
            self.join(1 + group // 64)
        self.change_leaf(node, page)
        self.grow_leaves(node, before + 1 - self.extents_of(node))
        self.inserting = 0
        if not node.waits() and self.closes and not node.opens:
            self.close_window(node)
        self.merge_leaf(node)
        return len(blocks)

    def change_blocks(self, node, page, blocks):
        """Change the bitmaps and descriptors of blocks, and the leaf over `page`."""
        for group in sorted({block // GROUP for block in blocks}):
            self.join(self.layout.groups[group].block_bitmap)
            self.join(1 + group // 64)
        self.change_leaf(node, page)
        self.grow_leaves(node)

    def change_leaf(self, node, page):
        """Change the extent leaf over `page`."""
        if node.leaves:
            self.join(node.leaves[min(page * len(node.leaves) // max(node.end, 1), len(node.leaves) - 1)])

    def extents_of(self, node):
        """Return the number of a file's extents: a page that does not continue the page before begins one."""
        found, last = 0, None
        for number, page in sorted(node.pages.items()):
            now = (number - page.block, page.unwritten) if page.block is not None else None
            found += now is not None and (now != last or number - 1 not in node.pages)
            last = now
        return found

    def grow_leaves(self, node, more=0):
        """Add leaves for extents, and `more` to come, that do not fit in the inode or the existing leaves."""
        extents = self.extents_of(node) + more
        while extents > max(4, 340 * len(node.leaves)) and self.available() + self.allocator.reserved > 0:
            block = self.take_leaf(node)
            self.lent += 1
            node.leaves.append(block)
            self.join(block)
            self.join(self.layout.groups[block // GROUP].block_bitmap)
            self.join(1 + block // GROUP // 64)

    def merge_leaf(self, node):
        """Move the extents of the only leaf into the inode, if they fit there."""
        if len(node.leaves) == 1 and self.extents_of(node) <= 4:
            self.free_leaves(node)

    def free_leaves(self, node):
        """Free the extent leaves of a file."""
        self.release(node.leaves)
        for block in node.leaves:
            self.join(self.layout.groups[block // GROUP].block_bitmap)
            self.join(1 + block // GROUP // 64)
            self.forget(block)
        node.leaves = []

    def free_pages(self, node, first, last):
        """Free the pages [first, last]."""
        last = min(last, node.end - 1)
        numbers = [number for number in sorted(node.pages) if first <= number <= last]
        run, freed = [], []
        for number in [*numbers, None]:
            block = node.pages[number].block if number is not None else None
            unwritten = number is not None and node.pages[number].unwritten
            follows = number is not None and run and (number, block) == (run[-1][0] + 1, run[-1][1] + 1)
            follows = follows and unwritten == node.pages[run[-1][0]].unwritten
            if run and not follows:
                self.change_blocks(node, run[0][0], [b for _, b in run])
                freed.append((run[0][1], len(run)))
                run = []
            if block is not None:
                run.append((number, block))
        for block, count in reversed(freed):  # the kernel frees the last extent first
            self.allocator.free_blocks(block, count)
        for number in numbers:
            del node.pages[number]
        if last == node.end - 1:
            node.end = min(node.end, first)

    # Journal

    def join(self, block):
        """Add a changed metadata block to the running transaction."""
        if block not in self.txn:
            if self.txn_joins == 0:
                self.txn_since = self.now
            self.txn.add(block)
            self.txn_joins += 1

    def forget(self, block):
        """Drop a freed metadata block from transaction and checkpoint, and revoke it."""
        self.txn.discard(block)
        self.held.discard(block)
        self.revokes += 1

    def checkpoint(self):
        """Write all logged blocks in place."""
        self.metadata += PAGE * len(self.held)
        self.fences += 2
        self.held, self.log_used = set(), 0

    def commit(self):
        """Write the running transaction to the log."""
        total = len(self.txn) + -(-len(self.txn) // 254) + -(-self.revokes // 510) + 1
        if self.log_used and self.log_used + total > self.journal:
            self.checkpoint()
        if not self.held:
            self.checkpoint_since = self.now
        self.held |= self.txn
        self.log += PAGE * total
        self.fences += 4
        self.log_used += total
        self.txn, self.txn_joins, self.revokes = set(), 0, 0
        self.allocator.commit()
        self.tid += 1
        self.commits += 1

    def full(self):
        """Return whether the running transaction is so large that it must be committed."""
        return self.txn_joins > max(self.journal // 4, 1)

    def inode_block(self, number):
        """Return the block of the inode table that holds an inode."""
        group, index = divmod(number - 1, self.group_inodes)
        return self.layout.groups[group].inode_table + index // 16

    def change_inode(self, node):
        """Change the inode-table block of a file."""
        self.join(self.inode_block(node.inode))
        node.tid = self.tid

    def change_inode_use(self, node):
        """Change the inode bitmap and the group descriptor of a file's inode."""
        group = (node.inode - 1) // self.group_inodes
        self.join(self.layout.groups[group].inode_bitmap)
        self.join(1 + group // 64)
