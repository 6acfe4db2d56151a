"""What else runs: kernels beside the reference in buffers of any size, tables, and what it does to a replay."""

import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scmsim
from scmsim import system as systems
from scmsim.core import registry
from scmsim.core.counters import COUNTERS
from scmsim.core.errors import UsageError
from scmsim.core.records import EVENT, EVENTS, KERNEL, LOAD, NTSTORE, PM, SLICE, STORE, WORK, joined
from scmsim.system import rep_strings, surround
from scmsim.workload.microbench import Workload
from tests.system import reference

TRASH = 9
TIME = {"ghz": 1e-6, "cpi": 0.5}  # 2000 instructions a second: interrupts come often
EVENT_ROWS = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from([LOAD, STORE, NTSTORE, WORK]), st.integers(0, 8), st.integers(0, 5000),
        st.sampled_from([3, 3, 4, TRASH]),
    ),
    max_size=30,
)  # fmt: skip
SYSTEMS = st.fixed_dictionaries(
    {
        "hz": st.sampled_from([0, 250, 1000]), "slice_us": st.sampled_from([0, 1000, 20_000]), "kpti": st.booleans(),
        "program_pages": st.integers(0, 4), "other_pages": st.integers(0, 4),
    }
)  # fmt: skip


def batch(rows):
    events = np.zeros(len(rows), EVENT)
    for event, (op, code, width, length, _) in zip(events, sorted(rows, key=lambda row: row[0]), strict=True):
        event["op"], event["code"], event["width"], event["length"], event["addr"] = op, code, width, length, length
    return events, np.array([row[-1] for row in sorted(rows, key=lambda row: row[0])], np.int64)


@given(EVENT_ROWS, SYSTEMS, st.booleans(), st.integers(0, 40))
def test_what_comes_between_is_what_the_reference_says(drawn, system, pcid, room):
    events, rows = batch(drawn)
    state = surround.start(system, TIME, pcid, TRASH)
    size = int(state.most[0]) + len(surround.TICK) + 1 + room
    out, slices = (np.zeros(size, EVENT), np.zeros(size, np.int64), np.ones(size, SLICE)), np.zeros(len(events), SLICE)
    slices["event"] = np.arange(len(events))
    slices["end"], found, ahead, whole = np.arange(len(events)) + 1, [], [], False
    while not whole:
        whole = surround.surround(state, surround.TICK, out, (events, rows, slices))
        emitted = int(state.emitted[0])
        touched = np.zeros(emitted, np.int64)
        some = out[2][: int(state.slices[0])]
        touched[some["event"]] = some["end"]
        ahead += touched.tolist()
        found += list(zip(out[0][:emitted].copy(), out[1][:emitted].tolist(), strict=True))
    plain = reference.Surroundings(system, 2000, pcid, surround.TICK.tolist(), TRASH)
    expected = []
    for event, row in zip(events, rows.tolist(), strict=True):
        named = {**dict(zip(EVENT.names, event.tolist(), strict=True)), "code": EVENTS[event["code"]]}
        expected += plain.before(named, row)
        expected.append((event, row))
    assert len(found) == len(expected)
    assert [count for count in ahead if count] == list(range(1, len(events) + 1))
    assert [count > 0 for count in ahead] == [not isinstance(wanted, tuple) for wanted, _ in expected]
    for (event, row), (wanted, its_row) in zip(found, expected, strict=True):
        assert row == its_row
        if isinstance(wanted, tuple):
            assert (EVENTS[event["code"]], event["vaddr"], event["length"], event["width"]) == wanted
        else:
            assert event == wanted


@given(
    st.lists(
        st.tuples(
            st.sampled_from([LOAD, STORE, NTSTORE]), st.integers(0, 3), st.sampled_from([0, 8]), st.integers(1, 9000),
            st.integers(0, 1 << 20), st.sampled_from([12, 21]),
        ),
        max_size=12,
    ),
    st.sampled_from([0, 12, 7.5]), st.sampled_from([0, 7]), st.sampled_from([0, 64]),
)  # fmt: skip
def test_rep_strings_count_as_the_reference_says(drawn, copy, clear, lookup):
    sites = {"data copy": "data", "block zeroing": "zeroing", "copy": "none", "inode": "metadata"}
    system = {"rep_copy_bytes": copy, "rep_clear_bytes": clear, "rep_lookup_bytes": lookup}
    counters, shift = np.zeros(1, COUNTERS), np.full((len(EVENTS), 64), 12)
    shift[:, 21] = 21
    expected = np.zeros(4, np.int64)
    events = np.zeros(len(drawn), EVENT)
    for event, (code, site, width, length, vaddr, order) in zip(events, drawn, strict=True):
        event["code"], event["site"], event["width"], event["length"] = code, site, width, length
        event["vaddr"], event["order"] = vaddr, order
        one = {"code": EVENTS[code], "site": list(sites)[site], "width": width, "length": length, "vaddr": vaddr}
        expected += reference.rep_strings(system, {"block zeroing"}, {"data copy", "copy"}, 1 << order, [one])
    rep_strings.count(counters, system, rep_strings.kinds_of(sites), shift, events, np.zeros(len(events), np.int64))
    named = ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores", "dtlb_load_lookups", "dtlb_store_lookups")
    assert [int(counters[name][0]) for name in named] == expected.tolist()
    assert counters["dtlb_load_l1_hit"] == counters["dtlb_load_lookups"]
    assert counters["dtlb_user_lookups"][0] == expected[2:].sum()  # all of them at user addresses


def run(fs="ext2-ramdisk", machine="i7-8700k", **more):
    return scmsim.replay(Workload(op="append", unit=4096, total=1 << 18), fs, machine, **more).runs[0]


def own(tmp_path, text):
    file = tmp_path / "mine.toml"
    file.write_text(f'summary = "mine"\n{text}')
    return str(file)


@pytest.mark.parametrize("name", registry.names("system"))
def test_the_systems_of_the_package_are_whole(name):
    found = systems.read(name)
    assert found.keys() >= systems.DEFAULTS.keys() and found["summary"]


def test_alone_changes_nothing_and_others_are_named_in_the_run():
    assert run(system="alone").counters == run().counters and "system" not in run().params
    found = run(system="busy")
    assert found.params["system"] == "busy"
    untouched = ("instructions", "mem_inst_retired_all_loads", "flushes", "fences", "pm_stored_bytes")
    assert {name: found.counters[name] for name in untouched} == {name: run().counters[name] for name in untouched}


def test_the_programs_pages_miss_where_there_are_more_than_the_tlb_has(tmp_path):
    text = "program_pages = {}\n[source]\nprogram_pages = 'a test'\n"
    few, many = (
        run(system=own(tmp_path, text.format(n))).counters["dtlb_user_misses_walk_completed"] for n in (8, 3000)
    )
    assert few == 8 + run().counters["dtlb_user_misses_walk_completed"]  # first touches
    assert many > 3000 * 64  # 64 calls, and a second level of 1,536 entries


def test_two_page_tables_flush_where_the_cpu_has_no_numbers(tmp_path):
    kpti = own(tmp_path, "kpti = true\n[source]\nkpti = 'a test'\n")
    old, new = run(machine="core2-q8200", system=kpti).counters, run(system=kpti).counters
    assert old["tlb_flushes"] == 2 * 64 and new["tlb_flushes"] == 0
    assert old["dtlb_store_misses_walk_completed"] > 64  # each call begins with empty TLBs
    off = own(tmp_path, "kpti = true\npcid = false\n[source]\nkpti = 'a test'\npcid = 'a test'\n")
    assert run(system=off).counters["tlb_flushes"] == 2 * 64


def test_each_thread_has_a_stack_of_its_own():
    events = np.zeros(4, EVENT)
    stack = surround.VMALLOC + 0x3FF8
    events["vaddr"], events["space"] = [stack, stack, surround.VMALLOC_END, stack], [KERNEL, KERNEL, KERNEL, PM]
    events["op"] = [0, 1, 1, 1]
    surround.own_stacks(events, np.array([0, 7]))
    assert events["vaddr"].tolist() == [stack, stack + 7 * (32 << 10), surround.VMALLOC_END, stack]


def test_stacks_of_threads_are_pages_of_footprints(tmp_path):
    """Two threads that take turns touch a set of stack pages each."""
    trace = Workload(op="append", unit=4096, total=1 << 18)
    rows = joined(list(trace.batches()))
    rows["thread"] = np.arange(len(rows)) % 2
    several = types.SimpleNamespace(
        header={}, files=trace.files, rows=len(rows), batches=lambda chunk=0: iter([rows.view(np.recarray)])
    )
    system = own(tmp_path, "thread_stacks = true\n[source]\nthread_stacks = 'a test'\n")
    one, two = (
        scmsim.replay(several, "tmpfs", footprints="6.1", system=name).runs[0].metrics for name in ("alone", system)
    )
    assert two["dtlb_kernel_walks"] > one["dtlb_kernel_walks"] and two["dtlb_lookups"] == one["dtlb_lookups"]


def test_a_fifth_level_is_one_more_entry_of_a_cold_walk(tmp_path):
    deep = run(system=own(tmp_path, "levels = 5\n[source]\nlevels = 'a test'\n")).counters
    assert deep["page_walker_loads_pml5e"] > 0 and not run().counters["page_walker_loads_pml5e"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hz = 250", "say where hz comes from"), ("hz = -1\n[source]\nhz = 'x'", "hz"), ("herz = 250", "hz"),
        ("kpti = 1\n[source]\nkpti = 'x'", "kpti"), ("levels = 3\n[source]\nlevels = 'x'", "levels"),
    ],
)  # fmt: skip
def test_a_table_with_mistakes_is_refused(tmp_path, text, said):
    with pytest.raises(UsageError, match=said):
        systems.read(own(tmp_path, text))


def test_an_unknown_system_is_refused():
    with pytest.raises(UsageError, match="no system named 'buzy'; did you mean 'busy'"):
        run(system="buzy")
