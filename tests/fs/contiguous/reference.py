"""Model SCMFS again in slow, simple code that shares nothing with the kernels: pages as dicts, free blocks as a set.

Counts the loads, stores, write-backs and fences of each operation, by mechanism, and the pages that it unmaps.
Valid for files of up to 16 MiB, whose page-directory entries share a cache line.
"""

from collections import Counter, deque

from tests.fs.contiguous.reference_threads import PAGE, PIECE, File, Threads
from tests.fs.drive import lines

FIRST_BLOCK = 1536  # first block after the tables


class Scmfs(Threads):
    """The file system; `loaded`, `stored`, `flushes`, `fences`, `unmapped` are the last operation's counts."""

    scans = 1  # scans of a directory that gets a name

    def __init__(self, names, sizes, dirs, blocks, *, spare=16, nulls=64, boundary=None, threshold=None, whole=True,
                 quiet=0, rate=1 << 30, tidy_above=1 << 40, tidy_every=0):  # fmt: skip
        boundary = boundary or blocks
        self.free = set(range(FIRST_BLOCK, boundary))
        self.super_free = list(range(boundary, blocks - PIECE + 1, PIECE))[::-1]
        self.files = [File(i, name, i in dirs) for i, name in enumerate(names)] + [File(len(names), "", True)]
        self.files[-1].exists = True
        self.before = {i: size for i, size in enumerate(sizes) if size >= 0}
        self.spare, self.null_limit, self.nulls = spare, nulls, []
        self.threshold, self.whole, self.quiet, self.rate = threshold, whole, quiet, rate
        self.tidy_above, self.tidy_every, self.tidied = tidy_above, tidy_every, 0
        self.queue, self.moving, self.moved_at, self.filling = deque(), None, 0, []
        self.closes = self.migrations = self.waited = self.lent = 0
        self.reset()

    def reset(self):
        self.loaded, self.stored, self.flushes, self.fences, self.unmapped = *(Counter() for _ in range(4)), 0

    def look_at_inode(self):
        self.loaded["inode"] += 64

    def ordered(self, site, addr, length):
        self.stored[site] += length
        self.flushes[site] += lines(addr, length)
        self.fences[site] += 2

    # Hooks for SIMFS's additional work.

    def took(self, count):
        pass

    def gave(self, count):
        pass

    def upper(self, f, piece):
        pass

    def drop_upper(self, f):
        pass

    def visit(self, times=1):
        pass

    def counted(self, count):
        pass

    def aside(self, f, offset, end):
        pass

    # Blocks and pages.

    def take(self):
        if not self.free:
            start = self.super_free.pop()
            self.free |= set(range(start, start + PIECE))
            self.lent += 1
        block = min(self.free)
        self.free.remove(block)
        return block

    def unused(self):
        return sum(len(f.spare) for f in [*self.files, *self.nulls])

    def grow_range(self, f, pages):
        size = max(1 << 21, 1 << (pages * PAGE - 1).bit_length())
        if size > f.range:
            if f.range and f.end():
                self.ordered("page table", 0, 8 * -(-f.end() // PIECE))
                self.ordered("inode", 0, 8)
                self.unmapped += f.end()
            f.range = size

    def map(self, f, first, last):
        """Map the missing pages of [first, last]; return the new pages."""
        new, page = [], first
        while page <= last:
            piece = page // PIECE
            if f.block(page) is not None:
                page += 1
                continue
            due = f.supers and self.whole and piece == len(f.supers) and piece not in f.tables
            if due and self.super_free:
                f.supers.append(self.super_free.pop())
                self.ordered("page table", 0, 8)
                new += range(piece * PIECE, (piece + 1) * PIECE)
                continue
            if piece not in f.tables:
                self.upper(f, piece)
                f.tables[piece] = self.take()
                self.took(1)
                self.ordered("page table", 0, 4096)
                self.ordered("page table", 0, 8)
            run = [page]
            f.pages[page] = self.take()
            stop = min(last, page | 511)
            while page + len(run) <= stop and f.block(page + len(run)) is None and f.pages[run[-1]] + 1 in self.free:
                f.pages[run[-1] + 1] = f.pages[run[-1]] + 1
                self.free.remove(f.pages[run[-1]] + 1)
                run.append(run[-1] + 1)
            self.took(len(run))
            self.counted(len(run))
            self.ordered("page table", 8 * (page % PIECE), 8 * len(run))
            new += run
            page += len(run)
        return new

    def entries_read(self, pages):
        return 8 * pages

    def unmap(self, f, first, stop):
        """Unmap [first, stop), piece by piece."""
        while first < stop:
            piece, end = first // PIECE, min(stop, (first | 511) + 1)
            gone = [page for page in range(first, end) if page in f.pages]
            for page in gone:
                self.free.add(f.pages.pop(page))
            self.gave(len(gone))
            if gone:
                self.loaded["page table"] += self.entries_read(end - first)
                self.ordered("page table", 8 * (first % PIECE), 8 * (end - first))
                self.unmapped += end - first
            if piece in f.tables and not any(page // PIECE == piece for page in f.pages):
                self.free.add(f.tables.pop(piece))
                self.gave(1)
                self.ordered("page table", 0, 8)
            first = end

    def drop_spare(self, f):
        spare, f.spare = f.spare, range(0)
        if spare:
            self.unmap(f, spare.start, spare.stop)
            f.reach = min(f.reach, spare.start)

    def cut(self, f, first):
        """Free a file's pages from `first` on."""
        self.drop_spare(f)
        kept = -(-first // PIECE)
        if len(f.supers) > kept:
            self.super_free += f.supers[kept:][::-1]
            self.ordered("page table", 0, 8 * (len(f.supers) - kept))
            self.unmapped += PIECE * (len(f.supers) - kept)
            del f.supers[kept:]
        end, low = f.end(), max(first, PIECE * len(f.supers))
        self.unmap(f, low, end)
        f.reach = min(end, low)

    # Data.

    def clear_bytes(self, f, low, high):
        for page in range(low // PAGE, -(-high // PAGE)):
            if f.block(page) is not None:
                self.stored["block zeroing"] += max(min(high, (page + 1) * PAGE) - max(low, page * PAGE), 0)

    def use_spare(self, f, last):
        f.spare = range(max(f.spare.start, min(last + 1, f.spare.stop)), f.spare.stop)

    def plenty(self, f, first, last):
        """Return whether the device has eight times the blocks of a write and its spare pages, so that it gets spare."""
        new = range(first, last + 1) if self.adopted else [p for p in range(first, last + 1) if f.block(p) is None]
        owed = self.adopted + len(new) + (last // PIECE - first // PIECE + 1) * (len(new) > 0)
        return self.free_before >= 8 * (self.spare + owed)

    def write(self, f, offset, length):
        self.look_at_inode()
        end, first, last = offset + length, offset // PAGE, (offset + length - 1) // PAGE
        self.use_spare(f, last)
        fresh_first, fresh_last = f.block(first) is None, f.block(last) is None
        self.grow_range(f, last + 1)
        wanted = last
        grows = last >= f.end() and f.size <= (last + 1) * PAGE
        if grows and not f.spare and not (f.supers and self.whole) and self.plenty(f, first, last):
            wanted = min(last | 511, last + self.spare)
        mapped = self.map(f, first, wanted)
        if wanted > last and wanted in mapped:
            f.spare = range(last + 1, wanted + 1)
        low = min(f.size, first * PAGE) if fresh_first else f.size
        self.clear_bytes(f, low, offset)
        if fresh_last and end < f.size:
            self.clear_bytes(f, end, min(f.size, (last + 1) * PAGE))
        self.aside(f, offset, end)
        self.stored["data copy"] += length
        self.ordered("inode", 16, 16 if end > f.size else 8)
        f.size, f.written = max(f.size, end), self.now
        self.enqueue(f)

    # Names.

    def enter(self, f, d):
        self.visit(2)
        self.loaded["directory scan"] += self.scans * d.size
        at = d.size
        if at % PAGE + f.record() > PAGE:
            at = (at // PAGE + 1) * PAGE
        self.grow_range(d, at // PAGE + 1)
        self.map(d, at // PAGE, at // PAGE)
        self.ordered("directory", at, f.record())
        self.ordered("inode", 16, 16)
        d.size, d.records = at + f.record(), d.records + 1
        f.place, f.parent = at, d

    def leave(self, f):
        d = f.parent
        if d is None:
            return
        self.visit()
        at = max(min(f.place, d.size - f.record()), 0)
        self.loaded["directory scan"] += min(at + f.record(), d.size)
        self.ordered("directory", at, 8)
        self.ordered("inode", 16, 16)
        d.records = max(d.records - 1, 0)
        d.size = max(d.size - f.record(), 0) if d.records else 0

    def lose_link(self, f):
        f.links -= 1
        self.ordered("inode", 4, 4)

    def maybe_evict(self, f):
        if not f.exists or f.links > 0 or (self.closes and f.opens > 0):
            return
        if len(self.nulls) < self.null_limit and f.range == 1 << 21 and not f.supers and not f.is_dir:
            self.drop_spare(f)
            count = 0
            while count < self.spare and count in f.pages:
                count += 1
            if count:
                self.unmap(f, count, f.end())
                null = File(-1, "")
                null.pages, null.tables, null.range, null.spare = f.pages, f.tables, f.range, range(count)
                self.nulls.append(null)
                f.pages, f.tables = {}, {}
        self.visit()
        self.cut(f, 0)
        self.drop_upper(f)
        self.ordered("inode", 0, 8)
        f.clear()
        self.before.pop(f.number, None)

    def adopt(self, f, d):
        counts = self.loaded, self.stored, self.flushes, self.fences, self.unmapped
        self.reset()
        f.exists, f.links = True, 1
        size = 0 if f.is_dir else self.before.get(f.number, 0)
        if f is not d:
            self.enter(f, d)
        pages = -(-size // PAGE)
        if pages:
            self.grow_range(f, pages)
            if self.threshold is not None and pages > self.threshold:
                count = min(pages // PIECE, len(self.super_free))
                f.supers = [self.super_free.pop() for _ in range(count)]
                if self.whole and 0 < pages - count * PIECE < PIECE and self.super_free:
                    f.supers.append(self.super_free.pop())
            self.map(f, 0, pages - 1)
        f.size = 0 if f.is_dir else size
        if f.is_dir:
            f.size, f.records = 0, 0
        self.loaded, self.stored, self.flushes, self.fences, self.unmapped = counts

    def do(self, now, op, number, offset=0, length=0, other=-1):
        """Perform one operation."""
        self.reset()
        self.now = now
        f = self.files[number]
        target = self.files[other] if other >= 0 else None
        named = target is not None and op != "rename" and target.size <= target.end() * PAGE  # no sparse file
        d = target if named else self.files[-1]
        self.background(op, f, target)
        was = f.exists
        self.adopted = 0  # blocks that the file may take for its content from before the trace
        if not was and not (op == "create" and number not in self.before):
            pages = -(-max(self.before.get(number, 0), 0) // PAGE)
            self.adopted = pages + pages // PIECE + 3
            self.adopt(f, d)
            was = True
        self.free_before = len(self.free)
        getattr(self, f"do_{op}", lambda *_: None)(f, d, offset, length, target, was)

    def do_create(self, f, d, offset, length, target, was):
        f.opens += 1
        if was:
            self.look_at_inode()
            return
        f.exists, f.links, f.opens = True, 1, 1
        if self.nulls:
            null = self.nulls.pop()
            f.pages, f.tables, f.range, f.spare = null.pages, null.tables, null.range, null.spare
        self.ordered("inode", 0, 128)
        self.enter(f, d)

    def do_open(self, f, *_):
        self.look_at_inode()
        f.opens += 1

    def do_stat(self, *_):
        self.look_at_inode()

    def do_read(self, f, d, offset, length, *_):
        self.look_at_inode()
        at, end = offset, min(offset + length, f.size)
        while at < end:
            stop = min((at // PAGE + 1) * PAGE, end)
            if f.block(at // PAGE) is not None:
                self.loaded["data copy"] += stop - at
            at = stop

    def do_write(self, f, d, offset, length, *_):
        if length:
            self.write(f, offset, length)

    def do_fallocate(self, f, d, offset, length, *_):
        if not length:
            return
        self.look_at_inode()
        before = f.spare
        last = (offset + length - 1) // PAGE
        self.use_spare(f, last)
        self.grow_range(f, last + 1)
        taken = range(before.start, before.stop - len(f.spare))
        self.clear_bytes(f, taken.start * PAGE, taken.stop * PAGE)
        for page in range(f.size // PAGE, -(-(offset + length) // PAGE)):
            if page not in taken:
                self.clear_bytes(f, max(f.size, page * PAGE), min(offset + length, (page + 1) * PAGE))
        for page in self.map(f, offset // PAGE, last):
            self.clear_bytes(f, page * PAGE, (page + 1) * PAGE)
        if offset + length > f.size:
            f.size = offset + length
            self.ordered("inode", 16, 16)
        self.enqueue(f)

    def do_truncate(self, f, d, size, *_):
        self.look_at_inode()
        if size > f.size:
            self.drop_spare(f)
            self.clear_bytes(f, f.size, size)
        elif size < f.size:
            self.cut(f, -(-size // PAGE))
        f.size = size
        self.ordered("inode", 16, 16)

    def do_fsync(self, *_):
        self.fences["fsync"] += 1

    def do_close(self, f, *_):
        self.closes += 1
        f.opens = max(f.opens - 1, 0)
        self.maybe_evict(f)

    def do_unlink(self, f, *_):
        self.leave(f)
        self.lose_link(f)
        self.maybe_evict(f)

    def do_link(self, f, d, *_):
        self.enter(f, d)
        f.links += 1
        self.ordered("inode", 4, 4)

    def do_rename(self, f, d, offset, length, replaced, was):
        if replaced is not None and replaced is not f and replaced.exists:
            self.leave(replaced)
            replaced.parent = None
            self.lose_link(replaced)
        elif replaced is not None and replaced is not f:
            self.before.pop(replaced.number, None)
        parent = f.parent or d
        self.leave(f)
        self.enter(f, parent)
        if replaced is not None:
            self.maybe_evict(replaced)
