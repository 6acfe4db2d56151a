"""The workload of one mapped file: the order of its touches, what follows them, and the same by calls."""

from collections import Counter

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    FSYNC,
    MMAP,
    MSYNC,
    MUNMAP,
    NON_TEMPORAL,
    OPS,
    READ,
    UFENCE,
    UFLUSH,
    ULOAD,
    USTORE,
    joined,
)
from scmsim.trace.rules import problems, time_problems
from scmsim.workload.mapped import THETA, Workload


def rows(**given):
    work = Workload(**{"file_size": 1 << 20, "touches": 500} | given)
    batch = joined(list(work.batches()))
    assert len(batch) == work.rows and not list(problems(batch, len(work.files))) and not list(time_problems(batch, 0))
    return batch


def touches(**given):
    batch = rows(**given)
    return batch[np.isin(batch["op"], (ULOAD, USTORE))]


def test_it_is_mapped_touched_and_unmapped():
    batch = rows()
    assert [OPS[op] for op in batch["op"][[0, 1, -2, -1]]] == ["open", "mmap", "munmap", "close"]
    whole = batch[np.isin(batch["op"], (MMAP, MUNMAP))]
    assert (whole["length"] == 1 << 20).all() and (whole["offset"] == 0).all()


def test_places_in_order_and_by_stride_begin_again_at_the_end():
    assert (touches(pattern="sequential")["offset"] == np.arange(500) % 256 * 4096).all()
    assert (touches(pattern="strided", stride=65536, unit=8)["offset"] == np.arange(500) % 16 * 65536).all()


def test_random_places_are_all_there_and_zipf_prefers_few():
    offset = touches(touches=8000)["offset"]
    assert set(offset) == set(range(0, 1 << 20, 4096))
    count = sorted(Counter(touches(pattern="zipf", touches=8000)["offset"]).values(), reverse=True)
    share = 1 / (np.arange(1, 257) ** -THETA).sum()
    assert count[0] == pytest.approx(8000 * share, rel=0.1)
    assert count[0] > 8 * count[20]


def test_what_follows_a_store():
    batch = rows(op="write", persist="flush", sync=100)
    count = Counter(batch["op"].tolist())
    assert count[USTORE] == count[UFLUSH] == count[UFENCE] == 500 and count[MSYNC] == 5
    at = np.flatnonzero(batch["op"] == USTORE)
    assert (batch["op"][at + 1] == UFLUSH).all() and (batch["op"][at + 2] == UFENCE).all()
    assert (touches(op="write", persist="nontemporal")["flag"] == NON_TEMPORAL).all()


def test_the_same_touches_by_calls():
    mapped, calls = touches(pattern="zipf", sync=50), rows(pattern="zipf", sync=50, by="calls")
    read = calls[calls["op"] == READ]
    assert (read["offset"] == mapped["offset"]).all() and (calls["op"] == FSYNC).sum() == 10
    assert not np.isin(calls["op"], (MMAP, MSYNC, ULOAD)).any()


@pytest.mark.parametrize(
    "given",
    [
        {"unit": 2 << 20},
        {"pattern": "spiral"},
        {"persist": "flush"},
        {"touches": 0},
        {"op": "write", "by": "calls", "persist": "flush"},
    ],
)
def test_what_cannot_be_is_refused(given):
    with pytest.raises(UsageError):
        rows(**given)
