"""A mounted ext4 with the page cache: blocks are allocated when dirty pages are written back, not when they are written.

Linux 6.1, fs/ext4/inode.c: ext4_da_write_begin, ext4_da_map_blocks, ext4_writepages; fs/fs-writeback.c.  Write-back happens at
fsync, at sync, before a hole is punched, where ext4 hurries (a file that was cut to nothing is closed; one replaces another) and
where few blocks are left; never by time.  One page has one block.
"""

from dataclasses import dataclass, field

from tests.reference.ext4_layout.directory import Directory
from tests.reference.ext4_layout.file import Create, File
from tests.reference.ext4_layout.layout import Ext4Layout
from tests.reference.ext4_layout.mballoc import NoSpaceLeft

_MOST = 2048  # MAX_WRITEPAGES_EXTENT_LEN
_WATERMARK = 4 * 32  # EXT4_FREECLUSTERS_WATERMARK with one CPU
_DELAYED = Create(unwritten=True, before_io=True, promised=True)
_AT_ONCE = Create(unwritten=True, before_io=True)


@dataclass(eq=False)
class Pages:
    """A file's dirty pages: block -> what it lacked when it was dirtied ("delayed", "unwritten", "written")."""

    file: File
    dirty: dict[int, str] = field(default_factory=dict)
    emptied: bool = False  # cut to nothing since it was last closed (EXT4_STATE_DA_ALLOC_CLOSE)


class CachedLayout(Ext4Layout):
    """The same operations without DAX."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.pages: dict[File, Pages] = {}
        self.order: dict[File, None] = {}  # files in the order in which they became dirty since the last sync

    def write(self, file: File, offset: int, length: int) -> int:
        """Dirty the pages of a write, one by one; return how many bytes fit."""
        end = offset + length
        self._change(file)
        for block in range(offset // self.block, (end - 1) // self.block + 1):
            at_once = self._few_blocks()
            self.order.setdefault(file)
            dirty = self._pages(file).dirty
            if block not in dirty:
                begin = self._written_at_once if at_once else self._delay
                reached = min(end, (block + 1) * self.block)
                try:
                    dirty[block] = self._retried(lambda at=block, to=reached, act=begin: self._begun(file, at, to, act))
                except NoSpaceLeft:
                    return max(block * self.block - offset, 0)
            file.size = max(file.size, min(end, (block + 1) * self.block))
        return length

    def _begun(self, file: File, block: int, reached: int, begin) -> str:
        """Prepare a page for a write; without room, drop what is beyond the file's end: ext4_truncate_failed_write."""
        try:
            return begin(file, block)
        except NoSpaceLeft:
            if reached > file.size:
                before = reserved(file)
                self._truncate(file)
                self.mballoc.promised.add(reserved(file) - before)
            raise

    def _pages(self, file: File) -> Pages:
        return self.pages.setdefault(file, Pages(file))

    def _few_blocks(self) -> bool:
        """Return whether a page needs its block at once; if half of the space is promised, write everything back first.

        Mirrors ext4_nonda_switch.
        """
        free, promised = max(self.mballoc.free.rough, 0), max(self.mballoc.promised.rough, 0)
        if promised and free < 2 * promised:
            self._write_all_back()
        return 2 * free < 3 * promised or free < promised + _WATERMARK

    def _delay(self, file: File, block: int) -> str:
        """Promise a block to a page that has none; return what the page lacks: ext4_da_map_blocks."""
        state = file.lookup(block, 1).state
        if state == "hole":
            self.mballoc.promise()
            file.known.insert(block, 1, 0, "delayed")
            return "delayed"
        return state.partition(",")[0]

    def _written_at_once(self, file: File, block: int) -> str:
        """Give a page its block: ext4_write_begin."""
        return file.map(block, 1, _AT_ONCE).state

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
                length = self._given(file, start, length, _DELAYED if state == "delayed" else _AT_ONCE)
                file.complete(start, length)
            for block in waiting[:length]:
                del pages.dirty[block]
            del waiting[:length]

    def _given(self, file: File, start: int, length: int, create: Create) -> int:
        """Allocate blocks of a file, keep count of the promised ones, and return how many it got."""
        before = reserved(file)
        made = self._retried(lambda: file.map(start, length, create))
        self._keep(file, before)
        return made.length

    def _keep(self, file: File, before: int) -> None:
        """Count promises that were kept; drop the preallocations of a file without writers that waits for no block.

        Mirrors ext4_da_update_reserve_space.
        """
        after = reserved(file)
        if after < before:
            self.mballoc.promised.add(after - before)
            if not file.writers and not after:
                self.mballoc.preallocations.discard(file)

    def _alloc_delayed(self, file: File) -> None:
        """Write a file back if a block of it is only promised: ext4_alloc_da_blocks."""
        if reserved(file):
            self.write_back(file)

    def truncate(self, file: File, size: int) -> None:
        """Set a file's size; pages beyond it are dropped."""
        pages, before = self._pages(file), reserved(file)
        last = -(-size // self.block)
        pages.dirty = {block: state for block, state in pages.dirty.items() if block < last}
        super().truncate(file, size)
        self.mballoc.promised.add(reserved(file) - before)
        self.order.setdefault(file)
        if size == 0:
            pages.emptied = True

    def fallocate(self, file: File, offset: int, length: int, keep_size: bool = False) -> bool:
        """Reserve blocks, those of dirty pages included, which stay as they are."""
        before = reserved(file)
        done = super().fallocate(file, offset, length, keep_size)
        self._keep(file, before)
        self.order.setdefault(file)
        return done

    def punch(self, file: File, offset: int, length: int) -> None:
        """Write the range back, then unmap it."""
        self.write_back(file, offset // self.block, (offset + length - 1) // self.block + 1)
        super().punch(file, offset, length)
        if offset < file.size:
            self.order.setdefault(file)

    def close(self, file: File, writing: bool = True) -> None:
        """Close a descriptor; preallocations stay while pages wait for blocks."""
        pages = self._pages(file)
        if pages.emptied:
            pages.emptied = False
            self._alloc_delayed(file)
        if reserved(file):
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
            self._alloc_delayed(file)
        super().rename(parent, name, file, target, new, replaced)

    def fsync(self, file: File) -> None:
        """Write a file back and commit the transaction that changed it."""
        self.write_back(file)
        super().fsync(file)

    def sync(self) -> None:
        """Write everything back and commit."""
        self._write_all_back()
        self.commit()

    def _write_all_back(self) -> None:
        """Write files back in the order in which they became dirty: move_expired_inodes, writeback_sb_inodes."""
        for file in self.order:
            self.write_back(file)
        self.order.clear()

    def _evict_if_unused(self, file: File) -> None:
        before = reserved(file)
        if file.links <= 0 and not file.opened:
            self.pages.pop(file, None)
            self.order.pop(file, None)
        super()._evict_if_unused(file)
        self.mballoc.promised.add(reserved(file) - before)


def reserved(file: File) -> int:
    """Return how many blocks a file was promised that it does not have yet (i_reserved_data_blocks)."""
    return sum(run.length for run in file.known.runs if run.state == "delayed")
