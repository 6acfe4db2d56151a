"""State of a file system whose only storage is the page cache (tmpfs, ramfs).

It is the state of ext4's files, without a device: no blocks, no journal, no stored directories.

Units: bytes, pages of 4096 bytes. The pages come from a first-fit list of the DRAM that the file system may use.
Source: Linux mm/shmem.c, fs/ramfs/inode.c, fs/libfs.c.
"""

from scmsim.alloc import first_fit
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import State, load_templates, new_state
from scmsim.fs.linux import state as e
from scmsim.fs.linux.templates import BLOCK, FRAMES
from scmsim.fs.tmpfs.templates import COSTS, SITES, all_templates

NEVER = 1 << 62  # ns
IS_USED = 8  # flag of a page's entry: the page was used twice; comparisons of pages ignore the flag
IS_UNUSED = 32  # flag: a fault allocated the page, which is not a use; a huge page's first entry has both flags
IS_HUGE = 16  # flag: the page is part of a huge page
HUGE_ORDER = 9  # log2 of the pages of a huge page
HUGE = ("never", "always", "within_size", "advise")  # values of the mount option
NEVER_HUGE, ALWAYS_HUGE, WITHIN_SIZE, ADVISE = range(len(HUGE))
PAGES = {
    **e.DAX_PAGES,
    "key": ~(IS_USED | IS_UNUSED | IS_HUGE | e.IS_CACHED),
    "key_base": FRAMES,
    "page_bits": e.IS_CACHED,
}


def start(params: dict[str, int], files: Files, *, table: str, activates: bool, by_page: bool = False) -> State:
    """Return the state of an empty file system in `params["capacity"]` bytes of DRAM; `table` names the cost table.

    `activates`: the second use of a page moves it to the active list; `by_page`: fallocate and truncation go page by
    page in huge pages.
    """
    if params["capacity"] > e.LARGEST:
        raise UsageError(
            f"capacity {format_bytes(params['capacity'])} is too large for a file system in memory; "
            f"give {format_bytes(e.LARGEST)} or less"
        )
    pages, rows = params["capacity"] // BLOCK, len(files) + 1
    folders = e.known_folders(files)
    words = rows * (e.ROW_WORDS + 1) + first_fit.arena_words(pages) + 64 * len(folders) + (1 << 16)
    state = new_state(e.STATE, 1 << words.bit_length(), costs.load(table, COSTS, list(SITES)))
    record = state.record[0]
    if not params["tick"]:
        record.cost[COSTS.index("timer_tick"), :3] = 0
    load_templates(state, all_templates(activates))
    first_fit.attach(state, 1, pages)  # 0 in a page's entry means a hole
    own = {"dax": 1, "tid": 1, "txn_limit": NEVER, "inode_count": NEVER, "group_inodes": NEVER, "next_tick": NEVER}
    own |= {"commit_interval": NEVER, "dirty_expire": NEVER, "next_inode": e.FIRST_INODE + len(folders)}
    own["by_page"] = by_page
    own["huge"] = HUGE.index(params.get("huge", "never"))
    own["folio_order"] = HUGE_ORDER if own["huge"] else 0
    e.lay_out(state, files, {"free_inodes": rows}, own | PAGES)
    for index, folder in enumerate(folders):
        e.add_folder(state, folder, e.FIRST_INODE + index)
    return state


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes (see `linux.state.space`), without the fields of a file system on a device."""
    report = e.space(state)
    for name in ("journal_bytes", "preallocated_bytes", "dirty_bytes", "uncommitted_bytes", "commits"):
        del report[name]
    return report
