"""State of a file system whose only storage is the page cache (tmpfs, ramfs): ext4's files without blocks, journal and
directories on a device.

Units: bytes, pages of 4096 bytes.  The pages come from a first-fit list of the DRAM that the file system may use.
Source: Linux mm/shmem.c, fs/ramfs/inode.c, fs/libfs.c.
"""

import numpy as np

from scmsim.alloc import first_fit
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import State, load_recipes, new_state
from scmsim.fs.linux import state as e
from scmsim.fs.linux.recipes import BLOCK, FRAMES
from scmsim.fs.tmpfs.recipes import COSTS, SITES, all_recipes

NEVER = 1 << 62  # ns
IS_USED = 8  # flag of a page's word: it was used twice, which does not tell it apart from others
PAGES = {**e.DAX_PAGES, "key": ~IS_USED, "key_base": FRAMES, "page_bits": e.IS_CACHED}


def start(params: dict[str, int], files: Files, *, table: str, activates: bool) -> State:
    """State of an empty file system in `params["capacity"]` bytes of DRAM; `table` names the costs."""
    if params["capacity"] > e.LARGEST:
        raise UsageError(
            f"capacity {format_bytes(params['capacity'])} is too large for a file system in memory; "
            f"give {format_bytes(e.LARGEST)} or less"
        )
    pages, rows = params["capacity"] // BLOCK, len(files) + 1
    words = rows * (e.ROW_WORDS + 1) + first_fit.arena_words(pages) + (1 << 16)
    state = new_state(e.STATE, 1 << words.bit_length(), costs.load(table, COSTS, list(SITES)))
    record = state.record[0]
    if not params["tick"]:
        record.cost[COSTS.index("timer_tick"), :3] = 0
    load_recipes(state, all_recipes(activates))
    first_fit.attach(state, 1, pages)  # a page word of 0 is a hole
    for name, count in {"rows": rows * e.ROW_WORDS, "free_inodes": rows}.items():
        record[name] = record.arena_top
        record.arena_top += count
    own = {"dax": 1, "row_count": rows, "tid": 1, "txn_limit": NEVER}
    own |= {"next_inode": e.FIRST_INODE, "inode_count": NEVER, "group_inodes": NEVER, "oldest": -1, "newest": -1}
    own |= {"next_tick": NEVER, "commit_interval": NEVER, "dirty_expire": NEVER}
    for name, value in (own | PAGES).items():
        record[name] = value
    rows_at = state.arena[record.rows : record.rows + rows * e.ROW_WORDS].reshape(rows, e.ROW_WORDS)
    rows_at[:-1, e.ROW_SIZE], rows_at[:-1, e.ROW_DIR], rows_at[-1, e.ROW_DIR] = files.first_size, files.is_dir, 1
    rows_at[:-1, e.ROW_NAME] = [len(path.rpartition("/")[2].encode()) for path in files.path]
    for folder in [rows - 1, *np.flatnonzero(files.is_dir & (files.first_size >= 0)).tolist()]:
        _known_folder(state, folder)
    return state


def _known_folder(state: State, folder: int) -> None:
    """Record of a directory that exists from the start."""
    record, arena = state.record[0], state.arena
    f = int(record.arena_top)
    record.arena_top += 1 << e.RECORD_ORDER
    if record.arena_top > len(arena):
        state.grow(1 << 16)
        arena = state.arena
    arena[record.rows + folder * e.ROW_WORDS] = f
    arena[f + e.IS_DIR], arena[f + e.LINKS], arena[f + e.STAMP] = 1, 1, -1
    arena[f + e.PARENT] = record.rows + (record.row_count - 1) * e.ROW_WORDS
    arena[f + e.INODE] = record.next_inode
    record.next_inode += 1


def space(state: State) -> dict[str, int]:
    """Space report in bytes (see linux.state.space); without what only a file system on a device has."""
    report = e.space(state)
    for name in ("journal_bytes", "preallocated_bytes", "dirty_bytes", "uncommitted_bytes", "commits"):
        del report[name]
    return report
