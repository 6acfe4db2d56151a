"""Files of accesses: their formats to the byte, what is refused, and that a file is written whole or not at all."""

import gzip
import json
import lzma
import os
import struct

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import scmsim
from scmsim import accesses, mmu
from scmsim.accesses.rows import Causes, lines, rows_of
from scmsim.cli import main
from scmsim.core.errors import UsageError
from scmsim.core.records import EVENT, EVENT_COLUMNS, EVENTS, SPACES
from scmsim.mmu.accesses import loads
from scmsim.trace import TraceWriter
from scmsim.workload.microbench import Workload
from tests.fs import drive
from tests.pipeline.test_periods_properties import Cell

HIGH = 0xFFFF_8880_0000_0000 - (1 << 64)
SITES = ["copy", "log"]


def events(*rows):
    """Events of (code, site, space, order, width, addr, length, vaddr)."""
    out = np.zeros(len(rows), EVENT).view(np.recarray)
    for i, (code, site, space, order, width, addr, length, vaddr) in enumerate(rows):
        code = EVENTS.index(code)
        out[[*EVENT_COLUMNS]][i] = (code, site, SPACES.index(space), order, i, width, addr, length, vaddr)
    return out


# a call's code, a copy to persistent memory past the caches, a strided store, its flush (each line twice), two fences
FEW = events(
    ("WORK", 1, "text", 21, 1500, 2_000_500, 700, HIGH + 4096),
    ("LOAD", 0, "user", 12, 8, 100, 100, (1 << 40) + 100),
    ("NTSTORE", 0, "pm", 30, 8, 60, 100, HIGH + 60),
    ("STORE", 1, "pm", 30, -8, 4160, 4104, HIGH + 4160),
    ("FLUSH", 1, "pm", 30, 2, 4160, 8, HIGH + 4160),
    ("LOAD", 1, "pm", 30, 0, 4160, 8, HIGH + 4160),
    ("FENCE", 1, "pm", 0, 0, 0, 2, 0),
    ("MAP", 1, "user", 12, 0, 0, 4096, 1 << 40),
    ("UNMAP", 1, "user", 12, 3, 0, 4096, 1 << 40),
    ("INVALIDATE", 1, "user", 0, 0, 0, 0, 0),
    ("INVALIDATE", 1, "user", 0, 2, 0, 0, 0),
    ("LOAD", 1, "pm", 30, 8, 0, 0, HIGH),
)  # fmt: skip
WRITTEN = (np.array([2, 4]), np.array([60, 4160]), np.array([160, 4224]))


def rows(setup=()):
    number = np.arange(len(FEW))
    return rows_of(FEW, WRITTEN, Causes(number + 7, number % 2, np.isin(number, setup)))


def write(path, *parts, sites=SITES, header=None):
    with accesses.writing(path, accesses.form_of(path), sites, header or {}) as writer:
        for part in parts:
            writer.add(part)
    return writer.counts


def test_rows_are_runs_with_the_write_backs_that_they_cause():
    found = rows()
    kinds = [accesses.rows.KINDS[kind] for kind in found.kind.tolist()]
    assert kinds == ["fetch", "load", "ntstore", "writeback", *["store"] * 2, *["flush"] * 2, "writeback", "load", *["fence"] * 2,
                     "unmap", "invalidate"]  # fmt: skip
    assert found.device.tolist() == [-1, -1, 60, 60, 4160, 8256, 4160, 4160, 4160, 4160, -1, -1, -1, -1]
    assert found.length.tolist() == [1, 100, 100, 100, 8, 8, 8, 8, 64, 8, 0, 0, 4096, 0]
    assert found.instructions.tolist() == [2_000_500, 13_000, 13_000, *[0] * 11]
    assert found.operation.tolist() == [7, 8, 9, 9, 10, 10, 11, 11, 11, 12, 13, 13, 15, 17]
    assert found.width[-2:].tolist() == [3, 2] and found.virtual[2] == HIGH + 60 and found.virtual[5] == HIGH + 8256


def test_lines_of_a_long_run_come_in_pieces(monkeypatch):
    monkeypatch.setattr(accesses.rows, "PIECE", 3)
    found = [(run.tolist(), address.tolist()) for run, address in lines(np.array([60, 640]), np.array([200, 64]))]
    assert found == [([0, 0, 0], [60, 64, 128]), ([0, 0, 1], [192, 256, 640])]
    assert [*lines(np.zeros(0, np.int64), np.zeros(0, np.int64))] == []


def test_ramulators_lines(tmp_path):
    counts = write(tmp_path / "a.ramulator", rows())
    text = "ST 0x0\nST 0x40\nST 0x80\nST 0x1040\nLD 0x1040\n"
    assert (tmp_path / "a.ramulator").read_text() == text and counts == {"reads": 1, "writes": 4}


def test_dramsim3s_cycles_are_instructions_and_words_of_8_bytes_before_a_line_also_of_earlier_batches(tmp_path):
    write(tmp_path / "a.dramsim3", rows(), rows())
    found = (tmp_path / "a.dramsim3").read_text().splitlines()
    # 2000.5 instructions, 100 bytes loaded; 100 written back from byte 60 on; two stores of 8; 64 written back
    assert found[:5] == [
        "0x0 WRITE 2013",
        "0x40 WRITE 2013",
        "0x80 WRITE 2021",
        "0x1040 WRITE 2028",
        "0x1040 READ 2036",
    ]
    assert found[5] == "0x0 WRITE 4051" and len(found) == 10


def test_champsims_instructions(tmp_path):
    counts = write(tmp_path / "a.champsim", rows())
    found = [*struct.Struct("<Q 2B 2B 4B 2Q 4Q").iter_unpack((tmp_path / "a.champsim").read_bytes())]
    ip, none = (HIGH + 4096) % (1 << 64), (0,) * 8
    high = HIGH % (1 << 64)
    assert found[0] == (ip, *none, 0, 0, 0, 0, 0, 0)
    assert found[1] == (ip, *none, 0, 0, (1 << 40) + 100, 0, 0, 0)
    assert found[4] == (ip, *none, high + 60, 0, 0, 0, 0, 0)
    assert counts == {"fetches": 1, "loads": 3 + 2 + 1, "stores": 3 + 2} and len(found) == 12
    codes, addresses = next(iter(mmu.accesses.read(tmp_path / "a.champsim")))
    assert len(codes) == 12 + 11 and addresses.view(np.uint64)[1] == ip


@pytest.mark.parametrize("name", ["a.champsimtrace", "a.champsim.xz", "a.champsim.gz", "a.u64.xz", "a.ramulator.gz"])
def test_a_compressed_file_has_the_same_content(tmp_path, name):
    plain = tmp_path / name.removesuffix(".xz").removesuffix(".gz")
    write(plain, rows())
    content = plain.read_bytes()
    write(tmp_path / name, rows())
    opened = {".xz": lzma.open, ".gz": gzip.open}.get(os.path.splitext(name)[1], open)
    assert opened(tmp_path / name, "rb").read() == content != b""


def test_the_table_has_every_row_and_its_provenance(tmp_path):
    assert write(tmp_path / "a.parquet", rows(setup=[0, 1]), header={"trace": {"tool": "test"}}) == {"rows": 14}
    file = pq.ParquetFile(tmp_path / "a.parquet")
    assert json.loads(file.metadata.metadata[b"scmsim.accesses"]) == {"trace": {"tool": "test"}}
    table = file.read().to_pylist()
    assert table[0] == {
        "operation": 7, "thread": 0, "setup": True, "kind": "fetch", "mechanism": "log", "space": "text",
        "virtual": (HIGH + 4096) % (1 << 64), "device": -1, "size": 1, "width": 0, "page": 2 << 20, "contiguous": False,
        "scm_table": False, "instructions": 2000.5,
    }  # fmt: skip
    assert [row["setup"] for row in table] == [True] * 2 + [False] * 12
    assert table[3]["kind"] == "writeback" and (table[3]["virtual"], table[3]["page"]) == (0, 0)
    assert table[10]["kind"] == "fence" and table[10]["space"] is None


def test_a_tlb_reads_the_table_with_its_page_sizes_and_does_not_count_setup(tmp_path):
    write(tmp_path / "a.parquet", rows(setup=[1]))
    found = mmu.simulate_file(tmp_path / "a.parquet")
    # the load in the user's page is setup; the pages of persistent memory have 1 GiB
    assert found["dtlb_load_misses_walk_completed"] == 0 and found["dtlb_store_misses_walk_completed_1g"] == 1
    assert (
        found["itlb_misses_walk_completed_2m_4m"] == 1
        and found["instructions"] == 2014
        and found["tlb_invalidations"] == 1
    )
    pages = np.concatenate([*loads(tmp_path / "a.parquet")])
    assert (pages - HIGH).tolist() == [0, 4096, 8192, 4096, 4096, 4096]


def test_a_table_that_is_no_table_of_accesses_is_refused(tmp_path):
    with TraceWriter(tmp_path / "trace.parquet", {}) as writer:
        writer.append(drive.ops(("create", 1)))
        writer.close(drive.files(0, -1, dirs=[0]))
    for name, content in (("text.parquet", b"PAR1, not"), ("empty.parquet", b"")):
        (tmp_path / name).write_bytes(content)
    for name, why in (
        ("trace", "not one of accesses"),
        ("text", "cannot be read"),
        ("empty", "cannot be"),
        ("no", "cannot be"),
    ):
        with pytest.raises(UsageError, match=why) as error:
            mmu.simulate_file(tmp_path / f"{name}.parquet")
        assert name in str(error.value) and "\n" not in str(error.value)


def test_unknown_formats_are_refused_with_what_is_allowed(tmp_path):
    for name in ("a.csv", "a", "ramulator", "a.xz"):
        with pytest.raises(UsageError, match=r"\.ramulator, \.dramsim3, \.champsim, \.u64, \.parquet, \.champsimtrace"):
            accesses.form_of(name)
    assert accesses.form_of("a.csv", "champsim") == ("champsim", "") and accesses.form_of("a.U64.XZ") == ("u64", ".xz")
    with pytest.raises(UsageError, match="did you mean 'ramulator'"):
        accesses.form_of("a", "ramulatr")
    with pytest.raises(UsageError, match=r"leave '\.xz' out of the name"):
        accesses.form_of("a.parquet.xz")
    with pytest.raises(UsageError, match="accesses must be"):
        accesses.form_of(7)


def small():
    return Workload(op="rewrite", unit=4096, total=8192)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"fs": "ext4,nova-cow", "accesses": "a.u64"}, "of one file system, not of 2"),
        ({"fs": "nova-cow", "accesses": "a.nope"}, "cannot tell the format"),
        ({"fs": "nova-cow", "accesses": "no/a.u64"}, "no folder 'no'"),
        ({"fs": "nova-cow", "accesses": "."}, "cannot tell the format"),
        ({"fs": "nova-cow", "accesses_format": "u64"}, "accesses_format needs accesses"),
    ],
)
def test_bad_arguments_of_a_replay_write_nothing(given, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=why):
        scmsim.replay(small(), **given)
    assert os.listdir(tmp_path) == []


def test_an_input_is_never_overwritten(tmp_path):
    path = tmp_path / "trace.parquet"
    with TraceWriter(path, {}) as writer:
        writer.append(drive.ops(("create", 1), ("write", 1, 0, 4096)))
        writer.close(drive.files(0, -1, dirs=[0]))
    before = path.read_bytes()
    (tmp_path / "link.u64").hardlink_to(path)
    for name in ("trace.parquet", "link.u64"):
        with pytest.raises(UsageError, match="is an input of this command"):
            scmsim.replay(path, "nova-cow", accesses=tmp_path / name)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a.champsim", "a.parquet"])
def test_a_replay_that_fails_leaves_the_older_file(name, tmp_path):
    (tmp_path / name).write_text("old")

    def fail(fs, done, rows):
        if done:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        scmsim.replay(small(), "nova-cow", accesses=tmp_path / name, progress=fail)
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_text() == "old"


def test_every_pass_is_written_and_the_manifest_has_the_counts(tmp_path):
    """A replay without a file skips passes that repeat; the counts stay the same."""
    trace = Cell([("read", 0, 2), ("read", 2, 2)], 100, 1000)
    plain, full = (scmsim.replay(trace, "ext4-dax", accesses=path) for path in (None, tmp_path / "a.ramulator"))
    assert plain.runs[0].repeated > full.runs[0].repeated == 0 and plain.runs[0].counters == full.runs[0].counters
    written = full.manifest["accesses"]
    assert written["file"] == str(tmp_path / "a.ramulator") and "accesses" not in plain.manifest
    assert written["writes"] == plain.runs[0].counters["lines_written_back"]
    assert written["writes"] + written["reads"] == len((tmp_path / "a.ramulator").read_text().splitlines())


def test_the_command_says_what_it_wrote(tmp_path):
    out, trace = tmp_path / "a.dramsim3", tmp_path / "t.parquet"
    with TraceWriter(trace, {}) as writer:
        writer.append(drive.ops(("create", 1), ("write", 1, 0, 4096)))
        writer.close(drive.files(0, -1, dirs=[0]))
    run = ["replay", str(trace), "--fs", "nova-cow", "--footprints", "none", "--accesses"]
    done = CliRunner().invoke(main, [*run, str(out)])
    assert done.exit_code == 0 and f"wrote {out}: " in done.stderr and " writes" in done.stderr
    refused = CliRunner().invoke(main, [*run, str(out), "--machine", "zen4,i7-8700k"], standalone_mode=False)
    assert isinstance(refused.exception, UsageError) and "one replay, not 2" in str(refused.exception)
    named = CliRunner().invoke(main, [*run, str(tmp_path / "a.txt"), "--accesses-format", "dramsim3"])
    assert named.exit_code == 0 and (tmp_path / "a.txt").read_text() == out.read_text()
    read = CliRunner().invoke(main, ["mmu", str(tmp_path / "t.parquet")], standalone_mode=False)
    assert isinstance(read.exception, UsageError) and "is a trace of operations" in str(read.exception)
