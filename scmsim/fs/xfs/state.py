"""State of XFS: the file records of `scmsim.fs.linux`, log items, directories and the log in the arena; the space report.

Units: offsets and lengths in bytes, blocks and pages of 4096 bytes.  Sources: Linux 5.13
fs/xfs/libxfs/{xfs_format.h,xfs_log_format.h,xfs_da_format.h}, fs/xfs/{xfs_log.c,xfs_log_priv.h}; mkfs.xfs (xfsprogs
mkfs/xfs_mkfs.c: calculate_log_size) for the log's default and the layout with sectors of 4096 bytes.
"""

import numpy as np

from scmsim.alloc import xfs_groups
from scmsim.fs.engine.events import State
from scmsim.fs.linux import state as e

# Fields of a log item, one arena word each:
HOME = 0  # block of a buffer, or inode number
MASK = 1  # buffer: bits of the changed 128-byte chunks; inode: bytes of the changed fork
MARK = 2  # flags: IN_CIL, IN_AIL, IS_STALE, IS_INODE
BYTES = 3  # bytes that the item takes in the next checkpoint
NEXT_IN_CIL = 4  # next item of the committed item list; 0 if none
NEXT_IN_AIL = 5  # next item of the active item list; 0 if none
FILL = 6  # data block of a directory: bytes of its entries
ENTRIES_END = 7  # data block of a directory: byte after the last entry
ITEM_ORDER = 3
IN_CIL, IN_AIL, IS_STALE, IS_INODE = 1, 2, 4, 8

# Fixed metadata blocks of an allocation group, one log item each; the model never logs the superblock and the AGFL.
AGF, BNO, CNT, AGI, INO, FINO = range(6)
AG_ITEMS = 6
AG_HOMES = (1, 4, 5, 2, 6, 7)  # block numbers of these metadata blocks within the group
AG_BLOCKS = 8  # four headers and four roots
FREE_LIST = 4  # blocks of a group that are reserved for the growth of its trees (AGFL)
INODE_ROOT = 6  # goal, as a block within the group, of a group's first inode chunk
LARGEST = 16 << 40  # bytes

OP_HEADER = 12  # xlog_op_header
BUFFER_FORMAT = 24 + OP_HEADER  # xfs_buf_log_format with one map word
CHUNK_SHIFT = 7  # XFS_BLF_SHIFT
INODE_FORMAT = 56 + 176 + 2 * OP_HEADER  # xfs_inode_log_format, xfs_log_dinode
EXTENT_BYTES = 16  # xfs_bmbt_rec
FORK_BYTES = 336  # bytes for extents or entries in a 512-byte inode: 512 - 176
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
# Inode numbers count from the first chunk.  The two realtime inodes follow the root inode.  If the device has no
# free inode, files from before the trace share the number of a realtime inode (SHARED_INODE).
ROOT_INODE, SHARED_INODE, FIRST_INODE = 0, 1, 3

# Fields of an inode chunk's row, one arena word each:
FIRST_BLOCK = 0
FREE = 1  # bitmap of its free inodes
NUMBER = 2  # number of chunks that the group had before this one
NEXT = 3  # 1 + next chunk of the group with free inodes; 0 if none; NOT_LISTED if this chunk is in no list
CHUNK_WORDS = 4
NOT_LISTED = -1

# Fields of a row of the table of groups, one arena word each:
FREE_INODES = 0
CHUNKS = 1
NEWEST = 2  # 1 + newest chunk; 0 if none
WITH_FREE = 3  # 1 + first of the listed chunks, which had free inodes when they were listed; 0 if none
INODE_GROUP_WORDS = 4

# Additional fields of a directory's record, one arena word each, which fs/linux uses only for files.  Of the common fields, PAGES
# lists the log items of data blocks, LEAVES those of leaf blocks, and ENTRIES is the size in bytes of the entries in the form in
# the inode.
NAMES = e.DIRTY  # entries in data blocks
DATA_BYTES = e.FIRST_DIRTY_PAGE  # bytes of these entries
FORM = e.DIRTY_SINCE_NS  # IN_INODE, IN_BLOCK, WITH_LEAF or WITH_NODE
NODE = e.OLDER  # item of the node block
FREES = e.SLOT  # item of the block of free space
HINT = e.LIVE  # data block at which the search for free space begins
# Fields of the records of files and directories, in words that otherwise only ext4's directories use:
ENTRY = e.SLOTS  # place of the newest name: data block << 12 | byte
OLDER_ENTRY = e.FIRST_ENTRY_SLOT  # place of the name before that one
KNOWN = e.GAP  # names whose places are known

# Additional fields of a file's record with the page cache, one arena word each, which XFS does not use otherwise:
DISK_SIZE = e.LAST_GROUP  # bytes: the file's length in its inode on the device (i_disk_size)
DELAYED = e.PREALLOCATIONS  # pages whose block is only reserved (i_delayed_blks)
FLAGS = e.FRESH  # bits:
CLOSED_DIRTY = 1  # closed with delayed pages: later closes keep the preallocation (XFS_IDIRTY_RELEASE)
TRUNCATED = 2  # truncated since the last close, which then writes the file back (XFS_ITRUNCATED)
PREALLOCATED = 4  # fallocate gave it blocks, which a close keeps (XFS_DIFLAG_PREALLOC)

IN_INODE, IN_BLOCK, WITH_LEAF, WITH_NODE = range(4)
DATA_HEADER = 64  # xfs_dir3_data_hdr
DOTS = 32  # entries of . and ..
LEAF_HEADER = 64
LEAF_ENTRY = 8
LEAF_FULL = 504  # (4096 - 64) / 8
ONE_LEAF = 500  # entries of the only leaf, which also holds the free space of data blocks
LEAF_FILL = LEAF_FULL // 2
SHORT_HEADER = 6  # xfs_dir2_sf_hdr
MOST_BLOCKS = 4  # maximum number of blocks that one name may take: a node, a block of free space, a leaf, a data block
MOST_FREED = 64  # extents that an operation may free besides those of its files: blocks of directories

EXTENT_PAGES = 1024  # maximum number of pages (4 MiB) that one transaction of a write maps
ROOM = 64  # events that each operation may need
WORDS = 1024  # arena words that each operation may need besides its tables

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
            ("mover", "i8"),  # table row of the file that replaces another one by a rename; 0 if none
            ("new_chunk", "i8"),  # set if the newest inode is the first one of a new chunk
            ("ag_items", "i8"),
            ("cil", "i8"),  # first item of the committed item list, 0 = none
            ("cil_items", "i8"),
            ("cil_bytes", "i8"),
            ("cil_limit", "i8"),
            ("freed_extents", "i8"),  # extents freed since the last checkpoint
            ("freed_inodes", "i8"),  # inodes freed since the last checkpoint
            ("intents", "i8"),  # 1 if intents are logged whose done item is in the same checkpoint (until Linux 5.18)
            ("ail", "i8"),  # first item that is logged and not yet in place
            ("ail_items", "i8"),
            ("log_head", "i8"),  # byte offset in the log at which the next checkpoint starts
            ("log_used", "i8"),  # bytes of the log that are in use
            ("sequence", "i8"),  # number of the next checkpoint
            ("log_unit", "i8"),
            ("log_buffer", "i8"),
            ("sync_interval", "i8"),
            ("leaf_by_inode", "i8"),  # set if a leaf's place follows the file's inode (from Linux 6.3 on)
            ("fork", "i8"),  # bytes for extents or entries in an inode; the root directory's has FORK_BYTES
            ("old_size", "i8"),  # bytes: file size before the current operation; -1 if the operation cleared bytes
            ("next_flush", "i8"),  # ns: when the flusher thread runs next (page cache)
            ("push", "i8"),  # set when all logged metadata must be written in place
        ],
    )
)


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes; blocks past a file's end count as blocks of the file."""
    record = state.record[0]
    report = e.space(state)
    report |= {"uncommitted_bytes": int(record.cil_bytes), "commits": int(record.sequence) - 1}
    return {**report, "logged_items": int(record.ail_items)}
