"""Large folios: the page cache's pages as write() allocates them, in aligned power-of-two runs of file pages and frames.

Units: pages of 4096 bytes.  A folio gets the largest order that the remaining bytes of a write fill, up to 2 MiB and at most to the
next multiple of 2 MiB; a smaller order if the page is not aligned to it or a page of it is already cached.  A truncated folio
is split into folios of decreasing size.  Readahead's folios are left out: reads and faults bring in single pages.
Source: Linux 6.16 mm/filemap.c (generic_perform_write, __filemap_get_folio), include/linux/pagemap.h (fgf_set_order),
fs/ext4/inode.c (ext4_set_inode_mapping_order, ext4_da_write_begin), mm/truncate.c (truncate_inode_partial_folio), mm/huge_memory.c
(folio_split).
"""

from scmsim.fs.linux import state as e
from scmsim.jit import subroutine

CHUNK = 1 << 21  # largest number of bytes that a write copies at once (mapping_max_folio_size)


@subroutine
def order_at(s, page, stop, at, end):
    """Return the order (log2 of the number of pages) of a new folio at `page`.

    The write still has the bytes [at, end) to copy, and no page of [page, stop) is cached.
    """
    left, order = min(end, (at | CHUNK - 1) + 1) - at, 0
    while order < s.folio_order and e.BLOCK << order + 1 <= left:
        order += 1
    while page & (1 << order) - 1 or page + (1 << order) > stop:
        order -= 1
    return order


@subroutine
def folios_in(s, arena, f, page, end):
    """Return (number of folios with a page in [page, end), pages of these folios, page after the last of these folios).

    A page that is not cached counts as a folio.
    """
    if s.folio_order == 0:
        return end - page, end - page, end
    folios, pages = 0, 0
    while page < end:
        count = 1
        if page < arena[f + e.PAGE_COUNT] and arena[arena[f + e.PAGES] + page] & e.IS_CACHED:
            page, count = folio_of(arena, f, page)
        folios, pages, page = folios + 1, pages + count, page + count
    return folios, pages, page


@subroutine
def clean_folios(s, arena, f, page, end):
    """Return the number of folios without a dirty page among those of the cached pages [page, end)."""
    found = 0
    while page < end:
        first, count = folio_of(arena, f, page) if s.folio_order else (page, 1)
        words, dirty = arena[f + e.PAGES] + first, 0
        for at in range(words, words + count):
            dirty |= arena[at] & e.IS_DIRTY
        found += dirty == 0
        page = first + count
    return found


@subroutine
def frame_of(word):
    """Return the frame number of a cached page."""
    return word >> e.FRAME_SHIFT & e.FRAME_MASK


@subroutine
def folio_of(arena, f, page):
    """Return (first page, number of pages) of the folio that contains a cached page."""
    words, first = arena[f + e.PAGES], page
    # IS_TAIL marks pages that entered the cache in the same folio as the page before them
    while first > 0 and arena[words + first] & e.IS_TAIL:
        first -= 1
    frame, count = frame_of(arena[words + first]), 1
    while first + count < arena[f + e.PAGE_COUNT] and arena[words + first + count] & e.IS_TAIL:
        if frame_of(arena[words + first + count]) != frame + count:
            break
        count += 1
    # the frames are not adjacent: another page has replaced the start of the folio
    if page >= first + count:
        return page, 1
    # the rest of a split folio consists of aligned power-of-two parts of decreasing size
    part = 1 << 9
    while part > count or page >= first + part:
        if part <= count:
            first, frame, count = first + part, frame + part, count - part
        part >>= 1
    return (page, 1) if (first | frame) & part - 1 else (first, part)
