"""Rough traces: what is counted in the rows equals the counters that they were made of."""

import re
import sys
import types
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scmsim
from scmsim.core.errors import UsageError
from scmsim.trace.filter import filter_trace
from scmsim.trace.formats.files import _dxt
from scmsim.trace.formats.files._rough_sizes import LARGEST, Total, class_of, sizes
from tests.reference import darshan_slow
from tests.trace.formats_helper import Case, convert, convert_text

HEAD = "# darshan log version: 3.41\n# nprocs: 1\n# description of columns:\n#<module>\t<rank>\t<record id>\n"
TIMES = {"OPEN_START": 0.5, "READ_START": 1.0, "READ_END": 3.0, "WRITE_START": 1.0, "WRITE_END": 2.0, "CLOSE_END": 4.0}


def text_of(values: dict[str, float], module: str = "POSIX", path: str = "/a", rank: int = 0, ident: int = 7) -> str:
    prefix = {"MPI-IO": "MPIIO"}.get(module, module)
    rows = [f"{module}\t{rank}\t{ident}\t{prefix}_{name}\t{value}\t{path}\t/\text4\n" for name, value in values.items()]
    return "".join(rows)


def times(**more: float) -> dict[str, float]:
    return {f"F_{name}_TIMESTAMP": f"{value:.6f}" for name, value in {**TIMES, **more}.items()}  # type: ignore[misc]


def counted(case: Case, path: str = "/a") -> dict[str, int]:
    """The counters of a trace's reads and writes of one file, with those that make no row of data."""
    return darshan_slow.counters(
        [(op, offset, length) for op, name, offset, length in case.rows if name == path and op in ("read", "write")]
    )


def test_the_real_log_of_a_known_program(tmp_path: Path) -> None:
    """64 + 4 writes and 13 reads, recorded by Darshan 3.5.0: see the program in the comment.

    fd = open(data.bin, O_RDWR | O_CREAT | O_TRUNC); 64 writes of 4096; write of 1000; fsync; pread of 4096 at pages
    3 40 7 22 7 60 1; lseek 0; read 65536, 200; pwrite of 512 at 5 30 2 x 8192; fdatasync; close; open; read 131072 to the end
    """
    case = convert("darshan_parser.txt", tmp_path)
    rows = Counter((op, path) for op, path, _, _ in case.rows)
    data, log = "/data/data.bin", "/data/log.txt"
    assert {op: rows[op, data] for op in ("open", "read", "write", "fsync", "close")} == {
        "open": 2, "read": 13, "write": 68, "fsync": 2, "close": 2,
    }  # fmt: skip
    found = counted(case, data)
    text = (Path(__file__).parents[3] / "data/formats/darshan_parser.txt").read_text()
    told = {name: int(value) for name, value in re.findall(r"POSIX_(\w+)\t(\d+)\t/data/data.bin", text)}
    for name in found:
        if not name.startswith("ACCESS"):
            assert found[name] == told[name], name
    sizes = Counter(length for op, path, _, length in case.rows if path == data and op in ("read", "write"))
    assert (sizes[4096], sizes[512], sizes[131072], sizes[1000]) >= (71, 3, 2, 2)
    assert (rows["read", log], rows["write", log]) == (500, 500)
    assert sum(length for op, path, _, length in case.rows if path == log and op == "write") == 9890
    assert case.report.left_out["seek: no offset, or no model"] == 1
    assert case.report.rough and case.trace.header["rough"] == case.report.rough
    assert case.trace.header["nprocs"] == "1"


def test_calls_of_the_c_library_can_be_joined_to_system_calls(tmp_path: Path) -> None:
    case = convert("darshan_parser.txt", tmp_path, stdio_buffer=4096)
    moved = [(op, length) for op, path, _, length in case.rows if path == "/data/log.txt" and op in ("read", "write")]
    assert Counter(op for op, _ in moved) == {"read": 3, "write": 3}
    assert sum(length for op, length in moved if op == "write") == 9890
    assert len([op for op, path, _, _ in case.rows if path == "/data/data.bin" and op == "read"]) == 13


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["read", "write"]),
        st.sampled_from([0, 1, 5, 17, 200]) | st.just(-1),  # block; -1: after the call before
        st.sampled_from([1, 512, 4096, 70_000]) | st.integers(1, 3000),
    ),
    min_size=1,
    max_size=60,
)


@given(CALLS)
@settings(max_examples=150, deadline=None)
def test_rows_have_the_counts_and_the_bytes_of_any_counters(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("rough")
    position, calls = {"read": 0, "write": 0}, []
    for op, block, length in drawn:
        offset = position[op] if block < 0 else block * 4096
        position[op] = offset + length
        calls.append((op, offset, length))
    wanted = darshan_slow.counters(calls)
    case = convert_text(folder, HEAD + text_of({"OPENS": 1, "STATS": 3, "FSYNCS": 2, **wanted, **times()}))
    found = counted(case)
    for name, value in wanted.items():
        if name.startswith(("SEQ", "CONSEC", "MAX")):  # where passes overlap, the first call may ascend in the one only
            most = max(2, value // 5) if not name.startswith("MAX") else 0.1 * value + 70_000
            assert abs(found[name] - value) <= most, name
        elif not name.startswith("ACCESS"):
            assert found[name] == value, name
    rows = Counter(op for op, _, _, _ in case.rows)
    assert (rows["stat"], rows["fsync"], rows["open"] + rows["create"]) == (3, 2, 1)


@given(
    st.lists(st.integers(0, 1 << 22) | st.sampled_from([512, 4096]), max_size=40),
    st.lists(st.integers(0, 1 << 22) | st.sampled_from([512, 4096]), max_size=40),
)
@settings(max_examples=200, deadline=None)
def test_sizes_keep_sums_and_histograms(reads: list[int], writes: list[int]) -> None:
    def total(lengths: list[int]) -> Total:
        return Total(
            len(lengths), sum(lengths), tuple(sum(class_of(x) == k for x in lengths) for k in range(len(LARGEST)))
        )

    found = sizes(total(reads), total(writes), Counter(reads + writes).most_common(4))
    for lengths, given_ in zip(found, (reads, writes), strict=True):
        assert total(lengths.tolist()) == total(given_)


def test_one_direction_has_its_common_sizes(tmp_path: Path) -> None:
    calls = [("read", 4096 * k, 4096) for k in range(9)] + [("read", 99, 100), ("read", 8, 2000)]
    case = convert_text(tmp_path, HEAD + text_of({**darshan_slow.counters(calls), **times()}))
    assert Counter(length for op, _, _, length in case.rows if op == "read") == {4096: 9, 100: 1, 2000: 1}
    assert case.records["time_ns"].tolist() == [k * (2_000_000_000 // 11) for k in range(11)]


def test_patterns_are_those_of_the_counters(tmp_path: Path) -> None:
    """A scan, a scan in steps, two scans and descending calls have only one order that fits their counters."""
    for calls in (
        [(4096 * k, 4096) for k in range(30)],
        [(16384 * k, 4096) for k in range(30)],
        [(4096 * (k % 15), 4096) for k in range(30)],
    ):
        given_ = [("write", *call) for call in calls]
        case = convert_text(tmp_path, HEAD + text_of({**darshan_slow.counters(given_), **times()}))
        assert [(offset, length) for _, _, offset, length in case.rows] == calls
    given_ = [("write", 8192 * (30 - k), 4096) for k in range(30)]
    case = convert_text(tmp_path, HEAD + text_of({**darshan_slow.counters(given_), **times()}))
    offsets = [offset for _, _, offset, _ in case.rows]
    assert offsets == sorted(offsets, reverse=True) and len(set(offsets)) == 30


def test_a_file_is_created_if_nothing_was_read_before(tmp_path: Path) -> None:
    wrote = {"OPENS": 2, "MODE": 420, "WRITES": 2, "BYTES_WRITTEN": 10, "MAX_BYTE_WRITTEN": 9}
    case = convert_text(tmp_path, HEAD + text_of({**wrote, **times()}))
    assert [row[0] for row in case.rows] == ["create", "open", "write", "write", "close", "close"]
    assert case.trace.files.first_size.tolist() == [-1]
    for more in ({"MODE": 0}, {"READS": 1, "BYTES_READ": 4, "MAX_BYTE_READ": 3}):
        case = convert_text(tmp_path, HEAD + text_of({**wrote, **more, **times()}))
        assert "create" not in [row[0] for row in case.rows]


def test_mpi_io_counts_only_where_posix_does_not(tmp_path: Path) -> None:
    mpi = text_of({"INDEP_OPENS": 1, "COLL_OPENS": 3, "COLL_WRITES": 2, "BYTES_WRITTEN": 8000, "SYNCS": 1}, "MPI-IO")
    case = convert_text(tmp_path, HEAD + mpi)
    assert [row[0] for row in case.rows] == ["open"] * 4 + ["write", "write", "fsync"]
    posix = text_of({"OPENS": 1, "WRITES": 1, "BYTES_WRITTEN": 8000, "MAX_BYTE_WRITTEN": 7999})
    case = convert_text(tmp_path, HEAD + mpi + posix)
    assert case.rows == [("open", "/a", -1, 0), ("write", "/a", 0, 8000)]
    assert case.report.left_out["record of MPI-IO (POSIX has its calls)"] == 1


def test_odd_lines_and_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = text_of({"OPENS": 1, "MMAPS": -1, "RENAME_SOURCES": 2})
    more = text_of({"WRITES": 0, "BYTES_WRITTEN": 5}, path="/b", ident=8) + "total_POSIX_OPENS: 1\n"
    more += (
        "POSIX\tx\t9\tPOSIX_OPENS\t1\t/c\t/\text4\nPOSIX 1 2\n# *WARNING*: The POSIX module contains incomplete data!\n"
    )
    case = convert_text(tmp_path, HEAD + good + more)
    assert case.rows == [("open", "/a", -1, 0)]
    said = [reason for _, reason in case.report.bad_lines]
    assert said == [
        "POSIX_OPENS '1' of rank 'x' is not a counter", "this is not a row of darshan-parser",
        "impossible counters of '/b': 5 bytes written, but no call that moved them",
    ]  # fmt: skip
    assert case.report.blind == {"rename": 2}
    assert case.trace.header["blind_spots"] == ["files beyond the memory of Darshan's module POSIX"]
    with pytest.raises(UsageError, match="darshan-parser 2; read the log with darshan-parser 3"):
        convert_text(
            tmp_path, "# darshan log version: 2.05\n# description of columns:\n#<rank>\t<file>\n", "darshan-parser"
        )
    monkeypatch.setattr(_dxt, "MOST", 100)
    with pytest.raises(UsageError, match="has more than 100 segments or counted calls"):
        convert_text(tmp_path, HEAD + text_of({"READS": 101, "BYTES_READ": 101}))


def test_a_rough_trace_stays_rough(tmp_path: Path) -> None:
    convert("darshan_parser.txt", tmp_path)
    filter_trace(tmp_path / "out.parquet", tmp_path / "less.parquet", ops=["write"])
    result = scmsim.replay(tmp_path / "less.parquet", "nova-cow")
    assert [line for line in result.runs[0].warnings if line.startswith("the trace is rough: made from counters")]


class _Log:
    """As much of PyDarshan's report as the importer uses."""

    def __init__(self, path: str, read_all: bool) -> None:
        self.modules = {"POSIX": {"partial_flag": True}}
        self.name_records = {7: "/a"}
        self.metadata = {"job": {"nprocs": 4}}
        self.records: dict = {}

    def mod_read_all_records(self, module: str) -> None:
        whole = pd.DataFrame([{"id": 7, "rank": -1, "POSIX_OPENS": 1, "POSIX_READS": 2, "POSIX_BYTES_READ": 300}])
        timed = pd.DataFrame([{"id": 7, "rank": -1, "POSIX_F_OPEN_START_TIMESTAMP": 0.25}])
        self.records[module] = types.SimpleNamespace(to_df=lambda: {"counters": whole, "fcounters": timed})


def test_a_binary_log_without_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "x.darshan"
    log.write_bytes(b"3.41\0\0\0\0" + (6567223).to_bytes(8, "little") + bytes(64))
    monkeypatch.setitem(sys.modules, "darshan", types.SimpleNamespace(DarshanReport=_Log))
    case = convert(log, tmp_path)
    assert case.rows == [("open", "/a", -1, 0), ("read", "/a", 0, 150), ("read", "/a", 150, 150)]
    assert case.trace.header["nprocs"] == 4 and case.report.rough
    assert case.trace.header["blind_spots"] == ["files beyond the memory of Darshan's module POSIX"]
    with pytest.raises(UsageError, match="no extended tracing, only sums"):
        convert(log, tmp_path, rows="segments")


def test_real_binary_logs_keep_their_sums(tmp_path: Path) -> None:
    darshan = pytest.importorskip("darshan", reason="the optional package darshan is not installed")
    log = Path(darshan.__file__).parent / "examples" / "example_logs" / "ior_hdf5_example.darshan"
    if not log.exists():
        pytest.skip("this version of the package darshan has no example log")
    case = convert(log, tmp_path, rows="counters")
    rows = Counter(op for op, _, _, _ in case.rows)
    assert case.report.rough and rows["write"] and rows["read"]
