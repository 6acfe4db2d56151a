"""What a trace leaves undone at its end is said, and written back and counted if that is asked for."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import scmsim
from scmsim.cli import main
from scmsim.core import registry
from scmsim.result import read
from scmsim.result.metrics import compute
from scmsim.workload.microbench import Workload
from tests.fs import drive

PENDING = ("dirty_bytes", "uncommitted_bytes", "staged_bytes")
DEFERRING = ("ext4", "ext4-dax", "xfs-dax", "ext2", "ext2-dax", "splitfs", "fat-scm", "ext2-scm", "fat-nand")
BYTES = 300_000


def trace():
    """A folder, an open file of some pages in it, another name: nothing is synchronised."""
    rows = (
        ("mkdir", 1, 0, 0, 0),
        ("create", 2, 0, 0, 1),
        ("write", 2, 0, BYTES),
        ("rename", 2, 0, 0, -1),
    )
    return drive.source(drive.files(0, -1, -1, dirs=[0, 1]), drive.ops(*rows))


def run(fs, **more):
    return scmsim.replay(trace(), fs, params={fs: drive.GROWING.get(fs, {})}, **more).runs[0]


@pytest.mark.parametrize("fs", DEFERRING)
def test_what_is_left_is_in_the_report_and_in_a_warning(fs):
    found = run(fs)
    assert any(found.space.get(name) for name in PENDING)
    assert [text for text in found.warnings if text.startswith("at the end ") and "--sync-at-end" in text]


@pytest.mark.parametrize("fs", registry.names("fs"))
def test_nothing_is_left_after_a_sync_at_the_end(fs):
    before, after = run(fs), run(fs, sync_at_end=True)
    assert not any(after.space.get(name) for name in PENDING) and not [
        text for text in after.warnings if not text.startswith("not checked: ")
    ]
    assert (after.calls, after.operations) == (before.calls, before.operations + 1 + (fs == "splitfs"))
    assert after.counters["pm_stored_bytes"] >= before.counters["pm_stored_bytes"]
    if set(registry.load("fs", fs).SITES.values()) != {"none"}:
        assert after.counters["pm_stored_bytes"] >= after.payload["written"] == BYTES


def test_the_sync_is_an_operation_and_a_file_of_its_own():
    assert run("ext4", by="op", sync_at_end=True).groups["sync"]["pm_stored_bytes"] > BYTES
    by_file = run("ext4", by="file", sync_at_end=True)
    assert by_file.groups["(no file)"]["pm_stored_bytes"] > BYTES and by_file.params["sync_at_end"] == 1
    assert "written back at the end" in scmsim.replay(trace(), "ext4", sync_at_end=True).table().splitlines()[0]


def test_fewer_bytes_stored_than_written_have_no_extra():
    found = compute({"pm_stored_bytes": 10}, written_bytes=100, stored_bytes={"data": 10})
    assert "cow_extra_ratio" not in found.values and found.why_absent["cow_extra_ratio"].startswith("fewer data bytes")
    assert run("ext4").metrics["cow_extra_ratio"] is None
    assert 0 < run("ext4", sync_at_end=True).metrics["cow_extra_ratio"] < 4096 / BYTES  # whole pages


def command(*line):
    return CliRunner().invoke(main, ["replay", *map(str, line)])


@pytest.fixture(name="experiment")
def _experiment(tmp_path: Path) -> Path:
    file = tmp_path / "e.toml"
    file.write_text('fs = "ext4"\n[workload]\nkind = "microbench"\ntotal = "64KiB"\n')
    return file


@pytest.mark.parametrize("options", [("--json",), ("-o", "r.json"), ("-o", "r.csv", "--json")])
def test_warnings_reach_stderr_whatever_is_written(experiment, options):
    options = [experiment.parent / text if text.startswith("r.") else text for text in options]
    done = command(experiment, *options)
    assert done.exit_code == 0 and done.stderr.count("bytes of the page cache are dirty") == 1


def test_the_command_and_the_experiment_file_write_back(experiment):
    for text, options in (("", ["--sync-at-end"]), ("sync_at_end = true\n", [])):
        experiment.write_text(text + experiment.read_text())
        done = command(experiment, "--json", *options)
        assert done.exit_code == 0 and "dirty" not in done.stderr
        assert json.loads(done.stdout)["results"][0]["params"]["sync_at_end"] == 1
    experiment.write_text(experiment.read_text().replace("= true", "= 1"))
    assert "sync_at_end: must be true or false, not 1" in command(experiment).stderr


def test_failed_operations_mark_their_column_and_are_no_calls():
    """A call that failed for want of space cost nothing: figures per call are those of the others."""
    work = Workload(op="append", unit=1 << 20, total=32 << 20)
    found = scmsim.replay(work, "nova-cow", params={"nova-cow": {"capacity": "16MiB"}})
    only = found.runs[0]
    assert only.failed == only.errors["ENOSPC"] > 0 and only.calls == 32 - only.failed and only.operations == 32
    assert f"nova-cow ({only.failed} failed)" in found.table().splitlines()[2]
    assert only.payload["written"] == only.calls << 20


@pytest.mark.parametrize(("by", "level"), [("op", "group"), ("file", "group"), ("site", "site")])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_has_the_rows_of_the_breakdown(experiment, by, level, suffix):
    import pandas

    out = experiment.parent / f"r{suffix}"
    assert command(experiment, "--by", by, "-o", out).exit_code == 0
    frame = pandas.read_csv(out) if suffix == ".csv" else pandas.read_parquet(out)
    assert {"fs", "paging", "calls", level, "instructions"} <= set(frame.columns) and len(frame)
    if suffix == ".parquet":
        assert read(out).runs[0].calls == frame["calls"].iloc[0] == 16
