"""Change names that only the kernel's caches keep: no directory of the file system records them (famfs, hugetlbfs, device-dax).

Source: Linux 6.1 fs/libfs.c (simple_link, simple_unlink, simple_rename, dcache_readdir).
"""

from scmsim.core import records as r
from scmsim.fs.engine import file_row
from scmsim.fs.engine.events import emit_template
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine


@subroutine
def make(s, arena, out, op, row):
    """Run create or mkdir: make a file or directory with one name."""
    is_dir = op.op == r.MKDIR
    arena[row + file_row.STATUS] = file_row.EXISTS | file_row.IS_DIR * is_dir
    arena[row + file_row.LINKS], arena[row + file_row.OPENS] = 1, not is_dir
    emit_template(s, out, q.MKDIR if is_dir else q.CREATE)


@subroutine
def unlink(s, arena, out, op, row, parent):
    """Run unlink or rmdir."""
    arena[row + file_row.LINKS] -= 1
    emit_template(s, out, q.RMDIR if op.op == r.RMDIR else q.UNLINK)


@subroutine
def link(s, arena, out, op, row, parent):
    """Run link."""
    arena[row + file_row.LINKS] += 1
    emit_template(s, out, q.LINK)


@subroutine
def rename(s, arena, out, row, parent, replaced):
    """Run rename."""
    emit_template(s, out, q.RENAME)
    if replaced:
        arena[replaced + file_row.LINKS] -= 1


@subroutine
def read_directory(s, arena, out, row):
    """Run readdir."""
    s.reg[q.COUNT] = 0
    emit_template(s, out, q.LIST)
