"""State of XFS: ext4's file records and page words, with log items, directories and the log in the arena; its space report.

Units: offsets and lengths in bytes, blocks and pages of 4096 bytes.  Sources: Linux 5.13
fs/xfs/libxfs/{xfs_format.h,xfs_log_format.h,xfs_da_format.h}, fs/xfs/{xfs_log.c,xfs_log_priv.h}; mkfs.xfs (xfsprogs
mkfs/xfs_mkfs.c: calculate_log_size) for the log's default and the layout with sectors of 4096 bytes.
"""

import numpy as np

from scmsim.alloc import xfs_free_space, xfs_groups
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import State, load_templates, new_state
from scmsim.fs.linux import state as e
from scmsim.fs.xfs.templates import COSTS, SITES, all_templates

# A log item, one word each unless said otherwise:
HOME = 0  # block of a buffer, or inode number
MASK = 1  # buffer: bits of the changed 128-byte chunks; inode: bytes of the changed fork
MARK = 2  # flags: IN_CIL, IN_AIL, IS_STALE, IS_INODE
BYTES = 3  # bytes that the item takes in the next checkpoint
NEXT_IN_CIL = 4  # next item of the committed item list, 0: none
NEXT_IN_AIL = 5  # next item of the active item list, 0: none
FILL = 6  # data block of a directory: bytes of its entries
ENTRIES_END = 7  # data block of a directory: byte after the last entry
ITEM_ORDER = 3
IN_CIL, IN_AIL, IS_STALE, IS_INODE = 1, 2, 4, 8

# Fixed metadata blocks of an allocation group, one item each: superblock and AGFL are never logged here.
AGF, BNO, CNT, AGI, INO, FINO = range(6)
AG_ITEMS = 6
AG_HOMES = (1, 4, 5, 2, 6, 7)  # their places in the group
AG_BLOCKS = 8  # four headers and four roots
FREE_LIST = 4  # blocks of a group that wait for the growth of its trees (AGFL)
INODE_ROOT = 6  # block of a group, near which its first chunk of inodes lies
LARGEST = 16 << 40  # bytes

OP_HEADER = 12  # xlog_op_header
BUFFER_FORMAT = 24 + OP_HEADER  # xfs_buf_log_format with one map word
CHUNK_SHIFT = 7  # XFS_BLF_SHIFT
INODE_FORMAT = 56 + 176 + 2 * OP_HEADER  # xfs_inode_log_format, xfs_log_dinode
EXTENT_BYTES = 16  # xfs_bmbt_rec
FORK_BYTES = 336  # room for extents or entries in a 512-byte inode: 512 - 176
EXTENTS_INLINE = 21
EXTENTS_PER_LEAF = 251  # (4096 - 72) / 16
BTREE_ROOT = 72  # header of the in-core root of a file's extent tree
ICREATE = 28 + OP_HEADER  # xfs_icreate_log
INTENT = 16 + OP_HEADER  # xfs_efi_log_format or xfs_efd_log_format, without its extents
FREE_AT_ONCE = 2  # extents freed in a transaction (XFS_ITRUNC_MAX_EXTENTS)
CHECKPOINT_BYTES = OP_HEADER + OP_HEADER + 16 + OP_HEADER  # start record, transaction header, commit record
RECORD_HEADER = 512  # header of a log buffer
CHECKED_HEADER = 328  # bytes of that header that its checksum covers: struct xlog_rec_header (xlog_cksum)
MOST_CIL = 32 << 20  # bytes (XLOG_CIL_SPACE_LIMIT)

INODE_BYTES = 512
CHUNK_INODES = 64
CHUNK_BLOCKS = CHUNK_INODES * INODE_BYTES // e.BLOCK
CLUSTER_BLOCKS = 4  # blocks that are written in place at once for an inode: 32 inodes (M_IGEO inode_cluster_size)
CLUSTER_INODES = 32
INODES_PER_BLOCK = e.BLOCK // INODE_BYTES
# Numbers count from the first chunk; the realtime inodes follow the root.  Files from before the trace share one of them if the
# device has no inode left.
ROOT_INODE, SHARED_INODE, FIRST_INODE = 0, 1, 3

# A chunk's row, one word each:
FIRST_BLOCK = 0
FREE = 1  # bits of its free inodes
NUMBER = 2  # chunks that the group had before
NEXT = 3  # 1 + next chunk of the group with free inodes, 0: none, NOT_LISTED: this chunk is in no list
CHUNK_WORDS = 4
NOT_LISTED = -1

# A row of the table of groups, one word each:
FREE_INODES = 0
CHUNKS = 1
NEWEST = 2  # 1 + newest chunk, 0: none
WITH_FREE = 3  # 1 + first chunk of a list of those with free inodes (and of some that were filled since), 0: none
INODE_GROUP_WORDS = 4

# A directory's record, one word each: fields that only files use in fs/linux.  Of the common fields, PAGES has the items
# of data blocks, LEAVES those of leaf blocks, and ENTRIES counts the bytes in the inode.
NAMES = e.DIRTY  # entries in data blocks
DATA_BYTES = e.FIRST_DIRTY_PAGE  # bytes of these entries
FORM = e.DIRTY_SINCE_NS  # IN_INODE to WITH_NODE
NODE = e.OLDER  # item of the node block
FREES = e.SLOT  # item of the block of free space
HINT = e.LIVE  # data block at which the search for room begins
# Any file has these too, in fields that only ext4's directories use.
ENTRY = e.SLOTS  # place of the newest name: data block << 12 | byte
OLDER_ENTRY = e.FIRST_ENTRY_SLOT  # place of the name before that one
KNOWN = e.GAP  # names whose places are known

IN_INODE, IN_BLOCK, WITH_LEAF, WITH_NODE = range(4)
DATA_HEADER = 64  # xfs_dir3_data_hdr
DOTS = 32  # entries of . and ..
LEAF_HEADER = 64
LEAF_ENTRY = 8
LEAF_FULL = 504  # (4096 - 64) / 8
ONE_LEAF = 500  # entries of the only leaf, which also holds the free space of data blocks
LEAF_FILL = LEAF_FULL // 2
SHORT_FULL = FORK_BYTES - 6
MOST_BLOCKS = 4  # most blocks that one name may take: a node, a block of free space, a leaf, a data block

EXTENT_PAGES = 1024  # pages that one transaction of a write maps (XFS caps it at 4 MiB)
ROOM = 64  # events that each operation may need
WORDS = 1024  # words that each operation may need besides its tables

STATE = np.dtype(
    (
        np.record,
        [
            *e.STATE.descr,
            ("inode_items", "i8"),  # arena offset of a table handle: inode -> its item
            ("chunks", "i8"),  # arena offset of a table handle of rows, one for each chunk of 64 inodes
            *xfs_groups.FIELDS,
            ("inode_groups", "i8"),  # arena offset of a table of groups
            ("next_group", "i8"),  # group of the next directory
            ("new_chunk", "i8"),  # set if the inode taken last is in a new chunk
            ("ag_items", "i8"),
            ("cil", "i8"),  # first item of the committed item list, 0 = none
            ("cil_items", "i8"),
            ("cil_bytes", "i8"),
            ("cil_limit", "i8"),
            ("freed_extents", "i8"),  # in the CIL: freed extents and freed inodes
            ("freed_inodes", "i8"),
            ("ail", "i8"),  # first item that is logged and not yet in place
            ("ail_items", "i8"),
            ("log_head", "i8"),  # bytes: position of the next checkpoint, and bytes in use
            ("log_used", "i8"),
            ("sequence", "i8"),  # checkpoints so far
            ("log_unit", "i8"),
            ("log_buffer", "i8"),
            ("sync_interval", "i8"),
            ("push", "i8"),  # set when all logged metadata must be written in place
        ],
    )
)


def default_log(blocks: int) -> int:
    """Return the log blocks that mkfs.xfs chooses.

    The log has 1/2048 of the device, at least 64 MiB and at most 2 GiB; on a small device an eighth.
    """
    return max(min(max(blocks >> 11, 1 << 14), 1 << 19, blocks >> 3), 512)


def default_groups(blocks: int) -> int:
    """Return the number of allocation groups that mkfs.xfs chooses: four from 64 MiB on, and of at most 1 TiB each."""
    if blocks < 1 << 14:
        return 1 if blocks < 1 << 13 else 2
    return 4 if blocks < 1 << 30 else -(-blocks // (1 << 28))


def start(params: dict[str, int], files: Files, *, table: str) -> State:
    """Return the state of an empty XFS of `params["capacity"]` bytes that knows the trace's `files`; `table` names the costs."""
    blocks = params["capacity"] // e.BLOCK
    groups = params["allocation_groups"] or default_groups(blocks)
    log = params["log"] // e.BLOCK or default_log(blocks)
    rows = len(files) + 1
    folders = e.known_folders(files)
    _check(params, groups, log)
    words = rows * (e.ROW_WORDS + 4) + xfs_groups.arena_words(blocks, groups) + 64 * len(folders) + (1 << 16)
    words += groups * (INODE_GROUP_WORDS + (AG_ITEMS << ITEM_ORDER)) + 4 * CHUNK_INODES * (groups + len(folders))
    state = new_state(STATE, 1 << words.bit_length(), costs.load(table, COSTS, list(SITES)))
    record = state.record[0]
    if not params["tick"]:
        record.cost[COSTS.index("timer_tick"), :3] = 0
    load_templates(
        state,
        all_templates(bool(params["copy_fence"]), params["crc32c"] == "table"),
        merge=bool(params.get("merge", 1)),
    )
    unit = max(params["data_alignment"] // e.BLOCK, 1)
    used, chunks = layout(blocks, groups, log, unit)
    xfs_free_space.attach(state, used, blocks, groups)
    lists = {
        "inode_items": 2,
        "chunks": 2,
        "inode_groups": groups * INODE_GROUP_WORDS,
        "ag_items": groups * AG_ITEMS << ITEM_ORDER,
    }
    own = {name: params[name] for name in ("log_unit", "log_buffer", "sync_interval", "timestamp_tick")}
    own |= {
        "dax": 1,
        "journal_at": groups // 2 * int(record.ag_blocks) + AG_BLOCKS,
        "journal_blocks": log,
        "fixed_blocks": groups * (AG_BLOCKS + FREE_LIST) + log,
        "next_tick": params["sync_interval"],
    }
    own |= {"cil_limit": min(log * e.BLOCK >> 3, MOST_CIL), "sequence": 1}
    e.lay_out(state, files, lists, own | e.DAX_PAGES)
    _known(state, folders, chunks)
    return state


def layout(blocks: int, groups: int, log: int, unit: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the ranges (first block, blocks) that mkfs.xfs uses, and the first blocks of the chunks of inodes.

    With a `unit` of more than a block each group has a chunk, and nothing is free before the first multiple of the unit after it.
    """
    size = -(-blocks // groups)
    used, chunks = [], []
    for group in range(groups):
        first, end = group * size, AG_BLOCKS + FREE_LIST + (log if group == groups // 2 else 0)
        used.append((first, end))
        chunk = -(-end // CHUNK_BLOCKS) * CHUNK_BLOCKS
        if unit > 1:
            after = -(-(first + chunk + CHUNK_BLOCKS) // unit) * unit - first
            used.append((first + end, min(after, min(size, blocks - first)) - end))
        elif group == 0:
            used.append((chunk, CHUNK_BLOCKS))
        if unit > 1 or group == 0:
            chunks.append(first + chunk)
    return used, chunks


def _check(params: dict[str, int], groups: int, log: int) -> None:
    """Raise UsageError for parameters that no XFS can have."""
    capacity, unit, buffer = params["capacity"], params["log_unit"], params["log_buffer"]
    if capacity > LARGEST:
        raise UsageError(
            f"capacity {format_bytes(capacity)} is too large for the xfs model, which keeps two bits a block; "
            f"give {format_bytes(LARGEST)} or less"
        )
    least = AG_BLOCKS + FREE_LIST + 3 * CHUNK_BLOCKS  # blocks of a group without the log
    blocks, size = capacity // e.BLOCK, -(-capacity // e.BLOCK // max(groups, 1))
    if groups < 1 or log < 512 or blocks - size * (groups - 1) < least or size < log + least:
        raise UsageError(
            f"a log of {format_bytes(log * e.BLOCK)} and {groups} allocation groups on a device of "
            f"{format_bytes(capacity)} do not work: the log takes at least {format_bytes(512 * e.BLOCK)} and fits in a group, "
            f"which has {format_bytes(least * e.BLOCK)} besides; give a larger capacity, another log or fewer groups"
        )
    if unit < 512 or unit % 512 or buffer % unit or not unit <= buffer <= 256 << 10:
        raise UsageError(
            f"log_unit {format_bytes(unit)} and log_buffer {format_bytes(buffer)} are not possible: the unit must be a "
            "multiple of 512 bytes, the buffer a multiple of the unit and at most 256KiB; give e.g. 4KiB and 32KiB"
        )


def _known(state: State, folders: list[int], chunks: list[int]) -> None:
    """Create the items of the fixed metadata and the (empty) directories that exist from the start; the first is the root."""
    from scmsim.fs.xfs.inodes import know_chunk, take_inode  # they know this module's constants

    record, arena = state.record[0], state.arena
    for group in range(record.ag_count):
        for kind in range(AG_ITEMS):
            item = record.ag_items + ((group * AG_ITEMS + kind) << ITEM_ORDER)
            arena[item + HOME] = group * record.ag_blocks + AG_HOMES[kind]
    for chunk in chunks:
        know_chunk(record, arena, chunk)
        record.meta_blocks += CHUNK_BLOCKS
    for _ in range(FIRST_INODE):
        take_inode(record, arena, ROOT_INODE, False)
    for index, folder in enumerate(folders):
        inode = take_inode(record, arena, ROOT_INODE, True) if index else ROOT_INODE
        e.add_folder(state, folder, inode)
        item = record.arena_top
        record.arena_top += 1 << ITEM_ORDER
        arena[item + HOME], arena[item + MARK], arena[arena[record.inode_items] + inode] = inode, IS_INODE, item


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes, as ext4's; XFS does not preallocate for direct writes."""
    record = state.record[0]
    report = e.space(state)
    report |= {"uncommitted_bytes": int(record.cil_bytes), "commits": int(record.sequence) - 1}
    return {**report, "logged_items": int(record.ail_items)}
