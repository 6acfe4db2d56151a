"""Implement the xfs model's reference: XFS with the page cache, with dicts and sets, on top of the reference of xfs-dax.

Written from the same description as scmsim/fs/xfs/{delayed,cached,cached_pages,writeback}.py, and shares no code with them.
"""

from tests.fs.xfs.reference import Slow
from tests.fs.xfs.reference_log import BLOCK, SECONDS

WINDOW = 4 << 20  # bytes that one mapping of a write covers
STEP = 4096  # pages of one step of write-back
FOREVER = 1 << 60


class Cached(Slow):
    """xfs; `apply` returns an operation's stored bytes by kind, flushed lines and fences."""

    logs_intents = False

    def __init__(self, files, capacity, expire=30 * SECONDS, **geometry):
        self.expire, self.flush_at, self.queue = expire, 5 * SECONDS, []
        super().__init__(files, capacity, **geometry)

    def node(self, file):
        """Return the file's node; one from before the trace has its length on the device."""
        is_new = file not in self.nodes
        node = super().node(file)
        if is_new:
            node.disk = node.size
        return node

    # Pages

    @staticmethod
    def is_hole(node, page):
        """Return whether a page has neither a block nor a reserved one."""
        return page not in node.pages and page not in node.delayed

    def make_dirty(self, node, page):
        """Make a page dirty; the file joins the queue with its first one."""
        if not node.dirty:
            node.since = self.now
            self.queue.append(node)
        node.dirty.add(page)

    def make_clean(self, node, pages):
        """Make pages clean; the file leaves the queue with its last one."""
        node.dirty -= set(pages)
        if not node.dirty:
            self.queue = [other for other in self.queue if other is not node]

    def reserve(self, node, at, end, size):
        """Reserve blocks for the hole at byte `at` of a write up to `end`, and past the end of the file."""
        first, stop = at // BLOCK, min(end, at + WINDOW)
        last, extra = -(-stop // BLOCK), 0
        later = [page for page in [*node.pages, *node.delayed] if page > first]
        if later:
            last = min(last, min(later))
        elif stop > size >= 65536:
            extra = (stop - 1) // 65536 * 16 + self.speculative(node, first, at) - last
        if last - first + extra > self.free_count():
            extra = 0
        node.delayed |= set(range(first, last + extra))
        self.space.reserved += last + extra - first
        node.end = max(node.end, last + extra)

    def speculative(self, node, first, at):
        """Return the pages that a write at the end of a file's extents preallocates."""
        page = first - 1
        if self.is_hole(node, page):
            return 16
        while page > 0:
            if page in node.delayed:
                joins = page - 1 in node.delayed
            else:
                joins = node.pages.get(page - 1, (None,))[0] == node.pages[page][0] - 1
            if not joins:
                break
            page -= 1
        want = 2 * (first - page)
        if want > 2097151:
            want = min(-(-at // BLOCK), 2097152)
        free, hundredth = self.free_count(), self.space.blocks // 100
        if free < 5 * hundredth:
            want >>= 2 + sum(free < low * hundredth for low in (4, 3, 2, 1))
        want = min(1 << (want.bit_length() - 1), 2097151) if want else 0
        while want and want >= free:
            want >>= 4
        return max(want, 16)

    def clear_bytes(self, node, at, end):
        """Clear bytes in pages with content or a reserved block; return whether there were any."""
        found = False
        for page in range(at // BLOCK, min(-(-end // BLOCK), node.end)):
            if page in node.delayed or (page in node.pages and not node.pages[page][1]):
                self.make_dirty(node, page)
                found = True
        return found

    # Calls

    def fitting(self, node, offset, length):
        """Return how many leading bytes of a write get blocks: each hole of at most 4 MiB gets all or none."""
        at, end, left = offset, offset + length, self.free_count()
        while at < end:
            page = at // BLOCK
            if self.is_hole(node, page):
                last = page
                while last + 1 < -(-min(end, at + WINDOW) // BLOCK) and self.is_hole(node, last + 1):
                    last += 1
                left -= last + 1 - page
                if left < 0:
                    done = max(page * BLOCK - offset, 0)
                    self.short_writes += done > 0
                    return done
                page = last
            at = (page + 1) * BLOCK
        return length

    def write(self, node, offset, length):
        """Write to cached pages."""
        length = self.fitting(node, offset, length)
        if not length:
            return False
        self.set_times(node)
        if offset > node.size:
            self.clear_bytes(node, node.size, offset)
        at, end = offset, offset + length
        while at < end:
            page = at // BLOCK
            if self.is_hole(node, page):
                self.reserve(node, at, end, max(node.size, at if at > offset else 0))
            self.make_dirty(node, page)
            at = (page + 1) * BLOCK
        node.size = max(node.size, end)
        return True

    def fsync(self, node, data_only=False):
        """Perform fsync or fdatasync."""
        self.store(node)
        super().fsync(node, data_only)

    def settle(self):
        """Do the background work since the last operation: write-back, then that of the log."""
        while self.now >= self.flush_at:
            if not self.queue:
                self.flush_at = self.now
            for node in [node for node in self.queue if node.since <= self.flush_at - self.expire]:
                self.store(node)
            self.flush_at += 5 * SECONDS
        super().settle()

    # Write-back

    def store(self, node, first=0, last=FOREVER):
        """Store a file's dirty pages of a range, in steps."""
        while True:
            page = min((page for page in node.dirty if first <= page <= last), default=None)
            if page is None:
                return
            left = min(len(node.dirty), STEP, last + 1 - page)
            while left > 0:
                page = min((other for other in node.dirty if page <= other <= last), default=None)
                if page is None:
                    break
                count = self.store_run(node, page, left, last)
                left, page = left - count, page + count

    def store_run(self, node, page, most, last):
        """Store a run of dirty pages with adjacent blocks of one state; return how many."""
        if page in node.delayed and not self.convert(node, page):
            self.make_clean(node, [page])
            return 1
        block, unwritten = node.pages[page]
        count = 1
        while count < most and page + count in node.dirty and page + count <= last:
            if node.pages.get(page + count) != (block + count, unwritten):
                break
            count += 1
        self.data += BLOCK * count
        self.make_clean(node, range(page, page + count))
        end = min(node.size, (page + count) * BLOCK)
        if unwritten:
            node.pages |= {page + i: (block + i, False) for i in range(count)}
            node.disk, node.data_tid = max(node.disk, end), self.sequence
            self.change_extents(node, page)
        elif end > node.disk:
            node.disk, node.data_tid = end, self.sequence
            self.change_inode(node)
        return count

    def convert(self, node, page):
        """Give unwritten blocks to the reserved pages around a page; return whether there were blocks."""
        first, end = page, page + 1
        while first - 1 in node.delayed:
            first -= 1
        while end in node.delayed:
            end += 1
        while first <= page:
            blocks = self.space.btalloc(self.goal_of_delayed(node, first, end - first), end - first, True)
            if not blocks:
                return False
            got = {first + i: (block, True) for i, block in enumerate(blocks)}
            node.pages |= got
            node.delayed -= set(got)
            self.space.reserved -= len(got)
            self.change_free_space(blocks[0])
            node.data_tid = self.sequence
            self.change_extents(node, first, blocks[0])
            first += len(got)
        return True

    def goal_of_delayed(self, node, first, want):
        """Return where the search for the blocks of reserved pages begins: after the extent before them."""
        before = max((page for page in [*node.pages, *node.delayed] if page < first), default=None)
        if before in node.pages:
            last, size, gap = node.pages[before][0], self.space.size, first - before - 1
            for block in ([last + 1 + gap] if gap <= 4 * want else []) + [last + 1]:
                if 0 <= last + 1 < self.space.blocks and (last + 1) // size == last // size:
                    if block < self.space.blocks and block // size == last // size:
                        return block
        return self.numbers.block(node.inode)

    # Blocks that go or come without a write

    def free_pages(self, node, first, last):
        """Free a range of pages."""
        last = min(last, node.end - 1)
        pages = range(first, last + 1)
        gone = node.delayed & set(pages)
        node.delayed -= gone
        self.space.reserved -= len(gone)
        if node.dirty:
            self.make_clean(node, pages)
        runs = self.free_extents(node, first, last)
        if last == node.end - 1:
            node.end = min(node.end, first)
        if runs:
            self.change_extents(node, first)
        else:
            self.change_inode(node)

    def store_to_size(self, node, old, cleared):
        """Store the pages between the length on the device and the file's, if the device may not know them."""
        if node.size > node.disk and (cleared or old != node.disk):
            self.store(node, node.disk // BLOCK, (node.size - 1) // BLOCK)

    def truncate(self, node, size):
        """Perform truncate."""
        old, end = node.size, -(-size // BLOCK)
        if size <= old:
            self.store(node, size // BLOCK, size // BLOCK)
            cleared = self.clear_bytes(node, size, end * BLOCK)
            node.truncated |= bool(old or node.end)
        else:
            cleared = self.clear_bytes(node, old, size)
        node.size = size
        if size <= old and (size < old or node.end > end):
            self.free_pages(node, end, FOREVER)
        self.store_to_size(node, old, cleared)
        node.disk, node.data_tid = size, self.sequence
        self.change_inode(node)

    def fallocate(self, node, offset, length, keep, punch):
        """Perform fallocate; return False if the device is full."""
        end = offset + length
        first, last = offset // BLOCK, (end - 1) // BLOCK
        if punch:
            self.store(node, first, last)
            self.free_pages(node, -(-offset // BLOCK), end // BLOCK - 1)
            stop = min(end, node.size)
            if offset < stop:
                self.clear_bytes(node, offset, stop)
                if stop == node.size and stop % BLOCK:
                    self.store(node, stop // BLOCK)
        else:
            if sum(self.is_hole(node, page) for page in range(first, last + 1)) > self.free_count():
                return False
            page, block, old = first, None, node.size
            while page <= last:
                if page in node.delayed:
                    self.convert(node, page)
                elif page not in node.pages:
                    stop = page
                    while stop <= last and self.is_hole(node, stop):
                        stop += 1
                    blocks = self.take(node, page, stop - page)
                    node.pages |= {page + i: (one, True) for i, one in enumerate(blocks)}
                    block = blocks[0]
                    node.end = max(node.end, page + len(blocks))
                    self.change_free_space(block)
                    page += len(blocks) - 1
                page += 1
            self.change_extents(node, last, block)
            node.kept = True
            if not keep and end > old:
                cleared = self.clear_bytes(node, old, end)
                node.size = end
                self.store_to_size(node, old, cleared)
                node.disk = end
        node.data_tid = self.sequence
        self.change_inode(node)
        return True

    def release(self, node):
        """Store a truncated file at its close, and free the blocks past its end."""
        if node.truncated:
            if node.delayed:
                self.store(node)
            node.truncated = node.closed_dirty = False
        end = -(-node.size // BLOCK)
        past = any(page >= end for page in node.pages)
        if not node.kept and not node.closed_dirty and (node.delayed or past):
            self.free_pages(node, end, FOREVER)
            node.closed_dirty = bool(node.delayed)

    def run(self, name, file, offset, length, flags, file2):
        """Dispatch an operation; return False if the device is full."""
        if name == "sync":
            for node in list(self.queue):
                self.store(node)
        if name == "close":
            node = self.node(file)
            if node.links > 0 and not node.is_dir:
                self.release(node)
        return super().run(name, file, offset, length, flags, file2)
