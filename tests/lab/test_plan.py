"""Check the lab's plans: operations of a trace or of the microbenchmark, and the binary form that a guest reads."""

import struct

import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import CLOSE, CREATE, FSYNC, MALLOC, MKDIR, OPEN, READ, RENAME, SYNC, UNLINK, WRITE
from scmsim.lab import plan
from tests.lab.small_trace import Trace, side_table, small_trace


def test_trace_has_a_region_for_each_kind_of_operation():
    made = plan.from_trace(small_trace())
    own = made.operations[made.operations["file"] < 3]
    assert own["region"].tolist() == [0, WRITE + 1, WRITE + 1, READ + 1, CLOSE + 1]
    write = made.regions[WRITE]
    assert (write.label, write.calls, write.written) == ("write", 2, 200)
    assert made.regions[READ].read == 4096
    assert made.files["parent"][:3].tolist() == [-1, 0, -1]
    assert made.files["first_size"][:3].tolist() == [0, -1, 4096]


def test_packed_plan_has_the_layout_that_guest_h_declares():
    made = plan.from_trace(small_trace())
    packed = made.packed([["mount", "DEVICE", "ext4", ""]])
    magic, setup, files, operations, buffer, output = plan.HEADER.unpack_from(packed)
    assert magic == b"SCMJOB1\n" and setup % 8 == 0
    assert packed[48 : 48 + setup].rstrip(b"\0") == b"4\0mount\0DEVICE\0ext4"
    assert (files, operations, buffer) == (len(made.files), len(made.operations), 4160)
    assert output % 4096 == 0 and output >= len(packed)
    at = 48 + setup + 16 * files
    assert len(packed) == at + 40 * operations
    last = struct.unpack_from("<BBHiiIqqq", packed, len(packed) - 40)
    assert last[0] == CLOSE and last[2] == CLOSE + 1 and last[3] == 1


def test_no_name_of_a_trace_reaches_the_guest():
    packed = plan.from_trace(small_trace()).packed([])
    assert b"rm -rf" not in packed and b"/d" not in packed


def test_a_trace_that_no_system_call_can_run_is_refused():
    files = side_table(("/a", -1, False))
    with pytest.raises(UsageError, match="malloc"):
        plan.from_trace(Trace([{"op": MALLOC, "length": 10}], files))
    with pytest.raises(UsageError, match="moves"):
        plan.from_trace(Trace([{"op": WRITE, "length": 1 << 40}], files))


def test_a_file_that_is_there_first_lies_in_a_directory_that_is_there_first():
    paths = (("/m", 0, True), ("/m/d", -1, True), ("/m/d/e", -1, True), ("/m/d/e/f", 10, False), ("/n/g", 5, False))
    made = plan.from_trace(Trace([{"op": OPEN, "file": 3}], side_table(*paths)))
    assert made.files["parent"][:5].tolist() == [-1, 0, 1, 0, -1]


def test_whole_paths_have_the_directories_that_a_trace_only_names():
    files = side_table(("/p/a", 5, False), ("/p/b/c/f", 5, False), ("/p/b", 0, True))
    opens = Trace([{"op": OPEN, "file": row} for row in (0, 1)], files)
    assert plan.with_directories(files).path[3:] == ["/p", "/p/b/c"]
    made = plan.from_trace(opens, whole_paths=True)
    assert made.files["parent"][:5].tolist() == [3, 4, 3, -1, 2]
    assert made.files["directory"][3:5].all() and not made.files["first_size"][3:5].any()
    assert plan.from_trace(opens).files["parent"][:3].tolist() == [-1, -1, -1]


def test_directories_that_contain_themselves_lie_at_the_mount_point():
    rows = [{"op": MKDIR, "file": i, "file2": (i + 1) % 3} for i in range(3)]
    made = plan.from_trace(Trace(rows, side_table(*((f"/{i}", -1, True) for i in range(3)))))
    for row in range(3):
        at, steps = row, 0
        while at >= 0 and steps < 10:
            at, steps = int(made.files["parent"][at]), steps + 1
        assert at == -1


def test_microbench_counts_what_the_rows_say():
    made = plan.microbench([1024, 4096], total=1 << 20, passes=("append", "wsync"))
    labels = [(r.label, r.calls, r.cell["unit_bytes"]) for r in made.regions]
    assert labels == [("append", 1024, 1024), ("wsync", 256, 1024), ("append", 256, 4096), ("wsync", 256, 4096)]
    for number, region in enumerate(made.regions, 1):
        mine = made.operations[made.operations["region"] == number]
        assert len(mine) == region.operations
        assert mine["length"].sum() == region.written
        assert set(mine["op"]) == ({WRITE, FSYNC} if region.label == "wsync" else {WRITE})


def test_threads_take_turns_on_the_cpus():
    rows = [{"op": WRITE, "length": 4096, "thread": thread} for thread in (7, 3, 7, 9, 3, 9)]
    source = Trace(rows, side_table(("/a", 0, False)))
    made = plan.from_trace(source, 2)
    assert made.operations["cpu"][-6:].tolist() == [0, 1, 0, 0, 1, 0]
    warm = len(made.operations) - 6
    assert made.operations["cpu"][:warm].tolist() == [0] * (warm // 2) + [1] * (warm // 2)
    assert plan.from_trace(source).packed([]) != made.packed([])


def test_names_are_made_before_they_are_used():
    made = plan.microbench([4096], total=4096, names=3)
    alive = set()
    for row in made.operations:
        file, op = int(row["file"]), int(row["op"])
        if op in (CREATE, MKDIR):
            alive.add(file)
        elif op != SYNC:
            assert file in alive, (op, file)
        if op == UNLINK and not (made.operations["op"] == RENAME).sum() == 0 and row["region"] == 0:
            continue
    labels = [region.label for region in made.regions]
    assert labels[4:6] == ["create", "create_sync"] and len(labels) == 4 + 2 * len(plan.NAMESPACE)
