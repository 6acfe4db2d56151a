"""What a shell expects of the process: signals end it with their code and without a traceback, closed streams are told."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scmsim.cli import demo

SCMSIM = [sys.executable, "-m", "scmsim"]
# a command that says when it is at work, and then works for long
BUSY = """
import sys, time, click
from scmsim import cli
from scmsim.cli import _process
def work():
    try:
        print("at work", flush=True)
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)
cli.LazyGroup.get_command = lambda *_: click.Command("list", callback=work)
sys.argv[1:] = ["list"]
_process.run(cli.main)
"""


def started(script: str, **disposition: object) -> subprocess.Popen[str]:
    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for name, handler in disposition.items():
            signal.signal(getattr(signal, name), handler)

    # Python takes SIGINT over at its start; the entry point gives it back
    line = [sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n" + script]
    if disposition:
        line[2] = script
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=prepare)


def at_work(process: subprocess.Popen[str]) -> str:
    """The first line that it prints, when it waits: Python sees no signal that comes just before it begins to wait for a lock."""
    assert process.stdout is not None
    line = process.stdout.readline()
    time.sleep(0.5)
    return line


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "\nscmsim: error: interrupted\n"),
        (signal.SIGTERM, 143, "scmsim: error: stopped by SIGTERM\n"),
        (signal.SIGHUP, 129, "scmsim: error: stopped by SIGHUP\n"),
    ],
)
def test_a_signal_cleans_up_and_has_its_code(number: int, code: int, said: str) -> None:
    process = started(BUSY)
    assert at_work(process) == "at work\n"
    process.send_signal(number)
    assert process.communicate(timeout=60) == ("cleaned up\n", said) and process.returncode == code


def test_an_ignored_signal_stays_ignored() -> None:
    process = started(BUSY, SIGHUP=signal.SIG_IGN, SIGINT=signal.SIG_IGN)
    assert at_work(process) == "at work\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    process.terminate()
    assert process.communicate(timeout=60)[0] == "cleaned up\n" and process.returncode == 143


def test_ctrl_c_while_the_command_line_is_imported_shows_nothing() -> None:
    script = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # as Python begins
class Import:
    def find_spec(self, name, *_):
        if name == "scmsim.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Import())
from scmsim.__main__ import main
main()
"""
    process = started(script)
    assert process.communicate(timeout=60) == ("", "") and process.returncode == -signal.SIGINT


def test_a_stopped_command_does_not_wait_for_its_threads() -> None:
    script = BUSY.replace(
        'print("at work", flush=True)',
        'import threading; threading.Thread(target=time.sleep, args=(60,)).start(); print("at work", flush=True)',
    )
    process = started(script)
    assert at_work(process) == "at work\n"
    process.terminate()
    assert process.communicate(timeout=20)[0] == "cleaned up\n" and process.returncode == 143


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_within_a_destructor_is_not_lost(number: int, code: int) -> None:
    dying = f"type('Dying', (), {{'__del__': lambda self: signal.raise_signal({int(number)})}})()"
    process = started("import signal\n" + BUSY.replace('print("at work", flush=True)', dying))
    assert process.communicate(timeout=30)[0] == "cleaned up\n" and process.returncode == code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_within_a_fork_is_not_lost(number: int, code: int) -> None:
    """Python drops what a callback of fork raises, as that of `logging`: perf run went on to its end."""
    job = f"""with stopping("cells"):
            os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), {number:d}))
            subprocess.run(["true"], preexec_fn=lambda: None)
            time.sleep(60)"""
    script = BUSY.replace("time.sleep(60)", job)
    script = script.replace("import sys,", "import os, subprocess, sys,").replace(
        "from scmsim import cli\n", "from scmsim import cli\nfrom scmsim.core.signals import stopping\n"
    )
    process = started(script)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "at work\ncleaned up\n"), errors
    assert "finished cells are kept" in errors and "Traceback" not in errors


def test_a_stopped_command_leaves_no_temporary_file(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*SCMSIM, "-q", "synth", "pattern", "--calls", "1000000000", "-o", str(tmp_path / "x.parquet")],
        stderr=subprocess.PIPE,
    )
    for _ in range(600):
        if list(tmp_path.iterdir()):
            break
        time.sleep(0.1)
    process.terminate()
    assert process.communicate(timeout=60)[1] == b"scmsim: error: stopped by SIGTERM\n" and process.returncode == 143
    assert list(tmp_path.iterdir()) == []


def test_worker_processes_end_with_the_command() -> None:
    script = """
import os, time
from scmsim.cli import _process
from scmsim.core.processes import processes
def work():
    with processes(2) as pool:
        tasks = [pool.submit(time.sleep, 600) for _ in range(4)]
        print(*pool._processes, flush=True)
        tasks[0].result()
_process.run(work)
"""
    process = started(script)
    workers = [int(word) for word in at_work(process).split()]
    process.terminate()
    assert process.communicate(timeout=60) == ("", "") and process.returncode == 143
    assert len(workers) == 2 and not any(os.path.exists(f"/proc/{worker}") for worker in workers)


def test_an_end_of_file_is_not_taken_for_ctrl_c() -> None:
    script = BUSY.replace("time.sleep(60)", "raise EOFError('Ran out of input')")
    process = started(script)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "EOFError: Ran out of input" in errors and "interrupted" not in errors


def closed(redirection: str, *args: str) -> subprocess.CompletedProcess[str]:
    words = " ".join([*SCMSIM, *args, redirection])
    return subprocess.run(["sh", "-c", words], capture_output=True, text=True)


def test_a_closed_stdout_is_one_line() -> None:
    done = closed(">&-", "list", "fs")
    assert done.returncode == 3 and done.stderr == (
        "scmsim: error: stdout is closed, so the result cannot be printed; redirect it to a file\n"
    )


def test_a_closed_stdout_does_not_matter_where_a_file_is_written(tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    done = closed(">&-", "-q", "synth", "pattern", "--calls", "10", "-o", str(out))
    assert (done.returncode, done.stderr) == (0, "") and out.stat().st_size


def test_a_closed_stderr_changes_nothing() -> None:
    done = closed("2>&-", "list", "fs")
    assert done.returncode == 0 and "nova-cow" in done.stdout
    assert closed("2>&-", "list", "fz").returncode == 2


def test_descriptors_of_closed_streams_are_not_used_for_files() -> None:
    script = "from scmsim.cli import _process; _process._open_streams(); print(open('/dev/null').fileno() > 2)"
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" <&- 2>&-', sys.executable, script], capture_output=True, text=True, env=os.environ
    )
    assert done.stdout == "True\n"


def test_a_demo_that_is_interrupted_takes_its_capture_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    (tmp_path / "python").write_text(f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600\n")
    (tmp_path / "python").chmod(0o755)
    wait, waits = subprocess.Popen.wait, []

    def interrupted(self: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        waits.append(self)
        if len(waits) > 1:
            return wait(self, timeout)
        while not pid.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo._capture(tmp_path / "program.py", tmp_path)
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}")
