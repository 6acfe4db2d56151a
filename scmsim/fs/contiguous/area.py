"""Where a file's addresses lie: ranges in powers of two (SCMFS, SIMFS), partitions in powers of 8 (ctFS).

Sources: SCMFS superpage paper (2013), III to IV, the sizes of ranges an assumption; ctFS ctfs_pgg.c, ctfs_inode.c.
"""

from scmsim.fs.contiguous import map as m
from scmsim.fs.contiguous import recipes as q
from scmsim.fs.contiguous import state as n
from scmsim.fs.engine import ranges
from scmsim.fs.engine.events import play
from scmsim.jit import part

LARGEST_PARTITION = 39  # of ctFS: log2 of 512 GiB


@part
def range_order(s, stop):
    """log2 of the addresses for `stop` pages; partitions of ctFS grow by powers of 8 from 2 MiB."""
    order = ranges.order_for(stop * q.BLOCK)
    return order + -order % 3 if s.partitions else order


@part
def has_range(s, arena, row, stop):
    """Whether addresses for `stop` pages can be had."""
    order = range_order(s, stop)
    if s.partitions and order > LARGEST_PARTITION:
        return False
    if order <= arena[row + n.RANGE_ORDER] or stop > m.MOST_PAGES or s.range_free[order] != 0:
        return True
    return s.range_top + (2 << order) <= ranges.AREA


@part
def ensure_range(s, arena, out, row, stop):
    """Addresses for `stop` pages: a larger range, to which the file's pages of entries are moved (nvmalloc_expand)."""
    order = range_order(s, stop)
    held = arena[row + n.RANGE_ORDER]
    if order <= held:
        return
    start = ranges.take_range(s, arena, order)
    old, end = arena[row + n.RANGE], arena[row + n.END]
    arena[row + n.RANGE], arena[row + n.RANGE_ORDER] = start, order
    play(s, out, q.PARTITION)
    if held == 0 or end == 0:
        play(s, out, q.PLACED)
    if held == 0:
        return
    if end > 0:
        s.reg[q.DIRECTORY] = m.directory_at(arena, row, 0)
        s.reg[q.DIRECTORY_BYTES] = min(((end + m.PIECE - 1) // m.PIECE) << 3, q.TOP_BYTES)
        if s.partitions:
            s.reg[q.DIRECTORY_BYTES] = 8 << (held - (30 if held >= 30 else m.SUPER))
            m.table_event(s, out, m.FLUSH_ALL, 0, m.RANGES + old, 1 << 18, m.NORMAL)
        play(s, out, q.RANGE_MOVED)
        m.table_event(s, out, m.REMAPS, 0, m.RANGES + old, end, m.NORMAL)
        out[s.emitted - 1].addr = m.RANGES + start
        s.range_moves += 1
    ranges.give_range(s, arena, old, held)
