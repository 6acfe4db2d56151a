"""Implement writes, write-back and fsync of ext4's reference, page by page.

Written from the same description as scmsim/fs/linux/transfer.py, and shares no code with it.
"""

from tests.fs.ext4.reference_disk import CHUNK, PAGE, Page
from tests.fs.ext4.reference_known import END, Known


class Data(Known):
    """The operations on the content of files."""

    def become_dirty(self, file, node):
        """Append a file to the queue of dirty files, unless it is there."""
        if not self.dax and file not in self.queue:
            node.since = self.now
            self.queue.append(file)

    def write_back(self, file):
        """Store all dirty pages of a file as the flusher thread does: the file leaves the queue."""
        self.store(self.nodes[file])
        self.queue.remove(file)

    def store(self, node, first=0, end=END):
        """Store the dirty pages of [first, end)."""
        while any(first <= number < end for number in node.dirty()):
            if self.full():
                self.commit()
            self.flush_step(node, first, end)

    def flush_step(self, node, first, end):
        """Store dirty pages of [first, end), lowest first, until CHUNK or more are stored."""
        left, changed, done = [number for number in node.dirty() if first <= number < end], False, 0
        while left and done < CHUNK:
            run = self.alike(node, left[:CHUNK])
            page = node.pages[run[0]]
            if page.block is None or page.unwritten:
                run = run[: self.looked_up(node, run[0], len(run))]
                self.learn_root(node)
                changed = True
            if page.block is None:
                run = run[: self.keep_promise(node, run[0], len(run))]
                self.learn(node, run[0], len(run))
            elif page.unwritten:
                self.convert(node, run)
            for number in run:
                node.pages[number].dirty = False
            self.data += PAGE * len(run)
            done += len(run)
            left = left[len(run) :]
        if changed:
            self.change_inode(node)
            node.data_tid = self.tid

    def alike(self, node, numbers):
        """Return the first of some pages and those that follow it with adjacent blocks, or without blocks."""
        first, run = node.pages[numbers[0]], numbers[:1]
        for number in numbers[1:]:
            page, expected = node.pages[number], None
            if first.block is not None:
                expected = first.block + len(run)
            state, before = (page.unwritten, page.promised), (first.unwritten, first.promised)
            if number != run[-1] + 1 or page.block != expected or state != before:
                break
            run.append(number)
        return run

    def convert(self, node, run):
        """Make unwritten pages written: their extent is split first, which may take a leaf."""
        near = [(run[0] - 1, run[0], -1), (run[-1] + 1, run[-1], 1)]
        self.grow_leaves(
            node, sum(self.follows(node.pages[at], node.pages.get(number), step) for number, at, step in near)
        )
        for number in run:
            node.pages[number].unwritten = node.pages[number].promised = False
        self.grow_leaves(node)
        self.merge_leaf(node)
        self.learn(node, run[0], len(run))

    def fitting(self, node, offset, length):
        """Return how many leading bytes of a write get blocks, page by page until no block is left."""
        left, end = self.available(), offset + length
        for number in range(offset // PAGE, (end - 1) // PAGE + 1):
            left -= number not in node.pages
            if left < 0:
                end = max(number * PAGE, offset)
                break
        self.short_writes += offset < end < offset + length
        return end - offset

    def write(self, file, node, offset, length):
        """Perform write, in part if not all of it fits; return False if the device is full."""
        asked, length = length, self.fitting(node, offset, length)
        if not length:
            return False
        self.uncut = (offset + asked - 1) // PAGE if length < asked else -1
        if node.stamp != self.file_time():
            node.stamp = self.file_time()
            self.change_inode(node)
        at, end = offset, offset + length
        while at < end:
            stop = min(end, (at // PAGE + 4096) * PAGE)
            if self.dax:
                self.write_dax(node, at, stop, max(self.uncut, (end - 1) // PAGE))
            else:
                self.write_cached(file, node, at, stop)
            at = stop
        if self.uncut >= 0:
            self.close_window(node)
        self.uncut = -1
        return True

    def write_dax(self, node, at, end, final):
        """Write one slice, at most 16 MiB, past the page cache; `final` is the last page of the call."""
        grows = end > node.size
        changed = grows
        while at < end:
            page = at // PAGE
            last = (end - 1) // PAGE
            first = node.pages.get(page)
            count = 1
            while page + count <= last and self.follows(first, node.pages.get(page + count), count):
                count += 1
            if first is None or first.unwritten:
                changed = True
                if first is None:
                    while final >= page + count and page + count not in node.pages:
                        count += 1
                    count = self.looked_up(node, page, count)
                    self.learn_root(node)
                    count = self.allocate(node, page, min(count, 4096))
                    self.learn(node, page, count)
                    self.change_blocks(node, page, [node.pages[page + i].block for i in range(count)])
                else:
                    count = self.looked_up(node, page, count)
                    self.learn_root(node)
                    own = range(page, page + count)
                    self.change_leaf(node, page)
                    zeroed = own if self.by_dax_io else self.zeroed_with(node, own)
                    extents, joins = self.extents_of(node), self.joins_written(node, own)
                    for number in zeroed:
                        node.pages[number].unwritten = False
                    self.learn(node, zeroed[0], len(zeroed))
                    self.zeroing += PAGE * (len(zeroed) - count)
                    self.grow_leaves(node)
                    if not joins or self.extents_of(node) < extents:  # else pages moved to the neighbour
                        self.merge_leaf(node)
                if not self.by_dax_io:
                    self.zeroing += PAGE * count
                else:
                    self.clear_edges(
                        node.pages[page].block * PAGE, at % PAGE, min(end, (page + count) * PAGE) - page * PAGE
                    )
            else:
                self.look_through(node, page, count)
            stop = min(end, (page + count) * PAGE)
            self.copy(node.pages[page].block * PAGE + at % PAGE, stop - at)
            self.fences += 1  # sfence at the end of the kernel's copy routine
            at = stop
        self.fences += self.by_dax_io  # sfence of dax_io itself
        if grows:
            self.join(0)
        if changed:
            node.size = max(node.size, end)
            self.change_inode(node)
            node.data_tid = self.tid

    def zeroed_with(self, node, own):
        """Return the pages that get content with `own`, of one unwritten extent (ext4_ext_convert_to_initialized)."""
        shift = node.pages[own[0]].block - own[0]

        def alike(number, unwritten):
            page = node.pages.get(number)
            return page is not None and page.block == number + shift and page.unwritten == unwritten

        low, high = own[0], own[-1]
        while alike(low - 1, True):
            low -= 1
        while alike(high + 1, True):
            high += 1
        joins = self.joins_written(node, own)
        inside = high < max(-(-node.size // PAGE), own[-1] + 1)
        if joins or high == own[-1] or not inside:
            return own
        last = high if high - own[0] < 8 else own[-1]
        return range(low if last - low < 7 else own[0], last + 1)

    def joins_written(self, node, own):
        """Return whether pages of an unwritten extent continue written blocks before or after them."""
        shift = node.pages[own[0]].block - own[0]
        near = [(number, node.pages.get(number)) for number in (own[0] - 1, own[-1] + 1)]
        return any(page is not None and page.block == number + shift and not page.unwritten for number, page in near)

    def clear_edges(self, target, head, stop):
        """Clear and write back the bytes before `head` and after `stop` in new blocks from `target` on (dax_io)."""
        for first, last in ((0, head), (stop, -(-stop // PAGE) * PAGE)):
            if last > first:
                self.zeroing += last - first
                self.flushes += (target + last - 1) // 64 - (target + first) // 64 + 1

    def follows(self, first, other, distance):
        """Return whether a page, `distance` pages after `first`, belongs to the same run."""
        if first is None or other is None:
            return first is other
        return other.block == first.block + distance and other.unwritten == first.unwritten

    def copy(self, target, length):
        """Count stored bytes and the lines that the copy routine writes back, which it stored through the cache."""
        self.data += length
        if self.by_dax_io:
            return  # Linux 4 does not write back lines that its copy routine leaves in the caches
        if length < 8:
            if length != 4 or target % 4:
                self.flushes += (target + length - 1) // 64 - target // 64 + 1
            return
        ahead = 0
        if target % 8:
            self.flushes += 1
            ahead = -target % 64
        if length > ahead and (length - ahead) % 8:
            self.flushes += 1

    def write_cached(self, file, node, at, end):
        """Write one slice, at most 16 MiB, to the page cache."""
        for number in range(at // PAGE, (end - 1) // PAGE + 1):
            self.become_dirty(file, node)
            if number not in node.pages or not node.pages[number].dirty:
                self.looked_up(node, number, 1)
            page = node.pages.setdefault(number, Page())
            page.cached = page.dirty = True
            if page.block is None:
                self.learn(node, number, 1)
            node.end = max(node.end, number + 1)
        self.grow(node, end)

    def grow(self, node, end):
        """Set the size of a file that was written up to `end`."""
        if end > node.size:
            node.size = end
            self.change_inode(node)
            node.data_tid = self.tid

    def fsync(self, file, node, data_only=False):
        """Perform fsync or fdatasync; of a directory, since Linux 5.10, a full commit or nothing."""
        self.store(node)
        if node.is_dir and not self.by_dax_io:
            if self.txn_joins:
                self.commit()
        elif (node.data_tid if data_only else node.tid) == self.tid and self.txn_joins:
            self.commit()
        else:
            self.fences += 2

    def clear(self, file, node, at, length):
        """Clear bytes inside one page; in the page cache a page that is on the device becomes dirty by that."""
        page = node.pages.get(at // PAGE)
        if length <= 0 or not page or page.unwritten or page.block is None:
            return
        if not self.dax:
            self.become_dirty(file, node)
            if not page.dirty:
                self.looked_up(node, at // PAGE, 1)
            page.cached = page.dirty = True
        else:
            target = page.block * PAGE + at % PAGE
            self.zeroing += length
            self.flushes += (target + length - 1) // 64 - target // 64 + 1

    def split_after(self, node, last):
        """Split an extent that goes on after the page `last`, before the pages up to there are freed."""
        page, following = node.pages.get(last), node.pages.get(last + 1)
        if page is not None and following is not None:
            if (page.block + 1, page.unwritten) == (following.block, following.unwritten):
                self.grow_leaves(node, 1)

    def look_at(self, node, number):
        """Look one page up, which a truncate or a punched hole clears in part."""
        self.looked_up(node, number, 1)

    def passed_over(self, node, at, last):
        """Return how many pages with blocks a fallocate passes over at once."""
        count, first = 1, node.pages[at]
        while at + count <= last and self.follows(first, node.pages.get(at + count), count):
            count += 1
        count = self.looked_up(node, at, count)
        if first.unwritten:
            self.learn_root(node)
            self.learn(node, at, count)
        return count

    def truncate(self, file, node, size):
        """Perform truncate."""
        if size <= node.size:
            if size % PAGE:
                self.look_at(node, size // PAGE)
            self.close_window(node)
            self.unlearn(node, -(-size // PAGE), END)
            self.free_pages(node, -(-size // PAGE), node.end)
            self.clear(file, node, size, -size % PAGE)
            if not self.extents_of(node):
                self.free_leaves(node)
        node.size = size
        node.emptied |= size == 0
        self.become_dirty(file, node)
        self.join(0)
        self.change_inode(node)
        node.data_tid = self.tid

    def blocks_asked(self, node, numbers):
        """Return how many blocks a fallocate needs: one for each hole, and one more if pages wait for blocks."""
        waits = any(number in node.pages and node.pages[number].block is None for number in numbers)
        return sum(number not in node.pages for number in numbers) + waits

    def lacks_the_same(self, node, at, number):
        """Return whether two pages, the first without a block, are both holes or both promised a block."""
        one, other = node.pages.get(at), node.pages.get(number)
        return (one is None) == (other is None) and (other is None or other.block is None)

    def fallocate(self, file, node, offset, length, keep_size, punch):
        """Perform fallocate; return False if the device is full."""
        end = offset + length
        if punch and not self.dax:
            self.store(node, offset // PAGE, (end - 1) // PAGE + 1)
        if punch:
            if end > node.size:
                end = node.size // PAGE * PAGE + PAGE
            if offset >= min(end, node.size):
                pass
            elif offset // PAGE == (end - 1) // PAGE:
                self.clear(file, node, offset, length % PAGE)
            else:
                self.clear(file, node, offset, -offset % PAGE)
                self.clear(file, node, end - end % PAGE, end % PAGE)
            if offset < min(end, node.size):
                for partial in sorted({at // PAGE for at in (offset, end) if at % PAGE}):
                    self.look_at(node, partial)
            if offset < min(end, node.size) and -(-offset // PAGE) < end // PAGE:
                self.close_window(node)
                self.unlearn(node, -(-offset // PAGE), end // PAGE)
                self.split_after(node, end // PAGE - 1)
                self.free_pages(node, -(-offset // PAGE), end // PAGE - 1)
                if not self.extents_of(node) and len(node.leaves) == 1:
                    self.free_leaves(node)
        else:
            numbers = range(offset // PAGE, (end - 1) // PAGE + 1)
            asked = numbers[-1]
            while len(numbers) and self.blocks_asked(node, numbers) > self.available():
                numbers = numbers[:-1]
            if not len(numbers):
                return False
            end, whole, at = min(end, (numbers[-1] + 1) * PAGE), numbers[-1] == asked, numbers[0]
            while at <= numbers[-1]:
                if at in node.pages and node.pages[at].block is not None:
                    at += self.passed_over(node, at, numbers[-1])
                    continue
                count = 0
                while at + count <= asked and self.lacks_the_same(node, at, at + count):
                    count += 1
                count = self.looked_up(node, at, count)
                self.learn_root(node)
                waited = at in node.pages
                count = self.allocate(node, at, count, unwritten=True)
                for number in range(at, at + count):
                    node.pages[number].promised = waited
                self.learn(node, at, count)
                self.change_blocks(node, at, [node.pages[at + i].block for i in range(count)])
                at += count
            if not keep_size:
                node.size = max(node.size, end)
        if not punch or offset < node.size:
            self.become_dirty(file, node)
        self.change_inode(node)
        node.data_tid = self.tid
        return punch or whole
