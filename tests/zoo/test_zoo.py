"""The zoo: its page is what the models say today, it resumes, and its table says what each entry is."""

import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli, zoo
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.zoo import FIGURES, Row, Zoo, chart, page
from scmsim.zoo.compared import compared, ranked

ROOT = Path(__file__).parents[2]
SMALL = ("--trace", "tar-cp,append", "--fs", "pmfs-4k,scm-manager")


def run(*args: str) -> str:
    done = CliRunner().invoke(cli.main, ["zoo", *args])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("zoo") / "out"
    run("-o", str(out), *SMALL)
    return out


def test_rows_are_those_of_the_page_in_docs(folder: Path) -> None:
    """If this fails because a model changed: run `scmsim zoo -o zoo`, copy its zoo.md and zoo.svg."""
    page = (ROOT / "docs/models/zoo.md").read_text(encoding="utf-8")
    made = (folder / "zoo.md").read_text(encoding="utf-8")
    for name in ("tar-cp", "append"):
        theirs, ours = (text.partition(f"\n## {name}\n")[2].partition("\n## ")[0].splitlines() for text in (page, made))
        rows = [line for line in ours if line.startswith(("| pmfs-4k |", "| scm-manager |"))]
        assert len(rows) == 2 and all(row in theirs for row in rows)


ONLY = {
    "device-dax",
    "famfs",
    "hugetlbfs",
}  # they refuse most calls of the other entries, so their figures would mislead
RUN_BY_ALL = {"chase", "kvcache"}


def test_the_page_in_docs_has_every_entry_on_every_file_system() -> None:
    page = (ROOT / "docs/models/zoo.md").read_text(encoding="utf-8")
    entries = zoo.chosen()
    assert {path.name for path in (ROOT / "traces").glob("*.parquet")} == {
        Path(entry.settings["trace"]).name for entry in entries if "trace" in entry.settings
    }
    for entry in entries:
        assert (
            f"| [{entry.name}](#{entry.name}) | {entry.what} | {entry.licence} | {entry.operations:,} | `{entry.sha256}` |"
            in page
        )
        rows = page.partition(f"\n## {entry.name}\n")[2].partition("\n## ")[0]
        expected = {*registry.names("fs")} - (set() if entry.name in RUN_BY_ALL else ONLY)
        shown = {fs for fs in registry.names("fs") if f"\n| {fs} | " in rows or f"\n| {fs} \\* | " in rows}
        assert shown == expected, entry.name


def test_what_refuses_most_calls_runs_few_entries_whole_and_has_no_median(tmp_path: Path) -> None:
    run("-o", str(tmp_path / "out"), "--trace", "chase,append", "--fs", "device-dax,ext4-dax")
    with open(tmp_path / "out" / "zoo.csv", encoding="utf-8", newline="") as text:
        rows = [(row["entry"], row["fs"], row["failed"], row["warnings"]) for row in csv.DictReader(text)]
    assert sorted(row[:2] for row in rows) == [("append", "ext4-dax"), ("chase", "device-dax"), ("chase", "ext4-dax")]
    assert all(row[2] == "0" and "not replayed" not in row[3] for row in rows)
    made = (tmp_path / "out" / "zoo.md").read_text(encoding="utf-8")
    assert "| device-dax |" not in made.partition("## Beside")[2].partition("## How far")[0]


def test_the_table_says_what_an_entry_is_and_nothing_is_computed_twice(folder: Path) -> None:
    with open(folder / "zoo.csv", encoding="utf-8", newline="") as text:
        head, *rows = csv.reader(text)
    assert head[:3] == ["entry", "what", "licence"] and len(rows) == 4
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "points").iterdir()}
    again = json.loads(run("-o", str(folder), *SMALL, "--json"))
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "points").iterdir()} == before and len(before) == 4
    assert [row["sha256"] for row in again["rows"]] == [row[head.index("counts")] for row in rows]
    assert {row["time_class"] for row in again["rows"]} == {"B", "C"} and len(
        {row[head.index("counts")] for row in rows}
    ) == 4


def test_every_figure_has_its_interval_in_the_table_and_the_widest_on_the_page(folder: Path) -> None:
    with open(folder / "zoo.csv", encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    (row,) = [row for row in rows if (row["entry"], row["fs"]) == ("tar-cp", "pmfs-4k")]
    low, value, high = (
        float(row[name]) for name in ("low of stored / written", "stored / written", "high of stored / written")
    )
    assert low < value < high and row["basis of stored / written"].startswith("all models, ")
    line = next(line for line in (folder / "zoo.md").read_text().splitlines() if line.startswith("| pmfs-4k |"))
    ratios = [re.findall(r"[\d.]+", cell) for cell in line.split("|")[2:-2]]
    assert len(ratios) == len(zoo.SPANNED)
    assert any(pair == [f"{low / value:.2f}", f"{high / value:.2f}"] for pair in ratios)
    assert not any("low of waste" in name or "low of loaded" in name for name in row)


def test_a_hash_does_not_depend_on_what_else_is_replayed(folder: Path, tmp_path: Path) -> None:
    alone = json.loads(run("-o", str(tmp_path / "out"), "--trace", "append", "--fs", "pmfs-4k", "--json"))
    both = json.loads(run("-o", str(folder), *SMALL, "--json"))
    (mine,) = alone["rows"]
    assert mine in both["rows"]


def test_what_cannot_be_run_is_said_and_left_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'sqlite-load'"):
        zoo.chosen("sqlite-lod")
    done = CliRunner().invoke(cli.main, ["zoo", "-o", str(tmp_path / "out"), "--fs", "ext9"])
    assert done.exit_code == 2 and "'ext9'" in done.stderr and not (tmp_path / "out").exists()


def test_sync_at_end_is_a_setting_of_a_sweep(tmp_path: Path) -> None:
    from scmsim.sweep.point import check_setting, key_of, normal

    given = {"fs": "ext4", "workload.kind": "microbench", "sync_at_end": True}
    assert normal(given)["sync_at_end"] is True and key_of(normal(given)) != key_of(
        normal({**given, "sync_at_end": False})
    )
    assert "sync_at_end" not in normal({"policy": "two-zone", **{k: v for k, v in given.items() if k != "fs"}})
    with pytest.raises(UsageError, match="true or false"):
        check_setting("sync_at_end", "yes", tmp_path)


def made(fs: str, traffic: float | None, **more: object) -> Row:
    figures = {**dict.fromkeys(FIGURES, 1.0), "loads + stores a call": traffic}
    return Row("git", fs, figures, "C", **{"sha256": "0123456789abcdef", **more})  # type: ignore[arg-type]


ROWS = [
    made("ext4-dax", 8.0),
    made("partial", 1.0, warnings="3 touches of mapped files were not replayed: the model has no mapped files"),
    made("failing", 2.0, failed=3),
    made("vsm", 16.0),
    made("unknown", None),
    made("ctfs", 4.0),
]


def test_rows_have_the_fewest_loads_and_stores_first_and_those_that_left_operations_out_last() -> None:
    assert [row.fs for row in ranked(ROWS)] == ["ctfs", "ext4-dax", "vsm", "unknown", "partial", "failing"]
    assert {each.fs: each.medians[0] for each in compared(ROWS)} == {
        "ctfs": 0.5,
        "ext4-dax": 1,
        "vsm": 2,
        "unknown": None,
    }
    assert [each.fs for each in compared(ROWS)] == ["ctfs", "ext4-dax", "vsm", "unknown"]


def test_a_table_is_narrow_and_its_answer_stands_before_it() -> None:
    text = page.text(Zoo([zoo.chosen("git")[0]], ROWS, [], "m", "n"), picture=True)
    section = text.partition("\n## git\n")[2]
    answer, _, table = section.partition("<details>")
    assert "Fewest loads + stores a call: ctfs 4, most: vsm 16; ext4-dax 8." in answer
    head = next(line for line in table.splitlines() if line.startswith("| file system"))
    assert "failed" in head and "partial \\*" in table and "0123456789" not in table
    assert "failed" not in page.text(Zoo([zoo.chosen("git")[0]], ROWS[:2], [], "m", "n")).partition("<details>")[2]
    assert f"]({page.PICTURE})" in text.partition("| file system")[0]


def test_every_table_in_docs_fits_beside_the_menu_of_the_site() -> None:
    for part in (ROOT / "docs/models/zoo.md").read_text(encoding="utf-8").split("<details>")[1:]:
        rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
        widest = [
            max(len(word) for cell in column for word in re.split("[ -]", cell)) for column in zip(*rows, strict=True)
        ]
        assert sum(widest) + 2 * len(widest) <= 92  # letters of some 8 px in 736 px


def test_the_picture_is_beside_the_page_and_turns_dark(folder: Path) -> None:
    pytest.importorskip("altair")
    picture = chart.svg(Zoo([], ROWS, [], "m", "n")).decode()
    assert "prefers-color-scheme: dark" in picture and all(f">{row.fs}<" in picture for row in ROWS if row.whole)
    assert not (folder / page.PICTURE).exists()  # nothing to compare with
    assert (ROOT / "docs/models" / page.PICTURE).exists() and f"({page.PICTURE})" in (
        ROOT / "docs/models/zoo.md"
    ).read_text("utf-8")
