"""Clear a part of a page of a file: in persistent memory with DAX, else in the page cache."""

from scmsim.fs.engine.events import emit_template
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine


@subroutine
def clear_part(s, arena, out, f, at, length):
    """Clear `length` bytes from `at` on, inside one page, if the page has content; emits at most 2 events."""
    page = at >> 12
    if length > 0 and page < arena[f + e.PAGE_COUNT]:
        word = arena[arena[f + e.PAGES] + page]
        s.reg[q.TO], s.reg[q.BYTES] = s.key_base + ((word >> s.key_shift & s.key_mask) << 12) + (at & 4095), length
        if s.dax and word and not word & e.IS_UNWRITTEN:
            emit_template(s, out, q.CLEAR_PM)
        elif word & e.IS_CACHED:
            emit_template(s, out, q.CLEAR_FRAME)


@subroutine
def clear_end(s, arena, out, f, at):
    """Clear the file's last block after its end, up to byte `at`, to which the file grows; emits at most 2 events.

    Only kernels with `clears_end` do so.  Blocks after the last one have no content, so nothing else is cleared.
    """
    if s.clears_end:
        size = arena[f + e.SIZE]
        clear_part(s, arena, out, f, size, min(at - size, -size & 4095))
