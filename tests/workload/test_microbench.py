"""The thesis' microbenchmark: which calls it makes, in which order, and which of them count."""

import json

import numpy as np
import pytest

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import APPENDS, CLOSE, CONTINUES, CREATE, FSYNC, OPEN, OPS, READ, SETUP, WRITE, joined
from scmsim.workload import microbench
from scmsim.workload.microbench import PASSES, Workload


def rows(work, chunk=1 << 14):
    return joined(list(work.batches(chunk))).view(np.recarray)


def told(batch):
    """(op, offset, length, counted) of each row."""
    return [(OPS[r.op], int(r.offset), int(r.length), not r.flag & SETUP) for r in batch]


def test_append_writes_a_fresh_file_to_its_end():
    batch = rows(Workload("append", 1000, 3500))
    assert told(batch) == [("create", 0, 0, False)] + [("write", i * 1000, 1000, True) for i in range(3)]
    assert (batch.file == 1).all() and batch.parent[0] == 0 and (batch.flag[1:] & APPENDS).all()


def test_rewrite_fills_the_file_before_and_opens_it_again():
    fill = [("create", 0, 0, False), ("write", 0, 8, False), ("write", 8, 8, False), ("close", 0, 0, False)]
    again = [("open", 0, 0, False), ("write", 0, 8, True), ("write", 8, 8, True)]
    assert told(rows(Workload("rewrite", 8, 16))) == fill + again
    assert [r[0] for r in told(rows(Workload("read", 8, 16)))][-3:] == ["open", "read", "read"]


def test_reread_has_a_pass_that_is_not_counted():
    batch = rows(Workload("reread", 8, 24))
    reads = batch[batch.op == READ]
    assert [bool(flag & SETUP) for flag in reads.flag] == [True] * 3 + [False] * 3
    assert reads.offset.tolist() == [0, 8, 16] * 2


def test_wsync_is_a_write_and_an_fsync_in_one_call():
    batch = rows(Workload("wsync", 512, 2048))[1:]
    assert batch.op.tolist() == [WRITE, FSYNC] * 4
    assert batch.flag.tolist() == [APPENDS, CONTINUES] * 4
    assert batch.offset[::2].tolist() == [0, 512, 1024, 1536] and not batch.length[1::2].any()


@pytest.mark.parametrize("op", ["rewrite", "read", "reread"])
def test_passes_repeat_what_is_counted(op):
    once, thrice = rows(Workload(op, 100, 1000)), rows(Workload(op, 100, 1000, passes=3))
    counted = [told(batch[(batch.flag & SETUP) == 0]) for batch in (once, thrice)]
    assert counted[1] == 3 * counted[0] and len(thrice) == len(once) + 20


@pytest.mark.parametrize("op", PASSES)
@pytest.mark.parametrize("files", [1, 3])
def test_rows_chunks_and_times(op, files):
    """`rows` tells the number of rows; the chunk changes nothing but the cuts; times go up by the interval."""
    work = Workload(op, 512, 5000, files=files, interval=7)
    batch = rows(work)
    assert len(batch) == work.rows
    for chunk in (1, 2, 5, 64):
        parts = list(work.batches(chunk))
        assert max(map(len, parts)) <= chunk and (joined(parts) == batch).all()
    assert batch.time_ns.tolist() == [7 * i for i in range(len(batch))]
    assert sorted(set(batch.file)) == list(range(1, files + 1)) and len(work.files) == files + 1
    assert set(batch.op) <= {CREATE, OPEN, READ, WRITE, FSYNC, CLOSE}


def test_one_file_after_the_other():
    batch = rows(Workload("append", 10, 50, files=4))
    assert (np.diff(batch.file) >= 0).all()
    assert [told(batch[batch.file == f]) for f in range(1, 5)] == [told(batch[batch.file == 1])] * 4


def test_the_side_table_names_files_that_do_not_exist_yet():
    side = Workload(files=2).files
    assert side.path == ["/bench", "/bench/file-0", "/bench/file-1"]
    assert side.first_size.tolist() == [0, -1, -1] and side.is_dir.tolist() == [True, False, False]


def test_the_header_is_json_and_says_everything():
    work = Workload("read", 512, 1024, 2, 3, 9)
    told = json.loads(json.dumps(work.header))["workload"]
    assert told == {
        "kind": "microbench",
        "op": "read",
        "unit": 512,
        "total": 1024,
        "files": 2,
        "passes": 3,
        "interval": 9,
    }
    assert microbench.PARAMS.keys() == told.keys() - {"kind"}


def test_the_parameters_are_the_arguments():
    defaults = {
        name: default for name, (default, _, _) in registry.literals("workload", "microbench")["PARAMS"].items()
    }
    work = Workload()
    assert (work.op, str(work.passes), str(len(work.files) - 1)) == (
        defaults["op"],
        defaults["passes"],
        defaults["files"],
    )
    assert (work.unit, work.calls, work.interval) == (4096, 4096, 1000)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"op": "wriet"}, "no microbench pass named 'wriet'"),
        ({"unit": 0}, "unit 0"),
        ({"unit": 100, "total": 99}, "at most the total"),
        ({"files": 0}, "at least 1"),
        ({"op": "read", "passes": 0}, "at least 1"),
        ({"op": "append", "passes": 2}, "use --files"),
    ],
)
def test_what_gives_no_call_is_refused(given, text):
    with pytest.raises(UsageError, match=text):
        Workload(**given)
