"""Implement the xfs-dax model's reference: stores, flushes and fences of each operation, with dicts, sets and lists.

Written from the same description as scmsim/fs/xfs/*.py, and shares no code with them.
"""

from tests.fs.xfs.reference_extents import Extents
from tests.fs.xfs.reference_log import BLOCK, Item, Node

REQUEST = 4 << 20  # most bytes from the first one of a request for blocks on (xfs_direct_write_iomap_begin)
NAMES = ("create", "mkdir", "unlink", "rmdir", "rename", "link")


class Slow(Extents):
    """xfs-dax; `apply` returns an operation's stored bytes by kind, flushed lines and fences."""

    def __init__(self, files, capacity, **geometry):
        super().__init__(capacity, **geometry)
        self.files, self.root, self.nodes, self.gone = files, len(files), {}, set()
        self.name_length = [len(path.rpartition("/")[2].encode()) for path in files.path] + [0]
        self.closes = self.failed = self.short_writes = 0
        folders = [i for i in range(len(files)) if files.is_dir[i] and files.first_size[i] >= 0]
        for number, folder in enumerate([self.root, *folders]):
            inode = self.numbers.take(0, True) if number else 0
            self.nodes[folder] = Node(inode, self.root, is_dir=True)
            self.inodes[inode] = Item(inode, inode=True)

    # Inodes

    def new_node(self, file, inode):
        """Add a node with an inode."""
        self.inodes.setdefault(inode, Item(inode, inode=True))
        self.nodes[file] = Node(inode, self.root)
        return self.nodes[file]

    def node(self, file):
        """Return the file's node; a file used for the first time is from before the trace."""
        if file in self.nodes:
            return self.nodes[file]
        is_dir = file not in self.gone and bool(self.files.is_dir[file])
        inode = self.numbers.take(0, is_dir)
        node = self.new_node(file, 1 if inode is None else inode)
        if file not in self.gone:
            node.is_dir = is_dir
            node.size = 0 if node.is_dir else max(int(self.files.first_size[file]), 0)
        page, pages = 0, -(-node.size // BLOCK)
        while page < pages and self.free_count() > 0:
            for block in self.take(node, page, min(pages - page, self.free_count())):
                node.pages[page] = (block, False)
                page += 1
        node.end = page
        return node

    def destroy(self, file):
        """Free a file's blocks and its inode."""
        node = self.nodes.pop(file)
        if node.is_dir:
            self.empty_folder(node)
        elif node.pages or node.delayed:
            self.free_pages(node, 0, node.end)
        self.inodes[node.inode].fork = 0
        unlinked = 40 + 4 * (node.inode % 64)
        self.change_inode_use(node.inode, unlinked, unlinked + 3)
        self.change_inode_use(node.inode, 0, 39)
        self.change_inode(node)
        if node.inode != 1:
            self.numbers.give(node.inode)
        self.gone.add(file)

    def lose_link(self, file):
        """Remove one link; destroy the file if that was its last link and it is not open."""
        node = self.nodes[file]
        node.links -= 1
        if node.links <= 0 and not (self.closes and node.opens > 0):
            self.destroy(file)
            return
        if node.links <= 0:
            unlinked = 40 + 4 * (node.inode % 64)
            self.change_inode_use(node.inode, unlinked, unlinked + 3)
        self.change_inode(node)

    # Content

    def fitting(self, node, offset, length):
        """Return how many leading bytes of a write get blocks: a run of holes gets all or none, of at most 4 MiB."""
        at, end, left = offset, offset + length, self.free_count()
        while at < end:
            page, stop = at // BLOCK, -(-min(end, at + REQUEST) // BLOCK)
            count = 0
            while page + count < stop and page + count not in node.pages:
                count += 1
            left -= count
            if left < 0:
                self.short_writes += at > offset
                return at - offset
            at = (page + max(count, 1)) * BLOCK
        return length

    def write(self, node, offset, length):
        """Write, in part if not all of its runs fit; return False if the device is full."""
        length = self.fitting(node, offset, length)
        if not length:
            return False
        self.clear_end(node, offset)
        self.set_times(node)
        at = part_end = offset
        end = offset + length
        while at < end:
            page = at // BLOCK
            old = node.pages.get(page)
            if at == part_end or old is None or old[1]:
                part_end = min(end, -(-(at + REQUEST) // BLOCK) * BLOCK)
            count = self.run_of(node, page, (part_end - 1) // BLOCK)
            if old is None or old[1]:
                blocks = self.take(node, page, count) if old is None else [old[0] + i for i in range(count)]
                count = len(blocks)
                node.pages |= {page + i: (block, False) for i, block in enumerate(blocks)}
                node.end = max(node.end, page + count)
                if old is None:
                    self.change_free_space(blocks[0])
                left = sum(other not in node.pages for other in range(page, (end - 1) // BLOCK + 1))
                self.change_extents(node, page, blocks[0] if old is None else None, left)
                node.data_tid = self.sequence
                self.zeroing += BLOCK * count
            stop = min(part_end, (page + count) * BLOCK)
            self.copy(node.pages[page][0] * BLOCK + at % BLOCK, stop - at)
            self.fences += 1  # sfence at the end of the kernel's copy routine
            at = stop
        if end > node.size:
            node.size, node.data_tid = end, self.sequence
            self.change_inode(node)
        return True

    def set_times(self, node):
        """Set a file's times if the clock moved on."""
        stamp = self.now - self.now % self.clock_tick if self.clock_tick else self.sequence
        if node.stamp != stamp:
            node.stamp = stamp
            self.change_inode(node)

    def copy(self, target, length):
        """Count stored bytes and the lines that the copy routine writes back."""
        self.data += length
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

    def clear(self, node, at, length):
        """Clear part of a page."""
        block, unwritten = node.pages.get(at // BLOCK, (None, True))
        if length > 0 and not unwritten:
            self.zeroing += length
            start = block * BLOCK + at % BLOCK
            self.flushes += (start + length - 1) // 64 - start // 64 + 1

    def clear_end(self, node, at):
        """Clear what the last page has after the end of a file that grows, up to byte `at`."""
        self.clear(node, node.size, min(at, -(-node.size // BLOCK) * BLOCK) - node.size)

    def fsync(self, node, data_only=False):
        """Perform fsync or fdatasync; for a directory both only force the log."""
        tid = node.data_tid if data_only and not node.is_dir else node.tid
        if tid == self.sequence and (self.cil or self.extra):
            self.checkpoint()
        elif not node.is_dir:
            self.fences += 2

    def truncate(self, node, size):
        """Perform truncate."""
        self.clear_end(node, size)
        if size < node.size:
            self.clear(node, size, -size % BLOCK)
        if size <= node.size and (size < node.size or node.end > -(-size // BLOCK)):
            self.free_pages(node, -(-size // BLOCK), node.end)
        node.size, node.data_tid = size, self.sequence
        self.change_inode(node)

    def fallocate(self, node, offset, length, keep, punch):
        """Perform fallocate; return False if the device is full."""
        end = offset + length
        first, last = offset // BLOCK, (end - 1) // BLOCK
        if punch:
            if first == last:
                self.clear(node, offset, length % BLOCK)
            else:
                self.clear(node, offset, -offset % BLOCK)
                self.clear(node, end // BLOCK * BLOCK, end % BLOCK)
            self.free_pages(node, -(-offset // BLOCK), end // BLOCK - 1)
        else:
            if sum(page not in node.pages for page in range(first, last + 1)) > self.free_count():
                return False
            page, block = first, None
            while page <= last:
                count = self.run_of(node, page, last)
                if page not in node.pages:
                    blocks = self.take(node, page, count)
                    block = blocks[0]
                    count = len(blocks)
                    node.pages |= {page + i: (block, True) for i, block in enumerate(blocks)}
                    node.end = max(node.end, page + count)
                    self.change_free_space(blocks[0])
                page += count
            if not keep:
                self.clear_end(node, end)
            self.change_extents(node, last, block)
            node.size = node.size if keep else max(node.size, end)
        node.data_tid = self.sequence
        self.change_inode(node)
        return True

    # Operations

    def create(self, file, folder, parent, is_dir):
        """Perform create or mkdir; return False if the device is full."""
        if self.blocks_for(folder, file) > self.free_count():
            return False
        inode = self.numbers.take(folder.inode, is_dir)
        if inode is None:
            return False
        node = self.new_node(file, inode)
        if self.numbers.is_new:
            self.extra += 40
            self.change_free_space(self.numbers.block(inode))
        node.parent = parent
        self.change_inode_use(node.inode, 0, 39)
        node.is_dir, node.opens = is_dir, int(not is_dir)
        self.change_inode(node, 8 if is_dir else None)
        self.add_name(folder, file)
        return True

    def change_names(self, name, file, file2):
        """Perform a namespace operation; return False if there is no room."""
        parent = file2
        if name == "rename" or file2 < 0:
            parent = self.nodes[file].parent if file in self.nodes else self.root
        folder = self.node(parent)
        if not folder.is_dir:
            if folder.size or folder.end:
                folder = self.nodes[self.root]
            folder.is_dir = True
        there = file in self.nodes or (file not in self.gone and self.files.first_size[file] >= 0)
        if name in ("create", "mkdir") and not there:
            return self.create(file, folder, file2 if file2 >= 0 else self.root, name == "mkdir")
        node = self.node(file)
        if name == "link":
            if self.blocks_for(folder, file) > self.free_count():
                return False
            node.links += 1
            self.add_name(folder, file)
            self.change_inode(node)
        elif name == "rename":
            over = file2 >= 0 and file2 != file
            if (not over or not node.known) and self.blocks_for(folder, file) > self.free_count():
                return False
            takes_place = over and node.known > 0
            if takes_place:
                self.change_folder(folder)
            elif not node.known:
                self.remove_name(folder, file)
                self.add_name(folder, file)
            else:
                old, older = node.at, node.before
                self.add_name(folder, file)
                new, node.at = node.at, old
                node.before = new
                self.remove_name(folder, file)
                node.before = older
            self.change_inode(node)
            if file2 >= 0 and file2 != file:
                if file2 in self.nodes:
                    if takes_place:
                        self.swap_names(folder, file, file2)
                    self.remove_name(folder, file2)
                    self.lose_link(file2)
                self.gone.add(file2)
        elif name in ("create", "mkdir"):
            node.opens += name == "create"
        else:
            self.remove_name(folder, file)
            self.lose_link(file)
        return True

    def apply(self, name, file, offset=0, length=0, flags=(), file2=-1, time_ns=0):
        """Perform one operation; return (data, metadata, log, zeroing, flushed lines, fences)."""
        self.data = self.metadata = self.log = self.zeroing = self.flushes = self.fences = 0
        self.now = time_ns
        self.settle()
        if not self.run(name, file, offset, length, flags, file2):
            self.failed += 1
        return self.data, self.metadata, self.log, self.zeroing, self.flushes, self.fences

    def run(self, name, file, offset, length, flags, file2):
        """Dispatch an operation; return False if the device is full."""
        if name == "sync":
            if self.cil or self.extra:
                self.checkpoint()
            else:
                self.fences += 2
            return True
        if name in NAMES and not (name == "create" and file in self.nodes):
            return self.change_names(name, file, file2)
        node = self.node(file)
        if name in ("open", "create"):
            node.opens += 1
        elif name == "fsync":
            self.fsync(node, "data only" in flags)
        elif name == "close":
            self.closes += 1
            if node.links <= 0 and node.opens <= 1:
                self.destroy(file)
            else:
                node.opens -= 1
        elif node.is_dir or name in ("read", "stat"):
            return True
        elif name == "write" and length > 0:
            if not self.write(node, offset, length):
                return False
            if "synchronous" in flags:
                self.fsync(node)
        elif name == "truncate":
            self.truncate(node, offset)
        elif name == "fallocate" and length > 0:
            return self.fallocate(node, offset, length, "keep size" in flags, "punch" in flags)
        return True
