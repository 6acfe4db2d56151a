"""PMFS's undo journal: one log of 64-byte entries, each written back and fenced before what it saves may change.

Source: PMFS fs/pmfs/journal.c (pmfs_new_transaction, pmfs_add_logentry, pmfs_commit_transaction, the log cleaner).
"""

from scmsim.fs.engine.events import play
from scmsim.fs.pmfs import recipes as q
from scmsim.fs.pmfs import state as n
from scmsim.jit import part

CLEANED = 6  # bytes of an entry that the cleaner loads


@part
def begin(s, out):
    """Open a transaction; the cleaner runs first if more than an eighth of the journal is used."""
    if s.uncleaned > s.journal_blocks << 3:
        s.reg[q.COUNT], s.reg[q.BYTES] = s.uncleaned, s.uncleaned * CLEANED
        play(s, out, q.CLEAN)
        s.uncleaned = 0
        s.cleanings += 1
    s.entries, s.range_count = 0, 0
    for level in range(4):
        s.saved[level] = 0
    play(s, out, q.BEGIN)


@part
def reflush(s, out, addr, length):
    """Write a logged range back entry by entry: a line that two entries share goes twice."""
    lines = 0
    for at in range(addr, addr + length, q.LOG_DATA):
        lines += ((min(at + q.LOG_DATA, addr + length) - 1) >> 6) - (at >> 6) + 1
    again = lines - (((addr + length - 1) >> 6) - (addr >> 6) + 1)
    s.reg[q.LOGGED_AT], s.reg[q.LOGGED] = addr, length
    s.reg[q.TWICE] = max((again << 6) - (addr & 63), 0)
    play(s, out, q.REFLUSH)


@part
def log(s, out, addr, length):
    """Save `length` bytes at `addr` in the journal, 48 an entry (pmfs_add_logentry)."""
    count = (length + q.LOG_DATA - 1) // q.LOG_DATA
    last = length - (count - 1) * q.LOG_DATA
    end = s.journal_at + s.journal_blocks * q.BLOCK
    if s.reg[q.JOURNAL] + (count + 1) * 64 > end:
        s.reg[q.JOURNAL] = s.journal_at
    s.reg[q.STORED] = 24 * count + length - (0 if last >= 8 else 7) + (s.entries == 0)
    s.reg[q.LOGGED_AT], s.reg[q.LOGGED] = addr, length
    s.reg[q.FLUSHED], s.reg[q.ENTRIES] = min(64 * count, end - s.reg[q.JOURNAL]), count
    play(s, out, q.LOG)
    s.reg[q.JOURNAL] += s.reg[q.FLUSHED]
    s.entries += count
    if s.range_count == n.RANGES:
        reflush(s, out, addr, length)
        return
    s.ranges[s.range_count, 0], s.ranges[s.range_count, 1] = addr, length
    s.range_count += 1


@part
def commit(s, out):
    """Write back what was logged, then the commit entry (pmfs_flush_transaction, pmfs_commit_logentry)."""
    for k in range(s.range_count):
        reflush(s, out, s.ranges[k, 0], s.ranges[k, 1])
    s.reg[q.STORED] = 9 * s.entries
    play(s, out, q.COMMIT)
    s.reg[q.JOURNAL] += 64
    s.uncleaned += s.entries + 1
