"""Find the touched lines of objects that belong to the call's file: inode, open file, dentry, extents, nodes of its page tree.

Calls on one file touch its objects again and again, so a first-level cache keeps them; calls on another file touch other objects.
An object belongs to a file if successive calls that touch the object are mostly on that file.  Calls on many files in turn touch a
directory's objects, which therefore belong to no file.  Units: lines of 64 bytes.
"""

from typing import NamedTuple

import numpy as np

LINE = 64  # bytes
PAGE_LINES = 64
# an object can belong to a file only if at most this share of the calls that touch it follow a call on another file
CHANGES = 0.6
# an object belongs to a file between the file's first and last call on it if at least this share of the calls there is on the file
SHARE = 0.5

FILLED = 48  # a call that stores to at least this many lines of a page is assumed to have allocated and filled the page


class Lines(NamedTuple):
    """Touched lines, one row each: the call, the call's file, and the line within its page of 4 KiB.

    `page` is the page's address, `start` its offset in its slab, and `size` the bytes from one object of the slab to the next.
    """

    call: np.ndarray
    file: np.ndarray
    line: np.ndarray
    page: np.ndarray
    start: np.ndarray
    size: np.ndarray


def own(touched: Lines) -> tuple[np.ndarray, np.ndarray]:
    """Return (which lines are in objects of the call's file, number of each such line among its file's lines)."""
    size = np.maximum(np.where(touched.size > 0, touched.size, LINE * PAGE_LINES), LINE)
    at = touched.start + LINE * touched.line
    place = touched.page - touched.start + at // size * size
    is_own = _belongs(place, touched.call, touched.file)
    rank = _ranks(place, touched.file, is_own)
    return is_own, (rank * -(-size // LINE) + at % size // LINE) % PAGE_LINES


def _belongs(place: np.ndarray, call: np.ndarray, file: np.ndarray) -> np.ndarray:
    """Return which touches of objects at `place` are by calls on the file that the object belongs to."""
    order = np.lexsort((call, place))
    p, c, f = place[order], call[order], file[order]
    first = np.append(True, (p[1:] != p[:-1]) | (c[1:] != c[:-1]))  # the first touch of an object by each call
    each = np.cumsum(first) - 1
    p, f = p[first], f[first]
    _, thing = np.unique(p, return_inverse=True)
    follows = np.append(False, p[1:] == p[:-1])
    differs = follows & np.append(False, f[1:] != f[:-1])
    changes = np.bincount(thing, differs) / np.maximum(np.bincount(thing, follows), 1)
    # per object and file: the file's share of all calls on the object between the file's first and last call
    pair = np.lexsort((np.arange(len(p)), f, thing))
    begins = np.append(True, (thing[pair][1:] != thing[pair][:-1]) | (f[pair][1:] != f[pair][:-1]))
    group = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(pair)) - 1
    count = ends - starts + 1
    share = count / (pair[ends] - pair[starts] + 1)
    good = np.zeros(len(p), bool)
    good[pair] = (share[group] >= SHARE) & (changes[thing[pair]] <= CHANGES) & (f[pair] >= 0)
    out = np.zeros(len(order), bool)
    out[order] = good[each]
    return out


def _ranks(place: np.ndarray, file: np.ndarray, is_own: np.ndarray) -> np.ndarray:
    """Return each touched object's rank among its file's objects, the most touched first; 0 if it belongs to no file."""
    found = np.zeros(len(place), np.int64)
    pairs, which, count = np.unique(
        np.stack([file[is_own], place[is_own]]), axis=1, return_inverse=True, return_counts=True
    )
    order = np.lexsort((pairs[1], -count, pairs[0]))
    files = pairs[0][order]
    rank = np.zeros(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(files, files)
    found[is_own] = rank[which.reshape(-1)]
    return found


def new_pages(page: np.ndarray, call: np.ndarray, store: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Return the number of each touch's page among the pages that its call allocates and fills; -1 for any other page.

    All touches are on pages without a slab.  A page that a call fills is touched by no other call; `lines` has a bit per line.
    """
    pages, which = np.unique(page, return_inverse=True)
    stored, last = np.zeros(len(pages), np.uint64), np.full(len(pages), -1, np.int64)
    first = np.full(len(pages), np.iinfo(np.int32).max, np.int64)
    np.bitwise_or.at(stored, which[store], lines[store])
    np.minimum.at(first, which, call)
    np.maximum.at(last, which, call)
    new = np.flatnonzero((first == last) & (first >= 0) & (np.bitwise_count(stored) >= FILLED))
    order = new[np.argsort(first[new], kind="stable")]
    number = np.full(len(pages), -1, np.int64)
    number[order] = np.arange(len(order)) - np.searchsorted(first[order], first[order])
    return number[which]
