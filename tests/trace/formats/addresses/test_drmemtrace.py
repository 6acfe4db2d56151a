"""The text of drmemtrace's view tool joined with a strace: rows by hand; the sample follows the tool's source."""

from pathlib import Path

import pytest

from scmsim.core.errors import UsageError
from scmsim.trace.formats.addresses import _accesses, drmemtrace
from tests.trace.formats_helper import DATA, convert, convert_text

CALLS = str(DATA / "drmemtrace.strace")
DB = "/data/db"


def test_accesses_between_the_calls_of_a_strace(tmp_path: Path) -> None:
    case = convert("drmemtrace.txt", tmp_path, calls=CALLS)
    assert case.rows == [
        ("open", DB, -1, 0), ("mmap", DB, 4096, 8192), ("store", DB, 4096, 24), ("load", DB, 8192, 64), ("load", DB, 8256, 8),
        ("load", DB, 4096, 4), ("store", DB, 12284, 4), ("msync", DB, 4096, 8192), ("munmap", DB, 4096, 8192),
        ("close", DB, -1, 0),
    ]  # fmt: skip
    assert case.records["thread"].tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 0, 0]
    left_out = case.report.left_out
    assert left_out[_accesses.NO_FILE] == 3, "the stack, and the file's address after munmap"
    assert (left_out[drmemtrace.FETCH], left_out[drmemtrace.CACHE], case.report.bad) == (5, 2, 0)


def test_without_a_strace_it_says_what_to_record(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has accesses but no calls.*strace -f -y -ttt"):
        convert("drmemtrace.txt", tmp_path)


def test_threads_of_several_workloads_and_bad_records(tmp_path: Path) -> None:
    text = (DATA / "drmemtrace.txt").read_text().replace(":         700 ", ":     W0.T700 ")
    assert convert_text(tmp_path, text, calls=CALLS).rows == convert("drmemtrace.txt", tmp_path, calls=CALLS).rows
    bad = (
        text
        + "  99  9:  700 read  0 byte(s) @ 0x00007f0000000000 by PC 0x1\n  99  9:  700 <marker: timestamp 5>\nwhat?\n"
    )
    case = convert_text(tmp_path, bad, calls=CALLS)
    assert [reason.split()[0] for _, reason in case.report.bad_lines] == ["an", "a", "this"]
