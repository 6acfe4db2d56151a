"""Threads that wait for locks: bounds, a case by hand, what is declared, and what the command shows and refuses."""

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scmsim import cli, medium
from scmsim.core import locks, registry
from scmsim.core.errors import UsageError
from scmsim.core.records import OPS
from scmsim.mmu.presets import timing
from scmsim.pipeline import replay
from scmsim.pipeline.load import (
    CONTENDED,
    MEDIUM,
    SHARED,
    Hold,
    holds,
    in_common,
    parse_shared,
    rows,
    sentences,
    under_load,
)
from scmsim.result.run import Run
from scmsim.result.time import estimate
from scmsim.workload.microbench import Workload

WORK = Workload("append", 4096, 65536)


def appends(fs):
    return replay(WORK, fs, by="op", footprints="none").runs[0]


def counts(instructions, loaded, stored):
    granules = {f"media_bytes_{granule}": stored for granule in (64, 256, 4096)}
    return {"instructions": instructions, "pm_loaded_bytes": loaded, "pm_stored_bytes": stored, **granules}


def share_of_writes(run):
    """The part of the time, less the entry of calls, in write(): the rest opens and closes the file."""
    times = {
        op: estimate(each, timing("i7-8700k"), medium.read("nvdimm"), calls=0).total_ns
        for op, each in run.groups.items()
    }
    return times["write"] / sum(times.values())


@pytest.mark.parametrize("fs", ["ext4-dax", "nova-cow", "tmpfs", "winefs"])
def test_threads_that_append_to_one_file_do_not_scale(fs):
    """All but the entry of the system call is under the inode's lock, so 64 threads complete one call per hand-over of it."""
    run = appends(fs)
    entry = run.time_ns["calls"] / run.calls
    held = sum(run.time_ns.values()) / run.calls - entry
    one, many = under_load(run, [1, 64], ["file"])
    assert one.call_ns == pytest.approx(held + entry)
    assert holds(run, medium.read("nvdimm"), ["file"])["inode"].time == pytest.approx(held * share_of_writes(run))
    assert many.calls_per_ns == pytest.approx(1 / (CONTENDED * held * share_of_writes(run)), rel=0.02)
    assert many.waiting["inode"] > 0.9 * (many.call_ns - one.call_ns)


@pytest.mark.parametrize(("fs", "names"), [("ext4-dax", ["journal", "inodes"]), ("nova-cow", ["inodes"]), ("vsm", [])])
def test_threads_with_own_files_wait_for_the_medium_and_for_locks_of_the_file_system(fs, names):
    run = replay("traces/varmail.parquet", fs, by="op", footprints="none").runs[0]
    held = holds(run, medium.read("nvdimm"), [])
    assert [*held] == names
    if "inodes" in held:
        created = sum(run.group_operations.get(op, 0) for op in ("create", "mkdir", "unlink", "rmdir"))
        each = registry.literals("fs", fs)["LOCKS"]["inodes"]["held_ns"]
        assert held["inodes"].time == pytest.approx(each * created / run.calls)
    (state,) = under_load(run, [8])
    assert [*state.waiting] == [MEDIUM, *held]


def test_a_lock_that_several_threads_want_is_slower_and_a_commit_serves_several():
    alone, log = Hold(100.0, (0.0, 0.0)), Hold(100.0, (0.0, 0.0), together=True)
    assert [alone.speed(count) for count in (1, 2, 64)] == [1, 1 / CONTENDED, 1 / CONTENDED]
    assert [log.speed(count) for count in (1, 3, 9)] == [1, 2, 5]


AMOUNTS = st.tuples(st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 10**5))


@given(
    st.dictionaries(st.sampled_from(["read", "write", "create", "fsync", "mmap", "stat"]), AMOUNTS, min_size=1),
    st.sets(st.sampled_from(SHARED)),
    st.sampled_from(["ext4", "nova-cow", "ext2"]),
)
def test_bounds(amounts, shared, fs):
    """No more than a lock, the medium or the threads allow; one thread waits for nobody."""
    table, machine = medium.read("nvdimm"), timing("i7-8700k")
    groups = {op: counts(*amount) for op, amount in amounts.items()}
    whole = {name: sum(each[name] for each in groups.values()) for name in counts(0, 0, 0)}
    time = estimate(whole, machine, {**table, "fence_ns": 0}, calls=10).terms
    run = Run(fs, "i7-8700k", medium="nvdimm", calls=10, counters=whole, groups=groups, time_ns=time)
    alone = sum(time.values()) / 10
    held = holds(run, table, sorted(shared))
    states = under_load(run, [1, 2, 5, 16], sorted(shared))
    assert states[0].call_ns == pytest.approx(alone)
    at_medium = min(alone, whole["pm_loaded_bytes"] / 170 + whole["pm_stored_bytes"] / 170)
    for state in states:
        assert state.calls_per_ns <= min(
            [
                state.threads / alone,
                *(max(hold.speed(1), hold.speed(state.threads)) / max(hold.time, 1e-12) for hold in held.values()),
            ]
        ) * (1 + 1e-9)
        assert state.calls_per_ns * at_medium <= 1 + 1e-6
        assert sum(state.waiting.values()) == pytest.approx(state.call_ns - alone, abs=1e-6 * state.call_ns)
        assert 0 <= state.busy[MEDIUM] <= 1 + 1e-9
    assert sum(hold.time for hold in held.values()) <= alone * (1 + 1e-9)


def test_a_call_waits_at_the_widest_lock_that_it_holds_to_its_end():
    names = ["create", "mkdir", "unlink", "rmdir"]
    both = {"rename": ["rename"], "inodes": names}
    opens = {"name": ["stat", "open", "close"]}
    assert in_common("ext2", ["file"]) == {"inode": ["write", "truncate", "fsync"], **both, **opens}
    assert in_common("ext4", []) == {"journal": ["fsync", "sync"], "inodes": names, "rename": ["rename"]}
    assert in_common("vsm", ["file"]) == in_common("not-here", ["file"]) == {} and in_common("nova-cow", []) == both
    assert [*in_common("ext4", ["file", "directory", "process"])] == ["journal", "mmap", "directory", "inode", "name"]


def test_every_declared_lock_is_of_known_calls_and_has_a_source():
    assert {*locks.CALLS} <= {*OPS}
    known = [found for fs in registry.names("fs") if (found := registry.literals("fs", fs).get("LOCKS")) is not None]
    assert len(known) > 8
    for found in known:
        for name, lock in found.items():
            assert any(folder in lock["source"] for folder in ("fs/", "mm/", "lib/")), name
            assert {*lock["calls"]} <= {*OPS} and lock["of"] in locks.SCOPES


def test_what_is_not_declared_is_said():
    runs = [appends(fs) for fs in ("vsm", "nova-cow")]
    assert "vsm: locks not modelled: nothing is declared" in sentences(runs, [])
    assert rows(runs, [2])[0]["locks"] is None and [*rows(runs, [2])[1]["locks"]] == ["rename", "inodes"]


def test_a_run_without_its_kinds_of_calls_is_refused():
    run = replay(WORK, "nova-cow", footprints="none").runs[0]
    assert under_load(replay(WORK, "vsm", footprints="none").runs[0], [2])
    with pytest.raises(
        UsageError, match=r"no time of each kind of call of nova-cow, for its locks; replay by operation"
    ):
        under_load(run, [2], ["file"])


def test_what_threads_share():
    assert parse_shared("file, directory,file") == ["file", "directory"]
    with pytest.raises(UsageError, match="no thing that threads share named 'flie'; did you mean 'file'"):
        parse_shared("flie")


def test_the_command_shows_locks_and_writes_them(tmp_path):
    trace, out = str(tmp_path / "t.parquet"), str(tmp_path / "r.json")

    def run(*args):
        return CliRunner().invoke(cli.main, list(args))

    run("synth", "pattern", "--op", "append", "--unit", "4KiB", "--file-size", "64KiB", "--calls", "16", "-o", trace)
    given = ("replay", trace, "--fs", "ext4-dax,vsm", "--footprints", "none", "--threads", "1,4")
    shown = run(*given, "--shared", "file", "--rows", "time", "--by", "site", "-o", out, "--format", "markdown")
    assert shown.exit_code == 0, shown.output
    printed = run(*given, "--shared", "file", "--rows", "time")
    assert "in common: medium, file system, file (estimate)" in printed.stdout and "inode lock, ns" in printed.stdout
    assert "vsm: locks not modelled: nothing is declared" in printed.stdout
    written = json.loads((tmp_path / "r.json").read_text())["manifest"]["threads"]
    assert [(row["fs"], row["threads"]) for row in written] == [
        ("ext4-dax", 1),
        ("ext4-dax", 4),
        ("vsm", 1),
        ("vsm", 4),
    ]
    assert written[1]["waiting_at_ns"]["inode"] > 0
    assert json.loads(run(*given, "--shared", "file", "--json").stdout)["manifest"]["threads"] == written
    by_file = run(*given, "--shared", "file", "--by", "file")
    assert by_file.exit_code == 2 and "replay by operation (--by op)" in by_file.output
    alone = run("replay", trace, "--shared", "file")
    assert alone.exit_code == 2 and "--shared needs --threads" in alone.output
