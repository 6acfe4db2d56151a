"""The mix of all calls: mappings come behind the rest, and what goes through them lies in their files."""

import numpy as np
import pytest

import scmsim
from scmsim.core.errors import UsageError
from scmsim.core.records import CREATE, FSYNC, MSYNC, MUNMAP, SETUP, SYNC, ULOAD, UNLINK, USTORE, joined
from scmsim.workload.mix import LARGE, Workload


def rows(**given):
    return joined([batch.view(np.ndarray) for batch in Workload(calls=200, files=20, **given).batches()])


def test_mappings_come_behind_the_calls_and_leave_them_as_they_are():
    without, with_ = rows(mapped=0, unsynced=0), rows(mapped=30, unsynced=0)
    assert (with_[: len(without)] == without).all()
    behind = with_[len(without) :]
    assert {ULOAD, USTORE, MSYNC, MUNMAP} <= set(behind["op"].tolist())
    prepared = behind[behind["flag"] & SETUP > 0]
    assert prepared["length"].max() == LARGE and not np.isin(without["op"], (ULOAD, USTORE, MSYNC)).any()


def test_calls_without_a_sync_come_behind_all_others():
    without, with_ = rows(mapped=5, unsynced=0), rows(mapped=5, unsynced=400)
    assert (with_[: len(without)] == without).all()
    kinds = with_[len(without) :]["op"]
    assert (
        len(kinds) >= 400 and {CREATE, UNLINK} <= set(kinds.tolist()) and not np.isin(kinds, (FSYNC, SYNC, MSYNC)).any()
    )


def test_what_goes_through_a_mapping_lies_in_its_file():
    run = scmsim.replay(Workload(calls=200, files=20, mapped=40), "tmpfs", footprints="none").runs[0]
    assert run.errors == {} and run.counters["page_faults_pte"] > 40


def test_a_mistake_is_one_line():
    with pytest.raises(UsageError, match="mapped = -1; it must be at least 0"):
        Workload(mapped=-1)
