"""The measured program does the thesis' loop, call by call, in C and in Python, and counts nothing else."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from scmsim.core.errors import EnvironmentProblem
from scmsim.perf import workload
from scmsim.perf.matrix import OPERATIONS, Cell

UNIT, FILE = 4096, 6 * 4096 + 100  # the last 100 bytes make no unit
CALLS = "openat,read,readv,write,lseek,ftruncate,fsync"

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture(scope="module", params=["c", "python"])
def loop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program, compiled or interpreted."""
    if request.param == "c":
        built = workload.build(tmp_path_factory.mktemp("loop"))
        if built.warning:
            pytest.skip(built.warning)
        return built.command
    built = workload.build("/nowhere", compilers=("no-such-compiler",))
    assert built.warning and "no C compiler (no-such-compiler)" in built.warning
    return built.command


def run(
    loop: list[str], path: pathlib.Path, operation: str, *, file: int = FILE, passes: int = 3, before: tuple = ()
) -> str:
    numbers = [str(number) for number in (file, UNIT, passes, 0, 0, -1)]
    done = subprocess.run([*before, *loop, str(path), operation, *numbers, "-", "-"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("operation", OPERATIONS)
def test_it_moves_what_it_says(loop: list[str], tmp_path: pathlib.Path, operation: str) -> None:
    told = json.loads(run(loop, tmp_path / "f", operation))
    assert told["calls"] == 3 * 6 and told["bytes"] == 3 * 6 * UNIT and told["elapsed_ns"] > 0
    assert (tmp_path / "f").stat().st_size == 6 * UNIT
    assert workload.elapsed_ns(json.dumps(told)) == told["elapsed_ns"]


@needs_strace
@pytest.mark.parametrize("operation", OPERATIONS[:4])
def test_its_calls_are_the_thesis_loop(loop: list[str], tmp_path: pathlib.Path, operation: str) -> None:
    path, trace = tmp_path / "f", tmp_path / "trace"
    run(loop, path, operation, before=("strace", "-y", "-o", str(trace), "-e", f"trace={CALLS}"))
    lines = [line for line in trace.read_text().splitlines() if str(path) in line]
    calls = [re.split(r"\(", line)[0].replace("readv", "read") for line in lines]
    assert calls.pop(0) == "openat" and "O_CREAT|O_EXCL" in lines[0]
    one_pass = ["lseek", *["read" if operation in ("read", "reread") else "write"] * 6]
    filling = ["lseek", *["write"] * 6, "fsync"]
    wanted = {
        "write": [*one_pass, "ftruncate", *one_pass, "ftruncate", *one_pass],
        "rewrite": [*filling, *one_pass * 3],
        "read": [*filling, *one_pass * 3],
        "reread": [*filling, *one_pass * 4],
    }
    assert calls == wanted[operation]
    moved = [line for line in lines if re.match("(read|readv|write)", line)]
    assert all(line.endswith(f"= {UNIT}") for line in moved)


@needs_strace
@pytest.mark.parametrize("operation", ["write", "read"])
def test_warming_up_and_pinning(loop: list[str], tmp_path: pathlib.Path, operation: str) -> None:
    path, trace = tmp_path / "f", tmp_path / "trace"
    before = ["strace", "-y", "-o", str(trace), "-e", f"trace={CALLS},sched_setaffinity"]
    cpu = min(os.sched_getaffinity(0))
    numbers = [str(number) for number in (FILE, UNIT, 1, 2, 0, cpu)]
    done = subprocess.run([*before, *loop, str(path), operation, *numbers, "-", "-"], capture_output=True, text=True)
    assert json.loads(done.stdout)["calls"] == 6
    lines = trace.read_text().splitlines()
    assert any(re.match(rf"sched_setaffinity\(0, \d+, \[{cpu}\]\)\s+= 0", line) for line in lines)
    calls = [line.split("(")[0] for line in lines if str(path) in line]
    assert calls.count("lseek") == (3 if operation == "write" else 4) and calls.count("ftruncate") == 2 * (
        operation == "write"
    )


def test_dropping_caches_comes_after_the_file_is_made(loop: list[str], tmp_path: pathlib.Path) -> None:
    """In a mount namespace of its own, where a plain file stands for the kernel's switch."""
    switch = tmp_path / "drop_caches"
    switch.write_text("")
    numbers = [str(number) for number in (FILE, UNIT, 1, 0, 1, -1)]
    words = [str(tmp_path / "f"), "read", *numbers, "-", "-"]
    script = 'mount --bind "$1" /proc/sys/vm/drop_caches || exit 99; shift; exec "$@"'
    inside = ["unshare", "-m", "sh", "-c", script, "sh", str(switch), *loop, *words]
    done = subprocess.run(inside, capture_output=True, text=True)
    if done.returncode in (1, 99) and "loop:" not in done.stderr:
        pytest.skip("mount namespaces are not allowed here")
    assert done.returncode == 0, done.stderr
    assert switch.read_text() == "3\n"


@needs_strace
def test_fwrite_goes_through_the_library(loop: list[str], tmp_path: pathlib.Path) -> None:
    path, trace = tmp_path / "f", tmp_path / "trace"
    run(loop, path, "fwrite", before=("strace", "-y", "-o", str(trace), "-e", "trace=write"))
    written = [int(line.rsplit("= ", 1)[1]) for line in trace.read_text().splitlines() if str(path) in line]
    assert sum(written) == 3 * 6 * UNIT


def test_errors_are_numbers_that_can_be_read_back(loop: list[str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "f").write_text("here already")
    arguments = [*loop, str(tmp_path / "f"), "write", "4096", "4096", "1", "0", "0", "-1", "-", "-"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 1 and re.fullmatch(r"loop: .*: errno 17\n", done.stderr)
    assert (tmp_path / "f").read_text() == "here already"
    with pytest.raises(EnvironmentProblem, match="the loop did not report"):
        workload.elapsed_ns(done.stdout)


def test_a_full_disk_is_errno_28(loop: list[str], tmp_path: pathlib.Path) -> None:
    tmp_path.joinpath("d").mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path / "d")], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        arguments = [*loop, str(tmp_path / "d" / "f"), "write", str(1 << 20), "4096", "1", "0", "0", "-1", "-", "-"]
        done = subprocess.run(arguments, capture_output=True, text=True)
        assert done.returncode == 1 and re.fullmatch(r"loop: .*: errno 28\n", done.stderr)
    finally:
        subprocess.run(["umount", str(tmp_path / "d")], check=True)


def test_a_broken_compiler_is_not_the_end(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'cannot find crt1.o' >&2; exit 1\n")
    compiler.chmod(0o755)
    built = workload.build(tmp_path, compilers=(str(compiler),))
    assert built.warning and "cannot find crt1.o" in built.warning and built.command[-1].endswith("loop.py")


def test_arguments_of_a_cell() -> None:
    cell = Cell("a", "write", 1 << 20, 48 << 10, 1)
    words = workload.Program(["loop"], None).arguments(cell, "/x", 0, warm_up=2, drop_caches=True, cpu=3)
    assert words == ["loop", "/x", "write", "1048576", "49152", "1", "2", "1", "3", "{ctl}", "{ack}"]
