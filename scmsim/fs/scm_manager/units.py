"""Units of files: allocated, freed, found.

The SCM manager takes a data object at a time from the buddy system and links it in a chain table; FAT takes the lowest free
clusters, ext2 the lowest free blocks and indirect blocks (256 pointers) for those after the twelfth.  Not modelled: the reservation
windows of ext2, and its block groups.
Source: SCM manager paper, section 4.2; Linux 2.6.24 fs/fat/{cache,fatent,misc}.c, fs/ext2/{balloc,inode}.c.
"""

from scmsim.alloc import buddy, first_fit
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_recipe
from scmsim.fs.scm_manager import recipes, state
from scmsim.fs.scm_manager.cache import cleaned, fetch, mark_table, send_table, system_unit, table_unit
from scmsim.fs.scm_manager.index import entry_at, number, place
from scmsim.fs.scm_manager.nftl import program
from scmsim.jit import subroutine

DATA_ORDER, META_ORDER = 4, 1  # buddy orders of a data object (512 bytes) and of a metadata object (64 bytes)


@subroutine
def ready(s, arena, units):
    """Whether the allocator and the tables that follow the device can serve `units` units; False: they must grow first."""
    if s.kind == recipes.MANAGER:
        return buddy.ready(s, arena, 1 * 2)
    if not first_fit.ready(s, arena, min(units, s.free_blocks)):
        return False
    sectors, chains = (
        table_unit(s, s.tracked) + 1,
        2 * (s.origin // (recipes.SECTOR * recipes.PAGES) + s.tracked // recipes.PAGES + 2) * s.nand,
    )
    inodes = (s.file_count >> 3) + 1
    words = table.words_to_hold(arena, s.table + state.BLOCKS, sectors)
    words += table.words_to_hold(arena, s.inodes + state.BLOCKS, inodes)
    words += table.words_to_hold(arena, s.table + state.SLOTS, chains) if s.nand else recipes.ZERO
    if not has_room(s, arena, words):
        return False
    table.reserve(s, arena, s.table + state.BLOCKS, sectors)
    table.reserve(s, arena, s.inodes + state.BLOCKS, inodes)
    if s.nand:
        table.reserve(s, arena, s.table + state.SLOTS, chains)
    return True


@subroutine
def take(s, arena, want):
    """Device offset of the first of `s.got` fresh units, at most `want`; the caller has made sure that there are some."""
    if s.kind != recipes.MANAGER:
        return s.origin + (first_fit.allocate(s, arena, want) << s.shift)
    s.got = 1
    return buddy.allocate(s, arena, recipes.ZERO + DATA_ORDER)


@subroutine
def noted(s, arena, out, at, count, first):
    """The entries of fresh units change; mounted synchronously each is written: the chain's new end, then the link to it."""
    s.reg[recipes.CHAIN], s.reg[recipes.COUNT] = entry_at(s, at), count
    s.reg[recipes.CHAIN_BYTES] = recipes.WORD * (count + (first > 0)) if s.kind != recipes.EXT2 else recipes.WORD
    emit_recipe(s, out, recipes.TAKE)
    if s.kind == recipes.MANAGER or s.silent:
        return
    if not s.synchronous:
        mark_table(s, arena, number(s, at), count)
        return
    i = table_unit(s, number(s, at))
    entry = system_unit(s, arena, s.table, i)
    table.put(arena, s.table + state.BLOCKS, i, entry | state.CACHED)
    for _ in range(1 if s.kind == recipes.EXT2 or first == 0 else 2):
        send_table(s, arena, out, (entry >> 2) << state.PLACE_SHIFT, recipes.ZERO + 1)


@subroutine
def take_node(s, arena, out, handle, i):
    """One indirect block of ext2, if it is not there yet."""
    entry = table.get(arena, handle, i)
    if entry == 0:
        at = take(s, arena, recipes.ZERO + 1)
        noted(s, arena, out, at, recipes.ZERO + 1, recipes.ZERO)
        entry = (at >> state.PLACE_SHIFT) << 2 | state.CACHED
    table.put(arena, handle, i, entry | (0 if s.silent else state.DIRTY))


@subroutine
def take_nodes(s, arena, out, row, first, last):
    """The indirect blocks of units `first` to `last`."""
    for leaf in range(max(first - 12, 0) >> 8, ((last - 12) >> 8) + 1):
        take_node(s, arena, out, row + state.LEAVES, leaf)
        if leaf > 0:
            take_node(s, arena, out, row + state.UPPERS, (leaf + 255) >> 8)


@subroutine
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
    if s.kind == recipes.EXT2 and first + want > 12:
        take_nodes(s, arena, out, row, first, first + want - 1)
    done, start, run = 0, recipes.ZERO + 0, recipes.ZERO + 0
    while done < want:
        at = take(s, arena, want - done)
        for k in range(s.got):
            at_unit = (at >> state.PLACE_SHIFT) + (k << (s.shift - state.PLACE_SHIFT))
            table.put(arena, row + state.BLOCKS, first + done + k, at_unit << 2 | state.CACHED)
        if run > 0 and at != start + (run << s.shift):
            noted(s, arena, out, start, run, first + done - run)
            run = recipes.ZERO + 0
        if run == 0:
            start = at
        run += s.got
        done += s.got
    noted(s, arena, out, start, run, first + done - run)
    arena[row + file_row.MAPPED] += want
    arena[row + state.END] = max(arena[row + state.END], first + want)
    s.resume_at = first + want


@subroutine
def release(s, arena, row, i):
    """Free unit `i` of a file."""
    at = place(arena, row, i)
    if s.kind != recipes.MANAGER:
        cleaned(s, arena, row, i)
        first_fit.release(s, arena, number(s, at), 1)
    elif i == 0 and arena[row + state.SHORT] > 0:
        buddy.release(s, arena, at, arena[row + state.SHORT] - 1)
        arena[row + state.SHORT] = 0
    else:
        buddy.release(s, arena, at, recipes.ZERO + DATA_ORDER)
    table.put(arena, row + state.BLOCKS, i, recipes.ZERO)
    arena[row + file_row.MAPPED] -= 1


@subroutine
def free_run(s, arena, out, row):
    """Free one run of units from `resume_at` on."""
    first, end = s.resume_at, arena[row + state.END]
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
    s.reg[recipes.CHAIN], s.reg[recipes.COUNT] = entry_at(s, at), count
    s.reg[recipes.CHAIN_BYTES] = recipes.WORD * count if s.kind != recipes.EXT2 else recipes.WORD
    emit_recipe(s, out, recipes.GIVE)
    if s.kind != recipes.MANAGER:
        mark_table(s, arena, number(s, at), count)
    s.resume_at = first + count


@subroutine
def free_nodes(s, arena, row, stop):
    """Free ext2's indirect blocks that no unit below `stop` needs."""
    leaves = (max(stop - 12, 0) + 255) >> 8
    for i in range(leaves, ((arena[row + state.END] >> 8) + 1)):
        entry = table.get(arena, row + state.LEAVES, i)
        if entry != 0:
            first_fit.release(s, arena, number(s, (entry >> 2) << state.PLACE_SHIFT), 1)
            table.put(arena, row + state.LEAVES, i, recipes.ZERO)
    for i in range((max(leaves - 1, 0) + 255 >> 8) + 1, (arena[row + state.END] >> 16) + 2):
        entry = table.get(arena, row + state.UPPERS, i)
        if entry != 0:
            first_fit.release(s, arena, number(s, (entry >> 2) << state.PLACE_SHIFT), 1)
            table.put(arena, row + state.UPPERS, i, recipes.ZERO)


@subroutine
def walk(s, arena, out, row, unit):
    """Find a unit: the chain is followed from the unit used last, or from the first; ext2 looks into its indirect block."""
    unit = min(unit, arena[row + state.END] - 1)
    if unit < 0:
        return
    s.reg[recipes.HOPS] = 0
    if s.kind == recipes.EXT2:
        entry = table.get(arena, row + state.LEAVES, (unit - 12) >> 8) if unit >= 12 else recipes.ZERO + 0
        if entry != 0:
            s.reg[recipes.HOPS], s.reg[recipes.HOP_AT] = 1 + (unit >= 268), (entry >> 2) << state.PLACE_SHIFT
            if not entry & state.CACHED:
                fetch(s, arena, out, s.reg[recipes.HOP_AT], recipes.ZERO + 1)
                table.put(arena, row + state.LEAVES, (unit - 12) >> 8, entry | state.CACHED)
        s.reg[recipes.HOP_BYTES] = recipes.WORD * s.reg[recipes.HOPS]
    else:
        begin = arena[row + state.CURSOR] if arena[row + state.CURSOR] <= unit else recipes.ZERO + 0
        s.reg[recipes.HOPS] = unit - begin
        s.reg[recipes.HOP_AT] = entry_at(s, place(arena, row, begin))
        s.reg[recipes.HOP_BYTES] = min(
            recipes.WORD * (unit - begin), s.table_at + s.table_bytes - s.reg[recipes.HOP_AT]
        )
        if s.kind == recipes.FAT:
            see(s, arena, out, number(s, place(arena, row, unit)))
    arena[row + state.CURSOR] = unit
    emit_recipe(s, out, recipes.HOP)


@subroutine
def see(s, arena, out, unit):
    """The sector of the FAT with a unit's entry comes into the cache."""
    i = table_unit(s, unit)
    entry = system_unit(s, arena, s.table, i)
    if not entry & state.CACHED:
        fetch(s, arena, out, (entry >> 2) << state.PLACE_SHIFT, recipes.ZERO + 1)
        table.put(arena, s.table + state.BLOCKS, i, entry | state.CACHED)


@subroutine
def settle(s, arena, out, row, first, stop):
    """Units of a file from before the trace: on the device, not in the cache; on NAND each page is written once."""
    for i in range(first, stop):
        entry = table.get(arena, row + state.BLOCKS, i)
        table.put(arena, row + state.BLOCKS, i, entry & ~(state.CACHED | state.DIRTY))
        if s.nand:
            program(s, arena, out, place(arena, row, i) // recipes.SECTOR)
            s.page_programs -= 1
    if s.kind == recipes.EXT2 and stop > 12:
        for leaf in range(max(first - 12, 0) >> 8, ((stop - 13) >> 8) + 1):
            entry = table.get(arena, row + state.LEAVES, leaf)
            table.put(arena, row + state.LEAVES, leaf, entry & ~(state.CACHED | state.DIRTY))
