"""Check how counts of a guest become runs of a result, by function, operation and mechanism, with warnings."""

import json

import numpy as np
import pytest

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.records import READ, WRITE
from scmsim.lab import counts, outcome, pagetable, plan
from scmsim.lab.plan import UNKNOWN
from scmsim.result import Result, Run
from scmsim.result.cells import by_operation
from tests.lab.small_trace import small_trace

KALLSYMS = b"""\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000100 T vfs_write
ffffffff81000200 t ext4_file_write_iter.cold
ffffffff82410000 D init_top_pgt
ffffffffc0000000 t xfs_alloc\t[xfs]
"""


def rows_of(*entries):
    out = np.zeros(len(entries), counts.ROW)
    for i, entry in enumerate(entries):
        for name, value in entry.items():
            out[name][i] = value
    return out


def measured_rows():
    return rows_of(
        {"address": 0xFFFFFFFF81000110, "region": WRITE + 1, "instructions": 30, "load_instructions": 9},
        {"address": 0xFFFFFFFF81000200, "region": WRITE + 1, "instructions": 12, "pm_stored_bytes": 64},
        {"address": 0xFFFFFFFF81000210, "region": READ + 1, "instructions": 5},
        {"address": 0x401DEA, "region": WRITE + 1, "instructions": 3},
    )


def test_counts_by_label():
    functions = counts.symbols(KALLSYMS)
    assert functions.names == ["_stext", "vfs_write", "ext4_file_write_iter.cold", "xfs_alloc"]
    rows = measured_rows()
    found = counts.sums(
        rows, zip(rows["region"].tolist(), counts.functions_at(rows["address"], functions), strict=True)
    )
    assert found[WRITE + 1, "vfs_write"]["mem_inst_retired_all_loads"] == 9
    assert (
        found[WRITE + 1, counts.USER]["instructions"] == 3 and found[READ + 1, functions.names[2]]["instructions"] == 5
    )
    assert counts.symbol_address(KALLSYMS, "init_top_pgt") == 0xFFFFFFFF82410000


def test_counts_that_are_cut_short_are_refused(tmp_path):
    path = tmp_path / "counts"
    path.write_bytes(rows_of({"region": 1}).tobytes()[:-1])
    with pytest.raises(EnvironmentProblem, match="cut short"):
        counts.read(path)


def measured():
    from scmsim.lab.measured import Measured

    names = (
        "buffer",
        "buffer_bytes",
        "huge_bytes",
        "done",
        "failed",
        "first_failed",
        "first_errno",
        "no_space",
        "short_writes",
        "unwritten",
        "busy",
    )
    return Measured(measured_rows(), KALLSYMS, dict.fromkeys(names, 0), 1.0)


def test_a_trace_gives_one_run_with_its_kinds_of_operation_and_mechanisms():
    (run,) = outcome.Outcome("ext4-dax", plan.from_trace(small_trace()), measured()).runs(1, 1)
    assert run.counters["instructions"] == 50 and run.calls == 4
    assert run.groups["write"]["instructions"] == 45
    assert run.sites["syscall"]["instructions"] == 47  # vfs_write and ext4_file_write_iter, with or without a suffix
    assert sum(site["instructions"] for site in run.sites.values()) == 50
    assert run.payload == {"written": 200, "read": 4096}
    json.loads(Result({}, [run]).to_json())
    split = by_operation(Result({}, [run]))
    assert {(each.cell["operation"], each.counters["instructions"]) for each in split.runs} >= {("write", 45)}


def test_a_result_without_a_breakdown_cannot_be_compared_by_operation():
    with pytest.raises(UsageError, match="--by op"):
        by_operation(Result({}, [Run("ext4")]))


def test_a_kernel_that_does_not_tell_page_sizes_is_measured_and_the_gap_is_told(tmp_path):
    """CONFIG_PROC_PAGE_MONITOR: only the pages of the program's buffer depend on it."""
    found = measured()
    found.about |= {"huge_bytes": UNKNOWN, "buffer": 4 << 20, "buffer_bytes": 2 << 20}
    (run,) = outcome.Outcome("tmpfs", plan.from_trace(small_trace()), found).runs(1, 1)
    assert run.counters["instructions"] == 50 and not run.errors
    assert "CONFIG_PROC_PAGE_MONITOR" in run.warnings[0] and len(run.warnings) == 1
    ram = tmp_path / "ram"
    with ram.open("wb") as file:
        file.truncate(64 << 20)
    for huge, ranges in ((UNKNOWN, []), (2 << 20, [(4 << 20, 6 << 20, 21)])):
        assert pagetable.ranges(ram, KALLSYMS, {**found.about, "huge_bytes": huge}) == ranges


def test_failed_operations_are_told():
    found = measured()
    found.about |= {"failed": 3, "done": 9, "first_failed": 4, "first_errno": 28, "no_space": 2}
    (run,) = outcome.Outcome("tmpfs", plan.from_trace(small_trace()), found).runs(1, 1)
    assert run.errors["ENOSPC"] == 2 and "operation 4 with errno 28" in run.warnings[0]
