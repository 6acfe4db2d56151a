"""A mounted ext4 with the page cache: blocks are allocated when dirty pages are written back, not when they are written.

Linux 6.1, fs/ext4/inode.c: ext4_da_map_blocks, ext4_writepages.  Write-back happens at fsync, at a commit (sync), before a
hole is punched, and where ext4 hurries (a file that was cut to nothing is closed; one replaces another); never by time.
"""

from dataclasses import dataclass, field

from tests.reference.ext4_layout.directory import Directory
from tests.reference.ext4_layout.file import Create, File
from tests.reference.ext4_layout.layout import Ext4Layout

_MOST = 2048  # MAX_WRITEPAGES_EXTENT_LEN
_WRITE_BACK = Create(unwritten=True, before_io=True)


@dataclass(eq=False)
class Pages:
    """A file's dirty pages: block -> what it lacked when it was dirtied ("delayed", "unwritten", "written")."""

    file: File
    dirty: dict[int, str] = field(default_factory=dict)
    emptied: bool = False  # cut to nothing since it was last closed


class CachedLayout(Ext4Layout):
    """The same operations without DAX; one page has one block."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.pages: dict[File, Pages] = {}
        self.order: dict[File, None] = {}  # files in the order in which they became dirty since the last sync

    def write(self, file: File, offset: int, length: int) -> int:
        """Dirty the pages of a write."""
        pages = self.pages.setdefault(file, Pages(file))
        self.order.setdefault(file)
        for block in range(offset // self.block, (offset + length - 1) // self.block + 1):
            if block not in pages.dirty:
                state = file.lookup(block, 1).state
                if state == "hole":
                    file.known.insert(block, 1, 0, "delayed")
                    state = "delayed"
                pages.dirty[block] = state
        file.size = max(file.size, offset + length)
        self._change(file)
        return length

    def write_back(self, file: File, first: int = 0, end: int = 1 << 32) -> None:
        """Write a file's dirty pages of [first, end) and allocate what they lack: ext4_writepages."""
        pages = self.pages.get(file)
        if pages is None:
            return
        waiting = sorted(block for block in pages.dirty if first <= block < end)
        while waiting:
            start, state = waiting[0], pages.dirty[waiting[0]]
            length = 1
            while length < min(len(waiting), _MOST) and waiting[length] == start + length:
                if pages.dirty[start + length] != state:
                    break
                length += 1
            if state != "written":
                self._change(file)
                made = self._retried(lambda at=start, count=length: file.map(at, count, _WRITE_BACK))
                length = made.length
                self._discard_if_idle(file)
                file.complete(start, length)
            for block in waiting[:length]:
                del pages.dirty[block]
            del waiting[:length]

    def _discard_if_idle(self, file: File) -> None:
        """Drop the preallocations of a file without writers whose blocks are all there: ext4_da_update_reserve_space."""
        if not file.writers and not _reserved(file):
            self.mballoc.preallocations.discard(file)

    def truncate(self, file: File, size: int) -> None:
        """Set a file's size; pages beyond it are dropped."""
        pages = self.pages.get(file)
        if pages:
            last = -(-size // self.block)
            pages.dirty = {block: state for block, state in pages.dirty.items() if block < last}
        super().truncate(file, size)
        self.order.setdefault(file)
        if size == 0:
            self.pages.setdefault(file, Pages(file)).emptied = True

    def punch(self, file: File, offset: int, length: int) -> None:
        """Write the range back, then unmap it."""
        self.write_back(file, offset // self.block, (offset + length - 1) // self.block + 1)
        super().punch(file, offset, length)

    def close(self, file: File, writing: bool = True) -> None:
        """Close a descriptor; preallocations stay while pages wait for blocks."""
        pages = self.pages.get(file)
        if pages and pages.emptied:
            pages.emptied = False
            self.write_back(file)
        if _reserved(file):
            file.writers -= writing
            file.opened -= 1
            self._evict_if_unused(file)
        else:
            super().close(file, writing)

    def rename(
        self, parent: Directory, name: str, file: File, target: Directory, new: str, replaced: File | None = None
    ) -> None:
        """Rename a file; one that replaces another is written back first."""
        if replaced is not None:
            self.write_back(file)
        super().rename(parent, name, file, target, new, replaced)

    def fsync(self, file: File) -> None:
        """Write a file back and commit the transaction that changed it."""
        self.write_back(file)
        super().fsync(file)

    def commit(self) -> None:
        """Write everything back and commit."""
        for file in self.order:
            self.write_back(file)
        self.order.clear()
        super().commit()

    def _evict_if_unused(self, file: File) -> None:
        if file.links <= 0 and not file.opened:
            self.pages.pop(file, None)
            self.order.pop(file, None)
        super()._evict_if_unused(file)


def _reserved(file: File) -> int:
    """Return how many blocks a file was promised that it does not have yet."""
    return sum(run.length for run in file.known.runs if run.state == "delayed")
