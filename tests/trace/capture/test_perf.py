"""Capture with perf, alone and beside strace: streams, signals, attaching, lost events, page touches, anonymous names."""

import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim.cli import main
from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.records import OPS
from scmsim.core.registry import load
from scmsim.trace import open_trace
from scmsim.trace.capture import Options, _perf, perf
from scmsim.trace.capture._anonymize import Anonymizer
from scmsim.trace.capture._calibrate import calibrate

ATTACHED = """
import os, sys, threading, time
os.chdir(sys.argv[1])
a = os.open("a", os.O_RDWR | os.O_CREAT, 0o644); os.write(a, b"x" * 5000)
b = os.open("b", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644); os.write(b, b"y" * 300)
c = os.open("c", os.O_RDWR | os.O_CREAT, 0o644); d = os.dup(c)
go = threading.Event()
thread = threading.Thread(target=lambda: (go.wait(), os.write(c, b"1" * 10))); thread.start()
open("ready", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
os.write(a, b"z" * 100); os.write(b, b"w" * 50); go.set(); thread.join(); os.write(d, b"2" * 5)
os.pwrite(a, b"q", 9000); os.ftruncate(b, 60); os.write(b, b"k")
if os.fork() == 0: os.write(d, b"33"); os._exit(0)
os.wait(); os.write(c, b"4444")
open("done", "w").close()
while not os.path.exists("end"): time.sleep(0.01)
"""
# what is written after the capture began: file, offset, length
WRITTEN = [
    ("a", 5000, 100), ("b", 300, 50), ("c", 0, 10), ("c", 10, 5), ("a", 9000, 1), ("b", 60, 1), ("c", 15, 2), ("c", 17, 4),
]  # fmt: skip


def can_record() -> bool:
    if shutil.which("perf") is None or os.geteuid() != 0 or not _perf.has_event(_perf.CALLS[0]):
        return False
    argv = ["perf", "record", "-q", "-o", os.devnull, "-e", _perf.CALLS[0], "true"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def can(backend: str) -> bool:
    if backend != "perf":
        try:
            load("capture", "strace").probe()
        except EnvironmentProblem:
            return False
    return backend == "strace" or can_record()


needs_perf = pytest.mark.skipif(not can_record(), reason="perf is missing or may not record here")
needs_both = pytest.mark.skipif(not can("hybrid"), reason="perf or strace is missing or may not record here")


def start(*args: object) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "scmsim", "capture", *map(str, args)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def scmsim_capture(*args: object) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "scmsim", "capture", *map(str, args)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert path.exists()


@needs_both
@pytest.mark.parametrize("backend", ["hybrid", "perf"])
def test_streams_status_and_signals_pass_through(tmp_path: Path, backend: str) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: print('int', flush=True))\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('oops', file=sys.stderr), sys.exit(9)))\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "while True: time.sleep(0.01)\n"
    )
    process = start("-o", tmp_path / "t.parquet", "--backend", backend, "--", sys.executable, "-c", code)
    try:
        wait_for(tmp_path / "ready")
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (out, process.returncode) == ("int\n", 9) and err.startswith("oops\n")
    trace = open_trace(tmp_path / "t.parquet")
    assert trace.rows > 0 and trace.header["status"] == 9 and trace.header["lost_events"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ready", "t.parquet"]


@needs_both
def test_ctrl_c_at_a_terminal_ends_the_command_and_leaves_a_complete_trace(tmp_path: Path) -> None:
    script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    argv = [sys.executable, "-m", "scmsim", "capture", "-o", str(tmp_path / "t.parquet"), "--backend", "hybrid", "--"]
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored under nohup, and then no shell can trap it
        os.execv(argv[0], [*argv, "sh", "-c", script])
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal's output is an error
        while part := os.read(terminal, 4096):
            if b"ready" not in shown and b"ready" in shown + part:
                os.write(terminal, b"\x03")
            shown += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5 and b"caught" in shown
    assert open_trace(tmp_path / "t.parquet").header["status"] == 5
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


@needs_both
def test_a_perf_that_dies_is_an_error(tmp_path: Path) -> None:
    code = (
        "import pathlib, os, signal\n"
        "for p in pathlib.Path('/proc').glob('[0-9]*'):\n"
        f"    if b'{tmp_path}' in (p / 'cmdline').read_bytes() and (p / 'comm').read_text() == 'perf\\n':\n"
        "        os.kill(int(p.name), signal.SIGKILL)\n"
    )
    done = scmsim_capture("-o", tmp_path / "t.parquet", "--backend", "hybrid", "--", sys.executable, "-c", code)
    assert done.returncode == 3 and "perf failed while it recorded" in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Path, "subprocess.Popen[bytes]"]]:
    data = tmp_path / "data"
    data.mkdir()
    process = subprocess.Popen([sys.executable, "-S", "-c", ATTACHED, data])
    try:
        wait_for(data / "ready")
        yield data, process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("backend", ["perf", "strace"])
@pytest.mark.parametrize("how", ["the process ends", "a signal says stop"])
def test_attaching_knows_what_was_open_and_leaves_the_process_alive(
    tmp_path: Path, running: tuple[Path, "subprocess.Popen[bytes]"], backend: str, how: str
) -> None:
    if not can(backend):
        pytest.skip(f"{backend} cannot record here")
    data, process = running
    capture = start("-o", tmp_path / "t.parquet", "--backend", backend, "--under", data, "--pid", process.pid)
    try:
        wait_attached(capture, process.pid, backend, tmp_path)
        (data / "go").touch()
        wait_for(data / "done")
        assert process.poll() is None
        if how == "the process ends":
            (data / "end").touch()  # nobody waits for it yet: it stays as a zombie
        else:
            capture.send_signal(signal.SIGINT)
        out, err = capture.communicate(timeout=60)
    finally:
        capture.kill()
    assert (capture.returncode, out) == (0, ""), err
    (data / "end").touch()
    assert process.wait(30) == 0
    trace = open_trace(tmp_path / "t.parquet")
    assert trace.header["pid"] == process.pid and trace.header["lost_events"] == 0
    records = [row for batch in trace.batches() for row in batch]
    writes = [
        (Path(trace.files.path[r.file]).name, int(r.offset), int(r.length)) for r in records if OPS[r.op] == "write"
    ]
    assert writes == WRITTEN and not any(r.flag & 1 for r in records)
    assert len({int(r.thread) for r in records if OPS[r.op] == "write"}) == 3
    sizes = dict(zip((Path(path).name for path in trace.files.path), trace.files.first_size.tolist(), strict=True))
    assert (sizes["a"], sizes["b"], sizes["c"]) == (5000, 300, 0)


def wait_attached(capture: "subprocess.Popen[str]", pid: int, backend: str, folder: Path) -> None:
    """Until the tracer is there and the process runs again."""
    end = time.monotonic() + 60
    while time.monotonic() < end and capture.poll() is None:
        status = Path(f"/proc/{pid}/status").read_text()
        traced = "TracerPid:\t0" not in status if backend == "strace" else any(folder.glob(".t.parquet.*/perf.data"))
        if traced and not re.search(r"State:\s[Tt]", status):
            time.sleep(1.0 if backend == "perf" else 0.2)
            if not re.search(r"State:\s[Tt]", Path(f"/proc/{pid}/status").read_text()):
                return
        time.sleep(0.02)
    raise AssertionError("the capture did not attach")


@needs_both
def test_inherited_descriptors_have_their_name_position_and_what_they_share(tmp_path: Path) -> None:
    code = "import os; os.write(1, b'a' * 10); os.write(2, b'b' * 5); os.write(7, b'c'); os.write(8, b'd' * 4)"
    shell = 'printf 123 > "$1/both"; printf 45 > "$1/end"; shift; exec "$@" >>both 2>&1 7<>end 8>>end'
    argv = ["sh", "-c", shell, "sh", tmp_path, sys.executable, "-m", "scmsim", "capture", "-o", "t.parquet"]
    argv += ["--backend", "hybrid", "--", sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(argv, cwd=tmp_path, env=env, check=False).returncode == 0
    trace = open_trace(tmp_path / "t.parquet")
    rows = [(Path(trace.files.path[r.file]).name, int(r.offset), int(r.length)) for b in trace.batches() for r in b]
    writes = [row for row in rows if row in {("both", 3, 10), ("both", 13, 5), ("end", 0, 1), ("end", 2, 4)}]
    assert writes == [("both", 3, 10), ("both", 13, 5), ("end", 0, 1), ("end", 2, 4)]


@needs_perf
def test_seconds_end_the_capture(tmp_path: Path, running: tuple[Path, "subprocess.Popen[bytes]"]) -> None:
    data, process = running
    done = scmsim_capture("-o", tmp_path / "t.parquet", "--backend", "perf", "--pid", process.pid, "--seconds", 0.3)
    assert done.returncode == 0 and process.poll() is None


@needs_perf
def test_perf_alone_says_that_it_knows_no_names(tmp_path: Path) -> None:
    code = "import os; f = os.open('new', os.O_RDWR | os.O_CREAT); os.write(f, b'x' * 100); os.pwrite(f, b'y', 50); os.stat('.')"
    with open(tmp_path / "out", "w+") as out:
        argv = [sys.executable, "-m", "scmsim", "capture", "-o", tmp_path / "t.parquet", "--backend", "perf", "--"]
        argv += [sys.executable, "-c", code + "; os.write(1, b'x' * 21)"]
        assert subprocess.run(argv, stdout=out, cwd=tmp_path, check=False).returncode == 0
    trace = open_trace(tmp_path / "t.parquet")
    rows = [
        (trace.files.path[r.file], int(r.offset), int(r.length))
        for b in trace.batches()
        for r in b
        if OPS[r.op] == "write"
    ]
    assert [(offset, length) for path, offset, length in rows if path.startswith("/unnamed/")] == [(0, 100), (50, 1)]
    assert (str(tmp_path / "out"), 0, 21) in rows  # standard output was open: its name is known
    spots = " ".join(trace.header["blind_spots"])
    assert "perf sees no names" in spots and "newfstatat" in spots


@needs_both
def test_first_touches_of_a_shared_mapping_are_rows(tmp_path: Path) -> None:
    code = (
        "import mmap, os\n"
        "f = os.open('m', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 1 << 20); os.close(os.open('n', os.O_CREAT))\n"
        "m = mmap.mmap(f, 1 << 20)\n"
        "for page in (0, 7, 200, 7): m[page * 4096 + 5] = 1\n"
        "m.flush()\n"
        "m[7 * 4096 + 9] = 2\n"
    )
    options = Options(page_touches=True)
    shell = ["sh", "-c", 'cd "$1" && exec "$2" -c "$3"', "sh", str(tmp_path), sys.executable, code]
    load("capture", "hybrid").capture(shell, tmp_path / "t.parquet", under=str(tmp_path), options=options)
    trace = open_trace(tmp_path / "t.parquet")
    stores = [(trace.files.path[r.file], int(r.offset)) for b in trace.batches() for r in b if OPS[r.op] == "store"]
    expected = [page * 4096 + 5 for page in (0, 7, 200)]
    assert [offset for path, offset in stores if path == str(tmp_path / "m")][:3] == expected
    assert any("first touch" in note for note in trace.header["notes"]) and trace.header["page_faults"] > 3


@needs_both
def test_lost_events_are_told_first_and_in_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_perf.Recording, "count_lost", lambda self: 7)
    out = tmp_path / "t.parquet"
    for options, code in (
        ([], 4),
        (["--allow-loss", "0.0001"], 4),
        (["--allow-loss", "90%"], 0),
    ):
        done = CliRunner().invoke(main, ["capture", "-o", str(out), "--backend", "hybrid", *options, "--", "true"])
        assert done.exit_code == code, done.output
        told = "scmsim: incomplete: 7 events lost by the recorder; "
        assert done.output.startswith(told) == (code == 4) and "no blind spots" not in done.output
        header = open_trace(out).header
        assert header["lost_events"] == 7 and "7 events were lost" in header["notes"][0]
        assert "--buffer 16384" in header["notes"][0]


def test_what_perf_says_becomes_one_line_with_a_command() -> None:
    paranoid = "Error:\nAccess to performance monitoring and observability operations is limited.\nConsider adjusting"
    cases = {
        paranoid: "sysctl kernel.perf_event_paranoid=-1",
        "event syntax error: 'x:y'\n  \\___ can't access trace events\n\nError:\tNo permissions to read /sys/k": "mount -t tracefs",
        "WARNING: Kernel address maps\nPermission error mapping pages.\nConsider increasing /proc/sys/": "--buffer",
        "  Error: unknown option `control'\n": "update perf",
        "": "scmsim list capture",
    }
    for said, help_ in cases.items():
        text = _perf.advice(said)
        assert help_ in text and "\n" not in text and text.startswith("perf may not record here (")


@pytest.mark.parametrize("backend", ["hybrid", "perf"])
def test_without_perf(tmp_path: Path, backend: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("strace", "true"):
        if shutil.which(tool):
            (folder / tool).symlink_to(shutil.which(tool))
    argv = [sys.executable, "-m", "scmsim", "capture", "-o", tmp_path / "t.parquet", "--backend", backend, "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PATH": str(folder)}, check=False)
    assert done.returncode == 3 and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_options_that_do_not_fit_together(tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    for args, text in (
        (("-o", out, "--pid", os.getpid(), "--", "true"), "either a command or --pid"),
        (("-o", out, "--backend", "hybrid", "--pid", os.getpid()), "hybrid cannot attach"),
        (("-o", out, "--mmap", "--", "true"), "strace sees no page touches"),
        (("-o", out, "--anonymize", "--keep-raw", tmp_path / "raw", "--", "true"), "--keep-raw would keep the names"),
        (("-o", out, "--seconds", 1, "--", "true"), "--seconds is for --pid"),
        (("-o", out, "--buffer", 100, "--", "true"), "not a power of two; give 128"),
        (("--", "true"), "no name for the trace"),
        (("-o", out, "--pid", 1 << 30), "no process"),
    ):
        done = scmsim_capture(*args)
        assert done.returncode == 2 and text in done.stderr and done.stderr.count("\n") == 1, done.stderr
    with pytest.raises(UsageError):
        perf.capture([], out)


@pytest.mark.skipif(not can("strace"), reason="strace is missing or may not trace here")
def test_an_anonymous_trace_tells_no_name_and_keeps_rows_and_lengths(tmp_path: Path) -> None:
    secret = tmp_path / "secret-project" / "deep"
    shell = f"mkdir -p {secret} && echo hello > {secret}/plan.txt && cp {secret}/plan.txt {secret}/copy-of-plan.db"
    for name, options in (("plain", Options()), ("hidden", Options(anonymize=True))):
        shutil.rmtree(tmp_path / "secret-project", ignore_errors=True)
        under = str(tmp_path)
        load("capture", "strace").capture(
            ["sh", "-c", shell], tmp_path / f"{name}.parquet", under=under, options=options
        )
    plain, hidden = (open_trace(tmp_path / f"{name}.parquet") for name in ("plain", "hidden"))
    assert [len(part) for path in plain.files.path for part in path.split("/")] == [
        len(part) for path in hidden.files.path for part in path.split("/")
    ]
    text = (tmp_path / "hidden.parquet").read_bytes() + repr((hidden.header, hidden.files.path)).encode()
    assert not re.search(rb"secret|deep|plan|copy|" + tmp_path.name.encode(), text)
    assert {Path(path).suffix for path in hidden.files.path} == {"", ".txt", ".db"}
    assert plain.files.first_size.tolist() == hidden.files.first_size.tolist()
    rows = [
        [row[["op", "file", "file2", "offset", "length"]].tolist() for row in next(t.batches())]
        for t in (plain, hidden)
    ]
    assert rows[0] == rows[1]


def test_names_that_were_equal_stay_equal_and_a_new_key_gives_other_hashes() -> None:
    one, two = Anonymizer(), Anonymizer()
    assert one.path("/a/lib/x.c") == one.path("/a/lib/x.c") != two.path("/a/lib/x.c")
    assert one.path("/srv/lib").split("/")[2] == one.path("/usr/lib").split("/")[2]
    kept = {
        "mail.tar.gz": ".tar.gz",
        "app.db-wal": ".db-wal",
        "a.secretword": "",
        ".bashrc": "",
        "x.py": ".py",
        "é.log": ".log",
    }
    for name, suffix in kept.items():
        hidden = one.path(name)
        assert hidden.endswith(suffix) and len(hidden) == len(name.encode()), (name, hidden)
        assert suffix or "." not in hidden
    header = one.header(
        {"command": ["x", "/a/b"], "blind_spots": ["mapping of '/a/lib' (4096 bytes): not seen"], "notes": []}
    )
    assert "command" not in header and header["blind_spots"] == [
        f"mapping of {one.path('/a/lib')!r} (4096 bytes): not seen"
    ]


@pytest.mark.skipif(not can("strace"), reason="strace is missing or may not trace here")
def test_calibration_is_measured_and_stored(tmp_path: Path) -> None:
    measured = calibrate(["strace"], calls=300, repeats=1)["strace"]
    assert measured["traced_ns"] > measured["base_ns"] > 0 and measured["factor"] > 1
    options = Options(facts={"calibration": measured})
    load("capture", "strace").capture(["true"], tmp_path / "t.parquet", options=options)
    assert open_trace(tmp_path / "t.parquet").header["calibration"] == measured
