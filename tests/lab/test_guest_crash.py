"""Crash states of a real kernel, in guests.  Skipped where they cannot run."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.lab import kernel, machine, persistence, qemu, systems, tools

pytestmark = pytest.mark.slow
_MISSING = [finding for finding in tools.examine() if finding.package]
if _MISSING:
    pytest.skip(f"no lab here: {_MISSING[0].value}", allow_module_level=True)

APPEND = """op,path,path2,offset,length
create,/a
write,/a,,0,5000
fsync,/a
write,/a,,100,50
fsync,/a
"""


@pytest.fixture
def trace(tmp_path):
    (tmp_path / "append.csv").write_text(APPEND)
    path = tmp_path / "append.parquet"
    done = CliRunner().invoke(cli.main, ["trace", "convert", str(tmp_path / "append.csv"), str(path)])
    assert done.exit_code == 0, done.output
    return path


def crash(*words):
    done = CliRunner().invoke(cli.main, ["lab", "crash", *map(str, words)])
    return done.exit_code, done.stdout if "--json" in words else done.output  # stderr may say that models are compiled


@pytest.mark.parametrize("fs", ["ext4-dax", "xfs-dax"])
def test_a_kernel_keeps_what_it_promises(trace, fs):
    code, said = crash(trace, "--fs", fs, "--states", 150, "--json", "--model")
    report = json.loads(said)
    assert code == 0 and report["failing_states"] == 0
    assert report["operations"] == 5 and report["states"] > 50 and report["model_both"] > 5


def test_threads_on_several_cpus_are_crashed_too(tmp_path):
    table, trace = tmp_path / "t.csv", tmp_path / "t.parquet"
    table.write_text("op,path,thread,offset,length\ncreate,/a,1\nwrite,/a,2,0,4096\nfsync,/a,1\n")
    assert CliRunner().invoke(cli.main, ["trace", "convert", str(table), str(trace)]).exit_code == 0
    code, said = crash(trace, "--fs", "ext4-dax", "--states", 100, "--json", "--cpus", 2)
    report = json.loads(said)
    assert (
        code == 0 and report["failing_states"] == 0 and report["states"] > 20 and report["kernel"].endswith("on 2 CPUs")
    )


def test_a_write_back_that_is_taken_away_is_found(trace):
    code, said = crash(trace, "--fs", "ext4-dax", "--states", 150, "--drop-write-backs", "pmem_do_write")
    assert code == 1
    assert "fsync /a" in said and said.count("  lost: 0x") >= 1 and "pmem_do_write < pmem_submit_bio" in said


def test_a_killed_check_leaves_nothing(trace):
    process = subprocess.Popen(
        [sys.executable, "-m", "scmsim", "lab", "crash", str(trace), "--fs", "ext4-dax"], stderr=subprocess.PIPE
    )
    places = [pathlib.Path("/dev/shm"), pathlib.Path(os.environ.get("TMPDIR", "/tmp"))]

    def left():
        return [path for place in places for path in place.glob(f"{machine.PREFIX}{process.pid}-*")]

    deadline = time.monotonic() + 60
    while not left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left()
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 128 + signal.SIGTERM and "nothing is kept" in said and "Traceback" not in said
    assert not left()


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_state_that_kills_a_fresh_guest_is_a_finding_and_the_others_are_looked_at(tmp_path, monkeypatch, deaths):
    """The second of three states ends the guest, whose kernel panics: in a guest of its own too, or only after the first."""
    base, states = tmp_path / "base", tmp_path / "states"
    with base.open("wb") as file:
        file.truncate(qemu.PM_BYTES)
    with states.open("wb") as file:
        writer = persistence.StateWriter(file)
        for _ in range(3):
            writer.state([(0, b"no file system")])
    setting = machine.Setting(qemu.find(), kernel.find(), timeout_s=300)
    boot, died = machine.boot, []

    def at_first(folder, *given):
        if len(died) < deaths:
            died.append(True)
            (folder / "progress").write_bytes((2).to_bytes(8, "little"))
            raise machine.Failed("the guest's kernel panicked", 0)
        return boot(folder, *given)

    monkeypatch.setattr(machine, "boot", at_first)
    monkeypatch.setattr(persistence, "_found", lambda *_: [persistence.Seen(22, ())] * _[2])
    found = list(persistence.look(setting, systems.load()["ext4-dax"], states, base, range(3), []))
    assert [seen.error for seen in found] == [22, "the guest's kernel panicked" if deaths > 1 else 22, 22]
