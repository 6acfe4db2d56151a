"""Cache of the kernel's block look-ups: hooks of a family (see `scmsim.jit.binding`).

By default nothing is cached, so that only the index limits a request.  ext4 binds the cache of extents (`fs/ext4/known.py`).
"""

from scmsim.jit import subroutine


@subroutine
def words_for(s, arena, f, pages):
    """Return the number of arena words that `reserve` takes."""
    return 0


@subroutine
def reserve(s, arena, f, pages):
    """Reserve arena words for the look-ups of an operation on `pages` pages."""


@subroutine
def ready(s, arena, f, pages):
    """Run `reserve` and return True; return False if the arena must grow first."""
    return True


@subroutine
def drop(s, arena, f):
    """Forget all cached look-ups of a deleted file."""


@subroutine
def forget(s, arena, f, page, end):
    """Forget the pages [page, end), which are about to lose their blocks."""


@subroutine
def learn_root(s, arena, f):
    """Remember the extents that a search of the file's index reads."""


@subroutine
def learn(s, arena, f, page, end):
    """Remember the pages [page, end), which just got blocks or became written."""


@subroutine
def looked_up(s, arena, f, page, count):
    """Look up `count` pages, which are all holes or all in one extent; return how many of them the result covers."""
    return count


@subroutine
def before_dirty(s, arena, f, page, count):
    """Page cache: look up pages from `page` on before they become dirty; return how many of the `count` pages are done."""
    return count


@subroutine
def dirtied(s, arena, f, page, count):
    """Page cache: remember `count` pages from `page` on, covered by one look-up, that became dirty."""


@subroutine
def looked_through(s, arena, f, page, count):
    """Look up `count` pages that need no block, by as many look-ups as the known runs require."""
