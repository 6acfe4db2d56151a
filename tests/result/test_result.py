"""Results: written whole, read back the same, refused with a reason, shown without surprises."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.result import SCHEMA, Result, Run, check_writable, provenance, read


def example() -> Result:
    counters = {
        "instructions": 20_000,
        "mem_inst_retired_all_loads": 6000,
        "mem_inst_retired_all_stores": 4000,
        "dtlb_load_misses_walk_completed": 12,
        "dtlb_store_misses_walk_completed": 8,
        "pm_stored_bytes": 65_536,
        "fences": 40,
    }
    site = {"pm_stored_bytes": 640, "fences": 20}
    runs = [
        Run(
            fs=fs,
            machine="i7-8700k",
            medium="optane",
            calls=10,
            operations=20,
            counters={**counters, "pm_stored_bytes": stored},
            sites={"log append": site, "copy": {"pm_stored_bytes": stored - 640, "fences": 20}},
            groups={"write": {"calls": 5, "pm_stored_bytes": stored}},
            payload={"written": 32_768, "read": 0},
            stored_bytes={"data": stored - 640, "log": 640},
            space={"live_bytes": 32_768, "allocated_bytes": 40_960, "waste_bytes": 8192},
            errors={"ENOSPC": 1, "first ENOSPC": 17},
            warnings=["3 offsets were unknown"],
            params={"capacity": 1 << 30},
        ).derive()
        for fs, stored in (("nova-cow", 65_536), ("ext4", 131_072))
    ]
    return Result({"scmsim": "0", "date": "2026-01-01"}, runs)


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_what_is_written_reads_back_the_same(tmp_path: Path, suffix: str) -> None:
    file = example().write(tmp_path / f"r{suffix}")
    assert read(file) == example()
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_json_has_the_agreed_keys() -> None:
    table = json.loads(example().to_json())
    assert list(table) == ["schema", "manifest", "results"] and table["schema"] == SCHEMA
    first = table["results"][0]
    assert {"fs", "machine", "calls", "counters", "metrics", "sites", "stored_bytes", "space"} <= first.keys()
    assert first["metrics"]["write_amplification"] == 2.0
    assert first["metrics"]["l1_misses"] is None and first["why_absent"]["l1_misses"] == "no l1d_replacement"


def test_csv_is_one_flat_row_per_run(tmp_path: Path) -> None:
    rows = list(csv.DictReader(example().write(tmp_path / "r.csv").open()))
    assert [row["fs"] for row in rows] == ["nova-cow", "ext4"]
    assert rows[1]["pm_stored_bytes"] == "131072" and rows[1]["write_amplification"] == "4.0"
    assert rows[0]["l1_misses"] == "" and rows[0]["param_capacity"] == str(1 << 30)
    with pytest.raises(UsageError, match="write .json or .parquet to read it back"):
        read(tmp_path / "r.csv")


def test_cells_are_columns_and_older_results_have_none() -> None:
    run = Run("ext4", cell={"operation": "write", "unit_bytes": 4096}, events={"fences": "r1"})
    result = Result(runs=[run])
    assert result.rows()[0] | {"cell_operation": "write", "cell_unit_bytes": 4096} == result.rows()[0]
    table = json.loads(result.to_json())
    assert Result.from_json(json.dumps(table)).runs == [run]
    del table["results"][0]["cell"], table["results"][0]["events"]
    assert Result.from_json(json.dumps(table)).runs[0].cell == {}


@pytest.mark.parametrize("part", [{"counters": []}, {"cell": "x"}, {"calls": "9"}, {"fs": None}, {"warnings": {}}])
def test_a_run_with_a_table_of_the_wrong_kind_is_refused(part: dict) -> None:
    table = {"schema": SCHEMA, "manifest": {}, "results": [{"fs": "ext4", **part}]}
    with pytest.raises(UsageError, match=r"results\[0\] has a run that schema 1 does not allow"):
        Result.from_json(json.dumps(table))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            '"counters": {"instructions": 1e999}',
            "counters.instructions is inf; it must be a whole number from 0 to",
        ),
        ('"counters": {"instructions": 1' + "0" * 400 + "}", "counters.instructions is 1000"),
        ('"counters": {"instructions": "abc"}', "counters.instructions is 'abc'"),
        ('"counters": {"instructions": -1}', "counters.instructions is -1"),
        ('"counters": {"instructions": true}', "counters.instructions is True"),
        ('"calls": -1', "calls is -1; it must be a whole number"),
        ('"sites": {"a": 5}', "sites.a is 5; it must be a JSON object"),
        ('"groups": {"a": {"fences": null}}', "groups.a.fences is None"),
        ('"metrics": {"tlb_traffic": 1e999}', "metrics.tlb_traffic is inf; it must be a number"),
        ('"space": {"live_bytes": "q"}', "space.live_bytes is 'q'"),
        ('"space": "q"', "space is 'q'; it must be a JSON object"),
        ('"time_ns": {"walks": []}', r"time_ns.walks is \[\]"),
        ('"warnings": [5]', r"warnings\[0\] is 5; it must be text"),
        ('"machine": "' + "m" * 100_000 + '"', "machine is 'mmm.*; it must be text of at most 1,000 characters"),
        ('"cell": {"unit_bytes": 0.5}', "cell.unit_bytes is 0.5"),
        ('"cell": {"operation": [1]}', r"cell.operation is \[1\]"),
    ],
)
def test_what_a_run_holds_is_checked_on_reading(tmp_path: Path, part: str, message: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(f'{{"schema": {SCHEMA}, "manifest": {{}}, "results": [{{"fs": "a"}}, {{"fs": "ext4", {part}}}]}}')
    with pytest.raises(UsageError, match=rf"r.json': results\[1\] has a run that schema 1 .*{message}") as caught:
        read(file)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400 + len(str(tmp_path))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_json_has_no_number_for_is_refused(number: str) -> None:
    text = f'{{"schema": {SCHEMA}, "manifest": {{"x": {number}}}, "results": []}}'
    with pytest.raises(UsageError, match=f"is not JSON: {number} is not a number of JSON"):
        Result.from_json(text)


@pytest.mark.parametrize("table", ['"manifest": 5, "results": []', '"manifest": {}, "results": {"fs": 1}'])
def test_a_manifest_is_a_table_and_results_are_a_list(table: str) -> None:
    with pytest.raises(UsageError, match="its manifest must be a table, its results a list"):
        Result.from_json(f'{{"schema": {SCHEMA}, {table}}}')


def test_numpy_numbers_are_written_as_numbers() -> None:
    result = Result(runs=[Run("nova-cow", counters={"fences": np.int64(3)}, time_ns={"walks": np.float64(0.5)})])
    first = json.loads(result.to_json())["results"][0]
    assert (first["counters"]["fences"], first["time_ns"]["walks"]) == (3, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a result of scmsim"),
        ('{"schema": 1}', "is not a result of scmsim"),
        ('{"schema": 2, "manifest": {}, "results": []}', "schema 2, newer than 1; read it with a newer scmsim"),
        ('{"schema": 0, "manifest": {}, "results": []}', "schema 0, this scmsim reads 1; run the experiment again"),
        ('{"schema": 1, "manifest": {}, "results": [{"fs": "a", "fz": 1}]}', "a run that schema 1 does not allow"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        read(file)


def test_a_parquet_file_that_is_no_result_is_refused(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"op": [1]}), tmp_path / "t.parquet")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(UsageError, match="is it a trace"):
        read(tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="is not a Parquet file"):
        read(tmp_path / "cut.parquet")
    with pytest.raises(UsageError, match="no such file"):
        read(tmp_path / "none.parquet")


@pytest.mark.parametrize(
    ("name", "message"),
    [("r.xlsx", "must end in .json, .csv, .parquet"), ("none/r.json", "no folder"), ("folder.json", "is a folder")],
)
def test_where_a_result_cannot_go_is_said_before_the_work(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(UsageError, match=message):
        check_writable(tmp_path / name)


def test_a_full_disk_leaves_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Result().write(tmp_path / "r.json")
    before = file.read_bytes()

    def half_written(path: Path, content: bytes) -> int:
        with path.open("wb") as out:
            out.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half_written)
    with pytest.raises(EnvironmentProblem, match="cannot write .*no space left"):
        example().write(file)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(("level", "rows"), [("run", 2), ("site", 4), ("group", 2)])
def test_frames(level: str, rows: int) -> None:
    frame = example().to_frame(level)
    assert len(frame) == rows and set(frame["fs"]) == {"nova-cow", "ext4"}
    if level == "site":
        assert frame.set_index(["fs", "site"]).loc[("ext4", "log append"), "pm_stored_bytes"] == 640
    with pytest.raises(UsageError, match="no level 'file'; choose from run, site, group"):
        example().to_frame("file")


def test_text_table_has_runs_as_columns_and_figures_per_call() -> None:
    lines = example().table().splitlines()
    assert lines[0] == "machine i7-8700k, medium optane, nova-cow.capacity=1GiB, ext4.capacity=1GiB"
    cells = {line.rsplit(maxsplit=2)[0].strip(): line.split()[-2:] for line in lines[2:] if len(line.split()) > 2}
    assert lines[2].split() == ["nova-cow", "(1", "failed)", "ext4", "(1", "failed)"]
    assert cells["loads + stores (TLB traffic)"] == ["10,000", "10,000"]
    assert "instructions 2,000 2,000" in [" ".join(line.split()) for line in lines]
    assert cells["write amplification: stored"] == ["2", "4"]
    assert cells["bytes stored: log"] == ["64", "64"]
    assert "nova-cow i7-8700k optane: ENOSPC 1" in lines
    assert "ext4 i7-8700k optane: warning: 3 offsets were unknown" in lines
    assert len({len(line) for line in lines if line.startswith("  ")}) == 1


def test_text_table_leaves_out_what_no_run_supplies() -> None:
    assert "walk cycles" not in example().table()
    mixed = Result(runs=[Run("a", counters={"fences": 4}, calls=2), Run("b", counters={}, calls=2)])
    assert next(line for line in mixed.table().splitlines() if "fences" in line).split()[-2:] == ["2", "-"]


def test_breakdown_by_site_and_operation() -> None:
    by_site = example().table("site").split("by site, per call of the run (10 calls)")[1].splitlines()
    assert by_site[1].split() == ["stored", "B", "fences"], "absent is not zero"
    assert by_site[2].rsplit(maxsplit=2) == ["log append", "64", "2"]
    for by in ("op", "group"):
        lines = example().table(by).splitlines()
        title = lines.index(f"nova-cow i7-8700k optane, by {by}, per call of the run (10 calls)")
        assert lines[title + 2].split() == ["write", "6,554"]
    with pytest.raises(UsageError, match="choose from site, op, file"):
        example().table("inode")
    with pytest.raises(UsageError, match="not broken down by 'file'; run it again with --by file"):
        Result(runs=[Run("a")]).table("file")


def test_html_escapes_every_name() -> None:
    run = Run("<script>alert(1)</script>", machine="a&b", calls=1, warnings=["<b>"], errors={"<i>": 1})
    html = Result(runs=[run])._repr_html_()
    assert "<script>" not in html and "<b>" not in html and "<i>" not in html
    assert "&lt;script&gt;" in html and "a&amp;b" in html and html.count("<table>") == 1
    assert Result()._repr_html_() == "<p>no runs</p>" and Result().table() == "no runs"


def test_derive_estimates_time_only_with_a_machine() -> None:
    run = Run("a", calls=2, counters={"instructions": 100, "fences": 3})
    assert run.derive().time_ns == {} and run.metrics["estimated_ns_per_call"] is None
    run.derive({"ghz": 2.0, "cpi": 1.0}, {"fence_ns": 10})
    assert run.time_ns == {"instructions": 50.0, "fences": 30} and run.metrics["estimated_ns_per_call"] == 40
    assert run.estimated == ["estimated_ns_per_call"] and run.why_absent["time_ns.calls"] == "no syscall_ns"


def test_manifest_says_where_a_result_comes_from(tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    trace.write_bytes(b"abc")
    found = provenance.build([trace], {"workload": 42}, ["scmsim", "replay"], trace={"tool": "strace"})
    assert found["inputs"][str(trace)] == {
        "bytes": 3,
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
    assert len(found["sources"]) == 24 and found["seeds"] == {"workload": 42} and found["argv"] == ["scmsim", "replay"]
    assert found["packages"]["numpy"] == np.__version__ and found["trace"] == {"tool": "strace"}
    assert json.loads(json.dumps(found)) == found


def test_a_parquet_result_is_not_larger_than_its_json(tmp_path: Path) -> None:
    many = Result({}, [Run("ext4", calls=i, counters={f"counter_{j}": i * j for j in range(30)}) for i in range(300)])
    sizes = {suffix: many.write(tmp_path / f"r.{suffix}").stat().st_size for suffix in ("parquet", "json")}
    assert 4 * sizes["parquet"] < sizes["json"]
    assert read(tmp_path / "r.parquet") == many


@pytest.mark.parametrize("content", [b"", b"AAAA", b"\xff", b"eJyrVipKLS7NKVGyUjLUUVIqLk1OTi0uBgBX"])
def test_a_damaged_result_in_a_parquet_file_is_refused(tmp_path: Path, content: bytes) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"a": [1]}).replace_schema_metadata({b"scmsim.result": content})
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet")
    with pytest.raises(UsageError, match="is damaged"):
        read(tmp_path / "r.parquet")


def test_a_parquet_result_written_uncompressed_is_still_read(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    old = example().to_json(indent=None).encode()
    table = pyarrow.table({"a": [1]}).replace_schema_metadata({b"scmsim.result": old})
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet")
    assert read(tmp_path / "r.parquet").to_json() == example().to_json()


@pytest.mark.parametrize("name", ["nothing", "nothing.json", "nothing.csv"])
def test_a_result_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"^no such file or folder .*; give a result"):
        read(tmp_path / name)


def test_the_table_says_which_parameters_are_not_the_defaults() -> None:
    params = {"capacity": 1 << 30, "data_path": "in-place"}
    table = Result({}, [Run(fs="pmfs-2m", paging="directmap-1g", params=params), Run(fs="measured", params={"x": 1})])
    assert table.table().splitlines()[0] == "pmfs-2m.capacity=1GiB"


def test_html_sets_sections_apart_from_their_figures() -> None:
    html = example()._repr_html_()
    assert "<tr><th style='text-align:left'>per call</th>" in html
    assert "<tr><td style='text-align:left; padding-left:1.5em'>instructions</td><td>" in html
