"""Implement the splitfs model's reference: the reference of ext4-dax below a library in plain Python.

Written from the same description as scmsim/fs/splitfs/*.py, and shares no code with them.
"""

from tests.fs.ext4.reference import Slow
from tests.fs.ext4.reference_disk import PAGE
from tests.fs.splitfs.reference_mappings import Library

MINE = ("write", "read", "fsync")
CHANGES = ("create", "mkdir", "unlink", "rmdir", "rename", "link")


class Split(Slow):
    """SplitFS in a mode; `apply` as in the reference of ext4."""

    def __init__(self, files, capacity, journal, mode, staging=16 << 20, log=128 << 20, piece=2 << 20):
        super().__init__(True, files, capacity, journal)
        self.library = Library(self, piece)
        self.mode, self.filled = mode, staging
        small = capacity // PAGE * PAGE // 32
        taken = 2 * min(log, small) // PAGE + min(16 << 20, small) // PAGE
        self.allocator.claim(taken)
        self.staged, self.to_copy, self.relinks = {}, {}, 0  # by node identity: pages [first, end); bytes to copy

    def remembers(self, node):
        """Return that no look-up is remembered: the library changes files past them."""
        return False

    def destroy(self, file):
        """Destroy a file and forget its staged pages."""
        node = self.nodes[file]
        self.staged.pop(id(node), None)
        self.to_copy.pop(id(node), None)
        super().destroy(file)

    def entry(self):
        """Append an entry to the operation log."""
        self.log += 64
        self.fences += 1

    def stage(self, node, page, count):
        """Add pages to those that wait for a relink."""
        first, end = self.staged.get(id(node), (page, page))
        self.staged[id(node)] = (min(first, page), max(end, page + count))

    def pieces(self, node, at, end):
        """Return (page, count) of the run of pages at a byte."""
        page, last = at // PAGE, (end - 1) // PAGE
        count, first = 1, node.pages.get(page)
        while page + count <= last and self.follows(first, node.pages.get(page + count), count):
            count += 1
        return page, count

    def put(self, file, node, offset, length):
        """Write by the library, in part if not all of it fits; return False if the device is full."""
        length = self.fitting(node, offset, length)
        if not length:
            return False
        at, end, size = offset, offset + length, node.size
        while at < end:
            page, count = self.pieces(node, at, end)
            old, aside, library = node.pages.get(page), False, self.library
            if old is None:
                count = self.allocate(node, page, count)
                self.stage(node, page, count)
                used = min(self.filled, PAGE * count)
                self.filled -= used
                self.zeroing += PAGE * count - used
                library.append(file, range(page, page + count), PAGE * count - used)
            elif old.unwritten:
                library.map(file, range(page, page + count))
                zeroed = self.zeroed_with(node, range(page, page + count))
                for number in zeroed:
                    node.pages[number].unwritten = False
                self.zeroing += PAGE * len(zeroed)
                self.merge_leaf(node)
                self.change_leaf(node, page)
            else:
                first, last = self.staged.get(id(node), (0, 0))
                aside = (at >= size or self.mode == "strict") and not (first <= page and page + count <= last)
                if not aside:
                    library.map(file, range(page, page + count))
            stop = min(end, (page + count) * PAGE)
            self.copy(at % PAGE, stop - at)
            if aside:
                whole = sum(number * PAGE >= at and (number + 1) * PAGE <= stop for number in range(page, page + count))
                self.stage(node, page, count)
                self.to_copy[id(node)] = self.to_copy.get(id(node), 0) + stop - at - PAGE * whole
            else:
                library.access(file, at, stop, store=True)
            at = stop
        self.fences += offset < size
        if end > size or self.mode == "strict":
            self.entry()
        node.size = max(size, end)
        self.grow_leaves(node)
        return True

    def get(self, file, node, offset, length):
        """Read by the library."""
        end = min(offset + length, node.size)
        if offset < end:
            self.library.map(file, range(offset // PAGE, (end - 1) // PAGE + 1))
            self.library.access(file, offset, end, store=False)

    def relink(self, node):
        """Move the staged pages into the file."""
        if id(node) not in self.staged:
            return
        page, end = self.staged.pop(id(node))
        end = min(end, node.end)
        while page < end:
            page, count = self.pieces(node, page * PAGE, end * PAGE)
            if page in node.pages:
                self.change_blocks(node, page, [node.pages[page + i].block for i in range(count)])
            page += count
        copied = self.to_copy.pop(id(node), 0)
        self.data += copied
        self.fences += -(-copied // PAGE)
        self.join(self.inode_block(2))
        self.change_inode(node)
        node.data_tid = self.tid
        self.relinks += 1
        self.grow_leaves(node)

    def run(self, name, file, offset, length, flags, file2):
        """Dispatch an operation; return False if the device is full."""
        if name in MINE and not self.node(file).is_dir:
            node = self.node(file)
            if name == "fsync":
                self.relink(node)
            elif name == "read":
                self.get(file, node, offset, length)
            elif name == "write" and length > 0:
                if not self.put(file, node, offset, length):
                    return False
                if "synchronous" in flags:
                    self.relink(node)
            return True
        if name in ("close", "truncate", "fallocate") and file in self.nodes:
            self.relink(self.nodes[file])
        self.library.lose(name, file, offset, length, flags, file2)
        if name in CHANGES and self.mode != "posix":
            self.entry()
        return super().run(name, file, offset, length, flags, file2)
