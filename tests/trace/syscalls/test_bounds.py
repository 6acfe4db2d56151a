"""The bounds of what a line of strace may say: the last value that is taken, and the first that is a bad line."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.core.records import APPENDS, KEEP_SIZE, OPS, PUNCH_HOLE, SYNCHRONOUS
from scmsim.trace.formats.tracers import strace
from scmsim.trace.reading import lines
from scmsim.trace.syscalls import importer, runs
from scmsim.trace.syscalls.names import Names
from scmsim.trace.syscalls.state import Maps, Place, Table, Task
from scmsim.trace.syscalls.text import looks_like, unescape
from tests.trace.formats_helper import convert_text

OPEN = 'openat(AT_FDCWD, "/a", O_RDWR) = 3\n'
CALLS = [
    'read(3, ""..., {n}) = {n}', 'write(3, ""..., {n}) = {n}', 'pread64(3, ""..., {n}, 7) = {n}',
    'pwrite64(3, ""..., {n}, 7) = {n}',
    'readv(3, [{{iov_base="", iov_len={n}}}], 1) = {n}',
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("many", [1, runs.ENOUGH, 2 * runs.ENOUGH])
def test_what_a_call_can_move(tmp_path: Path, call: str, many: int) -> None:
    """By itself, and among as many as are worked on together."""
    for n, bad in ((1 << 31, 0), ((1 << 31) + 1, 1)):
        calls = [call.format(n=5)] * (many - 1) + [call.format(n=n)] + [call.format(n=5)] * (many - 1)
        case = convert_text(tmp_path, OPEN + "\n".join(calls) + "\nclose(3) = 0\n", "strace")
        assert case.report.bad == bad and len(case.rows) == 2 * many + 1 - bad
        assert max(row[3] for row in case.rows) == (5 if bad and many > 1 else n if not bad else 0)


@pytest.mark.parametrize("count", [runs.ENOUGH - 1, runs.ENOUGH, runs.ENOUGH + 1])
def test_a_stretch_of_calls_pays_from_64_on(count: int) -> None:
    plain = np.array([False, *[True] * count, False, *[True] * 3])
    assert list(runs.stretches(plain)) == ([(1, count + 1)] if count >= 64 else [])


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("fallocate(3, 0, 5, 7) = 0", 0), ("fallocate(3, FALLOC_FL_KEEP_SIZE, 5, 7) = 0", 1),
        ("fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 5, 7) = 0", 3),
        ("fallocate(3, FALLOC_FL_PUNCH_HOLE, 5, 7) = 0", 2),
    ],
)  # fmt: skip
def test_how_space_is_allocated(tmp_path: Path, line: str, mode: int) -> None:
    case = convert_text(tmp_path, OPEN + line + "\n", "strace")
    assert case.rows[1] == ("fallocate", "/a", 5, 7) and OPS[case.records["op"][1]] == "fallocate"
    assert int(case.records["flag"][1]) == (KEEP_SIZE if mode & 1 else 0) | (PUNCH_HOLE if mode & 2 else 0)


def test_names_that_links_lead_to() -> None:
    names = Names(None)
    for asked, resolved in (
        ("/l/x", "/r/x"),
        ("/l/y", "/q/y"),
        ("/l/z", "/r/other"),
        ("/top", "/r/top"),
        ("/p/a", "/p/a"),
    ):
        names.learn(asked, resolved)
    assert names.links == {"/l/y": "/q/y", "/l/z": "/r/other"}
    assert [names.join(*pair) for pair in (("", "/l/n"), ("/l", "n"), ("/p", "n"), ("", "n"), ("", "/n"), ("/l", "/p//n/."))] == [
        "/r/n", "/r/n", "/p/n", "n", "/r/n", "/p/n",
    ]  # fmt: skip
    folders = ("/l", "/p", "/r", "")
    assert [names.is_direct(folder) for folder in folders] == [False, True, True, False]
    names.learn("/l/x", "/l/x")
    assert names.join("/l", "n") == "/l/n" and names.follow("/l/y") == "/q/y" and names.follow("/p/a") == "/p/a"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (r"\xg", "xg"),
        (r"\x41", "A"),
        (r"\101\n\q", "A\nq"),
        (r"\0", "\0"),
        (r"\x4", "x4"),
        ("\xe9", r"\xe9"),
        (r"\303\251", "é"),
    ],
)
def test_escapes(text: str, path: str) -> None:
    assert unescape(text) == path


@pytest.mark.parametrize(
    ("good", "bad", "is_one"), [(1, 0, True), (4, 1, True), (8, 2, True), (7, 2, False), (0, 1, False), (0, 0, False)]
)
def test_what_looks_like_strace(good: int, bad: int, is_one: bool) -> None:
    """Four lines of five have its form, of which one at least has a result."""
    assert looks_like(("fsync(3) = 0\n" * good + "hello, world\n" * bad).encode()) == is_one
    assert not looks_like(b"--- SIGCHLD {si_signo=SIGCHLD} ---\n" * 5)


@pytest.mark.parametrize(
    ("call", "shares"), [("clone(flags=CLONE_VM) = 8", True), ("vfork() = 8", True), ("fork() = 8", False)]
)
def test_a_child_has_the_mappings_of_its_parent(call: str, shares: bool) -> None:
    task = Task("7", Table(), Place(), Maps())
    assert (task.spawn("8", call).maps is task.maps) == shares


ENDS = ["3</a>", "4<socket:[5]>", "9"]


@pytest.mark.parametrize("source", ENDS)
@pytest.mark.parametrize("target", ENDS)
def test_a_copy_is_a_read_a_write_or_both(tmp_path: Path, source: str, target: str) -> None:
    case = convert_text(tmp_path, f"{OPEN}sendfile({target}, {source}, NULL, 5) = 5\n", "strace")
    rows = [op for op, end in (("read", source), ("write", target)) if end == ENDS[0]]
    assert [row[0] for row in case.rows[1:]] == rows and case.report.extra_rows == (len(rows) == 2)


@pytest.mark.parametrize("between", range(6))
def test_how_long_a_file_may_turn_out_to_have_been_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: int
) -> None:
    """A CREATE becomes an OPEN while it is among the last rows, which are held back."""
    monkeypatch.setattr(importer, "KEEP", 3)
    monkeypatch.setattr(
        strace, "byte_blocks", lambda path, what, progress, *_: lines.byte_blocks(path, what, progress, 1)
    )
    text = OPEN + 'openat(AT_FDCWD, "/b", O_RDWR|O_CREAT, 0644) = 4\n' + "fsync(3) = 0\n" * between
    case = convert_text(tmp_path, text + 'read(4, ""..., 9) = 5\n', "strace")
    assert case.rows[1][0] == ("open" if between + 1 <= 3 else "create")
    assert dict(+case.report.creates) == (
        {"found too late to be existing": 1, "assumed new": 1}
        if between > 2
        else {"assumed new, then found existing": 1}
    )


@pytest.mark.parametrize(("end", "was"), [(5, "create"), (6, "open")])
def test_a_read_to_where_the_trace_has_written_shows_nothing(tmp_path: Path, end: int, was: str) -> None:
    text = 'openat(AT_FDCWD, "/b", O_RDWR|O_CREAT, 0644) = 4\nwrite(4, ""..., 5) = 5\n'
    case = convert_text(tmp_path, text + f'pread64(4, ""..., 9, 0) = {end}\n', "strace")
    assert case.rows[0][0] == was and case.rows[2] == ("read", "/b", 0, end)


@pytest.mark.parametrize(
    ("call", "flag"),
    [
        ("pwritev(3, [{}], 1, 7)", 0), ("pwritev2(3, [{}], 1, 7, 0)", 0), ("pwritev2(3, [{}], 1, 7, RWF_DSYNC)", SYNCHRONOUS),
        ("pwritev2(3, [{}], 1, 7, RWF_SYNC|RWF_APPEND)", SYNCHRONOUS | APPENDS), ("pwritev2(3, [{}], 1, 7, RWF_HIPRI)", 0),
    ],
)  # fmt: skip
def test_flags_of_a_write(tmp_path: Path, call: str, flag: int) -> None:
    line = call.format('{iov_base="", iov_len=5}') + " = 5\n"
    case = convert_text(tmp_path, 'openat(AT_FDCWD, "/a", O_RDWR|O_CREAT|O_EXCL, 0644) = 3\n' + line, "strace")
    assert case.rows[1] == ("write", "/a", 0 if flag & APPENDS else 7, 5) and int(case.records["flag"][1]) == flag


@pytest.mark.parametrize(("mode", "first"), [("0", 0), ("FALLOC_FL_KEEP_SIZE", 50)])
def test_what_was_allocated_was_not_there_before_the_trace(tmp_path: Path, mode: str, first: int) -> None:
    text = OPEN + f'fallocate(3, {mode}, 0, 100) = 0\npread64(3, ""..., 50, 0) = 50\n'
    assert convert_text(tmp_path, text, "strace").trace.files.first_size.tolist() == [first]
