"""Registers and recipes of the kernels that Linux's file systems share: their numbers, and where kernel objects lie.

What a recipe emits is a family's own (`recipes.py` in its folder); one that a family leaves empty emits nothing.
"""

# Registers.
(
    ZERO, INODE, SLOT, USER_AT, BYTES, TO, HEAD, HEAD_LINE, BODY_USER, BODY_AT, BODY, WIDTH, TAIL_USER,
    TAIL_AT, TAIL, TAIL_LINE_AT, TAIL_LINE, LINES, FROM, HAS, PAGES, NEW, GROWN, COUNT, BITMAP, GROUP, LOG,
    LOG_WRAPPED, COMMIT_AT, REVOKES,
) = range(30)  # fmt: skip
# Entries of a directory that are looked at for a name, for room, and for the one before an entry that goes; names that the dentry
# cache does not know, and searches of an index.
SEARCHED, PLACED, REMOVED, LOOKUPS, PROBES = NEW, GROWN, COUNT, HAS, PAGES
# A file system without a journal uses these for other things.
LEVELS, SCANNED, POINTERS = LOG, LOG_WRAPPED, COMMIT_AT

# Recipes.
(
    WRITE, TIMES, ALLOCATE, COPY, FINISH, FILL, READ, COPY_OUT, READ_PAGES, DIRTY_INODE, FLUSH_RUN,
    FLUSH_LOAD, FLUSHED, FSYNC, BARRIER, IMAGE, COMMIT, CHECKPOINT, IN_PLACE, NAME, CREATE, OPEN, CLOSE, STAT,
    OTHER, UNLINK, REMOVE, RMDIR, RENAME, LINK, MKDIR, FREED, TRUNCATE, FALLOCATE, FALLOCATED, CLEAR_PM,
    CLEAR_FRAME, ORPHAN, SYNC, EDGES, MAP, SCAN, JOINED, ACCESSED,
) = range(44)  # fmt: skip

RECIPES = ACCESSED + 1
BLOCK = 4096
BARRIER_FENCES = 2
# Where kernel objects lie in space KERNEL: areas of 1 TiB, far more than they use.
ZERO_PAGE, BUFFERS, INODES, FRAMES, DESCRIPTORS = BLOCK, 1 << 40, 2 << 40, 3 << 40, 4 << 40
