"""Virtual superpages against what the VSM paper states exactly, and the order in which its steps reach persistent memory."""

import numpy as np
import pytest

import scmsim
from scmsim.core import registry
from scmsim.core.records import (
    CONTIGUOUS,
    EVENT,
    EVENT_COLUMNS,
    FENCE,
    FLUSH,
    LOAD,
    MAP,
    ORDER,
    PM,
    REMAP,
    SCM_TABLE,
    STORE,
)
from scmsim.fs.pmfs import state as pmfs_state
from tests.fs import drive

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PTE, SUPERPAGE = 8, 512


def model(fs="vsm", *sizes, **params):
    return drive.Model(fs, drive.files(0, *(sizes or (-1,)), dirs=[0]), **params)


def at_site(fs, events, site, *codes):
    """(address, length) of the events of a mechanism."""
    chosen = events[(events["site"] == fs.sites.index(site)) & np.isin(events["code"], codes)]
    return [(int(e.addr), int(e.length)) for e in chosen]


def superpages(fs, file=1):
    """First virtual page of each superpage of a file."""
    table = fs.state.arena[int(fs.record.files) + pmfs_state.FILE_WORDS * file + pmfs_state.BLOCKS]
    return [int(page) for page in fs.state.arena[table : table + 4]]


def test_the_worked_example():
    """VSM-25: 4 MiB at 3 MiB of an 8 MiB file: entries 256 to 511, one slot of the index, entries 0 to 255."""
    fs = model(capacity="1GiB")
    fs.feed(drive.ops(("create", 1), ("write", 1, 0, 8 * MIB)))
    before = superpages(fs)
    events = fs.feed(drive.ops(("write", 1, 3 * MIB, 4 * MIB)))
    after, table = superpages(fs), int(fs.record.page_table)
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False, True]
    stored = at_site(fs, events, "mcow swap", STORE)
    entries = {(addr - table) // PTE + k for addr, length in stored if addr >= table for k in range(length // PTE)}
    changed = {
        i: sorted(e - first for e in entries if first <= e < first + SUPERPAGE) for i, first in enumerate(before)
    }
    assert changed == {0: [], 1: list(range(256, 512)), 2: [], 3: list(range(256))}
    assert len(entries) == 2 * 512  # those of the pages written, too
    slots = at_site(fs, events, "mcow index", STORE)
    assert [(addr % 4096, length) for addr, length in slots] == [(2 * 8, 8)]
    remapped = sum(length for _, length in at_site(fs, events, "mcow swap", REMAP))
    assert remapped == 2 * 2 * MIB and fs.space()["swapped_ptes"] == 512


@pytest.mark.parametrize(
    ("fs", "pages", "pmds", "ptes"),
    [
        ("vsm-1g", 513, 1, 1),
        ("vsm-1g", 512, 1, 0),
        ("vsm-1g", 511, 0, 511),
        ("vsm-1g", 5000, 9, 392),
        ("vsm", 511, 0, 511),
    ],
)
def test_a_migration_swaps_entries_of_2_mib(fs, pages, pmds, ptes):
    """VSM-26: 513 pages in a superpage of 1 GiB are one PMD and one PTE."""
    fs = model(fs)
    fs.feed(drive.ops(("create", 1), ("write", 1, 0, pages * 4096), ("close", 1)))
    assert fs.space()["allocated_bytes"] == pages * 4096
    before = fs.space()  # closing may have packed the file
    events = fs.feed(drive.ops(("open", 1), ("write", 1, pages * 4096, 100)))
    after = {key: fs.space()[key] - before[key] for key in ("swapped_pmds", "swapped_ptes", "migrations")}
    assert tuple(after.values()) == (pmds, ptes, 1)
    entries = sum(length for _, length in at_site(fs, events, "zfdm swap", STORE)) // PTE
    assert entries == 2 * (pmds + ptes)  # both superpages' entries
    assert sum(length for _, length in at_site(fs, events, "zfdm swap", REMAP)) == 2 * pages * 4096


STEPS = ["mcow log", "mcow data", "mcow commit", "mcow swap", "mcow complete"]


@pytest.mark.parametrize(("offset", "length"), [(3 * MIB, 4 * MIB), (100, 1000), (2 * MIB, 2 * MIB), (0, 9 * MIB)])
def test_steps_are_fenced_in_their_order(offset, length):
    """Log, data, commit, swap, complete: each is stored, written back and fenced before the next one is stored."""
    fs = model(capacity="1GiB")
    fs.feed(drive.ops(("create", 1), ("write", 1, 0, 8 * MIB)))
    events = fs.feed(drive.ops(("write", 1, offset, length)))
    kinds = {"mcow copy": "mcow data", "mcow index": "mcow swap"}
    order = []
    for event in events:
        site = fs.sites[event.site]
        step = kinds.get(site, site)
        if step in STEPS and event.code in (STORE, FLUSH, FENCE):
            order.append((step, int(event.code)))
    fences = [step for step, code in order if code == FENCE]
    assert fences == STEPS
    done = {step: order.index((step, FENCE)) for step in STEPS}
    for i, (step, code) in enumerate(order):
        earlier = STEPS[: STEPS.index(step)]
        assert all(done[other] < i for other in earlier) and (code == FENCE or i < done[step])


@pytest.mark.parametrize(
    ("fs", "length", "extra"),
    [
        ("vsm", KIB, 3),
        ("vsm", 4 * KIB, 0),
        ("vsm", 2 * MIB, 0),
        ("vsm", MIB, 0),
        ("vsm-1g", KIB, 3),
        ("vsm-1g", 4 * KIB, 0),
    ],
)
def test_extra_bytes_of_an_overwrite(fs, length, extra):
    """VSM-1, VSM-2, VSM-3: as on 4 KiB pages."""
    rows = [("create", 1, 0, 0, 0, 2), ("write", 1, 0, 4 * MIB, -1, 2), ("write", 1, 2 * MIB, length)]
    run = scmsim.replay(drive.source(drive.files(0, -1, dirs=[0]), drive.ops(*rows)), fs).runs[0]
    assert run.metrics["cow_extra_ratio"] == extra


@pytest.mark.parametrize(("fs", "while_open"), [("vsm", 2095104), ("vsm-1g", 1073739776)])
def test_waste_of_a_file_of_1_gib_and_2_kib(fs, while_open):
    """VSM-4 to VSM-6, VSM-24: the waste of superpages while the file is open, that of 4 KiB pages once it is closed."""
    fs = model(fs)
    fs.feed(drive.ops(("create", 1), ("write", 1, 0, GIB), ("write", 1, GIB, 2 * KIB)))
    assert fs.space()["waste_bytes"] == while_open
    fs.feed(drive.ops(("close", 1)))
    assert fs.space()["waste_bytes"] == 2048 and fs.space()["preallocated_bytes"] == 0


def test_closed_files_take_what_they_take_in_4_kib_pages():
    """VSM-24, and free tails serve as single pages."""
    sizes = [int(size) for size in np.random.default_rng(3).integers(1, 6 * MIB, 40)]
    rows = [row for i, size in enumerate(sizes, 1) for row in (("create", i), ("write", i, 0, size), ("close", i))]
    reports = {}
    for name in ("pmfs-4k", "vsm"):
        fs = model(name, *[-1] * 40, capacity="1GiB")
        fs.feed(drive.ops(*rows))
        reports[name] = fs.space()
    for key in ("allocated_bytes", "waste_bytes", "live_bytes"):
        assert reports["vsm"][key] == reports["pmfs-4k"][key]


def test_the_page_table_maps_the_device_in_four_levels():
    fs = model(capacity="64GiB")
    pages = 64 * GIB // 4096
    assert fs.space()["page_table_bytes"] == (pages // 512 + pages // 512**2 + 1 + 1) * 4096
    assert fs.space()["capacity_bytes"] == 64 * GIB


def test_closed_small_files_share_superpages():
    """VSM-24: 2,000 files of 4 KiB fit a device as they do in 4 KiB pages, and whole superpages are left."""
    count, found = 2000, {}
    for name in ("vsm", "pmfs-4k"):
        fs = model(name, *[-1] * count, capacity="128MiB")
        rows = [row for i in range(1, count + 1) for row in (("create", i), ("write", i, 0, 4096), ("close", i))]
        fs.feed(drive.ops(*rows))
        assert int(fs.record.failed) == 0
        found[name] = fs.space()
    assert found["vsm"]["allocated_bytes"] == found["pmfs-4k"]["allocated_bytes"] == count * 4096
    assert found["vsm"]["packed_files"] > count - 10 and found["vsm"]["free_2m_bytes"] > 80 * MIB


def test_a_packed_file_grows_in_a_superpage_of_its_own():
    fs = model("vsm", -1, -1, capacity="256MiB")
    fs.feed(drive.ops(*[row for i in (1, 2) for row in (("create", i), ("write", i, 0, 8192), ("close", i))]))
    assert fs.space()["packed_files"] >= 1 and superpages(fs, 2)[0] == superpages(fs, 1)[0] + 2
    fs.feed(drive.ops(("open", 2), ("write", 2, 8192, 8192)))
    assert superpages(fs, 2)[0] % SUPERPAGE == 0 and fs.space()["migrations"] == 1
    assert fs.space()["allocated_bytes"] == 2 * MIB + 8192


def placed(rows, **params):
    """(order, flags) of events (code, addr, length, width) under the policy."""
    policy = registry.load("paging", "virtual-superpages")
    batch = np.zeros(len(rows), EVENT).view(np.recarray)
    for i, (code, addr, length, width) in enumerate(rows):
        batch[[*EVENT_COLUMNS]][i] = (code, 0, PM, 0, 0, width, addr, length, 0)
    policy.place(policy.start(params), batch, len(rows))
    return [(int(order) & ORDER, int(order) & ~ORDER) for order in batch.order]


def test_a_swap_takes_an_entry_of_2_mib_apart():
    """Half of a superpage is exchanged: it alone has entries of 4 KiB that are no neighbours."""
    look = [(LOAD, at, 64, 8) for at in (0, 2 * MIB, 4 * MIB)]
    rows = [(MAP, 0, GIB, 21), *look, (REMAP, 3 * MIB, MIB, 0), *look, (REMAP, 4 * MIB, 2 * MIB, 0), *look]
    orders = placed(rows)
    near, apart = CONTIGUOUS | SCM_TABLE, SCM_TABLE
    assert orders[1:4] == [(21, near)] * 3
    assert orders[5:8] == [(21, near), (12, apart), (21, near)] == orders[9:12]
    assert placed([(MAP, 0, GIB, 12), *look])[1:] == [(12, near)] * 3
    assert placed([(LOAD, 0, 64, 8)], page_tables="dram") == [(12, CONTIGUOUS)]


@pytest.mark.parametrize(
    ("shootdown", "machine", "invalidations", "interrupted"),
    [
        ("local", "i7-8700k", 32, 0),
        ("broadcast", "i7-8700k", 33, 5),
        ("deferred", "i7-8700k", 17, 5),
        ("broadcast", "zen4-epyc", 33, 0),
    ],
)
def test_swaps_invalidate_translations(shootdown, machine, invalidations, interrupted):
    """16 pages at both places, each forgotten by the own CPU; the others are told once, by one page more, or by INVLPGB."""
    rows = [("create", 1, 0, 0, 0, 2), ("write", 1, 0, 8 * MIB, -1, 2), ("write", 1, 3 * MIB, 64 * KIB)]
    side = drive.files(0, -1, dirs=[0])
    found = {}
    for fs in ("vsm", "pmfs-4k"):
        params = {"vsm": {"shootdown": shootdown}} if fs == "vsm" else {}
        source = drive.source(side, drive.ops(*rows))
        run = scmsim.replay(source, fs, paging="virtual-superpages", machine=machine, params=params).runs[0]
        found[fs] = {
            key: n for key, n in run.counters.items() if "shootdown" in key or "invalid" in key or "flush" in key
        }
    assert (found["vsm"]["tlb_invalidations"], found["vsm"]["tlb_shootdowns"]) == (invalidations, interrupted)
    assert found["pmfs-4k"]["tlb_invalidations"] == 0


def test_the_first_swap_in_2_mib_pays_for_its_page_of_entries():
    fs = model(capacity="256MiB", entries="2MiB")
    fs.feed(drive.ops(("create", 1), ("write", 1, 0, 8 * MIB)))
    first = drive.persistent(fs.feed(drive.ops(("write", 1, 3 * MIB, 4096))), fs.sites)
    second = drive.persistent(fs.feed(drive.ops(("write", 1, 3 * MIB, 4096))), fs.sites)
    assert first["stored"]["page table"] == 2 * (4096 + 8) and not second["stored"]["page table"]
    assert fs.space()["split_superpages"] == 2
