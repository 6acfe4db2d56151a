"""Model the SCM manager, FAT and ext2 on SCM, and FAT on NAND again, in slow code that shares nothing with the kernels.

Counts each operation's stores to and loads from the device, and its fences, by mechanism.
Sources: as the kernels': SCM manager paper, sections 4.1 and 4.2; Linux 2.6.24 fs/fat, fs/ext2, drivers/mtd/nftlcore.c.
"""

from collections import Counter

from tests.fs.scm_manager.reference_nftl import Nftl
from tests.reference.buddy_slow import Buddies

MANAGER, FAT, EXT2 = "manager", "fat", "ext2"
MIB = 1 << 20


class File:
    """A file, directory or memory object: units by index -> device offset."""

    def __init__(self, number, name, is_dir):
        self.number, self.name, self.is_dir = number, name, is_dir
        self.clear()

    def clear(self):
        self.exists = self.memory = False
        self.length = self.links = self.opens = self.cursor = 0
        self.units, self.cached, self.dirty = {}, set(), set()
        self.leaves, self.leaf_cached, self.leaf_dirty, self.uppers = {}, set(), set(), {}
        self.slots, self.parent, self.slot, self.inode, self.short = {}, None, None, None, 0
        self.end = self.top = 0  # end of the units, and largest number of entries so far


class Scm:
    """The file system; `stored`, `loaded`, `fences` are the last operation's counts by mechanism."""

    def __init__(self, kind, names, sizes, dirs, capacity, sync=False, nand=False, first_objects=2):
        self.kind, self.sync, self.first = kind, sync, first_objects if kind == MANAGER else 0
        self.unit = 1024 if kind == EXT2 else 512
        self.entry = {MANAGER: 8, FAT: 32, EXT2: 16}[kind]
        self.files = [File(i, name, i in dirs) for i, name in enumerate(names)] + [File(len(names), "", True)]
        self.files[-1].exists = True
        self.before = {i: size for i, size in enumerate(sizes) if size >= 0}
        self.closes = 0
        self.table, self.inodes = set(), set()  # dirty units of the FAT or bitmaps, of the inode table
        self.table_seen = set()
        self.layout(capacity, nand)
        self.reset()

    def layout(self, capacity, nand):
        """Set the addresses of tables and units, and the free units."""
        boot, rows = 0 if nand else MIB, len(self.files) + 2
        if self.kind == MANAGER:
            self.table_at = boot
            origin = -(-(boot + -(-((capacity - boot) // 512 * 4) // 512) * 512) // (128 << 10)) * (128 << 10)
            self.space = Buddies(origin, (capacity - origin) >> 17 << 17)
            self.nftl = None
            return
        usable = capacity - (capacity // 16384 // 32 * 16384 if nand else 0)
        if self.kind == FAT:
            self.table_at = boot + 32 * 512
            self.mirror = -(-usable // 512 * 4 // 512) * 512
            self.origin = self.table_at + 2 * self.mirror
        else:
            groups = -(-capacity // (8 * 1024 * 1024))
            self.table_at, self.mirror = boot + 1024 + -(-32 * groups // 1024) * 1024, 0
            self.inodes_at = self.table_at + 2 * groups * 1024
            self.origin = self.inodes_at + -(-128 * rows // 1024) * 1024
        self.free = set(range((usable - self.origin) // self.unit))
        self.nftl = Nftl(capacity // 16384 // 32, self.origin) if nand else None

    def reset(self):
        self.stored, self.loaded, self.fences = Counter(), Counter(), Counter()

    # Allocation.

    def take(self):
        if self.kind == MANAGER:
            return self.space.take(512)
        unit = min(self.free)
        self.free.remove(unit)
        return self.origin + unit * self.unit

    def give(self, f, i):
        at = f.units.pop(i)
        f.dirty.discard(i)
        f.cached.discard(i)
        if self.kind == MANAGER:
            self.space.give(at, f.short if i == 0 and f.short else 512)
            f.short = 0 if i == 0 else f.short
        else:
            self.free.add((at - self.origin) // self.unit)

    def entry_unit(self, at):
        """Return the unit of the FAT or of the bitmaps with the entry of the unit at a device offset."""
        return (at - self.origin) // self.unit // (128 if self.kind == FAT else 8192)

    def fresh(self, f, i):
        """Allocate unit `i` of a file; return its device offset."""
        f.units[i] = self.take()
        f.cached.add(i)
        f.end = max(f.end, i + 1)
        return f.units[i]

    def nodes(self, f, first, last):
        if self.kind != EXT2 or last < 12:
            return
        for leaf in range(max(first - 12, 0) // 256, (last - 12) // 256 + 1):
            for where, i in ((f.leaves, leaf), (f.uppers, (leaf + 255) // 256)):
                if where is f.uppers and leaf == 0:
                    continue
                if i not in where:
                    where[i] = self.take()
                    self.noted(where[i], 0)
                    if where is f.leaves:
                        f.leaf_cached.add(i)
                if where is f.leaves:
                    f.leaf_dirty.add(i)

    def noted(self, at, i):
        """Note the changed entry of a new unit; if mounted synchronously, write it, and then the link to the unit."""
        unit = self.entry_unit(at)
        if self.silent:
            return
        if self.sync:
            self.table_seen.add(unit)
            for _ in range(1 if self.kind == EXT2 or i == 0 else 2):
                self.send_table(unit)
        else:
            self.mark_table(unit)

    def extend(self, f, first, stop):
        """Allocate all missing units of [first, stop), in pieces of at most 64."""
        i = first
        while i < stop:
            while i < stop and i in f.units:
                i += 1
            last = i
            while last < stop and last - i < (1 if self.sync else 64) and last not in f.units:
                last += 1
            if last > i:
                self.nodes(f, i, last - 1)
                places = [self.fresh(f, k) for k in range(i, last)]
                if self.kind == MANAGER:
                    runs = 1 + sum(b != a + 512 for a, b in zip(places, places[1:], strict=False))
                    self.store("allocation", 4 * (len(places) + runs - (i == 0)))
                else:
                    for k, at in enumerate(places, i):
                        self.noted(at, k)
            i = last

    # The cache.

    def store(self, site, length):
        if not self.silent:
            self.stored[site] += length

    def send(self, site, at):
        """Write one unit to the device."""
        if self.nftl:
            for sector in range(at // 512, (at + self.unit) // 512):
                moved = self.nftl.write(sector)
                self.stored["nftl fold"] += moved
                self.loaded["nftl fold"] += moved
        self.stored[site] += self.unit

    def send_table(self, unit):
        self.send("metadata write-back", self.table_at + unit * self.unit)
        if self.kind == FAT:
            self.send("metadata write-back", self.table_at + self.mirror + unit * self.unit)

    def mark(self, f, i):
        if self.kind != MANAGER and not self.silent:
            f.dirty.add(i)
            f.cached.add(i)

    def mark_table(self, unit):
        if not self.silent:
            self.table.add(unit)
            self.table_seen.add(unit)

    def touch_inode(self, f, length=16):
        if self.kind == MANAGER:
            self.store("inode", length)
        elif self.kind == FAT and f.slot is not None:
            self.mark(f.parent, f.slot * 32 // 512)
        elif self.kind == EXT2 and not self.silent:
            self.inodes.add(f.number // 8)

    def flush(self, f):
        """Write a file's dirty units, in contiguous runs; ext2 writes a run's first indirect block after the run."""
        left, most = sorted(f.dirty), 8 if self.nftl else 64
        f.dirty.clear()
        while left:
            run = [left.pop(0)]
            while (
                left and len(run) < most and left[0] == run[-1] + 1 and f.units[left[0]] == f.units[run[-1]] + self.unit
            ):
                run.append(left.pop(0))
            for i in run:
                self.send("metadata write-back" if f.is_dir else "write-back", f.units[i])
            leaf = (run[0] - 12) // 256
            if run[0] >= 12 and leaf in f.leaf_dirty:
                f.leaf_dirty.remove(leaf)
                self.send("metadata write-back", f.leaves[leaf])

    def flush_tables(self):
        left = sorted(self.table)
        while left:
            run = [left.pop(0)]
            while left and left[0] == run[-1] + 1 and len(run) < (8 if self.nftl else 64):
                run.append(left.pop(0))
            for copy in (0, self.mirror) if self.kind == FAT else (0,):
                for unit in run:
                    self.send("metadata write-back", self.table_at + copy + unit * self.unit)
        for unit in sorted(self.inodes):
            self.send("metadata write-back", self.inodes_at + unit * self.unit)
        self.table.clear()
        self.inodes.clear()

    def synchronize(self, f, parent):
        self.flush(f)
        if self.kind == FAT:  # the device from its first block on
            self.flush_tables()
        if parent:
            self.flush(parent)
        self.flush_tables()

    def fetch(self, f, i):
        if self.kind != MANAGER and i in f.units and i not in f.cached:
            self.loaded["read-in"] += self.unit
            f.cached.add(i)

    def walk(self, f, i):
        i = min(i, f.end - 1)
        if i < 0:
            return
        if self.kind == MANAGER:
            self.loaded["chain walk"] += 4 * (i - (f.cursor if f.cursor <= i else 0))
        elif self.kind == FAT:
            unit = self.entry_unit(f.units[i])
            if unit not in self.table_seen:
                self.table_seen.add(unit)
                self.loaded["read-in"] += 512
        elif i >= 12 and (i - 12) // 256 in f.leaves and (i - 12) // 256 not in f.leaf_cached:
            f.leaf_cached.add((i - 12) // 256)
            self.loaded["read-in"] += 1024
        f.cursor = i
