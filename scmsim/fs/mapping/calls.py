"""Effects on mappings of mmap, mremap, munmap, madvise, msync, fsync, truncate and fallocate.

The file system charges the system calls themselves.  Source: Linux 5.13 mm/{mmap.c,madvise.c,memory.c: unmap_mapping_range},
fs/dax.c: dax_writeback_mapping_range, dax_entry_mkclean, mm/huge_memory.c: thp_get_unmapped_area.
"""

from scmsim.core import records as r
from scmsim.fs.engine.arena import give, has_room, order_of, take
from scmsim.fs.engine.events import reserve_events
from scmsim.fs.engine.operations import DONE, FULL
from scmsim.fs.mapping import advice, hooks, tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.clean import clean_file
from scmsim.fs.mapping.common import ever_large, file_of_mapping, request_fs
from scmsim.fs.mapping.faults import fault
from scmsim.fs.mapping.fixed import is_refused
from scmsim.fs.mapping.length import file_of, sync_tail, zap_file
from scmsim.fs.mapping.mechanisms import CUT_COST, MMAP_COST, MSYNC_COST, MUNMAP_COST, UNMAP_TABLE_COST
from scmsim.fs.mapping.spans import next_mapped, pages_of
from scmsim.fs.mapping.touch import end_of, mapping_of
from scmsim.jit import kernel, subroutine

# Advice of madvise (include/uapi/asm-generic/mman-common.h)
DONT_NEED, HUGE, NO_HUGE, POPULATE_READ, POPULATE_WRITE = 4, 14, 15, 22, 23


@subroutine
def slots_of(start, pages):
    """Return the number of 2 MiB slots that a mapping's addresses span."""
    return (start + (pages << 12) - 1 >> 21) - (start >> 21) + 1


@subroutine
def new_mapping(s, arena, file, first, pages, start):
    """Create and return a mapping of a file, as its newest one; the arena must have room."""
    m, mapping = s.maps, take(s, arena, w.MAPPING_ORDER)
    order = order_of(slots_of(start, pages))
    arena[mapping + w.FILE], arena[mapping + w.FIRST_PAGE], arena[mapping + w.PAGE_COUNT] = file, first, pages
    arena[mapping + w.START], arena[mapping + w.SLOTS_ORDER] = start, order
    arena[mapping + w.SLOTS] = take(s, arena, order)
    arena[mapping + w.NEXT], arena[file + w.HEAD] = arena[file + w.HEAD], mapping
    arena[mapping + w.OLDER], arena[m + w.NEWEST] = arena[m + w.NEWEST], mapping
    arena[m + w.LIVE] += 1
    return mapping


@subroutine
def inherit(s, arena, mapping, second):
    """Copy the access rights, the thread and the advice of `mapping` to the mapping `second`."""
    arena[second + w.FLAGS], arena[second + w.THREAD] = arena[mapping + w.FLAGS], arena[mapping + w.THREAD]
    advice.copy(s, arena, mapping, second)


@subroutine
def unlink(arena, head, link, mapping):
    """Remove a mapping from the list that starts at arena[head] and is linked by the field `link`."""
    while arena[head] != mapping:
        head = arena[head] + link
    arena[head] = arena[mapping + link]


@subroutine
def remove(s, arena, out, mapping):
    """Free a mapping that has no entries left, and its page tables; emits at most 1 event."""
    file = arena[mapping + w.FILE]
    unlink(arena, file + w.HEAD, w.NEXT, mapping)
    unlink(arena, s.maps + w.NEWEST, w.OLDER, mapping)
    arena[s.maps + w.LIVE] -= 1
    slots, count = arena[mapping + w.SLOTS], tables.drop_upper_tables(s, arena, mapping)
    for at in range(slots, slots + slots_of(arena[mapping + w.START], arena[mapping + w.PAGE_COUNT])):
        if arena[at]:
            give(s, arena, arena[at] >> 12, w.FAN_ORDER)
            count += 1
    tables.charge(s, arena, out, UNMAP_TABLE_COST, count)
    f = file_of_mapping(s, arena, mapping) if arena[file + w.PINS] else 0
    advice.drop(s, arena, mapping, 0, advice.END)
    give(s, arena, slots, arena[mapping + w.SLOTS_ORDER])
    give(s, arena, mapping, w.MAPPING_ORDER)
    # this mapping may have been the last user of a file without a name
    if arena[file + w.HEAD] == 0 and arena[file + w.PINS]:
        arena[file + w.PINS] = 0
        if f and hooks.pin(s, arena, f, -1):
            request_fs(s, arena, w.ASK_CLOSE, file, 0)


@subroutine
def split(s, arena, out, mapping, page):
    """Split a mapping before a page; return the second part.  Emits at most 2 events."""
    if page > arena[mapping + w.FIRST_PAGE] and arena[tables.slot_at(arena, mapping, page)] & w.PRESENT:
        if tables.address_of(arena, mapping, page) & w.HUGE_PAGE - 1:
            tables.zap(s, arena, out, mapping, page, page + 1)
    first, pages = arena[mapping + w.FIRST_PAGE], arena[mapping + w.PAGE_COUNT]
    start = tables.address_of(arena, mapping, page)
    # the cut is inside a group of contiguous entries: remove the group's mark
    if start >> 12 & w.GROUP - 1:
        tables.unfold(arena, mapping, page)
    second = new_mapping(s, arena, arena[mapping + w.FILE], page, first + pages - page, start)
    inherit(s, arena, mapping, second)
    source, target = tables.slot_at(arena, mapping, page), arena[second + w.SLOTS]
    for k in range(slots_of(start, first + pages - page)):
        arena[target + k] = arena[source + k]
        if k or start & w.HUGE_PAGE - 1 == 0:
            arena[source + k] = 0
        elif arena[source]:  # the cut is inside a 2 MiB slot: each part needs its own table of 4 KiB entries
            entries = take(s, arena, w.FAN_ORDER)
            for i in range(w.FAN):
                arena[entries + i] = arena[(arena[source] >> 12) + i]
            arena[target] = entries << 12
    arena[mapping + w.PAGE_COUNT] = page - first
    return second


@subroutine
def words_to_cut(arena, mapping):
    """Return the maximum number of arena words that `cut_out` or `remap` needs to split a mapping."""
    own = (2 << arena[mapping + w.SLOTS_ORDER]) + w.FAN + (1 << w.MAPPING_ORDER)
    return 2 * own + 3 * advice.words_to_copy(arena, mapping)


@subroutine
def cut_out(s, arena, out, mapping, low, high):
    """Unmap the pages [low, high) of a mapping, which may split it; emits at most 14 events."""
    cuts = 0
    if low > arena[mapping + w.FIRST_PAGE]:
        mapping, cuts = split(s, arena, out, mapping, low), 1
    if high < arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT]:
        split(s, arena, out, mapping, high)
        cuts += 1
    tables.charge(s, arena, out, CUT_COST, cuts * (s.map_cost == 0))
    tables.charge(s, arena, out, MUNMAP_COST, s.map_cost == 0)
    tables.note_uses(s, arena, out, mapping, low, high)
    tables.zap(s, arena, out, mapping, low, high)
    remove(s, arena, out, mapping)


@subroutine
def unmap(s, arena, out, op):
    """Run munmap: unmap each page of the range from its newest mapping; return False if unfinished."""
    low, high = pages_of(op)
    page = low + arena[s.maps + w.AT]
    while page < high:
        mapping = mapping_of(s, arena, op, page)
        if mapping == 0:
            arena[s.maps + w.NOT_MAPPED] += 1
            page = next_mapped(arena, file_of(s, arena, op), page, high)
            continue
        arena[s.maps + w.AT] = page - low
        if not reserve_events(s, out, 14) or not has_room(s, arena, words_to_cut(arena, mapping)):
            return False
        stop = min(high, end_of(s, arena, op, mapping, page))
        cut_out(s, arena, out, mapping, page, stop)
        page = stop
    arena[s.maps + w.AT] = 0
    return True


@subroutine
def address_for(s, arena, first, pages):
    """Choose and return the address of a new mapping of `pages` pages that starts at page `first` of a file.

    Where large entries are possible, the address and the file offset agree modulo the size of a large entry.
    """
    m = s.maps
    start = arena[m + w.NEXT_ADDRESS]
    if hooks.ORDER > 21:
        start += ((first << 12) - start) & (1 << hooks.ORDER) - 1
    elif pages >= w.FAN and ever_large(arena, m):
        start += ((first << 12) - start) & w.HUGE_PAGE - 1
    if start + (pages << 12) >= w.AREA_END:
        start = w.AREA + ((first << 12) & w.HUGE_PAGE - 1)
    arena[m + w.NEXT_ADDRESS] = start + (pages + 1 << 12)
    return start


@subroutine
def replace(s, arena, out, op, start, pages):
    """Remove the mappings at the addresses of a MAP_FIXED mapping; return False if unfinished."""
    mapping, end = arena[s.maps + w.NEWEST], start + (pages << 12)
    while mapping:
        older, begin, first = arena[mapping + w.OLDER], arena[mapping + w.START], arena[mapping + w.FIRST_PAGE]
        low, high = max(begin, start), min(begin + (arena[mapping + w.PAGE_COUNT] << 12), end)
        shared = arena[mapping + w.THREAD] < 0 or not op.flag & r.OWN_PROCESS or arena[mapping + w.THREAD] == op.thread
        if low < high and shared:
            if not reserve_events(s, out, 14) or not has_room(s, arena, words_to_cut(arena, mapping)):
                return False
            arena[s.maps + w.REPLACED] += 1
            cut_out(s, arena, out, mapping, first + (low - begin >> 12), first + (high - begin >> 12))
        mapping = older
    return True


@subroutine
def move_entries(s, arena, out, source, target):
    """Move the entries of a mapping to another mapping of the same pages.

    A large entry is removed if the new address differs from the old one modulo 2 MiB, and contiguous entries lose their mark.
    Source: mm/mremap.c: move_page_tables.
    """
    fits = (arena[source + w.START] ^ arena[target + w.START]) & w.HUGE_PAGE - 1 == 0
    first = arena[source + w.FIRST_PAGE]
    page, stop = first, first + min(arena[source + w.PAGE_COUNT], arena[target + w.PAGE_COUNT])
    while page < stop:
        word = arena[tables.entry_at(arena, source, page)]
        end = tables.region_end(arena, source, page) if word & w.LARGE else page + 1
        if word and not word & w.LARGE:
            tables.small_table(s, arena, out, target, page)
        if word and (fits or not word & w.LARGE):
            arena[tables.entry_at(arena, target, page)] = word & ~w.CONTIGUOUS
        page = end
    tables.zap(s, arena, out, source, first, first + arena[source + w.PAGE_COUNT])


@subroutine
def remap(s, arena, out, op):
    """Run mremap on the newest mapping of the first page: change its length from that page on; return False if unfinished.

    The mapping keeps its address if no address after it was assigned yet; else it moves with its entries.
    """
    m, (first, last) = s.maps, pages_of(op)
    mapping = mapping_of(s, arena, op, first)
    if mapping == 0 or last <= first:
        arena[m + w.NOT_MAPPED] += 1
        return True
    tabled = slots_of(arena[mapping + w.START], arena[mapping + w.PAGE_COUNT]) + 1
    if not reserve_events(s, out, 11 + 6 * tabled):
        return False
    if not has_room(s, arena, words_to_cut(arena, mapping) + 2 * slots_of(0, last - first) + 64 + 2 * tabled * w.FAN):
        return False
    if first > arena[mapping + w.FIRST_PAGE]:
        mapping = split(s, arena, out, mapping, first)
    if last < first + arena[mapping + w.PAGE_COUNT]:
        split(s, arena, out, mapping, last)
    start, end = arena[mapping + w.START], arena[mapping + w.START] + (arena[mapping + w.PAGE_COUNT] + 1 << 12)
    # nothing was mapped after it: it can grow in place
    if end == arena[m + w.NEXT_ADDRESS]:
        arena[m + w.NEXT_ADDRESS] = start + (last - first + 1 << 12)
    else:
        start = address_for(s, arena, first, last - first)
    longer = new_mapping(s, arena, arena[mapping + w.FILE], first, last - first, start)
    inherit(s, arena, mapping, longer)
    if start == arena[mapping + w.START]:
        for k in range(slots_of(start, arena[mapping + w.PAGE_COUNT])):
            arena[arena[longer + w.SLOTS] + k] = arena[arena[mapping + w.SLOTS] + k]
            arena[arena[mapping + w.SLOTS] + k] = 0
    else:
        move_entries(s, arena, out, mapping, longer)
    remove(s, arena, out, mapping)
    return True


@subroutine
def add(s, arena, out, op):
    """Run mmap; return False if unfinished."""
    m, file = s.maps, file_of(s, arena, op)
    first, last = pages_of(op)
    if arena[m + w.AT] == 0:
        f = hooks.find(s, arena, op.file)
        refused = last <= first or f == 0 or (op.flag & r.MAP_SYNC and not hooks.SYNCS)
        if refused or is_refused(op, first, last):
            arena[m + w.UNSUPPORTED] += 1
            return True
        start = op.map_address & ~(w.PAGE - 1)
        if not has_room(s, arena, 2 * slots_of(start, last - first) + 64):
            return False
        if start and not replace(s, arena, out, op, start, last - first):
            return False
        if not reserve_events(s, out, 4):
            return False
        if start == 0:
            start = address_for(s, arena, first, last - first)
        mapping = new_mapping(s, arena, file, first, last - first, start)
        arena[mapping + w.FLAGS], arena[mapping + w.THREAD] = op.flag, op.thread if op.flag & r.OWN_PROCESS else -1
        tables.charge(s, arena, out, MMAP_COST, s.map_cost == 0)  # otherwise `charge_map` charges it
        if s.map_cost == 0:
            hooks.note_access(s, arena, out, f)
        if arena[file + w.PINS] == 0:
            arena[file + w.PINS] = 1
            hooks.pin(s, arena, f, 1)
    if not op.flag & r.POPULATE:
        return True
    return populate(s, arena, out, op, op.flag & r.PRIVATE != 0)


@subroutine
def populate(s, arena, out, op, write):
    """Fault in the pages of an operation, in order, for stores if `write`; return False if unfinished.

    If unfinished, `AT` is the number of pages that are done, plus 1.  Each page counts as used (mm/gup.c: FOLL_TOUCH).
    """
    m = s.maps
    low, high = pages_of(op)
    page = low + max(arena[m + w.AT] - 1, 0)
    while page < high:
        mapping = mapping_of(s, arena, op, page)
        if mapping == 0:
            page = next_mapped(arena, file_of(s, arena, op), page, high)
            continue
        if write and not arena[mapping + w.FLAGS] & (r.WRITABLE_SHARED | r.PRIVATE):
            break
        word, need = arena[tables.entry_at(arena, mapping, page)], w.PRESENT | (w.WRITABLE if write else 0)
        if hooks.COUNTS_USES and not reserve_events(s, out, 2):
            arena[m + w.AT] = page - low + 1
            return False
        if word & need != need:
            outcome = fault(s, arena, out, mapping, page, write)
            if outcome == w.BEYOND or (hooks.ORDER and outcome == FULL):
                break
            if outcome != DONE:
                arena[m + w.AT] = page - low + 1
                return False
            arena[m + w.REPLY] = 0
            if hooks.HUGETLB:  # follow_hugetlb_page calls hugetlb_fault, which does not count the fault
                out[s.emitted - 1].fault_flags = 0
        tables.note_uses(s, arena, out, mapping, page, page + 1)
        page += 1
    arena[m + w.AT], arena[m + w.REPLY] = 0, 0
    return True


@subroutine
def advise(s, arena, out, op):
    """Run madvise if its advice changes the page table or the page size of later faults; return False if unfinished."""
    low, high = pages_of(op)
    if op.advice == POPULATE_READ or op.advice == POPULATE_WRITE:
        return populate(s, arena, out, op, op.advice == POPULATE_WRITE)
    known = op.advice == DONT_NEED or op.advice == HUGE or op.advice == NO_HUGE
    page = max(low, arena[s.maps + w.AT]) if known else high
    while page < high:
        mapping, stop = mapping_of(s, arena, op, page), next_mapped(arena, file_of(s, arena, op), page, high)
        if mapping:
            if not reserve_events(s, out, 7) or not has_room(s, arena, advice.words_to_copy(arena, mapping)):
                arena[s.maps + w.AT] = page
                return False
            stop = min(high, end_of(s, arena, op, mapping, page))
            if op.advice == DONT_NEED:
                tables.note_uses(s, arena, out, mapping, page, stop)
                tables.zap(s, arena, out, mapping, page, stop)
            else:
                what = w.ADVISED if op.advice == HUGE else w.ADVISED_AGAINST
                advice.set_advice(s, arena, out, mapping, (page, stop), what)
        page = stop
    arena[s.maps + w.AT] = 0
    return True


@subroutine
def sync(s, arena, out, op):
    """Run msync: write back the pages of shared mappings; return False if unfinished."""
    file, at = file_of(s, arena, op), arena[s.maps + w.AT]
    low, high = pages_of(op)
    page = max(low, at if at >= 0 else ~at)
    while page < high:
        mapping, stop = mapping_of(s, arena, op, page), next_mapped(arena, file, page, high)
        if mapping:
            stop = min(stop, arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT])
            shared = not arena[mapping + w.FLAGS] & r.PRIVATE
            if shared and not clean_file(s, arena, out, file, page, stop):
                return False
        page = stop
        arena[s.maps + w.AT] = ~page  # the complement marks that no part of the mapping at `page` is done
    if not reserve_events(s, out, 1):
        return False
    tables.charge(s, arena, out, MSYNC_COST, s.map_cost == 0)
    arena[s.maps + w.AT] = 0
    return True


@subroutine
def change_one(s, arena, out, op):
    """Apply an operation to the mappings; return False if unfinished."""
    code = op.op
    if code == r.MMAP:
        return remap(s, arena, out, op) if op.flag & r.REMAPPED else add(s, arena, out, op)
    if code == r.MUNMAP:
        return unmap(s, arena, out, op)
    if code == r.MADVISE:
        return advise(s, arena, out, op)
    if code == r.MSYNC:
        return sync(s, arena, out, op)
    if code == r.FSYNC:
        return clean_file(s, arena, out, file_of(s, arena, op), 0, r.NEVER)
    if code == r.TRUNCATE:
        return sync_tail(s, arena, out, op) and zap_file(
            s, arena, out, op, (max(op.new_size, 0) + w.PAGE - 1) >> 12, r.NEVER >> 13
        )
    if code == r.FALLOCATE and op.flag & r.PUNCH_HOLE:
        return zap_file(s, arena, out, op, (op.offset + w.PAGE - 1) >> 12, (op.offset + op.length) >> 12)
    if code == r.FALLOCATE and hooks.ALLOCATION_UNMAPS:
        return zap_file(s, arena, out, op, 0, 0)
    return True


@kernel
def change(state, arena, ops, i, out):
    """Apply `ops[i]` to the mappings; return i + 1 once it is finished, else i."""
    s, op = state[0], ops[i]
    s.emitted, s.need_events, s.need_words, s.op = 0, 0, 0, i
    hooks.begin(s, op)
    return i + 1 if change_one(s, arena, out, op) else i
