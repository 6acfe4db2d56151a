"""The Parquet store: what is written comes back, and everything else is one clear error."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scmsim
from scmsim.core.errors import UsageError
from scmsim.core.records import CREATE, FSYNC, MALLOC, OP, OPS, READ, SYNC, WRITE, Files, joined
from scmsim.trace import TraceWriter, open_trace
from scmsim.trace.store import ROWS_PER_GROUP
from scmsim.trace.summary import all_problems, totals

FILES = Files(["/a", "/b", "/é\n"], np.array([-1, 10, 0]), np.array([False, False, True]))


def rows(count: int, **fields: object) -> np.ndarray:
    out = np.zeros(count, OP)
    out["op"], out["file2"], out["time_ns"] = WRITE, -1, np.arange(count)
    for name, value in fields.items():
        out[name] = value
    return out


def write(path: Path, *batches: np.ndarray, header: dict | None = None, files: Files = FILES) -> Path:
    with TraceWriter(path, {"tool": "test"} if header is None else header) as writer:
        for batch in batches:
            writer.append(batch)
        writer.close(files)
    return path


def rewrite(path: Path, change) -> None:
    """Write the table of a trace again after `change(columns, metadata)`."""
    table = pq.read_table(path)
    metadata = dict(pq.ParquetFile(path).metadata.metadata)
    columns = {name: table.column(name) for name in table.column_names}
    change(columns, metadata)
    metadata.pop(b"ARROW:schema", None)
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)


def test_rows_header_and_side_table_come_back(tmp_path: Path) -> None:
    batch = rows(5, op=[CREATE, WRITE, READ, FSYNC, SYNC], offset=[-1, 0, 7, -1, -1], file=[0, 1, 2, 0, -1], flag=513)
    header = {"tool": "é", "nested": {"a": [1, 2]}}
    trace = open_trace(write(tmp_path / "t.parquet", batch, header=header))
    assert trace.rows == 5 and trace.header == header
    assert np.array_equal(joined(list(trace.batches())), batch)
    assert np.array_equal(joined(list(trace.batches(2))), batch)  # a second time, in other pieces
    assert trace.files.path == FILES.path
    assert trace.files.first_size.tolist() == [-1, 10, 0] and trace.files.is_dir.tolist() == [False, False, True]
    assert scmsim.open_trace is open_trace


def test_batches_are_record_arrays_of_at_most_a_chunk(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", rows(ROWS_PER_GROUP + 100))
    batches = list(open_trace(path).batches(1000))
    assert all(isinstance(batch, np.recarray) and len(batch) <= 1000 for batch in batches)
    assert sum(map(len, batches)) == ROWS_PER_GROUP + 100
    assert batches[0].flag[0] == 0 and batches[0][3].time_ns == 3


def test_row_groups_stream_and_bound_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", *[rows(50_000)] * 5)
    footer = pq.ParquetFile(path).metadata
    groups = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    assert max(groups) == ROWS_PER_GROUP and sum(groups) == 250_000


def test_the_file_is_plain_parquet_with_readable_names(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "t.parquet", rows(2, op=[READ, WRITE])))
    assert table.column("op").to_pylist() == ["read", "write"]
    assert table.column_names == ["time_ns", "op", "file", "file2", "offset", "length", "thread", "flags", "buffer"]


def test_an_empty_trace_is_a_trace(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "t.parquet", files=Files([], np.empty(0, "i8"), np.empty(0, bool))))
    assert trace.rows == 0 and list(trace.batches()) == [] and len(trace.files) == 0
    assert all_problems(trace) == [] and totals(trace)["rows"] == 0


def test_the_header_may_grow_until_close(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.parquet", {}) as writer:
        writer.header["late"] = 1
        writer.close(FILES)
    assert open_trace(tmp_path / "t.parquet").header == {"late": 1}


def test_nothing_is_left_after_an_error_and_the_old_file_stays(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", rows(3))
    with pytest.raises(ZeroDivisionError), TraceWriter(path, {}) as writer:
        writer.append(rows(10))
        raise ZeroDivisionError
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"] and open_trace(path).rows == 3


def test_writing_to_a_bad_place_is_a_usage_error(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "is a folder"), (tmp_path / "no" / "t.parquet", "no folder")):
        with pytest.raises(UsageError, match=message):
            TraceWriter(path, {})


def test_appending_something_else_is_refused(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.parquet", {}) as writer:
        with pytest.raises(TypeError, match=r"dtype records\.OP"):
            writer.append(np.zeros(3))
        with pytest.raises(UsageError, match="no operation has the code 99"):
            writer.append(rows(1, op=99))
            writer.close(FILES)
    assert list(tmp_path.iterdir()) == []


BAD_ROWS = {
    "negative offset": ({"offset": -2}, "row 70002: offset -2, which must be 0 or more"),
    "no offset": ({"offset": -1}, "row 70002: offset -1"),
    "negative length": ({"length": -1}, "row 70002: length -1"),
    "file out of range": ({"file": 3}, "row 70002: file 3, but the side table has the rows 0 to 2"),
    "no file": ({"file": -1}, "row 70002: file -1"),
    "file2 out of range": ({"file2": 3}, "row 70002: file2 3"),
    "thread": ({"thread": -1}, "row 70002: thread -1"),
    "flags": ({"flag": 1 << 20}, "row 70002: unknown bits in the flags 0x100000"),
    "overflow": ({"offset": 2**62, "length": 5}, "row 70002: offset 4611686018427387904 plus its length"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_row_that_would_corrupt_a_replay_is_named(tmp_path: Path, name: str) -> None:
    fields, message = BAD_ROWS[name]
    batch = rows(80_000)
    for field, value in fields.items():
        batch[field][70_002] = batch[field][70_005] = value
    trace = open_trace(write(tmp_path / "t.parquet", batch))
    with pytest.raises(UsageError) as caught:
        list(trace.batches(999))
    assert message in str(caught.value) and "scmsim trace check" in str(caught.value)
    found = all_problems(trace)
    assert len(found) == 1 and found[0].startswith(message) and found[0].endswith("(2 rows)")


def test_check_finds_time_that_runs_backwards_across_row_groups(tmp_path: Path) -> None:
    times = np.arange(ROWS_PER_GROUP + 1)
    times[-1] = 5
    trace = open_trace(write(tmp_path / "t.parquet", rows(len(times), time_ns=times)))
    assert all_problems(trace) == [f"row {ROWS_PER_GROUP}: time 5 ns is before that of the row above"]
    with pytest.raises(UsageError, match=f"row {ROWS_PER_GROUP}: time 5 ns is before that of the row above; see all"):
        sum(map(len, trace.batches()))  # a replay reads them so


def test_memory_objects_need_no_file(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "t.parquet", rows(2, op=[MALLOC, SYNC], file=-1, offset=-1)))
    assert all_problems(trace) == []


def test_side_table_problems_are_found(tmp_path: Path) -> None:
    files = Files(["/a"], np.array([-5]), np.array([False]))
    assert all_problems(open_trace(write(tmp_path / "t.parquet", rows(1), files=files))) == [
        "side table row 0: first size -5, which must be -1 or more and below 2^44 (16 TiB)"
    ]


def unknown_op(columns: dict, metadata: dict) -> None:
    columns["op"] = pa.chunked_array([["write", "levitate", "write"]])


def header(text: bytes):
    return lambda columns, metadata: metadata.update({b"scmsim.header": text})


def plain_names(columns: dict, metadata: dict) -> None:
    columns["op"] = pa.chunked_array([["write", "read", "write"]])


def test_names_of_operations_decide_not_their_codes(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", rows(3))
    rewrite(path, plain_names)
    assert [OPS[op] for op in joined(list(open_trace(path).batches()))["op"]] == ["write", "read", "write"]
    rewrite(path, unknown_op)
    with pytest.raises(UsageError, match="row 1: unknown operation"):
        list(open_trace(path).batches())
    assert all_problems(open_trace(path)) == ["row 1: unknown operation"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda columns, metadata: metadata.update({b"scmsim.schema": b"3"}), "has the trace schema 3, newer than 2"),
        (lambda columns, metadata: metadata.update({b"scmsim.schema": b"x"}), "a Parquet file but not a trace"),
        (lambda columns, metadata: metadata.pop(b"scmsim.files"), "a Parquet file but not a trace"),
        (lambda columns, metadata: metadata.update({b"scmsim.files": b"!!"}), "its side table cannot be read"),
        (lambda columns, metadata: metadata.update({b"scmsim.files": b"AAAA"}), "its side table cannot be read"),
        (lambda columns, metadata: metadata.update({b"scmsim.header": b"{"}), "its header cannot be read"),
        (
            lambda columns, metadata: metadata.update({b"scmsim.header": b"[]"}),
            "its header cannot be read .it must be a table",
        ),
        (
            lambda columns, metadata: metadata.update({b"scmsim.header": b'{"counts": 1}'}),
            "its header cannot be read .its 'counts' must be a table",
        ),
        (lambda columns, metadata: metadata.update({b"scmsim.schema": "²".encode()}), "a Parquet file but not a trace"),
        (lambda columns, metadata: metadata.update({b"scmsim.schema": b"9" * 5000}), "newer than 2"),
        (header(b'{"seconds": NaN}'), "its header cannot be read .it has NaN"),
        (header(b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "its header cannot be read"),
        (header(b'{"x": ' + b"9" * 5000 + b"}"), "its header cannot be read"),
        (header(b'{"notes": "one"}'), "its header cannot be read .its 'notes' must be a list"),
        (header(b'{"blind_spots": [["a"]]}'), "its header cannot be read .its 'blind_spots' must be a list of texts"),
        (header(b'{"bad_lines": 3}'), "its header cannot be read .its 'bad_lines' must be a table"),
        (lambda columns, metadata: columns.pop("length"), "column 'length' is missing or of a wrong type"),
        (lambda columns, metadata: columns.update(file=pa.array([1.5] * 3)), "column 'file' is missing or of a wrong"),
    ],
)
def test_foreign_and_future_files_are_refused(tmp_path: Path, change, message: str) -> None:
    path = write(tmp_path / "t.parquet", rows(3))
    rewrite(path, change)
    with pytest.raises(UsageError, match=message):
        open_trace(path)


def test_other_inputs_are_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "text").write_text('1 1.0 write(3, "", 5) = 5\n')
    (tmp_path / "other").write_text("a,b\n1,2\n")
    (tmp_path / "empty").write_text("")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "foreign.parquet")
    for name, message in (
        ("text", "is strace output; convert it first: 'scmsim trace convert"),
        ("other", "is not a trace"),
        ("empty", "is empty"),
        ("missing", "no trace file"),
        (".", "is a directory"),
        ("foreign.parquet", "is a Parquet file but not a trace"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            open_trace(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_a_flipped_bit_in_a_page_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", rows(5000, length=np.random.default_rng(1).integers(0, 1 << 30, 5000)))
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)
    with pytest.raises(UsageError, match="is damaged or cut short"):
        list(open_trace(path).batches())


def test_totals(tmp_path: Path) -> None:
    batch = rows(4, op=[WRITE, WRITE, READ, READ], length=[5, 6, 7, 8], flag=[2, 0, 4, 1], thread=[0, 3, 0, 0])
    found = totals(open_trace(write(tmp_path / "t.parquet", batch)))
    assert found == {
        "rows": 4, "calls": 2, "setup_rows": 1, "bytes_read": 15, "bytes_written": 6, "unknown_offsets": 1,
        "duration_ns": 3, "threads": 4, "files": 3, "files_used": 1, "ops": {"read": 2, "write": 2},
    }  # fmt: skip
    json.dumps(found)


def test_a_first_size_beyond_what_a_model_holds_is_clipped_with_a_note(tmp_path: Path) -> None:
    files = Files(["/a", "/b"], np.array([1 << 60, 7]), np.array([False, False]))
    trace = open_trace(write(tmp_path / "t.parquet", rows(1), files=files))
    assert trace.files.first_size.tolist() == [(1 << 44) - 1, 7]
    assert [note for note in trace.header["notes"] if "1 files were larger than 16 TiB" in note]
