"""famfs again in slow, simple code: files as lists of units, the log as a count of entries.

Source: famfs src/famfs_{meta.h,alloc.c,lib.c}, fs/famfs/famfs_file.c; nothing is shared with the kernels.
"""

from collections import Counter
from dataclasses import dataclass, field

from tests.fs.names import Names

UNIT = 2 << 20
LINE = 64


@dataclass
class File:
    is_dir: bool = False
    size: int = 0
    units: list[int] = field(default_factory=list)
    links: int = 0
    opens: int = 0
    logged: bool = False


class Famfs(Names):
    """A device of `units` units; sums by mechanism of the last operation; strips take the buckets that `order` says."""

    File = File

    def __init__(self, sizes, dirs, units, *, log=8 << 20, grows=False):
        self.free = set(range(1 + log // UNIT, units))
        self.log, self.entries, self.grows = log, 0, grows
        self.beyond = self.unsupported = self.unlinked = self.lost = 0
        super().__init__(sizes, dirs)

    def reset(self):
        self.stored, self.nt, self.flushes, self.fences = Counter(), Counter(), Counter(), Counter()

    def adopt(self, number):
        size, is_dir = self.before[number]
        self.files[number] = file = File(is_dir, 0 if is_dir else max(size, 0), links=1)
        if file.size or is_dir:
            self.entries += 1
            file.logged = True
            self.take(file, file.size)

    # Space.

    def take(self, file, length):
        missing = -(-length // UNIT) - len(file.units)
        if missing > 0 and not file.units:
            first = next(u for u in sorted(self.free) if all(u + k in self.free for k in range(missing)))
            file.units = list(range(first, first + missing))
        elif missing > 0:
            file.units += sorted(self.free)[:missing]
        self.free -= set(file.units)

    def append(self, file):
        self.entries += not file.logged
        file.logged = True
        self.stored["log"] += 544 + 16
        self.flushes["log"] += self.log // LINE
        self.fences["log"] += 1

    # Data.

    def sized(self, file, length):
        """A call that makes or changes the length of a file; returns whether it is done."""
        if file.units and not self.grows:
            return False
        self.take(file, length)
        return True

    def do_write(self, number, offset, length, _):
        file = self.files[number]
        if length == 0:
            return
        end = offset + length
        before = (len(file.units), file.size)
        if not self.sized(file, end):
            self.beyond += end > file.size
            end = min(end, file.size)
        else:
            file.size = max(file.size, end)
            if (len(file.units), file.size) != before:
                self.append(file)
        at = offset
        while at < end:
            stop = at // UNIT + 1
            while stop < len(file.units) and file.units[stop] == file.units[stop - 1] + 1:
                stop += 1
            self.copy(file.units[at // UNIT] * UNIT + at % UNIT, min(end, stop * UNIT) - at)
            at = min(end, stop * UNIT)

    def copy(self, target, length):
        """One run of __copy_user_flushcache: words of 8 bytes go past the caches, edges are written back."""
        head = -target % 8 if length >= 8 else 0
        words = (length - head) // 8 * 8
        if length == 4 and target % 4 == 0:
            words = 4
        self.stored["copy"] += length
        self.nt["copy"] += words
        self.fences["copy"] += 1
        if length < 8:
            tail = length - words
            self.flushes["copy"] += ((target + tail - 1) // LINE - target // LINE + 1) if tail else 0
            return
        self.flushes["copy"] += head > 0
        ahead = -target % LINE if head else 0
        self.flushes["copy"] += length > ahead and (length - ahead) % 8 > 0

    def do_truncate(self, number, size, *_):
        file = self.files[number]
        if size == 0 and not file.units:
            return
        if not self.sized(file, size):
            self.unsupported += 1
            return
        self.cut(file, size)
        file.size = size
        self.append(file)

    def cut(self, file, size):
        kept = -(-size // UNIT)
        if size < file.size:
            self.free |= set(file.units[kept:])
            file.units = file.units[:kept]

    def do_fallocate(self, number, offset, length, _):
        file = self.files[number]
        if length == 0:
            return
        before = (len(file.units), file.size)
        if not self.sized(file, offset + length):
            self.unsupported += 1
            return
        file.size = max(file.size, offset + length)
        if (len(file.units), file.size) != before:
            self.append(file)

    # Names.

    def released(self, file):
        if not file.logged:
            return
        if self.grows:
            self.append(file)
            self.entries -= 1
            self.free |= set(file.units)
        else:
            self.unlinked += 1
            self.lost += len(file.units)

    def do_read(self, *_):
        pass
