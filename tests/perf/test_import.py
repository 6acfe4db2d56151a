"""Files of perf, of the emulated machine and of the thesis as results."""

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.errors import UsageError
from scmsim.perf.importer import FILE_SIZES, OPERATIONS, UNITS, About, import_files
from scmsim.result import Result, read

DATA = Path(__file__).parent.parent / "data" / "perf"
LAB = Path(__file__).parent.parent / "verification" / "data" / "measured_513.csv"

EVENTS = (  # of the thesis, in the order of its appendix
    "cpu_clk_unhalted.thread_p", "l1d.replacement", "mem_load_uops_retired.llc_hit", "mem_load_uops_llc_hit_retired.xsnp_hit",
    "mem_load_uops_llc_hit_retired.xsnp_hitm", "mem_load_uops_llc_hit_retired.xsnp_miss", "dTLB-loads", "dTLB-stores",
    "dTLB-load-misses", "dTLB-store-misses", "inst_retired.any_p", "dtlb_load_misses.walk_completed",
    "dtlb_load_misses.walk_duration", "dtlb_store_misses.walk_completed", "dtlb_store_misses.walk_duration",
    "itlb_misses.walk_completed", "itlb_misses.walk_duration",
)  # fmt: skip
LLC_MISS = "mem_load_uops_misc_retired.llc_miss"  # the 18th, which Table 7 needs and the thesis did not collect


def imported(*args: str | Path) -> Result:
    out = Path(args[-1])
    done = CliRunner().invoke(cli.main, ["perf", "import", *map(str, args[:-1]), "-o", str(out)])
    assert done.exit_code == 0, done.output
    return read(out)


def lines(**values: object) -> str:
    return "".join(
        f'{{"counter-value" : "{value}", "unit" : "", "event" : "{event.replace("__", ":")}", "pcnt-running" : 100.00}}\n'
        for event, value in values.items()
    )


def test_repeats_of_a_cell(tmp_path: Path) -> None:
    files = []
    for number in (1, 2):
        files.append(tmp_path / f"run{number}.json")
        files[-1].write_text(lines(cycles=1000 * number, instructions="<not counted>"))
    cell = ["--operation", "write", "--file-size", "1MiB", "--unit", "4KiB", "--calls", "256", "--fs", "ext4-dax"]
    runs = imported(*files, *cell, tmp_path / "out.json").runs
    expected = {"operation": "write", "file_bytes": 1 << 20, "unit_bytes": 4096}
    assert [run.cell for run in runs] == [{**expected, "repeat": repeat} for repeat in (1, 2)]
    assert [run.counters for run in runs] == [{"cycles": 1000}, {"cycles": 2000}]
    assert {(run.fs, run.calls, run.why_absent["instructions"]) for run in runs} == {
        ("ext4-dax", 256, "perf: instructions not counted")
    }


def test_user_and_kernel_add_up_and_one_of_them_is_no_total(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(lines(cycles__u=30, cycles__k=70, instructions__u=5))
    (run,) = import_files([path]).runs
    assert (run.fs, run.counters) == ("x", {"cycles": 100})
    assert run.groups == {"user": {"cycles": 30, "instructions": 5}, "kernel": {"cycles": 70}}
    assert run.warnings == ["instructions was counted in user mode only; it has no total"]


def test_an_extrapolated_count_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("12,,cycles,685063,49.96,,\n0.5,msec,task-clock,500000,100.00,,\n")
    (run,) = import_files([path]).runs
    assert run.warnings == ["cycles was on a counter for 49.96 % of the time; scaled up"]
    assert run.counters == {"cycles": 12, "task_clock": 500_000}


def test_the_event_table_gives_ambiguous_names_their_meaning(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"counter-value" : "7", "event" : "dTLB-load-misses"}\n')
    meanings = {
        table: set(import_files([path], About(table=table)).runs[0].counters)
        for table in (None, "skylake", "ivybridge", "zen3")
    }
    assert meanings == {
        None: {"dtlb_load_misses"},
        "skylake": {"dtlb_load_misses_walk_completed"},
        "ivybridge": {"dtlb_load_misses_miss_causes_a_walk"},
        "zen3": {"dtlb_misses_walk_completed"},
    }


def test_a_profile_has_its_symbols_as_sites(tmp_path: Path) -> None:
    (run,) = imported(DATA / "script_callgraph.txt", "--fs", "ext4", tmp_path / "out.json").runs
    assert run.fs == "ext4" and run.counters == {"cpu_clock": 26 * 200_000}
    assert run.sites["block_commit_write"] == {"cpu_clock": 600_000}
    assert sum(site["cpu_clock"] for site in run.sites.values()) == run.counters["cpu_clock"]


def test_rows_of_the_emulated_machine(tmp_path: Path) -> None:
    result = imported(LAB, "--kernel", "5.13.13", tmp_path / "out.parquet")
    assert len(result.runs) == len(LAB.read_text().splitlines()) - 1 and result.manifest["kernel"] == "5.13.13"
    run = next(r for r in result.runs if r.fs == "nova-inplace" and r.cell["operation"] == "append")
    assert run.cell == {"operation": "append", "file_bytes": 16 << 20, "unit_bytes": 1024}
    assert run.calls == 16384 and run.counters["instructions"] == round(2665.9 * 16384)
    assert run.counters["pm_stored_bytes"] == round(2052.9 * 16384) and run.payload == {"written": 16 << 20, "read": 0}
    assert run.metrics["write_amplification"] == pytest.approx(2052.9 / 1024)
    assert "LFENCE" in run.why_absent["fences"] and "fences" not in run.counters


def columns(folder: Path, systems: tuple[str, ...], events: tuple[str, ...], seed: int = 1) -> dict:
    """Write columns of random values; returns (event, FS) -> values."""
    draw = random.Random(seed)
    values = {}
    for fs in systems:
        for event in events:
            values[event, fs] = [draw.randrange(1, 10**9) for _ in range(6160)]
            text = "\n".join(map(str, values[event, fs]))
            (folder / f"form_{event}_{fs}.txt").write_text(text + "\n")
    return values


def place(file_bytes: int, unit: int, repeat: int, operation: str) -> int:
    """Line of a column: the operation runs fastest, then the repeat, the unit and the file size."""
    of_file, of_unit = FILE_SIZES.index(file_bytes), UNITS.index(unit)
    return ((of_file * 14 + of_unit) * 10 + repeat - 1) * 4 + OPERATIONS.index(operation)


def test_the_columns_of_the_thesis_become_cells_with_the_metrics_of_table_7(tmp_path: Path) -> None:
    values = columns(tmp_path, ("EXT4DAX",), (*EVENTS, LLC_MISS))
    result = import_files(sorted(tmp_path.glob("form_*")), About(table="sandybridge"))
    assert len(result.runs) == 6160 and {run.fs for run in result.runs} == {"ext4-dax"}
    for run in result.runs[:: 6160 // 97]:
        cell = run.cell
        at = place(cell["file_bytes"], cell["unit_bytes"], cell["repeat"], cell["operation"])
        e = [0, *(values[event, "EXT4DAX"][at] for event in EVENTS), values[LLC_MISS, "EXT4DAX"][at]]
        by_hand = {
            "walk_cycles_percent_data": 100 * (e[13] + e[15]) / e[1],
            "walks_per_1000_instructions_data": (e[12] + e[14]) / (e[11] / 1000),
            "cycles_per_walk_data": (e[13] + e[15]) / (e[12] + e[14]),
            "walk_cycles_percent_instruction": 100 * e[17] / e[1],
            "walks_per_1000_instructions_instruction": e[16] * 1000 / e[11],
            "cycles_per_walk_instruction": e[17] / e[16],
            "l1_misses": e[2],
            "l2_misses": e[3] + e[4] + e[5] + e[18],
            "llc_misses": e[18],
        }
        assert run.metrics == pytest.approx(by_hand)
        matlab = {"cycles_per_walk_instruction": 1000 * e[16] / e[17], "l2_misses": e[3] + e[4] + e[5] + e[6]}
        assert all(run.metrics[name] != pytest.approx(wrong) for name, wrong in {**matlab, "llc_misses": e[6]}.items())


def test_what_the_thesis_did_not_count_is_absent(tmp_path: Path) -> None:
    columns(tmp_path, ("NOVA",), EVENTS)
    run = import_files(sorted(tmp_path.glob("form_*")), About(names={"NOVA": "nova-cow"})).runs[0]
    assert run.fs == "nova-cow" and run.cell["unit_bytes"] == 1024 and run.calls == 10 << 20
    assert set(run.metrics) == {
        "walk_cycles_percent_data", "walks_per_1000_instructions_data", "cycles_per_walk_data", "l1_misses",
        "walk_cycles_percent_instruction", "walks_per_1000_instructions_instruction", "cycles_per_walk_instruction",
    }  # fmt: skip


def test_json_output(tmp_path: Path) -> None:
    out = str(tmp_path / "out.json")
    done = CliRunner().invoke(cli.main, ["perf", "import", str(LAB), "-o", out, "--json"])
    assert json.loads(done.stdout)["runs"] == len(LAB.read_text().splitlines()) - 1


CSV = "fs,op,unit,calls,ins_call\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.txt", "hello\n", "'.*x.txt' is none of: perf stat"),
        ("x.bin", "PERFILE2\x00\x01", "is none of: perf stat"),
        ("x.txt", "event syntax error: 'r1'\n", "perf stat counted nothing and said"),
        ("x.csv", CSV + "ext4,read,4096,x,1\n", "line 2: calls is 'x', not a whole number"),
        ("x.csv", CSV + "ext4,read,4096,1,nan\n", "line 2: ins_call is 'nan', not a count"),
        ("x.csv", CSV + "ext4,read,4096,1\n", "line 2 does not have as many fields as the header"),
        ("x.csv", CSV + "ext4,read,4096,1,2,3\n", "line 2 does not have as many fields as the header"),
        ("form_cycles_EXT4.txt", "1\n2\n", "'form_cycles_EXT4.txt' has 2 values, not 6160 = 11 file sizes x 14 units"),
        ("form_cycles_EXT4.txt", "1\n-2\n", "line 2: a value is '-2', not a count"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        import_files([path])
    assert "\n" not in str(caught.value)


def test_bad_arguments(tmp_path: Path) -> None:
    path = tmp_path / "a" / "form_cycles_EXT4.txt"
    path.parent.mkdir()
    path.write_text("1\n")
    (tmp_path / path.name).write_text("1\n")
    with pytest.raises(UsageError, match="the column of cycles on EXT4 is given twice"):
        import_files([path, tmp_path / path.name])
    with pytest.raises(UsageError, match="no event table named 'skylke'; did you mean 'skylake'"):
        import_files([path], About(table="skylke"))
    with pytest.raises(UsageError, match="cannot read '.*nothing': no such file"):
        import_files([tmp_path / "nothing"])
    done = CliRunner().invoke(cli.main, ["perf", "import", str(path), "-o", str(tmp_path / "x.json"), "--fs", "=b"])
    assert done.exit_code == 2 and "--fs takes one label" in done.stderr


def test_several_perf_stat_in_one_file_are_not_added_up(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text(lines(cycles=49, branches=1) + lines(cycles=48))
    with pytest.raises(
        UsageError, match="'cycles' was counted more than once .48 and 49.; write each run of perf stat"
    ):
        import_files([path])


def test_means_that_are_not_whole_are_rounded_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(
        " Performance counter stats for './a' (2 runs):\n\n    45.50      page-faults    ( +- 1.10% )\n"
        "     1.25 msec task-clock     ( +- 1.10% )\n        7      cycles         ( +- 0.00% )\n"
    )
    (run,) = import_files([path]).runs
    assert run.counters == {"page_faults": 46, "task_clock": 1_250_000, "cycles": 7}
    assert run.warnings == ["means of repeated runs are rounded to whole counts: page-faults 45.5"]
