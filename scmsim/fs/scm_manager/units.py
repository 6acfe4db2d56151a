"""Units of files: allocated, freed, found.

The SCM manager takes a data object at a time from the buddy system and links it in a chain table; FAT takes the lowest free
clusters, ext2 the lowest free blocks and indirect blocks (256 pointers) for those after the twelfth.  Not modelled: the reservation
windows of ext2, and its block groups.
Source: SCM manager paper, section 4.2; Linux 2.6.24 fs/fat/{cache,fatent,misc}.c, fs/ext2/{balloc,inode}.c.
"""

from scmsim.alloc import buddy, first_fit
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import play
from scmsim.fs.scm_manager import recipes as q
from scmsim.fs.scm_manager import state as n
from scmsim.fs.scm_manager.cache import cleaned, fetch, mark_table, program, send_table, system_unit, table_unit
from scmsim.jit import part

DATA_ORDER, META_ORDER = 4, 1  # buddy orders of a data object (512 bytes) and of a metadata object (64 bytes)


@part
def ready(s, arena, units):
    """Whether the allocator and the tables that follow the device can serve `units` units; False: they must grow first."""
    if s.kind == q.MANAGER:
        return buddy.ready(s, arena, 1 * 2)
    if not first_fit.ready(s, arena, min(units, s.free_blocks)):
        return False
    sectors, chains = (
        table_unit(s, s.tracked) + 1,
        2 * (s.origin // (q.SECTOR * q.PAGES) + s.tracked // q.PAGES + 2) * s.nand,
    )
    inodes = (s.file_count >> 3) + 1
    words = table.words_to_hold(arena, s.table + n.BLOCKS, sectors)
    words += table.words_to_hold(arena, s.inodes + n.BLOCKS, inodes)
    words += table.words_to_hold(arena, s.table + n.SLOTS, chains) if s.nand else q.ZERO
    if not has_room(s, arena, words):
        return False
    table.reserve(s, arena, s.table + n.BLOCKS, sectors)
    table.reserve(s, arena, s.inodes + n.BLOCKS, inodes)
    if s.nand:
        table.reserve(s, arena, s.table + n.SLOTS, chains)
    return True


@part
def words_for(arena, row, stop):
    """Words of arena that the file's tables take to hold the units below `stop`."""
    words = table.words_to_hold(arena, row + n.BLOCKS, stop) + table.words_to_hold(
        arena, row + n.LEAVES, (stop >> 8) + 1
    )
    return words + table.words_to_hold(arena, row + n.UPPERS, (stop >> 16) + 2)


@part
def reserve(s, arena, row, stop):
    """Make the tables hold the units below `stop`; the arena has room."""
    table.reserve(s, arena, row + n.BLOCKS, stop)
    if s.kind == q.EXT2:
        table.reserve(s, arena, row + n.LEAVES, (stop >> 8) + 1)
        table.reserve(s, arena, row + n.UPPERS, (stop >> 16) + 2)


@part
def place(arena, row, i):
    """Device offset of a file's unit, 0: it has none."""
    return (table.get(arena, row + n.BLOCKS, i) >> 2) << n.PLACE_SHIFT


@part
def stretch(s, arena, row, at, end):
    """End of the run from byte `at` on, to `end` at most, that lies in one piece on the device (or is a hole)."""
    first = at >> s.shift
    limit = min(end, (first + s.longest) << s.shift)
    start, stop = place(arena, row, first), first + 1
    while stop << s.shift < limit and place(arena, row, stop) == (
        start + ((stop - first) << s.shift) if start != 0 else 0
    ):
        stop += 1
    return min(limit, stop << s.shift)


@part
def number(s, at):
    """Number of the unit at a device offset, from the first that can be allocated on."""
    return (at - s.origin) >> s.shift


@part
def entry_at(s, unit_at):
    """Device offset of the entry of the unit at device offset `unit_at` in the chain table, the FAT or the bitmaps."""
    if s.kind == q.MANAGER:
        return s.table_at + ((unit_at - s.table_at) >> s.shift) * q.WORD
    if s.kind == q.FAT:
        return s.table_at + number(s, unit_at) * q.WORD
    return s.table_at + (number(s, unit_at) >> 3)


@part
def take(s, arena, want):
    """Device offset of the first of `s.got` fresh units, at most `want`; the caller has made sure that there are some."""
    if s.kind != q.MANAGER:
        return s.origin + (first_fit.allocate(s, arena, want) << s.shift)
    s.got = 1
    return buddy.allocate(s, arena, q.ZERO + DATA_ORDER)


@part
def noted(s, arena, out, at, count, first):
    """The entries of fresh units change; mounted synchronously each is written: the chain's new end, then the link to it."""
    s.reg[q.CHAIN], s.reg[q.COUNT] = entry_at(s, at), count
    s.reg[q.CHAIN_BYTES] = q.WORD * (count + (first > 0)) if s.kind != q.EXT2 else q.WORD
    play(s, out, q.TAKE)
    if s.kind == q.MANAGER or s.quiet:
        return
    if not s.synchronous:
        mark_table(s, arena, number(s, at), count)
        return
    i = table_unit(s, number(s, at))
    entry = system_unit(s, arena, s.table, i)
    table.put(arena, s.table + n.BLOCKS, i, entry | n.CACHED)
    for _ in range(1 if s.kind == q.EXT2 or first == 0 else 2):
        send_table(s, arena, out, (entry >> 2) << n.PLACE_SHIFT, q.ZERO + 1)


@part
def take_node(s, arena, out, handle, i):
    """One indirect block of ext2, if it is not there yet."""
    entry = table.get(arena, handle, i)
    if entry == 0:
        at = take(s, arena, q.ZERO + 1)
        noted(s, arena, out, at, q.ZERO + 1, q.ZERO)
        entry = (at >> n.PLACE_SHIFT) << 2 | n.CACHED
    table.put(arena, handle, i, entry | (0 if s.quiet else n.DIRTY))


@part
def take_nodes(s, arena, out, row, first, last):
    """The indirect blocks of units `first` to `last`."""
    for leaf in range(max(first - 12, 0) >> 8, ((last - 12) >> 8) + 1):
        take_node(s, arena, out, row + n.LEAVES, leaf)
        if leaf > 0:
            take_node(s, arena, out, row + n.UPPERS, (leaf + 255) >> 8)


@part
def extend(s, arena, out, row, stop):
    """Give units to the file from `resume_at` on: one run (synchronously: one unit) of those that are missing below `stop`."""
    first = s.resume_at
    while first < stop and place(arena, row, first) != 0:
        first += 1
    want, most = 0, 1 if s.synchronous else s.longest
    while first + want < stop and want < most and place(arena, row, first + want) == 0:
        want += 1
    if want == 0:
        s.resume_at = stop
        return
    if s.kind == q.EXT2 and first + want > 12:
        take_nodes(s, arena, out, row, first, first + want - 1)
    done, start, run = 0, q.ZERO + 0, q.ZERO + 0
    while done < want:
        at = take(s, arena, want - done)
        for k in range(s.got):
            at_unit = (at >> n.PLACE_SHIFT) + (k << (s.shift - n.PLACE_SHIFT))
            table.put(arena, row + n.BLOCKS, first + done + k, at_unit << 2 | n.CACHED)
        if run > 0 and at != start + (run << s.shift):
            noted(s, arena, out, start, run, first + done - run)
            run = q.ZERO + 0
        if run == 0:
            start = at
        run += s.got
        done += s.got
    noted(s, arena, out, start, run, first + done - run)
    arena[row + file_row.MAPPED] += want
    arena[row + n.END] = max(arena[row + n.END], first + want)
    s.resume_at = first + want


@part
def release(s, arena, row, i):
    """Free unit `i` of a file."""
    at = place(arena, row, i)
    if s.kind != q.MANAGER:
        cleaned(s, arena, row, i)
        first_fit.release(s, arena, number(s, at), 1)
    elif i == 0 and arena[row + n.SHORT] > 0:
        buddy.release(s, arena, at, arena[row + n.SHORT] - 1)
        arena[row + n.SHORT] = 0
    else:
        buddy.release(s, arena, at, q.ZERO + DATA_ORDER)
    table.put(arena, row + n.BLOCKS, i, q.ZERO)
    arena[row + file_row.MAPPED] -= 1


@part
def free_run(s, arena, out, row):
    """Free one run of units from `resume_at` on."""
    first, end = s.resume_at, arena[row + n.END]
    while first < end and place(arena, row, first) == 0:
        first += 1
    s.resume_at = first
    if first == end:
        return
    at, count = place(arena, row, first), 1
    while count < s.longest and first + count < end and place(arena, row, first + count) == at + (count << s.shift):
        count += 1
    for i in range(first, first + count):
        release(s, arena, row, i)
    s.reg[q.CHAIN], s.reg[q.COUNT] = entry_at(s, at), count
    s.reg[q.CHAIN_BYTES] = q.WORD * count if s.kind != q.EXT2 else q.WORD
    play(s, out, q.GIVE)
    if s.kind != q.MANAGER:
        mark_table(s, arena, number(s, at), count)
    s.resume_at = first + count


@part
def free_nodes(s, arena, row, stop):
    """Free ext2's indirect blocks that no unit below `stop` needs."""
    leaves = (max(stop - 12, 0) + 255) >> 8
    for i in range(leaves, ((arena[row + n.END] >> 8) + 1)):
        entry = table.get(arena, row + n.LEAVES, i)
        if entry != 0:
            first_fit.release(s, arena, number(s, (entry >> 2) << n.PLACE_SHIFT), 1)
            table.put(arena, row + n.LEAVES, i, q.ZERO)
    for i in range((max(leaves - 1, 0) + 255 >> 8) + 1, (arena[row + n.END] >> 16) + 2):
        entry = table.get(arena, row + n.UPPERS, i)
        if entry != 0:
            first_fit.release(s, arena, number(s, (entry >> 2) << n.PLACE_SHIFT), 1)
            table.put(arena, row + n.UPPERS, i, q.ZERO)


@part
def walk(s, arena, out, row, unit):
    """Find a unit: the chain is followed from the unit used last, or from the first; ext2 looks into its indirect block."""
    unit = min(unit, arena[row + n.END] - 1)
    if unit < 0:
        return
    s.reg[q.HOPS] = 0
    if s.kind == q.EXT2:
        entry = table.get(arena, row + n.LEAVES, (unit - 12) >> 8) if unit >= 12 else q.ZERO + 0
        if entry != 0:
            s.reg[q.HOPS], s.reg[q.HOP_AT] = 1 + (unit >= 268), (entry >> 2) << n.PLACE_SHIFT
            if not entry & n.CACHED:
                fetch(s, arena, out, s.reg[q.HOP_AT], q.ZERO + 1)
                table.put(arena, row + n.LEAVES, (unit - 12) >> 8, entry | n.CACHED)
        s.reg[q.HOP_BYTES] = q.WORD * s.reg[q.HOPS]
    else:
        begin = arena[row + n.CURSOR] if arena[row + n.CURSOR] <= unit else q.ZERO + 0
        s.reg[q.HOPS] = unit - begin
        s.reg[q.HOP_AT] = entry_at(s, place(arena, row, begin))
        s.reg[q.HOP_BYTES] = min(q.WORD * (unit - begin), s.table_at + s.table_bytes - s.reg[q.HOP_AT])
        if s.kind == q.FAT:
            see(s, arena, out, number(s, place(arena, row, unit)))
    arena[row + n.CURSOR] = unit
    play(s, out, q.HOP)


@part
def see(s, arena, out, unit):
    """The sector of the FAT with a unit's entry comes into the cache."""
    i = table_unit(s, unit)
    entry = system_unit(s, arena, s.table, i)
    if not entry & n.CACHED:
        fetch(s, arena, out, (entry >> 2) << n.PLACE_SHIFT, q.ZERO + 1)
        table.put(arena, s.table + n.BLOCKS, i, entry | n.CACHED)


@part
def settle(s, arena, out, row, first, stop):
    """Units of a file from before the trace: on the device, not in the cache; on NAND each page is written once."""
    for i in range(first, stop):
        entry = table.get(arena, row + n.BLOCKS, i)
        table.put(arena, row + n.BLOCKS, i, entry & ~(n.CACHED | n.DIRTY))
        if s.nand:
            program(s, arena, out, place(arena, row, i) // q.SECTOR)
            s.page_programs -= 1
    if s.kind == q.EXT2 and stop > 12:
        for leaf in range(max(first - 12, 0) >> 8, ((stop - 13) >> 8) + 1):
            entry = table.get(arena, row + n.LEAVES, leaf)
            table.put(arena, row + n.LEAVES, leaf, entry & ~(n.CACHED | n.DIRTY))
