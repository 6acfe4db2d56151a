"""A replay with data caches: nothing else changes, lines are conserved, and the accesses that it writes give the same counts."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from scmsim import cache, cli
from scmsim.core.counters import EVERY
from scmsim.core.errors import UsageError
from scmsim.mmu import accesses, presets
from scmsim.pipeline import replay
from scmsim.workload.microbench import Workload


def workload() -> Workload:
    return Workload("rewrite", 4096, 1 << 18)


@pytest.fixture(scope="module")
def both():
    """A replay without and with caches, of a file system with non-temporal stores and one with flushes."""
    names = ["nova-cow", "pmfs-4k"]
    return replay(workload(), names, by="op").runs, replay(workload(), names, by="op", caches="on").runs


def test_caches_add_counters_and_change_none(both) -> None:
    for off, on in zip(*both, strict=True):
        added = on.counters.keys() - off.counters.keys()
        assert {name: on.counters[name] for name in off.counters} == off.counters and added
        assert all(
            name.startswith("cache_") or name in ("l1d_replacement",) or name.startswith("mem_load_") for name in added
        )
        assert added <= EVERY.keys() and on.params.pop("caches") == "on" and on.params == off.params
        assert on.time_ns == off.time_ns and on.metrics["llc_misses"] is not None and off.metrics["llc_misses"] is None


def test_lines_are_conserved_in_all_and_in_each_part(both) -> None:
    for run in both[1]:
        for counts in (run.counters, *run.sites.values(), *run.groups.values()):
            for side in ("load", "store", "walk"):
                left = counts[f"cache_{side}_lines"]
                for level in (1, 2, 3):
                    assert level == 1 or counts[f"cache_{side}_l{level}_lookups"] == left
                    left -= counts[f"cache_{side}_l{level}_hit"]
                assert counts[f"cache_{side}_memory"] == left
        for parts in (run.sites, run.groups):
            for name in ("cache_load_lines", "cache_store_memory", "cache_pm_written_back", "l1d_replacement"):
                assert sum(part.get(name, 0) for part in parts.values()) == run.counters[name]
        assert run.counters["cache_walk_lines"] == run.counters["page_walker_loads"]
        assert run.counters["cache_flushed_lines"] == run.counters["flushes"]
        whole = run.counters["mem_inst_retired_all_loads"] + run.counters["mem_inst_retired_all_stores"]
        assert 0 < run.counters["cache_unchecked"] <= whole
    assert any(run.counters["cache_walk_lines"] for run in both[1])


def test_results_do_not_depend_on_the_chunk(both) -> None:
    small = replay(workload(), ["nova-cow"], by="op", caches="on", chunk=7).runs[0]
    assert small.counters == both[1][0].counters and small.sites == both[1][0].sites


@pytest.mark.parametrize("fs", ["nova-cow", "pmfs-4k"])
def test_the_accesses_that_a_replay_writes_give_the_same_counts(tmp_path: Path, both, fs: str) -> None:
    """They have virtual addresses only, so a device's page is the same lines in both as long as nothing is mapped twice."""
    replay(workload(), fs, accesses=tmp_path / "a.parquet")
    events = ((part, setup) for part, setup, _ in accesses.table_events(tmp_path / "a.parquet"))
    found = cache.simulate_events(events, presets.read("i7-8700k"))
    run = next(run for run in both[1] if run.fs == fs)
    without = {
        "cache_pm_read",
        "cache_pm_written_back",
    }  # which of the virtual addresses are persistent, is not in the events
    assert {name: run.counters[name] for name in found.keys() - without} == {
        name: count for name, count in found.items() if name not in without
    }


def test_the_command_counts_a_file_of_addresses(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.tile(np.arange(0, 1 << 16, 64), 3))
    done = CliRunner().invoke(cli.main, ["mmu", str(path), "--caches", "on", "--json"])
    assert done.exit_code == 0, done.stderr
    counts = json.loads(done.stdout)["results"][0]
    assert (
        counts["cache_load_lines"] == 3072 and counts["mem_load_retired_l3_miss"] == 1024 == counts["cache_load_memory"]
    )
    assert (
        counts["cache_load_l2_hit"] == 2048 and counts["l1d_replacement"] == 3072
    )  # 64 KiB in a cycle: never in 32 KiB
    text = CliRunner().invoke(cli.main, ["mmu", str(path), "--caches", "on"]).stdout
    assert "retired loads that missed the LLC" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--l1", "64x4"], "--caches counts a machine's data caches; use --machine instead of --l1"),
        (["--machine", "neoverse-n1"], "has no [[cache]] tables"),
    ],
)
def test_caches_that_are_not_there_are_an_error(tmp_path: Path, arguments: list[str], message: str) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    done = CliRunner().invoke(cli.main, ["mmu", str(tmp_path / "a.npy"), "--caches", "on", *arguments])
    assert done.exit_code == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_an_unknown_setting_and_a_machine_without_caches_are_refused() -> None:
    with pytest.raises(UsageError, match="no setting of caches named 'yes'; choose from off, on, next-line, stream"):
        replay(workload(), "nova-cow", caches="yes")
    with pytest.raises(UsageError, match="Neoverse N1.* has no .*cache.* tables"):
        replay(workload(), "nova-cow", "neoverse-n1", caches="on")
