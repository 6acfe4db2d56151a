"""Check sweeps: resuming after kill -9, the same data set on threads, processes and Dask, points that fail, and reports."""

import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

from scmsim import cli, config
from scmsim.cli._results import read_results
from scmsim.core.errors import UsageError
from scmsim.result import Result, Run
from scmsim.result.cells import cells
from scmsim.sweep import config as configs
from scmsim.sweep import executors, run
from tests.sweep.small_sweep import POINTS, SMALL, invoke, table, write


def process(*args):
    code = "from scmsim.cli import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, "sweep", *map(str, args)], stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    path = write(folder, SMALL)
    assert invoke(path, "-o", folder / "out").exit_code == 0
    return path, folder / "out"


def test_a_grid_has_each_different_point_once(whole):
    sweep = configs.load(whole[0])
    assert len(sweep.points) == POINTS, "the threshold concerns one policy only"
    assert all("set.two-zone.threshold" not in one for one in sweep.points if one["policy"] != "two-zone")
    found = table(whole[1])
    assert found.num_rows == POINTS == len(set(found["point"].to_pylist()))
    assert set(found["set.two-zone.threshold"].to_pylist()) == {None, 64 << 10, 256 << 10}
    assert min(found["space_allocated_bytes"].to_pylist()) > 0


def test_nothing_is_computed_twice(whole):
    again = json.loads(invoke(whole[0], "-o", whole[1], "--json").stdout)
    assert (again["points"], again["computed"], again["failed"]) == (POINTS, 0, {})


def test_a_sweep_killed_at_random_points_ends_in_the_same_data_set(whole, tmp_path):
    out = tmp_path / "out"
    kills = 0
    for wait in (1, 4, 9):
        running = process(whole[0], "-o", out, "--jobs", 1)
        until = time.monotonic() + 60
        while running.poll() is None and time.monotonic() < until:
            if len(list(out.glob("points/*.json"))) >= wait:
                running.send_signal(signal.SIGKILL)
                kills += running.wait() == -signal.SIGKILL
                break
            time.sleep(0.001)
        running.wait()
    assert kills >= 1
    assert invoke(whole[0], "-o", out).exit_code == 0
    assert table(out).equals(table(whole[1]))
    assert sorted(p.name for p in out.glob("points/*")) == sorted(p.name for p in whole[1].glob("points/*"))
    assert (out / "results.parquet").read_bytes() == (whole[1] / "results.parquet").read_bytes()


@pytest.mark.slow
def test_processes_give_the_same_files(whole, tmp_path):
    assert process(whole[0], "-o", tmp_path / "out", "--executor", "processes", "--jobs", 2).wait() == 0
    for name in ("results.parquet", *(f"points/{path.name}" for path in whole[1].glob("points/*"))):
        assert (tmp_path / "out" / name).read_bytes() == (whole[1] / name).read_bytes()


def _dies_once(settings):
    """In a worker process: the first to come here dies."""
    flag = pathlib.Path(os.environ["SCMSIM_TEST_FLAG"])
    if settings["workload.seed"] == 3 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"seed": settings["workload.seed"]}


def test_a_lost_worker_is_replaced_and_its_point_tried_again(tmp_path, monkeypatch):
    monkeypatch.setenv("SCMSIM_TEST_FLAG", str(tmp_path / "died"))
    monkeypatch.setattr(executors, "outcome", _outcome)
    found = _by_processes()
    assert found == {str(i): {"seed": i} for i in range(6)} and (tmp_path / "died").exists()


def _outcome(key, settings):
    return key, _dies_once(settings), None


def _by_processes():
    """A fork, not a fresh interpreter, so that the workers have the test's own `outcome`."""
    fork = multiprocessing.get_context("fork")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiprocessing, "get_context", lambda _: fork)
        points = [(str(i), {"workload.seed": i}) for i in range(6)]
        return {key: row for key, row, _ in executors.run("processes", points, 2, None, threading.Event())}


@pytest.mark.slow
def test_a_dask_cluster_of_which_a_worker_is_killed_gives_the_same_files(whole, tmp_path):
    distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values())).process.pid
        running = process(
            whole[0], "-o", tmp_path / "out", "--executor", "dask", "--scheduler", cluster.scheduler_address
        )
        while not list((tmp_path / "out").glob("points/*.json")) and running.poll() is None:
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)
        assert running.wait() == 0
    assert (tmp_path / "out" / "results.parquet").read_bytes() == (whole[1] / "results.parquet").read_bytes()


def test_a_failed_point_is_told_and_does_not_stop_the_rest(tmp_path):
    text = """
mode = "list"
[fixed.workload]
kind = "microbench"
total = "64KiB"
[[point]]
policy = "tps"
[[point]]
policy = "pages-4k"
set.pages-4k.capacity = "4KiB"
[[point]]
policy = "one-zone"
"""
    path = write(tmp_path, text)
    shown = invoke(path, "-o", tmp_path / "out", "--json")
    found = json.loads(shown.stdout)
    assert shown.exit_code == 1 and found["points"] == 3
    ((name, reason),) = found["failed"].items()
    assert name == "policy=pages-4k, set.pages-4k.capacity=4KiB" and "pages-4k.capacity = 4KiB" in reason
    assert f"scmsim: point {name} failed: pages-4k" in shown.stderr
    assert table(tmp_path / "out")["policy"].to_pylist() == ["tps", "one-zone"]
    assert json.loads((tmp_path / "out" / "failed.json").read_text()) == found["failed"]


def test_check_counts_the_points_that_cannot_be_run(tmp_path, monkeypatch):
    text = """
[fixed]
fs = "nova-cow"
[fixed.workload]
kind = "microbench"
total = "64KiB"
[axes]
"machine.stlb.entries" = [1536, 1000]
"workload.unit" = ["4KiB", "1KiB", "0"]
"set.nova-cow.capacity" = ["1GiB", "4KiB"]
"""
    monkeypatch.chdir(tmp_path)  # a long path would take from the 300 characters of a line
    shown = CliRunner().invoke(cli.main, ["check", write(tmp_path, text).name], standalone_mode=False)
    lines = shown.stdout.splitlines()
    assert shown.return_value == 2 and len(lines) == 3 and all("sweep-t.toml:7: " in line for line in lines)
    for line, count, words in zip(
        sorted(lines), (2, 4, 4), ("capacity 4KiB", "does not divide entries = 1000", "unit"), strict=True
    ):
        assert f"{count} of 12 points cannot be run: " in line and words in line
    assert "the first: machine.stlb.entries=1536, set.nova-cow.capacity=4KiB, workload.unit=4KiB" in shown.stdout
    good = text.replace(", 1000", "").replace(', "0"', "").replace(', "4KiB"]', "]", 1)
    good = good.replace('["1GiB", "4KiB"]', '["1GiB"]')
    assert CliRunner().invoke(cli.main, ["check", str(write(tmp_path, good))]).stdout.endswith(": ok\n")


def test_a_folder_of_something_else_is_refused(tmp_path, whole):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UsageError, match="is not empty and is not the folder of a sweep"):
        run.run(configs.load(whole[0]), tmp_path)
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_a_dry_run_counts_and_writes_nothing(tmp_path, whole):
    shown = invoke(whole[0], "-o", tmp_path / "out", "--dry-run")
    assert f"{POINTS} points, 0 finished already, {POINTS} to compute" in shown.stdout and "time about" in shown.stdout
    assert not (tmp_path / "out").exists()
    assert json.loads(invoke(whole[0], "-o", whole[1], "--dry-run", "--json").stdout)["finished"] == POINTS


def test_shipped_sweeps_are_right():
    for path in pathlib.Path(config.__file__).parents[2].glob("configs/sweep-*.toml"):
        assert configs.load(configs.resolve(path.stem)).points
        assert CliRunner().invoke(cli.main, ["check", path.stem]).exit_code == 0


def test_a_sweep_is_a_result_wherever_one_is_read(whole, tmp_path):
    pytest.importorskip("altair")
    from scmsim.sweep import table as tables

    for path in (whole[1], whole[1] / "results.parquet"):
        out = tmp_path / f"{path.name}.html"
        done = CliRunner().invoke(cli.main, ["report", str(path), "-o", str(out)])
        assert done.exit_code == 0, done.stderr
        text = out.read_text()
        assert (
            "30 runs over fs (two-zone, one-zone, tps, pages-4k), two-zone.threshold (64KiB, 256KiB), seed (6, 1 to 6)."
            in text
        )
        assert "<td class=word>two-zone.threshold</td><td class=word>64KiB, 256KiB" in text
        assert "Simulated counts" in text and "Measured counts" not in text
    shutil.copytree(whole[1], tmp_path / "some")
    (tmp_path / "some" / "failed.json").write_text('{"a": "why"}')
    done = CliRunner().invoke(cli.main, ["report", str(tmp_path / "some"), "-o", str(tmp_path / "some.html")])
    assert "points that failed are not shown: 1, see failed.json" in done.stderr
    run = tables.read(whole[1]).runs[0]
    assert run.space["allocated_bytes"] > 0 and set(run.cell) == {"set.two-zone.threshold", "workload.seed"}


def test_points_that_differ_in_another_parameter_are_no_repeats():
    runs = [Run("ext4", cell={"operation": "read", "machine.stlb.entries": n}) for n in (768, 1536)]
    with pytest.raises(UsageError, match="run with machine.stlb.entries 1536 and 768; give results with only one"):
        cells(Result({}, runs))


def test_a_sweep_without_a_table_is_named(whole, tmp_path):
    shutil.copytree(whole[1], tmp_path / "s")
    (tmp_path / "s" / "results.parquet").unlink()
    with pytest.raises(UsageError, match="has no results.parquet: the sweep was stopped before its end; run the same"):
        read_results(str(tmp_path / "s"))
