"""`scmsim perf run`: real software events, a stand-in for perf with a PMU, resuming after kills, and the fake back end."""

import json
import os
import pathlib
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner, Result

from scmsim import cli
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.perf import cells, events, runner, targets, to_result
from scmsim.perf.backend import Backend
from scmsim.perf.machine import Machine
from scmsim.perf.matrix import Matrix
from scmsim.result import read
from tests.perf.helper import config, matrix, only, stand_in

needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None or Machine().paranoia() > 1,
    reason="perf is not installed, or may not count the kernel",
)

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"


def run(*args: object) -> Result:
    return CliRunner().invoke(cli.main, ["perf", "run", *map(str, args)])


def backend(small: Matrix, out: pathlib.Path) -> Backend:
    found: Backend = registry.load("backend", small.backend).start(runner.request(small, str(out)))
    return found


def measure(small: Matrix, out: pathlib.Path) -> int:
    found = backend(small, out)
    with cells.opened(out, runner.identity(small, found)) as store:
        return runner.run(small, found, store)


def result(small: Matrix, out: pathlib.Path) -> to_result.Result:
    found = backend(small, out)
    with cells.opened(out, runner.identity(small, found)) as store:
        return to_result.result(small, found, store)


def records(out: pathlib.Path) -> dict[str, dict]:
    return {path.stem: json.loads(path.read_bytes()) for path in (out / "cells").iterdir()}


@needs_perf
def test_software_events_on_a_disk_and_on_tmpfs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = pathlib.Path("/dev/shm") / f"scmsim-test-{os.getpid()}"
    text = config(tmp_path).read_text().replace(f'dir = "{tmp_path / "b"}"', f'dir = "{memory}"\ncreate = true')
    (tmp_path / "m.toml").write_text(text)
    done = run(tmp_path / "m.toml", "--backend", "software", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "16 measurements, 16 now" in done.stdout
    found = read(tmp_path / "out" / "result.json")
    assert len(found.runs) == 16 and {one.fs for one in found.runs} == {"a", "b"}
    for one in found.runs:
        counters = one.counters
        calls = one.calls
        if "raw_syscalls_sys_enter" in counters:  # a lseek for each pass, and up to three calls of the control
            passes = 2 if one.cell["unit_bytes"] == 4096 else 3
            assert 0 <= counters["raw_syscalls_sys_enter"] - calls <= 4 * passes + 1
        assert counters["page_faults"] >= 0 and counters["elapsed_ns"] > 0 and "context_switches" in counters
        for field in events.THESIS.values():
            assert field not in counters and "software back end" in one.why_absent[field]
    assert list((tmp_path / "a").iterdir()) == [] and not memory.exists()
    assert not list((tmp_path / "out").glob("loop")) and not list((tmp_path / "out").glob("scmsim-perf-*"))


@needs_perf
def test_without_a_pmu_the_perf_back_end_says_so_and_goes_on_unless_it_must_not(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "pmus", lambda self: [])
    done = run(config(tmp_path), "--backend", "perf", "-o", tmp_path / "out")
    assert done.exit_code == 0 and "no hardware PMU on this machine" in done.stderr
    one = read(tmp_path / "out" / "result.json").runs[0]
    assert all("no hardware PMU" in one.why_absent[field] for field in events.THESIS.values())
    done = run(config(tmp_path), "--backend", "perf", "--require-pmu", "-o", tmp_path / "other")
    assert done.exit_code == 3 and re.fullmatch("scmsim: error: no hardware PMU .*\n", done.stderr)
    assert not (tmp_path / "other").exists()


@pytest.fixture
def pmu(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A machine with a PMU, a Skylake, and a perf that counts 1000 of everything; returns the log of what it was asked."""
    stand_in(tmp_path / "bin")
    monkeypatch.setattr(Machine, "pmus", lambda self: ["cpu"])
    monkeypatch.setattr(Machine, "tables", lambda self: {"cpu": "skylake"})
    monkeypatch.setattr(Machine, "paranoia", lambda self: -1)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TEST_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


ONE_CELL = {"operations": ("write",), "units": (1 << 12,), "repeats": 1, "backend": "perf"}


def test_hardware_events_in_passes(tmp_path: pathlib.Path, pmu: pathlib.Path) -> None:
    small = matrix(tmp_path, **ONE_CELL)
    assert measure(small, tmp_path / "out") == 2
    asked = [line.split(",") for line in pmu.read_text().splitlines()]
    assert len(asked) == 2 * 5  # two cells, five passes each
    assert asked[:5] != asked[5:] and sorted(map(sorted, asked[:5])) == sorted(map(sorted, asked[5:]))  # rotated
    for one in asked:
        assert one[:2] == ["inst_retired.any", "cpu_clk_unhalted.thread"]
        assert len([name for name in one[2:] if "." in name]) <= 4
    table = events.table("skylake")
    for record in records(tmp_path / "out").values():
        for field in [*events.thesis(table).values(), *sum(events.metric_fields(table).values(), [])]:
            assert record["counters"][field] == 1000
    found = result(small, tmp_path / "out")
    assert found.runs[0].metrics["walk_cycles_percent_data"] == 200.0
    assert found.runs[0].events["cycles"] == "cpu_clk_unhalted.thread"
    assert found.manifest["harness"]["table"] == "skylake"


def test_user_and_kernel_apart(tmp_path: pathlib.Path, pmu: pathlib.Path) -> None:
    small = matrix(tmp_path, **ONE_CELL, count="split", counters=("dtlb_load_misses_walk_completed", "instructions"))
    measure(small, tmp_path / "out")
    record = next(iter(records(tmp_path / "out").values()))
    assert record["counters"]["dtlb_load_misses_walk_completed"] == 2000
    assert record["counters"]["instructions"] == 1000
    assert record["modes"]["user"]["dtlb_load_misses_walk_completed"] == 1000
    one = result(small, tmp_path / "out").runs[0]
    assert one.groups["kernel"] == {"dtlb_load_misses_walk_completed": 1000}
    assert one.events["dtlb_load_misses_walk_completed"] == (
        "dtlb_load_misses.walk_completed:u + dtlb_load_misses.walk_completed:k"
    )


def test_multiplexed_counts_stop_the_run_unless_accepted(
    tmp_path: pathlib.Path, pmu: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_RUNNING", "75.00")
    path = config(tmp_path, '[run]\ncounters = ["cycles"]\n')
    done = run(path, "--backend", "perf", "-o", tmp_path / "out")
    assert done.exit_code == 3 and "was on a counter for only 75 %" in done.stderr
    assert list((tmp_path / "a").iterdir()) == []
    done = run(path, "--backend", "perf", "-o", tmp_path / "scaled", "--allow-multiplexing")
    assert done.exit_code == 0
    assert "scaled by perf" in read(tmp_path / "scaled" / "result.json").runs[0].warnings[0]


def test_an_event_that_this_cpu_lacks_is_absent_and_the_rest_is_counted(
    tmp_path: pathlib.Path, pmu: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_UNKNOWN", "l1d.replacement cpu/event=0x51,umask=0x01,name=l1d_replacement/")
    monkeypatch.setenv(
        "TEST_MISSING", "mem_load_retired.l3_miss cpu/event=0xd1,umask=0x20,name=mem_load_retired_l3_miss/"
    )
    small = matrix(tmp_path, **ONE_CELL)
    found = backend(small, tmp_path / "out")
    assert "does not know" in found.why_absent["l1d_replacement"]
    assert "not supported" in found.why_absent["mem_load_retired_l3_miss"]
    assert "dtlb_load_misses_walk_completed" in {event.field for each in found.passes for event in each}


def test_dry_run_touches_nothing_and_names_what_would_stop_it(tmp_path: pathlib.Path) -> None:
    path = config(tmp_path)
    done = run(path, "--backend", "fake", "--dry-run", "-o", tmp_path / "out")
    assert done.exit_code == 0 and "16 measurements" in done.stdout
    assert "pass 1: inst_retired.any" in done.stdout and not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other").write_text("")
    done = run(path, "--backend", "fake", "--dry-run", "--json", "-o", tmp_path / "out")
    told = json.loads(done.stdout)
    assert done.exit_code == 3
    assert told["runs"] == 16 * len(told["events"]) and "is not empty" in told["obstacles"][0]


@needs_perf
def test_dry_run_looks_at_the_targets(tmp_path: pathlib.Path) -> None:
    path = config(tmp_path)
    (tmp_path / "a" / "thesis.tex").write_text("precious")
    (tmp_path / "b").rmdir()
    done = run(path, "--backend", "software", "--dry-run", "-o", tmp_path / "out")
    assert "would stop: " in done.stdout and "holds 'thesis.tex'" in done.stdout and "no directory" in done.stdout
    assert not (tmp_path / "out").exists() and os.listdir(tmp_path / "a") == ["thesis.tex"]


def test_progress_says_the_time_left(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path)
    told: list[tuple] = []
    found = backend(small, tmp_path / "out")
    with cells.opened(tmp_path / "out", runner.identity(small, found)) as store:
        runner.run(small, found, store, lambda *args: told.append(args))
    assert [args[1] for args in told] == list(range(16)) and {args[2] for args in told} == {16}
    assert all(args[3] >= 0 for args in told) and told[-1][3] <= told[0][3]


def test_progress_is_drawn_on_a_terminal_and_rubbed_out(tmp_path: pathlib.Path) -> None:
    path = config(tmp_path, '[fake]\ndelay = "20ms"\n')
    master, slave = pty.openpty()
    argv = [sys.executable, "-m", "scmsim", "perf", "run", str(path), "--backend", "fake", "-o", str(tmp_path / "out")]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=slave, text=True)
    os.close(slave)
    drawn = os.read(master, 1 << 16).decode()
    os.close(master)
    assert done.returncode == 0 and "16 measurements, 16 now" in done.stdout and "\x1b" not in done.stdout
    assert re.search(r"\r\x1b\[K\d+ of 16, \d+ s left: [ab]-(write|read)-64KiB-\w+-0[12]", drawn)
    assert drawn.rpartition("\r\x1b[K")[2].startswith("next: ")


@needs_perf
def test_what_a_kill_after_the_last_cell_left_is_removed(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path, **{**ONE_CELL, "backend": "software"})
    assert measure(small, tmp_path / "out") == 2
    (tmp_path / "a" / targets.MARKER).write_text("")
    (tmp_path / "a" / targets.DATA).write_text("left")
    (tmp_path / "out" / "loop").write_text("left")
    assert measure(small, tmp_path / "out") == 0
    assert os.listdir(tmp_path / "a") == [] and not (tmp_path / "out" / "loop").exists()


def test_a_finished_matrix_is_not_run_again(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path)
    assert measure(small, tmp_path / "out") == 16
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").iterdir()}
    assert measure(small, tmp_path / "out") == 0
    assert before == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").iterdir()}


MANY = {
    "operations": ("write", "rewrite", "read", "reread"),
    "file_sizes": (1 << 16, 1 << 17, 1 << 18),
    "units": (1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16),
    "repeats": 4,
}


def test_killed_fifty_times_nothing_is_lost_or_run_twice(tmp_path: pathlib.Path) -> None:
    whole = matrix(tmp_path, **MANY)
    measure(whole, tmp_path / "whole")
    slow = matrix(tmp_path, **MANY, backend_params={"delay": 300_000})
    out, draw, kills = tmp_path / "killed", random.Random(5), 0
    seen: dict[str, tuple[int, int]] = {}
    for _ in range(50):
        child = os.fork()
        if child == 0:
            try:
                measure(slow, out)
            finally:
                os._exit(0)
        wanted, late = len(seen) + draw.choice((0, 1)), time.monotonic() + 60  # cells, however slow the machine is
        while len(list((out / "cells").glob("[!.]*.json"))) < wanted and time.monotonic() < late:
            time.sleep(0.001)
        time.sleep(draw.uniform(0.0, 0.004))
        os.kill(child, signal.SIGKILL)
        kills += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        now = {path.name: path.stat() for path in (out / "cells").glob("[!.]*.json")} if out.exists() else {}
        found = {name: (about.st_ino, about.st_mtime_ns) for name, about in now.items()}
        assert seen.items() <= found.items()  # nothing lost, nothing written a second time
        seen = found
    assert kills == 50 and 10 < len(seen) < len(whole.cells())
    assert measure(slow, out) == len(whole.cells()) - len(seen)
    assert records(out) == records(tmp_path / "whole")
    assert result(slow, out).runs == result(whole, tmp_path / "whole").runs


@pytest.mark.slow
@needs_perf
def test_the_command_killed_and_stopped_while_it_measures(tmp_path: pathlib.Path) -> None:
    path = config(tmp_path)
    # enough cells, however slow this process is
    path.write_text(path.read_text().replace("repeats = 2", "repeats = 40"))
    argv = [
        sys.executable,
        "-m",
        "scmsim",
        "perf",
        "run",
        str(path),
        "--backend",
        "software",
        "-o",
        str(tmp_path / "out"),
    ]
    for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)):
        before = len(list((tmp_path / "out").glob("cells/*.json")))
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while child.poll() is None and len(list((tmp_path / "out").glob("cells/*.json"))) < before + 3:
            time.sleep(0.01)
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)
        assert child.returncode == code, (before, len(list((tmp_path / "out").glob("cells/*.json"))), errors)
        if number != signal.SIGKILL:
            assert "finished cells are kept" in errors.splitlines()[-1]
            assert list((tmp_path / "a").iterdir()) == [] and not (tmp_path / "out" / "loop").exists()
        wait_for_nobody(str(tmp_path))
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(records(tmp_path / "out")) == 320
    assert list((tmp_path / "a").iterdir()) == []


def wait_for_nobody(word: str) -> None:
    """No process that names the folder survives its parent."""
    for _ in range(200):
        lines = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        if not [line for line in lines if word.encode() in line]:
            return
        time.sleep(0.02)
    raise AssertionError([line for line in lines if word.encode() in line])


def test_fake_counts_have_the_faults_that_were_ordered(tmp_path: pathlib.Path) -> None:
    noisy = matrix(tmp_path, backend_params={"noise": 10, "missing": "l1d_replacement", "multiplexed": 50})
    with pytest.raises(Exception, match="was on a counter for only 75 %"):
        measure(noisy, tmp_path / "one")
    allowed = matrix(tmp_path, allow_multiplexing=True, backend_params=noisy.backend_params)
    measure(allowed, tmp_path / "two")
    found = records(tmp_path / "two")
    assert any(record["scaled"] for record in found.values())
    assert all(
        record["why_absent"] == {"l1d_replacement": "perf: l1d.replacement not supported"} for record in found.values()
    )
    values = {
        record["counters"]["instructions"] for key, record in found.items() if key.startswith("a-write-64KiB-4KiB")
    }
    assert len(values) == 2  # repeats differ by the noise
    with pytest.raises(UsageError, match="'cycels' is not counted here"):
        measure(matrix(tmp_path, backend_params={"missing": "cycels"}), tmp_path / "three")


def test_ratios_are_taken_inside_a_pass(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path, operations=("write",), repeats=1, backend_params={"noise": 30})
    measure(small, tmp_path / "out")
    walks = ("dtlb_load_misses_walk_active", "dtlb_store_misses_walk_active")
    for one in result(small, tmp_path / "out").runs:
        key = f"{one.fs}-write-64KiB-{one.cell['unit_bytes'] >> 10}KiB-01"
        passes = records(tmp_path / "out")[key]["passes"]
        (counts,) = [counts for counts in passes if walks[0] in counts]
        inside = 100 * (counts[walks[0]] + counts[walks[1]]) / counts["cycles"]
        assert one.metrics["walk_cycles_percent_data"] == pytest.approx(inside)
        assert one.counters["cycles"] == pytest.approx(sum(each["cycles"] for each in passes) / len(passes), abs=1)
        across = 100 * sum(one.counters[name] for name in walks) / one.counters["cycles"]
        assert across != pytest.approx(inside)


def test_fake_repeats_differ_by_three_percent_unless_told_otherwise(tmp_path: pathlib.Path) -> None:
    measure(matrix(tmp_path, repeats=20, operations=("write",), units=(4096,)), tmp_path / "out")
    values = [
        record["counters"]["l1d_replacement"] for key, record in records(tmp_path / "out").items() if key[0] == "a"
    ]
    average = sum(values) / 20
    assert 0.01 < (sum((value - average) ** 2 for value in values) / 19) ** 0.5 / average < 0.06


@needs_perf
def test_without_a_compiler_the_loop_runs_in_python_and_says_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", only(tmp_path / "bin", "perf", "true"))
    small = matrix(tmp_path, **{**ONE_CELL, "backend": "software"})
    assert measure(small, tmp_path / "out") == 2
    for one in result(small, tmp_path / "out").runs:
        assert "no C compiler (cc, gcc, clang); the loop runs in Python" in one.warnings[0]
        assert one.calls <= one.counters.get("raw_syscalls_sys_enter", one.calls) <= one.calls + 10


@needs_perf
def test_names_with_blanks_commas_and_quotes_are_only_names(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path / "a b,'$(touch x);", **{**ONE_CELL, "backend": "software"})
    assert measure(small, tmp_path / "o,u t") == 2
    assert not (tmp_path / "x").exists() and not pathlib.Path("x").exists()


def test_recorded_answers(tmp_path: pathlib.Path) -> None:
    line = '{"counter-value" : "%d", "unit" : "", "event" : "%s", "event-runtime" : 1, "pcnt-running" : 100.00}\n'
    (tmp_path / "stat.json").write_text(line % (41, "inst_retired.any") + line % (42, "cpu_clk_unhalted.thread"))
    given = {"counters": ("instructions", "cycles"), "backend_params": {"recorded": str(tmp_path / "stat.json")}}
    measure(matrix(tmp_path, **given), tmp_path / "out")
    assert {record["counters"]["instructions"] for record in records(tmp_path / "out").values()} == {41}
    given["backend_params"] = {"recorded": str(tmp_path / "none")}
    with pytest.raises(UsageError, match="cannot be read"):
        measure(matrix(tmp_path, **given), tmp_path / "other")


def test_perf_is_needed_only_where_it_is_used(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", only(tmp_path / "empty"))
    assert measure(matrix(tmp_path), tmp_path / "out") == 16


@pytest.mark.slow
def test_the_whole_thesis_with_made_up_counts(tmp_path: pathlib.Path) -> None:
    """Every cell of it, once; its ten repeats are only counted."""
    assert "18,480 measurements" in run("perf-thesis", "--backend", "fake", "--dry-run", "-o", tmp_path / "out").stdout
    whole = (CONFIGS / "perf-thesis.toml").read_text(encoding="utf-8")
    (tmp_path / "once.toml").write_text(whole.replace("repeats = 10", "repeats = 1"), encoding="utf-8")
    done = run(tmp_path / "once.toml", "--backend", "fake", "-o", tmp_path / "out")
    assert done.exit_code == 0 and "1848 measurements, 1848 now" in done.stdout
    found = read(tmp_path / "out" / "result.json")
    assert len(found.runs) == 1848 and len(found.runs[0].metrics) >= 9
