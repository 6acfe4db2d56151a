"""Model SIMFS again in slow, simple code: its differences from SCMFS.  Source: as the kernels'."""

from tests.fs.contiguous.reference import Scmfs
from tests.fs.contiguous.reference_threads import PAGE, PIECE


class Simfs(Scmfs):
    """SIMFS: no ordering, pages cleared on free, upper tables per file; `flushed` counts full TLB flushes."""

    scans = 2

    def __init__(self, names, sizes, dirs, blocks, *, atomic=False):
        self.atomic = atomic
        super().__init__(names, sizes, dirs, blocks, spare=0, nulls=0)
        self.uppers = {}

    def reset(self):
        super().reset()
        self.flushed = 0

    def ordered(self, site, addr, length):
        self.stored[site] += length

    def took(self, count):
        self.loaded["free list"] += 8 * count
        self.stored["free list"] += 8 + 8 * count

    def gave(self, count):
        self.stored["block zeroing"] += PAGE * count
        self.stored["free list"] += 24 * count

    def counted(self, count):
        self.stored["inode"] += 8 * count

    def upper(self, f, piece):
        held = self.uppers.setdefault(f.number, {})
        for name in ("upper", piece // PIECE):
            if name not in held:
                held[name] = self.take()
                self.took(1)
                self.stored["page table"] += PAGE + 8

    def drop_upper(self, f):
        for block in self.uppers.pop(f.number, {}).values():
            self.free.add(block)
            self.gave(1)

    def visit(self, times=1):
        self.flushed += times

    def aside(self, f, offset, end):
        size = PAGE
        while offset // size != (end - 1) // size:
            size *= 512
        if not self.atomic or size > 1 << 30:
            return
        low = offset // size * size
        high = min(low + size, max(f.size, end))
        pages = -(-(high - low) // PAGE)
        self.stored["inode"] += 128
        self.stored["page table"] += 3 * PAGE + 24 + 8 * pages + 16
        self.stored["free list"] += 8 + 48 + 8 * pages + 24 * (pages + 3)
        self.loaded["shadow copy"] += high - low - (end - offset)
        self.stored["shadow copy"] += high - low - (end - offset)
        self.stored["block zeroing"] += PAGE * (pages + 3)
        self.flushed += 1

    def adopt(self, f, d):
        flushed = self.flushed
        super().adopt(f, d)
        self.flushed = flushed

    def do_fsync(self, *_):
        pass

    def do_close(self, f, *rest):
        self.flushed += f.opens == 1
        super().do_close(f, *rest)
