"""Page sizes of a process's mappings, as smaps tells them, in the header of a trace."""

from pathlib import Path

import pytest

from scmsim.core.errors import UsageError
from scmsim.trace.reading.smaps import by_file, ranges
from tests.trace.formats_helper import convert

SMAPS = """7f0000000000-7f0000400000 rw-s 00000000 00:2a 17                         /data/map, (1)
Size:               4096 kB
KernelPageSize:        4 kB
Rss:                2052 kB
FilePmdMapped:      2048 kB
7f0000400000-7f0000600000 rw-s 00400000 00:2a 17                         /data/map, (1)
Size:               2048 kB
KernelPageSize:     2048 kB
Rss:                   0 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
Size:                132 kB
7f0000600000-7f0000601000 rw-p 00000000 00:00 0
Size:                  4 kB
7f0000700000-7f0000701000 r--p 00000000 00:2a 18                         /lib/ld.so
Size:                  4 kB
"""
OURS = {"Size": 6144, "KernelPageSize": 4, "Rss": 2052, "FilePmdMapped": 2048}


def test_mappings_of_a_file_are_added_up() -> None:
    assert by_file(SMAPS) == {"/data/map, (1)": OURS, "/lib/ld.so": {"Size": 4}}


def test_the_mappings_of_a_file_are_told_one_by_one() -> None:
    assert ranges(SMAPS, "/data/map, (1)") == [
        (0x7F0000000000, 0x7F0000400000, 0),
        (0x7F0000400000, 0x7F0000600000, 0x400000),
    ]


def test_the_header_has_the_files_of_the_trace(tmp_path: Path) -> None:
    (tmp_path / "smaps").write_text(SMAPS)
    case = convert("lackey.txt", tmp_path, under="/data", smaps=str(tmp_path / "smaps"))
    assert case.trace.header["smaps"] == {"/data/map, (1)": OURS}
    (tmp_path / "smaps").write_text("nothing")
    with pytest.raises(UsageError, match="maps no file; copy /proc/PID/smaps"):
        convert("lackey.txt", tmp_path, under="/data", smaps=str(tmp_path / "smaps"))
