"""SCMFS and its superpages against what the paper (2013) says of them."""

import numpy as np
import pytest

from scmsim.core.records import FENCE, FLUSH, INVALIDATE, LOAD, PM, STORE, UNMAP
from scmsim.workload import iozone, postmark
from tests.conftest import NO_JIT
from tests.fs import drive
from tests.verification import scmfs

KIB, MIB = 1 << 10, 1 << 20


def model(fs="scmfs-lp", files=8, **params):
    return drive.Model(fs, drive.files(0, *[-1] * files, dirs=[0]), **params)


def at(time_ns, *row):
    batch = drive.ops(row)
    batch.time_ns = time_ns
    return batch


def fill(file, size, step=64 * KIB):
    return [("write", file, offset, step) for offset in range(0, size, step)]


def test_a_read_or_write_looks_nothing_up():
    """Section III: the start address plus the offset; beside the data only the inode is touched."""
    it = model("scmfs")
    it.feed(drive.ops(("create", 1), *fill(1, MIB)))
    for row in (("read", 1, 123_456, 50_000), ("write", 1, 123_456, 50_000)):
        events = it.feed(drive.ops(row))
        touched = {it.sites[e.site] for e in events if e.space == PM and e.code in (LOAD, STORE)}
        assert touched == {"inode", "data copy"}


def test_data_is_not_ordered_and_metadata_is():
    it = model("scmfs")
    events = it.feed(drive.ops(("create", 1), *fill(1, MIB)))
    assert {it.sites[e.site] for e in events if e.code == FLUSH} == {"inode", "directory", "page table"}
    flushes, fences = (int(np.count_nonzero(events["code"] == code)) for code in (FLUSH, FENCE))
    assert fences == 2 * flushes  # a barrier before and one after the lines


def test_a_file_begins_on_normal_pages_and_migrates_when_it_outgrows_the_threshold():
    it = model(threshold="1MiB")
    it.feed(drive.ops(("create", 1), *fill(1, MIB)))
    assert it.space()["superpage_bytes"] == 0 and it.space()["migrations"] == 0
    it.feed(drive.ops(("write", 1, MIB, 4096)))
    it.feed(at(1 << 30, "stat", 1))
    it.feed(at(1 << 31, "stat", 1))
    space = it.space()
    assert space["migrations"] == 1 and space["superpage_bytes"] == space["allocated_bytes"] == 2 * MIB
    assert space["migrated_bytes"] == MIB + 4096 and space["page_table_bytes"] == 4096  # the directory's


def test_reads_go_to_the_old_pages_until_the_copy_is_done():
    it = model(threshold="1MiB", copy_rate="1GiB", quiet="1s")
    it.feed(drive.ops(("create", 1), *fill(1, 4 * MIB), ("close", 1)))
    it.feed(at(1_000_000, "stat", 1))  # the copy of 4 MiB takes 3.9 ms
    orders = [
        {int(e.order) for e in it.feed(at(time, "read", 1, 0, 4096)) if it.sites[e.site] == "data copy" and e.space == PM}
        for time in (2_000_000, 10_000_000)
    ]  # fmt: skip
    assert orders == [{12}, {21}]


def test_a_write_waits_for_the_migration_of_its_file():
    it = model(threshold="1MiB", copy_rate="1GiB", quiet="1s")
    it.feed(drive.ops(("create", 1), *fill(1, 4 * MIB), ("close", 1)))
    it.feed(at(1_000_000, "stat", 1))
    it.feed(at(1_500_000, "write", 1, 0, 4096))
    space = it.space()
    copied = 4 * MIB * 10**9 // (1 << 30)
    assert (space["waited_writes"], space["waited_ns"]) == (1, copied - 500_000) and space["migrations"] == 1


def test_a_file_that_is_being_written_is_skipped():
    it = model(threshold="1MiB", quiet="1ms")
    it.feed(drive.ops(("create", 1), *fill(1, 4 * MIB)))
    it.feed(at(500_000, "stat", 1))
    assert it.space()["migrations_in_flight"] == 0
    it.feed(at(2_000_000, "stat", 1))
    assert it.space()["migrations_in_flight"] == 1


def test_unused_superpages_are_recycled():
    it = model(threshold="1MiB")
    it.feed(drive.ops(("create", 1), *fill(1, 16 * MIB), ("close", 1)))
    for time in (1 << 30, 1 << 31):
        it.feed(at(time, "stat", 1))
    assert it.space()["superpage_bytes"] == 16 * MIB
    events = it.feed(at(1 << 32, "truncate", 1, 3 * MIB))
    assert it.space()["superpage_bytes"] == 4 * MIB and it.space()["superpage_waste_bytes"] == MIB
    assert int(events["length"][events["code"] == UNMAP].sum()) == 12 * MIB


def test_null_files_serve_new_files_without_a_new_mapping():
    it = model("scmfs")
    it.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 32 * KIB), ("unlink", 1, 0, 0, 0)))
    assert it.space()["null_files"] == 1 and it.space()["allocated_bytes"] == 0
    events = it.feed(drive.ops(("create", 2, 0, 0, 0), ("write", 2, 0, 32 * KIB)))
    assert it.space()["null_file_reuses"] == 1 and "page table" not in {it.sites[site] for site in events["site"]}


def test_the_collector_frees_what_is_unused():
    it = model("scmfs", collect_above=0, collect_every="1ms", null_files=0)
    it.feed(drive.ops(("create", 1), ("write", 1, 0, 4096)))
    assert it.space()["preallocated_bytes"] == 64 * KIB
    it.feed(at(2_000_000, "stat", 1))
    it.feed(at(4_000_000, "stat", 1))
    assert it.space()["preallocated_bytes"] == 0 and it.space()["reclaimed_bytes"] == 64 * KIB


@pytest.mark.slow
@pytest.mark.skipif(NO_JIT, reason="some 100,000 operations")
def test_superpages_cut_the_walks():
    """SCMFS-1, -4, -5: small requests walk 10 times less on superpages, large ones walk for the program's pages as well."""
    systems = ("scmfs", "scmfs-lp", *scmfs.BASELINES)
    small = [scmfs.iozone_writes(fs, 16 * MIB, 4 * KIB)["random"][0] for fs in systems]
    large = [scmfs.iozone_writes(fs, 16 * MIB, 4 * MIB)["random"][0] for fs in systems]
    assert small[1] < 0.1 * small[0] and 0.4 * large[0] < large[1] < 0.6 * large[0]
    assert small[0] == max(small) and scmfs.spread(large) < scmfs.spread(small)


@pytest.mark.slow
@pytest.mark.skipif(NO_JIT, reason="some 100,000 operations")
def test_internal_fragmentation():
    """SCMFS-3: at most 1 % where the rest of a file stays on normal pages, or where files are powers of two."""
    trace = postmark.Workload(
        files=30, transactions=60, size_low=4 * KIB, size_high=8 * MIB, read=4096, write=4096, buffering=0
    )
    assert scmfs.live_fragmentation(trace, "scmfs-lp", 4096, tail="normal")[0] < 1
    assert scmfs.live_fragmentation(trace, "scmfs-lp", 4096)[1] > 1
    trace = iozone.Workload(32 * MIB, 32 * MIB, 64 * KIB, 64 * KIB, 0, "0,2")
    assert scmfs.live_fragmentation(trace, "scmfs-lp", 256)[1] < 1


def test_waste_of_small_files():
    """37,513 files in units of 2 MiB waste about 73 GiB; on pages of 4 KiB at most 4 KiB each."""
    assert round(scmfs.FILES * (scmfs.LARGEST_UNIT - 2 * KIB) / (1 << 30)) == 73
    count = 50 if NO_JIT else 500
    space = scmfs.small_files("scmfs-lp", 2 * KIB, count)
    assert space["waste_bytes"] == count * 2 * KIB and space["page_table_bytes"] == (count + 1) * 4096


def test_simfs_orders_nothing():
    it = model("simfs")
    events = it.feed(drive.ops(("create", 1), *fill(1, MIB), ("fsync", 1), ("close", 1), ("unlink", 1)))
    assert not np.isin(events["code"], [FLUSH, FENCE]).any()


def test_simfs_appends_a_page():
    """An entry, the list's two words and the page count: pgtable.c, balloc.c, inode.c; the page is cleared when it is freed."""
    it = model("simfs")
    it.feed(drive.ops(("create", 1), ("write", 1, 0, 4096)))
    found = drive.persistent(it.feed(drive.ops(("write", 1, 4096, 4096))), it.sites)
    assert found["stored"] == {"data copy": 4096, "page table": 8, "free list": 16, "inode": 8 + 16}
    assert it.space()["page_table_bytes"] == 2 * 3 * 4096  # of the file and of its directory
    freed = drive.persistent(it.feed(drive.ops(("unlink", 1))), it.sites)
    assert freed["stored"]["block zeroing"] == (2 + 3) * 4096


def test_simfs_flushes_every_tlb_when_a_file_is_closed_for_good():
    it = model("simfs")
    it.feed(drive.ops(("create", 1), ("open", 1)))
    counts = [int((it.feed(drive.ops(("close", 1)))["code"] == INVALIDATE).sum()) for _ in range(2)]
    assert counts == [0, 1]


@pytest.mark.parametrize(
    ("offset", "length", "copied"),
    [(4096, 4096, 0), (4096, 1000, 3096), (4096, 8192, 2 * MIB - 8192), (MIB, 2 * MIB, 2 * MIB)],
)
def test_simfs_copies_what_the_smallest_table_over_a_write_maps(offset, length, copied):
    """file.c, nvmm_find_atomic_pointer_level: a page, 2 MiB or 1 GiB, as far as the file goes (4 MiB here)."""
    it = model("simfs", update="atomic")
    it.feed(drive.ops(("create", 1), *fill(1, 4 * MIB)))
    found = drive.persistent(it.feed(drive.ops(("write", 1, offset, length))), it.sites)
    assert found["stored"]["shadow copy"] == copied and found["stored"]["data copy"] == length
    assert it.space()["allocated_bytes"] == 4 * MIB


def test_ctfs_grows_into_a_larger_partition_without_copying():
    """ctfs_inode.c, inode_resize_lvl: 2, 16, 128 MiB; one entry of 2 MiB moves at the first step, 8 at the second."""
    it = model("ctfs")
    it.feed(drive.ops(("create", 1), ("write", 1, 0, 2 * MIB)))
    for size, moved in ((2 * MIB, 1), (16 * MIB, 8)):
        found = drive.persistent(it.feed(drive.ops(("write", 1, size, 4096))), it.sites)
        assert found["stored"]["data copy"] == 4096 and "shadow copy" not in found["stored"]
        assert found["stored"]["page table"] == 27 + 2 * 8 * moved + 8  # states, entries of both sides, a new one
        it.feed(drive.ops(("write", 1, size, 14 * MIB)))
    assert it.space()["range_moves"] == 2


def test_ctfs_orders_nothing_and_streams_data():
    """ctfs_cpy.c: whole lines by streaming stores, no fence anywhere; an overwrite touches no metadata."""
    it = model("ctfs")
    events = it.feed(drive.ops(("create", 1), *fill(1, MIB), ("fsync", 1), ("unlink", 1)))
    assert not (events["code"] == FENCE).any()
    it.feed(drive.ops(("create", 2), *fill(2, MIB)))
    found = drive.persistent(it.feed(drive.ops(("write", 2, 4096, 8192))), it.sites)
    assert found["stored"] == found["nt"] == {"data copy": 8192} and not found["flushes"]
    found = drive.persistent(it.feed(drive.ops(("write", 2, 10, 100))), it.sites)
    assert found["nt"] == {} and found["flushes"] == {"data copy": 2}


@pytest.mark.parametrize(
    ("offset", "length", "copied", "entries"), [(0, 4096, 0, 1), (100, 5000, 3192, 2), (0, 2 * MIB, 0, 1)]
)
def test_ctfs_swaps_the_entries_of_an_atomic_write(offset, length, copied, entries):
    """ctfs_func.c, ctfs_pwrite_atomic; device.c, dax_pswap: residues are copied, two entries a page or a piece of 2 MiB."""
    it = model("ctfs", update="atomic")
    it.feed(drive.ops(("create", 1), *fill(1, 4 * MIB)))
    it.feed(drive.ops(("write", 1, 4096, 4096)))  # splits the first piece
    events = it.feed(drive.ops(("write", 1, offset, length)))
    found = drive.persistent(events, it.sites)
    assert found["stored"].get("shadow copy", 0) == copied
    assert found["stored"]["page table"] == 27 + 2 * 8 * entries
    whole = events["length"][events["code"] == INVALIDATE].max() > 33 * 4096
    assert whole == (length == 2 * MIB)  # else a page at a time


@pytest.mark.parametrize(("tail", "superpages"), [("superpage", 2), ("normal", 1)])
def test_a_file_from_before_lies_in_superpages_with_its_last_page_as_the_parameter_says(tail, superpages):
    model = drive.Model("scmfs-lp", drive.files(0, (2 << 20) + 4096, dirs=[0]), capacity="64MiB", tail=tail)
    model.feed(drive.ops(("read", 1, 0, 4096)))
    assert model.space()["superpage_bytes"] == superpages << 21
