"""Exports: their sums are the result's, their forms those that the tools read."""

import json
import sqlite3
import xml.etree.ElementTree as xml
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.compare import compare
from scmsim.core.errors import UsageError
from scmsim.export import junit, perfetto, stacks
from scmsim.pipeline import replay
from scmsim.pipeline.timeline import timeline
from scmsim.reproduce.rows import Answer, Published, Row
from scmsim.result import Result, Run
from scmsim.workload.microbench import Workload

SITES = {
    "copy": {"instructions": 70, "pm_stored_bytes": 4096},
    "log; append": {"instructions": 30},
    "idle": {"flushes": 0},
}
RUNS = [Run("ext4", "m1", sites=SITES), Run("ext4", "m2", sites={"copy": {"instructions": 5}})]


def test_collapsed_stacks_have_a_line_a_mechanism() -> None:
    assert stacks.folded(RUNS, "instructions") == "ext4 m1;copy 70\next4 m1;log, append 30\next4 m2;copy 5\n"


def test_speedscope_profiles_add_up() -> None:
    table = json.loads(stacks.speedscope(RUNS, ["instructions", "pm_stored_bytes"], "a test"))
    frames = [frame["name"] for frame in table["shared"]["frames"]]
    assert [profile["name"] for profile in table["profiles"]] == [
        "ext4 m1: instructions", "ext4 m1: pm_stored_bytes", "ext4 m2: instructions",
    ]  # fmt: skip
    for profile in table["profiles"]:
        assert profile["type"] == "sampled" and profile["startValue"] == 0
        assert len(profile["samples"]) == len(profile["weights"]) and sum(profile["weights"]) == profile["endValue"]
        assert all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack)
    assert table["profiles"][1]["unit"] == "bytes" and table["profiles"][0]["unit"] == "none"
    assert [frames[i] for i in table["profiles"][0]["samples"][1]] == ["ext4 m1", "log; append"]


def test_a_counter_that_no_mechanism_has_is_an_error() -> None:
    with pytest.raises(UsageError, match="did you mean 'instructions'"):
        stacks.chosen(RUNS, ["instructons"])
    with pytest.raises(UsageError, match="no run counted fences by mechanism"):
        stacks.chosen(RUNS, ["fences"])
    assert stacks.chosen(RUNS, []) == ["instructions", "pm_stored_bytes"]


@pytest.fixture(scope="module")
def found():
    source = Workload(op="append", total=64 << 10)
    return source, timeline(source, "pmfs-4k", windows=7), replay(source, ["pmfs-4k"]).runs[0]


def test_windows_add_up_to_the_run(found) -> None:
    _, one, whole = found
    assert one.run.counters == whole.counters and one.run.sites == whole.sites
    for site, counts in whole.sites.items():
        assert {name: int(values.sum()) for name, values in one.counts[site].items()} == {
            n: c for n, c in counts.items() if c
        }
    windows = {len(values) for counts in one.counts.values() for values in counts.values()}
    assert windows == {len(one.starts) - 1} and 4 <= len(one.starts) <= 9
    assert (one.starts[1:] >= one.starts[:-1]).all()


def test_perfetto_tracks_add_up_and_operations_are_all_there(found, tmp_path: Path) -> None:
    source, one, whole = found
    count = perfetto.write(tmp_path / "t.json", source, [one], ["instructions", "pm_stored_bytes"], operations=True)
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]
    assert len(events) == count
    sums: Counter[str] = Counter()
    for event in events:
        if event["ph"] == "C":
            sums[event["name"]] += event["args"]["value"]
    wanted = {
        f"{name}: {site}": counts[name]
        for site, counts in whole.sites.items() for name in ("instructions", "pm_stored_bytes") if counts.get(name)
    }  # fmt: skip
    assert sums == wanted
    instants = [event for event in events if event["ph"] == "i"]
    assert len(instants) == source.rows and {event["pid"] for event in instants} == {1}
    assert {event["cat"] for event in instants} <= {"operation", "setup"}
    assert [event["args"]["name"] for event in events if event["ph"] == "M"][1].startswith("pmfs-4k i7-8700k")


def tables_of_perfetto(events: list) -> sqlite3.Connection:
    """The tables that Perfetto fills from JSON: as json_trace_parser_impl.cc handles the phases M and C."""
    found = sqlite3.connect(":memory:")
    found.executescript("""
        CREATE TABLE process (upid INTEGER PRIMARY KEY, pid INT UNIQUE, name TEXT);
        CREATE TABLE process_counter_track (id INTEGER PRIMARY KEY, name TEXT, upid INT, UNIQUE (name, upid));
        CREATE TABLE counter (ts INT, track_id INT, value REAL);
    """)
    for event in events:
        found.execute("INSERT OR IGNORE INTO process (pid) VALUES (?)", [event["pid"]])
        if event["ph"] == "M" and event["name"] == "process_name":
            found.execute("UPDATE process SET name = ? WHERE pid = ?", [event["args"]["name"], event["pid"]])
        for key, value in event["args"].items() if event["ph"] == "C" else ():
            [(upid,)] = found.execute("SELECT upid FROM process WHERE pid = ?", [event["pid"]])
            track = [f"{event['name']} {key}", upid]
            found.execute("INSERT OR IGNORE INTO process_counter_track (name, upid) VALUES (?, ?)", track)
            [(of,)] = found.execute("SELECT id FROM process_counter_track WHERE name = ? AND upid = ?", track)
            found.execute("INSERT INTO counter VALUES (?, ?, ?)", [round(1000 * event["ts"]), of, float(value)])
    return found


def test_the_documented_query_gives_the_sums_of_each_run(found, tmp_path: Path) -> None:
    source, one, whole = found
    other = replace(one, run=replace(one.run, fs="another"))
    perfetto.write(tmp_path / "t.json", source, [one, other], ["instructions", "fences"], operations=True)
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]
    page = (Path(__file__).parents[2] / "docs/guide/export.md").read_text(encoding="utf-8")
    query = page[page.index("    SELECT p.name") : page.index("gives the `sites`")]
    sums = {(run, counted): total for run, counted, total in tables_of_perfetto(events).execute(query)}
    assert sums == {
        (f"{fs} i7-8700k {one.run.paging} nvdimm", f"{name}: {site}"): counts[name]
        for fs in ("pmfs-4k", "another")
        for site, counts in whole.sites.items() for name in ("instructions", "fences") if counts.get(name)
    }  # fmt: skip


def test_verdicts_of_a_comparison(tmp_path: Path) -> None:
    cell = {"operation": "write", "file_bytes": 4096, "unit_bytes": 4096}
    ours = Result({}, [Run("ext4", calls=1, counters={"instructions": 100, "flushes": 10}, cell=cell)])
    theirs = Result({}, [Run("ext4", calls=1, counters={"instructions": 200, "flushes": 10}, cell=cell)])
    found = compare(ours, theirs, events=["instructions", "flushes"], tolerances={"instructions": 5, "flushes": 5})
    junit.write(tmp_path / "v.xml", "scmsim compare", junit.of_comparison(found))
    root = xml.parse(tmp_path / "v.xml").getroot()
    assert {suite.get("name"): (suite.get("tests"), suite.get("failures")) for suite in root} == {
        "instructions": ("1", "1"), "flushes": ("1", "0"),
    }  # fmt: skip
    assert "ratio 0.5" in root.find(".//failure").get("message") and "ext4" in root.find(".//testcase").get("name")
    two_simulations = replace(found, sides=("first", "second"))
    assert next(case.failed for case in junit.of_comparison(two_simulations) if case.failed).startswith(
        "first 100, second 200"
    )
    nothing = compare(Result({}, []), theirs)
    assert [case.failed for case in junit.of_comparison(nothing)] == ["nothing in common"]


def test_verdicts_of_the_reproduction(tmp_path: Path) -> None:
    def row(number: int, value: str, answer: Answer) -> Row:
        given = {"id": f"X-{number}", "value": value, "relation": "equals", "system": "a\x00b"}
        return Row(Published(**{**dict.fromkeys(Published._fields, ""), **given}), answer, "paper")

    rows = [
        row(1, "5", Answer(5, "exact")),
        row(2, "5", Answer(6, "exact")),
        row(3, "5", Answer(None, "not reproduced", "no")),
    ]
    junit.write(tmp_path / "v.xml", "scmsim reproduce", junit.of_reproduction(rows))
    suite = xml.parse(tmp_path / "v.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert "published 5" in suite.find(".//failure").get("message")


def test_the_command_writes_both_forms_and_refuses_others(tmp_path: Path) -> None:
    Result({}, RUNS).write(tmp_path / "r.json")

    def run(*words: object):
        return CliRunner().invoke(cli.main, ["export", *map(str, words)])

    assert run(tmp_path / "r.json", "-o", tmp_path / "r.folded").exit_code == 0
    assert (tmp_path / "r.folded").read_text(encoding="utf-8") == stacks.folded(RUNS, "instructions")
    assert run(tmp_path / "r.json", "-o", tmp_path / "r.speedscope.json").exit_code == 0
    assert run(tmp_path / "r.json", "-o", tmp_path / "r.svg").exit_code == 2
    assert run(tmp_path / "r.json", "-o", tmp_path / "x.folded", "--counter", "fences").exit_code == 2
    assert not (tmp_path / "x.folded").exists()
