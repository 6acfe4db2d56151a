"""Slow twin of the ext4 models: what each operation stores, flushes and fences, with plain dicts, sets and lists.

Written from the same description as scmsim/fs/parts/ext4_*.py and jbd2.py, and shares no code with them.
"""

from dataclasses import dataclass, field

PAGE = 4096
GROUP = 32768
CHUNK = 2048  # pages of a step of write-back, and the largest window
SECONDS = 10**9


@dataclass
class Page:
    """One page of a file: its block (None: not allocated yet), and its state."""

    block: int | None = None
    dirty: bool = False
    cached: bool = False
    unwritten: bool = False


@dataclass
class Node:
    """A file or directory."""

    inode: int
    size: int = 0
    is_dir: bool = False
    links: int = 1
    opens: int = 0
    parent: int = -1
    used: int = 0  # bytes of directory entries
    end: int = 0  # pages from here on were never mapped
    extents: int = 0
    tid: int = 0
    data_tid: int = 0
    stamp: int = -1
    since: int = 0
    pages: dict[int, Page] = field(default_factory=dict)
    window: list[int] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)

    def dirty(self):
        """Dirty pages in order."""
        return sorted(number for number, page in self.pages.items() if page.dirty)


class Slow:
    """ext4 or ext4-dax; `apply` returns what an operation stored by kind, and its flushed lines and fences."""

    def __init__(self, dax, files, capacity, journal, commit_interval=5 * SECONDS, dirty_expire=30 * SECONDS):
        self.dax, self.files = dax, files
        self.commit_interval, self.dirty_expire = commit_interval, dirty_expire
        self.blocks, self.journal = capacity // PAGE, journal // PAGE
        groups = -(-self.blocks // GROUP)
        inode_blocks = max(min(self.blocks, GROUP) // 64, 1)
        self.bitmaps = 1 + -(-groups // 64)
        self.inode_bitmaps = self.bitmaps + groups
        self.inode_tables = self.bitmaps + 2 * groups
        self.group_inodes = 16 * inode_blocks
        self.log_at = self.inode_tables + groups * inode_blocks
        first = self.log_at + self.journal
        self.free = bytearray([0] * first + [1] * (self.blocks - first))
        self.nodes, self.gone = {}, set()
        self.inodes_left, self.next_inode, self.most_inodes = [], 12, groups * self.group_inodes
        self.txn, self.txn_joins, self.txn_since, self.tid, self.revokes = set(), 0, 0, 1, 0
        self.held, self.held_since, self.log_used = set(), 0, 0
        self.queue = []  # dirty files, oldest first
        self.tick, self.now, self.closes, self.commits, self.failed = 5 * SECONDS, 0, 0, 0, 0
        for folder in (len(files), *(i for i in range(len(files)) if files.is_dir[i] and files.first_size[i] >= 0)):
            self.node(folder)

    # Blocks

    def free_count(self):
        """Free blocks, those in windows included."""
        return sum(self.free) + sum(len(node.window) for node in self.nodes.values())

    def available(self):
        """Blocks that may still be asked for."""
        promised = sum(page.block is None for node in self.nodes.values() for page in node.pages.values())
        return self.free_count() - promised

    def take(self, node, page, want):
        """Up to `want` blocks in a row for `page`."""
        if not node.window:
            length = want
            if sum(self.free) > self.blocks // 32 and not node.is_dir:
                window = 4
                while window < CHUNK and window < max(page + want, node.end):
                    window *= 2
                length = max(want, CHUNK if page >= window else window - page)
            if not any(self.free):
                for other in self.nodes.values():
                    self.close_window(other)
            start = self.free.index(1)
            stop = start
            while stop < self.blocks and self.free[stop] and stop - start < length:
                self.free[stop] = 0
                stop += 1
            node.window = list(range(start, stop))
        taken, node.window = node.window[:want], node.window[want:]
        return taken

    def close_window(self, node):
        """Give a window back."""
        for block in node.window:
            self.free[block] = 1
        node.window = []

    def allocate(self, node, page, want, **state):
        """Give up to `want` pages from `page` on their blocks; how many."""
        taken = self.take(node, page, want)
        before = node.pages.get(page - 1)
        if not (before and before.block is not None and before.block == taken[0] - 1):
            node.extents += 1
        for number, block in enumerate(taken, page):
            entry = node.pages.setdefault(number, Page())
            entry.block = block
            for name, value in state.items():
                setattr(entry, name, value)
        node.end = max(node.end, page + len(taken))
        return len(taken)

    def change_blocks(self, node, page, blocks):
        """Bitmaps, descriptors and the leaf over `page`."""
        for group in sorted({block // GROUP for block in blocks}):
            self.join(self.bitmaps + group)
            self.join(1 + group // 64)
        if node.leaves:
            self.join(node.leaves[min(page * len(node.leaves) // max(node.end, 1), len(node.leaves) - 1)])

    def grow_leaves(self, node):
        """Leaves for extents that do not fit the inode or the leaves there are."""
        while node.extents > 4 and node.extents > 340 * len(node.leaves) and self.available() > 0:
            block = self.take(node, node.end, 1)[0]
            node.leaves.append(block)
            self.join(block)
            self.join(self.bitmaps + block // GROUP)
            self.join(1 + block // GROUP // 64)

    def free_pages(self, node, file, first, last):
        """Free the pages [first, last]."""
        last = min(last, node.end - 1)
        numbers = [number for number in sorted(node.pages) if first <= number <= last]
        was_dirty = bool(node.dirty())
        run = []
        for number in [*numbers, None]:
            block = node.pages[number].block if number is not None else None
            follows = run and number == run[-1][0] + 1 and block == run[-1][1] + 1 if number is not None else False
            if run and not follows:
                self.change_blocks(node, run[0][0], [b for _, b in run])
                run = []
            if block is not None:
                run.append((number, block))
        for number in numbers:
            page = node.pages.pop(number)
            if page.block is not None:
                self.free[page.block] = 1
        if was_dirty and not node.dirty():
            self.queue.remove(file)
        if last == node.end - 1:
            node.end = min(node.end, first)

    # Journal

    def join(self, block):
        """A metadata block changes."""
        if block not in self.txn:
            if self.txn_joins == 0:
                self.txn_since = self.now
            self.txn.add(block)
            self.txn_joins += 1

    def forget(self, block):
        """A metadata block is freed."""
        self.txn.discard(block)
        self.held.discard(block)
        self.revokes += 1

    def checkpoint(self):
        """All logged blocks in place."""
        self.metadata += PAGE * len(self.held)
        self.fences += 2
        self.held, self.log_used = set(), 0

    def commit(self):
        """The running transaction to the log."""
        total = len(self.txn) + -(-len(self.txn) // 254) + -(-self.revokes // 510) + 1
        if self.log_used and self.log_used + total > self.journal:
            self.checkpoint()
        if not self.held:
            self.held_since = self.now
        self.held |= self.txn
        self.log += PAGE * total
        self.fences += 4
        self.log_used += total
        self.txn, self.txn_joins, self.revokes = set(), 0, 0
        self.tid += 1
        self.commits += 1

    def full(self):
        """Whether the running transaction is large enough to be closed."""
        return self.txn_joins > max(self.journal // 4, 1)

    def change_inode(self, node):
        """Inode-table block of a file."""
        self.join(self.inode_tables + (node.inode - 1) // 16)
        node.tid = self.tid

    def change_inode_use(self, node):
        """Inode bitmap and descriptor."""
        group = (node.inode - 1) // self.group_inodes
        self.join(self.inode_bitmaps + group)
        self.join(1 + group // 64)

    # Files

    def node(self, file, fresh=False):
        """The file, from before the trace if it is touched first now."""
        if file in self.nodes:
            return self.nodes[file]
        root = file == len(self.files)
        before = 0 if root or file in self.gone or fresh else max(int(self.files.first_size[file]), 0)
        if root:
            inode = 2
        elif self.inodes_left:
            inode = self.inodes_left.pop()
        else:
            inode, self.next_inode = self.next_inode, self.next_inode + 1
        node = self.nodes[file] = Node(inode, before, parent=len(self.files))
        node.is_dir = root or (bool(self.files.is_dir[file]) and file not in self.gone and not fresh)
        pages = 1 if node.is_dir else -(-before // PAGE)
        page = 0
        while page < pages and self.available() > 0:
            page += self.allocate(node, page, pages - page)
        self.close_window(node)
        return node

    def exists(self, file):
        """Whether there is such a file already."""
        return file in self.nodes or (file not in self.gone and self.files.first_size[file] >= 0)

    def entry_bytes(self, file):
        """Size of a directory entry."""
        length = len(self.files.path[file].rpartition("/")[2])
        return -(-(8 + length) // 4) * 4

    def blocks_for_entry(self, parent, file):
        """Blocks that a directory needs for one more entry."""
        used = parent.used + self.entry_bytes(file)
        if parent.end == 0:
            return 1 if used <= 4084 else 2
        if parent.end == 1:
            return 2 if used > 4084 else 0
        return int(used > 3072 * (parent.end - 1))

    def grow_directory(self, node, count):
        """More blocks for a directory."""
        for _ in range(count):
            page = node.end
            self.allocate(node, page, 1)
            self.change_blocks(node, page, [node.pages[page].block])
            self.join(node.pages[page].block)
            self.join(node.pages[0].block)

    def change_entry(self, parent, file):
        """Directory block of an entry, and the directory."""
        if parent.end == 1:
            self.join(parent.pages[0].block)
        elif parent.end > 1:
            self.join(parent.pages[1 + (file * 2654435761 >> 8) % (parent.end - 1)].block)
        self.change_inode(parent)

    def destroy(self, file):
        """The end of a file."""
        node = self.nodes[file]
        self.change_inode(node)
        self.join(0)
        self.change_inode_use(node)
        if node.is_dir:
            for page in node.pages.values():
                self.forget(page.block)
        self.free_pages(node, file, 0, node.end)
        self.free_leaves(node)
        self.close_window(node)
        self.inodes_left.append(node.inode)
        del self.nodes[file]
        self.gone.add(file)

    def free_leaves(self, node):
        """Extent leaves of a file without blocks."""
        for block in node.leaves:
            self.free[block] = 1
            self.join(self.bitmaps + block // GROUP)
            self.join(1 + block // GROUP // 64)
            self.forget(block)
        node.leaves, node.extents = [], 0

    def lose_link(self, file):
        """One name less."""
        node = self.nodes[file]
        node.links -= 1
        if node.links <= 0 and not (self.closes and node.opens > 0):
            self.destroy(file)
            return
        self.change_inode(node)
        if node.links <= 0:
            self.join(0)

    # Data

    def write_back(self, file):
        """All dirty pages of a file."""
        node = self.nodes[file]
        while node.dirty():
            if self.full():
                self.commit()
            self.flush_step(node)
            if not node.dirty():
                self.queue.remove(file)
            self.grow_leaves(node)

    def flush_step(self, node):
        """Up to CHUNK dirty pages, lowest first."""
        left, changed = node.dirty()[:CHUNK], False
        while left:
            first = node.pages[left[0]]
            run = [left[0]]
            for number in left[1:]:
                page, expected = node.pages[number], None
                if first.block is not None:
                    expected = first.block + len(run)
                if number != run[-1] + 1 or page.block != expected or page.unwritten != first.unwritten:
                    break
                run.append(number)
            if first.block is None:
                run = run[: self.allocate(node, run[0], len(run))]
                self.change_blocks(node, run[0], [node.pages[number].block for number in run])
                changed = True
            changed |= first.unwritten
            for number in run:
                node.pages[number].dirty = node.pages[number].unwritten = False
            self.data += PAGE * len(run)
            left = left[len(run) :]
        if changed:
            self.change_inode(node)
            node.data_tid = self.tid

    def write(self, file, node, offset, length):
        """write(), False if the device is full."""
        missing = sum(number not in node.pages for number in range(offset // PAGE, (offset + length - 1) // PAGE + 1))
        if missing > self.available():
            return False
        if node.stamp != self.tid:
            node.stamp = self.tid
            self.change_inode(node)
        at, end = offset, offset + length
        while at < end:
            stop = min(end, (at // PAGE + 4096) * PAGE)
            if self.dax:
                self.write_dax(node, at, stop)
            else:
                self.write_cached(file, node, at, stop)
            at = stop
            if at < end:
                self.grow_leaves(node)
        return True

    def write_dax(self, node, at, end):
        """One slice, at most 16 MiB."""
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
                    count = self.allocate(node, page, count)
                    self.change_blocks(node, page, [node.pages[page + i].block for i in range(count)])
                else:
                    node.extents += 1
                    for number in range(page, page + count):
                        node.pages[number].unwritten = False
                self.zeroing += PAGE * count
            stop = min(end, (page + count) * PAGE)
            self.copy(node.pages[page].block * PAGE + at % PAGE, stop - at)
            at = stop
        if grows:
            self.join(0)
        if changed:
            node.size = max(node.size, end)
            self.change_inode(node)
            node.data_tid = self.tid

    def follows(self, first, other, distance):
        """Whether a page, `distance` pages behind `first`, belongs to the same run."""
        if first is None or other is None:
            return first is other
        return other.block == first.block + distance and other.unwritten == first.unwritten

    def copy(self, target, length):
        """Stored bytes, fence and the lines that the copy routine writes back."""
        self.data += length
        self.fences += 1
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
        """One slice, at most 16 MiB."""
        if not node.dirty():
            node.since = self.now
            self.queue.append(file)
        for number in range(at // PAGE, (end - 1) // PAGE + 1):
            page = node.pages.setdefault(number, Page())
            page.cached = page.dirty = True
        node.end = max(node.end, (end - 1) // PAGE + 1)
        if end > node.size:
            node.size = end
            self.change_inode(node)
            node.data_tid = self.tid

    def fsync(self, file, node, data_only=False):
        """fsync or fdatasync."""
        if node.dirty():
            self.write_back(file)
        if (node.data_tid if data_only else node.tid) == self.tid and self.txn_joins:
            self.commit()
        else:
            self.fences += 2

    def clear(self, node, at, length):
        """Clear bytes inside one page."""
        page = node.pages.get(at // PAGE)
        if length > 0 and page and self.dax and not page.unwritten:
            target = page.block * PAGE + at % PAGE
            self.zeroing += length
            self.flushes += (target + length - 1) // 64 - target // 64 + 1

    def truncate(self, file, node, size):
        """truncate()."""
        if size < node.size:
            self.free_pages(node, file, -(-size // PAGE), node.end)
            self.close_window(node)
            self.clear(node, size, -size % PAGE)
            if node.end == 0:
                self.free_leaves(node)
        node.size = size
        self.join(0)
        self.change_inode(node)
        node.data_tid = self.tid

    def fallocate(self, file, node, offset, length, keep_size, punch):
        """fallocate(), False if the device is full."""
        end = offset + length
        if punch:
            if offset // PAGE == (end - 1) // PAGE:
                self.clear(node, offset, length % PAGE)
            else:
                self.clear(node, offset, -offset % PAGE)
                self.clear(node, end - end % PAGE, end % PAGE)
            self.free_pages(node, file, -(-offset // PAGE), end // PAGE - 1)
        else:
            numbers = range(offset // PAGE, (end - 1) // PAGE + 1)
            if sum(number not in node.pages for number in numbers) > self.available():
                return False
            at = numbers[0]
            while at <= numbers[-1]:
                count = 0
                while at + count <= numbers[-1] and at + count not in node.pages:
                    count += 1
                if count:
                    count = self.allocate(node, at, count, unwritten=True)
                    self.change_blocks(node, at, [node.pages[at + i].block for i in range(count)])
                at += max(count, 1)
            if not keep_size:
                node.size = max(node.size, end)
        self.change_inode(node)
        node.data_tid = self.tid
        return True

    # Names

    def create(self, file, parent, is_dir):
        """create, mkdir; False if there is no room."""
        need = self.blocks_for_entry(parent, file)
        no_inode = not self.inodes_left and self.next_inode > self.most_inodes
        if need + is_dir > self.available() or no_inode:
            return False
        self.grow_directory(parent, need)
        node = self.node(file, fresh=True)
        node.opens = 0 if is_dir else 1
        parent.used += self.entry_bytes(file)
        self.change_entry(parent, file)
        self.change_inode(node)
        self.change_inode_use(node)
        if is_dir:
            node.is_dir = True
            self.grow_directory(node, 1)
        return True

    def link(self, file, parent):
        """link; False if there is no room."""
        node = self.node(file)
        need = self.blocks_for_entry(parent, file)
        if need > self.available():
            return False
        self.grow_directory(parent, need)
        node.links += 1
        parent.used += self.entry_bytes(file)
        self.change_entry(parent, file)
        self.change_inode(node)
        return True

    # Operations

    def settle(self):
        """What happened since the last operation."""
        while self.now >= self.tick:
            if not self.queue and not self.held:
                self.tick = self.now
            limit = self.tick - self.dirty_expire
            while self.queue and self.nodes[self.queue[0]].since <= limit:
                self.write_back(self.queue[0])
            if self.held and self.held_since <= limit:
                self.checkpoint()
            self.tick += 5 * SECONDS
        if self.txn_joins and (self.now - self.txn_since >= self.commit_interval or self.full()):
            self.commit()

    def sync(self):
        """sync()."""
        while self.queue:
            self.write_back(self.queue[0])
        if self.txn_joins:
            self.commit()
        self.checkpoint()

    def apply(self, name, file, offset=0, length=0, flags=(), file2=-1, time_ns=0):
        """One operation; returns (data, metadata, log, zeroing, flushed lines, fences)."""
        self.data = self.metadata = self.log = self.zeroing = self.flushes = self.fences = 0
        self.now = time_ns
        self.settle()
        if not self.run(name, file, offset, length, flags, file2):
            self.failed += 1
        return self.data, self.metadata, self.log, self.zeroing, self.flushes, self.fences

    def run(self, name, file, offset, length, flags, file2):
        """Dispatch; False if the device is full."""
        if name == "sync":
            self.sync()
            return True
        if name in ("create", "mkdir", "unlink", "rmdir", "rename", "link"):
            return self.change_names(name, file, file2)
        node = self.node(file)
        if node.is_dir and name in ("write", "read", "truncate", "fallocate"):
            return True
        if name == "write":
            if length > 0 and not self.write(file, node, offset, length):
                return False
            if length > 0 and "synchronous" in flags:
                self.fsync(file, node)
            self.grow_leaves(node)
        elif name == "read":
            self.read(node, offset, length)
        elif name == "fsync":
            self.fsync(file, node, "data only" in flags)
        elif name == "truncate":
            self.truncate(file, node, offset)
        elif name == "fallocate":
            return self.fallocate(file, node, offset, length, "keep size" in flags, "punch" in flags)
        elif name == "open":
            node.opens += 1
        elif name == "close":
            self.close(file, node)
        return True

    def read(self, node, offset, length):
        """read(): only the page cache changes."""
        for number in range(offset // PAGE, -(-min(offset + length, node.size) // PAGE)):
            if number in node.pages:
                node.pages[number].cached = True

    def close(self, file, node):
        """close()."""
        self.closes += 1
        if node.links <= 0 and node.opens <= 1:
            self.destroy(file)
        else:
            node.opens -= 1
            self.close_window(node)

    def change_names(self, name, file, file2):
        """Namespace operations; False if there is no room."""
        parent = file2
        if name == "rename" or file2 < 0:
            parent = self.nodes[file].parent if file in self.nodes else len(self.files)
            if name == "create":
                parent = len(self.files)
        there = self.exists(file)
        if name == "create" and there:
            self.node(file).opens += 1
            return True
        folder = self.node(parent)
        if not folder.is_dir:
            if folder.size or folder.end:
                parent, folder = len(self.files), self.nodes[len(self.files)]
            folder.is_dir = True
        if name in ("create", "mkdir"):
            if there:
                self.node(file)
                return True
            done = self.create(file, folder, name == "mkdir")
            if done and file2 >= 0:
                self.nodes[file].parent = file2
            return done
        if name == "link":
            return self.link(file, folder)
        node = self.node(file)
        if name == "rename":
            self.change_entry(folder, file)
            self.change_inode(node)
            if file2 >= 0 and file2 != file:
                if file2 in self.nodes:
                    self.lose_link(file2)
                self.gone.add(file2)
        else:
            folder.used = max(folder.used - self.entry_bytes(file), 0)
            self.change_entry(folder, file)
            self.lose_link(file)
        return True
