"""Model PMFS's undo journal: one log of 64-byte entries, each written back and fenced before the bytes it saves may change.

Source: PMFS fs/pmfs/journal.c (pmfs_new_transaction, pmfs_add_logentry, pmfs_commit_transaction, the log cleaner).
"""

from scmsim.fs.engine.events import emit_recipe
from scmsim.fs.pmfs import recipes, state
from scmsim.jit import subroutine

CLEANED = 6  # bytes that the cleaner loads per entry


@subroutine
def begin(s, out):
    """Open a transaction; run the cleaner first if more than an eighth of the journal is used."""
    if s.uncleaned > s.journal_blocks << 3:
        s.reg[recipes.COUNT], s.reg[recipes.BYTES] = s.uncleaned, s.uncleaned * CLEANED
        emit_recipe(s, out, recipes.CLEAN)
        s.uncleaned = 0
        s.cleanings += 1
    s.entries, s.range_count = 0, 0
    for level in range(4):
        s.saved[level] = 0
    emit_recipe(s, out, recipes.BEGIN)


@subroutine
def reflush(s, out, addr, length):
    """Write a logged range back entry by entry, so that a line shared by two entries is written back twice."""
    lines = 0
    for at in range(addr, addr + length, recipes.LOG_DATA):
        lines += ((min(at + recipes.LOG_DATA, addr + length) - 1) >> 6) - (at >> 6) + 1
    again = lines - (((addr + length - 1) >> 6) - (addr >> 6) + 1)
    s.reg[recipes.LOGGED_AT], s.reg[recipes.LOGGED] = addr, length
    s.reg[recipes.TWICE] = max((again << 6) - (addr & 63), 0)
    emit_recipe(s, out, recipes.REFLUSH)


@subroutine
def log(s, out, addr, length):
    """Save `length` bytes at `addr` in the journal, 48 per entry (pmfs_add_logentry)."""
    count = (length + recipes.LOG_DATA - 1) // recipes.LOG_DATA
    last = length - (count - 1) * recipes.LOG_DATA
    end = s.journal_at + s.journal_blocks * recipes.BLOCK
    # The entries and a commit entry must fit before the end of the journal.
    if s.reg[recipes.JOURNAL] + (count + 1) * 64 > end:
        s.reg[recipes.JOURNAL] = s.journal_at
    # Per entry: 16 bytes of header and 8 bytes that the inline copy stores twice (see `recipes`).
    s.reg[recipes.STORED] = 24 * count + length - (0 if last >= 8 else 7) + (s.entries == 0)
    s.reg[recipes.LOGGED_AT], s.reg[recipes.LOGGED] = addr, length
    s.reg[recipes.FLUSHED], s.reg[recipes.ENTRIES] = min(64 * count, end - s.reg[recipes.JOURNAL]), count
    emit_recipe(s, out, recipes.LOG)
    s.reg[recipes.JOURNAL] += s.reg[recipes.FLUSHED]
    s.entries += count
    if s.range_count == state.RANGES:
        reflush(s, out, addr, length)
        return
    s.ranges[s.range_count, 0], s.ranges[s.range_count, 1] = addr, length
    s.range_count += 1


@subroutine
def commit(s, out):
    """Write back the logged ranges, then the commit entry (pmfs_flush_transaction, pmfs_commit_logentry)."""
    for k in range(s.range_count):
        reflush(s, out, s.ranges[k, 0], s.ranges[k, 1])
    s.reg[recipes.STORED] = 9 * s.entries
    emit_recipe(s, out, recipes.COMMIT)
    s.reg[recipes.JOURNAL] += 64
    s.uncleaned += s.entries + 1
