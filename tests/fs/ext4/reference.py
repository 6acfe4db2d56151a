"""Implement the ext4 models' reference: stores, flushes and fences of each operation, with plain dicts, sets and lists.

Written from the same description as scmsim/fs/linux/*.py, and shares no code with them.
"""

from tests.fs.ext4.reference_data import Data
from tests.fs.ext4.reference_disk import PAGE, SECONDS, Node, Page


class Slow(Data):
    """ext4, ext4-dax or ext4-dax of Linux 4 (`by_dax_io`); `apply` returns stored bytes by kind, flushes and fences."""

    def __init__(
        self,
        dax,
        files,
        capacity,
        journal,
        commit_interval=5 * SECONDS,
        dirty_expire=30 * SECONDS,
        by_dax_io=False,
        clock_tick=SECONDS // 250,
    ):
        self.by_dax_io = by_dax_io
        super().__init__(dax, files, capacity, journal, commit_interval, dirty_expire, clock_tick)
        for folder in (len(files), *(i for i in range(len(files)) if files.is_dir[i] and files.first_size[i] >= 0)):
            self.node(folder)

    # Files

    def folder_of(self, file):
        """Return the node of the directory that a file was in before the trace."""
        above = self.files.path[file].rpartition("/")[0]
        rows = [row for row, path in enumerate(self.files.path) if path == above and self.was_dir(row)]
        return self.nodes.get(rows[-1] if rows else len(self.files), self.nodes[len(self.files)])

    def was_dir(self, file):
        """Return whether a file is a directory from before the trace."""
        return bool(self.files.is_dir[file]) and self.files.first_size[file] >= 0

    def new_inode(self, file, folder, is_dir):
        """Take an inode for a file or directory; return its number and group."""
        stored = [group.uninit for group in self.allocator.groups.all]
        number, group = self.inodes.take(folder, self.files.path[file].rpartition("/")[2], is_dir)
        self.begun = group if stored[group] else None
        return number, group

    def node(self, file, fresh=False, folder=None, makes_dir=False):
        """Return the file's node; a file used for the first time is from before the trace unless `fresh`."""
        if file in self.nodes:
            return self.nodes[file]
        root = file == len(self.files)
        before = 0 if root or file in self.gone or fresh else max(int(self.files.first_size[file]), 0)
        is_dir = root or (bool(self.files.is_dir[file]) and file not in self.gone and not fresh)
        inode, group = (2, 0) if root else self.new_inode(file, folder or self.folder_of(file), is_dir or makes_dir)
        node = self.nodes[file] = Node(inode, size=before, parent=len(self.files), read_stamp=0 if fresh else -1)
        node.group, node.is_root, node.is_dir = group, root, is_dir
        pages = 1 if node.is_dir else -(-before // PAGE)
        page = 0
        if root or (node.is_dir and self.files.first_size[file] >= 0):
            block = self.layout.root_block if root else self.take(node, 0, 1)[0]
            node.pages[0], node.end, page = Page(block), 1, 1
        while page < pages and self.available() > 0:
            page += self.allocate(node, page, pages - page)
        self.close_window(node)
        return node

    def exists(self, file):
        """Return whether the file exists already."""
        return file in self.nodes or (file not in self.gone and self.files.first_size[file] >= 0)

    def entry_bytes(self, file):
        """Return the size of a directory entry in bytes."""
        length = len(self.files.path[file].rpartition("/")[2].encode())
        return -(-(8 + length) // 4) * 4

    def blocks_for_entry(self, parent, file):
        """Return how many blocks a directory needs for one more entry."""
        used = parent.used + self.entry_bytes(file)
        if parent.end == 0:
            return 1 if used <= 4084 else 2
        if parent.end == 1:
            return 2 if used > 4084 else 0
        return int(used > 3072 * (parent.end - 1))

    def blocks_for_new_name(self, parent, file):
        """Return how many blocks a directory needs for a file's new name, beside its old one."""
        if parent.end <= 1:
            return self.blocks_for_entry(parent, file)
        parent.renamed += self.entry_bytes(file)
        lost = min(parent.renamed, parent.used) // 6
        return int(parent.used + lost + self.entry_bytes(file) > 3072 * (parent.end - 1))

    def grow_directory(self, node, count):
        """Add blocks to a directory."""
        for _ in range(count):
            page = node.end
            self.allocate(node, page, 1)
            self.change_blocks(node, page, [node.pages[page].block])
            self.join(node.pages[page].block)
            self.join(node.pages[0].block)

    def change_entry(self, parent, file):
        """Change an entry's directory block, and the directory's inode."""
        if parent.end == 1:
            self.join(parent.pages[0].block)
        elif parent.end > 1:
            self.join(parent.pages[1 + (file * 2654435761 >> 8) % (parent.end - 1)].block)
        self.change_inode(parent)

    def destroy(self, file):
        """Free a file's blocks and its inode."""
        node = self.nodes[file]
        self.change_inode(node)
        self.join(0)
        self.change_inode_use(node)
        if node.is_dir:
            for page in node.pages.values():
                self.forget(page.block)
        self.close_window(node)
        self.free_pages(node, 0, node.end)
        self.free_leaves(node)
        if file in self.queue:
            self.queue.remove(file)
        self.inodes.give(node.inode, node.is_dir)
        del self.nodes[file]
        self.gone.add(file)

    def lose_link(self, file):
        """Remove one link; destroy the file if that was its last link and it is not open."""
        node = self.nodes[file]
        node.links -= 1
        if node.links <= 0 and not (self.closes and node.opens > 0):
            self.destroy(file)
            return
        self.change_inode(node)
        if node.links <= 0:
            self.join(0)

    # Names

    def create(self, file, parent, is_dir):
        """Perform create or mkdir; return False if there is no room."""
        need = self.blocks_for_entry(parent, file)
        no_inode = self.inodes.free.exact == 0
        if need + is_dir > self.available() or no_inode:
            return False
        node = self.node(file, True, parent, is_dir)
        if self.begun is not None:
            self.join(self.layout.groups[self.begun].block_bitmap)
        if is_dir:
            node.is_dir = True
            self.grow_directory(node, 1)
        self.grow_directory(parent, need)
        node.opens = 0 if is_dir else 1
        parent.used += self.entry_bytes(file)
        self.change_entry(parent, file)
        self.change_inode(node)
        self.change_inode_use(node)
        return True

    def link(self, file, parent):
        """Perform link; return False if there is no room."""
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
        """Do the background work since the last operation: write-back, checkpoint, commit."""
        while self.now >= self.tick:
            if not self.queue and not self.held:
                self.tick = self.now
            limit = self.tick - self.dirty_expire
            while self.queue and self.nodes[self.queue[0]].since <= limit:
                self.write_back(self.queue[0])
            if self.held and self.checkpoint_since <= limit:
                self.checkpoint()
            self.tick += 5 * SECONDS
        if self.txn_joins and (self.now - self.txn_since >= self.commit_interval or self.full()):
            self.commit()

    def sync(self):
        """Perform sync: write back, commit and checkpoint everything."""
        while self.queue:
            self.write_back(self.queue[0])
        if self.txn_joins:
            self.commit()
        self.checkpoint()

    def apply(self, name, file, offset=0, length=0, flags=(), file2=-1, time_ns=0):
        """Perform one operation; return (data, metadata, log, zeroing, flushed lines, fences)."""
        self.data = self.metadata = self.log = self.zeroing = self.flushes = self.fences = 0
        self.now, self.lent = time_ns, 0
        self.settle()
        if not self.run(name, file, offset, length, flags, file2):
            self.failed += 1
        return self.data, self.metadata, self.log, self.zeroing, self.flushes, self.fences

    def run(self, name, file, offset, length, flags, file2):
        """Dispatch an operation; return False if the device is full."""
        if name == "sync":
            self.sync()
            return True
        if name == "rename" and file in self.nodes and file2 >= 0 and file2 != file and self.exists(file2):
            if self.nodes[file].waits():
                self.store(self.nodes[file])
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
        """Perform read: cache pages, and update the access time once after a change."""
        if length > 0 and node.stamp >= node.read_stamp != self.file_time():
            node.read_stamp = self.file_time()
            self.change_inode(node)
        number, end = offset // PAGE, -(-min(offset + length, node.size) // PAGE)
        while self.dax and number < end:
            count = 1
            while number + count < end and self.follows(node.pages.get(number), node.pages.get(number + count), count):
                count += 1
            self.look_through(node, number, count)
            number += count
        for number in range(offset // PAGE, end):
            if number in node.pages:
                node.pages[number].cached = True

    def close(self, file, node):
        """Perform close: destroy an unlinked file at its last close."""
        if node.links > 0 and node.emptied and node.waits() and not node.is_dir:
            self.store(node)
        self.closes += 1
        if node.links <= 0 and node.opens <= 1:
            self.destroy(file)
        else:
            node.opens -= 1
            node.emptied = False
            if not node.waits():
                self.close_window(node)

    def change_names(self, name, file, file2):
        """Perform a namespace operation; return False if there is no room."""
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
            replaces = file2 >= 0 and file2 != file
            need = 0 if replaces else self.blocks_for_new_name(folder, file)
            if need > self.available():
                return False
            self.grow_directory(folder, need)
            self.change_entry(folder, file)
            self.change_inode(node)
            if replaces:
                if file2 in self.nodes:
                    self.lose_link(file2)
                self.gone.add(file2)
        else:
            folder.used = max(folder.used - self.entry_bytes(file), 0)
            self.change_entry(folder, file)
            self.lose_link(file)
        return True
