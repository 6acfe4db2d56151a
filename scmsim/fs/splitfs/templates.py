"""Define SplitFS's mechanisms as templates: ext4-dax's, except that the program copies the data, and the library's.

Source: utsaslab/SplitFS splitfs/fileops_nvp.c (_nvp_extend_write, _nvp_do_pwrite, fsync_flush_on_fsync), log.c
(persist_append_entry, persist_op_entry), kernel fs/ext4/move_extent.c (ext4_dynamic_remap).
"""

from scmsim.core.records import FENCE, FLUSH, LOAD, NTSTORE, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.ext4 import templates as ext4
from scmsim.fs.linux import templates as q
from scmsim.fs.mapping import mechanisms

SITES = {
    **ext4.SITES, "user library": "none", "user copy": "data", "staging": "zeroing", "operation log": "log", "relink": "data",
    **mechanisms.SITES,
}  # fmt: skip
COSTS = ("user_call", "user_write", "user_read", "user_copy_line", "log_entry", "relink", "relink_run")  # follow ext4's

LOG_ENTRY, PREFILL, RELINK, COPY_BACK, USER_CALL, DRAIN = range(q.TEMPLATES, q.TEMPLATES + 6)
ENTRY = 64  # bytes of a log entry
_STEPS = TemplateBuilder(SITES, COSTS, first_cost=len(ext4.COSTS))
_work = _STEPS.work


def _run(code: int, site: str, base: int, length: int = 0, by: int = 0, width: int = 0, **more: int) -> tuple[int, ...]:
    """Return the step of one event: `length` + register `by` bytes at register `base`; more: space, width_by."""
    return _STEPS.run(code, site, base, 0, length, by, width=width, **more)


def _nt_copy(site: str) -> list:
    """Return a non-temporal copy by the program; cached bytes at unaligned ends are written back."""
    return [
        _run(LOAD, site, q.USER_AT, 0, q.HEAD, 1, space=USER),
        _run(STORE, site, q.TO, 0, q.HEAD, 1),
        _run(LOAD, site, q.BODY_USER, 0, q.BODY, 8, space=USER, width_by=q.WIDTH),
        _run(NTSTORE, site, q.BODY_AT, 0, q.BODY, 8, width_by=q.WIDTH),
        _run(LOAD, site, q.TAIL_USER, 0, q.TAIL, 1, space=USER),
        _run(STORE, site, q.TAIL_AT, 0, q.TAIL, 1),
        _run(FLUSH, site, q.TO, 0, q.HEAD_LINE),
        _run(FLUSH, site, q.TAIL_LINE_AT, 0, q.TAIL_LINE),
        _work("user_copy_line", 0, q.LINES),
    ]


def all_templates() -> dict[int, list]:
    """Return every template by number: ext4-dax's, with those of read() and write() replaced, and the library's."""
    return ext4.all_templates(True) | {
        q.WRITE: [_work("user_write", 1)],
        q.COPY: _nt_copy("user copy"),
        q.READ: [_work("user_read", 1)],
        q.COPY_OUT: [
            _run(LOAD, "user copy", q.FROM, 0, q.HAS, 32),
            _run(STORE, "user copy", q.USER_AT, 0, q.BYTES, 32, space=USER),
        ],
        LOG_ENTRY: [
            _work("log_entry", 1),
            _run(NTSTORE, "operation log", q.LOG, ENTRY, 0, 8),
            _run(FENCE, "operation log", q.ZERO, 1),
        ],
        PREFILL: [_run(NTSTORE, "staging", q.FROM, 0, q.BYTES, 8)],
        RELINK: [_work("relink", 1), _work("relink_run", 0, q.COUNT)],
        COPY_BACK: [
            _run(LOAD, "relink", q.FROM, 0, q.BYTES, 8),
            _run(NTSTORE, "relink", q.TO, 0, q.BYTES, 8),
            _run(FENCE, "relink", q.ZERO, 1),
        ],
        USER_CALL: [_work("user_call", 1)],
        DRAIN: [_run(FENCE, "user copy", q.ZERO, 1)],
    }
