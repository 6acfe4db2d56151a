"""What a capture or a conversion loses is told first, and in the exit code; a full disk, and being ended, leave nothing."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scmsim.cli import main
from scmsim.core.errors import EnvironmentProblem
from scmsim.trace import open_trace
from scmsim.trace.capture import _run
from tests.trace.capture_helper import capture

OPEN = '1 1.0 openat(AT_FDCWD, "{}", O_RDONLY) = 3\n'
FAKE = """#!/bin/sh
# stands in for strace: runs the command and writes a prepared text
[ "$1" = -V ] && echo "strace -- version 6.1" && exit
while [ "$1" != -o ]; do shift; done
out=$2; shift 3
"$@"; status=$?
cat "{}" > "$out"
exit $status
"""


def run(*args: object) -> Result:
    return CliRunner().invoke(main, list(map(str, args)))


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the fake strace writes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tool, said = folder / "strace", folder / "said.txt"
    tool.write_text(FAKE.format(said))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    said.write_text(OPEN.format("/d/f"))
    return said


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "bin")


def test_lines_not_understood_come_first_and_set_the_exit_code(tmp_path: Path, text: Path) -> None:
    out = tmp_path / "t.parquet"
    text.write_text(OPEN.format("/d/f") + "1 1.0 read(3, garbage\n" * 3)
    for options, code in ((), 4), (("--allow-loss", "74%"), 4), (("--allow-loss", "0.75"), 0):
        done = run("capture", "-o", out, *options, "--", "sh", "-c", "exit 7")
        assert done.exit_code == (code or 7) and "no blind spots" not in done.output
        first = done.output.splitlines()[0]
        assert first.startswith(
            "scmsim: incomplete: 3 of 4 lines not understood (75 %), the first in line 2: "
        ) == bool(code)
        assert open_trace(out).rows == 1
    assert "3 lines of the input (75 %) were not understood" in run("trace", "info", out).output
    assert "'2' is not a share" in run("capture", "-o", out, "--allow-loss", "2", "--", "true").output


def test_a_complete_capture_is_quiet_about_loss(tmp_path: Path, text: Path) -> None:
    done = run("capture", "-o", tmp_path / "t.parquet", "--", "true")
    assert done.exit_code == 0 and done.output.splitlines() == [
        f"scmsim: {tmp_path / 't.parquet'}: 1 operations, 1 files, no blind spots"
    ]


def test_files_of_the_system_are_pointed_out(tmp_path: Path, text: Path) -> None:
    text.write_text(OPEN.format("/usr/lib/libc.so.6") + OPEN.format("/d/f"))
    said = run("capture", "-o", tmp_path / "t.parquet", "--", "true").output
    assert "hint: 1 of 2 files are the system's own (0.0 MB, such as /usr/lib/libc.so.6); --under DIR keeps" in said
    assert "hint" not in run("capture", "-o", tmp_path / "t.parquet", "--under", "/d", "--", "true").output


def test_refused_lines_of_a_table_set_the_exit_code(tmp_path: Path) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "t.parquet"
    table.write_text("read,0,4096\n" * 3 + "fsync,0,0\n" * 12)
    convert = ["trace", "convert", table, out, "--columns", "op=1,offset=2,length=3"]
    done = CliRunner().invoke(main, list(map(str, convert)))
    assert (
        done.exit_code == 4 and "incomplete: 12 of 15 lines not understood (80 %), the first in line 4" in done.output
    )
    assert open_trace(out).rows == 3
    assert run(*convert, "--allow-loss", "80%").exit_code == 0 and run(*convert, "--allow-loss", "0.79").exit_code == 4


def test_a_full_disk_is_told_once_and_the_tracer_never_sees_it() -> None:
    told = r"cannot write the recording to '/dev/full': no space left on device; the command ran, but there is no trace"
    with (
        pytest.raises(EnvironmentProblem, match=told),
        _run.collected(Path("/dev/full"), kept=True) as name,
        open(name, "wb", buffering=0) as file,
    ):
        for _ in range(1000):
            file.write(b"x" * 4096)


def test_a_full_disk_ends_a_capture_with_one_line(tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def full(*asked: object) -> Iterator[tuple[Path, Path]]:
        yield tmp_path, Path("/dev/full")

    monkeypatch.setattr(_run.Job, "prepared", full)
    done = run("capture", "-o", tmp_path / "t.parquet", "--keep-raw", tmp_path / "raw", "--", "true")
    assert done.exit_code == 3 and done.output.count("\n") == 1 and "no space left on device" in done.output
    assert left(tmp_path) == []


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here (not root?)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False)


@pytest.mark.parametrize("backend", ["strace", "hybrid", "perf"])
@pytest.mark.parametrize("kept", [False, True])
def test_a_small_disk_that_fills(tiny: Path, tmp_path: Path, backend: str, kept: bool) -> None:
    raw = tiny / "raw.txt"
    target = ["-o", tmp_path / "t.parquet", "--keep-raw", raw] if kept else ["-o", tiny / "t.parquet"]
    program = "import os\nfor i in range(3000): os.stat('/etc/passwd'); os.close(os.dup(0))"
    done = capture(*target, "--backend", backend, "--", sys.executable, "-c", program, stdin=subprocess.DEVNULL)
    if any(sign in done.stderr for sign in ("is not installed", "may not", "does not work", "no table")):
        pytest.skip(done.stderr)
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr
    assert f"'{raw if kept else tiny}': no space left on device" in done.stderr
    assert left(tiny) == (["raw.txt"] if kept else []) and left(tmp_path) == ["tiny"]


def test_a_trace_on_a_full_disk_leaves_no_temporary(tiny: Path) -> None:
    with contextlib.suppress(OSError), open(tiny / "fill", "wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    done = run("synth", "pattern", "-o", tiny / "p.parquet")
    assert done.exit_code == 3 and f"cannot write '{tiny / 'p.parquet'}': no space left on device" in done.output
    assert left(tiny) == ["fill"]


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_before_the_command_runs_is_not_swallowed(
    tmp_path: Path, number: int, error: type[BaseException]
) -> None:
    with pytest.raises(error), _run.signals_held() as mask:
        signal.raise_signal(number)  # for this thread: NumPy's have no blocked mask in here
        _run.run(["touch", str(tmp_path / "ran")], mask, os.kill)
    assert left(tmp_path) == []


@pytest.mark.parametrize("command", ["synth", "convert"])
def test_sigterm_leaves_no_temporary(tmp_path: Path, command: str) -> None:
    out = tmp_path / "t.parquet"
    argv = ["synth", "pattern", "--calls", "1000000000", "-o", out]
    if command == "convert":
        os.mkfifo(tmp_path / "bin")
        argv = ["trace", "convert", tmp_path / "bin", out, "--format", "strace"]
    line = [sys.executable, "-X", "faulthandler", "-m", "scmsim", *map(str, argv)]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    with open(tmp_path / "bin", "wb") if command == "convert" else contextlib.nullcontext() as pipe:
        if pipe:
            pipe.write(OPEN.format("/d/f").encode() * 60_000)  # more than is read ahead
            pipe.flush()
        end = time.monotonic() + 60
        while not left(tmp_path) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        assert len(left(tmp_path)) == 1
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            pytest.fail("SIGTERM did not end it, it is here: " + process.communicate()[1])
    assert process.returncode == 143 and "Traceback" not in process.communicate()[1] and left(tmp_path) == []
