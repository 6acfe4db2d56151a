"""Models replayed at once: the results of one after the other, and what happens where one fails."""

import dataclasses
import pathlib
import threading
import time

import pytest

import scmsim
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.pipeline.at_once import at_once

TRACE = pathlib.Path(__file__).parents[2] / "traces" / "sqlite-load.parquet"
FS = "ext4,nova-cow,pmfs-4k,tmpfs"
WORKLOADS = {
    "filebench": {"set": "nfiles=50", "flowops": 500},
    "lsm": {"records": 300, "operations": 500},
    "postmark": {"files": 30, "transactions": 60},
    "sqlite": {"transactions": 40},
}


def results(trace, jobs, **given):
    return [dataclasses.asdict(run) for run in scmsim.replay(trace, FS, jobs=jobs, **given).runs]


@pytest.mark.parametrize("name", WORKLOADS)
def test_results_do_not_depend_on_the_number_of_jobs(name):
    source = registry.load("workload", name).Workload(**WORKLOADS[name])
    assert results(source, 3, by="op") == results(source, 1, by="op")


def test_a_stored_trace_is_read_by_several_at_once():
    assert results(TRACE, 4, sync_at_end=True) == results(TRACE, 1, sync_at_end=True)


def test_the_first_that_fails_ends_the_others():
    at_work, seen = threading.Barrier(2), []

    def work(name, progress, second_cpu):
        progress(name, 0, 10)
        at_work.wait(10)
        if name == "a":
            raise UsageError("no room")
        while True:
            progress(name, 1, 10)

    with pytest.raises(UsageError, match="no room"):
        at_once(["a", "b"], work, 2, lambda *said: seen.append(said))
    assert seen[0][2] == 20


def test_progress_is_the_sum_of_all():
    def work(name, progress, second_cpu):
        progress(name, 5, 5)
        return name

    seen = []
    assert at_once(["a", "b"], work, 2, lambda *said: seen.append(said)) == ["a", "b"]
    assert seen[-1][1:] == (10, 10)


def test_a_model_takes_a_second_cpu_once_another_has_ended():
    asked, took = threading.Event(), {}

    def work(name, progress, second_cpu):
        if name == "short":
            assert not second_cpu() and asked.wait(60)
        else:
            took["before"] = second_cpu()
            asked.set()
            stop = time.monotonic() + 60
            while not second_cpu():  # becomes True when `short` has ended
                assert time.monotonic() < stop
            took["again"] = second_cpu()

    at_once(["short", "long"], work, 2, None)
    assert took == {"before": False, "again": False}


@pytest.mark.parametrize(
    ("models", "jobs", "seconds"), [(8, 16, 8), (8, 9, 1), (8, 8, 0), (2, 3, 1), (1, 2, 1), (1, 1, 0)]
)
def test_models_that_run_together_use_no_more_cpus_than_jobs(models, jobs, seconds):
    all_asked = threading.Barrier(models)

    def work(name, progress, second_cpu):
        took = second_cpu()
        all_asked.wait(60)
        return took

    assert sum(at_once([str(k) for k in range(models)], work, jobs, None)) == seconds


def test_models_that_wait_go_before_second_cpus():
    took = at_once([str(k) for k in range(28)], lambda name, progress, second_cpu: second_cpu(), 2, None)
    assert not any(took[:26])


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "2", None])
def test_what_is_no_number_of_jobs(jobs):
    with pytest.raises(UsageError, match="jobs must be a whole number of threads from 1"):
        scmsim.replay("x.parquet", "ext4", jobs=jobs)
