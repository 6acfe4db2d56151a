"""Check `scmsim perf run` with real software events and with a stand-in for perf that has a PMU."""

import json
import os
import pathlib
import pty
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from scmsim import cli
from scmsim.perf import cells, events, runner
from scmsim.perf.machine import Machine
from scmsim.result import read
from tests.perf.helper import ONE_CELL, backend, config, matrix, measure, needs_perf, only, records, result, stand_in

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"


def run(*args: object) -> Result:
    return CliRunner().invoke(cli.main, ["perf", "run", *map(str, args)])


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
