"""`scmsim mrc` and `mmu` on the requests of block and object traces: against plain LRU caches and libCacheSim."""

import json
import struct
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from scmsim import cli
from scmsim.core.errors import UsageError
from scmsim.core.records import FSYNC, OP, READ, SETUP, WRITE, Files
from scmsim.pipeline import requests
from tests.trace.formats_helper import DATA, convert

IDS = (np.random.default_rng(11).zipf(1.2, 4000) % 700).tolist()


def run(*args: object) -> Result:
    return CliRunner().invoke(cli.main, list(map(str, args)))


def lru_misses(keys: Iterable[object], entries: int) -> int:
    """Misses of an LRU cache of so many entries, one by one."""
    cache: OrderedDict[object, None] = OrderedDict()
    misses = 0
    for key in keys:
        if key in cache:
            cache.move_to_end(key)
            continue
        misses += 1
        cache[key] = None
        if len(cache) > entries:
            cache.popitem(last=False)
    return misses


def oracle_general(path: Path, ids: list[int]) -> Path:
    """A trace of libCacheSim with a request a second, of objects of different sizes."""
    path.write_bytes(b"".join(struct.pack("<IQIq", 5 + k, ident, 100 + ident * 7, -1) for k, ident in enumerate(ids)))
    return path


def curve(*args: object) -> dict:
    done = run("mrc", *args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_objects_are_the_entries_of_an_lru_cache(tmp_path: Path) -> None:
    source = oracle_general(tmp_path / "t.oracleGeneral", IDS)
    convert(source, tmp_path, "oracle-general")
    told = curve(tmp_path / "out.parquet")
    assert (told["accesses"], told["access"], told["replayed_on"]) == (4000, "object", None)
    assert {row["page"] for row in told["rows"]} == {"object"} and told["rows"][-1]["entries"] == len(set(IDS))
    for row in told["rows"]:
        assert row["misses"] == lru_misses(IDS, row["entries"])
    shown = run("mrc", tmp_path / "out.parquet")
    assert "an access is a request, and an entry holds one object of any size; --fs replays" in shown.stderr


@pytest.mark.parametrize("ids", [IDS, None])
def test_objects_miss_as_in_libcachesim(tmp_path: Path, ids: list[int] | None) -> None:
    """libCacheSim reads the file itself; sizes are ignored."""
    libcachesim = pytest.importorskip("libcachesim", reason="the package libcachesim (extra dev) is not installed")
    source = DATA / "oracle_general.bin" if ids is None else oracle_general(tmp_path / "t.oracleGeneral", ids)
    convert(source, tmp_path, "oracle-general")
    for row in curve(tmp_path / "out.parquet")["rows"]:
        reader = libcachesim.TraceReader(
            str(source), libcachesim.TraceType.ORACLE_GENERAL_TRACE, libcachesim.ReaderInitParam(ignore_obj_size=True)
        )
        ratio, _ = libcachesim.LRU(cache_size=row["entries"]).process_trace(reader)
        assert round(ratio * (len(IDS) if ids else 100)) == row["misses"]


def pages_of_msr() -> list[tuple[str, int]]:
    """Disk and page of each page of each request of the sample, read from the text alone."""
    out = []
    for line in (DATA / "msr.csv").read_text().splitlines():
        _, host, disk, _, offset, size, _ = line.split(",")
        out += [(host + disk, page) for page in range(int(offset) // 4096, (int(offset) + int(size) - 1) // 4096 + 1)]
    return out


def test_a_block_trace_counts_its_own_pages(tmp_path: Path) -> None:
    convert("msr.csv", tmp_path)
    pages = pages_of_msr()
    told = curve(tmp_path / "out.parquet", "--curve", "--page", "4KiB,2MiB")
    assert (told["accesses"], told["access"]) == (len(pages), "page of a request")
    for row in told["rows"]:
        keys = pages if row["page"] == "4KiB" else [(disk, page // 512) for disk, page in pages]
        assert row["misses"] == lru_misses(keys, row["entries"])
    shown = run("mrc", tmp_path / "out.parquet", "--page", "4KiB", "--sets", "1", "--ways", "2")
    assert "an access is a page of 4 KiB that a request touches" in shown.stderr
    replayed = curve(tmp_path / "out.parquet", "--curve", "--fs", "nova-cow", "--page", "4KiB")
    assert replayed["replayed_on"] == "nova-cow" and replayed["accesses"] > len(pages)


def test_a_derived_trace_still_has_requests(tmp_path: Path) -> None:
    convert("msr.csv", tmp_path)
    assert (
        run("trace", "filter", tmp_path / "out.parquet", "-o", tmp_path / "w.parquet", "--op", "write").exit_code == 0
    )
    assert curve(tmp_path / "w.parquet", "--curve")["access"] == "page of a request"
    both = {"inputs": [{"granularity": "block"}, {"granularity": "file"}]}
    assert requests.granularity(both) == requests.granularity({"inputs": 3}) == "file"


def test_the_mmu_takes_the_pages_of_a_block_trace(tmp_path: Path) -> None:
    case = convert("msr.csv", tmp_path)
    done = run("mmu", tmp_path / "out.parquet", "--json")
    assert "an access is a page of 4 KiB that a request touches; 'scmsim replay' replays" in done.stderr
    (counts,) = json.loads(done.stdout)["results"]
    touched = {"read": 0, "write": 0}
    for op, _, offset, length in case.rows:
        if op in touched:
            touched[op] += (offset + length - 1) // 4096 - offset // 4096 + 1
    assert (counts["dtlb_load_lookups"], counts["dtlb_store_lookups"]) == (touched["read"], touched["write"])
    (plain,) = json.loads(run("mmu", tmp_path / "out.parquet", "--l1", "4x4", "--json").stdout)["results"]
    assert plain == {"accesses": len(pages_of_msr()), "l1_misses": lru_misses(pages_of_msr(), 4)}


@pytest.mark.parametrize(
    ("sample", "args", "message"),
    [
        ("oracle_general.bin", ("mrc", "--page", "4KiB"), "--page has no effect on"),
        ("oracle_general.bin", ("mrc", "--ways", "2"), "--ways has no effect on"),
        ("msr.csv", ("mrc", "--paging", "linux"), "--paging 'linux' needs a replay; add a file system"),
        ("oracle_general.bin", ("mmu",), "have no addresses; use 'scmsim replay'"),
        ("fio_iolog_v3.log", ("mmu",), "have no addresses; use 'scmsim replay'"),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path: Path, sample: str, args: tuple[str, ...], message: str) -> None:
    convert(sample, tmp_path)
    done = run(*args, tmp_path / "out.parquet")
    assert done.exit_code == 2 and message in done.output and len(done.output.strip().splitlines()) == 1


class _Trace:
    """A trace in memory."""

    def __init__(self, kind: str, rows: list[tuple[int, int, int, int, int]]) -> None:
        self.header, self.rows = {"granularity": kind}, len(rows)
        self.files = Files(["/a", "/b", "/c"], np.zeros(3, "i8"), np.zeros(3, bool))
        self.array = np.zeros(len(rows), OP)
        for row, (op, file, offset, length, flag) in zip(self.array, rows, strict=True):
            row["op"], row["file"], row["offset"], row["length"], row["flag"] = op, file, offset, length, flag

    def batches(self, chunk: int):  # noqa: ANN201
        """Some rows at a time."""
        for start in range(0, self.rows, 3):
            yield self.array[start : start + 3].view(np.recarray)


ROWS = st.lists(
    st.tuples(
        st.sampled_from([READ, WRITE, FSYNC]), st.integers(0, 2), st.integers(0, 40_000), st.integers(0, 20_000),
        st.sampled_from([0, 0, 0, SETUP]),
    ),
    max_size=12,
)  # fmt: skip


@given(ROWS, st.sampled_from([1, 3, 1 << 17]))
def test_requests_are_their_pages(rows: list[tuple[int, int, int, int, int]], chunk: int) -> None:
    kept = [row for row in rows if row[0] != FSYNC and not row[4]]
    trace = _Trace("block", rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "_CHUNK", chunk)
        parts = list(requests.accesses(trace))  # type: ignore[arg-type]
    assert all(0 < len(codes) == len(found) <= chunk for codes, found in parts)
    found = [(int(address) >> 55, int(address) & (1 << 55) - 1) for _, part in parts for address in part]
    assert found == [
        (file, page * 4096)
        for _, file, offset, length, _ in kept
        for page in range(offset // 4096, -(-(offset + length) // 4096) if length else offset // 4096)
    ]
    objects = [address for _, part in requests.accesses(_Trace("object", rows)) for address in part.tolist()]  # type: ignore[arg-type]
    assert objects == [file * 4096 for _, file, _, _, _ in kept]


def test_a_device_that_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="3 devices have 2.55 bytes each; convert one device"):
        list(requests.accesses(_Trace("block", [(READ, 1, 1 << 55, 1, 0)])))  # type: ignore[arg-type]
