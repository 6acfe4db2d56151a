"""`scmsim capture` with strace: streams, status and signals of the command, and what is said where it cannot work."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.trace import open_trace
from scmsim.trace.capture import CommandError, check_command
from scmsim.trace.capture import strace as backend
from scmsim.trace.syscalls.handlers import CALLS
from tests.trace.capture_helper import CAPTURE, can_trace, capture
from tests.trace.strace_helper import convert

WRITES = "import os; f = os.open('{}', os.O_RDWR | os.O_CREAT); os.write(f, b'x' * 100); os.pwrite(f, b'y', 4096)"


needs_strace = pytest.mark.skipif(not can_trace(backend), reason="strace is missing or may not trace here")


@needs_strace
def test_a_capture_holds_what_the_command_did(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    done = capture("-o", tmp_path / "t.parquet", "--under", data, "--", sys.executable, "-c", WRITES.format(data / "f"))
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith(": 3 operations, 2 files, no blind spots")
    trace = open_trace(tmp_path / "t.parquet")
    (batch,) = trace.batches()
    assert batch.offset.tolist() == [-1, 0, 4096] and batch.length.tolist() == [0, 100, 1]
    header = trace.header
    assert header["command"][0] == sys.executable and header["under"] == str(data)
    assert header["status"] == 0 and header["wall_ns"] > 0 and header["tool"] == "strace" and header["tool_version"]
    assert header["kernel"] == os.uname().release and header["lost_events"] == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "t.parquet"]  # no temporary is left


@needs_strace
def test_streams_and_exit_status_pass_through(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('oops', file=sys.stderr); sys.exit(7)"
    done = capture("-o", tmp_path / "t.parquet", "--", sys.executable, "-c", code, input="hello")
    assert done.returncode == 7 and done.stdout == "HELLO\n" and done.stderr.startswith("oops\n")
    assert open_trace(tmp_path / "t.parquet").header["status"] == 7


@needs_strace
def test_death_by_a_signal_is_128_plus_its_number(tmp_path: Path) -> None:
    assert capture("-o", tmp_path / "t.parquet", "--", "sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM


@needs_strace
def test_arguments_never_pass_a_shell(tmp_path: Path) -> None:
    done = capture("-o", tmp_path / "t.parquet", "--", "printf", "%s|", "a b", "$HOME", "; touch x", "*")
    assert done.stdout == "a b|$HOME|; touch x|*|"


@needs_strace
def test_signals_are_passed_to_the_command(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "got = []\n"
        "signal.signal(signal.SIGINT, lambda *_: got.append('int'))\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print(*got, 'term', flush=True), sys.exit(9)))\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "while True: time.sleep(0.01)\n"
    )
    argv = [*CAPTURE, "-o", str(tmp_path / "t.parquet"), "--", sys.executable, "-c", code]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (out, process.returncode) == ("int term\n", 9)
    assert open_trace(tmp_path / "t.parquet").rows > 0


@needs_strace
def test_raw_text_is_kept_on_request_and_converts_to_the_same(tmp_path: Path) -> None:
    raw = tmp_path / "raw.txt"
    done = capture("-o", tmp_path / "t.parquet", "--keep-raw", raw, "--", "cat", "/etc/passwd")
    assert done.returncode == 0
    argv = [sys.executable, "-m", "scmsim", "trace", "convert", raw, tmp_path / "again.parquet"]
    subprocess.run(argv, check=True, capture_output=True)
    first, second = (list(open_trace(tmp_path / name).batches()) for name in ("t.parquet", "again.parquet"))
    assert [batch.tolist() for batch in first] == [batch.tolist() for batch in second]


@needs_strace
def test_children_and_threads_are_followed(tmp_path: Path) -> None:
    code = (
        "import os, threading\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "f = os.open('f', os.O_RDWR | os.O_CREAT | os.O_APPEND)\n"
        "t = threading.Thread(target=lambda: os.write(f, b'1' * 10)); t.start(); t.join()\n"
        "if os.fork() == 0: os.write(f, b'2' * 20); os._exit(0)\n"
        "os.wait(); os.write(f, b'3' * 30)\n"
    )
    done = capture("-o", tmp_path / "t.parquet", "--under", tmp_path / "f", "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    batch = next(open_trace(tmp_path / "t.parquet").batches())
    assert [(int(r.offset), int(r.length)) for r in batch if r.length] == [(0, 10), (10, 20), (30, 30)]
    assert len({int(r.thread) for r in batch if r.length}) == 3


def test_the_list_of_calls_covers_what_the_importer_knows() -> None:
    assert {"pwritev2", "openat", "clone3", "io_uring_enter", "munmap", "msync", "vfork", "exit_group"} <= set(CALLS)


def test_a_command_that_cannot_run(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    for name, code, message in (
        ("no-such-command", 127, "no command 'no-such-command' in PATH"),
        (str(tmp_path / "missing"), 127, "no command"),
        (str(tmp_path), 127, "no command"),
        (str(plain), 126, "is not executable"),
    ):
        with pytest.raises(CommandError, match=message) as caught:
            check_command([name])
        assert caught.value.exit_code == code
    done = capture("-o", tmp_path / "t.parquet", "--", "no-such-command")
    assert done.returncode == 127 and done.stderr.count("\n") == 1 and not (tmp_path / "t.parquet").exists()


def test_a_bad_output_is_found_before_the_command_runs(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    for options in (
        ["-o", tmp_path],
        ["-o", tmp_path / "no" / "t.parquet"],
        ["-o", tmp_path / "t.parquet", "--keep-raw", tmp_path / "no" / "raw"],
        ["-o", tmp_path / "t.parquet", "--keep-raw", tmp_path / "t.parquet"],
        ["-o", tmp_path / "t.parquet", "--backend", "nonsense"],
    ):
        done = capture(*options, "--", "touch", witness)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert not witness.exists()
    with pytest.raises(UsageError, match="no command"):
        backend.capture([], tmp_path / "t.parquet")


@pytest.fixture
def fake_strace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a shell script named strace in front of PATH."""

    def install(script: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "strace").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "strace").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return install


def test_without_strace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = capture("-o", tmp_path / "t.parquet", "--", sys.executable, "-c", "pass")
    assert done.returncode == 3 and "apt install strace" in done.stderr and done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_where_tracing_is_forbidden(tmp_path: Path, fake_strace) -> None:
    fake_strace("echo 'strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted' >&2; exit 1")
    done = capture("-o", tmp_path / "t.parquet", "--", "true")
    assert done.returncode == 3 and done.stderr.count("\n") == 1
    assert "Operation not permitted" in done.stderr and "ptrace_scope" in done.stderr
    assert not (tmp_path / "t.parquet").exists() and not list(tmp_path.glob(".t.parquet*"))


def test_an_old_strace_is_used_without_its_filter(fake_strace) -> None:
    fake_strace(
        'case "$*" in -V) echo "strace -- version 4.26";; '
        '*--seccomp-bpf*) echo "strace: unrecognized option" >&2; exit 1;; esac'
    )
    _, version, options = backend.probe()
    assert version == "4.26" and "--seccomp-bpf" not in options and "-f" in options


def test_a_strace_that_does_not_work_says_so(fake_strace) -> None:
    fake_strace("exit 5")
    with pytest.raises(EnvironmentProblem, match=r"strace does not work here \(exit status 5\)"):
        backend.probe()


def test_a_capture_loads_no_numbers_before_the_command_starts() -> None:
    code = "import sys, scmsim.cli.capture, scmsim.trace.capture.strace; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@needs_strace
def test_the_demo_program_can_be_captured_again(tmp_path: Path) -> None:
    script = Path(__file__).parents[3] / "traces" / "make_sqlite.py"
    folder = tmp_path / "load"
    done = capture("-o", tmp_path / "t.parquet", "--under", folder, "--", sys.executable, script, folder)
    assert done.returncode == 0, done.stderr
    batches = list(open_trace(tmp_path / "t.parquet").batches())
    assert sum(int((batch.op == 4).sum()) for batch in batches) > 600  # fsync: two or more for each transaction


MANY_FILES = """
import concurrent.futures, os, shutil, subprocess, sys
os.chdir(sys.argv[1])
def work(i):
    os.mkdir(f"t{i}")
    for k in range(12):
        name = f"t{i}/{k}"
        with open(name, "wb") as f: f.write(os.urandom(k * 100)); f.seek(10); f.write(b"q" * k)
        with open(name, "ab") as f: f.write(b"zz"); f.truncate(f.tell() - 1)
        if k % 3 == 0: os.replace(name, f"t{i}/x{k % 9}")
        elif k % 4 == 0: os.unlink(name)
    shutil.copytree(f"t{i}", f"t{i}copy")
with concurrent.futures.ThreadPoolExecutor(4) as pool: list(pool.map(work, range(4)))
for line in ("cat t1/1 t1/2 > c; cp c d; (echo a; cat t2/2) >> c", "ln d e; mkdir x; mv e x; mv x z; cp -r z zz",
             "rm -r t3; echo b >> z/e"):
    subprocess.run(["sh", "-c", line], check=True)
"""


@needs_strace
@pytest.mark.parametrize("options", [("-f",), ("-f", "-y", "-ttt", "-s", "0")])
def test_the_rows_explain_every_file_that_is_left_on_disk(tmp_path: Path, options: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    argv = ["strace", *options, "-o", tmp_path / "raw", sys.executable, "-c", MANY_FILES, data]
    subprocess.run(argv, check=True, capture_output=True)
    case = convert(tmp_path / "raw", tmp_path, under=str(data))
    assert case.report.bad == 0 and case.report.unknown_offsets == 0
    length = dict.fromkeys(range(len(case.trace.files)), 0)
    names = dict.fromkeys(range(len(case.trace.files)), 0)
    for row, record in zip(case.rows, case.records, strict=True):
        file, file2 = int(record["file"]), int(record["file2"])
        if row.op == "write":
            length[file] = max(length[file], row.offset + row.length)
        elif row.op == "read":
            assert row.offset + row.length <= max(length[file], row.offset)
        elif row.op == "truncate":
            length[file] = row.offset
        elif row.op in ("create", "mkdir", "link"):
            names[file] += 1
        elif row.op in ("unlink", "rmdir"):
            names[file] -= 1
        elif row.op == "rename" and file2 >= 0:
            names[file2] -= 1
    is_dir = case.trace.files.is_dir
    found = sorted(length[i] for i in length if names[i] > 0 and not is_dir[i])
    on_disk = {(p.stat().st_ino, p.stat().st_size) for p in data.rglob("*") if p.is_file()}
    assert found == sorted(size for _, size in on_disk) and len(found) > 50
    assert sum(names[i] > 0 and bool(is_dir[i]) for i in names) == sum(p.is_dir() for p in data.rglob("*"))
