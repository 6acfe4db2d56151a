"""What goes wrong while measuring: one line each, exit code 3, and nothing left behind."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from click.testing import CliRunner, Result

from scmsim import cli
from scmsim.config.matrix import load
from scmsim.core import registry
from scmsim.core.errors import EnvironmentProblem
from scmsim.perf import cells, runner, stat, targets
from scmsim.perf.backend import Backend, Task
from scmsim.perf.counts import Event
from scmsim.perf.machine import Machine
from scmsim.perf.matrix import Matrix
from scmsim.perf.stat import Ran
from tests.perf.helper import config, matrix, only, program, stand_in

needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None or Machine().paranoia() > 1,
    reason="perf is not installed, or may not count the kernel",
)


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """Targets are empty afterwards, no temporary folder and no process is left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    yield
    for name in "ab":
        if (tmp_path / name).is_dir():
            assert list((tmp_path / name).iterdir()) == []
    assert list(temporary.iterdir()) == []
    out = tmp_path / "out"
    assert {path.name for path in out.glob("*")} <= {"cells", "lock", "matrix", "result.json"}
    assert list(out.glob("cells/.*")) == []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(tmp_path).encode() not in path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue


def run(*args: object) -> Result:
    return CliRunner().invoke(cli.main, ["perf", *map(str, args)])


def said(done: Result) -> str:
    """The error's one line."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("scmsim: error: ")]
    assert done.exit_code == 3 and len(lines) == 1 and done.stderr.rstrip().endswith(lines[0]), done.stderr
    return lines[0]


def fake(tmp_path: pathlib.Path, line: str) -> Result:
    return run("run", config(tmp_path, f"[fake]\n{line}\n"), "--backend", "fake", "-o", tmp_path / "out")


def test_perf_is_missing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "paranoia", lambda self: -1)
    monkeypatch.setenv("PATH", only(tmp_path / "empty", "true"))
    for arguments in (
        ("run", config(tmp_path), "--backend", "software", "-o", tmp_path / "out"),
        ("stat", "--", "true"),
        ("profile", "--", "true"),
    ):
        assert "perf is not installed; install it" in said(run(*arguments))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("level", [2, 3, 4])
@pytest.mark.parametrize("backend", ["perf", "software"])
def test_permission_levels(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, level: int, backend: str) -> None:
    monkeypatch.setattr(Machine, "paranoia", lambda self: level)
    line = said(run("run", config(tmp_path), "--backend", backend, "-o", tmp_path / "out"))
    assert f"kernel.perf_event_paranoid is {level}" in line and "CAP_PERFMON" in line
    assert f"perf_event_paranoid is {level}" in said(run("stat", "--backend", backend, "--", "true"))
    assert f"perf_event_paranoid is {level}" in said(run("profile", "-e", "cpu-clock", "--", "true"))
    assert not (tmp_path / "out").exists()


def test_user_mode_alone_is_allowed_at_level_2(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "paranoia", lambda self: 2)
    monkeypatch.setattr(Machine, "pmus", lambda self: [])
    stand_in(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    path = config(tmp_path, '[run]\ncount = "user"\n')
    path.write_text(path.read_text().replace("repeats = 2", "repeats = 1"))
    done = run("run", path, "--backend", "software", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "tracepoints need root" in (tmp_path / "out" / "result.json").read_text()


@pytest.mark.parametrize("after", [0, 3])
def test_perf_is_killed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    monkeypatch.setattr(Machine, "paranoia", lambda self: -1)
    real = stand_in(tmp_path / "real")
    killer = f"""#!/bin/sh
case "$*" in *--control*)
  echo x >> {tmp_path}/count
  [ $(wc -l < {tmp_path}/count) -gt {after} ] && kill -9 $$ ;;
esac
exec {real} "$@"
"""
    program(tmp_path / "bin", "perf", killer)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    path = config(tmp_path)
    path.write_text(path.read_text().replace("repeats = 2", "repeats = 1"))
    line = said(run("run", path, "--backend", "software", "-o", tmp_path / "out"))
    assert "perf was killed by SIGKILL; run the same command again" in line
    assert len(list((tmp_path / "out").glob("cells/*.json"))) == after
    (tmp_path / "bin" / "perf").unlink()
    stand_in(tmp_path / "bin")
    done = run("run", path, "--backend", "software", "-o", tmp_path / "out")
    assert done.exit_code == 0 and f"{8 - after} now and {after} before" in done.stdout


def test_perf_writes_half_a_line(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "paranoia", lambda self: -1)
    real = stand_in(tmp_path / "real")
    text = f"""#!/bin/sh
{real} "$@"; status=$?
while [ $# -gt 0 ]; do [ "$1" = -o ] && head -c 40 "$2" > "$2.half" && mv "$2.half" "$2"; shift; done
exit $status
"""
    program(tmp_path / "bin", "perf", text)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    line = said(run("run", config(tmp_path), "--backend", "software", "-o", tmp_path / "out"))
    assert "perf's output for" in line and "is not whole" in line


def test_perf_hangs(tmp_path: pathlib.Path) -> None:
    slow = program(tmp_path / "bin", "slow", "#!/bin/sh\nsleep 60 & wait\n")
    with pytest.raises(EnvironmentProblem, match="did not end within 0 s"):
        stat.run([str(slow)], 0.2)


def test_a_fake_death_half_way_keeps_what_was_finished(tmp_path: pathlib.Path) -> None:
    line = said(fake(tmp_path, "dies_after = 23"))  # 5 passes a cell
    assert "perf was killed by SIGKILL" in line
    assert len(list((tmp_path / "out").glob("cells/*.json"))) == 4


def test_the_disk_fills_up(tmp_path: pathlib.Path) -> None:
    line = said(fake(tmp_path, "full_after = 12"))
    assert re.search(r"'.*/[ab]' \([ab]\) is full; free some space", line)
    assert len(list((tmp_path / "out").glob("cells/*.json"))) == 2


def test_the_output_fills_up(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pathlib.Path.write_text

    def full(self: pathlib.Path, text: str, **more: str) -> int:
        if ".b-" in self.name:
            raise OSError(28, "No space left on device")
        return real(self, text, **more)

    monkeypatch.setattr(pathlib.Path, "write_text", full)
    assert "cannot write" in said(fake(tmp_path, "noise = 1"))


def test_too_little_space_is_told_before_anything_is_touched(tmp_path: pathlib.Path) -> None:
    path = config(tmp_path)
    path.write_text(path.read_text().replace('"64KiB"', '"8TiB"'))
    if shutil.which("perf") is None or Machine().paranoia() > 1:
        pytest.skip("perf is not installed, or may not count the kernel")
    assert "MiB free, the largest file needs" in said(run("run", path, "--backend", "software", "-o", tmp_path / "out"))


@needs_perf
def test_a_disk_that_fills_up_while_the_loop_writes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_RESERVE", 0)
    path = config(tmp_path)
    path.write_text(path.read_text().replace('"64KiB"', '"4MiB"'))
    mounted(tmp_path / "a", size="4m")  # our marker takes a page of it
    try:
        line = said(run("run", path, "--backend", "software", "-o", tmp_path / "out"))
        assert "(a) is full; free some space" in line
        assert os.listdir(tmp_path / "a") == []
    finally:
        subprocess.run(["umount", str(tmp_path / "a")], check=True)


def mounted(path: pathlib.Path, options: str = "", size: str = "32m") -> None:
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}{options}", "tmpfs", str(path)], capture_output=True
    ).returncode:
        pytest.skip("mounting is not allowed here")


@needs_perf
def test_a_read_only_target(tmp_path: pathlib.Path) -> None:
    path = config(tmp_path)
    mounted(tmp_path / "a", ",ro")
    try:
        line = said(run("run", path, "--backend", "software", "-o", tmp_path / "out"))
        assert "(a) is read-only; 'mount -o remount,rw' it" in line
    finally:
        subprocess.run(["umount", str(tmp_path / "a")], check=True)


def counted(small: Matrix, before: dict[int, object]) -> Backend:
    """A back end that writes a file where it is told to, and calls `before[n]` before its n-th run."""
    runs = [0]

    def measure(task: Task, events: tuple[Event, ...], number: int) -> Ran:
        runs[0] += 1
        action = before.get(runs[0])
        if callable(action):
            action()
        path = pathlib.Path(next(word for word in task.command if word.endswith(".data")))
        if not path.parent.is_dir():
            return Ran("", "", 1, f"loop: {path}: errno 2\n")
        path.write_text("x")
        line = '{"counter-value" : "1", "unit" : "", "event" : "page-faults", "event-runtime" : 1, "pcnt-running" : 100.00}'
        return Ran(line, '{"elapsed_ns": 1}', 0, "")

    events = [(Event("page_faults", "page-faults"),)]
    return Backend(events, {}, {"backend": "test"}, measure, lambda command, events: Ran("", "", 0, ""))


def measure(small: Matrix, backend: Backend, out: pathlib.Path) -> int:
    with cells.opened(out, runner.identity(small, backend)) as store:
        return runner.run(small, backend, store)


def test_a_mount_vanishes_between_two_cells(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path)
    mounted(tmp_path / "a")
    backend = counted(small, {4: lambda: subprocess.run(["umount", str(tmp_path / "a")], check=True)})
    with pytest.raises(EnvironmentProblem, match="'.*/a' is no longer the directory that it was; was a unmounted"):
        measure(small, backend, tmp_path / "out")
    found = len(list((tmp_path / "out").glob("cells/*.json")))
    assert 3 <= found < 16
    assert measure(small, counted(small, {}), tmp_path / "out") == 16 - found  # and goes on once it is there again


def test_a_directory_vanishes_while_a_cell_runs(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path)
    backend = counted(small, {4: lambda: [shutil.rmtree(tmp_path / name) for name in "ab"]})
    with pytest.raises(EnvironmentProblem, match="has vanished; mount it and run the same command again"):
        measure(small, backend, tmp_path / "out")


def test_a_cpu_that_is_not_there(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path, cpu=60_000)
    with pytest.raises(EnvironmentProblem, match="run.cpu = 60000: no such CPU here"):
        measure(small, counted(small, {}), tmp_path / "out")


def test_caches_that_may_not_be_dropped(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_DROP_CACHES", str(tmp_path / "none"))
    small = matrix(tmp_path, drop_caches=True)
    with pytest.raises(EnvironmentProblem, match="run.drop_caches = true: .* run as root"):
        measure(small, counted(small, {}), tmp_path / "out")


def test_the_loop_fails_in_a_way_that_nobody_thought_of(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path)
    backend = counted(small, {})
    backend.measure = lambda task, events, number: Ran("", "", 139, "Events disabled\nSegmentation fault\n")
    with pytest.raises(EnvironmentProblem, match="failed with exit status 139: Segmentation fault"):
        measure(small, backend, tmp_path / "out")


def test_labels_that_promise_what_is_not_there_are_warned_of(tmp_path: pathlib.Path) -> None:
    path = config(tmp_path)
    path.write_text(path.read_text().replace("[fs.a]", "[fs.ext4-dax]").replace("[fs.b]", "[fs.nova-cow]"))
    small = load(path)
    told = runner.warnings(small, counted(small, {}))
    assert re.search("ext4-dax is not measured with direct access: '.*' is ", told[0])
    assert re.search("nova-cow is not measured on NOVA: ", told[1])
    assert registry.load("backend", "fake").start(runner.request(small, "")).runs_programs is False
