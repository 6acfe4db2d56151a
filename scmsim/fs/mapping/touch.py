"""Loads, stores and cache-line write-backs of a program through its mappings: most rows of a trace with mappings."""

from scmsim.core import records as r
from scmsim.fs.engine.events import emit_run, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.mapping import hooks, tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.common import file_of_mapping
from scmsim.fs.mapping.faults import fault
from scmsim.fs.mapping.mechanisms import ACCESS_SITE
from scmsim.jit import inlined, kernel, subroutine


@inlined
def mapping_of(s, arena, op, page):
    """Return the newest mapping of a page that the operation's thread can access; 0 if there is none."""
    mapping = arena[arena[s.maps + w.FILES] + op.file * w.FILE_WORDS + w.HEAD]
    while mapping:
        inside = page - arena[mapping + w.FIRST_PAGE]
        mine = arena[mapping + w.THREAD] < 0 or arena[mapping + w.THREAD] == op.thread
        if 0 <= inside < arena[mapping + w.PAGE_COUNT] and mine:
            return mapping
        mapping = arena[mapping + w.NEXT]
    return 0


@inlined
def end_of(s, arena, op, mapping, page):
    """Return the first page after `page` that `mapping` does not map or a newer mapping of the thread maps."""
    end = arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT]
    newer = arena[arena[s.maps + w.FILES] + op.file * w.FILE_WORDS + w.HEAD]
    while newer != mapping:
        mine = arena[newer + w.THREAD] < 0 or arena[newer + w.THREAD] == op.thread
        if mine and page < arena[newer + w.FIRST_PAGE] < end:
            end = arena[newer + w.FIRST_PAGE]
        newer = arena[newer + w.NEXT]
    return end


@subroutine
def is_stale(s, arena, mapping, word, page, write):
    """Return whether an entry is out of date.

    It is out of date if it maps zeros although the page now has a block, or if a store finds a page that was written back after
    the entry was set.
    """
    f = file_of_mapping(s, arena, mapping)
    if f == 0:
        return False
    if word & w.ZERO:
        place = hooks.place(s, arena, f, page)
        return place != 0 and not place & w.UNWRITTEN
    if hooks.DAX or not write or word & w.COPIED or hooks.is_dirty(s, arena, f, page):
        return False
    arena[tables.entry_at(arena, mapping, page)] &= ~w.WRITABLE
    return True


@inlined
def fits(s, arena, mapping, word, page, write):
    """Return whether an entry is up to date and has the rights that the load or store needs."""
    need = w.PRESENT | (w.WRITABLE if write else 0)
    if word & need != need:
        return False
    checked = word & w.ZERO or (write and hooks.KEEPS_CLEAN and not hooks.DAX)
    return not (checked and is_stale(s, arena, mapping, word, page, write))


@inlined
def code_of(op):
    """Return the event code of a touch."""
    if op.op == r.ULOAD:
        return r.LOAD
    if op.op == r.UFLUSH:
        return r.FLUSH
    return r.NTSTORE if op.flag & r.NON_TEMPORAL else r.STORE


@inlined
def run_length(arena, entry, word, at, end):
    """Return how many bytes from `at` on are adjacent on the device, by the entries that follow in the same table."""
    if word & w.LARGE:
        return min(end, (at | w.HUGE_PAGE - 1) + 1) - at
    stop = (at | w.PAGE - 1) + 1
    k = 1
    while stop < end and stop & w.HUGE_PAGE - 1 and arena[entry + k] == word + (k << 12):
        stop += w.PAGE
        k += 1
    return min(stop, end) - at


@inlined
def page_of(word):
    """Return how many bytes an entry maps."""
    return w.HUGE_PAGE if word & w.LARGE else w.PAGE


@inlined
def order_of(word):
    """Return the event's page order (log2 of bytes, and the CONTIGUOUS flag) for the page that an entry maps."""
    return (30 if hooks.ORDER == 30 else 21) if word & w.LARGE else 12 | (r.CONTIGUOUS if word & w.CONTIGUOUS else 0)


@inlined
def emit_touch(s, arena, out, op, word, at):
    """Append the event of a touch; at = (address in the program, bytes, bytes into the entry's page)."""
    vaddr, length, inside = at
    space = r.KERNEL if word & (w.ZERO | w.COPIED) else hooks.SPACE
    emit_run(s, out, tables.what_of(s, arena, code_of(op), ACCESS_SITE, space), 0, length)
    e = out[s.emitted - 1]
    e.vaddr = vaddr
    e.order = order_of(word)
    e.addr = (word & ~w.FLAG_BITS) + (0 if word & w.ZERO else inside)


@subroutine
def enter_space(s, arena, out, mapping):
    """Switch to the address space of a thread that is a process of its own."""
    wanted = arena[mapping + w.THREAD] + 1
    if wanted != arena[s.maps + w.RUNS]:
        arena[s.maps + w.RUNS] = wanted
        emit_run(s, out, tables.what_of(s, arena, r.INVALIDATE, ACCESS_SITE, r.USER), 0, 0)
        out[s.emitted - 1].address_space = wanted + 1


@subroutine
def skip(s, arena, outcome):
    """Count a touch that ends with a signal."""
    m = s.maps
    if outcome == w.BEYOND:
        arena[m + w.BEYOND_END] += 1
    else:
        arena[m + w.NO_SPACE] += 1
    arena[m + w.REPLY], arena[m + w.HOW] = 0, 0


@subroutine
def touch_run(s, arena, out, op):
    """Run or resume a touch; return False if unfinished."""
    m, write = s.maps, op.op == r.USTORE
    hooks.begin(s, op)
    at, end = op.offset + arena[m + w.AT], op.offset + max(op.length, 1)
    while at < end:
        if not reserve_events(s, out, 2):
            return False
        page = at >> 12
        mapping = mapping_of(s, arena, op, page)
        if mapping == 0 or (write and not arena[mapping + w.FLAGS] & (r.WRITABLE_SHARED | r.PRIVATE)):
            arena[m + (w.DENIED if mapping else w.NOT_MAPPED)] += 1
            break
        enter_space(s, arena, out, mapping)
        entry = tables.entry_at(arena, mapping, page)
        word = arena[entry]
        if not fits(s, arena, mapping, word, page, write):
            outcome = fault(s, arena, out, mapping, page, write)
            if outcome == NO_ROOM or outcome == w.ASK:
                arena[m + w.AT] = at - op.offset
                return False
            if outcome != DONE:
                skip(s, arena, outcome)
                break
            arena[m + w.REPLY] = 0
            continue  # look again at the entry that the fault has set
        last = end_of(s, arena, op, mapping, page) << 12
        vaddr = arena[mapping + w.START] + at - (arena[mapping + w.FIRST_PAGE] << 12)
        length = min(run_length(arena, entry, word, vaddr, vaddr + min(end, last) - at), min(end, last) - at)
        inside = vaddr & page_of(word) - 1
        emit_touch(s, arena, out, op, word, (vaddr, length, inside))
        at += length
        arena[m + w.AT] = at - op.offset
    arena[m + w.AT] = 0
    return True


@inlined
def write_event(out, n, op, word, address):
    """Write event `n` except its site and row: a touch of an address that an entry maps, as `emit_touch` writes it."""
    # the mask lets LLVM infer that the index is not negative
    e, inside = out[n & 0x7FFFFFFF], address & page_of(word) - 1
    e.code, e.space, e.order, e.bytes_per_access = code_of(op), hooks.SPACE, order_of(word), 0
    e.addr, e.length, e.vaddr = (word & ~w.FLAG_BITS) + inside, op.length, address


@subroutine
def quick_run(s, arena, ops, i, out):
    """Run touches from `ops[i]` on that need only a present entry of one file's newest mapping; return the next index.

    Each touch is within a page.  Most touches are of this kind and take a tenth of `touch_run`'s time.
    """
    m, file, n, at = s.maps, ops[i].file, s.emitted, i
    mapping = arena[arena[m + w.FILES] + file * w.FILE_WORDS + w.HEAD] if file >= 0 else 0
    # touch_run handles a resumed touch and several address spaces
    if mapping == 0 or arena[m + w.AT] or arena[m + w.RUNS] or arena[mapping + w.THREAD] >= 0:
        return i
    start, origin = arena[mapping + w.START], arena[mapping + w.FIRST_PAGE] << 12
    size = arena[mapping + w.PAGE_COUNT] << 12
    slots, site = arena[mapping + w.SLOTS] - (start >> 21), arena[m + w.SITE] + ACCESS_SITE
    while at < ops.size and n < out.size:
        op = ops[at]
        write, inside = op.op == r.USTORE, op.offset - origin
        if op.file != file or not (write or op.op == r.ULOAD or op.op == r.UFLUSH) or inside < 0 or inside >= size:
            break
        address = start + inside
        word = arena[slots + (address >> 21)]
        if word and not word & w.PRESENT:
            word = arena[(word >> 12) + (address >> 12 & w.FAN - 1)]
        need, page = w.PRESENT | (w.WRITABLE if write else 0), page_of(word)
        # zeros, private copies and stores to cached pages need the checks of touch_run
        if word & (need | w.ZERO | w.COPIED) != need or (write and hooks.KEEPS_CLEAN and not hooks.DAX):
            break
        if op.length <= 0 or (address & page - 1) + op.length > page:
            break
        write_event(out, n, op, word, address)
        out[n].site, out[n].op = site, at
        n, at = n + 1, at + 1
    s.emitted = n
    s.seen += at - i
    return at


@kernel
def touch(state, arena, ops, i, out):
    """Run touches from `ops[i]` on; return the index of the first operation that is not a touch or must be resumed."""
    s = state[0]
    s.emitted, s.need_events, s.need_words = 0, 0, 0
    while i < ops.size:
        i = quick_run(s, arena, ops, i, out)
        if i == ops.size:
            break
        op = ops[i]
        s.op = i
        if op.op == r.UFENCE:
            if not reserve_events(s, out, 1):
                break
            emit_run(s, out, tables.what_of(s, arena, r.FENCE, ACCESS_SITE, r.PM), 0, 1)
        elif (op.op != r.ULOAD and op.op != r.USTORE and op.op != r.UFLUSH) or op.file < 0:
            break
        elif not touch_run(s, arena, out, op):
            break
        s.seen += 1
        i += 1
    return i
