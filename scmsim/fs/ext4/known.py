"""Cache of a file's block look-ups (the extent status tree).  A run is a range of pages, all holes or all in one extent.

A look-up that hits a run ends where the run ends, even if the hole or the extent continues.  So a request for the blocks of a hole
is split where an earlier look-up ended, if blocks next to that hole were freed since.  The cache holds only the borders of runs;
what a run contains is in the file's page table.  Only regular files have the cache.  A page without a block is a hole, or a dirty
page that is promised a block.

Source: Linux 6.1 fs/ext4/{extents_status.c; inode.c: ext4_map_blocks; extents.c: ext4_ext_put_gap_in_cache, ext4_cache_extents}.
Simplified: a file has at most `MOST` runs, and more runs push out those at the file's end; there is no shrinker.
"""

from scmsim.fs.engine import table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.ext4.extents import is_next
from scmsim.fs.linux import state as e
from scmsim.jit import subroutine

# Fields of a regular file's record; a directory uses the same words for other fields:
RUNS = e.SLOTS  # table (2 words): runs in order, two entries each: first page, page after the last
COUNT = e.GAP  # runs
MOST = 128
INLINE = 4  # extents that the inode holds


@subroutine
def entries_for(arena, f, pages):
    """Return a sufficient number of table entries for the look-ups of an operation on `pages` pages."""
    return 2 * min(arena[f + COUNT] + 2 * pages + 2 * INLINE + 1, MOST) + 4


@subroutine
def words_for(s, arena, f, pages):
    """Return the number of arena words that `reserve` takes."""
    if not s.remembers or arena[f + e.IS_DIR]:
        return 0
    return table.words_to_hold(arena, f + RUNS, entries_for(arena, f, pages))


@subroutine
def reserve(s, arena, f, pages):
    """Reserve arena words for the look-ups of an operation on `pages` pages."""
    if s.remembers and arena[f + e.IS_DIR] == 0:
        table.reserve(s, arena, f + RUNS, entries_for(arena, f, pages))


@subroutine
def ready(s, arena, f, pages):
    """Run `reserve` and return True; return False if the arena must grow first."""
    words = words_for(s, arena, f, pages)
    if words and not has_room(s, arena, words):
        return False
    reserve(s, arena, f, pages)
    return True


@subroutine
def drop(s, arena, f):
    """Forget every run of a file, and free the table."""
    if arena[f + e.IS_DIR] == 0:
        table.drop(s, arena, f + RUNS)
        arena[f + COUNT] = 0


@subroutine
def run_after(arena, f, page):
    """Return the number of the first run that ends after a page; the number of runs if there is none."""
    low, high, runs = 0, arena[f + COUNT], arena[f + RUNS]
    while low < high:
        middle = (low + high) >> 1
        if arena[runs + 2 * middle + 1] > page:
            high = middle
        else:
            low = middle + 1
    return low


@subroutine
def move(arena, f, first, by):
    """Shift the runs from number `first` on by `by` places (negative: towards the start); the number of runs changes by `by`."""
    runs, last = arena[f + RUNS], arena[f + COUNT]
    if by > 0:
        for i in range(2 * last - 1, 2 * first - 1, -1):
            arena[runs + i + 2 * by] = arena[runs + i]
    else:
        for i in range(2 * first, 2 * last):
            arena[runs + i + 2 * by] = arena[runs + i]
    arena[f + COUNT] += by


@subroutine
def forget(s, arena, f, page, end):
    """Forget the pages [page, end) (ext4_es_remove_extent)."""
    if not s.remembers or arena[f + e.IS_DIR] or arena[f + COUNT] == 0 or page >= end:
        return
    runs, i = arena[f + RUNS], run_after(arena, f, page)
    if i == arena[f + COUNT] or arena[runs + 2 * i] >= end:
        return
    if arena[runs + 2 * i] < page:
        if arena[runs + 2 * i + 1] > end:  # the run loses its middle
            move(arena, f, i, 1)
            arena[runs + 2 * i + 1], arena[runs + 2 * i + 2] = page, end
            arena[f + COUNT] = min(arena[f + COUNT], MOST)
            return
        arena[runs + 2 * i + 1] = page
        i += 1
    after = i
    while after < arena[f + COUNT] and arena[runs + 2 * after + 1] <= end:
        after += 1
    if after < arena[f + COUNT]:
        arena[runs + 2 * after] = max(arena[runs + 2 * after], end)
    if after > i:
        move(arena, f, after, i - after)


@subroutine
def word_at(arena, f, page):
    """Return the packed word of a page, 0 past the file's table."""
    return arena[arena[f + e.PAGES] + page] if page < arena[f + e.PAGE_COUNT] else 0


@subroutine
def is_hole(word):
    """Return whether a page has no block, and none is promised to it."""
    return word >> e.BLOCK_SHIFT == 0 and word & e.IS_DIRTY == 0


@subroutine
def continues(arena, f, page):
    """Return whether a page continues the hole or the extent of the page before it."""
    word, before = word_at(arena, f, page), word_at(arena, f, page - 1)
    if before >> e.BLOCK_SHIFT == 0:
        return word >> e.BLOCK_SHIFT == 0 and is_hole(word) == is_hole(before)
    return is_next(before, word, 1) and (word ^ before) & e.IS_PROMISED == 0


@subroutine
def continues_on_disk(arena, f, page):
    """Return whether the on-disk index shows a page as a continuation of the page before it.

    There, a page that is promised a block is a hole.
    """
    word, before = word_at(arena, f, page), word_at(arena, f, page - 1)
    if before >> e.BLOCK_SHIFT == 0:
        return word >> e.BLOCK_SHIFT == 0
    return is_next(before, word, 1)


@subroutine
def learn(s, arena, f, page, end):
    """Remember the pages [page, end), all holes or all in one extent; merge them with adjacent runs (ext4_es_insert_extent)."""
    if not s.remembers or arena[f + e.IS_DIR] or page >= end:
        return
    forget(s, arena, f, page, end)
    runs, i = arena[f + RUNS], run_after(arena, f, page)
    joins_next = i < arena[f + COUNT] and arena[runs + 2 * i] == end and continues(arena, f, end)
    if i > 0 and arena[runs + 2 * i - 1] == page and continues(arena, f, page):
        arena[runs + 2 * i - 1] = end
        if joins_next:
            arena[runs + 2 * i - 1] = arena[runs + 2 * i + 1]
            move(arena, f, i + 1, -1)
    elif joins_next:
        arena[runs + 2 * i] = page
    else:
        move(arena, f, i, 1)
        arena[runs + 2 * i], arena[runs + 2 * i + 1] = page, end
        arena[f + COUNT] = min(arena[f + COUNT], MOST)


@subroutine
def end_of(arena, f, page):
    """Return the first page after the hole or extent that contains a page, at most the end of the file's page table."""
    at, end = page, arena[f + e.PAGE_COUNT]
    i = run_after(arena, f, page)
    while True:
        runs = arena[f + RUNS]
        while i < arena[f + COUNT] and arena[runs + 2 * i + 1] <= at:
            i += 1
        # a known run is in one hole or extent: skip to its end
        at = arena[runs + 2 * i + 1] if i < arena[f + COUNT] and arena[runs + 2 * i] <= at else at + 1
        if at >= end or not continues_on_disk(arena, f, at):
            return min(at, end)


@subroutine
def learn_root(s, arena, f):
    """Remember the extents in the inode and the holes between them; skip each that overlaps a known run (ext4_cache_extents).

    Every search of the tree caches the extents in the inode.  The extents of a leaf are cached only when the leaf is read from the
    device, which is not modelled, so nothing is remembered here for a file with leaves.
    """
    if not s.remembers or arena[f + e.IS_DIR] or arena[f + e.LEAF_COUNT]:
        return
    at, is_after, end = 0, False, arena[f + e.PAGE_COUNT]
    while at < end:
        stop, is_extent = end_of(arena, f, at), arena[arena[f + e.PAGES] + at] >> e.BLOCK_SHIFT != 0
        if is_extent or (is_after and stop < end):
            i = run_after(arena, f, at)
            if i == arena[f + COUNT] or arena[arena[f + RUNS] + 2 * i] >= stop:
                learn(s, arena, f, at, stop)
        is_after |= is_extent
        at = stop


@subroutine
def looked_up(s, arena, f, page, count):
    """Look up `count` pages, all holes or all in one extent; remember the result, and return how many of the pages it covers."""
    if not s.remembers or arena[f + e.IS_DIR]:
        return count
    i = run_after(arena, f, page)
    if i < arena[f + COUNT] and arena[arena[f + RUNS] + 2 * i] <= page:
        return min(count, arena[arena[f + RUNS] + 2 * i + 1] - page)
    learn_root(s, arena, f)
    if word_at(arena, f, page) >> e.BLOCK_SHIFT:
        learn(s, arena, f, page, page + count)
    if not is_hole(word_at(arena, f, page)):
        return count
    end = arena[f + e.PAGE_COUNT]
    start, stop = min(page, end), page  # all pages past the table are holes
    while start > 0 and is_hole(word_at(arena, f, start - 1)):
        start -= 1
    if start > 0 and word_at(arena, f, start - 1) >> e.BLOCK_SHIFT == 0:
        start = page  # a promised block before the page hides the hole's start (ext4_ext_put_gap_in_cache)
    while stop < end and is_hole(word_at(arena, f, stop)):
        stop += 1
    learn(s, arena, f, start, stop if stop < end else e.MOST_PAGES)
    return count


@subroutine
def looked_through(s, arena, f, page, count):
    """Look up `count` pages that need no block, by as many look-ups as the known runs require."""
    if s.remembers:
        done = 0
        while done < count:
            done += looked_up(s, arena, f, page + done, count - done)


@subroutine
def before_dirty(s, arena, f, page, count):
    """Look up pages from `page` on before they become dirty; return how many of the `count` pages are done (ext4_da_map_blocks)."""
    if arena[f + e.IS_DIR]:
        return count
    words, like = arena[f + e.PAGES] + page, 1
    if arena[words] & e.IS_DIRTY:
        while like < count and arena[words + like] & e.IS_DIRTY:
            like += 1
        return like
    block = arena[words] >> e.BLOCK_SHIFT
    while like < count and is_alike(arena[words], arena[words + like], block + like if block else 0):
        like += 1
    return looked_up(s, arena, f, page, like)


@subroutine
def is_alike(word, other, block):
    """Return whether page word `other` has the given block (0: none) and the same state as `word`."""
    return other >> e.BLOCK_SHIFT == block and (word ^ other) & (e.IS_DIRTY | e.IS_UNWRITTEN) == 0


@subroutine
def dirtied(s, arena, f, page, count):
    """Remember the promised blocks of `count` pages that became dirty (ext4_insert_delayed_block)."""
    if arena[f + e.IS_DIR] == 0 and arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT == 0:
        learn(s, arena, f, page, page + count)


HOOKS = {
    "before_dirty": before_dirty,
    "dirtied": dirtied,
    "words_for": words_for,
    "reserve": reserve,
    "ready": ready,
    "drop": drop,
    "forget": forget,
    "learn_root": learn_root,
    "learn": learn,
    "looked_up": looked_up,
    "looked_through": looked_through,
}
