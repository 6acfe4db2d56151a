"""Choice of a group and a free run by ext4's multiblock allocator: the goal, then criteria 0 to 3.

Source: Linux 6.1 fs/ext4/mballoc.c (ext4_mb_regular_allocator, ext4_mb_find_by_goal, ext4_mb_choose_next_group,
ext4_mb_good_group, ext4_mb_complex_scan_group, ext4_mb_measure_extent, ext4_mb_check_limits).
"""

from scmsim.alloc import mballoc as m
from scmsim.alloc.bitmap import next_bit
from scmsim.jit import kernel


@kernel
def _use_best(s, arena):
    """Take the best free run, or the wanted part of it (ext4_mb_use_best_found)."""
    s.got = min(s.best_length, s.want)
    m.mark_used(s, arena, s.best, s.got)
    s.status = m.FOUND
    if s.for_stream:
        s.stream_block = s.best


@kernel
def _find_by_goal(s, arena):
    """Take the wanted blocks exactly at the goal if they are free (ext4_mb_find_by_goal)."""
    if not s.try_goal:
        return
    m.load(s, arena, s.goal >> m.GROUP_SHIFT)
    if m.free_run(s, arena, s.goal, s.want) >= s.want:
        s.best, s.best_length = s.goal, s.want
        _use_best(s, arena)


@kernel
def _is_good(s, arena, group, criterion):
    """Return whether a group may serve the request (ext4_mb_good_group)."""
    row = s.group_table + group * m.GROUP_WORDS
    free, fragments = arena[row + m.FREE], arena[row + m.FRAGMENTS]
    if free == 0 or (criterion <= 2 and free < s.want):
        return False
    if criterion == 0:
        # the first group of a flex group is kept for directories and other metadata
        is_kept = s.flex_shift >= m.RESERVED_FLEX_SHIFT and group & ((1 << s.flex_shift) - 1) == 0
        return not (s.for_data and is_kept) and arena[row + m.LARGEST] >= s.power
    return criterion > 1 or free // fragments >= s.want


@kernel
def _from_lists(s, arena, criterion):
    """Return the next group by the lists of orders (criterion 0) or mean runs (1); -1: go on with the next criterion."""
    order = m.LARGEST if criterion == 0 else m.AVERAGE
    least = s.power if criterion == 0 else m.average_order(s.want)
    group, best, since = -1, m.ORDERS, 0
    for one in range(s.group_count):
        row = s.group_table + one * m.GROUP_WORDS
        own, own_since = arena[row + order], arena[row + order + 1]
        is_first = own < best or (own == best and own_since < since)
        if own >= least and is_first and arena[row + m.IS_LOADED] and _is_good(s, arena, one, criterion):
            group, best, since = one, own, own_since
    return group


@kernel
def _check_limits(s, arena, group, is_finished):
    """Take the best run if it is long enough and the search has been long enough (ext4_mb_check_limits)."""
    if s.status == m.FOUND:
        return
    if s.runs_seen > m.MOST_SCAN:
        s.status = m.GIVEN_UP
    elif s.best_length >= s.want and (is_finished or s.runs_seen > m.LEAST_SCAN) and s.best >> m.GROUP_SHIFT == group:
        _use_best(s, arena)


@kernel
def _scan_group(s, arena, group):
    """Compare the free runs of a group with the best one so far (ext4_mb_complex_scan_group, ext4_mb_measure_extent)."""
    at, end = group << m.GROUP_SHIFT, (group + 1) << m.GROUP_SHIFT
    left = arena[s.group_table + group * m.GROUP_WORDS + m.FREE]
    while left > 0 and s.status == m.CONTINUE:
        at = next_bit(arena, s.bits, at, end, True)
        length = m.free_run(s, arena, at, s.want)
        s.runs_seen += 1
        is_first = s.best_length == 0
        is_better = length > s.best_length if s.best_length < s.want else s.want < length < s.best_length
        if length == s.want or is_better:
            s.best, s.best_length = at, length
        if length == s.want:
            _use_best(s, arena)
        elif not is_first:
            _check_limits(s, arena, group, False)
        at += length
        left -= length
    _check_limits(s, arena, group, True)


@kernel
def _try_group(s, arena, group, criterion):
    """Search one group by a criterion; read the group's bitmap if that was not done yet (ext4_mb_good_group_nolock)."""
    row = s.group_table + group * m.GROUP_WORDS
    if arena[row + m.FREE] == 0 or (criterion <= 2 and arena[row + m.FREE] < s.want):
        return
    # The first two criteria do not wait for a read, except for the first group of a flex group, which serves metadata.
    is_first = s.flex_shift > 0 and group & ((1 << s.flex_shift) - 1) == 0
    if criterion < 2 and not is_first and arena[row + m.IS_STORED] and not arena[row + m.IS_LOADED]:
        return
    m.load(s, arena, group)
    if not _is_good(s, arena, group, criterion):
        return
    if criterion == 0:
        s.best = m.find_chunk(s, arena, group, s.power)
        _use_best(s, arena)
    else:
        _scan_group(s, arena, group)


@kernel
def _search(s, arena):
    """Go through the criteria and groups until a run is found."""
    start = s.goal >> m.GROUP_SHIFT
    criterion = 0 if s.power else 1
    while criterion < 4 and s.status == m.CONTINUE:
        group, tried, following = start, 0, criterion
        while tried < s.group_count and following == criterion:
            _try_group(s, arena, group, criterion)
            if s.status != m.CONTINUE:
                return
            tried += 1
            if criterion < 2 and s.group_count >= m.LISTS_FROM:
                group = _from_lists(s, arena, criterion)
                following += group < 0
            else:
                group = group + 1 if group + 1 < s.group_count else 0
        criterion += 1


@kernel
def allocate(s, arena):
    """Take up to `s.want` adjacent blocks and return the first; sets `s.got`.  Returns -1 if nothing is free.

    The caller sets `want`, `goal`, `try_goal`, `for_data` and `for_stream`.
    """
    s.got, s.status, s.runs_seen, s.best_length = 0, m.CONTINUE, 0, 0
    bits = m.bit_length(s.want)
    s.power = bits - 1 if m.ORDER_REQUEST <= bits <= m.ORDERS and s.want == 1 << (bits - 1) else 0
    _find_by_goal(s, arena)
    if s.status != m.FOUND:
        if s.for_stream:  # `goal` stays changed: a search after a discard begins there, too
            s.goal = s.stream_block
        _search(s, arena)
    if s.status != m.FOUND and s.best_length > 0:
        _use_best(s, arena)
    return s.best if s.status == m.FOUND else -1
