"""NOVA's namespace operations as recipes: the pieces that nova_names puts together in the order of the source.

Sources: NOVA (Linux 5.1 lineage, its port to 5.13) fs/nova/{namei,dir,inode,journal,log,rebuild}.c.  The bytes of every structure
are those of the fields that the source stores.  FAST'16 is given the same operations, without page counters and without
the inode's write-backs; its field bytes (100 of an inode, 30 of a changed entry) are estimates.
"""

from scmsim.fs.parts.emit import Steps
from scmsim.fs.parts.nova_recipes import (
    BARRIER, BYTES, CLOSE, COSTS, COUNT, CREATE, DOT_BYTES, DOTS, DROP_NAME, EVICT, FAST16_BYTES, FREED, FSYNC, INODE, LINE,
    LINK, LINK_CHANGE, LOG_BYTES, MAP, MKDIR, NEW_INODE, OLD, OLD_PAGE, OPEN, OTHER, READDIR, REMOVE, RENAME, RMDIR,
    SITES, STAT, TO, TRUNCATE, TRUNCATE_TAIL, UNLINK, UNLINK_NAME, VALID, ZEROED,
    new_tail, persist,
)  # fmt: skip
from scmsim.records import FLUSH, NTSTORE, STORE

DOT_FIELDS = 73  # "." and "..": 34 each, then 2 and 3 of the names (nova_init_dentry)
FAST16_DOT_FIELDS = 57
_STEPS = Steps(SITES, COSTS)
_step, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence


def name_recipes(counters: bool, inode_fence: bool) -> dict[int, list]:
    """Pieces of the namespace operations; dentries and link changes go to the logs by NAMED and RECORD."""
    written = persist(INODE, "inode", inode_fence)
    calls = {
        "create": CREATE, "mkdir": MKDIR, "unlink": UNLINK, "unlink_name": UNLINK_NAME, "rmdir": RMDIR, "rename": RENAME,
        "link": LINK, "open": OPEN, "stat": STAT, "readdir": READDIR, "mmap": MAP, "other_call": OTHER, "truncate": TRUNCATE,
    }  # fmt: skip
    return {
        NEW_INODE: [
            _step(STORE, "inode", INODE, 0, 106 if counters else 100),  # nova_new_vfs_inode, nova_init_inode
            _step(FLUSH, "inode", INODE, 0, 128 if counters else 120),
        ],
        DOTS: _dots(counters, inode_fence),
        VALID: [_step(STORE, "inode", INODE, 1, 1), *written, _fence("inode")],  # nova_lite_transaction_for_new_inode
        REMOVE: [_step(STORE, "inode", INODE, 96, 9)],  # valid and delete_epoch_id
        BARRIER: [_fence("inode")],  # before the journal's release, once the tails are written back
        DROP_NAME: [  # nova_update_old_dentry, then the barrier of nova_inplace_update_log_entry
            _step(STORE, "namespace", OLD, 0, 31 if counters else 30),
            *([_step(STORE, "namespace", OLD_PAGE, LOG_BYTES, 4)] if counters else []),
            *([_step(FLUSH, "namespace", OLD_PAGE, LOG_BYTES, 32)] if counters else []),
            _step(FLUSH, "namespace", OLD, 0, LINE if counters else 56),
            _fence("namespace"),
        ],
        LINK_CHANGE: [  # nova_update_link_change_entry, then the same; the inode's first line stands for the entry's
            _step(STORE, "namespace", INODE, 0, 32 if counters else 30),
            _step(FLUSH, "namespace", INODE, 0, LINE if counters else FAST16_BYTES),
            _fence("namespace"),
        ],
        EVICT: [  # nova_free_inode_resource, nova_free_inode_log
            _step(STORE, "inode", INODE, 2, 1),
            *(written if counters else []),
            _step(STORE, "inode", INODE, 64, 32),
            *written,
        ],
        TRUNCATE_TAIL: [
            _step(NTSTORE, "block zeroing", TO, 0, 0, BYTES, width=8),
            _fence("block zeroing"),
        ],
        FREED: [_work("free_page", 0, COUNT)],
        ZEROED: [_work("allocate", 1), _step(NTSTORE, "block zeroing", TO, 0, 0, BYTES, width=8)],
        CLOSE: [_work("close", 1), _fence("fsync")],
        FSYNC: [_work("fsync_call", 1), _fence("fsync")],
        **{recipe: [_work(cost, 1)] for cost, recipe in calls.items()},
    }


def _dots(counters: bool, inode_fence: bool) -> list:
    """The log of a new directory, behind LOG_PAGES: "." and ".." (nova_append_dir_init_entries), which are then read again.

    What is read again is stored again into the inode: 40 bytes (nova_rebuild_dir_inode_tree, nova_update_inode_with_rebuild).
    """
    log = _step(FLUSH, "log extension", INODE, 64, 64)
    if not counters:
        return [
            _step(STORE, "log extension", INODE, 64, 16),
            log,
            _step(STORE, "log append", TO, 0, FAST16_DOT_FIELDS),
            _step(FLUSH, "log append", TO, 0, FAST16_BYTES),
            _step(FLUSH, "log append", TO, FAST16_BYTES, FAST16_BYTES),
            *new_tail(INODE),
        ]
    return [
        _step(STORE, "log extension", INODE, 64, 16),
        _step(STORE, "log append", TO, 0, 2 * DOT_BYTES),
        _step(STORE, "log append", TO, 0, DOT_FIELDS),
        _step(FLUSH, "log append", TO, 0, LINE),
        _step(FLUSH, "log append", TO, DOT_BYTES, LINE),
        _step(STORE, "log append", TO, LOG_BYTES + 4, 4),
        _step(FLUSH, "log append", TO, LOG_BYTES, 32),
        _step(FLUSH, "log append", TO, 0, 2 * DOT_BYTES),
        *new_tail(INODE),
        log,
        _step(STORE, "inode", INODE, 8, 40),
        *persist(INODE, "inode", inode_fence),
    ]
