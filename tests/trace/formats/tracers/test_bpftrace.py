"""calls.bt and its importer: rows by hand, the same program by strace and by bpf, io_uring against fio's own log."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scmsim.core.errors import EnvironmentProblem
from scmsim.core.records import OPS
from scmsim.trace import open_trace
from scmsim.trace.capture import bpf as backend
from scmsim.trace.syscalls.conversion import CALLS
from scmsim.trace.syscalls.numbers import names
from tests.trace.formats_helper import convert, convert_text

PROGRAM = Path(backend.__file__).with_name("calls.bt").read_text(encoding="utf-8")
LOG, BASE, OLD = "/data/log", "/data/base", "/data/old"


def can_trace() -> bool:
    try:
        backend.probe()
    except EnvironmentProblem:
        return False
    tried = subprocess.run(["bpftrace", "-e", "BEGIN { exit(); }"], capture_output=True, timeout=60, check=False)
    return tried.returncode == 0


needs_bpf = pytest.mark.skipif(not can_trace(), reason="bpftrace is missing or may not run here")


def test_rows_of_the_sample(tmp_path: Path) -> None:
    case = convert("bpftrace.txt", tmp_path)
    assert case.rows == [
        ("stat", BASE, -1, 0), ("create", LOG, -1, 0), ("write", LOG, 0, 4096), ("write", LOG, 4096, 8192),
        ("read", LOG, 4096, 100), ("read", LOG, 0, 50), ("fsync", LOG, -1, 0), ("mmap", LOG, 0, 8192), ("store", LOG, 16, 1),
        ("rename", LOG, -1, 0), ("read", LOG, 300, 300),
        ("write", LOG, 4196, 300), ("close", LOG, -1, 0),
    ]  # fmt: skip
    assert case.trace.files.first_size[case.trace.files.path.index(BASE)] == 0x4000
    assert case.report.lost_events == 7 and case.trace.header["lost_events"] == 7 and case.report.failed == {"read": 1}
    assert case.trace.header["blind_spots"][0].endswith("1 requests on unknown registered files make no row")
    assert [int(t) for t in case.records["thread"]][-4:] == [1, 1, 1, 0] and case.trace.header[
        "program"
    ] == "/usr/bin/prog"


def test_a_path_that_was_cut_is_no_path(tmp_path: Path) -> None:
    text = f"scmsim-calls 1\np 1 1 1 /{'a' * 198}\nc 1 1 2 87 0 1 0 0 0 0 0 0 0\np 1 1 3 /b\nc 1 1 4 87 0 1 0 0 0 0 0 0 0\n"
    case = convert_text(tmp_path, text)
    assert case.report.bad == 1 and [row[:2] for row in case.rows] == [("unlink", "/b")]


def test_the_program_knows_the_calls_of_the_importer() -> None:
    known = {int(number) for number in re.findall(r"@known\[(\d+)\]=1;", PROGRAM)}
    assert known == {
        number for number, name in names("x86_64").items() if name in CALLS and not name.startswith("io_uring")
    }


def test_a_path_with_a_line_end_ends_no_capture(tmp_path: Path) -> None:
    lines = tmp_path / "calls.txt"
    lines.write_text("p 1 1 10 /a\nn x\nn 1 1 11 2 0\ne 1 2 12\ne 1 3 13\n")
    assert list(backend._theirs(lines, [1], 0)) == ["p 1 1 10 /a\n", "n 1 1 11 2 0\n", "e 1 2 12\n"]


def test_what_is_kept_of_a_thread_or_request_goes_with_it() -> None:
    """A map of bpftrace takes no more than 4096 keys."""
    for end, key in (("sched_process_exit", "tid"), ("io_uring_complete", "$r")):
        freed = set(re.findall(rf"delete\(@(\w+)\[{re.escape(key)}\]\)", PROGRAM.partition(end)[2].partition("\n}")[0]))
        keys = {"tid": "tid|args->pid", "$r": r"\$r"}[key]
        assert freed == set(re.findall(rf"@(\w+)\[(?:{keys})\] =", PROGRAM)) != set()


def scmsim(folder: Path, backend_name: str, out: str, *command: str) -> subprocess.CompletedProcess[str]:
    argv = [
        sys.executable,
        "-m",
        "scmsim",
        "capture",
        "-o",
        out,
        "--backend",
        backend_name,
        "--under",
        str(folder / "data"),
    ]
    return subprocess.run([*argv, "--", *command], cwd=folder, capture_output=True, text=True, timeout=300, check=False)


WORK = """
import os, sys, threading
d = sys.argv[1]
os.mkdir(d + "/sub")
f = os.open(d + "/a", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.write(f, b"x" * 5000); os.pwrite(f, b"y" * 100, 8192); os.fsync(f); os.lseek(f, 10, 0); os.read(f, 50); os.ftruncate(f, 3000)
g = os.dup(f); os.write(g, b"zz"); os.close(f); os.fstat(g)
h = os.open(d + "/b", os.O_RDWR | os.O_CREAT); os.sendfile(h, g, 100, 1000); os.copy_file_range(g, h, 500, 5); os.close(h)
os.rename(d + "/b", d + "/sub/c \\u00e9"); os.link(d + "/a", d + "/l"); os.symlink("a", d + "/s"); os.stat(d + "/s")
os.unlink(d + "/l"); os.listdir(d)
def other():
    k = os.open(d + "/t", os.O_RDWR | os.O_CREAT); os.write(k, b"1234"); os.close(k)
thread = threading.Thread(target=other); thread.start(); thread.join()
if os.fork() == 0:
    os.write(g, b"child"); os._exit(0)
os.wait(); os.posix_fallocate(g, 0, 20000); os.close(g)
"""


@needs_bpf
@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
def test_strace_and_bpf_give_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    found = []
    for name in ("strace", "bpf"):
        (tmp_path / "data").mkdir()
        done = scmsim(tmp_path, name, f"{name}.parquet", "python3", "work.py", str(tmp_path / "data"))
        assert done.returncode == 0, done.stderr
        trace = open_trace(tmp_path / f"{name}.parquet")
        rows = [
            (OPS[r.op], int(r.file), int(r.offset), int(r.length), int(r.flag), int(r.thread))
            for b in trace.batches()
            for r in b
        ]
        found.append((rows, trace.files.path, trace.files.first_size.tolist(), trace.header["blind_spots"]))
        shutil.rmtree(tmp_path / "data")
    assert len(found[0][0]) > 25 and found[0] == found[1]


@needs_bpf
@pytest.mark.skipif(shutil.which("fio") is None, reason="no fio")
def test_io_uring_has_the_offsets_that_fio_says(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    job = [
        "--name=j",
        "--ioengine=io_uring",
        "--rw=randrw",
        "--bs=4k",
        "--size=256k",
        "--iodepth=4",
        f"--filename={tmp_path}/data/f",
    ]
    done = scmsim(tmp_path, "bpf", "t.parquet", "fio", *job, f"--write_iolog={tmp_path}/log")
    if "io_uring" in done.stderr + done.stdout and done.returncode:
        pytest.skip("io_uring is not allowed here")
    assert done.returncode == 0, done.stderr
    trace = open_trace(tmp_path / "t.parquet")
    path = trace.files.path.index(str(tmp_path / "data" / "f"))
    rows = [(OPS[r.op], int(r.offset), int(r.length)) for b in trace.batches() for r in b if r.file == path]
    ring = rows[max(i for i, row in enumerate(rows) if row[0] == "open") :]  # behind the filling of the file
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()[1:]]
    told = sorted((parts[2], int(parts[3]), int(parts[4])) for parts in lines if parts[2] in ("read", "write"))
    assert len(told) == 64 and sorted(row for row in ring if row[0] in ("read", "write")) == told


def test_where_bpf_is_not_allowed_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(EnvironmentProblem, match="bpftrace is not installed.*apt install bpftrace"):
        backend.probe()
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(EnvironmentProblem, match="bpf is for root; run as root, or use --backend strace"):
        backend.probe()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(backend, "_BTF", Path("/"))
    monkeypatch.setattr(backend, "has_event", lambda name: False)
    with pytest.raises(EnvironmentProblem, match="no tracepoints here; mount tracefs .*, or use --backend strace"):
        backend.probe()


def test_registered_files_are_those_of_their_ring(tmp_path: Path) -> None:
    lines = [
        "scmsim-calls 1",
        "p 1 1 1 /a", "c 1 1 2 2 3 0 42 0 0 0 0 0 0", "p 1 1 3 /b", "c 1 1 4 2 4 0 42 0 0 0 0 0 0",
        "r 1 1 5 aa 0 3", "r 1 1 6 aa 1 -1", "r 1 1 7 bb 0 4", "c 1 1 8 3 0 3 0 0 0 0 0 0 0",
        "u 1 1 9 23 0 1 10 0 10 aa", "u 1 1 10 23 0 1 20 0 20 bb", "u 1 1 11 23 7 1 20 0 20 bb", "u 1 1 12 23 0 1 9 0 9 cc",
    ]  # fmt: skip
    case = convert_text(tmp_path, "\n".join(lines) + "\n")
    assert [row for row in case.rows if row[0] == "write"] == [("write", "/a", 0, 10), ("write", "/b", 0, 20)]
    assert case.trace.header["blind_spots"] == ["io_uring: 2 requests on unknown registered files make no row"]
