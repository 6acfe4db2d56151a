"""The comparison table: rows, formats, ratios, breakdowns, the sentences below it."""

import csv
import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import Result as Done

from scmsim import cli, replay
from scmsim.core.errors import UnknownName
from scmsim.core.text import distinct, shortened
from scmsim.result import Result, Run, names
from scmsim.result.table import number
from scmsim.result.tables import breakdown, layout, summary
from scmsim.workload import thesis

LOADS, STORES = "mem_inst_retired_all_loads", "mem_inst_retired_all_stores"


def run(*args: str | Path) -> Done:
    return CliRunner().invoke(cli.main, list(map(str, args)))


def made(fs: str, loads: int, walks: int = 7, **more: object) -> Run:
    """A run of 1000 calls whose loads are split between two mechanisms."""
    counters = {
        "instructions": 20 * loads,
        LOADS: loads,
        STORES: 0,
        "dtlb_load_misses_walk_completed": walks,
        "dtlb_store_misses_walk_completed": 0,
        "dtlb_load_misses_walk_pending": 100 * walks,
        "dtlb_store_misses_walk_pending": 0,
        "pm_stored_bytes": 5 * loads,
    }
    sites = {"copy": {LOADS: 100_000, STORES: 0}, "journal": {LOADS: loads - 100_000, STORES: 0}}
    known = {"calls": 1000, "operations": 1000, "payload": {"written": 4000, "read": 500}}
    return Run(fs, "i7-8700k", counters=counters, sites=sites, **{**known, **more}).derive()  # type: ignore[arg-type]


def cells(table: str, label: str) -> list[str]:
    line = next(line for line in table.splitlines() if line.strip().startswith(label))
    return [cell.strip() for cell in line.strip().removeprefix(label).split("  ")]


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.195e-05, "0.00009195"), (1e-9, "<0.000001"), (0, "0"), (0.3031, "0.3031"), (12910.6, "12,911"), (None, "-")],
)
def test_no_figure_has_an_exponent(value: float | None, text: str) -> None:
    assert number(value) == text


def test_rates_out_of_a_few_walks_are_printed_as_their_count() -> None:
    table = Result(runs=[made("a", 200_000)]).table()
    assert cells(table, "dTLB page walks")[-1] == "7 in all"
    assert cells(table, "walks per million instructions")[-1] == "7 in all"
    assert cells(table, "cycles per walk")[-1] == "100 (7 walks)"
    many = Result(runs=[made("a", 200_000, walks=2000)]).table()
    assert cells(many, "walks per million instructions")[-1] == "500" and "in all" not in many


def test_the_share_of_loads_and_stores_with_an_address_is_told() -> None:
    looked_up = {"dtlb_load_lookups": 15_000, "dtlb_store_lookups": 5000}
    one = made("a", 200_000)
    one.counters |= looked_up
    label = "loads + stores with an address, %"
    assert cells(Result(runs=[one.derive()]).table(), label)[-1] == "10"
    one.counters["dtlb_load_lookups"] = 300_000  # each page of a rep-string is looked up, and none of its loads retires
    assert cells(Result(runs=[one.derive()]).table(), label)[-1] == "100"


def test_bytes_read_stand_beside_the_read_amplification() -> None:
    assert cells(Result(runs=[made("a", 200_000)]).table(), "bytes read by the program")[-1] == "500"


def test_estimates_are_named_as_in_the_table() -> None:
    one = made("a", 200_000)
    one.metrics["walk_cycles_percent_data"] = 1.0
    one.estimated = ["estimated_ns_per_call", "walk_cycles_percent_data", "walk_cycles_percent_instruction"]
    assert "estimated, not counted: walk cycles, %" in Result(runs=[one]).table().splitlines()


def test_rows_are_chosen_by_name_pattern_or_section() -> None:
    result = Result(runs=[made("a", 200_000)])
    shown = result.table(rows="walks per*,totals")
    assert "walks per million" in shown and "bytes written by the program" in shown and "calls" not in shown
    with pytest.raises(UnknownName, match="no row of the table named 'wlaks'.*'scmsim list rows' shows all"):
        result.table(rows="wlaks")


def test_columns_are_sorted_by_a_row() -> None:
    result = Result(runs=[made("a", 300_000), made("b", 200_000)])
    assert result.table(sort="loads").splitlines()[2].split() == ["b", "a"]
    assert [one.fs for one in result.runs] == ["a", "b"], "the result itself keeps its order"
    with pytest.raises(UnknownName, match="no row of the table named 'nonsense'"):
        result.table(sort="nonsense")


def test_ratios_to_the_first_column() -> None:
    table = Result(runs=[made("a", 200_000), made("b", 800_000, walks=8)]).table(ratios=True)
    assert cells(table, "loads + stores (TLB traffic)")[-1] == "800 x4" and "200 x1" not in table
    assert "x" not in "".join(cells(table, "walks per million instructions")), "none of counts that are too small"


def test_markdown_and_csv() -> None:
    result = Result(runs=[made("a|b", 200_000), made("=1+1", 800_000)])
    assert "| calls | 1,000 | 1,000 |" in result.table(form="markdown") and "a\\|b" in result.table(form="markdown")
    rows = list(csv.reader(io.StringIO(result.table(form="csv"))))
    assert rows[0] == ["section", "row", "a|b", "'=1+1"]
    assert ["per call", "loads + stores (TLB traffic)", "200.0", "800.0"] in rows
    parts = list(csv.DictReader(io.StringIO(result.table("site", form="csv"))))
    assert len(parts) == 4 and [parts[1][name] for name in ("fs", "site", LOADS)] == ["a|b", "journal", "100000"]
    with pytest.raises(UnknownName, match="no format of a table named 'html'"):
        result.table(form="html")


def test_a_wide_table_is_broken_into_groups_of_columns() -> None:
    result = Result(runs=[made(f"system-{i}", 200_000) for i in range(9)])
    narrow = result.table(width=80)
    assert max(map(len, narrow.splitlines())) <= 80 and narrow.count("  instructions") == 2 * narrow.count("per call\n")
    assert narrow.count("per call\n") > 1 and result.table().count("per call\n") == 1
    assert layout.grid([["name", "a" * 50]], 20).endswith("a" * 50), "a column too wide stands alone"


def test_explain_says_what_each_shown_row_means() -> None:
    said = Result(runs=[made("a", 200_000)]).table(rows="calls,stored", explain=True).split("what the rows mean")[1]
    assert "Calls of the program" in said and "bytes stored: all" in said and "walk cycles" not in said


def test_the_summary_names_the_largest_difference_and_its_causes() -> None:
    few, many = made("b", 200_000, stored_bytes={"log": 0}), made("a", 1_000_000, stored_bytes={"log": 4_000_000})
    assert summary.sentences([many, few]) == [
        "a has 5.0 times the loads and stores of b: journal 900 a call against 100.",
        "a has 5.0 times the stored bytes of b: log 4,000 a call against 0.",
    ]
    assert summary.sentences([few, made("c", 199_000, walks=500)]) == ["c takes 500 page walks, b 7."]
    machines = [many, made("a", 200_000)]
    machines[1].machine = "zen4"
    assert summary.sentences(machines)[0].startswith("a on i7-8700k has 5.0 times the loads and stores of a on zen4")


@pytest.mark.parametrize(
    "other",
    [made("b", 205_000), made("b", 900_000, calls=7), made("b", 900_000, errors={"ENOSPC": 1}), Run("b", calls=1000)],
)
def test_the_summary_is_silent_where_runs_are_alike_or_cannot_be_compared(other: Run) -> None:
    assert summary.sentences([made("a", 200_000), other]) == []


def test_bytes_that_were_not_stored_yet_are_not_compared() -> None:
    late = made("b", 900_000, space={"dirty_bytes": 4096})
    assert [line for line in summary.sentences([made("a", 200_000), late]) if "stored bytes" in line] == []


def by_file(count: int, **more: object) -> Run:
    groups = {f"/very/long/folder/{'x' * 60}/{i:04}": {LOADS: 1000 * (count - i), STORES: 0} for i in range(count)}
    operations = dict.fromkeys(groups, 10)
    return made("a", 100_000 * count, groups=groups, group_operations=operations, **more)


def test_a_breakdown_by_operation_is_per_operation_of_that_kind() -> None:
    groups = {"open": {LOADS: 5000, STORES: 0}, "write": {LOADS: 195_000, STORES: 0}}
    one = made("a", 200_000, groups=groups, group_operations={"open": 5, "write": 900})
    table = Result(runs=[one]).table("op")
    assert "a i7-8700k, by op, per operation of that kind" in table
    head, first, second = breakdown.rows(one, "op")
    assert head == ["", "operations", "share, %", "loads+stores"]
    assert (first, second) == (["write", "900", "97.5", "216.7"], ["open", "5", "2.5", "1,000"])


def test_a_breakdown_by_file_shows_the_first_and_sums_up_the_others() -> None:
    rows = breakdown.rows(by_file(30), "file", top=3)
    assert len(rows) == 5 and rows[-1][:2] == ["(27 more files)", "270"]
    assert len(breakdown.rows(by_file(30), "file")) == 1 + breakdown.TOP + 1
    names = [row[0] for row in rows[1:4]]
    assert len(set(names)) == 3 and max(map(len, names)) <= 48 and all("..." in name for name in names)


def test_names_are_cut_in_their_middle_and_stay_apart() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij" and shortened("abcdefghijk", 10) == "abc...hijk"
    assert shortened("\x1b[31m" * 9, 20).isprintable()
    alike = [f"{'a' * 90}{letter}{'b' * 90}" for letter in "xy"]
    assert len(set(distinct(alike, 48))) == 2


def test_operations_of_each_group_are_counted_where_passes_repeat_too() -> None:
    source = thesis.Workload(op="read", size_from=1 << 20, unit_from=4096, total=1 << 28)
    found = replay(source, "nova-cow", by="op").runs[0]
    assert found.repeated and sum(found.group_operations.values()) == found.operations
    assert set(found.group_operations) == set(found.groups)
    rows = Result(runs=[found]).rows("group")
    assert {row["group"]: row["operations"] for row in rows} == found.group_operations
    assert replay(source, "nova-cow").runs[0].group_operations == {}


def test_replay_takes_patterns_lists_and_formats(tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    assert run("synth", "microbench", "--total", "64KiB", "-o", trace).exit_code == 0
    done = run("replay", trace, "--fs", "ram*", "--machine", "zen4,i7-8700k", "--paging", "base-4k,directmap-2m",
               "--set", "directmap-2m.user_page=2MiB", "--format", "csv", "--rows", "calls")  # fmt: skip
    assert done.exit_code == 0, done.output
    head, machine, paging, calls = csv.reader(io.StringIO(done.stdout))
    assert head[2:] == ["ramfs"] * 4 and machine[2:] == ["zen4", "zen4", "i7-8700k", "i7-8700k"]
    assert paging[2:] == ["base-4k", "directmap-2m"] * 2 and len(set(calls[2:])) == 1
    assert '"results"' in run("replay", trace, "--fs", "ramfs", "--format", "json").stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--fs", "nova"), "did you mean 'nova-cow', 'nova-fast16' or 'nova-inplace'? 'scmsim list fs' shows all"),
        (("--fs", "zz*"), "no file system matches 'zz*'; 'scmsim list fs' shows all"),
        (("--machine", "zen"), "no machine named 'zen'; did you mean "),
        (("--rows", "nonsense"), "'scmsim list rows' shows all"),
        (("--sort", "nonsense"), "'scmsim list rows' shows all"),
        (("--top", "0"), "0 is not in the range"),
    ],
)
def test_a_name_that_is_none_is_one_short_line(args: tuple[str, ...], said: str) -> None:
    done = run("replay", "quickstart", *args)
    assert done.exit_code == 2 and said in done.stderr and len(done.stderr.splitlines()[-1]) < 260


def figures(table: str, label: str) -> list[str]:
    return [cell for cell in cells(table, label) if cell]


def touched(**params: object) -> Run:
    """A run of 4 calls and 400,004 touches."""
    run = made("ext4-dax", 8_041_726 * 4, calls=4, operations=400_008, touches=400_004, params=params)
    run.sites["page fault"] = {"instructions": 20 * 4_000_000}
    run.counters |= {"page_faults_pte": 99_000, "page_faults_pmd": 1_000}
    return run


def test_figures_of_a_mapped_trace_are_per_touch() -> None:
    table = Result({}, [touched()]).table("site")
    assert "\nper touch" in table and "\nper call" not in table and "per touch of the run (400,004 touches)" in table
    assert figures(table, "instructions") == ["1,608"] and figures(table, "calls") == ["4"]
    assert figures(table, "touches of mapped files") == ["400,004"]
    assert "\nper call" in Result({}, [made("a", 200_000, touches=3)]).table()


def test_page_faults_have_rows() -> None:
    table = Result({}, [touched()]).table()
    assert figures(table, "page faults, 4 KiB") == ["99,000"] and figures(table, "page faults, 2 MiB") == ["1,000"]
    assert figures(table, "page faults: instructions each") == ["800"]
    assert figures(table, "page faults: share of all instructions, %") == ["12.44"]
    assert "page fault" not in Result({}, [made("a", 200_000)]).table()


def test_columns_that_differ_in_a_parameter_name_it() -> None:
    runs = [touched(data_alignment=0), touched(data_alignment=2 << 20), touched(data_alignment=2 << 20)]
    table = Result({}, runs).table()
    assert figures(table, "data_alignment") == ["0", "2MiB", "2MiB"]
    assert table.splitlines()[2].split() == ["ext4-dax", "ext4-dax", "ext4-dax", "(2)"]
    assert names.labels(runs) == [
        "ext4-dax data_alignment 0",
        "ext4-dax data_alignment 2MiB",
        "ext4-dax data_alignment 2MiB (3)",
    ]
    far = made("ext4-dax", 80_000_000, calls=4, operations=400_008, touches=400_004, params={"data_alignment": 4096})
    assert "ext4-dax with data_alignment 4KiB has 2.5 times" in summary.sentences([runs[1], far])[0]
    synced = [made("a", 200_000), made("a", 200_000, params={"sync_at_end": True})]
    assert names.labels(synced) == ["a", "a sync_at_end True"]


def test_parameters_of_another_mapping_or_a_cell_are_not_named_again() -> None:
    mapped = [
        made("a", 200_000, params={"user_page": 4096 << i}, paging=paging) for i, paging in enumerate(("linux", "b"))
    ]
    assert names.labels(mapped) == ["a linux", "a b"]
    swept = [made("a", 200_000, cell={"set.a.unit": unit}, params={"unit": unit}) for unit in (1, 2)]
    assert list(names.axes(swept)) == ["set.a.unit"]


def test_a_model_without_costs_is_named_and_not_compared() -> None:
    bare = made("toy", 200_000)
    bare.counters["instructions"] = bare.counters[LOADS]
    said = summary.sentences([made("a", 1_000_000), bare, made("b", 200_000)])
    assert said[0].startswith("toy: its model has no costs")
    assert said[1].startswith("a has 5.0 times the loads and stores of b") and not any(
        "toy" in line for line in said[1:2]
    )
    assert not any("no costs" in line for line in summary.sentences([made("a", 1_000_000), Run("b", calls=1000)]))
