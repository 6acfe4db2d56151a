"""Model PMFS's undo journal: a log of 64-byte entries, each made durable before the bytes that it saves may change.

Source: PMFS fs/pmfs/journal.c (pmfs_new_transaction, pmfs_add_logentry, pmfs_commit_transaction, the log cleaner).
"""

from scmsim.fs.engine.events import emit_template
from scmsim.fs.pmfs import state, templates
from scmsim.jit import subroutine

CLEANED = 6  # bytes that the cleaner loads per entry


@subroutine
def begin(s, out):
    """Open a transaction; run the cleaner first if more than an eighth of the journal is used."""
    if s.uncleaned > s.journal_blocks << 3:
        s.reg[templates.COUNT], s.reg[templates.BYTES] = s.uncleaned, s.uncleaned * CLEANED
        emit_template(s, out, templates.CLEAN)
        s.uncleaned = 0
        s.cleanings += 1
    s.entries, s.range_count = 0, 0
    for level in range(4):
        s.saved[level] = 0
    emit_template(s, out, templates.BEGIN)


@subroutine
def reflush(s, out, addr, length):
    """Write a logged range back entry by entry, so that a line shared by two entries is written back twice."""
    lines = 0
    for at in range(addr, addr + length, templates.LOG_DATA):
        lines += ((min(at + templates.LOG_DATA, addr + length) - 1) >> 6) - (at >> 6) + 1
    again = lines - (((addr + length - 1) >> 6) - (addr >> 6) + 1)
    s.reg[templates.LOGGED_AT], s.reg[templates.LOGGED] = addr, length
    s.reg[templates.TWICE] = max((again << 6) - (addr & 63), 0)
    emit_template(s, out, templates.REFLUSH)


@subroutine
def log(s, out, addr, length):
    """Save `length` bytes at `addr` in the journal, 48 per entry (pmfs_add_logentry)."""
    count = (length + templates.LOG_DATA - 1) // templates.LOG_DATA
    last = length - (count - 1) * templates.LOG_DATA
    end = s.journal_at + s.journal_blocks * templates.BLOCK
    # The entries and a commit entry must fit before the end of the journal.
    if s.reg[templates.JOURNAL] + (count + 1) * 64 > end:
        s.reg[templates.JOURNAL] = s.journal_at
    # Per entry: 16 bytes of header and 8 bytes that the inline copy stores twice (see `templates`).
    s.reg[templates.STORED] = 24 * count + length - (0 if last >= 8 else 7) + (s.entries == 0)
    s.reg[templates.LOGGED_AT], s.reg[templates.LOGGED] = addr, length
    s.reg[templates.FLUSHED], s.reg[templates.ENTRIES] = min(64 * count, end - s.reg[templates.JOURNAL]), count
    emit_template(s, out, templates.LOG)
    s.reg[templates.JOURNAL] += s.reg[templates.FLUSHED]
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
    s.reg[templates.STORED] = 9 * s.entries
    emit_template(s, out, templates.COMMIT)
    s.reg[templates.JOURNAL] += 64
    s.uncleaned += s.entries + 1
