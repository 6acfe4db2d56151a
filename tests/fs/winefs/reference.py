"""Implement WineFS's reference: PMFS's reference with another allocator, another directory and another write.

Source: as the kernels', WineFS fs/winefs/{xip,balloc,inode,dir,journal}.c.
"""

from tests.fs.pmfs.reference import Pmfs
from tests.fs.pmfs.reference_log import Blocks

PAGE, EXTENT = 4096, 512


class Holes(Blocks):
    """The free blocks of the device, in one range per CPU; `cpu` is the current CPU."""

    def __init__(self, first, count, cpus):
        super().__init__(first, count)
        self.count, self.cpus, self.range, self.cpu = count, cpus, count // cpus // EXTENT * EXTENT, 0

    def of(self, cpu):
        """Return (blocks of holes, first blocks of aligned free extents) of a CPU's range."""
        stop = self.count if cpu == self.cpus - 1 else (cpu + 1) * self.range
        extents, holes = [], set()
        for start in range(cpu * self.range, stop, EXTENT):
            group = set(range(start, min(start + EXTENT, stop))) & self.free
            if len(group) == EXTENT:
                extents.append(start)
            else:
                holes |= group
        return holes, extents

    def pick(self, want):
        ranges = [self.of(cpu) for cpu in range(self.cpus)]
        free = [len(holes) + EXTENT * len(extents) for holes, extents in ranges]
        if free[self.cpu] >= want:
            return self.cpu
        candidates = [cpu for cpu in range(self.cpus) if want != EXTENT and len(ranges[cpu][0]) >= want]
        if candidates:
            return max(candidates, key=lambda cpu: len(ranges[cpu][0]))
        return max([self.cpu, *range(self.cpus)], key=lambda cpu: free[cpu])

    def take_run(self, want):
        holes, extents = self.of(self.pick(want))
        if not holes or (want == EXTENT and extents):
            start, count = extents[0], min(want, EXTENT)
        else:
            start, count = min(holes), 1
            while count < want and start + count in holes:
                count += 1
        self.free -= set(range(start, start + count))
        return start, count

    def take(self, unit=1):
        return self.take_run(1)[0]


class Wine(Pmfs):
    """WineFS, strict or relaxed."""

    CHUNK = EXTENT
    LOGGED, FIELDS = 96, 68

    def __init__(self, names, sizes, dirs, capacity, cpus, strict=True):
        self.strict = strict
        super().__init__(names, sizes, dirs, capacity, 12, False, False)
        first = (1 << 20) + cpus * (4 << 20)
        first = -(-first // (2 << 20)) * (2 << 20)
        self.table = first
        self.space = Holes((first + (2 << 20)) // PAGE, capacity // PAGE, cpus)
        self.journals = {}
        for f in self.files:
            f.aligned = f.was_read = False
            f.inode = lambda number=f.number: self.table + 128 * number

    def do(self, op, number, offset=0, length=0, other=-1, thread=0):
        self.journals[self.space.cpu] = self.uncleaned
        self.space.cpu = thread % self.space.cpus
        self.uncleaned = self.journals.get(self.space.cpu, 0)
        super().do(op, number, offset, length, other)
        if not self.files[number].exists:
            self.files[number].aligned = False
        if op == "rename" and other >= 0 and not self.files[other].exists:
            self.files[other].aligned = False

    def allocate(self, f, first, last, replace=False, zero=False):
        """Allocate blocks for [first, last] by runs; return the replaced blocks by index."""
        self.grow(f, last)
        old, new_nodes = {}, set()
        at = first
        while at <= last:
            stop = min(last, at | 511)
            for level in range(f.height - 1, 0, -1):
                index = at >> 9 * level
                if (level, index) not in f.nodes:
                    end = min(last >> 9 * level, index | 511)
                    self.slots(f, level + 1, index, end, (level + 1, index >> 9) in new_nodes)
                    self.new_node(f, level, index)
                    self.store("index", 8)
                    new_nodes.add((level, index))
            self.leaf(f, at, stop, (1, at >> 9) in new_nodes or self.fresh, replace, zero, old)
            at = stop + 1
        return old

    def leaf(self, f, first, stop, new, replace, zero, old):
        at, begun = first, False
        while at <= stop:
            want = 0
            while at + want <= stop and (replace or at + want not in f.data):
                want += 1
            if want == 0:
                at += 1
                continue
            if f.height and not begun:
                self.slots(f, 1, first if new else at, stop, new)
                begun = True
            if zero and want == EXTENT and not f.is_dir:
                f.aligned = True
            start, count = self.space.take_run(want)
            self.store("inode", 8)
            if any(at + k in f.data for k in range(count)):
                self.store("inode", 8)
            stored = 0
            for k in range(count):
                if at + k in f.data and not self.strict:
                    old[at + k] = start + k  # the existing block stays, the new one is freed
                    continue
                if at + k in f.data:
                    old[at + k] = f.data[at + k]
                f.data[at + k] = start + k
                stored += 8
            if f.height:
                self.store("index", stored)
            else:
                self.store("inode", 9)
            if zero:
                self.clear("block zeroing", PAGE * count)
            at += count

    def pieces(self, f, offset, end, site):
        at = offset
        while at < end:
            stop = self.piece_end(f, at, end)
            self.store(site, stop - at)
            self.nt[site] += stop - at
            self.flushes[site] += (at % 8 != 0) + (stop % 8 != 0 and at % 64 != stop % 64)
            at = stop

    def write(self, f, offset, length):
        end, first, last = offset + length, offset // PAGE, (offset + length - 1) // PAGE
        over, size = offset < f.length, f.length
        copied, f.was_read = self.strict and over, False
        doubled = f.aligned and copied
        if first == last and first in f.data and (doubled or not copied):
            super().write(f, offset, length)
            if self.strict:
                self.fence("inode")
            return
        replace = over and any(i in f.data for i in range(first, last + 1)) and (f.height > 0 or last > 0)
        self.begin()
        self.log(f.inode(), 48)
        self.store("inode", 8)
        had = {i for i in (first, last) if i in f.data}
        old = self.allocate(f, first, last, replace)
        head, tail = offset % PAGE + 8 - offset % 8, PAGE - end % PAGE + end % 8
        for partial, i, inside, amount in ((offset, first, over, head), (end, last, over and end < size, tail)):
            if partial % PAGE and i not in had:
                self.clear("block zeroing", amount)
            elif partial % PAGE and inside and self.strict:
                self.clear("cow copy", amount)
        self.pieces(f, offset, end, "data copy")
        if end > f.length:
            self.store("inode", 8)
            f.length = end
        self.commit()
        if doubled and replace:
            self.again(f, offset, end, old)
        for block in old.values():
            self.space.give(block)

    def again(self, f, offset, end, old):
        """Put the former blocks back and copy the data to them too; `old` then has the new blocks."""
        self.begin()
        first, last = offset // PAGE, (end - 1) // PAGE
        while first <= last:
            stop = min(last, first | 511)
            self.log(f.nodes[1, first >> 9] * PAGE + 8 * (first % 512), 8 * (stop - first + 1))
            for i in range(first, stop + 1):
                if i in old:
                    f.data[i], old[i] = old[i], f.data[i]
                    self.store("index", 8)
            first = stop + 1
        self.pieces(f, offset, end, "second copy")
        self.commit()

    def enter(self, f, d):
        """Add a name after the last record, or in a new block (pmfs_add_entry)."""
        needs = -(-(12 + len(f.name)) // 4) * 4
        self.log(d.inode(), 48)
        block, j = d.records[-1], len(d.records) - 1
        record = block[-1]
        # mkdir does not note the last record, so the first name goes to a second block; a mount notes the root's.
        noted = len(d.records) > 1 or d is self.files[-1]
        if noted and record[0] - record[1] >= needs:
            start = d.data[j] * 4096 + sum(r[0] for r in block[:-1])
            split = record[2] is not None
            self.log(start + (8 if split else 0), 2 if split else 8)
            self.store("directory", 12 + len(f.name) - (0 if split else 2))
            self.flush("directory", start + (record[1] if split else 0), needs)
            if split:
                block.append([record[0] - record[1], needs, f])
                record[0] = record[1]
            else:
                record[1:] = [needs, f]
        else:
            d.records.append([[4096, needs, f]])
            self.allocate(d, len(d.records) - 1, len(d.records) - 1)
            self.store("directory", 18 + len(f.name))
            self.flush("directory", 0, needs)
        self.store("inode", 8)
        f.parent = d

    def adopt(self, f, d):
        super().adopt(f, d)
        f.was_read = True

    def touch(self, f):
        """Set the access time at the first read after a change."""
        if not f.was_read:
            self.store("inode", 4)
            self.flushes["inode"] += 1
        f.was_read = True

    def do_read(self, f, *_):
        self.touch(f)

    def do_readdir(self, f, *_):
        self.touch(f)

    def leave(self, owner, d):
        """Remove a name: its record loses the inode number but stays in place (pmfs_remove_entry)."""
        for j, block in reversed(list(enumerate(d.records))):
            for k in range(len(block) - 1, -1, -1):
                if block[k][2] is owner:
                    self.log(d.data[j] * 4096 + sum(r[0] for r in block[:k]), 8)
                    self.store("directory", 8)
                    block[k][1:] = [0, None]
                    self.log(d.inode(), 48)
                    self.store("inode", 8)
                    return
        self.log(d.inode(), 48)
        self.store("inode", 8)
