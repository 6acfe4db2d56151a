"""Every importer on a sample: who recognises it, how it may be given, what is refused."""

import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from scmsim.core import registry
from scmsim.core.errors import ScmsimError, UsageError
from scmsim.trace.formats import find, writable
from scmsim.trace.reading.input import Input
from scmsim.trace.store import TraceWriter
from tests.trace.formats_helper import DATA, convert

FORMATS = {
    "fio_iolog_v2.log": "fio-iolog", "fio_iolog_v3.log": "fio-iolog", "fio_randrw.log": "fio-iolog",
    "blk_classic.txt": "blkparse", "blkparse.txt": "blkparse", "darshan_dxt_sample.txt": "darshan-dxt",
    "oracle_general.bin": "oracle-general", "perf_raw.txt": "perf-script", "perf_named.txt": "perf-script",
    "msr.csv": "msr", "tencent.csv": "tencent", "fiu_file.txt": "fiu-file", "fiu_block.txt": "fiu-block",
    "ops.csv": "ops-csv", "ops.jsonl": "ops-jsonl", "alibaba.csv": "alibaba", "dftracer.pfw": "dftracer", "dio.json": "dio",
    "bpftrace.txt": "bpftrace", "lackey.txt": "lackey", "lcs_v3.bin": "lcs", "lttng.txt": "lttng",
    "nfsd.txt": "nfsd", "thesios.csv": "thesios", "trace_cmd.txt": "trace-cmd",
    "perf_mem.txt": "perf-mem", "perf_faults.txt": "perf-mem", "drmemtrace.txt": "drmemtrace", "drmemtrace.strace": "strace",
    "twitter_cache.csv": "twitter-cache", "spc.csv": "spc", "ftrace_syscalls.txt": "trace-cmd",
    "dxt_lustre.txt": "darshan-dxt", "blkparse_dm.txt": "blkparse",
    "blkparse_input_file.txt": "blkparse", "perf_copies.txt": "perf-script",
    "darshan_parser.txt": "darshan-parser", "vscsi1.bin": "vscsi", "vscsi2.bin": "vscsi",
}  # fmt: skip


@pytest.mark.parametrize("file", sorted(FORMATS))
def test_each_sample_is_recognised_by_one_importer_only(file: str) -> None:
    head = (DATA / file).read_bytes()
    assert [n for n in registry.names("format") if registry.load("format", n).sniff(head, file)] == [FORMATS[file]]


def test_every_sample_is_listed() -> None:
    assert {path.name for path in DATA.iterdir()} == {*FORMATS, "table.csv"}


@pytest.mark.parametrize(
    "file", ["msr.csv", "fio_iolog_v3.log", "oracle_general.bin", "perf_raw.txt", "../strace/tricky.strace"]
)
@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd", "two zstd frames"])
def test_compressed_input_gives_the_same_rows(tmp_path: Path, file: str, kind: str) -> None:
    data = (DATA / file).read_bytes()
    packed = {
        "gzip": gzip.compress,
        "xz": lzma.compress,
        "zstd": lambda data: pa.compress(data, "zstd", asbytes=True),
        "two zstd frames": lambda d: (
            pa.compress(d[:500], "zstd", asbytes=True) + pa.compress(d[500:], "zstd", asbytes=True)
        ),
    }[kind](data)
    (tmp_path / "in").write_bytes(packed)
    found = convert(tmp_path / "in", tmp_path)
    assert found.rows == convert(file, tmp_path).rows
    (tmp_path / "in").write_bytes(packed[:-7])
    with pytest.raises(UsageError, match="damaged or cut"):
        convert(tmp_path / "in", tmp_path, FORMATS.get(file, "strace"))


def test_a_pipe_and_standard_input_are_read_once(tmp_path: Path) -> None:
    wanted = convert("msr.csv", tmp_path).rows
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(
        [sys.executable, "-c", f"open({str(tmp_path / 'pipe')!r}, 'wb').write({(DATA / 'msr.csv').read_bytes()!r})"]
    )
    with Input(tmp_path / "pipe") as given:
        importer = find(given)[1]
        with TraceWriter(tmp_path / "p.parquet", {}) as out:
            assert importer.convert(given, out).rows == len(wanted)
    assert writer.wait() == 0
    command = [sys.executable, "-m", "scmsim", "trace", "convert", "-", str(tmp_path / "s.parquet")]
    done = subprocess.run(command, input=(DATA / "msr.csv").read_bytes(), capture_output=True)
    assert done.returncode == 0 and b"40 rows from 40 calls (40 lines of msr), 2 files" in done.stdout


def test_under_keeps_one_device(tmp_path: Path) -> None:
    case = convert("msr.csv", tmp_path, under="/hm/1")
    whole = convert("msr.csv", tmp_path)
    assert case.rows == [row for row in whole.rows if row[1] == "/hm/1"]
    assert case.report.left_out == {"outside of the chosen directory": whole.report.rows - case.report.rows}


def test_each_importer_refuses_foreign_text(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"hello\nworld\n")
    for name in registry.names("format"):
        options = {"columns": "op=1,offset=2,length=3"} if name == "csv" else {}
        with pytest.raises(ScmsimError) as found:
            convert(tmp_path / "in", tmp_path, name, **options)
        assert "\n" not in str(found.value)


def test_formats_that_can_be_written_have_an_export() -> None:
    assert writable() == [n for n in registry.names("format") if hasattr(registry.load("format", n), "export")]
    assert np.isin("fio-iolog", writable())


@pytest.mark.slow
def test_memory_does_not_follow_the_input(tmp_path: Path) -> None:
    program = """
import resource, sys
from scmsim.trace.formats import find
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter
with Input("-") as given:
    importer = find(given)[1]
    with TraceWriter(sys.argv[1], {}) as writer:
        importer.convert(given, writer)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    peaks = []
    for copies in (5_000, 50_000):
        feed = f"import sys\nfor _ in range({copies} // 100): sys.stdout.write(open({str(DATA / 'msr.csv')!r}).read() * 100)"
        source = subprocess.Popen([sys.executable, "-c", feed], stdout=subprocess.PIPE)
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "out")], stdin=source.stdout, capture_output=True, check=True
        )
        assert source.wait() == 0
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.25 * peaks[0], peaks
