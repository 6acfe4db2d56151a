"""The chunk loop: names and parameters, what is counted where, room for what did not fit, errors and warnings."""

import numpy as np
import pytest

import scmsim
from scmsim.core.errors import UnknownName, UsageError
from scmsim.core.records import APPENDS, CONTINUES, EVENT, OFFSET_UNKNOWN, SETUP
from scmsim.pipeline import stages
from scmsim.pipeline.bins import SUMS, assign_bins, first_rows, follow_sizes
from scmsim.workload.microbench import Workload
from tests.fs import drive

SMALL = {"op": "append", "unit": 4096, "total": 40_960}


def replay(*rows, fs="nova-cow", files=None, **more):
    return scmsim.replay(drive.source(files or drive.files(0, -1, -1, dirs=[0]), drive.ops(*rows)), fs, **more).runs[0]


def test_events_go_to_the_row_of_their_operation_and_site():
    events, bins = np.zeros(4, EVENT), np.zeros(4, np.int64)
    events["op"], events["site"] = [0, 1, 2, 1], [3, 0, 4, 2]
    assign_bins(events, 3, np.array([0, -1, 10]), 99, bins)
    assert bins.tolist() == [3, 99, 14, 0]


@pytest.mark.parametrize(("by", "rows"), [(0, [-1, 0, 0, 0]), (1, [-1, 15, 20, 10]), (2, [-1, 10, 10, 0])])
def test_operations_are_summed_up_and_go_to_the_rows_of_their_group(by, rows):
    batch = drive.ops(
        ("write", 1, 0, 7, -1, SETUP), ("write", 2, 0, 50, -1, OFFSET_UNKNOWN), ("fsync", 2, 0, 0, -1, CONTINUES),
        ("read", -1, 0, 9),
    )  # fmt: skip
    sums, out = np.zeros(1, SUMS), np.zeros(4, np.int64)
    first_rows(batch.view(np.ndarray), by, 5, sums, out)
    follow_sizes(batch.view(np.ndarray), np.zeros(4, np.int64), sums)
    assert out.tolist() == rows
    assert sums[0].tolist() == (4, 3, 2, 50, 9, 1, 0, 0, 0, 0)


@pytest.mark.parametrize("names", ["nova-cow,nova-fast16", "nova-cow , nova-fast16", ["nova-cow", "nova-fast16"]])
def test_several_file_systems_give_several_runs_in_order(names):
    result = scmsim.replay(Workload(**SMALL), names)
    assert [run.fs for run in result.runs] == ["nova-cow", "nova-fast16"]
    alone = scmsim.replay(Workload(**SMALL), "nova-fast16").runs[0]
    assert result.runs[1].counters == alone.counters
    assert result.manifest["trace"]["workload"]["kind"] == "microbench"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"counts": {"lines": 100, "bad": 2}}, ["the trace is incomplete: 2 of 100 lines not understood (2 %)"]),
        ({"counts": {"lines": 1000, "bad": 2}, "lost_events": 0}, []),
        ({"lost_events": 7}, ["the trace is incomplete: 7 events lost by the recorder"]),
        ({"counts": {"lines": "many"}, "lost_events": None}, []),
    ],
)
def test_an_incomplete_trace_is_told_in_every_result(header, said):
    trace = Workload(**SMALL)
    trace.header |= header
    assert scmsim.replay(trace, "nova-cow").runs[0].warnings == said


@pytest.mark.parametrize("names", ["", "nova-cow,", []])
def test_no_file_system_is_an_error(names):
    with pytest.raises(UsageError, match="no file system given"):
        scmsim.replay(Workload(**SMALL), names)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"fs": "nova-cov"}, "no file system named 'nova-cov'; did you mean 'nova-cow'"),
        ({"machine": "i7"}, "no machine named 'i7'"),
        ({"paging": "directmap"}, "no paging named 'directmap'"),
        ({"medium": "optain"}, "no medium named 'optain'; did you mean 'optane'"),
        ({"by": "sites"}, "no breakdown named 'sites'; did you mean 'site'"),
    ],
)
def test_unknown_names_are_errors_of_one_line(given, text):
    with pytest.raises(UnknownName, match=text) as caught:
        scmsim.replay(Workload(**SMALL), **{"fs": "nova-cow", **given})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"nova-fast16": {"capacity": "1GiB"}}, "no model in this replay named 'nova-fast16'"),
        ({"nova-cow": {"capasity": "1GiB"}}, "no parameter of nova-cow named 'capasity'; did you mean 'capacity'"),
        ({"nova-cow": {"capacity": "big"}}, "nova-cow.capacity: 'big' is not a number of bytes"),
        ({"nova-cow": {"tick": "perhaps"}}, "nova-cow.tick: 'perhaps' is not a truth value; give true or false"),
        ({"linux": {"user_page": "8KiB"}}, "user_page = 8KiB; use 4KiB or 2MiB"),
    ],
)
def test_bad_parameters_name_their_place(params, text):
    with pytest.raises(UsageError, match=text):
        scmsim.replay(Workload(**SMALL), "nova-cow", params=params)


def test_parameters_are_in_the_run():
    given = {"nova-cow": {"capacity": "1GiB"}, "linux": {"user_page": "2MiB"}}
    run = scmsim.replay(Workload(**SMALL), "nova-cow", params=given).runs[0]
    assert (run.params["capacity"], run.params["user_page"], run.space["capacity_bytes"]) == (1 << 30, 2 << 20, 1 << 30)


def test_progress_tells_rows_done_of_all():
    seen = []
    work = Workload(op="append", unit=512, total=5120, files=2)
    scmsim.replay(work, "nova-cow", progress=lambda *step: seen.append(step), chunk=4)
    assert seen[-1] == ("nova-cow", work.rows, work.rows) and [done for _, done, _ in seen] == sorted(
        d for _, d, _ in seen
    )


def test_calls_operations_and_payload_leave_preparation_out():
    run = scmsim.replay(Workload(op="wsync", unit=1000, total=10_000), "nova-cow").runs[0]
    assert (run.operations, run.calls, run.payload) == (20, 10, {"written": 10_000, "read": 0})
    run = scmsim.replay(Workload(op="read", unit=1000, total=10_000), "nova-cow").runs[0]
    assert (run.operations, run.calls, run.payload) == (10, 10, {"written": 0, "read": 10_000})


def test_an_operation_larger_than_the_buffer_gets_room():
    """One write of 32 MiB into holes of two pages each: more events than a buffer of 64 holds."""
    run = replay(("create", 1), ("write", 1, 0, 32 << 20), chunk=64)
    name_copied = 4  # of the entry in the directory's log: what its copy stores past the cache
    assert run.counters["nt_stored_bytes"] == (32 << 20) + 64 + name_copied and not run.errors


@pytest.mark.parametrize("fs", ["nova-cow", "nova-inplace", "ext4", "ext4-dax"])
@pytest.mark.parametrize("op", ["read", "write"])
def test_the_place_of_the_programs_buffer_costs_user_walks(fs, op):
    """4096 transfers from one buffer touch one user page; from 4096 buffers, one each."""

    def walks(step):
        batch = drive.ops(("create", 1), ("write", 1, 0, 4096), *[(op, 1, 0, 4096)] * 4096)
        batch["buffer"][2:] = step * np.arange(4096)
        run = scmsim.replay(drive.source(drive.files(0, -1, dirs=[0]), batch), fs).runs[0]
        return run.counters["dtlb_user_misses_walk_completed"]

    assert walks(0) <= 2 and 4096 <= walks(4096) <= 4098


def test_a_breakdown_by_file_names_files_and_tells_namesakes_apart():
    files = drive.files(0, -1, -1, names=["/a", "/b", "/b"], dirs=[0])
    run = replay(("create", 1), ("create", 2), ("write", 1, 0, 100), ("write", 2, 0, 200), files=files, by="file")
    assert list(run.groups) == ["/b", "/b (1)"]
    assert [group["nt_stored_bytes"] for group in run.groups.values()] == [
        96 + 64,
        200 + 64,
    ]  # 8-byte stores and the entry


def test_a_breakdown_by_operation_has_a_row_for_each_kind():
    run = replay(("create", 1), ("write", 1, 0, 100), ("fsync", 1), ("read", 1, 0, 100), ("unlink", 1), by="op")
    assert list(run.groups) == ["create", "read", "write", "fsync", "unlink"]
    assert run.groups["fsync"]["fences"] == 1 and run.groups["read"]["pm_stored_bytes"] == 0


def test_too_many_files_for_a_breakdown_are_refused(monkeypatch):
    monkeypatch.setattr(stages, "MAX_BINS", 20)
    with pytest.raises(UsageError, match="are too many for --by file; use --by op"):
        replay(("create", 1), by="file")


def test_offsets_that_are_assumed_are_said():
    run = replay(("create", 1), ("write", 1, 0, 100, -1, OFFSET_UNKNOWN | APPENDS), ("write", 1, 100, 100))
    assert any("1 operations have an offset that the trace could not tell" in warning for warning in run.warnings)


def test_errors_tell_the_first_operation_that_failed():
    rows = [("create", 1), *[("write", 1, i << 20, 1 << 20) for i in range(40)]]
    run = replay(*rows, params={"nova-cow": {"capacity": "16MiB"}})
    first = run.errors["first ENOSPC"]
    assert 1 < first < 20 and run.errors["ENOSPC"] == 41 - first
    assert run.space["live_bytes"] == (first - 1) << 20


@pytest.mark.parametrize("fs", ["nova-cow", "ext4-dax"])
def test_payload_leaves_out_what_failed(fs):
    rows = [("create", 1), ("write", 1, 0, 1 << 40, -1, SETUP), *[("write", 1, i << 20, 1 << 20) for i in range(60)]]
    run = replay(*rows, fs=fs, params={fs: {"capacity": "32MiB"}})
    assert run.errors["ENOSPC"] > 1 and run.payload["written"] == run.space["live_bytes"] > 0


def test_a_write_that_is_done_in_part_is_a_call_and_its_bytes_are_payload():
    """What is stored is what was written, whatever the chunk; the result says how many such writes there were."""
    rows = [("create", 1), *[("write", 1, i * 700_000, 700_000) for i in range(60)]]
    for chunk in (1 << 14, 7):
        run = replay(*rows, fs="ext4-dax", params={"ext4-dax": {"capacity": "32MiB"}}, chunk=chunk)
        assert run.errors["short writes"] == 1 and run.failed == run.errors["ENOSPC"] == 61 - run.calls
        assert run.payload["written"] == run.stored_bytes["data"] == run.space["live_bytes"]
        assert run.payload["written"] % 4096 == 0 != run.payload["written"] % 700_000
        assert any("1 write was done in part" in text and "--set ext4-dax.capacity" in text for text in run.warnings)


@pytest.mark.parametrize("chunk", [1 << 14, 3])
def test_reads_find_only_what_had_room(chunk):
    """A refused write, truncate or fallocate leaves the length of its file, and of a short write what fits is found."""
    rows = [("create", 1), *[("write", 1, i << 20, 1 << 20) for i in range(200)], ("fallocate", 1, 0, 1 << 40)]
    run = replay(*rows, ("read", 1, 0, 1 << 30), fs="ext4-dax", params={"ext4-dax": {"capacity": "32MiB"}}, chunk=chunk)
    assert run.errors["ENOSPC"] > 170 and run.errors["short writes"] == 1
    assert run.payload["read"] == run.payload["written"] == run.space["file_bytes"] > 1 << 20
    run = replay(*rows, ("read", 1, 0, 1 << 30), fs="nova-cow", params={"nova-cow": {"capacity": "16MiB"}}, chunk=chunk)
    assert run.payload["read"] == run.payload["written"] == run.space["file_bytes"] > 1 << 20


@pytest.mark.parametrize("fs", ["pmfs-4k", "nova-cow"])
def test_data_of_a_directory_fails_and_is_no_payload(fs):
    files = drive.files(0, -1, -1, dirs=[0])
    rows = [("create", 1), ("write", 1, 0, 5000)]
    run = replay(*rows, ("write", 0, 0, 1 << 20), ("read", 0, 0, 4096), fs=fs, files=files)
    plain = replay(*rows, fs=fs, files=files)
    assert run.payload == {"written": 5000, "read": 0} and run.errors == {"EISDIR": 2} and run.calls == 4
    assert run.space["allocated_bytes"] == plain.space["allocated_bytes"] and not plain.errors


def test_a_file_beyond_the_largest_is_refused_and_the_replay_goes_on():
    """16 TiB of ext4: the call costs its way into the kernel, the file stays as it is."""
    rows = [("create", 1), ("write", 1, (1 << 62) - 4098, 4098), ("fallocate", 1, 1 << 44, 1), ("truncate", 1, 1 << 44)]
    run = replay(*rows, ("write", 1, 0, 100), fs="ext4-dax")
    assert run.errors == {"EFBIG": 3} and run.payload["written"] == run.space["file_bytes"] == 100
    assert run.space["live_bytes"] == 100 and run.calls == 5


def test_a_file_that_the_tables_cannot_hold_ends_the_replay_with_its_operation():
    with pytest.raises(UsageError, match=r"operation 1 \(\w+ of '.*'\) on nova-cow: the model's tables would take"):
        replay(("create", 1), ("write", 1, 1 << 43, 4096))


def test_a_stored_trace_and_its_workload_give_the_same(tmp_path):
    from scmsim.trace import TraceWriter

    work = Workload(op="rewrite", unit=3000, total=90_000)
    with TraceWriter(tmp_path / "t.parquet", work.header) as writer:
        for batch in work.batches(50):
            writer.append(batch)
        writer.close(work.files)
    stored = scmsim.replay(tmp_path / "t.parquet", "nova-cow")
    direct = scmsim.replay(work, "nova-cow")
    assert stored.runs[0].counters == direct.runs[0].counters and stored.runs[0].space == direct.runs[0].space
    assert stored.manifest["trace"] == direct.manifest["trace"] and stored.manifest["inputs"]


def test_setup_after_counted_operations_counts_nothing():
    loud = replay(("create", 1), ("write", 1, 0, 4096))
    quiet = replay(("create", 1), ("write", 1, 0, 4096), ("write", 1, 4096, 4096, -1, SETUP))
    assert loud.counters == quiet.counters and quiet.space["live_bytes"] == 8192


def test_memory_objects_mean_something_to_the_scm_manager_only():
    batch = drive.ops(("malloc", 1, 0, 512), ("free", 1))
    found = {
        run.fs: run.warnings
        for run in scmsim.replay(drive.source(drive.files(0, -1, dirs=[0]), batch), "pmfs-4k,scm-manager").runs
    }
    assert "2 operations on memory objects mean nothing to pmfs-4k" in " ".join(found["pmfs-4k"])
    assert not any("memory objects" in warning for warning in found["scm-manager"])


@pytest.mark.parametrize(
    ("interval", "more", "told"), [(0, {}, True), (1000, {}, False), (0, {"timestamp_tick": 0}, False)]
)
def test_a_trace_without_a_clock_is_told_where_it_matters(interval, more, told):
    """A file's times follow the trace's clock, and whether an fsync has something to commit follows from them."""
    batch = drive.ops(("create", 1, 0, 0, 0), *[("stat", 1)] * 1000)
    batch.time_ns = interval * np.arange(len(batch))
    run = scmsim.replay(drive.source(drive.files(0, -1, dirs=[0]), batch), "ext4-dax", params={"ext4-dax": more}).runs[
        0
    ]
    assert any("the trace has no clock (1,001 operations in 0 ns)" in text for text in run.warnings) == told
