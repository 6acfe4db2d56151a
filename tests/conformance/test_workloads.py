"""What every workload made of runs must keep, whatever it does: chunks, repetition, times, rules of a trace, memory."""

import json
import tracemalloc

import pytest

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import READ, WRITE, joined
from scmsim.pipeline import model_params
from scmsim.trace.rules import files_problems, problems, time_problems

SMALL = {
    "postmark-buffered": ("postmark", {"transactions": 60, "files": 20}),
    "postmark-plain": ("postmark", {"transactions": 60, "files": 20, "buffering": "false", "subdirectories": 3}),
    "postmark-large-blocks": ("postmark", {"transactions": 60, "files": 20, "read": "10000", "write": "9000"}),
    "iozone": ("iozone", {"max_file": "256KiB"}),
    "fio-random": ("fio", {"options": "rw=randrw bs=4k size=1m fsync=5 nrfiles=3 ioengine=libaio iodepth=4"}),
    "fio-jobs": ("fio", {"options": "rw=rw bs=4k size=256k numjobs=3"}),
    **{
        name: ("filebench", {"personality": name, "flowops": 3000, "set": f"nfiles=300 {'' if name == 'oltp' else 'nthreads=4'}"})
        for name in ("fileserver", "webserver", "varmail", "webproxy", "oltp")
    },
    "mdtest": ("mdtest", {"command": "-n 30 -z 1 -b 2 -w 5000 -e 4k -u -R", "tasks": 3}),
    "vdbench": ("vdbench", {"file": "tests/data/workloads/vdbench_files.txt", "operations": 200, "set": "dir=/mnt"}),
    "churn": ("churn", {"operations": 300, "unit": "64KiB"}),
    "written": ("written", {"file_size": "300KiB", "unit": "1KiB"}),
    "videoserver": ("filebench", {"personality": "videoserver", "flowops": 500, "set": "filesize=3m nthreads=4"}),
}  # fmt: skip


def small(name):
    workload, given = SMALL[name]
    return registry.load("workload", workload).Workload(**model_params("workload", workload, given))


@pytest.mark.parametrize("name", SMALL)
def test_chunks_change_nothing_and_a_second_run_is_the_same(name):
    work = small(name)
    batch = joined(list(work.batches()))
    assert len(batch) == work.rows > 100
    for chunk in (7, 1000):
        parts = list(work.batches(chunk))
        assert {len(part) for part in parts[:-1]} <= {chunk} and len(parts[-1]) <= chunk
        assert (joined(parts) == batch).all()


@pytest.mark.parametrize("name", SMALL)
def test_it_is_a_trace_that_can_be_replayed(name):
    work = small(name)
    batch = joined(list(work.batches()))
    assert not list(problems(batch, len(work.files))) and not list(time_problems(batch, 0))
    assert not list(files_problems(work.files))
    assert len(set(work.files.path)) >= len(work.files) // 2  # iozone's file has one name and many lives
    assert json.loads(json.dumps(work.header))["workload"]["kind"] == SMALL[name][0]


@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_read_that_was_not_written(name):
    """Transfers stay within what the file holds, and files are used only between their creation and their removal."""
    work = small(name)
    held = {}
    for r in joined(list(work.batches())):
        file, end = int(r["file"]), int(r["offset"] + r["length"])
        if r["op"] == WRITE:
            held[file] = max(held.get(file, 0), end)
        elif r["op"] == READ:
            assert end <= held.get(file, 0)


def test_memory_does_not_grow_with_the_length():
    """Half a million operations (36 MiB as records) pass through a few batches' worth of memory."""
    work = registry.load("workload", "fio").Workload(options="rw=write bs=4k size=2g")
    tracemalloc.start()
    assert sum(len(batch) for batch in work.batches()) > 500_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 14 << 20


def test_a_chunk_of_nothing_is_refused():
    with pytest.raises(UsageError, match="at least 1"):
        next(small("iozone").batches(0))
