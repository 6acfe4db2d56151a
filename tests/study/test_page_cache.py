"""Metadata blocks among the touches of a recording: of commits, of directories, and new ones."""

import numpy as np
import pytest

from scmsim.footprint.interleave import DIRECTORY, NEW_PAGE
from scmsim.study.tlb import page_cache

WHOLE = 2**64 - 1
FOLDER, TABLE, OTHER = 7, 8, 9  # pages
TOUCHES = [  # call, its kind, function, page, whether it is a store, lines; the expected code
    ((0, "mkdir", "memset_erms", FOLDER, True, WHOLE), NEW_PAGE),
    ((0, "mkdir", "ext4_init_dot_dotdot", FOLDER, True, 1), NEW_PAGE),
    ((1, "create", "ext4_handle_dirty_dirblock", FOLDER, False, WHOLE), DIRECTORY),
    ((1, "create", "ext4_insert_dentry", FOLDER, True, 6), DIRECTORY),
    ((1, "create", "ext4_mark_iloc_dirty", TABLE, True, 1), 0),
    ((2, "fsync", "jbd2_journal_write_metadata_buffer", TABLE, False, WHOLE), page_cache.LOGGED),
    ((2, "fsync", "__memcpy_flushcache", FOLDER, False, WHOLE), page_cache.LOGGED),
    ((2, "fsync", "jbd2_journal_write_metadata_buffer", OTHER, False, 1), 0),
    ((3, "unlink", "ext4_generic_delete_entry", FOLDER, True, WHOLE), DIRECTORY),
    ((3, "unlink", "memset_erms", OTHER, True, WHOLE), 0),
]


def test_each_metadata_block_has_its_code() -> None:
    """A block that is cleared only in part is not new, and a page of which a commit reads one line is not a logged block."""
    call, kind, function, page, store, lines = (
        np.array(column, form)
        for column, form in zip(
            zip(*(row for row, _ in TOUCHES), strict=True), ("i8", object, object, "u8", bool, "u8"), strict=True
        )
    )
    assert page_cache.blocks(call, kind, function, page, store, lines).tolist() == [code for _, code in TOUCHES]


@pytest.mark.parametrize("function", ["jbd2_journal_write_metadata_buffer", "other"])
def test_without_lines_no_block_is_recognised(function: str) -> None:
    kinds, functions = np.array(["fsync"], object), np.array([function], object)
    zero = np.zeros(1, np.uint64)
    assert page_cache.blocks(np.zeros(1, np.int64), kinds, functions, zero, zero > 0, zero).tolist() == [0]
