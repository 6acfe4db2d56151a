"""What every file-system model must do, whatever it models: one test over all plug-ins of the kind."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scmsim
from scmsim.core import records, registry
from scmsim.core.counters import MILLI_FIELDS, SCHEMA
from scmsim.core.errors import UsageError
from scmsim.core.records import CONTINUES, SETUP, joined
from tests import plain_records
from tests.conftest import NO_JIT
from tests.fs import drive, laws


def page(fs):
    """Bytes of a model's data page."""
    return getattr(registry.load("fs", fs), "PAGE_BYTES", 4096)


# Plain Python takes minutes for the lines of a page of 1 GiB.
SYSTEMS = [fs for fs in registry.names("fs") if not (NO_JIT and page(fs) > 2 << 20)]
# File systems none of whose mechanisms stores anything persistent keep their data in DRAM.
IN_DRAM = {fs for fs in SYSTEMS if set(registry.load("fs", fs).SITES.values()) == {"none"}}
# File systems whose files end before 2**63 bytes.
LIMITED = {fs for fs in SYSTEMS if hasattr(registry.load("fs", fs), "LARGEST_FILE")}
# File systems whose writes are done whole or not at all.
WHOLE = {
    "ctfs",
    "device-dax",
    "famfs",
    "hugetlbfs",
    "nova-cow",
    "nova-fast16",
    "nova-inplace",
    "scm-manager",
    "scmfs",
    "scmfs-lp",
    "simfs",
}
# Mechanisms that store the time of each look, without writing it back.
STAMPS = {"ctfs": {"inode"}}
# Request the blocks of a whole write at once: a request that does not fit is halved until it does, and the truncation after a short
# write drops what was preallocated (Linux 6.1 ext4_mb_new_blocks, ext4_handle_inode_extension).
HALVING = {"ext2-dax", "ext4-dax", "ext4-dax-linux4", "splitfs"}
FILES = 6  # 0 is a directory, 4 existed before with 100,000 bytes, 5 with 4096
SIZES = (0, -1, -1, -1, 100_000, 4096)


def side():
    return drive.files(*SIZES, dirs=[0])


def mixed(seed, count, holes=False):
    """A trace of `count` operations of every kind on few files; without `holes`, no file has any."""
    random, rows, sizes = np.random.default_rng(seed), [], list(SIZES)
    kinds = (
        ["append"] * 5
        + ["over"] * 3
        + ["read"] * 3
        + ["fsync", "truncate", "unlink", "rename", "stat", "close", "open"]
    )
    kinds += ["fallocate", "link"] if holes else []
    while len(rows) < count:
        kind, file = str(random.choice(kinds)), int(random.integers(1, FILES))
        length = int(random.choice([1, 100, 512, 1024, 4096, 5000, 65_536, 300_000]))
        if sizes[file] < 0:
            rows.append(("create", file, 0, 0, 0))
            sizes[file] = 0
        if kind == "append":
            rows.append(("write", file, sizes[file], length))
            sizes[file] += length
        elif kind == "over":
            rows.append(("write", file, int(random.integers(0, sizes[file] + 1)), length))
            sizes[file] = max(sizes[file], rows[-1][2] + length)
        elif kind == "read":
            rows.append(("read", file, int(random.integers(0, sizes[file] + 5000)), length))
        elif kind == "truncate":
            sizes[file] = int(random.integers(0, sizes[file] + 1))
            rows.append(("truncate", file, sizes[file]))
        elif kind == "unlink":
            rows.append(("unlink", file, 0, 0, 0))
            sizes[file] = -1
        elif kind == "rename":
            other = int(random.choice([other for other in range(1, FILES) if other != file]))
            rows.append(("rename", file, 0, 0, other))
            sizes[other] = -1
        elif kind == "fallocate":
            rows.append(("fallocate", file, int(random.integers(0, 400_000)), length))
        else:
            rows.append((kind, file, 0, 0, 0 if kind == "link" else -1))
    batch = drive.ops(*rows[:count])
    batch.thread = random.integers(0, 4, count)
    batch.time_ns = np.cumsum(random.choice([1_000, 1_000_000, 700_000_000], count, p=[0.6, 0.35, 0.05]))
    return batch


def held(fs, length, closed=False):
    """Bytes that a file of `length` bytes without holes takes; some models reclaim the rest of a closed one's last page."""
    unit = getattr(registry.load("fs", fs), "TAIL_BYTES", page(fs)) if closed else page(fs)
    return -(-length // unit) * unit


def full(fs, size):
    """(capacity, bytes between two writes) that fill a device: `size`, 4096; four pages of 1 GiB where a page is that large."""
    return (4 << 30, 1 << 30) if page(fs) > size // 8 else (size, 4096)


def replay(fs, batch, files=None, params=None, **more):
    params = {fs: {**drive.GROWING.get(fs, {}), **(params or {}).get(fs, {})}}
    return scmsim.replay(drive.source(files or side(), batch), fs, params=params, **more).runs[0]


def loaded(fs, events, sites):
    """Bytes loaded from where the model keeps its data, with what belongs to it."""
    if fs not in IN_DRAM:
        return sum(drive.persistent(events, sites)["loaded"].values())
    copied = (events["code"] == records.LOAD) & (events["space"] == records.KERNEL)
    return int(events["length"][copied & (events["site"] == sites.index("copy"))].sum())


def figures(run):
    """Everything of a run that must not depend on how it was computed."""
    return run.counters, run.sites, run.stored_bytes, run.space, run.errors, run.operations, run.calls, run.payload


COUNT = 60 if NO_JIT else 1500


@pytest.mark.parametrize("fs", SYSTEMS)
def test_counters_do_not_depend_on_the_chunk(fs):
    batch = mixed(1, COUNT, holes=True)
    runs = [figures(replay(fs, batch, chunk=chunk)) for chunk in (1 << 14, 64, 1000, 1 << 14)]
    assert runs[0] == runs[1] == runs[2] == runs[3]
    assert (runs[0][0]["pm_stored_bytes"] > 0) == (fs not in IN_DRAM)


@pytest.mark.parametrize("fs", SYSTEMS)
def test_every_small_buffer_gives_the_same_events(fs):
    """One operation at a time or all at once, in a buffer of two events or of many."""
    batch = mixed(2, COUNT // 3, holes=True)
    wide = drive.Model(fs, side(), room=1 << 15)
    narrow = drive.Model(fs, side(), room=2)
    together = wide.feed(batch)
    one_by_one = joined([narrow.feed(batch[i : i + 1]) for i in range(len(batch))]).view(np.recarray)
    names = [name for name in together.dtype.names if name != "op"]  # the row in its batch
    assert together[names].tolist() == one_by_one[names].tolist()
    assert wide.space() == narrow.space()


@pytest.mark.parametrize("fs", SYSTEMS)
def test_each_event_belongs_to_its_operation(fs):
    """The rows that cause events come in order, and an event's site and space are known ones."""
    model = drive.Model(fs, side())
    events = model.feed(mixed(3, COUNT // 3))
    assert (np.diff(events["op"]) >= 0).all() and events["op"].min() >= 0
    assert events["site"].max() < len(model.sites) and events["space"].max() < len(records.SPACES)
    assert (events["code"] <= records.WORK).all() and (events["length"] >= 0).all()
    persistent = events[
        (events["space"] == records.PM) & np.isin(events["code"], [records.LOAD, records.STORE, records.NTSTORE])
    ]
    assert (persistent["addr"] >= 0).all()
    assert (persistent["addr"] + persistent["length"] <= model.space()["capacity_bytes"]).all()


@settings(max_examples=5 if NO_JIT else 15)
@pytest.mark.parametrize("fs", SYSTEMS)
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 60))
def test_live_bytes_fit_what_is_allocated(fs, seed, count):
    """After each operation on files without holes."""
    model = drive.Model(fs, side(), capacity=(64 << 20) * page(fs) // 4096)
    for row in mixed(seed, count):
        model.feed(np.array([row]).view(np.recarray))
        space = model.space()
        assert 0 <= space["live_bytes"] <= space["allocated_bytes"] <= space["capacity_bytes"]
        assert int(model.record.free_blocks) * min(4096, page(fs)) + space["allocated_bytes"] <= space["capacity_bytes"]
        assert space["waste_bytes"] >= 0
    assert int(model.record.failed) == 0


@settings(max_examples=3 if NO_JIT else 10)
@pytest.mark.parametrize("fs", SYSTEMS)
@given(seed=st.integers(0, 1 << 30))
def test_what_is_unlinked_comes_back(fs, seed):
    """After all files are gone, nothing is allocated for data."""
    model = drive.Model(fs, side(), capacity=(64 << 20) * page(fs) // 4096)
    model.feed(mixed(seed, 60, holes=True))
    model.feed(
        drive.ops(*[(op, file, 0, 0, 0) for file in range(1, FILES) for op in ("close",) * 25 + ("unlink",) * 25])
    )
    space = model.space()
    assert (space["allocated_bytes"], space["live_bytes"], space["files"]) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("capacity", ["4MiB", "8MiB", "16MiB"])
@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_full_device_is_an_error_in_the_result(fs, capacity):
    batch = drive.ops(("create", 1), *[("write", 1, i << 16, 1 << 16) for i in range(400)], ("fsync", 1), ("stat", 1))
    try:
        run = replay(fs, batch, params={fs: {"capacity": capacity}})
    except UsageError as error:
        assert capacity in str(error) and ("larger capacity" in str(error) or "out of range" in str(error))
        return
    assert run.errors["ENOSPC"] >= 100 and 0 <= run.errors["first ENOSPC"] < 400
    assert any("device is full" in warning and f"--set {fs}.capacity" in warning for warning in run.warnings)
    assert run.space["live_bytes"] <= run.space["allocated_bytes"] <= run.space["capacity_bytes"]


def without_windows(space):
    """Return a report of space in which preallocated blocks are free, and without the runs of free blocks."""
    kept = {key: value for key, value in space.items() if key not in ("largest_free_bytes", "preallocated_bytes")}
    if "free_bytes" in space:
        kept["free_bytes"] += space.get("preallocated_bytes", 0)
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_what_fits_of_a_write_is_written_as_a_write_of_that_length_is(fs):
    """It ends with a block, and the block behind it does not fit; families that write all or nothing refuse the write.

    Where HALVING puts blocks depends on the length of the request, but not how many bytes it stores.
    """
    capacity, unit = full(fs, 16 << 20)[0], max(page(fs), 4096)
    length = 700_000 if unit == 4096 else unit * 5 // 4
    model, before = drive.Model(fs, side(), capacity=capacity), drive.Model(fs, side(), capacity=capacity)
    rows, events = [("create", 1)], model.feed(drive.ops(("create", 1)))
    while not (model.short or model.record.failed):
        rows.append(("write", 1, (len(rows) - 1) * length, length))
        events = model.feed(drive.ops(rows[-1]))
    begin, done = rows.pop()[2], model.short.get(0, 0)
    assert (int(model.record.short), int(model.record.failed)) == ((0, 1) if fs in WHOLE else (1, 0))
    assert int(model.record.failed_bytes) == length - done and model.space()["file_bytes"] == begin + done
    laws.space(model.space())
    if fs in WHOLE:
        return
    assert 0 < done < length and (begin + done) % unit == 0
    before.feed(drive.ops(*rows))
    fitting = before.feed(drive.ops(("write", 1, begin, done)))
    if fs in HALVING:
        assert drive.persistent(fitting, before.sites)["stored"] == drive.persistent(events, model.sites)["stored"]
        assert model.space().get("preallocated_bytes", 0) == 0
    else:
        assert fitting["addr"].tolist() == events["addr"].tolist()
    assert without_windows(before.space()) == without_windows(model.space()) and not before.record.short
    model.feed(drive.ops(("write", 1, begin + done, unit)))
    assert model.record.failed or fs in ("xfs", "xfs-dax")  # where the pages of a hole get their blocks at once


@pytest.mark.slow
@pytest.mark.parametrize("fs", [fs for fs in SYSTEMS if fs not in {*WHOLE, *HALVING} and page(fs) < 1 << 30])
def test_a_write_far_longer_than_the_device_is_one_of_what_fits(fs):
    """Its first page exists, so the blocks that are requested at once do not end with a slice of the write."""
    capacity, most = 17 << 20, (1 << 31) - 4096
    model, before = drive.Model(fs, side(), capacity=capacity), drive.Model(fs, side(), capacity=capacity)
    rows = drive.ops(("create", 1), ("write", 1, 0, 100))
    model.feed(rows)
    before.feed(rows)
    events = model.feed(drive.ops(("write", 1, 0, most)))
    if fs in ("vsm", "winefs", "winefs-relaxed"):  # a write that replaces blocks is done whole or refused
        assert not model.short and int(model.record.failed_bytes) == most
        return
    done = model.short[0]
    assert 1 << 20 < done < 1 << 30 and int(model.record.failed_bytes) == most - done
    fitting = before.feed(drive.ops(("write", 1, 0, done)))
    assert drive.persistent(fitting, before.sites)["stored"] == drive.persistent(events, model.sites)["stored"]
    assert without_windows(before.space()) == without_windows(model.space())


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_full_device_refuses_growth_and_names_and_goes_on(fs):
    """Small files that grow by one page and more, and calls on files whose creation was refused: each one ends."""
    capacity, step = full(fs, 16 << 20)
    small, large = range(1, 20), 20
    model = drive.Model(fs, drive.files(0, *[-1] * 500, dirs=[0]), capacity=capacity)
    rows = [(op, file, 0, 3000, 0) for file in small for op in ("create", "write")]
    rows += [("create", large, 0, 0, 0), ("write", large, 0, step)]
    rows += [("write", large, k * step, 4096) for k in range(1, capacity // step)]
    rows += [("write", file, 3000 + 4096 * k, 4096 * k) for k in (1, 5, 20) for file in small]
    rows += [(op, file, 0, 1, 0) for file in range(large + 1, 500) for op in ("create", "open", "write", "link")]
    for i in range(0, len(rows), 64):
        model.feed(drive.ops(*rows[i : i + 64]))
        space = model.space()
        assert 0 <= space["live_bytes"] <= space["allocated_bytes"] <= space["capacity_bytes"]
    assert int(model.record.failed) > 0


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_full_device_works_again_after_an_unlink(fs):
    capacity, step = full(fs, 32 << 20)
    model = drive.Model(fs, side(), capacity=capacity)
    model.feed(
        drive.ops(("create", 1), *[("write", 1, i * step, 1 << 12) for i in range(8200)], ("fsync", 1), ("close", 1))
    )
    failed = int(model.record.failed)
    assert failed > 0
    model.feed(drive.ops(("read", 1, 0, 4096), ("stat", 1), ("unlink", 1, 0, 0, 0)))
    assert int(model.record.failed) == failed, "a read, stat or unlink failed for want of space"
    model.feed(drive.ops(("create", 2, 0, 0, 0), *[("write", 2, i << 12, 1 << 12) for i in range(100)], ("fsync", 2)))
    assert int(model.record.failed) == failed
    assert model.space()["live_bytes"] == 100 << 12


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_what_needs_no_space_does_not_fail_for_want_of_it(fs):
    """Full devices of several sizes, so that the log's last page is full in some of them and not in others."""
    for extra in range(0, 130, 10):
        capacity, step = full(fs, 16 << 20)
        model = drive.Model(fs, side(), capacity=capacity + extra * 4096)
        model.feed(drive.ops(("create", 1), *[("write", 1, i * step, 1 << 12) for i in range(4300)]))
        failed = int(model.record.failed)
        model.feed(drive.ops(("read", 1, 0, 4096), ("fsync", 1), ("stat", 1), ("open", 1), ("close", 1)))
        model.feed(drive.ops(("fallocate", 1, 0, 1 << 20), ("load", 1, 0, 64), ("mmap", 1, 0, 4096)))
        assert int(model.record.failed) == failed > 0, extra


@pytest.mark.parametrize("fs", SYSTEMS)
def test_setup_counts_nothing_but_does_everything(fs):
    batch = mixed(4, COUNT // 2)
    quiet = batch.copy()
    quiet.flag |= SETUP
    run, loud = replay(fs, quiet), replay(fs, batch)
    assert not any(run.counters.values()) and not run.sites and not any(run.stored_bytes.values())
    assert (run.operations, run.calls, run.payload) == (0, 0, {"written": 0, "read": 0})
    assert run.space == loud.space
    first, second = batch.copy(), batch.copy()
    first.flag[: len(batch) // 2] |= SETUP
    second.flag[len(batch) // 2 :] |= SETUP
    halves = [replay(fs, half).counters for half in (first, second)]
    for field in SCHEMA:  # thousandths are rounded at the end
        off = abs(halves[0][field] + halves[1][field] - loud.counters[field])
        assert off <= (1 if field in MILLI_FIELDS else 0), field


@pytest.mark.parametrize("fs", SYSTEMS)
def test_breakdowns_add_up(fs):
    batch = mixed(5, COUNT // 2)
    runs = {by: replay(fs, batch, by=by) for by in ("site", "op", "file")}
    total = runs["site"].counters
    for by, run in runs.items():
        assert run.counters == total
        for parts in (run.sites, run.groups) if by != "site" else (run.sites,):
            for field in SCHEMA:
                slack = len(parts) if field in MILLI_FIELDS else 0
                assert abs(sum(part[field] for part in parts.values()) - total[field]) <= slack, (by, field)
    assert sum(runs["op"].stored_bytes.values()) == total["pm_stored_bytes"]


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_call_that_continues_is_the_same_call(fs):
    batch = drive.ops(("create", 1), ("write", 1, 0, 4096), ("fsync", 1, 0, 0, -1, CONTINUES))
    run = replay(fs, batch)
    assert (run.operations, run.calls) == (3, 2)


@pytest.mark.parametrize("fs", SYSTEMS)
@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 1_000_000])
def test_a_file_from_before_is_there_at_no_cost(fs, size):
    """Looking at it stores nothing, and reading it loads all its bytes from persistent memory."""
    files = drive.files(0, size, dirs=[0])
    model = drive.Model(fs, files)
    looked = drive.persistent(model.feed(drive.ops(("stat", 1), ("open", 1))), model.sites)
    assert set(looked["stored"]) <= STAMPS.get(fs, set()) and not looked["flushes"]
    events = model.feed(drive.ops(("read", 1, 0, 2 * size)))
    found = drive.persistent(events, model.sites)
    assert not found["stored"] and not found["flushes"]
    pages = -(-size // 4096) * 4096
    assert size <= loaded(fs, events, model.sites) <= pages + 64 * (pages // 4096 + 8)
    space = model.space()
    assert (
        space["live_bytes"] in (size, pages)
        and space["files"] == 1
        and space["allocated_bytes"] == held(fs, size, closed=True)
    )


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_create_of_a_file_from_before_opens_it(fs):
    """open(O_CREAT) of a file that exists is an open."""
    model = drive.Model(fs, drive.files(0, 50_000, dirs=[0]))
    model.feed(drive.ops(("create", 1, 0, 0, 0)))
    events = model.feed(drive.ops(("read", 1, 0, 50_000)))
    assert loaded(fs, events, model.sites) >= 50_000


@pytest.mark.parametrize("fs", SYSTEMS)
def test_an_empty_trace_and_empty_operations(fs):
    assert not any(replay(fs, drive.ops()).counters.values())
    run = replay(fs, drive.ops(("create", 1), ("write", 1, 0, 0), ("read", 1, 0, 0), ("read", 1, 1 << 30, 4096)))
    assert run.space["live_bytes"] == run.space["allocated_bytes"] == 0


FAR = [("create", 1), ("write", 1, 0, 100), ("read", 1, 1 << 45, 4096)]


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_read_far_behind_the_end_takes_no_memory(fs):
    """pread() at 32 TiB of a short file returns 0."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(*FAR[:2]))
    before = len(model.state.arena)
    batch, taken = drive.ops(FAR[2]), model.state.grow
    model.state.grow = lambda words: taken(words) if words < 1 << 24 else pytest.fail(f"{words} words for a read")
    model.feed(batch)
    assert len(model.state.arena) == before


@pytest.mark.parametrize("fs", SYSTEMS)
def test_lengths_far_beyond_the_device_cost_nothing(fs):
    """A read is cut at the end of the file; a write or fallocate beyond the largest file fails."""
    rows = [
        ("create", 1),
        ("write", 1, 0, 4096),
        ("read", 1, 0, 1 << 50),
        ("write", 1, 0, 1 << 50),
        ("fallocate", 1, 0, 1 << 50),
    ]
    run = replay(fs, drive.ops(*rows))
    assert run.errors["EFBIG"] == 2 and run.space["live_bytes"] == 4096


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_fallocate_without_a_length_fails(fs):
    """EINVAL, so nothing is allocated, wherever it begins; and the file can go."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 1), ("fallocate", 1, 239, 0), ("fallocate", 1, 1 << 20, 0)))
    assert model.space()["allocated_bytes"] == 0
    model.feed(drive.ops(("truncate", 1, 1642), ("unlink", 1)))
    assert model.space()["allocated_bytes"] == 0


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_call_beyond_the_largest_file_fails_alone(fs):
    """Where the limit is the model's and not the file system's, a warning says so."""
    run = replay(fs, drive.ops(("create", 1), ("write", 1, 1 << 60, 4096), ("truncate", 1, 1 << 60)))
    assert run.errors == {"EFBIG": 2} and run.payload["written"] == 0
    assert any("16 TiB" in warning for warning in run.warnings) is (fs not in LIMITED)


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_file_unlinked_while_open_lives_until_its_close(fs):
    """What tmpfile() does: create, unlink, use, close."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 2, 0, 0, 0), ("close", 2)))  # a trace that has closes at all
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 8192), ("fsync", 1), ("unlink", 1, 0, 0, 0)))
    model.feed(drive.ops(("write", 1, 8192, 4096)))
    assert model.space()["allocated_bytes"] == held(fs, 3 * 4096)
    model.feed(drive.ops(("close", 1)))
    assert model.space()["allocated_bytes"] == model.space()["live_bytes"] == 0


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_file_from_before_that_is_replaced_does_not_come_back(fs):
    """It was never looked at: the file that gets its number is a new one."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 5000), ("rename", 1, 0, 0, 4), ("create", 4, 0, 0, 0)))
    assert (model.space()["files"], model.space()["live_bytes"]) == (2, 5000)


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_file_replaced_while_open_lives_until_its_close(fs):
    model = drive.Model(fs, side())
    rows = [("create", 1), ("write", 1, 0, 8192), ("create", 2), ("write", 2, 0, 4096), ("close", 2), ("fsync", 1)]
    model.feed(drive.ops(*rows, ("fsync", 2), ("rename", 2, 0, 0, 1)))
    assert model.space()["allocated_bytes"] == held(fs, 8192) + held(fs, 4096, closed=True)
    model.feed(drive.ops(("close", 1)))
    assert model.space()["allocated_bytes"] == held(fs, 4096, closed=True) and model.space()["files"] == 1


@pytest.mark.parametrize("fs", SYSTEMS)
def test_holes_are_not_live(fs):
    model, holes = drive.Model(fs, side()), getattr(registry.load("fs", fs), "HOLES", True)
    gap = 1 << 30 if holes else 1 << 20  # a file system without holes fills it
    model.feed(drive.ops(("create", 1), ("write", 1, gap, 4096), ("fsync", 1)))
    assert 4096 <= model.space()["live_bytes"] <= max(4096, page(fs)) + gap * (not holes)


HUGE = 32 << 30
HUGE_OPS = {
    "fallocate": [
        ("create", 1),
        ("fallocate", 1, 0, HUGE),
        ("truncate", 1, 4096),
        ("fallocate", 1, 0, HUGE),
        ("unlink", 1),
    ],
    "from before": [("read", 2, 0, 4096), ("truncate", 2, 4096), ("unlink", 2)],
}


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
@pytest.mark.parametrize("rows", HUGE_OPS.values(), ids=HUGE_OPS)
def test_operations_on_32_gib_take_moderate_memory(fs, rows):
    """Events go out in pieces, and the arena holds little more than the 64 MiB of the file's page map.

    On file systems with smaller pages as many pages: fewer GiB.
    """
    share = min(4096, page(fs))
    rows = [tuple(HUGE // 4096 * share if part == HUGE else part for part in row) for row in rows]
    model = drive.Model(fs, drive.files(0, -1, HUGE // 4096 * share, dirs=[0]), room=1 << 14)
    grow, make = model.state.grow, model.buffer
    model.state.grow = lambda words: grow(words) if words <= 1 << 25 else pytest.fail(f"{words} words")
    model.buffer = lambda room: make(room) if room <= 1 << 17 else pytest.fail(f"{room} events")
    for _ in model.events(drive.ops(*rows)):  # not kept: daxfs has 260 million, as it treats page by page
        pass
    assert int(model.record.failed) == 0 and model.space()["allocated_bytes"] == 0
    assert len(model.state.arena) <= 1 << 26


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_truncate_of_many_entries_goes_out_in_pieces(fs):
    """40,000 pages written backwards: as many entries or extents, in a buffer of 4096 events."""
    model = drive.Model(fs, side())
    count = 2000 if NO_JIT else 40_000
    model.feed(drive.ops(("create", 1), *[("write", 1, (count - i) << 12, 4096) for i in range(count)], ("fsync", 1)))
    make = model.buffer
    make(1 << 12)
    model.buffer = lambda room: make(room) if room <= 1 << 15 else pytest.fail(f"{room} events")
    model.feed(drive.ops(("truncate", 1, 5000), ("read", 1, 0, 1 << 30), ("unlink", 1)))
    assert model.space()["allocated_bytes"] == 0


@pytest.mark.parametrize("fs", SYSTEMS)
@pytest.mark.parametrize("capacity", ["1TiB", "100T", "4000T"])
def test_a_device_of_many_terabytes_works_or_is_an_error_that_names_the_limit(fs, capacity):
    try:
        model = drive.Model(fs, side(), capacity=capacity)
    except UsageError as error:
        assert "\n" not in str(error) and ("16TiB" in str(error) or "1PiB" in str(error)) and capacity != "1TiB"
        return
    model.feed(drive.ops(("create", 1), ("write", 1, 0, 1 << 20), ("fsync", 1)))
    assert model.space()["live_bytes"] == 1 << 20 and len(model.state.arena) <= 1 << 26


@pytest.mark.parametrize("fs", SYSTEMS)
def test_loads_and_stores_through_a_mapping_are_no_calls(fs):
    """What a program does to its mapped memory does not enter the file system."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 1), ("write", 1, 0, 8192), ("fsync", 1)))
    assert len(model.feed(drive.ops(("load", 1, 0, 64), ("store", 1, 64, 64)))) == 0


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_rename_onto_itself_changes_nothing(fs):
    """rename() of two names of the same inode does nothing (POSIX)."""
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 5000), ("rename", 1, 0, 0, 1)))
    assert model.space()["live_bytes"] in (5000, 8192) and model.space()["files"] == 1


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_record_has_no_field_that_numpy_hides(fs):
    names = drive.Model(fs, side()).state.record.dtype.names
    assert not plain_records.HIDDEN.intersection(names)


@pytest.mark.parametrize("fs", SYSTEMS)
def test_what_a_model_declares(fs):
    module, table = registry.load("fs", fs), registry.literals("fs", fs)
    assert module.SITES and set(module.SITES.values()) <= set(records.KINDS) and len(module.SITES) < 256
    assert module.SUMMARY and "\n" not in module.SUMMARY and module.SUMMARY == table["SUMMARY"]
    assert table["PARAMS"].keys() == module.PARAMS.keys() >= {"capacity"}
    for name, (default, unit, meaning) in module.PARAMS.items():
        assert scmsim.core.units.parse_param(default, unit) is not None and meaning, name
    head = registry.path("fs", fs).read_text(encoding="utf-8")
    assert head.startswith("# Models ") and "\n# Units: " in head and "\n# Source: " in head


PLAIN_SCRIPT = """
import json, sys
from tests.conformance import test_fs
run = test_fs.replay(sys.argv[1], test_fs.mixed(6, 40, holes=True))
print(json.dumps([run.counters, run.sites, run.stored_bytes, run.space]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("fs", SYSTEMS)
def test_compiled_and_plain_kernels_agree(fs):
    if page(fs) > 2 << 20:
        pytest.skip("plain Python takes minutes for the lines of a page of 1 GiB")
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", PLAIN_SCRIPT, fs], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    run = replay(fs, mixed(6, 40, holes=True))
    assert json.loads(done.stdout) == [run.counters, run.sites, run.stored_bytes, run.space]
