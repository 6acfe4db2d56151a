"""Mapped files through the whole pipeline: counters, payload, what fails and is told, and that other traces do not notice."""

import tomllib

import numpy as np
import pytest

import scmsim
from scmsim.core import registry
from scmsim.core.records import (
    MAP_SYNC,
    NON_TEMPORAL,
    OWN_PROCESS,
    POPULATE,
    PRIVATE,
    WRITABLE_SHARED,
)
from scmsim.workload.mapped import Workload
from tests.fs import drive

PAGE, KIB64 = 4096, 65536


def replayed(fs, *rows, sizes=(0, KIB64), **given):
    """Run of some operations on files of these sizes; a row may have (thread, buffer) behind its six fields."""
    batch = drive.ops(*(row[:6] for row in rows))
    for one, row in zip(batch, rows, strict=True):
        one["thread"], one["buffer"] = row[6:] or (0, 0)
    return scmsim.replay(drive.source(drive.files(*sizes, dirs=[0]), batch), fs, **given).runs[0]


def mmap(length=KIB64, flag=WRITABLE_SHARED, file=1, offset=0):
    return ("mmap", file, offset, length, -1, flag)


def test_counters_of_a_store_a_sync_and_another_store():
    run = replayed(
        "ext4-dax", mmap(), ("store", 1, 0, 8), ("msync", 1, 0, KIB64), ("store", 1, 8, 8), ("munmap", 1, 0, KIB64)
    )
    assert run.counters["page_faults_pte"] == 2 and run.counters["page_faults_write_protect"] == 1
    assert run.counters["mapped_bytes_4k"] == 2 * PAGE and run.counters["page_faults_pmd"] == 0
    assert run.sites["mapped write-back"]["flushes"] == PAGE // 64
    assert run.sites["mapped access"]["pm_stored_bytes"] == 16 == run.payload["written"]
    assert run.counters["tlb_invalidations"] == 2  # the page that was written back, and munmap's
    assert run.calls == 3 and run.operations == 5
    assert not run.errors


def test_flushes_fences_and_stores_past_the_caches_are_those_of_the_program():
    run = replayed(
        "ext4-dax",
        mmap(),
        ("store", 1, 0, 64),
        ("flush", 1, 0, 64),
        ("fence", -1),
        ("store", 1, 64, 64, -1, NON_TEMPORAL),
    )
    own = run.sites["mapped access"]
    assert (own["flushes"], own["fences"], own["nt_stored_bytes"], own["lines_written_back"]) == (1, 1, 64, 2)


@pytest.mark.parametrize(
    ("rows", "error", "said"),
    [
        ([mmap(2 * KIB64), ("load", 1, KIB64, 8)], "SIGBUS", "after the end"),
        ([("load", 1, 0, 8)], "SIGSEGV", "no mapping"),
        ([mmap(2 * KIB64), ("store", 1, KIB64, 8)], "SIGBUS", "after the end"),
        ([mmap(2 * KIB64), ("store", 1, KIB64 - 4, 8)], "SIGBUS", "after the end"),  # the part within is stored
        (
            [
                mmap(),
                ("store", 1, 3 * PAGE, 8),
                ("truncate", 1, PAGE),
                ("msync", 1, 0, KIB64),
                ("store", 1, 3 * PAGE, 8),
            ],
            "SIGBUS",
            "after the end",
        ),
        ([mmap(flag=0), ("load", 1, 0, 8), ("store", 1, 0, 8)], "SIGSEGV", "does not allow"),
        ([mmap(), ("load", 1, 0, 8), ("munmap", 1, 0, KIB64), ("load", 1, 0, 8)], "SIGSEGV", "no mapping"),
        (
            [mmap(), ("load", 1, 3 * PAGE, 8), ("truncate", 1, PAGE), ("load", 1, 3 * PAGE, 8)],
            "SIGBUS",
            "after the end",
        ),
    ],
)
def test_what_a_signal_ends_is_counted_and_told(rows, error, said):
    run = replayed("tmpfs", *rows)
    assert run.errors == {error: 1} and said in " ".join(run.warnings)


def test_a_mapping_over_another_takes_its_place():
    at = 1 << 33
    low, high = (*mmap(), 0, at), (*mmap(length=PAGE, file=2), 0, at + PAGE)
    run = replayed(
        "tmpfs", low, high, ("load", 2, 0, 8), ("load", 1, 0, 8), ("load", 1, PAGE, 8), sizes=(0, KIB64, KIB64)
    )
    assert run.errors == {"SIGSEGV": 1}  # the page of the first file that the second one lies over
    assert "later one at the same addresses" in " ".join(run.warnings)


def test_a_private_mapping_copies_and_stores_nothing_in_the_file():
    run = replayed("ext4-dax", mmap(flag=PRIVATE), ("store", 1, 0, 8), ("store", 1, 16, 8))
    assert run.counters["page_faults_pte"] == 1
    assert run.counters["pm_stored_bytes"] == 0 and run.counters["pm_loaded_bytes"] == PAGE
    assert "1 pages of private mappings were copied" in " ".join(run.warnings) and not run.errors


def test_map_sync_commits_before_the_store():
    new = [("create", 1, 0, 0, 0), ("truncate", 1, KIB64)]
    plain, synced = (
        replayed("ext4-dax", *new, mmap(flag=WRITABLE_SHARED | flag), ("store", 1, 0, 8), sizes=(0, -1))
        for flag in (0, MAP_SYNC)
    )
    assert "journal" not in plain.stored_bytes or plain.stored_bytes["log"] == 0
    assert synced.stored_bytes["log"] > 0 and synced.counters["page_faults_major"] == 1
    assert replayed("tmpfs", mmap(flag=WRITABLE_SHARED | MAP_SYNC), ("load", 1, 0, 8)).errors == {
        "EINVAL": 1,
        "SIGSEGV": 1,
    }


def test_processes_of_their_own_fault_each():
    rows = [
        row
        for thread in (0, 1)
        for row in ((*mmap(flag=WRITABLE_SHARED | OWN_PROCESS), thread, 0), ("load", 1, 0, 8, -1, 0, thread, 0))
    ]
    shared = [mmap(), ("load", 1, 0, 8), ("load", 1, 0, 8, -1, 0, 1, 0)]
    assert replayed("tmpfs", *rows).counters["page_faults_pte"] == 2
    assert replayed("tmpfs", *shared).counters["page_faults_pte"] == 1


def test_populate_leaves_no_fault_to_the_touches():
    run = replayed("tmpfs", mmap(flag=WRITABLE_SHARED | POPULATE), ("store", 1, 0, KIB64), by="op")
    assert run.groups["mmap"]["page_faults_pte"] == 1  # 16 pages around the first
    assert run.groups["store"]["page_faults_pte"] == 0


def test_a_model_without_mappings_says_so():
    run = replayed("simfs", mmap(), ("load", 1, 0, 8))
    assert "1 touches of mapped files were not replayed: SIMFS maps" in " ".join(run.warnings)


@pytest.mark.parametrize(
    ("fs", "kernel", "table"),
    [
        ("ext4-dax", "5.13", "mapping-ext4-dax-5.13"),
        ("ext4-dax", "6.1", "mapping-ext4-dax"),
        ("tmpfs", "7.3", "mapping-tmpfs"),
        ("nova-cow", None, "mapping-5.13"),
        ("daxfs", None, "mapping"),  # follows no version of Linux
    ],
)
def test_without_a_touch_mmap_and_munmap_cost_their_calls(fs, kernel, table):
    rows = [("open", 1), mmap(), ("read", 1, 0, PAGE), ("munmap", 1, 0, KIB64), ("msync", 1, 0, PAGE)]
    run = replayed(fs, *rows, kernel=kernel)
    assert run.counters["page_faults_pte"] == 0 and run.calls == 5
    assert not {"page fault", "mapped write-back"} & run.sites.keys()
    costs = tomllib.loads((registry.path("fs", "ext4-dax").parents[1] / f"mapping/costs/{table}.toml").read_text())
    wanted = costs["mmap_call"]["instructions"] + costs["munmap_call"]["instructions"]
    assert run.sites["unmapping"]["instructions"] == pytest.approx(wanted, abs=1)


def test_the_room_for_operations_changes_nothing():
    work = Workload(op="write", pattern="random", unit=100, file_size=1 << 20, touches=300, sync=70)
    whole, cut = (scmsim.replay(work, "ext4-dax", chunk=chunk).runs[0] for chunk in (1 << 14, 7))
    assert whole.counters == cut.counters and whole.counters["page_faults_write_protect"] > 0


def test_setup_touches_map_and_count_nothing():
    from scmsim.core.records import SETUP

    run = replayed(
        "tmpfs", ("mmap", 1, 0, KIB64, -1, WRITABLE_SHARED | SETUP), ("load", 1, 0, 8, -1, SETUP), ("load", 1, 0, 8)
    )
    assert run.counters["page_faults_pte"] == 0 and run.payload["read"] == 8
    assert np.isclose(run.calls, 0)
