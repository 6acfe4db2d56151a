"""ext4 and ext4-dax: the measured rows, timed write-back and commits, names and opens, parameters."""

import csv
import pathlib
import time
import tomllib

import numpy as np
import pytest

from scmsim.core import records as r
from scmsim.core.errors import UsageError
from scmsim.fs.engine import costs
from scmsim.fs.ext4.state import default_journal
from scmsim.fs.ext4.templates import COSTS, SITES, all_templates
from scmsim.fs.linux.templates import TEMPLATES
from tests.conftest import NO_JIT
from tests.fs import drive, lab, lab_names

DATA = pathlib.Path(__file__).parents[2] / "verification" / "data"
SYSTEMS = ("ext4", "ext4-dax")
SECOND = 10**9
PAGE = 4096


def side():
    return drive.files(0, -1, -1, 100_000, dirs=[0])


def kinds_of(model, events):
    """Stored bytes by kind."""
    stored = drive.persistent(events, model.sites)["stored"]
    found = dict.fromkeys(("data", "metadata", "log", "zeroing"), 0)
    for site, count in stored.items():
        found[model.module.SITES[site]] += count
    return found


def at(seconds, *rows):
    """Operations at a time of the trace."""
    batch = drive.ops(*rows)
    batch.time_ns += int(seconds * SECOND)
    return batch


def measured(name):
    with open(DATA / name, newline="") as file:
        return {(row["fs"], row["op"], int(row["unit"])): row for row in csv.DictReader(file)}


def deviations(row, amounts):
    """(stored bytes, loads + stores, instructions) of a measured row, relative."""
    model = dict(zip(lab.AMOUNTS, amounts, strict=True))
    accesses = float(row["ld_norep_call"]) + float(row["st_norep_call"])
    stored = float(row["pmstB_call"])
    return (
        model["pmst"] / stored - 1 if stored else float(model["pmst"]),
        (model["ld"] + model["st"]) / accesses - 1,
        model["ins"] / float(row["ins_call"]) - 1,
    )


@pytest.mark.skipif(NO_JIT, reason="90,000 operations")
@pytest.mark.parametrize("fs", SYSTEMS)
def test_all_measured_transfers(fs):
    """Every pass and unit: stored bytes within 0.2 %, loads + stores and instructions within 3 %."""
    rows, (ops, labels) = measured("measured_513.csv"), lab.transfer_sequence((1024, 16384, 262144, 512))
    model = lab.begin(fs, lab.side_table(["/bench"]), capacity=2 << 30)
    sums = lab.per_op(model, ops)
    keys = [key for key in rows if key[0] == fs and key[1] != "null"]
    assert len(keys) == 16
    for key in keys:
        chosen = np.array([label == key[1:] for label in labels])
        calls = chosen.sum() / (2 if key[1] == "wsync" else 1)
        assert calls == float(rows[key]["calls"])
        stored, accesses, instructions = deviations(rows[key], sums[chosen].sum(0) / calls)
        assert abs(stored) < 0.002 and abs(accesses) < 0.03 and abs(instructions) < 0.03, key
        assert abs(sums[chosen, lab.AMOUNTS.index("ntst")].sum() / calls - float(rows[key]["ntst_call"])) < 30


@pytest.mark.skipif(NO_JIT, reason="200,000 operations")
@pytest.mark.parametrize("fs", ["ext4-linux4", "ext4-dax-linux4"])
def test_all_transfers_measured_on_linux_4(fs):
    """Stored bytes and write-backs follow from structure; loads + stores within 1 % with DAX."""
    rows, units = measured("measured_440.csv"), (512, 1024, 4096, 16384, 65536, 262144)
    ops, labels = lab.transfer_sequence(units)
    sums = lab.per_op(lab.begin(fs, lab.side_table(["/bench"]), capacity=2 << 30), ops)
    keys = [key for key in rows if key[0] == fs and key[2]]
    assert len(keys) == 24
    for key in keys:
        chosen = np.array([label == key[1:] for label in labels])
        calls = chosen.sum() / (2 if key[1] == "wsync" else 1)
        found = sums[chosen].sum(0) / calls
        stored, accesses, _ = deviations(rows[key], found)
        assert abs(stored) < 0.002 and abs(accesses) < (0.01 if "dax" in fs else 0.1), key
        assert abs(found[lab.AMOUNTS.index("flush")] - float(rows[key]["flush_call"])) < 0.1, key


@pytest.mark.skipif(NO_JIT, reason="20,000 operations")
@pytest.mark.parametrize("fs", SYSTEMS)
def test_all_measured_names(fs):
    """Each namespace pass within 5 %; the write-back after it within 10 % in stored bytes; fences exactly."""
    rows, (ops, labels, files) = measured("measured_namespace_ext4.csv"), lab_names.sequence()
    sums = lab.per_op(lab.begin(fs, files, capacity=2 << 30, copy_fence=1), ops)
    for (system, op, _), row in rows.items():
        chosen = np.array([label == op for label in labels])
        if system != fs or not chosen.any():
            continue
        amounts = sums[chosen].sum(0) / 1000
        stored, accesses, instructions = deviations(row, amounts)
        assert abs(stored) < 0.10, op
        if not op.endswith("_sync"):
            assert abs(accesses) < 0.05 and abs(instructions) < 0.05, op
            assert amounts[lab.AMOUNTS.index("sfence")] == pytest.approx(float(row["sfence_call"]), abs=0.001), op


def test_the_cost_table_names_what_the_model_charges():
    path = pathlib.Path(costs.__file__).parents[1] / "ext4" / "costs" / "ext4-5.13.toml"
    assert list(tomllib.loads(path.read_text(encoding="utf-8"))) == list(COSTS)
    charged = {
        step[2] for dax in (False, True) for steps in all_templates(dax).values() for step in steps if step[0] == r.WORK
    }
    assert charged == set(range(len(COSTS)))
    assert len(all_templates(True)) == TEMPLATES


def looked_at(fs, rows, count):
    """(entries compared, looked at for room, looked at before one that goes) of each operation in a directory of `count` files."""
    charged = ("search_entry", "place_entry", "remove_entry")

    def units(_, table):
        none = {cost: {**entry, "instructions": 0, "loads": 0, "stores": 0} for cost, entry in table.items()}
        ones = zip(charged, ("instructions", "loads", "stores"), strict=True)
        return none | {cost: none[cost] | {column: 1} for cost, column in ones if cost in table}

    with costs.changed(units):
        model = drive.Model(fs, drive.files(0, *[-1] * count, dirs=[0]))
    batch = drive.ops(*rows)
    events = model.feed(batch)
    found = np.zeros((len(batch), 3), int)
    for event in events[events.code == r.WORK]:
        found[event.op] += (int(event.addr) // 1000, int(event.length) // 1000, int(event.width) // 1000)
    return found.tolist()


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_directory_of_one_block_is_looked_at_entry_by_entry(fs):
    """Two dots in front, the checksum's entry behind; the dentry cache knows what was removed; gaps are filled."""
    made = [("create", i, 0, 0, 0) for i in range(1, 6)]
    gone = [("unlink", 2, 0, 0, 0), ("create", 2, 0, 0, 0), ("unlink", 1, 0, 0, 0), ("unlink", 3, 0, 0, 0)]
    more = [("rename", 4), ("unlink", 5, 0, 0, 0), ("mkdir", 6, 0, 0, 0), ("link", 6, 0, 0, 0), ("rmdir", 6, 0, 0, 0)]
    found = looked_at(fs, [*made, *gone, *more], 6)
    assert found[:5] == [[i + 3, i + 2, 0] for i in range(5)]
    assert found[5:8] == [[4, 0, 4], [0, 3, 0], [3, 0, 3]]
    assert found[8] == [4, 0, 4] and found[9][:2] == [2 * 6 + found[9][2], 2]  # files 2, 4, 5: 4 moves to the first gap
    assert all(searched > 3 for searched, _, _ in found[10:])


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_directory_of_leaves_is_searched_leaf_by_leaf(fs):
    count = 1000
    found = looked_at(fs, [("create", i, 0, 0, 0) for i in range(1, count + 1)], count)
    assert found[200] == [203, 202, 0]
    for searched, placed, _ in found[300:]:
        assert placed == searched - 1 and 100 <= placed <= 255


def test_unfsynced_pages_are_stored_after_the_expiry_and_committed_after_the_interval():
    model = drive.Model("ext4", side())
    quiet = model.feed(at(0, ("create", 1, 0, 0, 0), ("write", 1, 0, 3 * PAGE)))
    assert not any(kinds_of(model, quiet).values())
    assert kinds_of(model, model.feed(at(4, ("stat", 1)))) == {"data": 0, "metadata": 0, "log": 0, "zeroing": 0}
    created = kinds_of(model, model.feed(at(5.1, ("stat", 1))))
    assert created["log"] == 6 * PAGE  # directory block, inodes, inode bitmap, descriptor: they share no more
    assert kinds_of(model, model.feed(at(29, ("stat", 1))))["data"] == 0
    assert kinds_of(model, model.feed(at(31, ("stat", 1))))["data"] == 0  # the flusher wakes each 5 s
    late = kinds_of(model, model.feed(at(35.1, ("stat", 1))))
    assert late["data"] == 3 * PAGE and late["metadata"] == 0
    assert model.space()["dirty_bytes"] == 0
    assert kinds_of(model, model.feed(at(41, ("stat", 1))))["log"] == 5 * PAGE  # inode, bitmap, descriptor


@pytest.mark.parametrize(("blocks", "descriptors"), [(253, 1), (254, 1), (255, 2), (508, 2), (509, 3)])
def test_a_descriptor_block_of_the_log_names_254_blocks(blocks, descriptors):
    """A commit stores its metadata blocks, the descriptor blocks that name them, and a commit block.

    A new directory adds a block of its own to the transaction, and each 16 of them share a block of the inode table.
    """
    model = drive.Model("ext4-dax", drive.files(0, *[-1] * 600, dirs=[0]))
    file = 0
    while int(model.record.txn_blocks) < blocks:
        file += 1
        model.feed(drive.ops(("mkdir", file, 0, 0, 0)))
    assert int(model.record.txn_blocks) == blocks
    stored = kinds_of(model, model.feed(drive.ops(("sync", -1))))
    assert stored["log"] == (blocks + descriptors + 1) * PAGE


def test_times_are_parameters():
    model = drive.Model("ext4", side(), commit_interval="1s", dirty_expire="2s")
    model.feed(at(0, ("create", 1, 0, 0, 0), ("write", 1, 0, PAGE)))
    found = kinds_of(model, model.feed(at(1.5, ("stat", 1))))
    assert found["log"] and not found["data"]
    assert kinds_of(model, model.feed(at(11, ("stat", 1))))["data"] == PAGE


def test_timestamps_follow_the_tick():
    """An fsync after an overwrite commits nothing if the inode's times did not change."""
    rows = [("create", 1, 0, 0, 0), ("write", 1, 0, PAGE), ("fsync", 1)]
    again = [("write", 1, 0, PAGE), ("fsync", 1)] * 5
    for tick, commits in (({"timestamp_tick": "0ns"}, 5), ({}, 0), ({"timestamp_tick": "300ns"}, 5)):
        model = drive.Model("ext4-dax", side(), **tick)
        model.feed(drive.ops(*rows))
        before = int(model.record.commits)
        model.feed(at(0.001, *again))
        assert int(model.record.commits) - before == commits


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_file_without_a_name_lives_until_it_is_closed(fs):
    model = drive.Model(fs, side())
    model.feed(drive.ops(("open", 3), ("close", 3), ("create", 1, 0, 0, 0), ("write", 1, 0, 50_000), ("fsync", 1)))
    model.feed(drive.ops(("unlink", 1, 0, 0, 0)))
    assert model.space()["files"] == 2
    read = drive.persistent(model.feed(drive.ops(("read", 1, 0, 50_000))), model.sites)["loaded"]
    assert read["copy"] == (50_000 if fs == "ext4-dax" else 0)
    model.feed(drive.ops(("close", 1)))
    assert (model.space()["files"], model.space()["page_count"]) == (1, 25)


@pytest.mark.parametrize("fs", SYSTEMS)
def test_without_close_operations_an_unlink_frees_at_once(fs):
    model = drive.Model(fs, side())
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 50_000), ("unlink", 1, 0, 0, 0)))
    assert (model.space()["files"], model.space()["page_count"]) == (0, 0)


def test_cached_pages_are_read_from_the_device_once():
    model = drive.Model("ext4", side())
    for loaded in (25 * PAGE, 0):
        events = model.feed(drive.ops(("read", 3, 0, 100_000)))
        assert drive.persistent(events, model.sites)["loaded"]["page cache"] == loaded
    events = model.feed(drive.ops(("truncate", 3, 10_000), ("write", 3, 100, 10), ("fsync", 3)))
    # the written page, and the one of which the truncate cleared a part
    assert drive.persistent(events, model.sites)["stored"]["writeback"] == 2 * PAGE


def test_a_partial_write_of_an_uncached_page_reads_it_first():
    model = drive.Model("ext4", side())
    events = model.feed(drive.ops(("write", 3, 5000, 10_000)))
    assert drive.persistent(events, model.sites)["loaded"]["page cache"] == 2 * PAGE
    events = model.feed(drive.ops(("write", 3, 99_000, 2000)))  # its last page, and behind the end
    assert drive.persistent(events, model.sites)["loaded"]["page cache"] == PAGE


def test_fallocated_blocks_are_zeroed_when_dax_writes_them():
    model = drive.Model("ext4-dax", side())
    reserved = model.feed(drive.ops(("create", 1, 0, 0, 0), ("fallocate", 1, 0, 8 * PAGE, -1, r.KEEP_SIZE)))
    assert not any(kinds_of(model, reserved).values())
    assert (model.space()["allocated_bytes"], model.space()["live_bytes"]) == (8 * PAGE, 0)
    written = kinds_of(model, model.feed(drive.ops(("write", 1, 100, 5000), ("write", 1, 200, 5000))))
    assert written == {"data": 10_000, "metadata": 0, "log": 0, "zeroing": 2 * PAGE}


@pytest.mark.skipif(NO_JIT, reason="8 GiB of pages one by one, in plain Python")
def test_a_fallocate_far_beyond_the_device_takes_what_is_free_in_time():
    """Its holes end at no page that has blocks, so they are not looked at one by one for each run of blocks."""
    model = drive.Model("ext4-dax", side(), capacity="8GiB")
    start = time.process_time()
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("fallocate", 1, 0, (1 << 44) - 2 * PAGE)))
    assert time.process_time() - start < 60  # 2**32 pages for each of 60 runs would take minutes
    assert model.space()["allocated_bytes"] > 7 << 30


def test_a_write_into_fallocated_blocks_allocates_nothing_and_may_split_their_extent():
    """Charged: 1 a conversion, 1000 one that splits an extent; none is split where what is written continues the one beside it."""
    amounts = {"convert": 1, "split_extent": 1000, "allocate": 10**6}

    def marked(_, table):
        return {cost: {**row, "instructions": amounts.get(cost, 0)} for cost, row in table.items()}

    with costs.changed(marked):
        model = drive.Model("ext4-dax", side())
        model.feed(drive.ops(("create", 1, 0, 0, 0), ("fallocate", 1, 0, 64 * PAGE)))
        charged = []
        for page, pages in ((0, 1), (1, 1), (2, 2), (30, 1), (31, 1), (4, 26), (0, 32)):
            events = model.feed(drive.ops(("write", 1, page * PAGE, pages * PAGE)))
            charged.append(int(events.addr[events.code == r.WORK].sum()) // r.MILLI)
    assert charged == [1001, 1, 1, 1001, 1, 1, 0]


@pytest.mark.parametrize(
    ("pages", "size", "page", "zeroed"),
    [
        (64, 64, 56, range(56, 64)),  # what is left of the extent is short
        (64, 64, 55, range(55, 56)),
        (64, 64, 6, range(7)),  # what lies before is short
        (64, 64, 7, range(7, 8)),
        (7, 7, 3, range(7)),  # both
        (8, 8, 3, range(3, 8)),
        (64, 60, 56, range(56, 57)),  # a part of the extent is behind the file's end
        (64, 64, 63, range(63, 64)),  # the extent's last page
    ],
)
def test_the_rest_of_a_short_extent_is_zeroed(pages, size, page, zeroed):
    model = drive.Model("ext4-dax", side())
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("fallocate", 1, 0, pages * PAGE, -1, r.KEEP_SIZE)))
    model.feed(drive.ops(("truncate", 1, size * PAGE)))
    written = kinds_of(model, model.feed(drive.ops(("write", 1, page * PAGE, 100))))
    assert (written["data"], written["zeroing"]) == (100, len(zeroed) * PAGE)


def test_timer_ticks_can_be_left_out():
    sums = []
    for tick in ("1", "0"):
        model = drive.Model("ext4-dax", side(), tick=tick)
        events = model.feed(drive.ops(("read", 3, 0, 100_000)))
        sums.append(int(events.addr[events.code == r.WORK].sum()))
    assert sums[0] > sums[1] > 0


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_journal_or_device_that_is_too_small_is_a_usage_error(fs):
    for params in ({"capacity": "2MiB"}, {"journal": "64KiB"}, {"capacity": "64MiB", "journal": "64MiB"}):
        with pytest.raises(UsageError, match="give a larger capacity or another journal"):
            drive.Model(fs, side(), **params)


@pytest.mark.parametrize(("capacity", "journal"), [(2 << 30, 64 << 20), (64 << 30, 512 << 20), (256 << 30, 1 << 30)])
def test_the_journal_is_as_large_as_mke2fs_makes_it(capacity, journal):
    assert default_journal(capacity // PAGE) * PAGE == journal


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_full_device_takes_what_fits_of_a_write_and_then_nothing(fs):
    """What fits ends with a page, and an ENOSPC changes nothing; what has blocks can be written, and the next pages are short."""
    model = drive.Model(fs, side(), capacity=lab.capacity_with(fs, side(), 10))
    batch = drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 6 * PAGE), ("write", 1, 5 * PAGE + 9, 6 * PAGE))
    model.feed(batch)
    before = model.space()
    assert model.short == {2: 5 * PAGE - 9} and batch.length[2] == 6 * PAGE
    assert before["file_bytes"] == before["allocated_bytes"] == 10 * PAGE
    assert int(model.record.failed_bytes) == PAGE + 9 and not model.record.failed
    events = model.feed(drive.ops(("write", 1, 10 * PAGE, 6 * PAGE)))
    assert len(events) == 0 and model.space() == before and not model.short
    assert (int(model.record.failed), int(model.record.first_failed)) == (1, 3)
    model.feed(drive.ops(("write", 1, 9 * PAGE, PAGE), ("write", 1, 9 * PAGE, 2 * PAGE), ("fsync", 1)))
    assert model.short == {1: PAGE} and model.space()["allocated_bytes"] == 10 * PAGE
    assert (int(model.record.failed), int(model.record.short)) == (1, 2)


def test_a_page_that_finds_no_block_leaves_the_cache():
    """Write-back drops a page that gets no block: its promised block is given back once, also if the file is cut later."""
    model = drive.Model("ext4", side(), capacity=7 << 20)
    write = [("write", 1, 843_512, 432_593), ("write", 1, 728_829, 1_142_922), ("write", 1, 846_433, 1_451_696)]
    model.feed(drive.ops(*write, ("fallocate", 2, 1_605_945, 1_610_484), ("fsync", 1)))
    assert model.space()["promised_bytes"] == 0
    model.feed(drive.ops(("truncate", 1, 5000)))
    assert model.space()["promised_bytes"] == 0


@pytest.mark.parametrize("fs", SYSTEMS)
def test_operations_on_memory_objects_are_counted_as_ignored(fs):
    model = drive.Model(fs, side())
    events = model.feed(drive.ops(("malloc", 1, 0, 4096), ("load", 1, 0, 8), ("free", 1), ("stat", 1)))
    assert model.space()["ignored_operations"] == 2 and set(events.op) == {3}
    assert set(SITES.values()) <= set(r.KINDS)


@pytest.mark.parametrize(("fs", "fences"), [("ext4", 0), ("ext4-dax", 0), ("xfs-dax", 0), ("ext4-dax-linux4", 2)])
def test_fsync_of_a_directory_without_changes_flushes_nothing_since_linux_5_10(fs, fences):
    """As the lab counts on 6.1: SQLite syncs the directory after its journal, whose fsync has committed all changes."""
    model = drive.Model(fs, side(), capacity=256 << 20)
    events = model.feed(
        drive.ops(
            ("create", 1, 0, 0, 0), ("write", 1, 0, 100), ("fsync", 1), ("fsync", 0), ("stat", 1),
            ("fsync", 0, 0, 0, -1, r.DATA_ONLY), ("create", 2, 0, 0, 0), ("fsync", 0),
        )
    )  # fmt: skip
    found = [int(events.length[(events.op == row) & (events.code == r.FENCE)].sum()) for row in (3, 5, 7)]
    assert found[:2] == [fences, fences]
    assert found[2] > 2  # a commit
