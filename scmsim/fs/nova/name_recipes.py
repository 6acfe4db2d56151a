"""NOVA's namespace operations as recipes: the pieces that nova_names puts together in the order of the source.

Sources: NOVA (Linux 5.1 lineage, its port to 5.13) fs/nova/{namei,dir,inode,journal,log,rebuild}.c.  The bytes of every structure
are those of the fields that the source stores.  FAST'16 is given the same operations, without page counters and without
the inode's write-backs; its field bytes (100 of an inode, 30 of a changed entry) are estimates.
"""

from scmsim.core.records import FLUSH, NTSTORE, STORE
from scmsim.fs.engine.events import Steps
from scmsim.fs.nova import recipes as q

DOT_FIELDS = 73  # "." and "..": 34 each, then 2 and 3 of the names (nova_init_dentry)
FAST16_DOT_FIELDS = 57
_STEPS = Steps(q.SITES, q.COSTS)
_step, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence


def name_recipes(counters: bool, inode_fence: bool) -> dict[int, list]:
    """Pieces of the namespace operations; dentries and link changes go to the logs by NAMED and RECORD."""
    written = q.persist(q.INODE, "inode", inode_fence)
    calls = {
        "create": q.CREATE, "mkdir": q.MKDIR, "unlink": q.UNLINK, "unlink_name": q.UNLINK_NAME, "rmdir": q.RMDIR,
        "rename": q.RENAME, "link": q.LINK, "open": q.OPEN, "stat": q.STAT, "readdir": q.READDIR, "mmap": q.MAP,
        "truncate": q.TRUNCATE, "other_call": q.OTHER,
    }  # fmt: skip
    return {
        q.NEW_INODE: [
            _step(STORE, "inode", q.INODE, 0, 106 if counters else 100),  # nova_new_vfs_inode, nova_init_inode
            _step(FLUSH, "inode", q.INODE, 0, 128 if counters else 120),
        ],
        q.DOTS: _dots(counters, inode_fence),
        q.VALID: [  # nova_lite_transaction_for_new_inode: its own barrier behind that of the write-back
            _step(STORE, "inode", q.INODE, 1, 1),
            *written,
            _fence("inode"),
        ],
        q.REMOVE: [_step(STORE, "inode", q.INODE, 96, 9)],  # valid and delete_epoch_id
        q.BARRIER: [_fence("inode")],  # before the journal's release, once the tails are written back
        q.DROP_NAME: [  # nova_update_old_dentry, then the barrier of nova_inplace_update_log_entry
            _step(STORE, "namespace", q.OLD, 0, 31 if counters else 30),
            *([_step(STORE, "namespace", q.OLD_PAGE, q.LOG_BYTES, 4)] if counters else []),
            *([_step(FLUSH, "namespace", q.OLD_PAGE, q.LOG_BYTES, 32)] if counters else []),
            _step(FLUSH, "namespace", q.OLD, 0, q.LINE if counters else 56),
            _fence("namespace"),
        ],
        q.LINK_CHANGE: [  # nova_update_link_change_entry, then the same; the inode's first line stands for the entry's
            _step(STORE, "namespace", q.INODE, 0, 32 if counters else 30),
            _step(FLUSH, "namespace", q.INODE, 0, q.LINE if counters else q.FAST16_BYTES),
            _fence("namespace"),
        ],
        q.EVICT: [  # nova_free_inode_resource, nova_free_inode_log
            _step(STORE, "inode", q.INODE, 2, 1),
            *(written if counters else []),
            _step(STORE, "inode", q.INODE, 64, 32),
            *written,
        ],
        q.TRUNCATE_TAIL: [
            _step(NTSTORE, "block zeroing", q.TO, 0, 0, q.BYTES, width=8),
            _fence("block zeroing"),
        ],
        q.FREED: [_work("free_page", 0, q.COUNT)],
        q.ZEROED: [_work("allocate", 1), _step(NTSTORE, "block zeroing", q.TO, 0, 0, q.BYTES, width=8)],
        q.CLOSE: [_work("close", 1), _fence("fsync")],
        q.FSYNC: [_work("fsync_call", 1), _fence("fsync")],
        **{recipe: [_work(cost, 1)] for cost, recipe in calls.items()},
    }


def _dots(counters: bool, inode_fence: bool) -> list:
    """The log of a new directory, behind LOG_PAGES: "." and ".." (nova_append_dir_init_entries), which are then read again.

    What is read again is stored again into the inode: 40 bytes (nova_rebuild_dir_inode_tree, nova_update_inode_with_rebuild).
    """
    log = _step(FLUSH, "log extension", q.INODE, 64, 64)
    if not counters:
        return [
            _step(STORE, "log extension", q.INODE, 64, 16),
            log,
            _step(STORE, "log append", q.TO, 0, FAST16_DOT_FIELDS),
            _step(FLUSH, "log append", q.TO, 0, q.FAST16_BYTES),
            _step(FLUSH, "log append", q.TO, q.FAST16_BYTES, q.FAST16_BYTES),
            *q.new_tail(q.INODE),
        ]
    return [
        _step(STORE, "log extension", q.INODE, 64, 16),
        _step(STORE, "log append", q.TO, 0, 2 * q.DOT_BYTES),
        _step(STORE, "log append", q.TO, 0, DOT_FIELDS),
        _step(FLUSH, "log append", q.TO, 0, q.LINE),
        _step(FLUSH, "log append", q.TO, q.DOT_BYTES, q.LINE),
        _step(STORE, "log append", q.TO, q.LOG_BYTES + 4, 4),
        _step(FLUSH, "log append", q.TO, q.LOG_BYTES, 32),
        _step(FLUSH, "log append", q.TO, 0, 2 * q.DOT_BYTES),
        *q.new_tail(q.INODE),
        log,
        _step(STORE, "inode", q.INODE, 8, 40),
        *q.persist(q.INODE, "inode", inode_fence),
    ]
