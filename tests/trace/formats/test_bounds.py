"""The bounds of what a record may say: the last value that is taken, and the first that is a bad line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.trace.formats import sniff_name
from scmsim.trace.formats.blocks import vscsi
from scmsim.trace.formats.caches import lcs, oracle_general, twitter_cache
from scmsim.trace.formats.files import _dxt
from scmsim.trace.formats.tracers import dftracer, lttng
from scmsim.trace.reading import builder, columns, lines
from scmsim.trace.reading.builder import FAR, TraceBuilder
from scmsim.trace.reading.columns import Words
from scmsim.trace.reading.importing import Import
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import BadLine, nanoseconds
from scmsim.trace.store import TraceWriter
from tests.trace.formats_helper import convert_text


def records(kind: np.dtype, **fields: Any) -> np.ndarray:
    """Four records that are alike, but for the last of them."""
    found = np.zeros(4, kind)
    for name, (usual, last) in fields.items():
        found[name] = usual
        found[name][-1] = last
    return found


VSCSI = {"ver": (0x103, 0x103), "cmd": (0x28, 0x28), "len": (512, 512), "lbn": (8, 8), "ts": (10**15, 10**15)}


@pytest.mark.parametrize(
    ("name", "value", "bad"),
    [
        ("len", (1 << 30) - 1, 0), ("len", 1 << 30, 1), ("lbn", FAR // 1024 - 1, 0), ("lbn", FAR // 1024, 1), ("ver", 0x203, 1),
        ("ver", 0x1FF, 0),
    ],
)  # fmt: skip
def test_commands_of_a_disk(tmp_path: Path, name: str, value: int, bad: int) -> None:
    told = records(vscsi._RECORDS[1], **VSCSI | {name: (VSCSI[name][0], value)})
    case = convert_text(tmp_path, told.tobytes(), "vscsi")
    assert (case.report.bad, len(case.rows)) == (bad, 4 - bad)
    assert vscsi.sniff(told.tobytes(), "x") == (not bad or name == "lbn")


@pytest.mark.parametrize(
    ("length", "bad", "rows"), [(-1, 1, 3), (0, 0, 3), (1, 0, 4), ((1 << 40) - 1, 0, 4), (1 << 40, 1, 3)]
)
def test_objects_of_an_lcs_trace(tmp_path: Path, length: int, bad: int, rows: int) -> None:
    told = records(lcs._record(3, ""), ident=(1, 2), length=(100, length), op=(1, 1))
    head = bytearray(8192)
    head[:8] = head[-8:] = lcs._MAGIC
    head[8] = 3
    case = convert_text(tmp_path, bytes(head) + told.tobytes())
    assert (case.report.bad, len(case.rows)) == (bad, rows)
    for cut in (slice(0, 8), slice(-8, None)):
        half = head.copy()
        half[cut] = bytes(8)
        assert not lcs.sniff(bytes(half), "x")


@pytest.mark.parametrize(
    ("name", "value", "is_one"),
    [
        ("length", 0, False), ("length", 1, True), ("length", (1 << 31) - 1, True), ("length", 1 << 31, False), ("next", 0, True),
        ("next", -1, True), ("next", -2, False), ("next", (1 << 63) - 1, True), ("next", (1 << 63) - 2, False),
        ("next", (1 << 40) - 1, True), ("next", 1 << 40, False),
    ],
)  # fmt: skip
def test_requests_of_a_cache(tmp_path: Path, name: str, value: int, is_one: bool) -> None:
    usual = {"ident": (300, 300), "length": (512, 512), "next": (-1, -1)}
    told = records(oracle_general.RECORD, **usual | {name: (usual[name][0], value)}).tobytes()
    assert oracle_general.sniff(told, "x") == is_one
    case = convert_text(tmp_path, told, "oracle-general")
    assert case.report.bad == (not is_one and value != 0) and len(case.rows) == 3 + is_one


@pytest.mark.parametrize("block", [1, 512, 1 << 30])
def test_blocks_of_a_device(tmp_path: Path, block: int) -> None:
    last = (FAR >> 1) // block
    told = records(oracle_general.RECORD, ident=(last - 1, last), length=(1, 1), next=(-1, -1)).tobytes()
    case = convert_text(tmp_path, told, "oracle-general", block=block)
    assert case.report.bad == 1 and case.rows == [("read", "/device", (last - 1) * block, 1)] * 3
    for wrong in (-1, (1 << 30) + 1):
        with pytest.raises(UsageError, match="is not between 1 byte and 1 GiB"):
            convert_text(tmp_path, told, "oracle-general", block=wrong)


def test_pairs_of_words() -> None:
    one, two = Words(np.array([0, 1, 1, 2, 0]), ["a", "b", "c"]), Words(np.array([1, 0, 1, 1, 1]), ["x", "y"])
    pairs = one.joined(two, ":")
    assert [pairs.values[code] for code in pairs.codes] == ["a:y", "b:x", "b:y", "c:y", "a:y"]


COLUMNS = [columns.Column("at", 0, unit=512), columns.Column("time", 1, "time", 10**9)]


@pytest.mark.parametrize(
    ("text", "fast", "bad"),
    [
        (f"{FAR // 512 - 1},5", True, None), (f"{FAR // 512},5", False, "at '.*' is too large"),
        ("7,4611686017.999999999", True, None), ("7,4611686018.0", False, None), ("7,4611686018.427387903", False, None),
        ("7,4611686018.427387904", False, "time '.*' is too large"), ("7,9223372036.854775808", False, "is too large"),
        ("7,18446744073.8", False, "is too large"), ("7,1e19", False, "is too large"), ("0,0", True, None),
        ("7,1e20", False, "is not a number of 0 or more"), ("-1,0", False, "is not a whole number"),
        ("0,-1", False, "is not a number of 0 or more"), ("1,1,1", False, "3 columns instead of 2"),
        ("1", False, "1 columns instead of 2"),
    ],
)  # fmt: skip
def test_cells_of_a_table(tmp_path: Path, text: str, fast: bool, bad: str | None) -> None:
    text += "\n"
    (tmp_path / "in").write_text(text)
    reader = columns.Reader(COLUMNS, 2, ",")
    found = reader.fast(text.encode())
    assert (found is not None) == fast
    with TraceWriter(tmp_path / "out", {}) as writer:
        work = Import(Input(tmp_path / "in"), writer, strict=bool(bad)).builder()
        if bad:
            with pytest.raises(UsageError, match=bad):
                reader.slow(text.encode(), 0, work)
            return
        slow = reader.slow(text.encode(), 0, work)
    assert fast is False or all(np.array_equal(found[name], slow[name]) for name in ("at", "time"))


@pytest.mark.parametrize("width", [3, columns._MOST_COLUMNS, columns._MOST_COLUMNS + 1])
def test_how_many_columns_are_read_together(width: int) -> None:
    reader, text = columns.Reader([columns.Column("last", 2)], None, ","), ",".join("7" * width) + "\n"
    assert (reader.fast(text.encode()) is not None) == (width <= columns._MOST_COLUMNS)
    assert reader.fast(b"7,7\n") is None
    assert reader._row("7,7,9,7") == [9]


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_last_line_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """It may have an end; its number is told either way, and only odd blocks are read line by line."""
    seen = []
    slow = columns.Reader.slow
    monkeypatch.setattr(columns.Reader, "slow", lambda *given: seen.append(given[1]) or slow(*given))
    text = "op,offset,length\nread,0,5\nwrite,5,5"
    case = convert_text(tmp_path, text + end, "csv", columns="op=op,offset=offset,length=length")
    assert len(case.rows) == 2 and seen == []
    case = convert_text(tmp_path, f"{text}\nread,x,5{end}", "csv", columns="op=op,offset=offset,length=length")
    assert case.report.bad_lines[0][0] == 4 and len(seen) == 1


@pytest.mark.parametrize(
    ("number", "said"), [("1000", ""), ("1001", "no column '1001'"), ("0", "no column '0'"), ("00001", "no column")]
)
def test_numbers_of_columns(tmp_path: Path, number: str, said: str) -> None:
    text = ",".join(["read", "0", *["5"] * 998]) + "\n"
    if said:
        with pytest.raises(UsageError, match=said):
            convert_text(tmp_path, text, "csv", columns=f"op=1,offset=2,length={number}")
    else:
        assert convert_text(tmp_path, text, "csv", columns=f"op=1,offset=2,length={number}").rows == [
            ("read", "/table", 0, 5)
        ]


def test_a_time_ends_at_2_to_the_62() -> None:
    assert nanoseconds(str((1 << 62) - 1), 1) == (1 << 62) - 1
    with pytest.raises(BadLine, match="is not a time"):
        nanoseconds(str(1 << 62), 1)


@pytest.mark.parametrize(("length", "pieces"), [(9, 1), (10, 1), (11, 2), (14, 2), (15, 2), (16, 2)])
def test_a_long_line_is_cut_when_it_is_too_long(tmp_path: Path, monkeypatch: Any, length: int, pieces: int) -> None:
    monkeypatch.setattr(lines, "LONGEST", 10)
    (tmp_path / "in").write_text("x" * length)
    found = list(lines.byte_blocks(tmp_path / "in", "a text", None, 5))
    assert b"".join(found) == b"x" * length and len(found) == pieces


def work_of(folder: Path, writer: TraceWriter) -> TraceBuilder:
    (folder / "in").write_text("x\n")
    return Import(Input(folder / "in"), writer).builder()


def test_how_many_files_and_threads_there_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "MOST_FILES", 3)
    monkeypatch.setattr(builder, "_MOST_THREADS", 3)
    with TraceWriter(tmp_path / "out", {}) as writer:
        work = work_of(tmp_path, writer)
        assert [work.file(path) for path in ("/a", "/b", "/c", "/a")] == [0, 1, 2, 0]
        with pytest.raises(UsageError, match="names more than 3 files"):
            work.file("/d")
        assert [work.thread(key) for key in (7, 8, 9, 7)] == [0, 1, 2, 0]
        with pytest.raises(BadLine, match="more than 3 threads"):
            work.thread(10)


def test_a_time_that_is_too_far_ahead_is_a_jump(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "out", {}) as writer:
        one, many = work_of(tmp_path, writer), work_of(tmp_path, writer)
        times = [5, 5 + FAR - 1, 5 + FAR, 5, 4]
        assert [one.at(ns) for ns in times] == [0, *[FAR - 1] * 4] == many._times(np.array(times)).tolist()
        assert one.jumps == many.jumps == 3


def test_segments_of_darshan_wait_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dxt, "MOST", 2)
    head = "# darshan log version: 3.21\n# DXT, file_id: 1, file_name: /b\n"
    rows = " X_POSIX 1 write 0 0 9 0.5 0.6 N/A\n X_POSIX 0 read 0 4 5 0.2 0.3\n"
    assert len(convert_text(tmp_path, head + rows).rows) == 2
    with pytest.raises(UsageError, match="has more than 2 segments or counted calls"):
        convert_text(tmp_path, head + rows + " X_POSIX 0 read 0 4 5 0.2 0.3\n")
    case = convert_text(
        tmp_path, head + rows[: rows.index("\n") + 1] + " X_POSIX 0 read 0 4 5\n X_STDIO 1 read 0 0 9 0.5 0.6\n"
    )
    assert len(case.rows) == 1 and case.report.bad + sum(case.report.left_out.values()) == 4
    assert sniff_name(b"# darshan log version: 3.21\n# nothing\n", "x") != "darshan-dxt"
    assert sniff_name(b"# darshan log version: 3.21\n# dxt\n", "x") == "darshan-dxt"


def test_keys_of_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twitter_cache, "MOST_FILES", 2)
    good = "0,a,1,5,1,set,0\n0,b,1,5,1,set,0\n0,a,1,5,1,get,0\n"
    assert convert_text(tmp_path, good, "twitter-cache").report.bad == 0
    for line, said in (
        ("0,c,1,5,1,set,0", "more than 2 objects"), ("0,.,1,5,1,set,0", "no key"), ("0,..,1,5,1,set,0", "no key"),
        ("0,,1,5,1,set,0", "fewer than 7"), ("0,1,5,1,set,0", "fewer than 7"), ("a,1,5,1,set,0", "fewer than 7"),
    ):  # fmt: skip
        case = convert_text(tmp_path, good + line + "\n", "twitter-cache")
        assert case.report.bad == 1 and said in case.report.bad_lines[0][1]


FH = '{{"name": "FH", "args": {{"name": {}, "value": {}}}}}\n'
POSIX = (
    '{{"cat": "{}", "ph": "{}", "name": "open", "ts": 5, "pid": 1, "args": {{"fhash": 1, "ret": "3", "flags": 0}}}}\n'
)


def test_events_of_dftracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dftracer, "_MOST_PATHS", 2)
    good = FH.format('"/a"', 1) + FH.format('"/b"', 2) + POSIX.format("POSIX", "X")
    case = convert_text(tmp_path, good, "dftracer")
    assert case.report.bad == 0 and case.rows == [("open", "/a", -1, 0)]
    assert convert_text(tmp_path, good + FH.format('"/c"', 3), "dftracer").report.bad == 1
    assert convert_text(tmp_path, good.replace('"/b"', "7"), "dftracer").report.bad == 1
    for other in (POSIX.format("STDIO", "X"), POSIX.format("POSIX", "M")):
        case = convert_text(tmp_path, good + other, "dftracer")
        assert case.report.left_out["not a POSIX call"] == 1 and len(case.rows) == 1
    text = FH.format('"/a"', 1) + FH.format('""', 2) + POSIX.format("POSIX", "X")
    case = convert_text(tmp_path, text + POSIX.format("POSIX", "X").replace('"fhash": 1', '"fhash": 2'), "dftracer")
    assert "open without a path" in case.report.bad_lines[0][1] and len(case.rows) == 1


@pytest.mark.parametrize(
    ("changed", "bad"),
    [({}, 0), ({"pid": 0}, 0), ({"pid": -1}, 1), ({"pid": "7"}, 1), ({"return_value": None}, 1), ({"return_timestamp": 1.5}, 1)],
)  # fmt: skip
def test_events_of_dio(tmp_path: Path, changed: dict[str, Any], bad: int) -> None:
    event = {"system_call_name": "open", "return_timestamp": 5, "pid": 7, "return_value": 3, "args": {"flags": 0}}
    event |= {"fdata": {"file_path": "/a"}}
    text = "".join(json.dumps(one) + "\n" for one in (event, event | changed))
    case = convert_text(tmp_path, text, "dio")
    assert (case.report.bad, len(case.rows)) == (bad, 2 - bad)


LTTNG = "[{}.000000000] (+0.1) host syscall_{}: {{ cpu_id = 0 }}, {{ pid = {}, tid = {} }}, {{ {} }}\n"


def opens(time: str, tid: int) -> str:
    entry = LTTNG.format(time, "entry_open", tid, tid, 'filename = "/a", flags = 0')
    return entry + LTTNG.format(time, "exit_open", tid, tid, "ret = 3")


def test_threads_and_days_of_lttng(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lttng, "_MOST_WAITING", 2)
    case = convert_text(tmp_path, opens("13:00:00", 0) + opens("13:00:01", -1), "lttng")
    assert case.report.bad == 2 and len(case.rows) == 1
    for later, seconds in (("01:00:00", 0), ("00:59:59", 43199)):  # half a day back, and more: the next day
        case = convert_text(tmp_path, opens("13:00:00", 1) + opens(later, 1), "lttng")
        assert case.records["time_ns"].tolist() == [0, seconds * 10**9]
    waiting = [LTTNG.format("13:00:00", "entry_close", tid, tid, "fd = 3") for tid in (1, 2, 1, 3)]
    text = opens("13:00:00", 1)
    assert convert_text(tmp_path, text + "".join(waiting[:3]), "lttng").report.bad == 0
    assert convert_text(tmp_path, text + "".join(waiting), "lttng").report.bad == 1


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("1 1 READ 7 5 0 5 HIT", 0),
        ("1 1 READ 7 5 0 5 NONE", 1),
        ("1 1 OPEN 7 5 0 5 HIT", 1),
        ("1 1 READ 7 5", 1),
        ("1 1 OPEN 7 5", 0),
    ],
)
def test_lines_of_fiu(tmp_path: Path, line: str, bad: int) -> None:
    case = convert_text(tmp_path, "0 0 OPEN 7 5\n" + line + "\n", "fiu-file")
    assert case.report.bad == bad


@pytest.mark.parametrize(
    ("title", "is_one"),
    [
        ("op,path", True), ("path,op", True), ("op,file", True), ("op", False), ("path,file", False), ("op,op,path", False),
        ("op,path,colour", False), (",".join(("op,time_ns,thread,file,path,offset,length,flags", "file2,path2,buffer")), True),
    ],
)  # fmt: skip
def test_titles_of_operations(title: str, is_one: bool) -> None:
    assert (sniff_name(title.encode() + b"\n", "x") == "ops-csv") == is_one


def test_cells_of_operations(tmp_path: Path) -> None:
    def taken(**cells: Any) -> int:
        text = "".join(
            json.dumps({"op": "write", "path": "/a", "offset": 0, "length": 5} | one) + "\n" for one in ({}, cells)
        )
        return convert_text(tmp_path, text, "ops-jsonl").report.bad

    for name, good, bad in (
        ("time_ns", 10**18 - 1, 10**18), ("thread", (1 << 31) - 1, 1 << 31), ("length", "5".zfill(19), "5".zfill(20)),
        ("length", None, True), ("offset", None, "0x5"), ("flags", None, 5), ("path", "/b", "/\0"), ("buffer", None, -1),
    ):  # fmt: skip
        assert taken(**{name: bad}) == 1
        if name != "offset":
            assert taken(**{name: good}) == 0
    assert taken(offset=None) == 1
    for known, again in (({"file": 1}, {"file": 1, "path": "/c"}), ({}, {})):
        text = "".join(json.dumps({"op": "file", "path": "/b"} | one) + "\n" for one in (known, again))
        case = convert_text(tmp_path, text + '{"op": "stat", "path": "/b"}\n', "ops-jsonl")
        assert case.report.bad == 1 and "is known already" in case.report.bad_lines[0][1]
    text = (
        '{"op": "file", "path": "/b", "file": 1}\n{"op": "file", "path": "/b", "file": 2}\n{"op": "stat", "file": 2}\n'
    )
    assert convert_text(tmp_path, text, "ops-jsonl").report.bad == 0


@pytest.mark.parametrize(("damaged", "is_one"), [(1, True), (2, True), (3, False)])
def test_half_of_the_first_requests_of_a_cache_make_sense(tmp_path: Path, damaged: int, is_one: bool) -> None:
    told = np.zeros(4, oracle_general.RECORD)
    told["length"], told["next"] = 512, -1
    told["next"][:damaged] = -2
    if is_one:
        assert convert_text(tmp_path, told.tobytes(), "oracle-general").report.bad == damaged
        return
    with pytest.raises(UsageError, match="of its first 4 records, 3 run backwards"):
        convert_text(tmp_path, told.tobytes(), "oracle-general")
