"""Run the loops of `advise`: over a trace's operations, once, and over its page touches, once per placement of files."""

from scmsim.core.records import (
    CREATE,
    FALLOCATE,
    KEEP_SIZE,
    PUNCH_HOLE,
    READ,
    RENAME,
    SETUP,
    TRUNCATE,
    ULOAD,
    UNLINK,
    USTORE,
    WRITE,
)
from scmsim.jit import kernel, subroutine
from scmsim.jit.vectors import touch16

# Columns of a file's row in `files`; a comment gives the number of columns if there are several:
SIZE = 0  # bytes
PEAK = 1  # bytes: greatest size ever
HIGH = 2  # bytes: greatest size since the last create, unlink or replacing rename
OVERWRITTEN = 3  # overwritten bytes
COPIED = 4  # (3 columns) bytes that copy-on-write copies if the file is on pages of 4 KiB, 2 MiB and 1 GiB
TOUCHED = 7  # touched frames
MOVED = 8  # (one for each threshold) bytes copied when the file outgrows the threshold
ORDERS = (12, 21, 30)  # log2 of the page sizes
# Entries of `sums`; a comment gives the number of entries if there are several:
WRITTEN = 0  # written bytes
OVER = 1  # overwritten bytes
SWAPPED = 2  # bytes of page-table entries that MCoW (multi-grained copy-on-write) swaps
LIVE = 3  # live bytes now
MOST = 4  # live bytes at the snapshot, within 5 % of their maximum
RUNS = 5  # number of runs of touches in this batch
GRAINS = 6  # (one for each grain) bytes that copy-on-write copies
ENTRY = 8  # bytes of a page-table entry or an index entry


@kernel
def profile(rows, files, sums, limits, runs, snapshot):
    """Add the operations of a batch to the sums; `limits` has the thresholds in bytes, then -1, then the log2 of the grains."""
    for i in range(rows.size):
        op = rows[i]
        f = op.file
        if f < 0:
            continue
        before, end = files[f, SIZE], op.offset + op.length
        counted = op.flag & SETUP == 0
        if op.op == WRITE and op.length > 0:
            if counted:
                sums[WRITTEN] += op.length
                _touch(files, sums, runs, f, op.offset, end)
                if op.offset < before:
                    _overwrite(files, sums, limits, f, op.offset, end)
            _resize(files, sums, limits, f, max(before, end), counted)
        elif (op.op == READ or op.op == ULOAD or op.op == USTORE) and counted and op.offset < before and op.length > 0:
            _touch(files, sums, runs, f, op.offset, min(end, before))
            if op.op == USTORE:  # a store changes the page in place, even if write() copies on write
                sums[WRITTEN] += min(end, before) - op.offset
        elif op.op == TRUNCATE:
            _resize(files, sums, limits, f, op.new_size, counted)
        elif op.op == FALLOCATE and op.flag & (KEEP_SIZE | PUNCH_HOLE) == 0:
            _resize(files, sums, limits, f, max(before, end), counted)
        elif op.op == CREATE or op.op == UNLINK:
            _resize(files, sums, limits, f, 0, False)
            files[f, HIGH] = 0
        elif op.op == RENAME and op.replaced >= 0 and op.replaced != f:
            _resize(files, sums, limits, op.replaced, 0, False)
            files[op.replaced, HIGH] = 0
        # take a snapshot when the live bytes exceed the last one by 5 %, so it stays within 5 % of their maximum
        if sums[LIVE] * 20 > sums[MOST] * 21:
            sums[MOST] = sums[LIVE]
            for k in range(snapshot.size):
                snapshot[k] = files[k, SIZE]


@subroutine
def _resize(files, sums, limits, f, size, counted):
    """Set the length of file `f`; if `counted`, add the bytes that are copied when the file outgrows a threshold."""
    before = files[f, SIZE]
    files[f, SIZE] = size
    sums[LIVE] += size - before
    if size <= files[f, HIGH]:
        return
    k = 0
    while limits[k] >= 0:  # thresholds that the file passes for the first time since its creation
        if counted and files[f, HIGH] <= limits[k] < size:
            files[f, MOVED + k] += before
        k += 1
    files[f, HIGH] = size
    files[f, PEAK] = max(files[f, PEAK], size)


@subroutine
def _overwrite(files, sums, limits, f, start, end):
    """Add, for each grain, the bytes outside of [start, end) that copy-on-write copies for an overwrite of [start, end)."""
    stop = min(end, files[f, SIZE])
    files[f, OVERWRITTEN] += stop - start
    sums[OVER] += stop - start
    k = 0
    while limits[k] >= 0:
        k += 1
    for g in range(limits.size - k - 1):
        sums[GRAINS + g] += _beyond(start, stop, end, limits[k + 1 + g])
    for g in range(3):
        files[f, COPIED + g] += _beyond(start, stop, end, 12 + 9 * g)
    whole = max(0, (end >> 21) - ((start + (1 << 21) - 1) >> 21))
    frames = ((stop + 4095) >> 12) - (start >> 12)
    sums[SWAPPED] += ENTRY * (max(0, frames - 512 * whole) + whole)


@subroutine
def _beyond(start, stop, end, order):
    """Return how many bytes of the 2**`order`-byte blocks that contain [start, stop) are outside of [start, end)."""
    grain = 1 << order
    return (start & (grain - 1)) + max(0, ((stop + grain - 1) >> order << order) - end)


@subroutine
def _touch(files, sums, runs, f, start, end):
    """Append the touches of the bytes [start, end) of file `f` to the runs."""
    first, last = start >> 12, (end - 1) >> 12
    files[f, TOUCHED] += last - first + 1
    row = sums[RUNS]
    runs[row, 0], runs[row, 1], runs[row, 2] = f, first, last
    sums[RUNS] += 1


# Rows of `shape`, which describes a machine's TLBs and caches; a comment gives the number of rows if there are several:
NEAR = 0  # (3 rows) TLB of level 1, by class of page
WIDE = 3  # (3 rows) TLB of level 2, by class of page
CUT = 6  # (3 rows) page-walk cache of level 2 to 4
SERVE = 9  # (3 rows) caches that hold page-table entries
MEMORY = 12  # memory, for which only the column CYCLES is used
SHAPE_ROWS = 13
# Columns of a row of `shape`:
FIRST = 0  # index of its first tag in `tags`
MASK = 1  # sets - 1
LAST = 2  # ways - 1; -1 if the machine has no such TLB or cache
XOR = 3  # bits of an xor index; 0 for a linear index
CYCLES = 4  # cycles of a hit
WALK_CYCLES = 3  # index in `out` after the walks of three classes
_LINE = 44  # tag of a cache line of page-table entries: its number in its level, and from this bit on the level


@kernel
def walks(runs, page_class, start, shape, tags, out):
    """Add the page walks by class, and their cycles, to `out`; file f has pages of class page_class[f] from page start[f] on.

    The TLB has two levels with LRU; a walk fills both, a hit in the second fills the first.  A walk reads page-table entries
    like `scmsim.mmu.walk`.
    """
    previous = -1
    for i in range(runs.shape[0]):
        f = runs[i, 0]
        c = page_class[f]
        shift = 9 * c
        first, last = start[f] + (runs[i, 1] >> shift), start[f] + (runs[i, 2] >> shift)
        for page in range(first, last + 1):
            # a repeat of the last page is a first-level hit that changes nothing
            tag = page << 2 | c
            if tag != previous:
                previous = tag
                if not _look_up(shape, NEAR + c, tags, page, tag) and not _look_up(shape, WIDE + c, tags, page, tag):
                    out[c] += 1
                    out[WALK_CYCLES] += _walk(shape, tags, page << (12 + shift), c + 1)


@subroutine
def _look_up(shape, row, tags, number, tag):
    """Look up a tag in a TLB or cache, and insert it after a miss; return whether it was a hit."""
    if shape[row, LAST] < 0:
        return False
    if shape[row, XOR]:
        number ^= number >> shape[row, XOR]
    at = shape[row, FIRST] + (number & shape[row, MASK]) * 16
    return touch16(tags, at, tag, shape[row, LAST]) != 0


@subroutine
def _walk(shape, tags, address, leaf):
    """Return the cycles of a walk to a page whose entry is in a table of level `leaf`."""
    # the walk starts below the lowest page-walk cache that hits
    top = leaf
    while top < 4:
        number = address >> (12 + 9 * top)
        if _look_up(shape, CUT + top - 1, tags, number, number):
            break
        top += 1
    cycles = 0
    for level in range(top, leaf - 1, -1):
        line = level << _LINE | address >> (15 + 9 * (level - 1))
        row = SERVE
        while row < MEMORY and not _look_up(shape, row, tags, line, line):
            row += 1
        cycles += shape[row, CYCLES]
    return cycles
