"""What a sweep's table says of its points when it is read as a result."""

import pathlib
from typing import Any

import pyarrow
import pyarrow.parquet

from scmsim.result import FOOTPRINTS
from scmsim.sweep import store, table

WARNING = "no costs of Linux 6.1 were measured, but on 5.13: these are charged; see --kernel"


def read(folder: pathlib.Path, *rows: dict[str, Any]) -> list[Any]:
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "results.parquet")
    return table.read(folder).runs


def test_footprints_stay_with_a_point(tmp_path: pathlib.Path) -> None:
    (run,) = read(
        tmp_path, {"fs": "ext4", "paging": "linux", "param_footprints": "ext4 on Linux 5.10", "param_tick": 1}
    )
    assert run.params == {FOOTPRINTS: "ext4 on Linux 5.10", "tick": 1}


def test_a_warning_with_a_semicolon_stays_one(tmp_path: pathlib.Path) -> None:
    (run,) = read(tmp_path, {"fs": "ext4", "paging": "linux", "warnings": f"{WARNING}\nanother"})
    assert run.warnings == [WARNING, "another"]


def test_a_fixed_parameter_does_not_vary(tmp_path: pathlib.Path) -> None:
    """It is absent from the points of other file systems, whose parameter it is not."""
    rows = [
        {
            "fs": fs,
            "paging": "linux",
            "workload.kind": "microbench",
            "workload.unit": unit,
            f"set.{fs}.capacity": 1 << 30,
        }
        for fs in ("ext4", "nova-cow")
        for unit in (4096, 8192)
    ]
    assert [run.cell for run in read(tmp_path, *rows)] == [{"workload.unit": 4096}, {"workload.unit": 8192}] * 2
    rows[3]["set.nova-cow.capacity"] = 1 << 31
    assert read(tmp_path, *rows)[3].cell == {"workload.unit": 8192, "set.nova-cow.capacity": 1 << 31}


def test_a_trace_and_a_workload_are_told_apart(tmp_path: pathlib.Path) -> None:
    rows = [{"fs": "ext4", "trace": "/a/t.parquet"}, {"fs": "ext4", "workload.kind": "microbench"}]
    assert [run.cell for run in read(tmp_path, *rows)] == [{"trace": "/a/t.parquet"}, {"workload.kind": "microbench"}]


def test_points_with_warnings_count_in_a_finished_sweep_too(tmp_path: pathlib.Path) -> None:
    for _ in range(2):
        with store.opened(tmp_path / "out") as place:
            store.save(place, "a", {"fs": "ext4"}, {"warnings": WARNING})
            store.save(place, "b", {"fs": "ext4"}, {"warnings": ""})
            assert store.gather(place, ["a", "b"], {})[1] == 1
