"""Make a fresh XFS as mkfs.xfs does: its allocation groups, its log, the first inodes and the directories of a trace.

Source: xfsprogs 6.1 mkfs/xfs_mkfs.c and mkfs/proto.c.  Unit: blocks of 4096 bytes.
"""

from scmsim.alloc import xfs_free_space, xfs_groups
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import State, load_templates, new_state
from scmsim.fs.linux import state as e
from scmsim.fs.xfs import cached_templates, templates
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.inodes import know_chunk, take_inode

SMALLEST_DEVICE = 300 << 8  # blocks of the smallest device that mkfs.xfs 6.1 accepts: 300 MiB


def default_log(blocks: int) -> int:
    """Return the log size, in blocks, that mkfs.xfs chooses.

    The log takes 1/2048 of the device, at least 64 MiB and at most 2 GiB.  mkfs.xfs 6.1 refuses a device of less than 300 MiB;
    below that, the model gives the log an eighth of the device, at least 2 MiB.
    """
    if blocks < SMALLEST_DEVICE:
        return max(blocks >> 3, 512)
    return max(min(blocks >> 11, 1 << 19), 1 << 14)


def default_groups(blocks: int) -> int:
    """Return the number of allocation groups that mkfs.xfs chooses: four from 64 MiB on, and more if a group would exceed 1 TiB."""
    if blocks < 1 << 14:
        return 1 if blocks < 1 << 13 else 2
    return 4 if blocks < 1 << 30 else -(-blocks // (1 << 28))


def start(
    params: dict[str, int],
    files: Files,
    *,
    table: str,
    dax: bool = True,
    fork: int = n.FORK_BYTES,
    leaf_by_inode: bool = False,
    by_folio: bool = False,
) -> State:
    """Return the state of an empty XFS of `params["capacity"]` bytes with a row for each of the trace's `files`.

    `table` names the costs; `fork` is the space, in bytes, for extents or entries in a new inode; `leaf_by_inode`
    places the leaves of a file's extents near its inode.  `by_folio`: the page cache has large folios by default, and the
    table has their costs.
    """
    kind = templates if dax else cached_templates
    names = cached_templates.FOLIO_COSTS if by_folio else kind.COSTS
    blocks = params["capacity"] // e.BLOCK
    groups = params["allocation_groups"] or default_groups(blocks)
    log = params["log"] // e.BLOCK or default_log(blocks)
    rows = len(files) + 1
    folders = e.known_folders(files)
    _check(params, groups, log)
    words = rows * (e.ROW_WORDS + 4) + xfs_groups.arena_words(blocks, groups) + 64 * len(folders) + (1 << 16)
    words += groups * (n.INODE_GROUP_WORDS + (n.AG_ITEMS << n.ITEM_ORDER))
    words += 4 * n.CHUNK_INODES * (groups + len(folders))
    state = new_state(n.STATE, 1 << words.bit_length(), costs.load(table, names, list(kind.SITES)))
    record = state.record[0]
    if not params["tick"]:
        record.cost[names.index("timer_tick"), :3] = 0
    by_table = params["crc32c"] == "table"
    steps = (
        templates.all_templates(bool(params["copy_fence"]), by_table)
        if dax
        else cached_templates.all_templates(by_table, by_folio)
    )
    load_templates(state, steps, merge=bool(params.get("merge", 1)))
    unit = max(params.get("data_alignment", e.BLOCK) // e.BLOCK, 1)
    used, chunks = layout(blocks, groups, log, unit)
    xfs_free_space.attach(state, used, blocks, groups)
    lists = {
        "inode_items": 2,
        "chunks": 2,
        "inode_groups": groups * n.INODE_GROUP_WORDS,
        "ag_items": groups * n.AG_ITEMS << n.ITEM_ORDER,
    }
    own = {name: params[name] for name in ("log_unit", "log_buffer", "sync_interval", "timestamp_tick")}
    own |= {
        "dax": int(dax),
        "intents": int(dax),
        "clears_end": int(dax),  # with the page cache, see `cached.clear_range`
        "fork": fork,
        "leaf_by_inode": int(leaf_by_inode),
        "dirty_expire": params.get("dirty_expire", 0),
        "folio_order": e.largest_folio(params, by_folio),
        "next_flush": e.FLUSHER_PERIOD,
        "journal_at": groups // 2 * int(record.ag_blocks) + n.AG_BLOCKS,
        "journal_blocks": log,
        "fixed_blocks": groups * (n.AG_BLOCKS + n.FREE_LIST) + log,
        "next_tick": params["sync_interval"],
    }
    own |= {"cil_limit": min(log * e.BLOCK >> 3, n.MOST_CIL), "sequence": 1}
    e.lay_out(state, files, lists, own | (e.DAX_PAGES if dax else e.CACHED_PAGES))
    _known(state, folders, chunks)
    return state


def layout(blocks: int, groups: int, log: int, unit: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the ranges (first block, blocks) that mkfs.xfs uses, and the first blocks of the chunks of inodes.

    If `unit` exceeds one block, each group has a chunk, and its free blocks start at a multiple of `unit` after it.
    """
    size = -(-blocks // groups)
    used, chunks = [], []
    for group in range(groups):
        first, end = group * size, n.AG_BLOCKS + n.FREE_LIST + (log if group == groups // 2 else 0)
        used.append((first, end))
        chunk = -(-end // n.CHUNK_BLOCKS) * n.CHUNK_BLOCKS
        if unit > 1:
            after = -(-(first + chunk + n.CHUNK_BLOCKS) // unit) * unit - first
            used.append((first + end, min(after, min(size, blocks - first)) - end))
        elif group == 0:
            used.append((chunk, n.CHUNK_BLOCKS))
        if unit > 1 or group == 0:
            chunks.append(first + chunk)
    return used, chunks


def _check(params: dict[str, int], groups: int, log: int) -> None:
    """Raise UsageError for parameters that no XFS can have."""
    capacity, unit, buffer = params["capacity"], params["log_unit"], params["log_buffer"]
    if capacity > n.LARGEST:
        raise UsageError(
            f"capacity {format_bytes(capacity)} is too large for the xfs model, which keeps two bits per block; "
            f"give {format_bytes(n.LARGEST)} or less"
        )
    least = n.AG_BLOCKS + n.FREE_LIST + 3 * n.CHUNK_BLOCKS  # blocks of a group without the log
    blocks, size = capacity // e.BLOCK, -(-capacity // e.BLOCK // max(groups, 1))
    if groups < 1 or log < 512 or blocks - size * (groups - 1) < least or size < log + least:
        raise UsageError(
            f"a log of {format_bytes(log * e.BLOCK)} and {groups} allocation groups on a device of "
            f"{format_bytes(capacity)} are not possible: the log takes at least {format_bytes(512 * e.BLOCK)}, and a group "
            f"holds the log and {format_bytes(least * e.BLOCK)} of other metadata; give a larger capacity, another log or fewer "
            "groups"
        )
    if unit < 512 or unit % 512 or buffer % unit or not unit <= buffer <= 256 << 10:
        raise UsageError(
            f"log_unit {format_bytes(unit)} and log_buffer {format_bytes(buffer)} are not possible: the unit must be a "
            "multiple of 512 bytes, the buffer a multiple of the unit and at most 256KiB; give e.g. 4KiB and 32KiB"
        )


def _known(state: State, folders: list[int], chunks: list[int]) -> None:
    """Create the items of the fixed metadata and the (empty) directories that exist from the start; the first is the root."""
    record, arena = state.record[0], state.arena
    for group in range(record.ag_count):
        for kind in range(n.AG_ITEMS):
            item = record.ag_items + ((group * n.AG_ITEMS + kind) << n.ITEM_ORDER)
            arena[item + n.HOME] = group * record.ag_blocks + n.AG_HOMES[kind]
    for chunk in chunks:
        know_chunk(record, arena, chunk)
        record.meta_blocks += n.CHUNK_BLOCKS
    for _ in range(n.FIRST_INODE):
        take_inode(record, arena, n.ROOT_INODE, False)
    for index, folder in enumerate(folders):
        inode = take_inode(record, arena, n.ROOT_INODE, True) if index else n.ROOT_INODE
        e.add_folder(state, folder, inode)
        item = record.arena_top
        record.arena_top += 1 << n.ITEM_ORDER
        arena[item + n.HOME], arena[item + n.MARK], arena[arena[record.inode_items] + inode] = inode, n.IS_INODE, item
