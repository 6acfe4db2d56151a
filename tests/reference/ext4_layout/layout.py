"""A mounted ext4 on persistent memory with -o dax: operations on files, and the extents that they lead to.

Linux 6.1, fs/ext4: file.c, inode.c, namei.c.  DAX writes allocate at once what each call lacks; there is no delayed
allocation.  One CPU, root's rights.
"""

import errno

from tests.reference.ext4_layout import mkfs
from tests.reference.ext4_layout.directory import Directory
from tests.reference.ext4_layout.file import Create, File
from tests.reference.ext4_layout.hashing import seed_of
from tests.reference.ext4_layout.inodes import Inodes
from tests.reference.ext4_layout.mballoc import Mballoc, NoSpaceLeft
from tests.reference.ext4_layout.tree import END, UNWRITTEN_MOST, Extent

_WRITE_MOST = 4096  # DIO_MAX_BLOCKS: blocks that one step of a write maps at most
_RETRIES = 3  # of ext4_should_retry_alloc
_ROOT_INODE = 2


class Ext4Layout:
    """A file system that was made and mounted.

    Offsets and lengths of operations are in bytes, extents in blocks.  A `File` that `create` or `open` returns counts as
    open for writing until `close`.
    """

    def __init__(self, options: mkfs.Mkfs, optimized: bool | None = None, release: tuple[int, int] = (6, 1)) -> None:
        self.block, self.release = options.block_bytes, release
        self.disk = mkfs.make(options)
        self.mballoc = Mballoc(self.disk, optimized, release)
        self.seed = seed_of(options.hash_seed)
        self.inodes = Inodes(self.disk, self.mballoc, self.seed)
        self.root = Directory(self.mballoc, _ROOT_INODE, 0, self.seed, is_root=True)
        self.root.size = self.block
        self.root.tree.root.entries.append(Extent(0, 1, self.disk.root_block))
        self.root.blocks.append([[12, "."], [12, ".."], [self.root.room - 24, "lost+found"]])
        self.changed: dict[int, int] = {}  # inode -> the last transaction that changed it

    def extents(self, file: File) -> list[tuple[int, int, int, bool]]:
        """Return a file's (logical, physical, length, unwritten)."""
        return [(each.logical, each.physical, each.length, each.unwritten) for each in file.tree.extents()]

    def fiemap(self, file: File) -> list[tuple[int, int, int, bool]]:
        """Return a file's (logical, physical, length, unwritten) as FIEMAP shows them: runs of the extent status tree."""
        found, at = [], 0
        while at < END:
            run = file.lookup(at, END - at)
            if run.physical:
                found.append((at, run.physical, run.length, run.state == "unwritten"))
            at += run.length
        return found

    def create(self, parent: Directory, name: str) -> File:
        """Create a file and open it for writing."""
        number, group = self.inodes.take(parent, name, directory=False)
        file = File(self.mballoc, number, group, regular=True)
        file.writers = file.opened = 1
        self._change(file, parent)
        self._named(file, parent, name)
        return file

    def mkdir(self, parent: Directory, name: str) -> Directory:
        """Create a directory."""
        number, group = self.inodes.take(parent, name, directory=True)
        made = Directory(self.mballoc, number, group, self.seed)
        self._change(made, parent)
        try:
            self._retried(made.begin)
        except NoSpaceLeft:
            self._drop(made)
            raise
        self._named(made, parent, name)
        return made

    def open(self, file: File, writing: bool = True) -> None:
        """Open a file once more."""
        file.opened += 1
        file.writers += writing

    def close(self, file: File, writing: bool = True) -> None:
        """Close a descriptor; the last writer's close drops the file's preallocations."""
        if writing and file.writers == 1:
            self.mballoc.preallocations.discard(file)
        file.writers -= writing
        file.opened -= 1
        self._evict_if_unused(file)

    def unlink(self, parent: Directory, name: str, file: File) -> None:
        """Remove a name; a file without names and descriptors gives its blocks back."""
        parent.remove(name)
        file.links -= 1
        self._change(file, parent)
        self._evict_if_unused(file)

    def rmdir(self, parent: Directory, name: str, directory: Directory) -> None:
        """Remove an empty directory."""
        parent.remove(name)
        directory.links = 0
        self._change(directory, parent)
        self._evict_if_unused(directory)

    def link(self, parent: Directory, name: str, file: File) -> None:
        """Give a file another name."""
        self._retried(lambda: parent.add(name))
        file.links += 1
        self._change(file, parent)

    def rename(
        self, parent: Directory, name: str, file: File, target: Directory, new: str, replaced: File | None = None
    ) -> None:
        """Rename a file; a file that had the new name loses it."""
        if replaced is None:
            self._retried(lambda: target.add(new))
        parent.remove(name)
        self._change(file, parent, target)
        if replaced is not None:
            replaced.links -= 1
            self._change(replaced)
            self._evict_if_unused(replaced)

    def write(self, file: File, offset: int, length: int) -> int:
        """Write in one call; return how many bytes fit: ext4_dax_write_iter."""
        at, end, old_size = offset, offset + length, file.size
        try:
            while at < end:
                first = at // self.block
                wanted = (end - 1) // self.block - first + 1
                at = min(end, (first + self._map_for_write(file, first, wanted, end <= old_size)) * self.block)
        except NoSpaceLeft:
            pass
        reached = at if at > offset else offset - errno.ENOSPC  # the kernel adds the error number to the offset, too
        if reached > file.size:
            file.size = reached
            self._change(file)
        if at < end and end > old_size:
            self._truncate(file)
        return at - offset

    def _map_for_write(self, file: File, first: int, wanted: int, inside: bool) -> int:
        """Return how many blocks a step of a write gets: ext4_iomap_begin."""
        if inside:
            found = file.lookup(first, wanted)
            if found.state == "written":
                return found.length
            wanted = found.length
        self._change(file)
        return self._retried(lambda: file.map(first, min(wanted, _WRITE_MOST), Create()).length)

    def read(self, file: File, offset: int, length: int) -> None:
        """Read; the kernel remembers what it looked up."""
        at, end = offset, min(offset + length, file.size)
        while at < end:
            first = at // self.block
            at = (first + file.lookup(first, (end - 1) // self.block - first + 1).length) * self.block

    def truncate(self, file: File, size: int) -> None:
        """Set a file's size."""
        shrunk = size <= file.size
        file.size = size
        self._change(file)
        if shrunk:
            self._truncate(file)

    def fallocate(self, file: File, offset: int, length: int, keep_size: bool = False) -> bool:
        """Reserve blocks; return whether all fit."""
        first, end = offset // self.block, -(-(offset + length) // self.block)
        size = offset + length if not keep_size and offset + length > file.size else 0
        create = Create(unwritten=True, normalize=end - first > UNWRITTEN_MOST)
        self._change(file)
        while first < end:
            try:
                first += self._retried(lambda at=first: file.map(at, end - at, create).length)
            except NoSpaceLeft:
                return False
            file.size = max(file.size, min(size, first * self.block))
        return True

    def punch(self, file: File, offset: int, length: int) -> None:
        """Unmap the whole blocks of a range: ext4_punch_hole."""
        if offset >= file.size:
            return
        if offset + length + (self.release >= (7, 3)) > file.size:
            # 6.1 takes the page after the last one with it where the file ends at a page's end; 7.3 also rounds up a hole that
            # ends at the file's size
            more = self.block - file.size % self.block
            length = file.size + (more if self.release < (6, 12) else more % self.block) - offset
        self._change(file)
        first, end = -(-offset // self.block), (offset + length) // self.block
        for partial in {at // self.block for at in (offset, offset + length) if at % self.block}:
            file.lookup(partial, 1)
        if end > first:
            self.mballoc.preallocations.discard(file)
            file.known.remove(first, end - first)
            file.tree.remove(first, end)
            if self.release >= (6, 12):
                file.known.insert(first, end - first, 0, "hole")

    def fsync(self, file: File) -> None:
        """Commit the running transaction if it changed the file."""
        if self.changed.get(file.number) == self.mballoc.transaction:
            self.commit()

    def sync(self) -> None:
        """Commit the running transaction."""
        self.commit()

    def commit(self) -> None:
        """Commit the running transaction: what it freed can be used."""
        self.mballoc.commit()

    def _named(self, new: File, parent: Directory, name: str) -> None:
        """Give a new file its name; drop the file if the directory has no room."""
        try:
            self._retried(lambda: parent.add(name))
        except NoSpaceLeft:
            self._drop(new)
            raise

    def _drop(self, file: File) -> None:
        file.links = file.opened = 0
        self._evict_if_unused(file)

    def _change(self, *files: File) -> None:
        for file in files:
            self.changed[file.number] = self.mballoc.transaction

    def _truncate(self, file: File) -> None:
        """Drop everything beyond a file's size: ext4_truncate."""
        last = -(-file.size // self.block)
        if file.size % self.block:
            file.lookup(last - 1, 1)
        self.mballoc.preallocations.discard(file)
        file.known.remove(last, END - last)
        file.tree.remove(last, END)

    def _evict_if_unused(self, file: File) -> None:
        if file.links > 0 or file.opened:
            return
        file.size = 0
        self._truncate(file)
        self.inodes.give(file.number, isinstance(file, Directory))

    def _retried(self, act):
        """Act, again after a commit if that may free blocks: ext4_should_retry_alloc."""
        for _ in range(_RETRIES):
            try:
                return act()
            except NoSpaceLeft:
                if self.mballoc.groups.freed:
                    self.mballoc.commit()
                elif self.mballoc.free.exact <= self.mballoc.reserved:
                    raise
        return act()
