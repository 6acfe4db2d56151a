"""Allocation of files' blocks as in ext4's mballoc: preallocations of a file and of a locality group, normalised requests.

Units: blocks and pages of 4096 bytes.  Source: Linux 6.1 and 6.12 fs/ext4/mballoc.c (ext4_mb_new_blocks, ext4_mb_use_preallocated,
ext4_mb_group_or_file, ext4_mb_normalize_request, ext4_mb_new_inode_pa, ext4_mb_add_n_trim, ext4_discard_preallocations).  One
processor, so one locality group.  On a full device, freed blocks that wait for a commit become free at once.
"""

from scmsim.alloc import mballoc, mballoc_freed
from scmsim.alloc.mballoc import bit_length
from scmsim.alloc.mballoc_search import allocate
from scmsim.fs.engine.arena import give, take
from scmsim.fs.linux import goals
from scmsim.fs.linux import state as e
from scmsim.fs.linux.descriptors import count_blocks
from scmsim.fs.linux.goals import block_of, left_of, right_of
from scmsim.jit import subroutine

# Fields of a preallocation, one arena word each:
NEXT = 0  # arena offset of the next preallocation in its list; 0 if none
AT = 1  # first block
PAGE = 2  # page of the file to which the first block belongs
LENGTH = 3  # blocks; set only in a file's preallocation
UNUSED = 4  # blocks that hold no page
STREAM_REQUEST = 16  # blocks: larger files do not use the locality group (s_mb_stream_request)
GROUP_REQUEST = 512  # blocks of a locality group's preallocation (s_mb_group_prealloc)
MOST_LISTED, KEPT_LISTED = 8, 5  # preallocations in a list before it is trimmed, and after
MEBI = 256  # blocks per MiB
HAS_EXTENTS = True  # False with pointer blocks: the kernel then passes no neighbouring blocks to the allocator


@subroutine
def take_own(s, arena, f, page, want):
    """Take blocks from the file's preallocation for `page` (ext4_mb_use_inode_pa); return the first block, or -1."""
    before, one = 0, arena[f + e.PREALLOCATIONS]
    while one and not arena[one + PAGE] <= page < arena[one + PAGE] + arena[one + LENGTH]:
        before, one = one, arena[one + NEXT]
    if one == 0:
        return -1
    at = page - arena[one + PAGE]
    s.got = min(want, arena[one + LENGTH] - at)
    block = arena[one + AT] + at
    arena[one + UNUSED] -= s.got
    s.windowed -= s.got
    if before:  # the list is in the order of use: the last used comes first
        arena[before + NEXT], arena[one + NEXT], arena[f + e.PREALLOCATIONS] = (
            arena[one + NEXT],
            arena[f + e.PREALLOCATIONS],
            one,
        )
    if arena[one + UNUSED] == 0:
        arena[f + e.PREALLOCATIONS] = arena[one + NEXT]
        give(s, arena, one, e.PREALLOCATION_ORDER)
    return block


@subroutine
def unlist(arena, head, one):
    """Remove a preallocation from the list whose first element is at arena[head]."""
    at = head
    while arena[at] != one:
        at = arena[at] + NEXT
    arena[at] = arena[one + NEXT]


@subroutine
def list_for(s, blocks):
    """Return the arena offset of the head of the locality group's list for preallocations with `blocks` unused blocks."""
    return s.locality_lists + min(bit_length(blocks) - 1, e.LOCALITY_LISTS - 1)


@subroutine
def drop_shared(s, arena, one):
    """Free a preallocation of the locality group that is no longer in a list (ext4_mb_release_group_pa)."""
    mballoc.release(s, arena, arena[one + AT], arena[one + UNUSED])
    s.windowed -= arena[one + UNUSED]
    give(s, arena, one, e.PREALLOCATION_ORDER)


@subroutine
def enlist(s, arena, one):
    """Add a preallocation to its list, by unused blocks, and trim the list (ext4_mb_add_n_trim)."""
    head = list_for(s, arena[one + UNUSED])
    at, place, count = head, -1, 1
    while arena[at]:
        if place < 0 and arena[one + UNUSED] < arena[arena[at] + UNUSED]:
            place = at
        at = arena[at] + NEXT
        count += 1
    place = at if place < 0 else place
    arena[one + NEXT], arena[place] = arena[place], one
    if count <= MOST_LISTED:
        return
    at = head
    while arena[at] and count > KEPT_LISTED:
        other = arena[at]
        if other == one:
            at = one + NEXT
        else:
            arena[at] = arena[other + NEXT]
            drop_shared(s, arena, other)
            count -= 1


@subroutine
def use_shared(s, arena, one, want):
    """Take `want` blocks from a preallocation of the locality group that is in no list, and put the rest on a list."""
    block = arena[one + AT]
    arena[one + AT] += want
    arena[one + UNUSED] -= want
    s.got = want
    s.windowed -= want
    if arena[one + UNUSED]:
        enlist(s, arena, one)
    else:
        give(s, arena, one, e.PREALLOCATION_ORDER)
    return block


@subroutine
def take_shared(s, arena, want, goal):
    """Take blocks from the locality group's preallocation nearest to `goal`; return the first block, -1 if none is large enough."""
    nearest = 0
    for head in range(list_for(s, want), s.locality_lists + e.LOCALITY_LISTS):
        one = arena[head]
        while one:
            if arena[one + UNUSED] >= want and (
                nearest == 0 or abs(goal - arena[nearest + AT]) > abs(goal - arena[one + AT])
            ):
                nearest = one
            one = arena[one + NEXT]
    if nearest == 0:
        return -1
    unlist(arena, list_for(s, arena[nearest + UNUSED]), nearest)
    return use_shared(s, arena, nearest, want)


@subroutine
def normal_size(pages):
    """Return the size in pages of the allocation window for a file of `pages` pages (ext4_mb_normalize_request)."""
    if pages <= MEBI:
        size = 4
        while size < pages:
            size *= 2
        return size
    if pages <= 4 * MEBI:
        return 2 * MEBI
    return 4 * MEBI if pages <= 8 * MEBI else 8 * MEBI


@subroutine
def normalise(s, arena, f, page, want, left, right):
    """Widen a request for `want` pages from `page` on to an aligned window; return the window's first page.

    Sets `s.want` and `s.planned`, and a goal next to the file's neighbouring blocks (ext4_mb_normalize_request).
    """
    pages = max(page + want, (arena[f + e.SIZE] + 4095) >> 12)
    size = normal_size(pages)
    start = 0 if pages <= MEBI else page & -size
    start = max(start, page & ~(mballoc.GROUP - 1))
    end = start + size
    if HAS_EXTENTS and left >= start:
        start = left + 1
    if HAS_EXTENTS and 0 <= right < end:
        end = right
    end = min(end, start + mballoc.GROUP)
    one = arena[f + e.PREALLOCATIONS]
    while one:
        after = arena[one + PAGE] + arena[one + LENGTH]
        if arena[one + PAGE] < end and after > start:
            if after <= page:
                start = after
            elif arena[one + PAGE] > page:
                end = arena[one + PAGE]
        one = arena[one + NEXT]
    s.want = s.planned = end - start
    if HAS_EXTENTS and right == end and block_of(arena, f, right) >= s.want:
        s.goal, s.try_goal = block_of(arena, f, right) - s.want, 1
    if HAS_EXTENTS and left >= 0 and left + 1 == start:
        s.goal, s.try_goal = block_of(arena, f, left) + 1, 1
    return start


@subroutine
def first_kept(page, want, start, asked, got):
    """Return the first page of a preallocation that got only `got` of the `asked` blocks (ext4_mb_new_inode_pa).

    The window begins at page `start`; the request is for `want` pages from `page` on.
    """
    if page >= start + asked - got:
        return start + asked - got
    return start if page + want <= start + got else page


@subroutine
def keep_own(s, arena, f, page, want, start, block):
    """Make the `s.got` blocks from `block` on a preallocation of the file, and take the request's blocks from it."""
    one = take(s, arena, e.PREALLOCATION_ORDER)
    arena[one + AT], arena[one + LENGTH], arena[one + UNUSED] = block, s.got, s.got
    arena[one + PAGE] = first_kept(page, want, start, s.planned, s.got) if s.got < s.planned else start
    arena[one + NEXT] = arena[f + e.PREALLOCATIONS]
    arena[f + e.PREALLOCATIONS] = one
    s.windowed += s.got
    return take_own(s, arena, f, page, want)


@subroutine
def keep_shared(s, arena, want, block):
    """Make the `s.got` blocks from `block` on a preallocation of the locality group, and take `want` of them."""
    one = take(s, arena, e.PREALLOCATION_ORDER)
    arena[one + AT], arena[one + UNUSED] = block, s.got
    s.windowed += s.got
    return use_shared(s, arena, one, want)


@subroutine
def find(s, arena, want):
    """Search for the blocks of a request; on a full device free preallocations, then commit freed blocks, and retry."""
    block = allocate(s, arena)
    while block < 0 and discard_for_space(s, arena, want):
        block = allocate(s, arena)
    if block < 0:
        mballoc_freed.commit(s, arena)
        block = allocate(s, arena)
    return block


@subroutine
def take_blocks(s, arena, f, page, want, bits):
    """Take up to `want` adjacent blocks for the pages from `page` on and return the first (ext4_mb_new_blocks)."""
    block = serve(s, arena, f, page, want, bits)
    count_blocks(s, arena, block, s.got, -1)
    return block


@subroutine
def serve(s, arena, f, page, want, bits):
    """Reserve up to `want` adjacent blocks, preallocated or free, for the pages from `page` on; return the first block."""
    is_file = arena[f + e.IS_DIR] == 0
    want, left = min(want, mballoc.GROUP), s.free_blocks + blocks_to_come(s)
    # write-back reserved its blocks when its pages became dirty, so the blocks kept for index blocks do not limit it
    # (EXT4_GET_BLOCKS_DELALLOC_RESERVE)
    if s.reserved > 0 and is_file and not bits & e.IS_UNWRITTEN:
        left += s.kept_blocks
    elif bits & e.IS_UNWRITTEN:
        left -= s.reserved
    if s.lent_to == s.seen:
        left += s.lent
    while want > left:
        want >>= 1
    block = take_own(s, arena, f, page, want) if is_file else -1
    if block >= 0:
        return block
    left, right = left_of(arena, f, page), right_of(arena, f, page)
    goal = goals.of_page(s, arena, f, page, left, right)
    size = (arena[f + e.SIZE] + 4095) >> 12
    is_small = is_file and max(page + want, size) <= STREAM_REQUEST
    if is_small:
        block = take_shared(s, arena, want, goal)
        if block >= 0:
            return block
    # write-back of a closed file: no more pages will come
    is_done = s.closes > 0 and arena[f + e.OPENS] == 0 and page + want == size
    s.want, s.goal, s.try_goal, s.for_data = want, goal, 0, is_file
    s.asked, s.planned = want, want
    s.for_stream = is_file and not is_small and not is_done
    start = page
    # fallocate requests only the blocks of its range (EXT4_GET_BLOCKS_NO_NORMALIZE)
    if is_file and not bits & e.IS_UNWRITTEN:
        if is_small:
            s.want = GROUP_REQUEST
        elif not is_done:
            start = normalise(s, arena, f, page, want, left, right)
    block = find(s, arena, want)
    if s.got > want:
        return keep_shared(s, arena, want, block) if is_small else keep_own(s, arena, f, page, want, start, block)
    return block


@subroutine
def take_index_block(s, arena, f, page, slot):
    """Take a block for the index block in `slot`, which leads to `page`; return the block (ext4_new_meta_blocks)."""
    s.want, s.goal, s.try_goal, s.for_data, s.for_stream = 1, goals.of_index(s, arena, f, page, slot), 0, 0, 0
    block = find(s, arena, 1)
    count_blocks(s, arena, block, 1, -1)
    return block


@subroutine
def discard_preallocations(s, arena, f):
    """Free the unused blocks of a file's preallocations (ext4_discard_preallocations)."""
    one = arena[f + e.PREALLOCATIONS]
    while one:
        following = arena[one + NEXT]
        drop_own(s, arena, f, one)
        one = following
    arena[f + e.PREALLOCATIONS] = 0


@subroutine
def drop_own(s, arena, f, one):
    """Free the blocks of a file's preallocation that hold none of its pages (ext4_mb_release_inode_pa)."""
    run, end = 0, arena[f + e.PAGE_COUNT]
    for i in range(arena[one + LENGTH]):
        page, block = arena[one + PAGE] + i, arena[one + AT] + i
        if page < end and block_of(arena, f, page) == block:
            if run:
                mballoc.release(s, arena, block - run, run)
            run = 0
        else:
            run += 1
    if run:
        mballoc.release(s, arena, arena[one + AT] + arena[one + LENGTH] - run, run)
    s.windowed -= arena[one + UNUSED]
    give(s, arena, one, e.PREALLOCATION_ORDER)


@subroutine
def discard_listed(s, arena, f, head, group):
    """Discard the preallocations of a list that are in a group; the arena word `head` links to the first one.

    `f` is the file that owns the list, or 0 for the locality group.
    """
    at = head
    while arena[at]:
        one = arena[at]
        if arena[one + AT] >> mballoc.GROUP_SHIFT == group:
            arena[at] = arena[one + NEXT]
            if f:
                drop_own(s, arena, f, one)
            else:
                drop_shared(s, arena, one)
        else:
            at = one + NEXT


@subroutine
def discard_group(s, arena, group):
    """Discard all preallocations in a block group, of files and of the locality group (ext4_mb_discard_group_preallocations)."""
    for row in range(s.rows, s.rows + s.row_count * e.ROW_WORDS, e.ROW_WORDS):
        if arena[row]:
            discard_listed(s, arena, arena[row], arena[row] + e.PREALLOCATIONS, group)
    for head in range(s.locality_lists, s.locality_lists + e.LOCALITY_LISTS):
        discard_listed(s, arena, 0, head, group)


@subroutine
def discard_for_space(s, arena, needed):
    """Discard preallocations, group by group, until at least `needed` blocks became free; return how many did.

    Source: ext4_mb_discard_preallocations.
    """
    free, group = s.free_blocks, 0
    while group < s.group_count and s.free_blocks - free < needed:
        discard_group(s, arena, group)
        group += 1
    return s.free_blocks - free


@subroutine
def release_at_once(s, arena, block, count):
    """Free the blocks [block, block + count)."""
    count_blocks(s, arena, block, count, 1)
    mballoc.release(s, arena, block, count)


@subroutine
def release_at_commit(s, arena, block, count):
    """Free the blocks [block, block + count) as soon as the running transaction commits."""
    count_blocks(s, arena, block, count, 1)
    mballoc_freed.release_at_commit(s, arena, block, count)


@subroutine
def blocks_to_come(s):
    """Return how many blocks are preallocated or become free at the next commit, minus those kept for index blocks."""
    return s.windowed + s.freed_blocks - s.kept_blocks


HOOKS = {
    "take_blocks": take_blocks,
    "take_index_block": take_index_block,
    "release_blocks": release_at_once,
    "discard_preallocations": discard_preallocations,
    "blocks_to_come": blocks_to_come,
}
JOURNAL_HOOKS = HOOKS | {"release_blocks": release_at_commit, "committed": mballoc_freed.commit}
