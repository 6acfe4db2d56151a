"""Implement WineFS's reference: PMFS's reference with another allocator, another directory and another write.

Source: as the kernels', WineFS fs/winefs/{xip,balloc,inode,dir,journal}.c.
"""

from tests.fs.pmfs.reference import Pmfs
from tests.fs.winefs.reference_holes import EXTENT, Holes

PAGE = 4096


class Wine(Pmfs):
    """WineFS, strict or relaxed."""

    CHUNK = EXTENT
    LOGGED, FIELDS = 96, 68

    def __init__(self, names, sizes, dirs, capacity, cpus, strict=True):
        self.strict = strict
        super().__init__(names, sizes, dirs, capacity, 12, False, False)
        first = 9 + cpus * 1024  # two super blocks of 8 KiB, heads of the inode tables, journals
        table = -(-first // EXTENT) * EXTENT
        self.table = table * PAGE
        small = table + EXTENT >= capacity // PAGE // cpus // EXTENT * EXTENT
        self.space = Holes(table + EXTENT if small else first, capacity // PAGE, cpus)
        for part in self.space.ranges[small:]:
            if part.extents:
                part.take(EXTENT)
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
            self.reach(f, at, last, new_nodes)
            self.leaf(f, at, stop, (1, at >> 9) in new_nodes or self.fresh, replace, zero, old)
            at = stop + 1
        return old

    def leaf(self, f, first, stop, new, replace, zero, old):
        at, begun = first, False
        while at <= stop:
            if at in f.data and not replace:
                at += 1
                continue
            want = stop + 1 - at
            if f.height and not begun:
                self.slots(f, 1, first if new else at, stop, new)
                begun = True
            if zero and want == EXTENT and not f.is_dir:
                f.aligned = True
            start, count = self.space.take_run(want)
            self.store("inode", 8)
            if replace and any(at + k in f.data for k in range(count)):
                self.store("inode", 8)
            stored = 0
            for k in range(count):
                there = at + k in f.data
                if there and replace:
                    # relaxed: the existing block stays, the new one is freed; without `replace` one of them is lost
                    old[at + k] = f.data[at + k] if self.strict else start + k
                if there and not self.strict:
                    continue
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
            old = self.again(f, offset, end, old)
        self.give_runs([old[i] for i in sorted(old)])

    def give_runs(self, blocks):
        """Free blocks in their order, by runs."""
        k = 0
        while k < len(blocks):
            n = 1
            while k + n < len(blocks) and blocks[k + n] == blocks[k] + n:
                n += 1
            self.space.give(blocks[k], n)
            k += n

    def free_leaf(self, f, indices):
        run = []
        for i in indices:
            if run and i != run[-1] + 1:
                self.give_runs([f.data.pop(j) for j in run])
                run = []
            run.append(i)
        self.give_runs([f.data.pop(j) for j in run])

    def again(self, f, offset, end, old):
        """Put the former blocks back and copy the data to them too; return the new blocks."""
        self.begin()
        first, last, fresh = offset // PAGE, (end - 1) // PAGE, {}
        former = [old[i] for i in sorted(old)]
        while first <= last:
            stop = min(last, first | 511)
            others = set(range(first & ~511, (first | 511) + 1)) & f.data.keys() - set(range(first, stop + 1))
            if not others and not old.keys() & set(range(first, stop + 1)):
                break  # the write made this leaf: the code does not list it, nor those after it
            self.log(f.nodes[1, first >> 9] * PAGE + 8 * (first % 512), 8 * (stop - first + 1))
            for i in range(first, stop + 1):
                fresh[i] = f.data.pop(i)
                if former:
                    f.data[i] = former.pop(0)
                self.store("index", 8)
            first = stop + 1
        hole = next((i for i in range(offset // PAGE, last + 1) if i not in f.data), None)
        if hole is not None:
            self.allocate(f, hole, last, zero=True)
        self.pieces(f, offset, end, "second copy")
        self.commit()
        return fresh

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
