"""Model ctFS again in slow, simple code: its differences from SCMFS.  Source: as the kernels'."""

from tests.fs.contiguous.reference import FIRST_BLOCK, Scmfs
from tests.fs.contiguous.reference_threads import PAGE, PIECE
from tests.fs.drive import lines

STEP, FIRST_SUPER = 4096, 4096  # blocks: the zone of normal pages ends at 16 MiB


class Ctfs(Scmfs):
    """ctFS: no fences or clearing; files and directories are pieces of 2 MiB; `flushed` counts full TLB flushes."""

    scans = 2

    def __init__(self, names, sizes, dirs, blocks, *, atomic=False):
        self.atomic = atomic
        super().__init__(names, sizes, dirs, blocks, spare=0, nulls=0, boundary=FIRST_SUPER)
        assert FIRST_BLOCK < FIRST_SUPER

    def reset(self):
        super().reset()
        self.flushed = 0

    def put(self, site, length, *runs):
        """Count stores of `length` bytes, and write-backs of runs (address, bytes)."""
        self.stored[site] += length
        self.flushes[site] += sum(lines(addr, count) for addr, count in runs)

    def inode(self, length):
        """Count stores to an inode and its write-back: two lines, the last one twice."""
        self.put("inode", length, (0, 128), (127, 1))

    def resized(self):
        self.inode(8 + 16 + 16)

    def swap(self):
        """Count the stores of pswap's states."""
        self.put("page table", 25 + 1 + 1, (120, 64), (120, 64))

    # Space.

    def grow_range(self, f, pages):
        order = 21
        while pages * PAGE > 1 << order:
            order += 3
        if 1 << order <= f.range:
            return
        self.stored["free list"] += 2
        self.stored["inode"] += 17
        if f.range and f.end():
            old = f.range.bit_length() - 1
            entries = 1 << (old - 30 if old >= 30 else old - 21)
            self.swap()
            for _ in range(2):
                self.put("page table", 8 * entries, (0, 8 * entries))
            self.put("free list", 2)
            self.put("inode", 0, (0, 1))
            self.unmapped += f.end()
            self.flushed += 1
        f.range = 1 << order

    def map(self, f, first, last):
        for piece in range(len(f.supers), last // PIECE + 1):
            f.supers.append(self.super_free.pop())
            self.put("free list", 64, (0, 1))
            self.put("page table", 8, (8 * piece, 8))
        return []

    def cut(self, f, first):
        assert first == 0
        self.free |= set(f.tables.values())
        f.tables = {}
        self.super_free += f.supers[::-1]
        self.unmapped += PIECE * len(f.supers)
        f.supers = []

    # Data.

    def write(self, f, offset, length):
        self.look_at_inode()
        end, size = offset + length, f.size
        self.grow_range(f, (end - 1) // PAGE + 1)
        self.map(f, 0, (end - 1) // PAGE)
        if end > size:
            self.resized()
        f.size = max(size, end)
        self.stream(f, offset, end)
        if self.atomic and offset < size:
            self.swap_write(f, offset, end)

    def stream(self, f, offset, end):
        """Copy a write by runs that are contiguous on the device; only partly covered lines are written back."""
        at = offset
        while at < end:
            stop = at
            while stop < end and (stop == at or self.follows(f, stop)):
                stop = min(end, (stop // (PIECE * PAGE) + 1) * PIECE * PAGE)
            self.stored["data copy"] += stop - at
            low = min(-(-at // 64) * 64, stop)
            high = max(stop // 64 * 64, low)
            self.flushes["data copy"] += (at < low) + (high < stop)
            at = stop

    def follows(self, f, at):
        """Return whether the piece from byte `at` on follows the piece before on the device, in pages of one size."""
        k = at // (PIECE * PAGE)
        return f.supers[k] == f.supers[k - 1] + PIECE and (k in f.tables) == (k - 1 in f.tables)

    def swap_write(self, f, offset, end):
        first, stop = offset // PAGE, -(-end // PAGE)
        for counts in (self.loaded, self.stored):
            counts["shadow copy"] += offset % PAGE + min(stop * PAGE, f.size) - end
        self.stored["free list"] += 4
        self.stored["inode"] += 1
        self.swap()
        everything = False
        parts = {}
        for page in range(first, stop):
            parts.setdefault(page // PIECE, []).append(page)
        whole = [piece for piece, pages in parts.items() if len(pages) == PIECE]
        for piece in sorted(set(parts) - set(whole)):
            if piece not in f.tables:
                f.tables[piece] = self.take()
                self.put("page table", 2 * (PAGE + 8), (0, PAGE), (8 * piece, 8), (0, PAGE + 8))
                everything = True
            for _ in range(2):
                self.put("page table", 8 * len(parts[piece]), (0, PAGE))
        if whole:
            self.put("page table", 16 * len(whole), (8 * whole[0], 8 * len(whole)), (0, 8 * len(whole)))
        self.flushed += everything or bool(whole)

    # Names.

    def enter(self, f, d):
        self.loaded["directory scan"] += self.scans * d.size
        self.grow_range(d, d.size // PAGE + 1)
        self.map(d, 0, d.size // PAGE)
        self.put("directory", len(f.name) + 2 + 8, (0, 256), (255, 1), (0, 8))
        self.resized()
        self.inode(8 + 16)
        self.stored["inode"] += 32
        f.place, f.parent = d.size, d
        d.size, d.records = d.size + 256, d.records + 1

    def leave(self, f):
        d = f.parent
        if d is None:
            return
        at = max(min(f.place, d.size - 256), 0)
        self.loaded["directory scan"] += min(at + 256, d.size)
        self.stored["directory"] += 8
        self.stored["inode"] += 8
        d.records = max(d.records - 1, 0)
        d.size = max(d.size - 256, 0) if d.records else 0

    def lose_link(self, f):
        f.links -= 1

    def look(self, f):
        if f.parent is not None:
            self.loaded["directory scan"] += min(f.place + 256, f.parent.size)
            self.stored["inode"] += 16

    def maybe_evict(self, f):
        if not f.exists or f.links > 0 or (self.closes and f.opens > 0):
            return
        self.cut(f, 0)
        self.stored["inode"] += 8
        self.stored["free list"] += 2
        f.clear()
        self.before.pop(f.number, None)

    def adopt(self, f, d):
        flushed = self.flushed
        super().adopt(f, d)
        self.flushed = flushed

    def do_create(self, f, d, offset, length, target, was):
        if was:
            self.look(f)
            self.look_at_inode()
            self.stored["inode"] += 8
            f.opens += 1
            return
        f.exists, f.links, f.opens = True, 1, 1
        self.stored["inode"] += 8
        self.put("inode", 16, (0, 1))
        self.inode(128 + 8 + 48)
        self.enter(f, d)

    def do_open(self, f, *_):
        self.look(f)
        self.look_at_inode()
        self.stored["inode"] += 8
        f.opens += 1

    def do_stat(self, f, *_):
        self.look(f)
        self.look_at_inode()

    def do_fallocate(self, f, d, offset, length, *_):
        if not length:
            return
        self.look_at_inode()
        end = offset + length
        self.grow_range(f, (end - 1) // PAGE + 1)
        self.map(f, 0, (end - 1) // PAGE)
        if end > f.size:
            f.size = end
            self.resized()

    def do_truncate(self, f, d, size, *_):
        self.look_at_inode()
        f.size = size
        self.resized()

    def do_fsync(self, *_):
        pass

    def do_link(self, f, d, *_):
        self.enter(f, d)
        f.links += 1
