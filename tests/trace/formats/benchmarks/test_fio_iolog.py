"""I/O logs written by us, and against the real fio: what it logs, what it replays, what strace sees of it."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    DATA_ONLY,
    FALLOCATE,
    FSYNC,
    KEEP_SIZE,
    OP,
    OPEN,
    PUNCH_HOLE,
    READ,
    SETUP,
    STAT,
    UNLINK,
    WRITE,
    Files,
)
from scmsim.trace.formats.benchmarks import fio_iolog
from scmsim.trace.store import StoredTrace, TraceWriter, open_trace
from tests.trace.formats_helper import Case, convert

REAL = pytest.mark.skipif(
    shutil.which("fio") is None or shutil.which("strace") is None, reason="fio or strace is not installed"
)
DATA_OPS = ("read", "write", "fsync")


def made(path: Path, rows: list[tuple[int, ...]], names: list[str]) -> StoredTrace:
    """A trace with rows (time in us, operation, file, offset, length, flag)."""
    records = np.zeros(len(rows), OP)
    records["file2"] = -1
    for record, row in zip(records, rows, strict=True):
        record["time_ns"], (record["op"], record["file"], record["offset"], record["length"], record["flag"]) = (
            row[0] * 1000,
            row[1:],
        )
    with TraceWriter(path, {}) as writer:
        writer.append(records)
        writer.close(Files(names, np.zeros(len(names), "i8"), np.zeros(len(names), bool)))
    return open_trace(path)


def test_what_a_log_can_express_comes_back(tmp_path: Path) -> None:
    rows = [
        (0, CREATE, 0, -1, 0, 0), (5, WRITE, 0, 0, 4096, 0), (9, READ, 0, 0, 512, 0), (10, FSYNC, 0, -1, 0, 0),
        (11, FSYNC, 0, -1, 0, DATA_ONLY), (12, FALLOCATE, 0, 0, 4096, KEEP_SIZE | PUNCH_HOLE), (13, CLOSE, 0, -1, 0, 0),
        (14, OPEN, 0, -1, 0, 0), (15, WRITE, 0, 4096, 100, 0),
    ]  # fmt: skip
    report = fio_iolog.export(made(tmp_path / "t", rows, ["/f"]), tmp_path / "log")
    assert (report.lines, report.calls, report.rows, report.extra_rows) == (9, 9, 11, 2)  # with an add and a last close
    assert (tmp_path / "log").read_text().splitlines() == [
        "fio version 3 iolog", "0 /f add", "0 /f open", "5 /f write 0 4096", "9 /f read 0 512", "10 /f sync 0 0",
        "11 /f datasync 0 0", "12 /f trim 0 4096", "13 /f close", "14 /f open", "15 /f write 4096 100", "15 /f close",
    ]  # fmt: skip
    back = convert(tmp_path / "log", tmp_path)
    assert [row[0] for row in back.rows] == ["open", *"write read fsync fsync fallocate close open write close".split()]
    assert back.records["time_ns"].tolist() == [1000 * t for t in (0, 5, 9, 10, 11, 12, 13, 14, 15, 15)]


def test_what_a_log_cannot_express_is_counted(tmp_path: Path) -> None:
    rows = [
        (0, CREATE, 0, -1, 0, SETUP), (1, STAT, 0, -1, 0, 0), (2, WRITE, 0, 0, 1, 0), (3, WRITE, 1, 0, 1, 0),
        (4, WRITE, 0, 1, 0, 0), (5, UNLINK, 0, -1, 0, 0), (6, FALLOCATE, 0, 0, 9, 0),
        (7, WRITE, 2, 0, 1, 0),
    ]  # fmt: skip
    report = fio_iolog.export(
        made(tmp_path / "t", rows, ["/f", "/with space", "/\x1b[2Jcleared"]), tmp_path / "log", version=2
    )
    assert report.left_out == {
        "preparation of the file system": 1,
        "not expressible in an I/O log: stat": 1,
        "not expressible in an I/O log: unlink": 1,
        "not expressible in an I/O log: fallocate": 1,
        "not expressible in an I/O log: a file name with white space or control characters, or none": 2,
        "transfer of no bytes": 1,
    }
    assert report.lines == report.calls + sum(report.left_out.values())
    assert (tmp_path / "log").read_text() == "fio version 2 iolog\n/f add\n/f open\n/f write 0 1\n/f close\n"


def test_a_trace_without_transfers_leaves_no_log(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no operation that an I/O log can express"):
        fio_iolog.export(made(tmp_path / "t", [(0, STAT, 0, -1, 0, 0)], ["/f"]), tmp_path / "log")
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def fio(folder: Path, *options: str) -> Case:
    """Run fio under strace in a folder and import what it did there."""
    trace = ["strace", "-f", "-ttt", "-T", "-y", "-s", "0", "-o", str(folder / "strace.txt")]
    done = subprocess.run([*trace, "fio", *options], cwd=folder, capture_output=True, text=True, timeout=120)
    if "ermitted" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stdout + done.stderr
    out = folder / "seen"
    out.mkdir(exist_ok=True)
    return convert(folder / "strace.txt", out, under=str(folder / "data"))


@REAL
@pytest.mark.slow
@pytest.mark.parametrize("how", ["randrw", "write", "rw"])
def test_fio_logs_what_strace_sees(tmp_path: Path, how: str) -> None:
    (tmp_path / "data").mkdir()
    log = f"--write_iolog={tmp_path / 'log'}"
    seen = fio(tmp_path, "--name=a", f"--filename={tmp_path}/data/f", f"--rw={how}", "--bs=4k", "--size=128k",
               "--ioengine=psync", "--fsync=4", log)  # fmt: skip
    logged = convert(tmp_path / "log", tmp_path)
    last_open = max(i for i, row in enumerate(seen.rows) if row[0] in ("open", "create"))
    job = [row for row in seen.rows[last_open:] if row[0] in DATA_OPS]
    assert [row for row in logged.rows if row[0] in DATA_OPS] == job
    assert sum(row[0] == "write" for row in job) > 5
    sizes = {str(path): path.stat().st_size for path in (tmp_path / "data").iterdir()}
    assert {path: size for path, size in seen.sizes().items() if "/f" in path} == sizes
    if how == "rw":  # reads and writes have positions of their own: neither reaches the end, and a log names no sizes
        assert 0 < logged.sizes()[f"{tmp_path}/data/f"] < sizes[f"{tmp_path}/data/f"]
    else:
        assert logged.sizes() == sizes


@REAL
@pytest.mark.slow
def test_fio_replays_an_exported_workload(tmp_path: Path) -> None:
    from scmsim.workload.microbench import Workload

    (tmp_path / "data").mkdir()
    work = Workload("wsync", 4096, 65536)
    work.files.path[:] = [f"{tmp_path}/data/f{i}" for i in range(len(work.files))]
    fio_iolog.export(work, tmp_path / "log")
    seen = fio(tmp_path, "--name=r", f"--read_iolog={tmp_path / 'log'}", "--ioengine=psync", "--replay_no_stall=1")
    logged = convert(tmp_path / "log", tmp_path)
    assert [row for row in seen.rows if row[0] in DATA_OPS] == [row for row in logged.rows if row[0] in DATA_OPS]
    assert Counter(row[0] for row in logged.rows)["write"] == 16
    assert {p: n for p, n in seen.sizes().items() if "/f" in p} == logged.sizes()
    assert all(Path(path).stat().st_size == size for path, size in logged.sizes().items())


@REAL
@pytest.mark.slow
def test_four_threads_under_strace(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    options = ("--name=a", "--directory=data", "--rw=randwrite", "--bs=4k", "--size=1m", "--numjobs=4", "--thread")
    seen = fio(tmp_path, *options, "--ioengine=psync", "--fsync=8", "--fallocate=none")
    assert seen.report.bad == 0 and seen.report.left_out["first half of a split call"] > 0
    sizes = {str(path): path.stat().st_size for path in (tmp_path / "data").iterdir()}
    assert len(sizes) == 4 and {path: size for path, size in seen.sizes().items() if path in sizes} == sizes
    written = Counter(path for op, path, _, _ in seen.rows if op == "write")
    assert {path: written[path] for path in sizes} == dict.fromkeys(sizes, 256)
    calls = (tmp_path / "strace.txt").read_text(errors="replace").count(" fsync(")
    assert sum(row[0] == "fsync" for row in seen.rows) == calls > 100
