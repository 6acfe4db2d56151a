"""Implement VSM's reference: PMFS's reference with virtual superpages, and recovery from the transactional log.

`frame` has the entries of the page table that are not the identity: virtual 4 KiB page -> physical page.
Source: as the kernels', VSM paper III.
"""

from dataclasses import dataclass, field

from tests.fs.drive import lines
from tests.fs.pmfs.reference import Pmfs

PAGE, OPEN, COMMITTED, COMPLETE = 4096, 1, 2, 0


@dataclass
class Log:
    """A transactional log, with its entries in file order."""

    start: int = 0
    length: int = 0
    new_size: int = 0
    state: int = OPEN
    superpages: list = field(
        default_factory=list
    )  # (destination, source or None for a hole, pages or 0 for a whole superpage)
    pages: list = field(default_factory=list)  # (destination's frame, source's frame)


def recover(log, index, frame, size, shift):
    """Recover: finish a committed log, drop an open one; change `index` and `frame` and return the file's size.

    The log suffices for this: a whole superpage goes into the index, a part of one into the page table, page by page.
    """
    if log.state != COMMITTED:
        return size
    at, pages = log.start, iter(log.pages)
    for destination, source, count in log.superpages:
        i = at >> shift
        if count == 0:
            index[i] = destination
            at = (i + 1) << shift
            continue
        for k in range(count):
            fresh, old = next(pages)
            frame[source + (at % (1 << shift)) // PAGE] = fresh
            frame[destination + k] = old
            at = (at // PAGE + 1) * PAGE
    log.state = COMPLETE
    return log.new_size


class Vsm(Pmfs):
    """PMFS with virtual superpages of 2**`shift` bytes, initially mapped by entries of 2**`leaf` bytes."""

    CHUNK = 512

    def __init__(self, names, sizes, dirs, capacity, shift=21, dax=True, leaf=12):
        blocks = capacity // PAGE
        table, entries = 0, blocks
        for _ in range(4):
            entries = -(-entries // 512)
            table += entries
        log = max(1 << 20, 1 << shift - 5) + -(-(blocks >> 8) // PAGE) * PAGE
        super().__init__(names, sizes, dirs, capacity - table * PAGE - log, shift, False, dax)
        for f in self.files:
            f.kept, f.kept_at = 0, -1
        self.leaf, self.split, self.frame, self.log_written = leaf, set(), {}, None

    # After the end of a file.

    def wipe(self, low, high):
        if low < high:
            self.clear("block zeroing", high - low)

    def superpage_end(self, at):
        return (at // self.size + 1) * self.size

    def behind_end(self, f, new_size):
        if new_size > f.length and f.length // self.size in f.data:
            self.wipe(f.length, min(new_size, self.superpage_end(f.length)))

    def after_end(self, f, end, inside):
        held, page_end = -(-f.length // PAGE) * PAGE, -(-end // PAGE) * PAGE
        if inside:
            self.wipe(end, min(max(held, page_end), self.superpage_end(end - 1)))
        elif page_end > held:
            self.wipe(end, page_end)

    def gaps(self, f, offset, end, first_new, last_new):
        first, last = offset // self.size, (end - 1) // self.size
        if offset > f.length and not (f.length // self.size == first and first_new):
            self.behind_end(f, offset)
        if first_new:
            self.wipe(first * self.size, offset)
        self.after_end(f, end, last_new and last * self.size < f.length)

    # Zero-copy migration.

    def keep_tail(self, f):
        if f.is_dir or not f.length:
            return 0
        last = (f.length - 1) // self.size
        keep, held = (f.length - 1) // PAGE + 1 - last * self.unit, f.kept or self.unit
        if last not in f.data or keep >= held:
            return 0
        self.space.give(f.data[last] + keep, held - keep)
        f.kept, f.kept_at = keep, last
        return held - keep

    def grown(self, f, end, covered=False):
        """Prepare for an operation that extends the file to `end`: migrate its shortened last superpage."""
        if f.kept and end > f.kept_at * self.size + f.kept * PAGE and not covered:
            self.migrate(f)

    def migrate(self, f):
        self.relocate(f, self.space.take(self.unit))
        f.kept = 0

    def pack(self, f):
        """Move a closed file's tail to the lowest free run if it fits, lies before it and starts inside a superpage."""
        if f.kept >= 512:
            return
        start, count = self.take_run(f.kept)
        if count == f.kept and start < f.data[f.kept_at] and start % self.unit:
            self.relocate(f, start)
        else:
            self.space.give(start, count)

    def relocate(self, f, new):
        old = f.data[f.kept_at]
        groups, rest = divmod(f.kept, 512)
        if rest:
            self.take_apart(old + groups * 512, rest)
            self.take_apart(new + groups * 512, rest)
        self.write_log("zfdm", 1 + groups + rest)
        self.commit_log("zfdm")
        if groups:
            self.entries_at("zfdm swap", (old // 512) * 8, groups)
            self.entries_at("zfdm swap", (new // 512) * 8, groups)
        if rest:
            self.entries_at("zfdm swap", (old + groups * 512) * 8, rest)
            self.entries_at("zfdm swap", (new + groups * 512) * 8, rest)
        for k in range(f.kept):
            self.exchange(old + k, new + k)
        self.put("zfdm index", 8)
        self.put("zfdm flag", 8)
        self.fence("zfdm swap")
        self.put("zfdm complete", 8)
        self.fence("zfdm complete")
        f.data[f.kept_at] = new
        self.space.give(old, f.kept)

    # The page table.

    def exchange(self, a, b):
        self.frame[a], self.frame[b] = self.frame.get(b, b), self.frame.get(a, a)

    def put(self, site, length):
        """Store and write back bytes within one line."""
        self.store(site, length)
        self.flushes[site] += 1

    def entries_at(self, site, at, count):
        self.store(site, 8 * count)
        self.flush(site, at, 8 * count)

    def take_apart(self, block, count):
        if self.leaf == 12:
            return
        for group in range(block // 512, (block + count - 1) // 512 + 1):
            if group not in self.split:
                self.split.add(group)
                self.entries_at("page table", 0, 512)
                self.fence("page table")
                self.put("page table", 8)
                self.fence("page table")

    # Multi-grained copy-on-write.

    def write_log(self, kind, entries):
        self.store(f"{kind} log", 64 + 16 * entries)
        self.flush(f"{kind} log", 0, 64 + 16 * entries)
        self.fence(f"{kind} log")

    def commit_log(self, kind):
        self.put(f"{kind} commit", 8)
        self.fence(f"{kind} commit")

    def ready_index(self, f, first, last):
        leaves = range(first >> 9, (last >> 9) + 1)
        if last < 512**f.height and (f.height == 0 or all((1, i) in f.nodes for i in leaves)):
            return
        self.begin()
        self.log(f.inode(), 48)
        self.grow(f, last)
        new_nodes = set()
        for leaf in leaves:
            for level in range(f.height - 1, 0, -1):
                index = leaf >> 9 * (level - 1)
                if (level, index) not in f.nodes:
                    self.slots(
                        f, level + 1, index, min(last >> 9 * level, index | 511), (level + 1, index >> 9) in new_nodes
                    )
                    self.new_node(f, level, index)
                    self.store("index", 8)
                    new_nodes.add((level, index))
        self.commit()

    def take_run(self, want):
        start, count = self.space.take(), 1
        while count < want and start + count in self.space.free:
            self.space.free.remove(start + count)
            count += 1
        return start, count

    def overwrite(self, f, offset, end):
        """Perform steps 1 to 6 of an overwrite; leave the log in `log_written`."""
        self.ready_index(f, offset // self.size, (end - 1) // self.size)
        pieces, log = self.take_places(f, offset, end)
        self.log_written = log
        self.write_log("mcow", len(log.superpages) + len(log.pages))
        self.rest_of_pages(f, offset, end, pieces)
        for kind, low, high, _ in pieces:
            self.copy_to("mcow data", max(low, offset), min(high, end), kind)
        self.fence("mcow data")
        self.commit_log("mcow")
        log.state = COMMITTED
        self.swap_places(f, pieces)
        self.store("mcow swap", 16 if end > f.length else 8)
        self.flushes["mcow swap"] += 1
        self.fence("mcow swap")
        self.put("mcow complete", 8)
        self.fence("mcow complete")
        f.length = max(f.length, end)
        for kind, _, _, (block, fresh, count) in pieces:
            if kind == "fine":
                self.space.give(fresh, count)
            elif kind == "whole" and block is not None:
                self.give_superpage(f, fresh, block)

    def take_places(self, f, offset, end):
        """Return (kind, first byte, end, (old block, new block, pages)) of each piece, and the log."""
        log, pieces, at = Log(offset, end - offset, max(f.length, end)), [], offset // PAGE * PAGE
        valid = -(-f.length // PAGE) * PAGE
        while at < end:
            i, stop = at // self.size, self.superpage_end(at)
            if i not in f.data or (offset <= i * self.size and stop <= end):
                fresh = self.space.take(self.unit)
                pieces.append(("whole", at, stop, (f.data.get(i), i, 0)))
                log.superpages.append((fresh, f.data.get(i), 0))
                f.data[i] = fresh
            elif at < valid:
                stop = min(stop, -(-end // PAGE) * PAGE, valid, (at // (2 << 20) + 1) * (2 << 20))
                fresh, count = self.take_run((stop - at) // PAGE)
                block, stop = f.data[i] + at % self.size // PAGE, at + count * PAGE
                self.take_apart(block, count)
                self.take_apart(fresh, count)
                pieces.append(("fine", at, stop, (block, fresh, count)))
                log.superpages.append((fresh, f.data[i], count))
                log.pages += [
                    (self.frame.get(fresh + k, fresh + k), self.frame.get(block + k, block + k)) for k in range(count)
                ]
            else:
                pieces.append(("in place", at, stop, (None, None, 0)))
            at = stop
        return pieces, log

    def rest_of_pages(self, f, offset, end, pieces):
        first, last = pieces[0], pieces[-1]
        if offset % PAGE and first[0] == "fine":
            self.copy_within(offset // PAGE * PAGE, offset)
        if first[0] == "whole" and first[3][0] is None:
            self.wipe(offset // self.size * self.size, offset)
        if end % PAGE and last[0] == "fine":
            self.copy_within(end, -(-end // PAGE) * PAGE)
        if end % self.size and last[0] != "fine":
            self.after_end(f, end, last[0] == "whole" and last[3][0] is None)

    def copy_within(self, low, high):
        self.store("mcow copy", high - low)
        if self.dax:
            self.flush("mcow copy", low % PAGE, high - low)
        else:
            self.nt["mcow copy"] += high - low

    def copy_to(self, site, low, high, _):
        self.store(site, high - low)
        if self.dax:
            self.flush(site, low % PAGE, high - low)
        else:
            self.nt[site] += high - low
        last = max(low, (high - 1) // 4096 * 4096)  # the copy of the last page
        self.flushes[site] += (low % 8 != 0) + (high % 8 != 0 and last % 64 != high % 64)

    def swap_places(self, f, pieces):
        slots = []
        for kind, low, _, (block, fresh, count) in pieces:
            if kind == "fine":
                self.entries_at("mcow swap", 8 * block, count)
                self.entries_at("mcow swap", 8 * fresh, count)
                for k in range(count):
                    self.exchange(block + k, fresh + k)
            elif kind == "whole":
                slots.append(low // self.size)
        for leaf in {i >> 9 for i in slots}:
            part = [i for i in slots if i >> 9 == leaf]
            self.store("mcow index", 8 * len(part))
            self.flushes["mcow index"] += lines(8 * (part[0] % 512), 8 * len(part)) if f.height else 1

    # PMFS's operations.

    def give_superpage(self, f, i, block):
        pages = f.kept if f.kept and f.kept_at == i else self.unit
        if pages != self.unit:
            f.kept = 0
        self.space.give(block, pages)

    def free_leaf(self, f, indices):
        if f.is_dir:
            super().free_leaf(f, indices)
            return
        for i in indices:
            self.give_superpage(f, i, f.data.pop(i))

    def adopt(self, f, d):
        super().adopt(f, d)
        self.keep_tail(f)

    def write(self, f, offset, length):
        end, first, last = offset + length, offset // self.size, (offset + length - 1) // self.size
        covered = f.kept and offset <= f.kept_at * self.size and (f.kept_at + 1) * self.size <= end
        self.grown(f, end, covered)
        if offset < f.length and any(i in f.data for i in range(first, last + 1)):
            self.overwrite(f, offset, end)
            return
        first_new, last_new = first not in f.data, last not in f.data
        if first == last and not first_new:
            self.gaps(f, offset, end, False, False)
            super().write(f, offset, length)
            return
        self.begin()
        self.log(f.inode(), 48)
        self.store("inode", 8)
        self.allocate(f, first, last)
        self.gaps(f, offset, end, first_new, last_new)
        at = offset
        while at < end:
            stop = self.piece_end(f, at, end)
            self.copy(at, stop - at, at % PAGE)
            at = stop
        if end > f.length:
            self.store("inode", 8)
            f.length = end
        self.commit()

    def do_truncate(self, f, d, offset, *more):
        self.grown(f, offset)
        self.behind_end(f, offset)
        super().do_truncate(f, d, offset, *more)

    def do_fallocate(self, f, d, offset, length, *more):
        if length:
            self.grown(f, offset + length)
            self.behind_end(f, offset + length)
        super().do_fallocate(f, d, offset, length, *more)

    def do_close(self, f, *more):
        super().do_close(f, *more)
        if f.exists and f.opens <= 0 and self.keep_tail(f):
            self.put("zfdm flag", 8)
            self.fence("zfdm flag")
            self.pack(f)
