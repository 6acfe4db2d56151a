"""Define NOVA's namespace operations as templates: the pieces that `names` combines in the order of the source.

Sources: NOVA (Linux 5.1 lineage, its port to 5.13) fs/nova/{namei,dir,inode,journal,log,rebuild}.c. The bytes of every
structure are those of the fields that the source stores. FAST'16 gets the same operations, without page counters and
without write-backs of the inode; its field bytes (100 of an inode, 30 of a changed entry) are estimates.
"""

from scmsim.core.records import FLUSH, NTSTORE, STORE
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.nova import templates

DOT_FIELDS = 73  # "." and "..": 34 bytes each, then 2 and 3 of the names (nova_init_dentry)
FAST16_DOT_FIELDS = 57
_STEPS = TemplateBuilder(templates.SITES, templates.COSTS)
_step, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence


def name_templates(counters: bool, inode_fence: bool) -> dict[int, list]:
    """Return the templates of the namespace operations; NAMED and RECORD write dentries and link changes to the logs."""
    written = templates.persist(templates.INODE, "inode", inode_fence)
    calls = {
        "create": templates.CREATE, "mkdir": templates.MKDIR, "unlink": templates.UNLINK, "unlink_name": templates.UNLINK_NAME,
        "rmdir": templates.RMDIR, "rename": templates.RENAME, "link": templates.LINK, "open": templates.OPEN,
        "stat": templates.STAT, "readdir": templates.READDIR, "mmap": templates.MAP,
        "truncate": templates.TRUNCATE, "other_call": templates.OTHER,
    }  # fmt: skip
    return {
        templates.NEW_INODE: [
            _step(STORE, "inode", templates.INODE, 0, 106 if counters else 100),  # nova_new_vfs_inode, nova_init_inode
            _step(FLUSH, "inode", templates.INODE, 0, 128 if counters else 120),
        ],
        templates.DOTS: _dots(counters, inode_fence),
        templates.VALID: [  # nova_lite_transaction_for_new_inode: one more fence after the write-back's
            _step(STORE, "inode", templates.INODE, 1, 1),
            *written,
            _fence("inode"),
        ],
        templates.REMOVE: [_step(STORE, "inode", templates.INODE, 96, 9)],  # valid and delete_epoch_id
        templates.BARRIER: [_fence("inode")],  # before the journal's release, after the write-back of the tails
        templates.DROP_NAME: [  # nova_update_old_dentry, then the barrier of nova_inplace_update_log_entry
            _step(STORE, "namespace", templates.OLD, 0, 31 if counters else 30),
            *([_step(STORE, "namespace", templates.OLD_PAGE, templates.LOG_BYTES, 4)] if counters else []),
            *([_step(FLUSH, "namespace", templates.OLD_PAGE, templates.LOG_BYTES, 32)] if counters else []),
            _step(FLUSH, "namespace", templates.OLD, 0, templates.LINE if counters else 56),
            _fence("namespace"),
        ],
        templates.LINK_CHANGE: [  # nova_update_link_change_entry, same barrier; the inode's first line represents the entry
            _step(STORE, "namespace", templates.INODE, 0, 32 if counters else 30),
            _step(FLUSH, "namespace", templates.INODE, 0, templates.LINE if counters else templates.FAST16_BYTES),
            _fence("namespace"),
        ],
        templates.EVICT: [  # nova_free_inode_resource, nova_free_inode_log
            _step(STORE, "inode", templates.INODE, 2, 1),
            *(written if counters else []),
            _step(STORE, "inode", templates.INODE, 64, 32),
            *written,
        ],
        templates.TRUNCATE_TAIL: [
            _step(NTSTORE, "block zeroing", templates.TO, 0, 0, templates.BYTES, width=8),
            _fence("block zeroing"),
        ],
        templates.FREED: [_work("free_page", 0, templates.COUNT)],
        templates.ZEROED: [
            _work("allocate", 1),
            _step(NTSTORE, "block zeroing", templates.TO, 0, 0, templates.BYTES, width=8),
        ],
        templates.CLOSE: [_work("close", 1), _fence("fsync")],
        templates.FSYNC: [_work("fsync_call", 1), _fence("fsync")],
        **{template: [_work(cost, 1)] for cost, template in calls.items()},
    }


def _dots(counters: bool, inode_fence: bool) -> list:
    """Return the steps for a new directory's log after LOG_PAGES: "." and ".." (nova_append_dir_init_entries), then their rebuild.

    The rebuild reads both entries again and stores 40 bytes into the inode (nova_rebuild_dir_inode_tree,
    nova_update_inode_with_rebuild).
    """
    log = _step(FLUSH, "log extension", templates.INODE, 64, 64)
    if not counters:
        return [
            _step(STORE, "log extension", templates.INODE, 64, 16),
            log,
            _step(STORE, "log append", templates.TO, 0, FAST16_DOT_FIELDS),
            _step(FLUSH, "log append", templates.TO, 0, templates.FAST16_BYTES),
            _step(FLUSH, "log append", templates.TO, templates.FAST16_BYTES, templates.FAST16_BYTES),
            *templates.new_tail(templates.INODE),
        ]
    return [
        _step(STORE, "log extension", templates.INODE, 64, 16),
        _step(STORE, "log append", templates.TO, 0, 2 * templates.DOT_BYTES),
        _step(STORE, "log append", templates.TO, 0, DOT_FIELDS),
        _step(FLUSH, "log append", templates.TO, 0, templates.LINE),
        _step(FLUSH, "log append", templates.TO, templates.DOT_BYTES, templates.LINE),
        _step(STORE, "log append", templates.TO, templates.LOG_BYTES + 4, 4),
        _step(FLUSH, "log append", templates.TO, templates.LOG_BYTES, 32),
        _step(FLUSH, "log append", templates.TO, 0, 2 * templates.DOT_BYTES),
        *templates.new_tail(templates.INODE),
        log,
        _step(STORE, "inode", templates.INODE, 8, 40),
        *templates.persist(templates.INODE, "inode", inode_fence),
    ]
