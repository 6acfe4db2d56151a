"""Recognise pages of the page cache among the touches of a recording."""

import re

import numpy as np

# Functions that copy from or to the program (since Linux 6.4 rep_movs_alternative); that copy or clear a whole page; and all
# that do nothing but copy or clear.
_USER = re.compile("^copy_user|^rep_movs_alternative$")
_WHOLE = re.compile("^__memcpy_flushcache$|^clear_page_(erms|rep|orig)$")
_BULK = re.compile("copy_user|rep_movs_|memcpy|memset|memmove|clear_page|zero_user")


def file_data(loose: np.ndarray, page: np.ndarray, function: np.ndarray) -> np.ndarray:
    """Return which touches are on a page of file data: a page without a slab (`loose`) that is copied from or to the program.

    Data from before the first call is recognised by its write-back: it is copied to the device, and only functions that copy
    or clear touch it.  Pages to which only a program stores, through a mapping, are recognised by being cleared.  Metadata blocks
    and page-table pages are told apart because some function reads or writes their fields.
    """
    names = sorted(set(function.tolist()))
    user, whole, bulk = (
        loose & np.isin(function, [name for name in names if kind.search(name)]) for kind in (_USER, _WHOLE, _BULK)
    )
    fields = page[loose & ~bulk]
    return loose & (np.isin(page, page[user]) | (np.isin(page, page[whole]) & ~np.isin(page, fields)))
