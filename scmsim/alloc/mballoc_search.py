"""Choice of a group and a free run by ext4's multiblock allocator: first the goal, then a search by ever weaker criteria.

Source: Linux 6.1 fs/ext4/mballoc.c (ext4_mb_regular_allocator, ext4_mb_find_by_goal, ext4_mb_choose_next_group,
ext4_mb_good_group, ext4_mb_complex_scan_group, ext4_mb_measure_extent, ext4_mb_check_limits), and Linux 6.12 (ext4_mb_scan_groups,
ext4_mb_might_prefetch) where the state's `in_order` is set.
"""

from scmsim.alloc import mballoc as m
from scmsim.alloc.bitmap import next_bit
from scmsim.jit import kernel

POWER2, FAST, TRIMMED, SLOW, ANY = range(5)  # enum criteria; 6.1 has no TRIMMED (CR_BEST_AVAIL_LEN)
MOST_TRIMMED = 3  # times that a request may be halved (s_mb_best_avail_max_trim_order)
# Bitmaps are read ahead for this many flex groups; without flex groups, for this many groups (s_mb_prefetch)
FLIGHTS, WITHOUT_FLEX = 8, 32


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
    if free == 0 or (criterion < ANY and free < s.want):
        return False
    if criterion == POWER2:
        # the first group of a flex group is reserved for directories and other metadata
        is_kept = s.flex_shift >= m.RESERVED_FLEX_SHIFT and group & ((1 << s.flex_shift) - 1) == 0
        return not (s.for_data and is_kept) and arena[row + m.LARGEST] >= s.power
    return criterion >= SLOW or free // fragments >= s.want


@kernel
def _from_lists(s, arena, criterion):
    """Return the next group from the lists by largest chunk (POWER2) or mean run (FAST); -1 if this criterion has no more."""
    order = m.LARGEST if criterion == POWER2 else m.AVERAGE
    least = s.power if criterion == POWER2 else m.average_order(s.want)
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
def _scan_group(s, arena, group, is_quick):
    """Compare the free runs of a group with the best one so far (ext4_mb_complex_scan_group, ext4_mb_measure_extent).

    From Linux 6.5 on, a quick search skips runs that are too short.
    """
    at, end = group << m.GROUP_SHIFT, (group + 1) << m.GROUP_SHIFT
    left = arena[s.group_table + group * m.GROUP_WORDS + m.FREE]
    while left > 0 and s.status == m.CONTINUE:
        at = next_bit(arena, s.bits, at, end, True)
        if is_quick and s.in_order:
            stop = next_bit(arena, s.bits, at, end, False)
            if stop - at < s.want:
                left -= stop - at
                at = stop
                continue
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
def _read_ahead(s, group):
    """Record which groups from `group` on have their bitmaps read ahead (ext4_mb_might_prefetch)."""
    count = min(WITHOUT_FLEX, s.group_count)
    if s.flex_shift > 0:
        flex = 1 << s.flex_shift
        count = min(flex - (group & (flex - 1)), FLIGHTS * flex, s.group_count)
    s.ahead, s.ahead_count, s.following = group, count, (group + count) % s.group_count


@kernel
def _load_ahead(s, arena):
    """Load the groups whose bitmaps were read ahead, from the last to the first (ext4_mb_prefetch_fini).

    Only Linux 6.12 does so.  Linux 6.1 loads only groups whose bitmaps arrive late, and on persistent memory none does.
    """
    for i in range(s.ahead_count - 1, -1, -1):
        group = (s.ahead + i) % s.group_count
        if arena[s.group_table + group * m.GROUP_WORDS + m.FREE] > 0:
            m.load(s, arena, group)
    s.ahead_count = 0


@kernel
def _try_group(s, arena, group, criterion):
    """Search one group by a criterion, and load its bitmap if necessary (ext4_mb_good_group_nolock)."""
    if s.in_order and group == s.following:
        _read_ahead(s, group)
    row = s.group_table + group * m.GROUP_WORDS
    if arena[row + m.FREE] == 0 or (criterion < ANY and arena[row + m.FREE] < s.want):
        return
    # A quick search does not wait for a read, except for the first group of a flex group, which serves metadata.
    is_first = s.flex_shift > 0 and group & ((1 << s.flex_shift) - 1) == 0
    if criterion < SLOW and not is_first and arena[row + m.IS_STORED] and not arena[row + m.IS_LOADED]:
        return
    m.load(s, arena, group)
    if not _is_good(s, arena, group, criterion):
        return
    if criterion == POWER2:
        s.best = m.find_chunk(s, arena, group, s.power)
        _use_best(s, arena)
    else:
        _scan_group(s, arena, group, criterion < SLOW)


@kernel
def _by_lists(s, arena, criterion):
    """Try the goal's group, then the groups that the lists suggest, or the groups after the goal's."""
    group, tried = s.goal >> m.GROUP_SHIFT, 0
    while tried < s.group_count and group >= 0:
        _try_group(s, arena, group, criterion)
        if s.status != m.CONTINUE:
            return
        tried += 1
        if criterion < SLOW and s.group_count >= m.LISTS_FROM:
            group = _from_lists(s, arena, criterion)
        else:
            group = group + 1 if group + 1 < s.group_count else 0


@kernel
def _try_orders(s, arena, criterion, part, order, end):
    """Try the groups of the orders [order, end), sorted by order, then by number.

    Part 0 has the groups from the goal's group on, part 1 the groups before it.
    """
    start, count = s.goal >> m.GROUP_SHIFT, s.group_count
    first, last = (0, start) if part else (start, count)
    field = s.group_table + (m.LARGEST if criterion == POWER2 else m.AVERAGE)
    before = order * count - 1
    while s.status == m.CONTINUE:
        following = end * count
        for group in range(first, last):
            key = arena[field + group * m.GROUP_WORDS] * count + group
            if before < key < following:
                following = key
        if following == end * count:
            return
        before = following
        _try_group(s, arena, following % count, criterion)


@kernel
def _by_order(s, arena, criterion):
    """Try groups of sufficient order, or all groups in turn; with TRIMMED also shorten the request (ext4_mb_scan_groups)."""
    start = s.goal >> m.GROUP_SHIFT
    s.following, s.ahead_count = start, 0
    if criterion >= SLOW or s.group_count < m.LISTS_FROM:
        tried = 0
        while tried < s.group_count and s.status == m.CONTINUE:
            _try_group(s, arena, (start + tried) % s.group_count, criterion)
            tried += 1
        return
    longest = m.bit_length(s.want) - 1
    least = max(longest - MOST_TRIMMED, 0)
    if 1 << least < s.asked:
        least = m.bit_length(s.asked)
    for part in range(2):
        if criterion < TRIMMED:
            order = s.power if criterion == POWER2 else m.average_order(s.want)
            _try_orders(s, arena, criterion, part, order, m.ORDERS)
            continue
        bits = longest
        while bits >= least and s.status == m.CONTINUE:
            s.want = 1 << bits
            order = m.average_order(s.want)
            _try_orders(s, arena, criterion, part, order, order + 1)
            bits -= 1
    if criterion == TRIMMED and s.status == m.CONTINUE:
        s.want = s.planned


@kernel
def _search(s, arena):
    """Try the criteria in turn, each on all groups, until a run is found."""
    criterion = POWER2 if s.power else FAST
    # A request for metadata has nothing to shorten, and without lists no group could serve the shorter one.
    is_trimmed = s.in_order and s.for_data and s.group_count >= m.LISTS_FROM
    while criterion <= ANY and s.status == m.CONTINUE:
        if s.in_order:
            _by_order(s, arena, criterion)
        else:
            _by_lists(s, arena, criterion)
        criterion += 2 if criterion == FAST and not is_trimmed else 1


@kernel
def allocate(s, arena):
    """Take up to `s.want` adjacent blocks; return the first, and set `s.got` to their number.  Return -1 if no block is free.

    The caller sets `want`, `goal`, `try_goal`, `for_data` and `for_stream`, and for data also `asked` and `planned`.
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
    _load_ahead(s, arena)
    return s.best if s.status == m.FOUND else -1
