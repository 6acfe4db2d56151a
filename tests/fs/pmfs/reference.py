"""Model PMFS again in slow, simple code that shares nothing with the kernels: trees as dicts, directories as lists.

Counts the stores (and non-temporal stores among them), write-backs and fences of each operation, by mechanism, not loads.
Source: as the kernels', fs/pmfs/{xip,journal,inode,dir,namei,file}.c.
"""

from tests.fs.pmfs.reference_log import DOTS, TABLE, Blocks, File
from tests.fs.pmfs.reference_tree import Trees


class Pmfs(Trees):
    """The file system; `stored`, `nt`, `flushes`, `fences` are the last operation's counts by mechanism."""

    CHUNK = 64  # pages of one copy
    LOGGED, FIELDS = 80, 58  # bytes of a new inode that are logged, and stored

    def __init__(self, names, sizes, dirs, capacity, shift=12, cow=False, dax=True):
        self.shift, self.unit, self.cow, self.dax = shift, 1 << shift - 12, cow, dax
        self.size = 1 << shift
        self.space = Blocks(1025, capacity // 4096)
        self.space.free -= set(range(TABLE // 4096, TABLE // 4096 + 512))
        self.files = [File(i, name, i in dirs) for i, name in enumerate(names)] + [File(len(names), "", True)]
        self.before = {i: size for i, size in enumerate(sizes) if size >= 0}
        self.closes = 0
        self.old_dirs = [i for i in dirs if sizes[i] >= 0]
        self.reset()

    # Data.

    def copy(self, offset, length, addr, pieces=True):
        self.store("data copy", length)
        if self.dax:
            self.flush("data copy", addr, length)
        else:
            self.nt["data copy"] += length
        end = offset + length
        last = max(offset, (end - 1) // 4096 * 4096)  # the copy of the last page
        self.flushes["data copy"] += (offset % 8 != 0) + (end % 8 != 0 and last % 64 != end % 64)

    def write(self, f, offset, length):
        end, first, last = offset + length, offset >> self.shift, (offset + length - 1) >> self.shift
        replace = self.cow and offset < f.length and any(i in f.data for i in range(first, last + 1))
        if first == last and first in f.data and not replace:
            self.copy(offset, length, offset % self.size)
            if end > f.length:
                self.fence("data copy")
            self.store("inode", 16 if end > f.length else 8)
            self.flushes["inode"] += 1
            f.length = max(end, f.length)
            return
        self.begin()
        self.log(f.inode(), 48)
        self.store("inode", 8)
        had = {i for i in (first, last) if i in f.data}
        old = self.allocate(f, first, last, replace)
        low, high = offset % self.size, end % self.size
        if low and (first not in had or replace):
            self.edge(first in old, first, 0, low)
        if high and (last not in had or replace):
            inside = (
                first == last and not self.dax and not replace
            )  # new_eblk is set only if the write crosses into the block
            if not inside:
                self.edge(last in old, last, high, self.size)
        at = offset
        while at < end:
            stop = self.piece_end(f, at, end)
            self.copy(at, stop - at, at % 4096)
            at = stop
        if end > f.length:
            self.store("inode", 8)
            f.length = end
        self.commit()
        for block in old.values():
            self.space.give(block, self.unit)

    def piece_end(self, f, at, end):
        """Return the end of the copy that begins at `at`: at most CHUNK pages in contiguous blocks."""
        limit, i = min(end, (at // 4096 + self.CHUNK) * 4096), at >> self.shift
        stop = i + 1
        while stop << self.shift < limit and f.data.get(stop) == f.data[i] + (stop - i) * self.unit:
            stop += 1
        return min(limit, stop << self.shift)

    def edge(self, copied, index, low, high):
        if copied:
            self.store("cow copy", high - low)
            if self.dax:
                self.flush("cow copy", low, high - low)
            else:
                self.nt["cow copy"] += high - low
        elif not self.dax:
            self.clear("block zeroing", self.size)
        elif low == 0:
            self.clear("block zeroing", -(-high // 8) * 8)
        else:
            self.clear("block zeroing", high - low // 8 * 8)

    def truncate(self, f, length):
        if length == f.length:
            return
        self.truncate_add()
        if length < f.length:
            if length % 4096 and length >> self.shift in f.data:
                self.store("block zeroing", 4096 - length % 4096)
                self.flush("block zeroing", length % 4096, 4096 - length % 4096)
            self.free(f, -(-length // self.size))
        f.length = length
        self.store("inode", 32)
        self.flushes["inode"] += 2
        self.fence("inode")
        self.truncate_del()

    def truncate_add(self):
        self.store("truncate list", 24)
        self.flushes["truncate list"] += 2
        self.fences["truncate list"] += 2

    def truncate_del(self):
        self.store("truncate list", 8)
        self.flushes["truncate list"] += 1
        self.fence("truncate list")

    # Names.

    def first_block(self, d):
        d.data or self.allocate(d, 0, 0)
        d.records = [[[16, 16, DOTS], [4080, 16, DOTS]]]

    def adopt(self, f, d):
        """Create a file from before the trace, without counts; the journal stays unchanged."""
        f.exists, f.links, f.length = True, 1, 0 if f.is_dir else self.before.pop(f.number, 0)
        counts = self.stored, self.nt, self.flushes, self.fences
        self.reset()
        self.entries, self.ranges, self.logged_slots = 0, [], set()
        d.records or self.first_block(d)
        if f.is_dir:
            f.records or self.first_block(f)
        self.enter(f, d)
        if f.length:
            self.logged_slots = set()
            self.allocate(f, 0, (f.length - 1) >> self.shift)
        self.stored, self.nt, self.flushes, self.fences = counts

    def ready(self, d):
        if not d.records:
            counts = self.stored, self.nt, self.flushes, self.fences
            self.reset()
            self.entries, self.ranges, self.logged_slots = 0, [], set()
            self.first_block(d)
            self.stored, self.nt, self.flushes, self.fences = counts

    def enter(self, f, d):
        """Add a name in the first gap that is large enough, or in a new block (pmfs_add_entry)."""
        needs = -(-(12 + len(f.name)) // 4) * 4
        self.log(d.inode(), 48)
        for j, block in enumerate(d.records):
            for k, record in enumerate(block):
                if record[0] - record[1] >= needs:
                    start = d.data[j] * 4096 + sum(r[0] for r in block[:k])
                    split = record[2] is not None
                    self.log(start + (8 if split else 0), 2 if split else 8)
                    self.store("directory", 12 + len(f.name) - (0 if split else 2))
                    self.flush("directory", start + (record[1] if split else 0), needs)
                    if split:
                        block.insert(k + 1, [record[0] - record[1], needs, f])
                        record[0] = record[1]
                    else:
                        record[1:] = [needs, f]
                    self.store("inode", 8)
                    f.parent = d
                    return
        d.records.append([[4096, needs, f]])
        self.allocate(d, len(d.records) - 1, len(d.records) - 1)
        self.store("directory", 18 + len(f.name))
        self.flush("directory", 0, needs)
        self.store("inode", 8)
        f.parent = d

    def leave(self, owner, d):
        """Remove a name: its record's bytes go to the record before (pmfs_remove_entry)."""
        for j, block in reversed(list(enumerate(d.records))):
            for k in range(len(block) - 1, -1, -1):
                if block[k][2] is owner:
                    if k == 0:
                        self.log(d.data[j] * 4096, 8)
                        self.store("directory", 8)
                        block[0][1:] = [0, None]
                    else:
                        self.log(d.data[j] * 4096 + sum(r[0] for r in block[: k - 1]) + 8, 2)
                        self.store("directory", 2)
                        block[k - 1][0] += block.pop(k)[0]
                    self.log(d.inode(), 48)
                    self.store("inode", 8)
                    return
        self.log(d.inode(), 48)
        self.store("inode", 8)

    def lose_link(self, f):
        f.links -= 1
        self.store("inode", 6)
        if f.links <= 0:
            self.truncate_add()

    def maybe_evict(self, f):
        if not f.exists or f.links > 0 or (self.closes and f.opens > 0):
            return
        self.free(f, 0)
        self.begin()
        self.log(f.inode(), 48)
        self.store("inode", 20)
        self.commit()
        self.truncate_del()
        f.exists, f.opens, f.length, f.records, f.parent = False, 0, 0, [], None

    def do(self, op, number, offset=0, length=0, other=-1):
        """Perform one operation."""
        self.reset()
        while self.old_dirs:
            self.adopt(self.files[self.old_dirs.pop(0)], self.files[-1])
        f = self.files[number]
        d = self.files[other if other >= 0 and op != "rename" and self.files[other].is_dir else -1]
        was = f.exists
        if not was and not (op in ("create", "mkdir") and number not in self.before):
            self.adopt(f, d)
            was = True
        getattr(self, f"do_{op}", lambda *_: None)(f, d, offset, length, other, was)

    def do_create(self, f, d, offset, length, other, was):
        if was:
            f.opens += 1
            return
        self.ready(d)
        f.exists, f.links, f.opens, f.is_dir = True, 1, 1, bool(f.records)
        self.begin()
        self.log(f.inode(), self.LOGGED)
        self.store("inode", self.FIELDS)
        self.enter(f, d)
        self.commit()

    def do_open(self, f, *_):
        f.opens += 1

    def do_write(self, f, d, offset, length, *_):
        if length:
            self.write(f, offset, length)

    def do_fallocate(self, f, d, offset, length, *_):
        if length:
            self.begin()
            self.log(f.inode(), 48)
            self.store("inode", 8)
            self.allocate(f, offset >> self.shift, (offset + length - 1) >> self.shift, zero=True)
            if offset + length > f.length:
                f.length = offset + length
                self.store("inode", 8)
            self.commit()

    def do_truncate(self, f, d, offset, *_):
        self.truncate(f, offset)

    def do_fsync(self, *_):
        self.fence("fsync")

    def do_close(self, f, *_):
        self.fence("fsync")
        self.closes += 1
        f.opens = max(f.opens - 1, 0)
        self.maybe_evict(f)

    def do_unlink(self, f, *_):
        self.begin()
        self.log(f.inode(), 48)
        self.leave(f, f.parent)
        self.lose_link(f)
        self.commit()
        self.maybe_evict(f)

    def do_link(self, f, d, *_):
        self.ready(d)
        self.begin()
        self.log(f.inode(), 48)
        self.enter(f, d)
        f.links += 1
        self.store("inode", 6)
        self.commit()

    def do_rename(self, f, d, offset, length, other, was):
        replaced = self.files[other] if other not in (-1, f.number) and self.files[other].exists else None
        if other != f.number:
            self.before.pop(other, None)
        d, old = f.parent, object()
        newest = next((r for b in reversed(d.records) for r in reversed(b) if r[2] is f), None)
        if newest:
            newest[2] = old
        self.begin()
        record = None
        if replaced and replaced.parent is d:
            places = [(j, k) for j, block in enumerate(d.records) for k, r in enumerate(block) if r[2] is replaced]
            record = max(places, default=None)
        if record:
            j, k = record
            self.log(d.data[j] * 4096 + sum(r[0] for r in d.records[j][:k]), 8)
            self.store("directory", 8)
            self.log(d.inode(), 48)
            self.store("inode", 8)
            d.records[j][k][2] = f
            self.log(replaced.inode(), 48)
        else:
            if replaced:
                self.log(replaced.inode(), 48)
                self.leave(replaced, replaced.parent)
            self.enter(f, d)
        if replaced:
            self.lose_link(replaced)
        self.log(f.inode(), 48)
        self.leave(old, d)
        self.commit()
        if other >= 0:
            self.maybe_evict(self.files[other])
