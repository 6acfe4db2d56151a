"""Recognise pages of the page cache among the touches of a recording: file data, and metadata blocks of a journalling file system.

A commit of jbd2 reads each block that it logs twice: all blocks for their checksums, then all again to copy them to the journal.
Which blocks these are depends on the calls since the preceding commit, which only a model knows.  So a replay takes the blocks of
commits from the model, and also the directory block of each other call (`footprint.interleave.DIRECTORY`).
Source: Linux fs/jbd2/commit.c (jbd2_journal_commit_transaction), fs/ext4/namei.c.
"""

import re

import numpy as np

from scmsim.footprint.interleave import DIRECTORY, NEW_PAGE
from scmsim.study.tlb.objects import FILLED, PAGE_LINES

# Functions that copy from or to the program (since Linux 6.4 rep_movs_alternative); that copy or clear a whole page; and all
# that do nothing but copy or clear.
_USER = re.compile("^copy_user|^rep_movs_alternative$")
_WHOLE = re.compile("^__memcpy_flushcache$|^clear_page_(erms|rep|orig)$")
_BULK = re.compile("copy_user|rep_movs_|memcpy|memset|memmove|clear_page|zero_user")
# functions that compute the checksum of a whole block: of each block in a commit, and of a changed directory block
_SUMS_LOGGED, _SUMS_DIRECTORY = "jbd2_journal_write_metadata_buffer", "ext4_handle_dirty_dirblock"
_CLEARS = re.compile("^memset")  # functions that clear a new block
COMMITS = ("fsync", "sync", "msync")  # kinds of calls that commit
LOGGED = -1  # code of a block in a commit: the model emits its lines


def file_data(loose: np.ndarray, page: np.ndarray, function: np.ndarray) -> np.ndarray:
    """Return which touches are on a page of file data: a page without a slab (`loose`) that is copied from or to the program.

    Data from before the first call is recognised by its write-back: it is copied to the device, and only functions that copy
    or clear touch it.  Pages to which only a program stores, through a mapping, are recognised by being cleared.  Metadata blocks
    and page-table pages are told apart because some function reads or writes their fields.
    """
    user, whole, bulk = (loose & _named(function, kind) for kind in (_USER, _WHOLE, _BULK))
    fields = page[loose & ~bulk]
    return loose & (np.isin(page, page[user]) | (np.isin(page, page[whole]) & ~np.isin(page, fields)))


def blocks(
    call: np.ndarray, kind: np.ndarray, function: np.ndarray, page: np.ndarray, store: np.ndarray, lines: np.ndarray
) -> np.ndarray:
    """Return LOGGED, DIRECTORY or NEW_PAGE for each touch of a metadata block that a replay takes from the model; 0 for others.

    All touches are on pages without a slab; `lines` has a bit per line.  A call that clears a directory block has made it, so the
    block is a new page.  Inode tables, bitmaps and group descriptors have the code 0, except in commits.
    """
    directory = _covered(page, lines, function == _SUMS_DIRECTORY, PAGE_LINES)
    logged = directory | _covered(page, lines, function == _SUMS_LOGGED, PAGE_LINES)
    (_, row), (pages, column) = np.unique(call, return_inverse=True), np.unique(page, return_inverse=True)
    clears = directory & store & _named(function, _CLEARS)
    made = _covered(row * len(pages) + column, lines, clears, FILLED)
    other = np.where(made, NEW_PAGE, np.where(directory, DIRECTORY, 0))
    return np.where(np.isin(kind, COMMITS), np.where(logged, LOGGED, 0), other)


def _named(function: np.ndarray, pattern: re.Pattern[str]) -> np.ndarray:
    """Return which touches are by functions whose name has the pattern."""
    return np.isin(function, [name for name in sorted(set(function.tolist())) if pattern.search(name)])


def _covered(group: np.ndarray, lines: np.ndarray, by: np.ndarray, least: int) -> np.ndarray:
    """Return which touches are in a group of which the touches `by` cover at least `least` lines."""
    groups, which = np.unique(group[by], return_inverse=True)
    seen = np.zeros(len(groups), np.uint64)
    np.bitwise_or.at(seen, which, lines[by])
    return np.isin(group, groups[np.bitwise_count(seen) >= least])
