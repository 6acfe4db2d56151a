"""The generated LMDB beside a real one: the captured look-ups of traces/mapped, and the calls of a real put."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import DATA_ONLY, OPS, SYNCHRONOUS, ULOAD, joined
from scmsim.trace import open_trace
from scmsim.trace.rules import problems, time_problems
from scmsim.workload.lmdb import PAGE, Workload

TRACE = Path(__file__).parents[2] / "traces" / "mapped" / "lmdb-get.parquet"


def rows(**given):
    work = Workload(**given)
    batch = joined(list(work.batches()))
    assert len(batch) == work.rows and not list(problems(batch, len(work.files))) and not list(time_problems(batch, 0))
    return batch


def visits(loads):
    page = loads["offset"] // PAGE
    return page[np.append(True, page[1:] != page[:-1])]


def test_the_tree_and_the_pages_visited_are_those_of_the_real_database():
    told = [7050, 39, 1]  # mdb_stat: 7050 leaves, 40 branches
    assert Workload(entries=40_000, value=400).levels == pytest.approx(told, rel=0.03)
    stored = open_trace(TRACE)
    real = joined(list(stored.batches()))
    data = next(i for i, path in enumerate(stored.files.path) if path.endswith("data.mdb"))
    theirs = visits(real[(real["op"] == ULOAD) & (real["file"] == data)])
    batch = rows(entries=40_000, value=400, count=1000, read_value=0)
    mine = visits(batch[batch["op"] == ULOAD])
    assert len(mine) == 3000 and abs(len(theirs) - 3000) <= 2  # and the two meta pages
    assert len(np.unique(mine)) == pytest.approx(len(np.unique(theirs)), rel=0.03)


@pytest.mark.parametrize("writemap", [0, 1])
def test_a_put_makes_the_calls_of_lmdb(writemap):
    """As strace shows of liblmdb 0.9.24: four pages in order, a sync of them, the other meta page than before, a sync of it."""
    batch = rows(op="put", entries=40_000, value=400, count=6, writemap=writemap)
    batch = batch[(batch["op"] != ULOAD)][2:-2].reshape(6, 7 if writemap else 6)
    names = ["store"] * 4 + ["msync", "store", "msync"] if writemap else ["write"] * 4 + ["fsync", "write"]
    for number, put in enumerate(batch):
        assert [OPS[op] for op in put["op"]] == names
        assert (np.diff(put["offset"][:4]) > 0).all() and (put["length"][:4] == PAGE).all()
        assert put["offset"][5] == number % 2 * PAGE + 32 and put["length"][5] == 120
        assert writemap or (put["flag"][4] == DATA_ONLY and put["flag"][5] == SYNCHRONOUS)
    written = batch["offset"][:, :4] // PAGE
    assert all(not set(one) & set(two) for one, two in zip(written, written[1:], strict=False))
    assert written.min() >= 2


def test_look_ups_between_puts_load_inside_of_the_file():
    batch = rows(op="put", entries=500, value=400, count=300)
    loads = batch["op"] == ULOAD
    assert (
        batch["offset"][loads] + batch["length"][loads] <= Workload(entries=500, value=400).files.first_size[1]
    ).all()


def test_a_value_that_needs_pages_of_its_own_is_refused():
    with pytest.raises(UsageError, match="two entries must fit into a page"):
        Workload(value=3000)
