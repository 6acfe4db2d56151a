"""The strace importer as a reader of text: forms of lines, time stamps, bad lines, damaged and foreign input."""

import gzip
from pathlib import Path

import pytest

from scmsim.core.errors import UsageError
from scmsim.trace.formats import find, sniff_name
from scmsim.trace.formats.tracers import strace
from scmsim.trace.store import TraceWriter
from scmsim.trace.syscalls.text import unescape
from tests.trace.strace_helper import DATA, convert, convert_lines

GOOD = 'write(3</d/f>, "", 5) = 5'


@pytest.mark.parametrize(
    ("prefix", "times"),
    [
        ("77 1700000000.00000{} ", [0, 1000, 2000]),
        ("[pid    77] 1700000000.00000{} ", [0, 1000, 2000]),
        ("1700000000.00000{} ", [0, 1000, 2000]),
        ("77    1700000000.00000000{} ", [0, 1, 2]),
        ("77 12:59:5{} ", [0, 10**9, 2 * 10**9]),
        ("12:59:59.00{}000 ", [0, 10**6, 2 * 10**6]),
        ("     0.00000{} ", [0, 1000, 3000]),
        ("77      0.00000{} ", [0, 1000, 3000]),
        ("77 ", [1, 2, 3]),
    ],
)
def test_every_form_of_time_and_process(tmp_path: Path, prefix: str, times: list[int]) -> None:
    case = convert_lines(tmp_path, *(prefix.format(i) + GOOD for i in range(3)))
    assert case.records["time_ns"].tolist() == times
    assert [row.offset for row in case.rows] == [0, 5, 10]


def test_a_line_without_any_prefix(tmp_path: Path) -> None:
    (tmp_path / "in").write_text(f"{GOOD}\n{GOOD}")
    case = convert(tmp_path / "in", tmp_path)
    assert case.records["time_ns"].tolist() == [1, 2]
    assert any("no time stamps" in note for note in case.trace.header["notes"])


def test_time_of_day_passes_midnight_and_a_clock_that_steps_back_stays(tmp_path: Path) -> None:
    case = convert_lines(tmp_path, f"1 23:59:59.500000 {GOOD}", f"1 00:00:00.500000 {GOOD}")
    assert case.records["time_ns"].tolist() == [0, 10**9]
    case = convert_lines(tmp_path, f"1 1700000002.000000 {GOOD}", f"1 1700000001.000000 {GOOD}")
    assert case.records["time_ns"].tolist() == [0, 0]
    assert any("jumped (back, or far away) 1 times" in note for note in case.report.notes)


def test_every_line_is_accounted_for_by_its_reason(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        f"1 1.000001 {GOOD}",
        "",
        "1 1.000002 --- SIGCHLD {si_signo=SIGCHLD, si_pid=7} ---",
        "strace: Process 7 attached",
        "1 1.000003 read(0,  <unfinished ...>",
        '2 1.000004 <... read resumed>"", 5) = 5',
        "1 1.000005 futex(0x7f, FUTEX_WAIT <unfinished ...>",
        "1 1.000006 <... futex resumed>) = 0",
        '1 1.000007 chmod("/d/f", 0600) = 0',
        '1 1.000008 write(3</d/f>, ""..., 10',
        "what is this",
        "1 1.000009 exit_group(0) = ?",
        "1 1.000010 +++ exited with 0 +++",
    )
    assert case.report.lines == 13
    assert case.report.left_out == {
        "blank line": 1,
        "signal or process event": 3,
        "call that never returned": 1,  # the read
        "second half of a call from before the trace": 1,
        "not a file operation": 3,
        "file operation without a model": 1,
    }
    assert case.report.bad_lines == [
        (10, "the arguments or the result of write are not complete or not of a known form"),
        (11, "this is not a line of strace"),
    ]
    assert case.trace.header["bad_lines"]["count"] == 2
    assert case.trace.header["bad_lines"]["first"][1] == {"line": 11, "reason": "this is not a line of strace"}


def test_only_the_first_bad_lines_are_kept_but_all_are_counted(tmp_path: Path) -> None:
    case = convert_lines(tmp_path, GOOD, *["1 nonsense"] * 50)
    assert case.report.bad == 50 and [line for line, _ in case.report.bad_lines] == list(range(2, 22))


def test_strict_stops_at_the_first_bad_line_and_leaves_no_file(tmp_path: Path) -> None:
    text = tmp_path / "in"
    text.write_text(f"{GOOD}\nnonsense\n")
    with (
        pytest.raises(UsageError, match=r"line 2: this is not a line of strace"),
        TraceWriter(tmp_path / "o.parquet", {}) as writer,
    ):
        strace.convert(text, writer, strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_numbers_that_no_call_can_have_are_bad_lines(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        GOOD,
        'write(3</d/f>, "", 5) = 99999999999',
        'pwrite64(3</d/f>, "", 5, 99999999999999999999) = 5',
        'pwrite64(3</d/f>, "", 5, -5) = 5',
        GOOD,
    )
    assert [line for line, _ in case.report.bad_lines] == [2, 3, 4]
    assert [row.offset for row in case.rows] == [0, 5]


@pytest.mark.parametrize("cut", [1, 100, 4000, 17000])
def test_cut_gzip_is_one_error(tmp_path: Path, cut: int) -> None:
    (tmp_path / "in.gz").write_bytes((DATA / "postmark_500.strace.gz").read_bytes()[:-cut])
    with pytest.raises(UsageError, match=r"damaged or cut gzip data"), TraceWriter(tmp_path / "o", {}) as writer:
        strace.convert(tmp_path / "in.gz", writer)


def test_binary_empty_and_missing_input_are_one_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0\0" * 1000)
    (tmp_path / "empty").write_bytes(b"")
    expected = {
        "binary": "holds binary data",
        "empty": "none of its 0 lines",
        "missing": "no file",
        ".": "is a directory",
    }
    for name, message in expected.items():
        with pytest.raises(UsageError, match=message), TraceWriter(tmp_path / "o", {}) as writer:
            strace.convert(tmp_path / name, writer)
    assert not (tmp_path / "o").exists()


def test_a_line_without_end_is_cut_into_bad_lines(tmp_path: Path) -> None:
    (tmp_path / "in").write_text(f"{GOOD}\n" + "x" * 9_000_000)
    case = convert(tmp_path / "in", tmp_path)
    assert case.report.calls == 1 and case.report.bad == 3


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    convert(DATA / "postmark_500.strace.gz", tmp_path, progress=lambda *step: seen.append(step))
    size = (DATA / "postmark_500.strace.gz").stat().st_size
    assert seen[-1] == (size, size)


@pytest.mark.parametrize("path", sorted(path for path in DATA.rglob("*") if path.is_file()), ids=lambda path: path.name)
def test_sniffing_knows_strace(path: Path) -> None:
    assert find(path) == ("strace", strace)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"hello\nworld\n",
        b"int main(void)\n{\n  f(x);\n}\n",
        b"\x1f\x8bxx",
        b"1 open(\0",
    ],
)
def test_sniffing_refuses_others(head: bytes) -> None:
    assert sniff_name(head, "x") is None
    assert sniff_name(gzip.compress(head), "x") is None


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/plain", "/plain"),
        (r"/a\"b\\c\n\t", '/a"b\\c\n\t'),
        (r"/\303\251\0751", "/é=1"),
        (r"/\74x\76", "/<x>"),
        (r"/\xff\377", "/\\xff\\xff"),
        ("/\xc3\xa9", "/é"),
    ],
)
def test_escapes(text: str, path: str) -> None:
    assert unescape(text) == path


def test_a_path_may_hold_anything_that_looks_like_syntax(tmp_path: Path) -> None:
    name = r"a) = 5 <unfinished ...>\", O_CREAT"
    case = convert_lines(
        tmp_path,
        rf'openat(AT_FDCWD</d) = 3>, "{name}", 0) = 3</d) = 3/a) = 5 \74unfinished ...\76\", O_CREAT> <0.000004>',
        r'write(3</d) = 3/a) = 5 \74unfinished ...\76\", O_CREAT>, ") = 7"..., 9) = 9 <0.000004>',
    )
    path = '/d) = 3/a) = 5 <unfinished ...>", O_CREAT'
    assert [(row.op, row.path, row.length) for row in case.rows] == [("open", path, 0), ("write", path, 9)]
