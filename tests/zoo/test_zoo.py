"""The zoo: its page is what the models say today, it resumes, and its table says what each entry is."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli, zoo
from scmsim.core import registry
from scmsim.core.errors import UsageError

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
    """If this fails because a model changed: `scmsim zoo -o zoo && cp zoo/zoo.md docs/zoo.md`."""
    page = (ROOT / "docs/zoo.md").read_text(encoding="utf-8")
    made = (folder / "zoo.md").read_text(encoding="utf-8")
    for name in ("tar-cp", "append"):
        theirs, ours = (text.partition(f"\n## {name}\n")[2].partition("\n## ")[0].splitlines() for text in (page, made))
        rows = [line for line in ours if line.startswith(("| pmfs-4k |", "| scm-manager |"))]
        assert len(rows) == 2 and all(row in theirs for row in rows)


def test_the_page_in_docs_has_every_entry_on_every_file_system() -> None:
    page = (ROOT / "docs/zoo.md").read_text(encoding="utf-8")
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
        assert all(f"\n| {fs} | " in rows for fs in registry.names("fs"))


def test_the_table_says_what_an_entry_is_and_nothing_is_computed_twice(folder: Path) -> None:
    with open(folder / "zoo.csv", encoding="utf-8", newline="") as text:
        head, *rows = csv.reader(text)
    assert head[:3] == ["entry", "what", "licence"] and len(rows) == 4
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "points").iterdir()}
    again = json.loads(run("-o", str(folder), *SMALL, "--json"))
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "points").iterdir()} == before and len(before) == 4
    assert [row["sha256"] for row in again["rows"]] == [row[head.index("counts")] for row in rows]
    assert {row["time_class"] for row in again["rows"]} == {"B", "C"} and len({row[-3] for row in rows}) == 4


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
