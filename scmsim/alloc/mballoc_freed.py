"""Blocks that a transaction freed: they are not allocated before it commits (ext4_free_data).

A commit frees the runs in the order in which they came, which decides where their groups are in the lists of groups.  A run that
continues another run of its group joins it, and counts as the newest.  Source: Linux 6.1 fs/ext4/mballoc.c
(ext4_mb_free_metadata, ext4_process_freed_data).  Simplified: of the runs after the first `MOST_FREED_RUNS` the order is lost.
"""

from scmsim.alloc.bitmap import is_set, set_bits
from scmsim.alloc.mballoc import (
    GROUP_BITS_WORDS,
    GROUP_SHIFT,
    GROUP_WORDS,
    HAS_FREED,
    MOST_FREED_RUNS,
    mark_free,
)
from scmsim.jit import kernel


@kernel
def _take_out(s, arena, block, at_end):
    """Remove the listed run that starts at a block, or ends before it (`at_end`); return its blocks, 0: none is listed."""
    for i in range(s.freed_run_count - 1, -1, -1):
        run = s.freed_runs + 2 * i
        start, length = arena[run], arena[run + 1]
        if length and (start + length if at_end else start) == block:
            arena[run + 1] = 0
            return length
    return 0


@kernel
def _make_room(s, arena):
    """Remove entries of merged runs from a full list; return whether the list has room."""
    if s.freed_run_count < MOST_FREED_RUNS:
        return True
    kept = 0
    for i in range(s.freed_run_count):
        run, to = s.freed_runs + 2 * i, s.freed_runs + 2 * kept
        if arena[run + 1]:
            arena[to], arena[to + 1] = arena[run], arena[run + 1]
            kept += 1
    s.freed_run_count = kept
    return kept < MOST_FREED_RUNS


@kernel
def _add(s, arena, block, count):
    """Add freed blocks of one group to the list."""
    first, end = block >> GROUP_SHIFT << GROUP_SHIFT, ((block >> GROUP_SHIFT) + 1) << GROUP_SHIFT
    start, length = block, count
    if block > first and is_set(arena, s.freed_bits, block - 1):
        before = _take_out(s, arena, block, True)
        start, length = start - before, length + before
    if block + count < end and is_set(arena, s.freed_bits, block + count):
        length += _take_out(s, arena, block + count, False)
    set_bits(arena, s.freed_bits, block, count, True)
    if _make_room(s, arena):
        run = s.freed_runs + 2 * s.freed_run_count
        arena[run], arena[run + 1] = start, length
        s.freed_run_count += 1
    else:
        arena[s.group_table + (block >> GROUP_SHIFT) * GROUP_WORDS + HAS_FREED] = 1


@kernel
def release_at_commit(s, arena, block, count):
    """Free a run of blocks as soon as the running transaction commits (ext4_mb_free_metadata)."""
    at, end = block, block + count
    while at < end:
        stop = min(end, ((at >> GROUP_SHIFT) + 1) << GROUP_SHIFT)
        _add(s, arena, at, stop - at)
        at = stop
    s.freed_blocks += count


@kernel
def commit(s, arena):
    """Free the blocks that the committed transaction freed (ext4_process_freed_data)."""
    if s.freed_blocks == 0:
        return
    for i in range(s.freed_run_count):
        start, length = arena[s.freed_runs + 2 * i], arena[s.freed_runs + 2 * i + 1]
        if length:
            set_bits(arena, s.freed_bits, start, length, False)
            mark_free(s, arena, start, length)
    s.freed_run_count, s.freed_blocks = 0, 0
    for group in range(s.group_count):
        row = s.group_table + group * GROUP_WORDS
        if arena[row + HAS_FREED]:
            arena[row + HAS_FREED] = 0
            _commit_group(s, arena, group)


@kernel
def _commit_group(s, arena, group):
    """Free the blocks of one group that the committed transaction freed and that were in no listed run."""
    first = group * GROUP_BITS_WORDS
    start, length = 0, 0
    for w in range(first, first + GROUP_BITS_WORDS):
        word = arena[s.freed_bits + w]
        if word == 0:
            continue
        arena[s.freed_bits + w] = 0
        for bit in range(64):
            if (word >> bit) & 1:
                at = (w << 6) + bit
                if at != start + length or length == 0:
                    if length:
                        mark_free(s, arena, start, length)
                    start, length = at, 0
                length += 1
    if length:
        mark_free(s, arena, start, length)
