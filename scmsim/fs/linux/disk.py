"""Places of files' pages on the device, read from the state of the ext4 and ext2 models.

Units: pages and blocks of 4096 bytes.
Source: scmsim/fs/linux/state.py.
"""

from collections.abc import Sequence
from typing import Any

from scmsim.fs.linux import state as e
from scmsim.fs.recovery.image import PAGE, Bulk
from scmsim.fs.recovery.observe import Event


class Disk:
    """Each file page's block, and each block's page, after the last call."""

    def __init__(self, state: Any, count: int) -> None:
        self.state, self.count = state, count
        self.owner: dict[int, tuple[int, int]] = {}  # block -> file, page
        self.pages: dict[int, dict[int, int]] = {}  # file -> page -> block
        self.leaves: dict[int, dict[int, int]] = {}  # file -> slot of a pointer block -> block
        self.inode: dict[int, int] = {}  # file -> its inode number
        self.folder: dict[int, int] = {}  # file -> directory of its newest name

    def look(self) -> None:
        """Read the model's current state; a block that no longer belongs to a file keeps its last owner."""
        arena, rows = self.state.arena, int(self.state.record[0].rows)
        for file in range(self.count):
            f = int(arena[rows + file * e.ROW_WORDS + e.ROW_RECORD])
            self.pages[file], self.leaves[file] = {}, {}
            if not f:
                self.inode.pop(file, None)
                continue
            self.inode[file] = int(arena[f + e.INODE])
            self.folder[file] = (int(arena[f + e.PARENT]) - rows) // e.ROW_WORDS
            at, end = int(arena[f + e.PAGES]), int(arena[f + e.PAGE_COUNT])
            blocks = (arena[at : at + end] >> e.BLOCK_SHIFT).tolist() if at else []
            at, held = int(arena[f + e.LEAVES]), int(arena[f + e.LEAF_COUNT])
            self.leaves[file] = {slot: int(arena[at + slot]) for slot in range(held if at else 0) if arena[at + slot]}
            self.pages[file] = {page: block for page, block in enumerate(blocks) if block}
            self.owner |= {block: (file, page) for page, block in self.pages[file].items()}


def written_back(event: Event, disk: Disk, content: Any) -> tuple[list[Bulk], Sequence[tuple[int, int, int]]]:
    """Return the stores of a write-back of whole pages from the page cache, and (file, page, block) of each page."""
    writes, places = [], []
    for block in range(event.addr // PAGE, (event.addr + event.length) // PAGE):
        if block in disk.owner:
            file, page = disk.owner[block]
            writes.append(Bulk(block * PAGE, PAGE, content.of(file).pages.get(page, 0)))
            places.append((file, page, block))
    return writes, places
