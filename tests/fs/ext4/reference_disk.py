"""Implement the disk of ext4's reference: blocks, windows, extent leaves and the journal, with plain sets and lists.

Written from the same description as scmsim/fs/linux/blocks.py and jbd2.py, and shares no code with them.
"""

from dataclasses import dataclass, field

PAGE = 4096
GROUP = 32768
CHUNK = 2048  # pages per step of write-back, and blocks of the largest window
SECONDS = 10**9


@dataclass
class Page:
    """One page of a file: its block (None: not allocated yet), and its state."""

    block: int | None = None
    dirty: bool = False
    cached: bool = False
    unwritten: bool = False


@dataclass
class Node:
    """A file or directory."""

    inode: int
    size: int = 0
    is_dir: bool = False
    links: int = 1
    opens: int = 0
    parent: int = -1
    used: int = 0  # bytes of directory entries
    end: int = 0  # first page after all pages that were ever mapped
    extents: int = 0
    tid: int = 0
    data_tid: int = 0
    stamp: int = -1
    read_stamp: int = 0
    since: int = 0
    pages: dict[int, Page] = field(default_factory=dict)
    window: list[int] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)

    def dirty(self):
        """Return the numbers of the dirty pages in order."""
        return sorted(number for number, page in self.pages.items() if page.dirty)


class Disk:
    """The blocks and the journal."""

    def __init__(self, dax, files, capacity, journal, commit_interval, dirty_expire, clock_tick):
        self.dax, self.files = dax, files
        self.commit_interval, self.dirty_expire, self.clock_tick = commit_interval, dirty_expire, clock_tick
        self.blocks, self.journal = capacity // PAGE, journal // PAGE
        groups = -(-self.blocks // GROUP)
        inode_blocks = max(min(self.blocks, GROUP) // 64, 1)
        self.bitmaps = 1 + -(-groups // 64)
        self.inode_bitmaps = self.bitmaps + groups
        self.inode_tables = self.bitmaps + 2 * groups
        self.group_inodes = 16 * inode_blocks
        self.log_at = self.inode_tables + groups * inode_blocks
        first = self.log_at + self.journal
        self.free = bytearray([0] * first + [1] * (self.blocks - first))
        self.nodes, self.gone = {}, set()
        self.inodes_left, self.next_inode, self.most_inodes = [], 12, groups * self.group_inodes
        self.txn, self.txn_joins, self.txn_since, self.tid, self.revokes = set(), 0, 0, 1, 0
        self.held, self.checkpoint_since, self.log_used = set(), 0, 0
        self.queue = []  # dirty files, oldest first
        self.tick, self.now, self.closes, self.commits, self.failed, self.short_writes = 5 * SECONDS, 0, 0, 0, 0, 0

    def file_time(self):
        """Return the time that a file's times are set to: the clock's last tick, or without ticks the transaction."""
        return self.now - self.now % self.clock_tick if self.clock_tick else self.tid

    # Blocks

    def free_count(self):
        """Return the number of free blocks, including those in windows."""
        return sum(self.free) + sum(len(node.window) for node in self.nodes.values())

    def available(self):
        """Return how many blocks can still be reserved."""
        promised = sum(page.block is None for node in self.nodes.values() for page in node.pages.values())
        return self.free_count() - promised

    def take(self, node, page, want):
        """Take up to `want` contiguous blocks for `page`, from the file's window if it has one."""
        if not node.window:
            length = want
            if sum(self.free) > self.blocks // 32 and not node.is_dir:
                window = 4
                while window < CHUNK and window < max(page + want, node.end):
                    window *= 2
                length = max(want, CHUNK if page >= window else window - page)
            if not any(self.free):
                for other in self.nodes.values():
                    self.close_window(other)
            start = self.free.index(1)
            stop = start
            while stop < self.blocks and self.free[stop] and stop - start < length:
                self.free[stop] = 0
                stop += 1
            node.window = list(range(start, stop))
        taken, node.window = node.window[:want], node.window[want:]
        return taken

    def close_window(self, node):
        """Free the blocks of a file's window."""
        for block in node.window:
            self.free[block] = 1
        node.window = []

    def allocate(self, node, page, want, **state):
        """Allocate contiguous blocks for up to `want` pages from `page` on; return for how many."""
        taken = self.take(node, page, want)
        before = node.pages.get(page - 1)
        if not (before and before.block is not None and before.block == taken[0] - 1):
            node.extents += 1
        for number, block in enumerate(taken, page):
            entry = node.pages.setdefault(number, Page())
            entry.block = block
            for name, value in state.items():
                setattr(entry, name, value)
        node.end = max(node.end, page + len(taken))
        return len(taken)

    def change_blocks(self, node, page, blocks):
        """Change the bitmaps and descriptors of blocks, and the leaf over `page`."""
        for group in sorted({block // GROUP for block in blocks}):
            self.join(self.bitmaps + group)
            self.join(1 + group // 64)
        self.change_leaf(node, page)

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

    def grow_leaves(self, node):
        """Add leaves for extents that do not fit in the inode or the existing leaves."""
        while node.extents > 4 and node.extents > 340 * len(node.leaves) and self.available() > 0:
            block = self.take(node, node.end, 1)[0]
            node.leaves.append(block)
            self.join(block)
            self.join(self.bitmaps + block // GROUP)
            self.join(1 + block // GROUP // 64)

    def free_leaves(self, node):
        """Free the extent leaves of a file without blocks."""
        for block in node.leaves:
            self.free[block] = 1
            self.join(self.bitmaps + block // GROUP)
            self.join(1 + block // GROUP // 64)
            self.forget(block)
        node.leaves, node.extents = [], 0

    def free_pages(self, node, file, first, last):
        """Free the pages [first, last]."""
        last = min(last, node.end - 1)
        numbers = [number for number in sorted(node.pages) if first <= number <= last]
        was_dirty = bool(node.dirty())
        run = []
        for number in [*numbers, None]:
            block = node.pages[number].block if number is not None else None
            follows = run and number == run[-1][0] + 1 and block == run[-1][1] + 1 if number is not None else False
            if run and not follows:
                self.change_blocks(node, run[0][0], [b for _, b in run])
                run = []
            if block is not None:
                run.append((number, block))
        for number in numbers:
            page = node.pages.pop(number)
            if page.block is not None:
                self.free[page.block] = 1
        if was_dirty and not node.dirty():
            self.queue.remove(file)
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
        self.tid += 1
        self.commits += 1

    def full(self):
        """Return whether the running transaction is so large that it must be committed."""
        return self.txn_joins > max(self.journal // 4, 1)

    def change_inode(self, node):
        """Change the inode-table block of a file."""
        self.join(self.inode_tables + (node.inode - 1) // 16)
        node.tid = self.tid

    def change_inode_use(self, node):
        """Change the inode bitmap and the group descriptor of a file's inode."""
        group = (node.inode - 1) // self.group_inodes
        self.join(self.inode_bitmaps + group)
        self.join(1 + group // 64)
