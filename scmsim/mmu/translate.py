"""Translate an address by the first level, the second level or a page walk, and fill the levels."""

from scmsim.core.records import ORDER, SCM_TABLE
from scmsim.jit import outlined, subroutine
from scmsim.mmu.columns import FAR_HIT_SIZED, HIT, SIZED, STLB_HIT, USER_FAR_HIT, USER_WALKS, WALKS
from scmsim.mmu.state import ADDRESS, BOTH, EMPTY, EXCLUSIVE, SCM_SHIFT
from scmsim.mmu.tlb import first_slot, free, insert, probe, touch, way_of
from scmsim.mmu.walk import walk


@subroutine
def translate(s, c, page, address, order):
    """Translate an address; return whether the translation took a walk."""
    space = s.space & ~(address >> 63)
    number = (address & ADDRESS) >> page.order
    tag = number << page.order | page.order | space
    if s.filling == BOTH:
        if touch(s, s.array[page.l1], tag, number):
            return False
        return missed(s, c, page, address, order)
    stlb_number = (address & ADDRESS) >> page.stlb_order
    found = by_other_rule(s, page, tag, stlb_number << page.stlb_order | page.stlb_order | space)
    if found == 1:
        return False
    return count_miss(s, c, page, address, order, found == 2)


@outlined
def missed(s, c, page, address, order):
    """Handle a first-level miss where fills are mostly inclusive; return True if it took a walk.

    The first level holds the page already.
    """
    number = (address & ADDRESS) >> page.stlb_order
    tag = number << page.stlb_order | page.stlb_order | (s.space & ~(address >> 63))
    hit = page.stlb >= 0 and touch(s, s.array[page.stlb], tag, number)
    return count_miss(s, c, page, address, order, hit)


@subroutine
def count_miss(s, c, page, address, order, hit):
    """Count a first-level miss that hit the second level, or walk; return True if it took a walk."""
    at, user = c.at, page.split & ~(address >> 63)
    at[page.column + HIT] -= 1
    if hit:
        at[page.column + STLB_HIT] += 1
        at[FAR_HIT_SIZED + page.leaf - 1] += page.split
        at[USER_FAR_HIT] += user
        return False
    at[page.column + WALKS] += 1
    at[page.column + SIZED + page.leaf - 1] += 1
    at[USER_WALKS] += user
    walk(s, c, page, address, (order & SCM_TABLE) >> SCM_SHIFT)
    return True


@outlined
def by_other_rule(s, page, tag, stlb_tag):
    """Return the level that has the page (0 if none), and fill the levels: exclusively, or on walks only."""
    l1 = s.array[page.l1]
    at = first_slot(l1, (tag & ADDRESS) >> page.order)
    if probe(s, l1, tag, at):
        return 1
    found = 0
    if page.stlb >= 0:
        stlb = s.array[page.stlb]
        stlb_at = first_slot(stlb, (stlb_tag & ADDRESS) >> page.stlb_order)
        # exclusive: a page moves up, so it leaves the second level
        if s.filling == EXCLUSIVE:
            way = way_of(s, stlb, stlb_tag, stlb_at)
            if way >= 0:
                free(s, stlb, stlb_at, way)
                found = 2
        elif probe(s, stlb, stlb_tag, stlb_at):
            return 2
        else:
            insert(s, stlb, stlb_tag, stlb_at)
    gone = insert(s, l1, tag, at)
    if s.filling == EXCLUSIVE and gone != EMPTY:
        keep_victim(s, page, gone)
    return found


@outlined
def keep_victim(s, page, tag):
    """Insert a page that left the first level into the second level's array for its size, if there is one."""
    order = tag & ORDER
    a = s.stlb_of[page.split, order]
    if a < 0:
        return
    stlb = s.array[a]
    at = first_slot(stlb, (tag & ADDRESS) >> order)
    if way_of(s, stlb, tag, at) < 0:
        insert(s, stlb, tag, at)
