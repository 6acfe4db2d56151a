"""ext4-dax of Linux 4.0 to 4.6: write() is direct I/O, and dax_io is its loop over blocks.

Each block look-up of a write has a journal handle, whether it allocates or not.  Of new blocks, only the parts that the copy does
not cover are zeroed.  Source: Linux 4.1 and 4.4 fs/dax.c: dax_io, dax_new_buf; fs/ext4/{indirect.c:
ext4_ind_direct_IO, inode.c: _ext4_get_block, ext4_ext_direct_IO}.
"""

from scmsim.fs.ext4 import extents
from scmsim.fs.linux import index, metadata, transfer
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine


@subroutine
def count_slice(s, arena, out, pages, grown):
    """Set the numbers of journal handles and inode updates of a slice, without the handles of the block look-ups.

    A write that extends the file has one handle to put the file on the orphan list, and one to set the size and remove the file
    from the list.  A write that fills a hole has one handle, to mark the new extent as written.
    """
    s.reg[q.GROWN], s.reg[q.NEW], s.reg[q.HAS] = s.changed, 2 * s.changed, 0
    if grown >= 0:
        metadata.join_orphans(s, arena)
        s.reg[q.GROWN], s.reg[q.NEW], s.reg[q.HAS] = 2, 6, 1


HOOKS = {
    transfer: {"fill_new": transfer.clear_edges, "count_slice": count_slice, "WHOLE_REQUESTS": True},
    index: extents.HOOKS | {"to_write": extents.write_alone},
}
