"""Implement blocks, log items and the log of XFS's reference, with lists, sets and dicts.

Written from the same description as scmsim/fs/xfs/log.py, and shares no code with it.
"""

from tests.reference.xfs_layout import Groups, Inodes, mkfs

BLOCK = 4096
SECONDS = 10**9


class Item:
    """A metadata block (its changed chunks of 128 bytes) or an inode (the bytes of its changed fork)."""

    def __init__(self, home, inode=False):
        self.home, self.inode = home, inode
        self.chunks, self.fork, self.stale = set(), 0, False
        self.fill = self.high = 0

    def bytes(self):
        """Return the item's bytes in a checkpoint."""
        if self.inode:
            return 56 + 176 + 24 + (12 + self.fork if self.fork else 0)
        if self.stale:
            return 36
        runs = sum(chunk - 1 not in self.chunks for chunk in self.chunks)
        return 36 + 12 * runs + 128 * len(self.chunks)


class Node:
    """A file or directory."""

    def __init__(self, inode, parent, is_dir=False, size=0):
        self.inode, self.parent, self.is_dir, self.size = inode, parent, is_dir, size
        self.links, self.opens, self.stamp, self.tid, self.data_tid = 1, 0, -1, 0, 0
        self.pages, self.end, self.leaves = {}, 0, []  # page -> (block, unwritten)
        # with the page cache: pages with a reserved block, dirty pages, when the first became dirty, length on the device
        self.delayed, self.dirty, self.since, self.disk = set(), set(), 0, 0
        self.truncated = self.closed_dirty = self.kept = False
        self.form, self.names, self.short, self.long, self.hint = "inode", 0, 0, 0, 0
        self.data, self.node, self.frees = {}, None, None  # of a directory: index -> item
        # names in a directory: their number, the places of the newest and of the one before
        self.known, self.at, self.before = 0, (0, 0), (0, 0)

    def extents(self):
        """Return the number of runs of pages with contiguous blocks of one state."""
        return sum(
            self.pages.get(page - 1) != (block - 1, unwritten) for page, (block, unwritten) in self.pages.items()
        )


class Log:
    """The device's blocks, the committed items, the log, and the logged items that are not yet in place."""

    logs_intents = True

    def __init__(
        self,
        capacity,
        log=None,
        groups=4,
        unit=4096,
        buffer=32768,
        interval=30 * SECONDS,
        clock_tick=SECONDS // 250,
        fork=336,
        leaf_by_inode=False,
    ):
        self.fork, self.leaf_by_inode = fork, leaf_by_inode
        blocks = capacity // BLOCK
        self.log_bytes = BLOCK * (log or max(min(max(blocks // 2048, 16384), 1 << 19, blocks // 8), 512))
        self.space = Groups(blocks, groups, mkfs(blocks, groups, self.log_bytes // BLOCK))
        self.numbers = Inodes(self.space)
        self.groups = [
            {kind: Item(g * self.space.size + home) for kind, home in zip(KINDS, (1, 4, 5, 2, 6, 7), strict=True)}
            for g in range(groups)
        ]
        self.inodes = {}
        self.clock_tick = clock_tick
        self.unit, self.buffer, self.interval, self.tick = unit, buffer, interval, interval
        self.limit = min(self.log_bytes // 8, 32 << 20)
        self.cil, self.extra, self.in_place = {}, 0, {}  # items by identity
        self.used, self.push, self.sequence, self.now = 0, False, 1, 0
        self.data = self.metadata = self.log = self.zeroing = self.flushes = self.fences = 0

    def free_count(self):
        """Return the number of free blocks that are not reserved."""
        return sum(self.space.free) - self.space.reserved

    def take(self, node, page, want):
        """Take up to `want` blocks for the hole at `page`."""
        return self.space.btalloc(self.goal(node, page, want), want, True)

    def goal(self, node, page, want):
        """Return where the search for blocks begins (xfs_bmap_adjacent)."""
        size = self.space.size

        def valid(block, of):
            return 0 <= block < self.space.blocks and block // size == of // size

        before = max((other for other in node.pages if other < page), default=None)
        after = min((other for other in node.pages if other > page), default=None)
        goal = self.numbers.block(node.inode)
        if after is None:
            if before is not None:
                last = node.pages[before][0]
                if valid(last + 1, last):
                    adjust = page - before - 1
                    goal = last + 1 + (adjust if valid(last + 1 + adjust, last) else 0)
            return goal
        length = min(want, after - page)
        left = None
        if before is not None and valid(node.pages[before][0] + 1, node.pages[before][0]):
            last = node.pages[before][0]
            left, left_diff = last + 1, page - before - 1
            if left_diff <= 4 * length and valid(left + left_diff, last):
                left += left_diff
            else:
                left_diff *= 2
        first, diff = node.pages[after][0], after - page
        right, right_diff = first, diff
        if diff <= 4 * length and valid(first - diff, first):
            right -= diff
        elif valid(first - length, first):
            right -= length
            right_diff += diff - length
        else:
            right_diff += diff
        return left if left is not None and left_diff <= right_diff else right

    def join(self, item):
        """Add a changed item to the committed items list."""
        self.cil[id(item)] = item

    def change(self, item, first, last):
        """Change bytes of a metadata block."""
        item.chunks |= set(range(first // 128, min(last, 4095) // 128 + 1))
        self.join(item)

    def change_inode(self, node, fork=None):
        """Change an inode, and its fork to `fork` bytes if given."""
        item = self.inodes[node.inode]
        if fork is not None:
            item.fork = fork
        self.join(item)
        node.tid = self.sequence

    def change_free_space(self, block):
        """Change the free-space metadata of a block's group."""
        group = self.groups[block // self.space.size]
        for kind in ("agf", "bno", "cnt"):
            self.change(group[kind], 0, 64)

    def change_inode_use(self, inode, first, last):
        """Change the inode metadata of an inode's group."""
        group = self.groups[self.numbers.group(inode // 64)]
        self.change(group["agi"], first, last)
        record = 56 + self.numbers.number_in_group(inode // 64) * 16 % 4032
        self.change(group["ino"], record, record + 15)
        self.change(group["fino"], 0, 64)

    def meta_block(self, goal):
        """Allocate a block for metadata near `goal`; return its item."""
        item = Item(self.space.btalloc(goal, 1, False)[0])
        self.change_free_space(item.home)
        return item

    def free_meta(self, item):
        """Free a metadata block."""
        self.space.give(item.home)
        self.change_free_space(item.home)
        self.extra += 88 if self.logs_intents else 0
        item.stale = True
        self.join(item)

    def checkpoint(self):
        """Write the committed items to the log."""
        left = 52 + self.extra + sum(item.bytes() for item in self.cil.values())
        room, writes = self.buffer - 512, []
        while left > 0:
            writes.append(min(left, room))
            left -= writes[-1]
            left += 12 if left > 0 else 0
        stored = sum(-(-(512 + write) // self.unit) * self.unit for write in writes)
        self.log += stored
        self.used += stored
        self.fences += 4 * len(writes)
        for key, item in self.cil.items():
            if item.stale:
                self.in_place.pop(key, None)
            else:
                self.in_place[key] = item
        self.dead = [item for item in self.cil.values() if item.stale]  # keeps identities apart
        self.cil, self.extra = {}, 0
        self.space.checkpoint()
        self.space.forced = False
        self.sequence += 1
        self.push |= self.used > self.log_bytes - self.log_bytes // 4

    def write_in_place(self):
        """Write all logged metadata in place."""
        clusters = {item.home // 32 for item in self.in_place.values() if item.inode}
        self.metadata += 16384 * len(clusters) + BLOCK * sum(not item.inode for item in self.in_place.values())
        for item in self.in_place.values():
            item.chunks.clear()
        for item in self.inodes.values():
            if item.home // 32 in clusters:
                item.fork = 0
        self.in_place, self.used, self.push = {}, 0, False

    def settle(self):
        """Do the background work since the last operation: checkpoint, write in place."""
        if self.now >= self.tick:
            self.push |= bool(self.cil or self.extra or self.in_place)
            self.tick = self.now // self.interval * self.interval + self.interval
        if (self.cil or self.extra) and (self.push or self.space.forced or self.size() >= self.limit):
            self.checkpoint()
        if self.push:
            self.write_in_place()

    def size(self):
        """Return the bytes of the next checkpoint."""
        return self.extra + sum(item.bytes() for item in self.cil.values())


KINDS = ("agf", "bno", "cnt", "agi", "ino", "fino")
