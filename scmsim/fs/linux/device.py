"""Initial state of a file system with block groups: mke2fs's layout, and the directories from before the trace.

Units: offsets and lengths in bytes, blocks of 4096 bytes.  Source: mke2fs (e2fsprogs); Linux 6.1 fs/ext4/{ialloc.c,mballoc.c} for
the directories.
"""

import numpy as np

from scmsim.alloc import bitmap, mballoc
from scmsim.alloc.mballoc_search import allocate
from scmsim.core.records import Files
from scmsim.fs.engine.events import State, new_state
from scmsim.fs.linux import descriptors, hashing, mke2fs, orlov
from scmsim.fs.linux import state as e
from scmsim.fs.linux.templates import BLOCK


def build(
    dtype: np.dtype, files: Files, layout: mke2fs.Layout, dax: bool, own: dict[str, int], lists: dict[str, int], cost: np.ndarray,
    *, alignment: int = BLOCK,
) -> State:  # fmt: skip
    """Return the state of an empty file system.

    `dtype` is ON_DEVICE and the family's additional fields, `own` holds values of fields (limits, times), `lists` the
    number of arena words of each of the family's lists, `cost` the cost table.  The first free block is at a
    multiple of `alignment` bytes.
    """
    blocks, own = layout.blocks, own | layout.fields
    folders, rows, bitmap = e.known_folders(files), len(files) + 1, -(-blocks // 64)
    lists = {
        "homes": rows * descriptors.HOME_WORDS,
        "locality_lists": e.LOCALITY_LISTS,
        "joined": bitmap,
        "logged": bitmap,
        "txn": most_joined(blocks, own["txn_limit"]),
    } | lists
    words = rows * e.ROW_WORDS + sum(lists.values()) + mballoc.arena_words(blocks) + 64 * len(folders) + (1 << 16)
    words += descriptors.arena_words(own["group_count"], own["group_inodes"])
    state = new_state(dtype, 1 << words.bit_length(), cost)
    mballoc.attach(state, layout.used, layout.stored, blocks)
    own = own | {"dax": dax, "tid": 1, "next_tick": e.FLUSHER_PERIOD}
    e.lay_out(state, files, lists, own | (e.DAX_PAGES if dax else e.CACHED_PAGES))
    groups = state.arena[state.record[0].group_table :][: own["group_count"] * mballoc.GROUP_WORDS]
    descriptors.attach(state.record[0], state.arena, groups[mballoc.FREE :: mballoc.GROUP_WORDS])
    _name_folders(state, files, folders)
    _known_folders(state, folders, layout.root)
    _align(state, alignment)
    return state


def most_joined(blocks: int, limit: int) -> int:
    """Return the maximum length of a transaction's list: `limit`, plus the blocks of the operation that exceeds it."""
    return limit + 2 * -(-blocks // e.GROUP_BLOCKS) + 4 * e.FLUSH_PAGES


def _homes(state: State, rows: int) -> np.ndarray:
    """Return the table of files' directories, a view of the arena."""
    at = int(state.record[0].homes)
    return state.arena[at : at + rows * descriptors.HOME_WORDS].reshape(-1, descriptors.HOME_WORDS)


def _name_folders(state: State, files: Files, folders: list[int]) -> None:
    """Record each file's directory before the trace, and hash the names of the directories in the root."""
    homes, first = _homes(state, len(files) + 1), int(state.record[0].rows)
    rows = {files.path[folder]: first + folder * e.ROW_WORDS for folder in folders[1:]}
    root = first + len(files) * e.ROW_WORDS
    homes[-1, descriptors.FOLDER] = root
    for row, path in enumerate(files.path):
        above, _, name = path.rpartition("/")
        homes[row, descriptors.FOLDER] = rows.get(above, root)
        if files.is_dir[row] and above not in rows:
            homes[row, descriptors.HASH] = hashing.half_md4(name.encode())


def _known_folders(state: State, folders: list[int], root: int) -> None:
    """Create the records of the initial directories, with one block each; the first is the root, in block `root`."""
    record, arena = state.record[0], state.arena
    homes = _homes(state, int(record.row_count))
    for folder in folders:
        if folder == folders[0]:
            number, block = e.ROOT_INODE, root
        else:
            above = int(arena[homes[folder, descriptors.FOLDER]] or arena[record.rows + folders[0] * e.ROW_WORDS])
            number = int(orlov.take(record, arena, above, True, homes[folder, descriptors.HASH]))
            block = _block_for(state, number)
        f = e.add_folder(state, folder, number)
        arena[f + e.PAGES], arena[f + e.PAGE_COUNT], arena[f + e.EXTENTS] = record.arena_top, 1, 1
        arena[record.arena_top] = block << e.BLOCK_SHIFT
        record.arena_top += 1
    record.begun_group = -1
    record.meta_blocks += len(folders)


def _block_for(state: State, number: int) -> int:
    """Take and return a block for the directory of an inode."""
    record, arena = state.record[0], state.arena
    group = (number - 1) // int(record.group_inodes) >> int(record.flex_shift) << int(record.flex_shift)
    record.want, record.goal, record.try_goal, record.for_data, record.for_stream = 1, group * mballoc.GROUP, 0, 0, 0
    block = int(allocate(record, arena))
    descriptors.count_blocks(record, arena, block, 1, -1)
    return block


def _align(state: State, alignment: int) -> None:
    """Mark as used the free blocks before the first multiple of `alignment` bytes."""
    record, arena = state.record[0], state.arena
    at, unit = int(bitmap.next_bit(arena, record.bits, 0, record.blocks, True)), max(alignment // BLOCK, 1)
    end = min(-(-at // unit) * unit, int(record.blocks))
    while at < end:
        count = int(bitmap.next_bit(arena, record.bits, at, end, False)) - at
        mballoc.mark_run_used(record, arena, at, count)
        descriptors.count_blocks(record, arena, at, count, -1)
        record.fixed_blocks += count
        at = int(bitmap.next_bit(arena, record.bits, at + count, end, True))
