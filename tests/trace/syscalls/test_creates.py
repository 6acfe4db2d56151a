"""Check whether the strace importer takes an open for the creation of a file, and in which directory."""

from pathlib import Path

import pytest

from scmsim.trace.formats.tracers import strace
from scmsim.trace.reading.lines import byte_blocks
from scmsim.trace.syscalls import conversion, runs
from tests.trace.strace_helper import convert_lines, first_sizes

CREATE_CASES = {
    "O_EXCL": (["openat(AT_FDCWD, \"/d/f\", O_RDWR|O_CREAT|O_EXCL, 0600) = 3"], "create", -1, "certainly new"),
    "seen absent": (
        ['stat("/d/f", 0x7f) = -1 ENOENT (No such file or directory)', 'open("/d/f", O_RDWR|O_CREAT, 0600) = 3'],
        "create", -1, "certainly new",
    ),
    "O_TRUNC": (['creat("/d/f", 0600) = 3'], "create", -1, "emptied when opened, taken as new"),
    "nothing known": (['open("/d/f", O_RDWR|O_CREAT, 0600) = 3'], "create", -1, "assumed new"),
    "stat shows it empty": (
        ['open("/d/f", O_RDWR|O_CREAT, 0600) = 3', "fstat(3, {st_mode=S_IFREG|0600, st_size=0, ...}) = 0"],
        "create", -1, "assumed new",
    ),
    "stat shows data": (
        ['open("/d/f", O_RDWR|O_CREAT, 0600) = 3', "fstat(3, {st_mode=S_IFREG|0600, st_size=9, ...}) = 0"],
        "open", 9, "assumed new, then found existing",
    ),
    "read shows data": (
        ['open("/d/f", O_RDWR|O_CREAT, 0600) = 3', 'read(3, "", 4096) = 70'],
        "open", 70, "assumed new, then found existing",
    ),
    "seek shows data": (
        ['open("/d/f", O_RDWR|O_CREAT, 0600) = 3', "lseek(3, 0, SEEK_END) = 8"],
        "open", 8, "assumed new, then found existing",
    ),
    "stat shows what the trace wrote": (
        ['open("/d/f", O_RDWR|O_CREAT, 0600) = 3', 'write(3, "", 4) = 4', "fstat(3, {st_size=4, ...}) = 0"],
        "create", -1, "assumed new",
    ),
}  # fmt: skip


@pytest.mark.parametrize("short", [0, 1 << 30], ids=["many at once", "one by one"])
@pytest.mark.parametrize(
    ("error", "kind"), [("ENOENT (No such file)", "certainly new"), ("EACCES (No)", "assumed new")]
)
def test_only_the_error_of_a_failed_call_shows_that_its_name_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: int, error: str, kind: str
) -> None:
    monkeypatch.setattr(conversion, "_SHORT", short)
    monkeypatch.setattr(runs, "ENOUGH", 1)
    monkeypatch.setattr(strace, "byte_blocks", lambda path, what, progress, _: byte_blocks(path, what, progress, 16))
    name = '"/d/a ENOENT b"'
    case = convert_lines(
        tmp_path, "sync() = 0", f"open({name}, O_RDWR) = -1 {error}", f"open({name}, O_RDWR|O_CREAT, 0600) = 3"
    )
    assert +case.report.creates == {kind: 1} and case.report.failed == {"open": 1}


@pytest.mark.parametrize("name", CREATE_CASES)
def test_whether_an_o_creat_made_the_file(tmp_path: Path, name: str) -> None:
    lines, op, first, kind = CREATE_CASES[name]
    case = convert_lines(tmp_path, *lines)
    assert case.rows[0].op == op
    assert first_sizes(case)["/d/f"] == first
    assert +case.report.creates == {kind: 1}
    assert (case.records["file2"][0] >= 0) == (op == "create")
    if op == "create":
        assert case.trace.files.path[case.records["file2"][0]] == "/d"


def test_late_evidence_does_not_change_a_written_row(tmp_path: Path) -> None:
    lines = [
        'open("/d/f", O_RDWR|O_CREAT, 0600) = 3',
        *['pwrite64(3, "", 1, 0) = 1'] * 170_000,
        'pread64(3, "", 9, 8) = 9',
    ]
    case = convert_lines(tmp_path, *lines)
    assert case.rows[0].op == "create" and case.report.creates["found too late to be existing"] == 1


def test_o_tmpfile_and_its_link(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'openat(AT_FDCWD</d>, "/d", O_RDWR|O_TMPFILE, 0600) = 3</d/#42>(deleted)',
        'write(3</d/#42>(deleted), "", 5) = 5',
        'linkat(AT_FDCWD</d>, "/proc/self/fd/3", AT_FDCWD</d>, "/d/f", AT_SYMLINK_FOLLOW) = 0',
        'stat("/d/f", {st_mode=S_IFREG|0600, st_size=5, ...}) = 0',
    )
    assert [row.op for row in case.rows] == ["create", "write", "link", "stat"]
    assert len(set(case.records["file"].tolist())) == 1


def test_parents_at_the_root_and_in_the_working_directory(tmp_path: Path) -> None:
    for name, parent in (("/f", "/"), ("/d/f", "/d"), ("f", ".")):
        case = convert_lines(tmp_path, f'open("{name}", O_RDWR|O_CREAT|O_EXCL, 0644) = 3')
        assert case.trace.files.path[case.records["file2"][0]] == parent, name
