"""The workloads of mapped files that are not LMDB: what each process loads, what an append stores, and what a replay counts."""

import numpy as np
import pytest

import scmsim
from scmsim.core.errors import UsageError
from scmsim.core.records import NON_TEMPORAL, OPS, OWN_PROCESS, ULOAD, USTORE, joined
from scmsim.trace.rules import problems, time_problems
from scmsim.workload import pmlog, weights


def rows(work):
    batch = joined(list(work.batches()))
    assert len(batch) == work.rows and not list(problems(batch, len(work.files))) and not list(time_problems(batch, 0))
    return batch


@pytest.mark.parametrize("by", ["map", "calls"])
def test_every_process_loads_every_byte_in_order(by):
    batch = rows(weights.Workload(file_size=1_000_000, unit=65536, processes=3, passes=2, by=by))
    moved = batch[np.isin(batch["op"], (ULOAD, OPS.index("read")))]
    for thread in range(3):
        mine = moved[moved["thread"] == thread]
        ends = np.append(0, (mine["offset"] + mine["length"])[:-1]) % 1_000_000
        assert mine["length"].sum() == 2_000_000 and (mine["offset"] == ends).all()
    maps = batch[batch["op"] == OPS.index("mmap")]
    assert len(maps) == (3 if by == "map" else 0) and (maps["flag"] & OWN_PROCESS).all()
    assert list(moved["thread"][:4]) == [0, 1, 2, 0]


def test_each_process_faults_for_itself():
    """1 MiB in pages of 4 KiB, through ext4 with DAX, which maps no neighbours."""
    work = {"file_size": 1 << 20, "unit": 4096}
    one, three = (scmsim.replay(weights.Workload(**work, processes=n), "ext4-dax").runs[0] for n in (1, 3))
    assert one.counters["page_faults_pte"] == 256 and three.counters["page_faults_pte"] == 3 * 256


@pytest.mark.parametrize("persist", ["nontemporal", "flush"])
def test_an_append_is_there_before_the_end_moves(persist):
    batch = rows(pmlog.Workload(record=100, count=50, file_size=8192 + 1000, persist=persist))
    names = ["store", *(["flush"] if persist == "flush" else []), "fence", "store", "flush", "fence"]
    each = batch[2:-2].reshape(50, len(names))
    assert all([OPS[op] for op in row] == names for row in each["op"])
    assert (each["offset"][:, 0] == 8192 + np.arange(50) % 10 * 100).all() and (each["length"][:, 0] == 100).all()
    end = each[:, -3]
    assert (end["op"] == USTORE).all() and (end["offset"] == 4096).all() and (end["length"] == 8).all()
    assert bool(each["flag"][0, 0] & NON_TEMPORAL) == (persist == "nontemporal")


def test_what_does_not_fit_is_refused():
    with pytest.raises(UsageError, match="does not hold the header and a record"):
        pmlog.Workload(file_size=8192)
    with pytest.raises(UsageError, match="unit is at most file_size"):
        weights.Workload(file_size=4096, unit=8192)
