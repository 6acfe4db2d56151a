"""Traces of caches: rows worked out by hand."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import DATA_ONLY
from scmsim.trace.formats.caches import lcs, oracle_general
from tests.trace.formats_helper import DATA, convert, convert_text


def test_cache_trace_objects_and_blocks(tmp_path: Path) -> None:
    case = convert("oracle_general.bin", tmp_path)
    assert case.report.rows == 100 and case.rows[0] == ("read", "/object/42932745", 0, 512)
    assert case.trace.header["granularity"] == "object" and "does not say" in case.report.notes[0]
    blocks = convert("oracle_general.bin", tmp_path, block=512, op="write")
    assert blocks.rows[0] == ("write", "/device", 42932745 * 512, 512) and len(blocks.trace.files) == 1
    assert blocks.trace.header["granularity"] == "block"
    cut = convert_text(tmp_path, (DATA / "oracle_general.bin").read_bytes()[:-5], "oracle-general")
    assert cut.report.rows == 99 and cut.report.bad_lines == [(100, "the last record has 19 of 24 bytes")]


def test_random_bytes_are_no_cache_trace(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).bytes(200_000)
    with pytest.raises(
        UsageError, match=r"is not an oracleGeneral trace: of its first 682 records, 68\d run backwards"
    ):
        convert_text(tmp_path, noise, "oracle-general")
    good = (DATA / "oracle_general.bin").read_bytes() * 10
    case = convert_text(tmp_path, good + noise[:4800], "oracle-general")
    assert case.report.bad > 190 and case.report.is_incomplete()


def test_what_is_taken_for_a_cache_trace() -> None:
    """Four records tell it from other data, one does if the name says so; text never is one."""
    head = (DATA / "oracle_general.bin").read_bytes()
    assert [oracle_general.sniff(head[: 24 * count], "x") for count in (0, 3, 4)] == [False, False, True]
    assert [oracle_general.sniff(head[: 24 * count], "x.oracleGeneral") for count in (0, 1)] == [False, True]
    assert not oracle_general.sniff(
        np.full(4, 1, oracle_general.RECORD).tobytes().replace(b"\x00", b"\x01"), "oracleGeneral"
    )


@pytest.mark.parametrize(
    ("times", "is_one"),
    [
        ([7, 7, 8, 7 + (1 << 27) - 1], True),
        ([7, 7, 8, 7 + (1 << 27)], False),
        ([7, 7, 6, 8], False),
        ([7, 8, 7 + (1 << 27), 9], False),
    ],
)
def test_a_cache_trace_does_not_run_backwards_nor_four_years(times: list[int], is_one: bool) -> None:
    records = np.zeros(4, oracle_general.RECORD)
    records["time"], records["ident"], records["length"], records["next"] = times, 1, 512, -1
    assert oracle_general.sniff(records.tobytes(), "x") == is_one


def test_times_of_a_cache_trace_are_seconds(tmp_path: Path) -> None:
    records = np.zeros(4, oracle_general.RECORD)
    records["time"], records["ident"], records["length"], records["next"] = (7, 8, 8, 10), (1, 2, 1, 3), 512, -1
    case = convert_text(tmp_path, records.tobytes())
    assert case.records["time_ns"].tolist() == [0, 10**9, 10**9, 3 * 10**9]


@pytest.mark.parametrize("version", range(1, 9))
def test_lcs(tmp_path: Path, version: int) -> None:
    record = lcs._record(version, "")
    assert (
        record.itemsize == {1: 24, 2: 28, 3: 36, 4: 40, 5: 44, 6: 52, 7: 68, 8: 100}[version]
    )  # libCacheSim's static assertions
    records = np.zeros(4, record)
    records["time"], records["ident"], records["length"], records["next"] = (
        [5, 5, 6, 7],
        [9, 2, 9, 9],
        [100, 7, 100, 100],
        -1,
    )
    if version > 1:
        records["op"] = [1 | 77 << 8, 3, 9, 0]
    head = bytearray(8192)
    head[:8] = head[-8:] = (0x123456789ABCDEF0).to_bytes(8, "little")
    head[8] = version
    case = convert_text(tmp_path, bytes(head) + records.tobytes(), op="write")
    told = [("write", "/object/9", 0, 100), ("write", "/object/2", 0, 7), ("write", "/object/9", 0, 100)]
    assert case.rows == (
        [*told, ("write", "/object/9", 0, 100)] if version == 1 else [("read", "/object/9", 0, 100), told[1], told[2]]
    )
    head[8] = 9
    with pytest.raises(UsageError, match="version 9; 1 to 8 can be read"):
        convert_text(tmp_path, bytes(head) + records.tobytes())


def test_a_key_value_trace(tmp_path: Path) -> None:
    text = "0,nz:a,5,100,1,get,0\n1,nz:a,5,40,2,set,60\n1,k,1,300,1,set,60\n2,k,1,50,1,append,60\n3,k,1,350,1,gets,0\n"
    text += "3,k,1,8,1,incr,0\n4,k,1,0,1,delete,0\n4,k,1,0,1,delete,0\n5,k,1,0,1,get,0\n6,k,1,10,3,add,9\n"
    case = convert_text(tmp_path, text)
    assert case.rows == [
        ("read", "/nz:a", 0, 100), ("truncate", "/nz:a", 0, 0), ("write", "/nz:a", 0, 40), ("create", "/k", -1, 0),
        ("write", "/k", 0, 300), ("write", "/k", 300, 50), ("read", "/k", 0, 350), ("write", "/k", 0, 8), ("unlink", "/k", -1,
        0),
        ("create", "/k", -1, 0), ("write", "/k", 0, 10),
    ]  # fmt: skip
    assert case.report.left_out == {"delete of an object that does not exist": 1, "transfer of no bytes": 1}
    assert case.records["thread"].tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 0, 2, 2]
    assert case.records["file"][3] != case.records["file"][-1]  # another object of the same name
    assert not (case.records["flag"] & DATA_ONLY).any()


def test_operations_of_a_key_value_trace(tmp_path: Path) -> None:
    """What grows, changes or replaces a value that was there before the trace, or that the trace has made."""
    lines = ["1,a,1,9,1,append,0", "1,a,1,5,1,prepend,0", "1,a,1,50,1,gets,0", "1,b,1,9,1,decr,0", "1,b,1,20,1,incr,0",
    "1,b,1,50,1,get,0",
             "1,c,1,9,1,replace,0", "1,c,1,9,1,cas,0", "1,c,1,8,1,cas,0", "1,c,1,30,1,add,0", "1,c,1,7,1,get,0"]  # fmt: skip
    case = convert_text(tmp_path, "\n".join(lines) + "\n")
    assert case.rows == [
        ("write", "/a", 0, 9), ("write", "/a", 9, 5), ("read", "/a", 0, 14), ("write", "/b", 0, 9), ("write", "/b", 0, 20),
        ("read", "/b", 0, 20),
        ("create", "/c", -1, 0), ("write", "/c", 0, 9), ("write", "/c", 0, 9), ("truncate", "/c", 0, 0), ("write", "/c", 0,
        8), ("write", "/c", 0, 30),
        ("read", "/c", 0, 7),
    ]  # fmt: skip
    assert case.report.extra_rows == 2
