"""Clear the bytes of virtual superpages that are after a file's end or between its end and a write.

A superpage is not cleared on allocation, unlike a huge block of PMFS. The bytes after the file's last 4 KiB page have
undefined content until the file grows over them: then they are cleared.
Source: reconstruction; the paper (III.C) says that the rest of the last superpage is reclaimed when the file is closed.
"""

from scmsim.alloc import aligned_fit, first_fit
from scmsim.fs.engine import file_row, table
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.fs.pmfs.copy import clear
from scmsim.jit import subroutine

PAGE = 4096


@subroutine
def round_up(length):
    """Return `length` rounded up to whole 4 KiB pages, in bytes."""
    return (length + PAGE - 1) & -PAGE


@subroutine
def wipe(s, arena, out, row, low, high):
    """Clear bytes [low, high) of the file, which are in one superpage."""
    if low < high:
        i = low >> s.shift
        clear(s, out, table.get(arena, row + pmfs_state.BLOCKS, i), low - (i << s.shift), high - (i << s.shift))


@subroutine
def on_growth(s, arena, out, row, new_size):
    """Clear the bytes of the last superpage after the file's end, because the file grows to `new_size` without a write."""
    size = arena[row + file_row.SIZE]
    i = size >> s.shift
    if new_size > size and table.get(arena, row + pmfs_state.BLOCKS, i) != 0:
        wipe(s, arena, out, row, size, min(new_size, (i + 1) << s.shift))


@subroutine
def gaps(s, arena, out, op, row):
    """Clear the bytes around a write that replaces nothing: the rest of new superpages, and the gap before the write."""
    size, end = arena[row + file_row.SIZE], op.offset + op.length
    first, last = op.offset >> s.shift, (end - 1) >> s.shift
    if op.offset > size and not (size >> s.shift == first and s.edges & 1):
        on_growth(s, arena, out, row, op.offset)
    if s.edges & 1:
        wipe(s, arena, out, row, first << s.shift, op.offset)
    after_end(s, arena, out, row, end, s.edges & 2 != 0 and (last << s.shift) < size)


@subroutine
def after_end(s, arena, out, row, end, inside):
    """Clear the bytes from a write's `end` on: in a last page that is new to the file or, with `inside`, in a filled hole."""
    size, limit = round_up(arena[row + file_row.SIZE]), (((end - 1) >> s.shift) + 1) << s.shift
    if inside:
        wipe(s, arena, out, row, end, min(max(size, round_up(end)), limit))
    elif round_up(end) > size:
        wipe(s, arena, out, row, end, round_up(end))


@subroutine
def keep_tail(s, arena, row):
    """Free the pages of the file's last superpage that are after the file's end; return the number of freed pages."""
    size = arena[row + file_row.SIZE]
    if size == 0 or arena[row + file_row.STATUS] & file_row.IS_DIR:
        return 0
    last = (size - 1) >> s.shift
    block = table.get(arena, row + pmfs_state.BLOCKS, last)
    keep = ((size - 1) >> 12) + 1 - (last << s.shift - 12)
    held = arena[row + pmfs_state.KEPT] if arena[row + pmfs_state.KEPT] > 0 else s.unit
    if block == 0 or keep >= held:
        return 0
    first_fit.release(s, arena, block + keep, held - keep)
    aligned_fit.freed(s, block)
    s.data_blocks -= held - keep
    s.reclaimed_pages += held - keep
    arena[row + pmfs_state.KEPT], arena[row + pmfs_state.KEPT_AT] = keep, last
    return held - keep
