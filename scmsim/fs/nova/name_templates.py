"""Define NOVA's namespace operations as recipes: the pieces that `names` combines in the order of the source.

Sources: NOVA (Linux 5.1 lineage, its port to 5.13) fs/nova/{namei,dir,inode,journal,log,rebuild}.c. The bytes of every
structure are those of the fields that the source stores. FAST'16 gets the same operations, without page counters and
without write-backs of the inode; its field bytes (100 of an inode, 30 of a changed entry) are estimates.
"""

from scmsim.core.records import FLUSH, NTSTORE, STORE
from scmsim.fs.engine.events import RecipeBuilder
from scmsim.fs.nova import recipes

DOT_FIELDS = 73  # "." and "..": 34 bytes each, then 2 and 3 of the names (nova_init_dentry)
FAST16_DOT_FIELDS = 57
_STEPS = RecipeBuilder(recipes.SITES, recipes.COSTS)
_step, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence


def name_recipes(counters: bool, inode_fence: bool) -> dict[int, list]:
    """Return the pieces of the namespace operations; NAMED and RECORD write dentries and link changes to the logs."""
    written = recipes.persist(recipes.INODE, "inode", inode_fence)
    calls = {
        "create": recipes.CREATE, "mkdir": recipes.MKDIR, "unlink": recipes.UNLINK, "unlink_name": recipes.UNLINK_NAME,
        "rmdir": recipes.RMDIR, "rename": recipes.RENAME, "link": recipes.LINK, "open": recipes.OPEN, "stat": recipes.STAT,
        "readdir": recipes.READDIR, "mmap": recipes.MAP, "truncate": recipes.TRUNCATE, "other_call": recipes.OTHER,
    }  # fmt: skip
    return {
        recipes.NEW_INODE: [
            _step(STORE, "inode", recipes.INODE, 0, 106 if counters else 100),  # nova_new_vfs_inode, nova_init_inode
            _step(FLUSH, "inode", recipes.INODE, 0, 128 if counters else 120),
        ],
        recipes.DOTS: _dots(counters, inode_fence),
        recipes.VALID: [  # nova_lite_transaction_for_new_inode: a barrier of its own after that of the write-back
            _step(STORE, "inode", recipes.INODE, 1, 1),
            *written,
            _fence("inode"),
        ],
        recipes.REMOVE: [_step(STORE, "inode", recipes.INODE, 96, 9)],  # valid and delete_epoch_id
        recipes.BARRIER: [_fence("inode")],  # before the journal's release, after the write-back of the tails
        recipes.DROP_NAME: [  # nova_update_old_dentry, then the barrier of nova_inplace_update_log_entry
            _step(STORE, "namespace", recipes.OLD, 0, 31 if counters else 30),
            *([_step(STORE, "namespace", recipes.OLD_PAGE, recipes.LOG_BYTES, 4)] if counters else []),
            *([_step(FLUSH, "namespace", recipes.OLD_PAGE, recipes.LOG_BYTES, 32)] if counters else []),
            _step(FLUSH, "namespace", recipes.OLD, 0, recipes.LINE if counters else 56),
            _fence("namespace"),
        ],
        recipes.LINK_CHANGE: [  # nova_update_link_change_entry, same barrier; the inode's first line replaces the entry's
            _step(STORE, "namespace", recipes.INODE, 0, 32 if counters else 30),
            _step(FLUSH, "namespace", recipes.INODE, 0, recipes.LINE if counters else recipes.FAST16_BYTES),
            _fence("namespace"),
        ],
        recipes.EVICT: [  # nova_free_inode_resource, nova_free_inode_log
            _step(STORE, "inode", recipes.INODE, 2, 1),
            *(written if counters else []),
            _step(STORE, "inode", recipes.INODE, 64, 32),
            *written,
        ],
        recipes.TRUNCATE_TAIL: [
            _step(NTSTORE, "block zeroing", recipes.TO, 0, 0, recipes.BYTES, width=8),
            _fence("block zeroing"),
        ],
        recipes.FREED: [_work("free_page", 0, recipes.COUNT)],
        recipes.ZEROED: [
            _work("allocate", 1),
            _step(NTSTORE, "block zeroing", recipes.TO, 0, 0, recipes.BYTES, width=8),
        ],
        recipes.CLOSE: [_work("close", 1), _fence("fsync")],
        recipes.FSYNC: [_work("fsync_call", 1), _fence("fsync")],
        **{recipe: [_work(cost, 1)] for cost, recipe in calls.items()},
    }


def _dots(counters: bool, inode_fence: bool) -> list:
    """Return the log of a new directory after LOG_PAGES: "." and ".." (nova_append_dir_init_entries), then their rebuild.

    The rebuild reads both entries again and stores 40 bytes into the inode (nova_rebuild_dir_inode_tree,
    nova_update_inode_with_rebuild).
    """
    log = _step(FLUSH, "log extension", recipes.INODE, 64, 64)
    if not counters:
        return [
            _step(STORE, "log extension", recipes.INODE, 64, 16),
            log,
            _step(STORE, "log append", recipes.TO, 0, FAST16_DOT_FIELDS),
            _step(FLUSH, "log append", recipes.TO, 0, recipes.FAST16_BYTES),
            _step(FLUSH, "log append", recipes.TO, recipes.FAST16_BYTES, recipes.FAST16_BYTES),
            *recipes.new_tail(recipes.INODE),
        ]
    return [
        _step(STORE, "log extension", recipes.INODE, 64, 16),
        _step(STORE, "log append", recipes.TO, 0, 2 * recipes.DOT_BYTES),
        _step(STORE, "log append", recipes.TO, 0, DOT_FIELDS),
        _step(FLUSH, "log append", recipes.TO, 0, recipes.LINE),
        _step(FLUSH, "log append", recipes.TO, recipes.DOT_BYTES, recipes.LINE),
        _step(STORE, "log append", recipes.TO, recipes.LOG_BYTES + 4, 4),
        _step(FLUSH, "log append", recipes.TO, recipes.LOG_BYTES, 32),
        _step(FLUSH, "log append", recipes.TO, 0, 2 * recipes.DOT_BYTES),
        *recipes.new_tail(recipes.INODE),
        log,
        _step(STORE, "inode", recipes.INODE, 8, 40),
        *recipes.persist(recipes.INODE, "inode", inode_fence),
    ]
