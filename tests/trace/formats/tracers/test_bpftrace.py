"""calls.bt and its importer: rows by hand, the same program by strace and by bpf, io_uring against fio's own log."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scmsim.core.errors import EnvironmentProblem
from scmsim.core.records import OPS
from scmsim.trace import open_trace
from scmsim.trace.capture import bpf as backend
from scmsim.trace.formats.tracers.bpftrace import _Text
from scmsim.trace.reading.lines import BadLine
from scmsim.trace.syscalls.handlers import CALLS
from scmsim.trace.syscalls.numbers import names
from tests.trace.capture_helper import capture
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


def captured(folder: Path, backend_name: str, out: str, *command: str) -> subprocess.CompletedProcess[str]:
    options = ["-o", out, "--backend", backend_name, "--under", folder / "data"]
    return capture(*options, "--", *command, cwd=folder)


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
        done = captured(tmp_path, name, f"{name}.parquet", "python3", "work.py", str(tmp_path / "data"))
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
    done = captured(tmp_path, "bpf", "t.parquet", "fio", *job, f"--write_iolog={tmp_path}/log")
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
    with pytest.raises(EnvironmentProblem, match="the back end bpf needs root; run as root, or use --backend strace"):
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


AT = "ffffff9c"  # AT_FDCWD
STAT = "4000 81a4"  # st_size, st_mode of a file of 16 KiB
MADE = [
    ("4 0 0 1 0 0 0 0", STAT, ["/a"], 'stat("/a", {st_mode=S_IFREG|0644, st_size=16384}) = 0'),
    ("6 0 0 1 0 0 0 0", "5 a1ff", ["/a"], 'lstat("/a", {st_mode=S_IFLNK|0777, st_size=5}) = 0'),
    ("4 -2 0 1 0 0 0 0", "0 0", ["/a"], 'stat("/a", 0x0) = -1 ENOENT'), ("5 0 3 1 0 0 0 0", STAT, [],
    "fstat(3, {st_mode=S_IFREG|0644, st_size=16384}) = 0"),
    ("5 0 3 1 0 0 0 0", "0 41ed", [], "fstat(3, {st_mode=S_IFDIR|0755, st_size=0}) = 0"),
    ("5 0 3 1 0 0 0 0", "0 2190", [], "fstat(3, {st_mode=S_IFCHR|0620, st_size=0}) = 0"),
    ("5 0 3 1 0 0 0 0", "0 1180", [], "fstat(3, {st_mode=S_IFIFO|0600, st_size=0}) = 0"),
    ("5 0 3 1 0 0 0 0", "0 c1ff", [], "fstat(3, {st_mode=S_IFSOCK|0777, st_size=0}) = 0"),
    (f"262 0 {AT} 1 2 100 0 0", STAT, ["/a"],
    'newfstatat(AT_FDCWD, "/a", {st_mode=S_IFREG|0644, st_size=16384}, AT_SYMLINK_NOFOLLOW) = 0'),
    ("262 0 7 1 2 1000 0 0", STAT, [""], 'newfstatat(7, "", {st_mode=S_IFREG|0644, st_size=16384}, AT_EMPTY_PATH) = 0'),
    ("262 0 7 1 2 0 0 0", STAT, ["a"], 'newfstatat(7, "a", {st_mode=S_IFREG|0644, st_size=16384}, 0) = 0'),
    ("332 0 7 1 1100 fff 2 0", STAT, ["a"],
     'statx(7, "a", AT_SYMLINK_NOFOLLOW|AT_EMPTY_PATH, STATX_ALL, {stx_mode=S_IFREG|0644, stx_size=16384}) = 0'),
    (f"332 0 {AT} 1 0 fff 2 0", STAT, ["a"], 'statx(AT_FDCWD, "a", 0, STATX_ALL, {stx_mode=S_IFREG|0644, stx_size=16384}) = 0'),
    ("437 3 7 1 2 18 0 0", "42 0", ["a"], 'openat2(7, "a", {flags=O_RDWR|O_CREAT}, 24) = 3'),
    (f"257 3 {AT} 1 42 1a4 0 0", "0 0", ["/a"], 'openat(AT_FDCWD, "/a", O_RDWR|O_CREAT) = 3'), ("257 3 7 1 1 0 0 0",
    "0 0", ["a"], 'openat(7, "a", O_WRONLY) = 3'),
    ("2 3 1 42 1a4 0 0 0", "0 0", ["/a"], 'open("/a", O_RDWR|O_CREAT) = 3'), ("85 3 1 1a4 0 0 0 0", "0 0", ["/a"],
    'creat("/a", 0) = 3'),
    ("76 0 1 1388 0 0 0 0", "0 0", ["/a"], 'truncate("/a", 5000) = 0'), ("83 0 1 1ed 0 0 0 0", "0 0", ["/a"],
    'mkdir("/a", 0) = 0'),
    ("258 0 7 1 1ed 0 0 0", "0 0", ["a"], 'mkdirat(7, "a", 0) = 0'), ("263 0 7 1 200 0 0 0", "0 0", ["a"],
    'unlinkat(7, "a", AT_REMOVEDIR) = 0'),
    ("263 0 7 1 0 0 0 0", "0 0", ["a"], 'unlinkat(7, "a", 0) = 0'), ("82 0 1 2 0 0 0 0", "0 0", ["/a", "/b"],
    'rename("/a", "/b") = 0'),
    (f"264 0 7 1 {AT} 2 0 0", "0 0", ["a", "b"], 'renameat(7, "a", AT_FDCWD, "b") = 0'), ("316 0 7 1 8 2 1 0", "0 0", ["a",
    "b"], 'renameat(7, "a", 8, "b") = 0'),
    ("86 0 1 2 0 0 0 0", "0 0", ["/a", "/b"], 'link("/a", "/b") = 0'), (f"265 0 {AT} 1 7 2 0 0", "0 0", ["a", "b"],
    'linkat(AT_FDCWD, "a", 7, "b", 0) = 0'),
    (f"265 0 7 1 {AT} 2 0 0", "0 0", ["a", "b"], 'linkat(7, "a", AT_FDCWD, "b", 0) = 0'), ("265 0 7 1 7 2 0 0",
    "0 0", ["a"], "path (its call makes the row)"),
    (f"265 0 3 1 {AT} 2 1000 0", "0 0", ["", "/b"], 'linkat(3, "", AT_FDCWD, "/b", AT_EMPTY_PATH) = 0'),
    ("88 0 1 2 0 0 0 0", "0 0", ["t", "/l"], 'symlink("t", "/l") = 0'), ("266 0 1 7 2 0 0 0", "0 0", ["t", "l"],
    'symlinkat("t", 7, "l") = 0'),
    ("88 0 1 2 0 0 0 0", "0 0", ["t"], "path (its call makes the row)"), ("80 0 1 0 0 0 0 0", "0 0", ["/d"],
    'chdir("/d") = 0'),
    ("81 0 7 0 0 0 0 0", "0 0", [], "fchdir(7) = 0"), ("79 3 1 1000 0 0 0 0", "0 0", ["/d"], 'getcwd("/d", 4096) = 3'),
    ("272 0 400 0 0 0 0 0", "0 0", [], "unshare(CLONE_FILES) = 0"), ("272 0 200 0 0 0 0 0", "0 0", [], "unshare(0) = 0"),
    ("40 10 4 3 7f00 64 0 0", "1e 0", [], "sendfile(4, 3, [20], 100) = 10"), ("40 10 4 3 0 64 0 0", "1e 0", [],
    "sendfile(4, 3, NULL, 100) = 10"),
    ("40 -5 4 3 7f00 64 0 0", "1e 0", [], "sendfile(4, 3, [30], 100) = -1 EIO"), ("40 50 4 3 7f00 64 0 0", "1e 0", [],
    "sendfile(4, 3, [0], 100) = 50"),
    ("326 10 3 7f00 4 0 64 0", "1e 28", [], "copy_file_range(3, [20], 4, NULL, 100, 0) = 10"),
    ("275 10 3 0 4 7f00 64 1", "1e 28", [], "splice(3, NULL, 4, [30], 100, 0) = 10"),
    ("59 0 1 2 3 0 0 0", "0 0", ["/bin/x"], 'execve("/bin/x", []) = 0'), ("322 0 7 1 2 3 0 0", "0 0", ["x"],
    'execveat("", []) = 0'),
    ("56 9 1 2 3 0 0 0", "0 0", [], "fork (a line of its own says what it made)"), ("435 9 1 2 3 0 0 0", "0 0", [],
    "fork (a line of its own says what it made)"),
    ("21 0 1 4 0 0 0 0", "0 0", ["/a"], 'access("/a", 0) = 0'), (f"439 0 {AT} 1 4 0 0 0", "0 0", ["/a"],
    'faccessat(AT_FDCWD, "/a", 0, 0) = 0'),
    ("84 0 1 0 0 0 0 0", "0 0", ['/a "\xe9'], 'rmdir("/a \\042\\351") = 0'), ("9999 0 0 0 0 0 0 0", "0 0", [],
    "unknown call"),
    ("0 5 3 7f00 64 0 0 0", "0 0", ["/left"], 'read(3, "", 100) = 5'),
]  # fmt: skip


@pytest.mark.parametrize(("call", "left", "paths", "text"), MADE)
def test_a_call_with_what_it_left_in_memory(call: str, left: str, paths: list[str], text: str) -> None:
    """Columns of `c`: number, result, six arguments, two words of memory; each path is a line of its own before."""
    take = _Text()
    for path in paths:
        assert take.take(f"p 1 5 1000000000 {path}") == "path (its call makes the row)"
    made = take.take(f"c 1 5 2000000003 {call} {left}")
    assert made == (f"5 100000002.000000003 {text}" if ") = " in text else text)


def test_a_nameless_file_that_gets_a_name_stays_itself(tmp_path: Path) -> None:
    """O_TMPFILE, and linkat with AT_EMPTY_PATH (0x1000)."""
    lines = ["scmsim-calls 1", "p 1 1 1 /d", f"c 1 1 2 257 3 {AT} 1 410002 180 0 0 0 0", "c 1 1 3 1 5 3 1 5 0 0 0 0 0",
    "p 1 1 4 ", "p 1 1 4 /d/a",
             f"c 1 1 5 265 0 3 1 {AT} 2 1000 0 0 0", "p 1 1 6 /d/a", f"c 1 1 7 257 4 {AT} 1 0 0 0 0 0 0"]  # fmt: skip
    case = convert_text(tmp_path, "\n".join(lines) + "\n")
    assert [row[0] for row in case.rows] == ["create", "write", "link", "open"] and len(
        set(case.records["file"].tolist())
    ) == 1


def test_paths_are_those_of_the_thread_and_of_its_next_call() -> None:
    take = _Text()
    for line in ("p 1 5 1 /five", "p 1 6 1 /six", "p 1 7 1 /seven"):
        take.take(line)
    assert str(take.take("c 1 6 2 87 0 1 0 0 0 0 0 0 0")).endswith(' unlink("/six") = 0')
    with pytest.raises(BadLine, match="unlink without a path"):
        take.take("c 1 6 2 87 0 1 0 0 0 0 0 0 0")
    assert str(take.take("e 1 5 2")).endswith("+++ exited with 0 +++")
    with pytest.raises(BadLine, match="unlink without a path"):
        take.take("c 1 5 2 87 0 1 0 0 0 0 0 0 0")
    assert str(take.take("c 1 7 2 87 0 1 0 0 0 0 0 0 0")).endswith(' unlink("/seven") = 0')


OTHERS = [
    ("n 1 5 0 9 1200000", "clone(flags=0) = 9"), ("n 1 5 0 9 700", "clone(flags=CLONE_VM|CLONE_FS|CLONE_FILES) = 9"),
    ("n 1 5 0 9 400", "clone(flags=CLONE_FILES) = 9"), ("m 1 5 0 7f00 0", "page_fault(0x7f00, FAULT_READ) = 0"),
    ("m 1 5 0 7f00 16", "page_fault(0x7f00, FAULT_WRITE) = 0"), ("m 1 5 0 7f00 14", "page_fault(0x7f00, FAULT_EXEC) = 0"),
    *((f"u 1 5 0 {code} 3 0 9 20 30 aa", 'pread64(3, "", 30, 20) = 9') for code in (1, 4, 22)),
    *((f"u 1 5 0 {code} 3 0 9 20 30 aa", 'pwrite64(3, "", 30, 20) = 9') for code in (2, 5, 23)),
    ("u 1 5 0 22 3 0 9 -1 30 aa", 'read(3, "", 30) = 9'), ("u 1 5 0 23 3 0 9 -1 30 aa", 'write(3, "", 30) = 9'),
    ("u 1 5 0 22 3 0 9 0 30 aa", 'pread64(3, "", 30, 0) = 9'), ("u 1 5 0 3 3 0 0 0 0 aa", "fsync(3) = 0"),
    ("u 1 5 0 22 3 2 -5 0 30 aa", 'pread64(3, "", 30, 0) = -1 EIO'), ("u 1 5 0 19 3 0 0 0 0 aa",
    "other request of io_uring"),
    ("u 1 5 0 22 3 1 9 0 30 aa", "other request of io_uring"), ("r 1 5 0 aa 2 3", "dup3(3, 1000000002, 0) = 1000000002"),
    ("r 1 5 0 aa 2 -1", "close(1000000002) = 0"), ("r 1 5 0 aa 9999 0", "dup3(0, 1000009999, 0) = 1000009999"), ("",
    "title"),
    ("Attaching 9 probes...", "title"), ("7 close(3) = 0", "7 close(3) = 0"), ("Lost 7 events", "lost events"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "text"), OTHERS)
def test_lines_of_other_kinds(line: str, text: str) -> None:
    made = str(_Text().take(line))
    assert made == (f"5 100000000.000000000 {text}" if " = " in text and line[0].isalpha() else text)


@pytest.mark.parametrize(
    "line",
    ["r 1 5 0 aa 10000 3", "u 1 5 0 22 3 0 9 -1 30", "n 1 5 0 9", "e 1 5 0 1", "n 1 5 0 x 0", "n 1 5 0 -9 0",
    "m 1 5 0 7f00 g", "x 1 5 0",
     "c 1 5 0 0 5 3 7f00 64 0 0 0 0", "n 1 5 0 9 10000000000000000", "n 1 5 0 9 1_0", "p 1 5", "Lost events",
     "u 1 5 0 22 3 0 -x 0 30 aa"],
)  # fmt: skip
def test_lines_that_the_program_does_not_write(line: str) -> None:
    with pytest.raises(BadLine):
        _Text().take(line)


def test_each_ring_has_its_registered_files() -> None:
    take = _Text()
    assert str(take.take("r 1 5 0 aa 2 3")).endswith("dup3(3, 1000000002, 0) = 1000000002")
    assert str(take.take("r 1 5 0 bb 2 4")).endswith("dup3(4, 1000010002, 0) = 1000010002")
    assert str(take.take("r 1 5 0 aa 1 -1")).endswith("close(1000000001) = 0")
    assert str(take.take("u 1 5 0 22 2 400001 9 -1 30 bb")).endswith('read(1000010002, "", 30) = 9')
    assert (
        take.take("u 1 5 0 22 2 1 9 -1 30 cc") == take.take("u 1 5 0 22 3 1 9 -1 30 aa") == "other request of io_uring"
    )
    assert (
        take.take("u 1 5 0 99 3 1 9 -1 30 aa") == take.take("u 1 5 0 99 3 0 9 -1 30 aa") == "other request of io_uring"
    )
    for lost in (3, 4):
        take.take(f"Lost {lost} events")
    assert take.lost == 7 and take.blind_spots() == [
        "io_uring: 2 requests on unknown registered files make no row", "io_uring: 2 requests of opcode 99 make no row",
        "7 events lost: rows are missing, positions after them may be wrong",
    ]  # fmt: skip


def test_lines_are_sorted_by_their_times_and_others_stay(tmp_path: Path) -> None:
    lines = [
        "scmsim-calls 1",
        "c 1 1 30 3 0 4 0 0 0 0 0 0 0",
        "p 1 1 9 /b",
        "c 1 1 10 2 4 0 42 0 0 0 0 0 0",
        "c 1 1 20 1 5 4 1 5 0 0 0 0 0",
    ]
    case = convert_text(tmp_path, "\n".join(lines) + "\n")
    assert [row[0] for row in case.rows] == ["create", "write", "close"] and case.records["time_ns"].tolist() == [
        0,
        10,
        20,
    ]
