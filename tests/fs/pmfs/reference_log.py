"""Model the parts of the slow PMFS: free blocks, files, and the undo journal with its counts by mechanism."""

from collections import Counter

from tests.fs.drive import lines

TABLE = 6 << 20  # start of the inode table, the first 2 MiB after a journal of 4 MiB that starts at 4 KiB
DOTS = object()


class Blocks:
    """The free blocks of the device; `take` takes the lowest aligned run."""

    def __init__(self, first, count):
        self.free = set(range(first, count))

    def take(self, unit=1):
        start = min(self.free)
        while not all(start + k in self.free for k in range(unit)) or start % unit:
            start = (start // unit + 1) * unit
        self.free -= set(range(start, start + unit))
        return start

    def give(self, block, unit=1):
        self.free |= set(range(block, block + unit))


class File:
    def __init__(self, number, name, is_dir=False):
        self.number, self.name, self.is_dir = number, name, is_dir
        self.exists, self.links, self.opens, self.length = False, 0, 0, 0
        self.data, self.nodes, self.height = {}, {}, 0  # index -> block; (level, index) -> block
        self.parent, self.records = None, []  # of a directory: a list of [bytes, needs, owner] for each block

    def inode(self):
        return TABLE + 128 * self.number


class Journal:
    """The undo journal, and the counts of one operation, journal included (`stored`, `nt`, `flushes`, `fences`)."""

    uncleaned = 0

    def reset(self):
        self.stored, self.nt, self.flushes, self.fences = Counter(), Counter(), Counter(), Counter()

    def store(self, site, length):
        self.stored[site] += length

    def flush(self, site, addr, length):
        self.flushes[site] += lines(addr, length)

    def fence(self, site):
        self.fences[site] += 1

    def clear(self, site, length):
        self.stored[site] += length
        self.nt[site] += length

    def begin(self):
        if self.uncleaned > (4 << 20) // 64 // 8:
            self.uncleaned = 0
            self.store("log cleaner", 4)
            self.flushes["log cleaner"] += 1
            self.fence("log cleaner")
        self.entries, self.ranges, self.logged_slots = 0, [], set()
        self.store("journal", 4)
        self.flushes["journal"] += 1

    def log(self, addr, length):
        for at in range(addr, addr + length, 48):
            part = min(48, addr + length - at)
            self.store("journal", 16 + part + (8 if part >= 8 else 1) + (self.entries == 0))
            self.flushes["journal"] += 1
            self.entries += 1
            self.ranges.append((at, part))
        self.fence("journal")

    def commit(self):
        for addr, length in self.ranges:
            self.flush("journal", addr, length)
        self.store("journal", 17)
        self.flushes["journal"] += 1
        self.fences["journal"] += 2
        self.uncleaned += self.entries + 1
