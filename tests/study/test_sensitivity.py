"""Sensitivity of a replay: each change equals a replay with the changed table, and the order is compared as a person would."""

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scmsim import cli, medium
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.mmu import presets, rules
from scmsim.pipeline import replay
from scmsim.result import Result, Run
from scmsim.study.sensitivity import (
    NOT_APPLICABLE,
    Change,
    Effect,
    Sensitivity,
    percent,
    resized,
    sensitivity,
    sentences,
    table,
    text,
)
from scmsim.workload.microbench import Workload

WORK = Workload("append", 4096, 65536)


def found(fs, **given):
    arguments = {"trace": WORK, "fs": fs, "machine": "i7-8700k", "paging": None, "medium": "nvdimm", "params": {},
                 "footprints": "none", **given}  # fmt: skip
    return arguments, sensitivity(replay(**arguments).runs, arguments)


def effect_of(changes, what, to):
    (effect,) = (each for each in changes.effects if (each.change.what, each.change.to) == (what, to))
    return effect


@pytest.mark.parametrize("name", registry.names("medium"))
def test_times_of_a_changed_medium_are_those_of_a_replay(name):
    arguments, changes = found(["nova-cow", "ext4"], medium=name, system="debian-6.1" if name == "optane" else "alone")
    for effect in changes.effects:
        if "medium" in effect.change.arguments:
            replayed = replay(**{**arguments, **effect.change.arguments}).runs
            for run, own in zip(effect.runs, replayed, strict=True):
                assert (run.time_ns, run.counters, run.metrics) == (own.time_ns, own.counters, own.metrics)


def test_latency_and_bandwidth_scale_their_terms_of_the_time():
    _, changes = found(["ext4-dax"], medium="optane")
    (base,) = changes.base
    (slow,) = effect_of(changes, "medium latency", "double").runs
    (narrow,) = effect_of(changes, "medium bandwidth", "half").runs
    for term in ("dependent_loads", "fences"):
        assert (
            slow.time_ns[term] == pytest.approx(2 * base.time_ns[term]) and narrow.time_ns[term] == base.time_ns[term]
        )
    assert narrow.time_ns["store_bandwidth"] == pytest.approx(2 * base.time_ns["store_bandwidth"])
    assert slow.time_ns["calls"] == base.time_ns["calls"] == narrow.time_ns["calls"]


def test_page_tables_in_the_medium_wait_for_its_latency():
    """A walk of SCMFS reads entries in the medium, so its cycles change; the number of replays says that it was repeated."""
    arguments, changes = found(["scmfs"], params={"own": {"page_tables": "scm"}})
    slow = effect_of(changes, "medium latency", "double").runs[0]
    assert slow.counters["page_walker_loads_scm"] == changes.base[0].counters["page_walker_loads_scm"] > 0
    assert slow.metrics["cycles_per_walk_data"] > changes.base[0].metrics["cycles_per_walk_data"]
    assert changes.replays == 4  # two latencies, two TLBs; SCMFS maps its memory itself, so its pages stay


def test_where_a_change_does_not_apply():
    arguments, changes = found(["tmpfs", "nova-cow"], machine="core2-q8200")
    assert [run is None for run in effect_of(changes, "page size", "4KiB").runs] == [True, False]
    assert table(changes)["changes"][-1]["runs"][0] == {
        "fs": "tmpfs", "time": None, "time_percent": None, "walks": None, "walks_percent": None,
    }  # fmt: skip
    _, changes = found(["nova-cow"], machine="xscale")
    largest = presets.read("xscale")["walk"]["largest_page"]
    assert (effect_of(changes, "page size", "2MiB").runs == [None]) == (largest != "2MiB"), largest


def test_twice_the_tlbs_of_a_large_machine_are_not_replayed():
    _, changes = found(["nova-cow"], machine="panther-lake")
    assert effect_of(changes, "TLB entries", "double").runs == [None] and changes.replays == 3
    assert text(changes).endswith("\n" + NOT_APPLICABLE + "\n(3 more replays)")


def test_pages_change_walks_and_parameters_of_the_policy_stay():
    arguments, changes = found(["nova-cow"], params={"linux": {"user_page": "2MiB", "pm_page": "2MiB"}})
    (small,), (large,) = (effect_of(changes, "page size", page).runs for page in ("4KiB", "2MiB"))
    assert (small.paging, large.paging) == ("base-4k", "directmap-2m")
    assert small.params["user_page"] == large.params["user_page"] == 2 << 20
    assert large.counters == changes.base[0].counters, "the device was on pages of 2 MiB before"
    walked = [run.counters["dtlb_store_misses_walk_completed"] for run in (small, large)]
    assert walked[0] > walked[1]


@pytest.mark.parametrize("name", registry.names("machine"))
def test_every_machine_has_half_and_double_its_tlbs(name):
    machine = presets.read(name)
    for factor in (0.5, 2.0):
        arrays = [resized(array, factor) for array in machine["tlb"]]
        if (name, factor) != ("panther-lake", 2.0):  # more slots than the MMU's state has: shown as not applicable
            presets.machine({**machine, "tlb": arrays})
        for array, own in zip(arrays, machine["tlb"], strict=True):
            assert own["entries"] == 1 or array["entries"] == int(own["entries"] * factor), array["name"]


@given(
    st.integers(1, 64), st.integers(1, 256), st.sampled_from(["lru", "tree-plru", "bit-plru", "fifo", "random"]),
    st.sampled_from(["linear", "xor"]), st.sampled_from([0.5, 2.0]),
)  # fmt: skip
def test_a_resized_array_is_allowed_where_the_array_is(ways, sets, policy, index, factor):
    array = {"entries": ways * sets, "ways": ways, "policy": policy, "index": index, "pages": ["4KiB"]}
    machine = presets.read("i7-8700k")

    def allowed(entry):
        try:
            rules.machine(sources=False)({**machine, "tlb": [{**machine["tlb"][0], **entry, "first_level_for": ["load", "store"]},
                                                            *machine["tlb"][1:]]})  # fmt: skip
        except UsageError:
            return False
        return True

    changed = resized(array, factor)
    assert allowed(changed) or not allowed(array)
    assert array["entries"] * factor - max(ways, sets) <= changed["entries"] <= max(1, array["entries"] * factor)


def runs_with(times):
    return [Run(f"fs{i}", "m", "p", "d", calls=1, operations=1, time_ns={"all": float(time)},
                metrics={"estimated_ns_per_call": float(time), "dtlb_walks": 0}) for i, time in enumerate(times)]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6))
def test_the_order_holds_exactly_if_no_pair_is_reversed(times):
    base, after = (runs_with(each) for each in zip(*times, strict=True))
    effect = Effect(Change("TLB entries", "half", {}), after)
    changes = Sensitivity(base, [effect], 0)
    expected = {
        (a, b) for a, (was_a, is_a) in enumerate(times) for b, (was_b, is_b) in enumerate(times)
        if (was_a > was_b) and (is_a < is_b)
    }  # fmt: skip
    assert set(changes.swaps(effect)) == expected
    if len(times) > 1:
        assert ("the order by time holds for all 1 changes" in sentences(changes)[0]) == (not expected)
        assert [times[i][1] for i in changes.order(effect)] == sorted(is_ for _, is_ in times)


def test_a_reversed_pair_is_a_sentence_and_failed_runs_are_not_compared():
    changes = Sensitivity(
        runs_with([3, 2, 1]), [Effect(Change("TLB entries", "half", {}), runs_with([1, 2, 3])),
                               Effect(Change("page size", "4KiB", {}), runs_with([3, 2, 1]))], 0
    )  # fmt: skip
    assert sentences(changes) == [
        "order by time, shortest first: fs2, fs1, fs0",
        "with half the TLB entries, fs1 comes before fs2, fs0 comes before fs2, fs0 comes before fs1",
    ]
    changes.base[0].errors = {"ENOSPC": 1}
    assert sentences(changes)[1] == "with half the TLB entries, fs1 comes before fs2"


@pytest.mark.parametrize(
    ("before", "after", "share"), [(2.0, 3.0, 50.0), (0, 0, 0.0), (0, 3, None), (None, 1, None), (1, None, None)]
)
def test_percent(before, after, share):
    assert percent(before, after) == share


def test_the_command_shows_the_changes_and_writes_them(tmp_path):
    trace, out = str(tmp_path / "t.parquet"), str(tmp_path / "r.json")

    def run(*args):
        return CliRunner().invoke(cli.main, list(args))

    run("synth", "pattern", "--op", "append", "--unit", "4KiB", "--file-size", "64KiB", "--calls", "16", "-o", trace)
    given = (
        "replay",
        trace,
        "--fs",
        "ext4-dax,nova-cow",
        "--footprints",
        "none",
        "--medium",
        "nvdimm,optane",
        "--sensitivity",
    )
    shown = run(*given, "-o", out, "--rows", "time", "--format", "markdown")
    assert shown.exit_code == 0, shown.output
    assert "wrote" in shown.output
    written = json.loads((tmp_path / "r.json").read_text())["manifest"]["sensitivity"]
    assert [each["medium"] for each in written] == ["nvdimm", "optane"]
    printed = run(*given, "--json")
    assert json.loads(printed.stdout)["manifest"]["sensitivity"] == written
    told = run(*given)
    assert told.stdout.count("sensitivity on i7-8700k, ") == 2 and "TLB entries: half" in told.stdout
    refused = run(*given, "--format", "csv")
    assert refused.exit_code == 2 and "--sensitivity cannot be written as CSV" in refused.output


def test_a_table_of_a_medium_is_checked_and_stored():
    given = {**medium.read("cxl-vistara"), "summary": "mine"}
    result = replay(WORK, "nova-cow", medium=given, footprints="none")
    assert result.runs[0].medium == "mine" and Result.from_json(result.to_json()).runs[0].medium == "mine"
    with pytest.raises(UsageError, match=r"medium table: load_nss: .*load_ns"):
        replay(WORK, "nova-cow", medium={**given, "load_nss": 3})


def test_markdown_is_a_table():
    changes = Sensitivity(runs_with([1, 2]), [Effect(Change("TLB entries", "half", {}), runs_with([1, 2]))], 0)
    assert "|---|---:|" in text(changes, markdown=True)
