"""Each text format in the forms that editors, spreadsheets and other systems give it: equal rows, or a refusal by name."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.trace.formats import find
from scmsim.trace.reading import lines as reading
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.report import Report
from tests.fuzz.mutate import DATA, SAMPLES
from tests.trace.formats_helper import Case, convert_text

TEXTS = {
    name: (DATA / files[0], options)
    for name, (files, options) in SAMPLES.items()
    if b"\0" not in (DATA / files[0]).read_bytes()
}
TABLES = {
    "msr": ",", "alibaba": ",", "tencent": ",", "spc": ",", "fiu-block": " ", "fiu-file": " ", "twitter-cache": ",",
}  # fmt: skip
TITLES = {
    "msr": "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    "alibaba": "device_id,opcode,offset,length,timestamp",
}


def converted(text: bytes, name: str, options: dict) -> Case:
    with tempfile.TemporaryDirectory() as folder:
        case = convert_text(Path(folder), text, name, **options)
        with Input(Path(folder) / "in") as seen:
            assert name == "csv" or find(seen)[0] == name
    return case


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_mark_and_line_ends_of_windows_change_nothing(name: str) -> None:
    path, options = TEXTS[name]
    plain = path.read_bytes()
    usual = converted(plain, name, options)
    for text in (
        b"\xef\xbb\xbf" + plain,
        plain.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"),
    ):
        case = converted(text, name, options)
        assert case.rows == usual.rows and case.report.bad == usual.report.bad


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(TABLES)),
    titles=st.lists(st.sampled_from(["# made by a tool", "", "  ", "MSR Cambridge", "a,b,c,d,e"]), max_size=4),
    tail=st.sampled_from(["", " ", "\t", "\r"]),
    quoted=st.booleans(),
    spaced=st.booleans(),
)
def test_titles_quotes_and_blanks_change_nothing(
    name: str, titles: list[str], tail: str, quoted: bool, spaced: bool
) -> None:
    path, options = TEXTS[name]
    delimiter = TABLES[name]
    rows = path.read_text().splitlines()
    usual = converted(path.read_bytes(), name, options)
    if delimiter == "," and name != "twitter-cache":
        rows = [", ".join(row.split(",")) if spaced else row for row in rows]
        rows = [",".join(f'"{cell}"' for cell in row.split(",")) if quoted and not spaced else row for row in rows]
    text = "\n".join([*titles, *(row + tail for row in rows)]) + "\n"
    case = converted(text.encode(), name, options)
    assert case.rows == usual.rows and case.report.bad == 0
    assert case.report.lines == len(titles) + usual.report.lines


@pytest.mark.parametrize("name", sorted(TITLES))
def test_a_title_line_is_one(name: str, tmp_path: Path) -> None:
    plain = TEXTS[name][0].read_bytes()
    case = convert_text(tmp_path, TITLES[name].encode() + b"\n" + plain)
    assert case.report.left_out["title"] == 1
    assert case.rows == convert_text(tmp_path, plain).rows


def test_a_title_line_with_another_order_is_refused(tmp_path: Path) -> None:
    plain = TEXTS["alibaba"][0].read_bytes()
    with pytest.raises(UsageError, match="column 'offset' is number 4 of the title line, not 3"):
        convert_text(tmp_path, b"device_id,opcode,length,offset,timestamp\n" + plain)


@pytest.mark.parametrize("number", ['"1,234"', "1'234", "1.234", "1_234", "0x4d2", "+1234", "1e3", "-1234", "1 234"])
def test_a_grouped_number_is_named(tmp_path: Path, number: str) -> None:
    for name, line in (
        ("alibaba", "1,R,{},512,0"),
        ("spc", "0,{},512,R,0.0"),
        ("msr", "128166372003061629,u,0,Read,{},512,1"),
    ):
        text = line.format("8") + "\n" + line.format(number) + "\n"
        case = convert_text(tmp_path, text.encode(), name)
        assert (len(case.rows), case.report.bad) == (1, 1), name
        assert "whole number" in case.report.bad_lines[0][1]


def test_a_comment_between_rows(tmp_path: Path) -> None:
    case = convert_text(tmp_path, b"0,1,512,R,0.0\n# a pause\n0,2,512,R,1.0\n", "spc")
    assert len(case.rows) == 2 and case.report.left_out == {"comment": 1}


@pytest.mark.parametrize(
    ("options", "row"),
    [
        ({"offset_unit": 512}, (5120, 8)), ({"length_unit": 512}, (10, 4096)), ({"unit": 512}, (5120, 4096)), ({}, (10, 8)),
        ({"unit": 512, "length_unit": 1}, (5120, 8)),
    ],
)  # fmt: skip
def test_a_unit_for_each_column(tmp_path: Path, options: dict, row: tuple[int, int]) -> None:
    case = convert_text(tmp_path, b"w,10,8\n", "csv", columns="op=1,offset=2,length=3", **options)
    assert case.rows == [("write", "/table", *row)]


@pytest.mark.parametrize(
    ("name", "line", "row"),
    [
        ("spc", "0,10,3584,w,0.0", (5120, 3584)), ("tencent", "1538323200,10,7,1,9", (5120, 3584)),
        ("alibaba", "9,W,10,7,100", (10, 7)), ("msr", "128166372003061629,u,0,Write,10,7,1", (10, 7)),
        ("fiu-block", "0 1 p 10 7 W 8 0 ab", (5120, 3584)), ("blkparse", "8,0 1 1 0.1 7 Q W 10 + 7 [p]", (5120, 3584)),
    ],
)  # fmt: skip
def test_the_units_of_each_block_trace(tmp_path: Path, name: str, line: str, row: tuple[int, int]) -> None:
    assert [r[2:] for r in convert_text(tmp_path, line.encode() + b"\n", name).rows] == [row]


def test_a_unit_out_of_range_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="offset_unit -1 is not between 1"):
        convert_text(tmp_path, b"w,1,1\n", "csv", columns="op=1,offset=2,length=3", offset_unit=-1)


def test_another_operation_points_to_the_format_that_knows_it(tmp_path: Path) -> None:
    case = convert_text(tmp_path, b"w,1,1\nfsync,0,0\n", "csv", columns="op=1,offset=2,length=3")
    assert "ops-csv" in case.report.bad_lines[0][1]


def test_titles_of_a_table_after_a_comment(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbf# exported today\r\n#time, op, lbn, len\r\n0.5, R, 3, 512\r\n"
    case = convert_text(tmp_path, text, "csv", columns="time=time,op=op,offset=lbn,length=len", offset_unit=512)
    assert case.rows == [("read", "/table", 1536, 512)] and case.report.left_out["title"] == 2


@pytest.mark.parametrize(
    ("head", "advice"),
    [
        (b"     0.000 ( 0.009 ms): cat/12 read(fd: 3</x>, buf: 0x7f, count: 10) = 10\n", "raw_syscalls"),
        (b"         ? (         ): cat/12  ... [continued]: execve()) = 0\n", "raw_syscalls"),
        (b"PERFILE2" + bytes(99), "perf script"), ("1,2\n".encode("utf-16"), "iconv"), (b"\x17\x08\x44tracing6\0", "trace-cmd"),
        (b"\x07\x41\x61\x65" + bytes(40), "blkparse"), (b"\xc1\x1f\xfc\xc1" + bytes(40), "babeltrace2"),
    ],
)  # fmt: skip
def test_files_of_other_programs_are_refused_by_name(tmp_path: Path, head: bytes, advice: str) -> None:
    (tmp_path / "in").write_bytes(head)
    with pytest.raises(UsageError, match=advice) as error:
        find(tmp_path / "in")
    assert len(str(error.value)) <= 300 + len(str(tmp_path))


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_blank_lines_without_end_are_refused(name: str, tmp_path: Path) -> None:
    path, options = TEXTS[name]
    for blank in (b"\n", b" \n"):
        with pytest.raises(UsageError, match="very many blank lines in a row"):
            convert_text(tmp_path, path.read_bytes() + blank * 9_000_000, name, **options)


def test_lines_without_end_that_make_no_row_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scmsim.trace.reading.report.MOST_WITHOUT_ROW", 1000)
    for name in ("spc", "blkparse", "perf-script", "twitter-cache"):
        with pytest.raises(UsageError, match=r"the first [\d,]+ lines of .* make no row"):
            convert_text(tmp_path, b"?\n" * 5000, name)


def test_short_lines_come_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"1\n" * 600_000 + b"last")
    blocks = list(reading.byte_blocks(tmp_path / "in", "text"))
    assert b"".join(blocks) == b"1\n" * 600_000 + b"last"
    assert max(map(len, blocks)) <= 1 << 17 and all(block.endswith(b"\n") for block in blocks[:-1])


@pytest.mark.parametrize(
    ("bad", "said"), [(1000, "100 %"), (996, "99.6 %"), (995, "99.5 %"), (32, "3.2 %"), (1, "0.1 %")]
)
def test_percentages_are_written_as_people_do(bad: int, said: str) -> None:
    assert said in Report(lines=1000, bad=bad).losses()[0]
