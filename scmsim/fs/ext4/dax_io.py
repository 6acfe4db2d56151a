"""ext4-dax of Linux 4.0 to 4.6: write() is direct I/O, whose loop over blocks is dax_io.

Each block look-up of a write has a journal handle, whether it allocates or not; new blocks are not zeroed, except for
the parts that the copy does not cover.  Source: Linux 4.1 and 4.4 fs/dax.c: dax_io, dax_new_buf; fs/ext4/{indirect.c:
ext4_ind_direct_IO, inode.c: _ext4_get_block, ext4_ext_direct_IO}.
"""

from scmsim.fs.ext4 import extents
from scmsim.fs.linux import index, metadata, transfer
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine


@subroutine
def count_slice(s, arena, out, pages, grown):
    """Set the handles and inode updates of a slice, without those of the look-ups.

    A write that extends the file has one handle that puts it on the orphan list, and another handle that sets the size and removes
    it from the list; a write that fills a hole has a handle that marks the new extent as written.
    """
    s.reg[q.GROWN], s.reg[q.NEW], s.reg[q.HAS] = s.changed, 2 * s.changed, 0
    if grown >= 0:
        metadata.join_orphans(s, arena)
        s.reg[q.GROWN], s.reg[q.NEW], s.reg[q.HAS] = 2, 6, 1


HOOKS = {
    transfer: {"fill_new": transfer.clear_edges, "count_slice": count_slice, "WHOLE_REQUESTS": True},
    index: extents.HOOKS | {"to_write": extents.write_alone},
}
