"""Check that a failed, stopped or finished set-up is undone, and that nothing else is."""

import os
import signal
from pathlib import Path

import pytest

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.perf import setup
from scmsim.perf.machine import Done
from scmsim.perf.setup import Request
from scmsim.perf.undo import MARKER, Journal
from tests.perf.pretended_machine import pretended, settings, untouched

pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


def test_only_an_empty_folder_or_one_that_it_made(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    mine = here.path("/mnt/scmsim")
    mine.mkdir(parents=True)
    (mine / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="holds files and was not made by 'scmsim perf setup'; name an empty one"):
        setup.apply(here, Request())
    with pytest.raises(UsageError, match="was not made by 'scmsim perf setup'|holds files"):
        setup.teardown(here, "/mnt/scmsim")
    (mine / "thesis.tex").unlink()
    with pytest.raises(UsageError, match="was not made by 'scmsim perf setup'; nothing to undo"):
        setup.teardown(here, "/mnt/scmsim")
    setup.apply(here, Request())
    with pytest.raises(UsageError, match="is set up already; run 'scmsim perf teardown /mnt/scmsim' first"):
        setup.apply(here, Request())
    setup.teardown(here, "/mnt/scmsim")
    assert list(mine.iterdir()) == []  # it was there before, so it stays
    setup.apply(here, Request())
    os.symlink(mine, tmp_path / "link")
    with pytest.raises(UsageError, match="is not a folder"):
        Journal(str(tmp_path / "link"))
    assert commands.uuid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 1, "undo": []}',
        '{"schema": 2, "made_folder": true, "undo": []}',
        '{"schema": 1, "made_folder": true, "undo": [[]]}',
        '{"schema": 1, "made_folder": true, "undo": [["write", 3]]}',
        '{"schema": 1, "made_folder": true, "undo": [["rm", "/"]]}',
        '{"schema": 1, "made_folder": true, "undo": [["write", "/proc/sys/vm/swappiness"]]}',
        '{"schema": 1, "made_folder": true, "undo": [["write", "/etc/passwd", "x"]]}',
        '{"schema": 1, "made_folder": true, "undo": [["write", "/sys/../etc/passwd", "x"]]}',
        '{"schema": 1, "made_folder": true, "undo": [["format", "/dev/sda1", "00000000-0000-0000-0000-000000000000"]]}',
        '{"schema": 1, "made_folder": true, "undo": [{"write": 1}]}',
        "[" * 100000,
    ],
)
def test_a_damaged_marker_is_not_obeyed(tmp_path: Path, text: str) -> None:
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(
        UsageError, match="is damaged, belongs to another user or is from another version; undo its steps by hand"
    ):
        Journal(str(tmp_path))


def test_a_marker_of_someone_else_is_not_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / MARKER).write_text('{"schema": 1, "made_folder": true, "undo": []}')
    assert Journal(str(tmp_path)).entries == []
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(UsageError, match="belongs to another user"):
        Journal(str(tmp_path))


@pytest.mark.parametrize("tool", ["mkfs.ext4", "mkdir", "mount"])
def test_a_step_that_fails_undoes_the_ones_before(tmp_path: Path, tool: str) -> None:
    here, commands = pretended(tmp_path)
    commands.before[tool] = lambda: Done(1, "first line\nno space left on device\n")
    with pytest.raises(EnvironmentProblem, match=r"^'.*' failed \(1\): no space left on device$"):
        setup.apply(here, Request())
    assert untouched(here, commands)


@pytest.mark.parametrize("tool", ["mkfs.ext4", "mkdir", "mount"])
@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_ctrl_c_and_sigterm_undo_what_was_done(tmp_path: Path, tool: str, number: int, error: type) -> None:
    here, commands = pretended(tmp_path)
    commands.before[tool] = lambda: os.kill(os.getpid(), number)
    old = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the suite runs under nohup
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(error):
            setup.apply(here, Request())
        assert untouched(here, commands) and signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGINT, old)


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    commands.before["mount"] = lambda: os.kill(os.getpid(), signal.SIGHUP)
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        setup.apply(here, Request())
        assert not untouched(here, commands) and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, old)


def test_signals_wait_while_it_undoes(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    commands.before["mount"] = lambda: Done(32, "wrong fs type")
    commands.before["rmdir"] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(EnvironmentProblem, match="wrong fs type"):
        setup.apply(here, Request())
    assert untouched(here, commands)


@pytest.mark.parametrize("tool", ["mkfs.ext4", "mkdir", "mount"])
def test_a_killed_set_up_is_undone_by_teardown(tmp_path: Path, tool: str) -> None:
    """Death before or after each command: the journal was on disk first."""
    for when in ("before", "after"):
        here, commands = pretended(tmp_path / when)
        steps = setup.plan(here, Request())
        journal = Journal(str(here.path("/mnt/scmsim")))
        for step in steps:  # the loop of carry_out, left by kill -9: nothing catches it
            journal.add(step.undo)
            last = bool(step.argv) and step.argv[0] == tool
            if not (last and when == "before"):
                commands(step.argv) if step.argv else here.write(step.path, step.value)
            if last:
                break
        setup.teardown(here, "/mnt/scmsim")
        assert untouched(here, commands), when


def test_a_teardown_that_fails_half_way_can_be_repeated(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    setup.apply(here, Request())
    commands.before["umount"] = lambda: Done(32, "umount: target is busy.")
    with pytest.raises(
        EnvironmentProblem, match="target is busy.; the remaining steps are recorded, run 'scmsim perf teardown' again"
    ):
        setup.teardown(here, "/mnt/scmsim")
    assert commands.uuid and settings(here)["/proc/sys/kernel/nmi_watchdog"] == "0"
    del commands.before["umount"]
    setup.teardown(here, "/mnt/scmsim")
    assert untouched(here, commands)


def test_a_file_system_that_someone_else_made_since_is_left_alone(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    setup.apply(here, Request())
    commands.uuid = "11111111-2222-3333-4444-555555555555"
    setup.teardown(here, "/mnt/scmsim")
    assert commands.uuid.startswith("11111111") and not [line for line in commands.ran if line.startswith("wipefs")]


@pytest.mark.parametrize(
    ("dax", "message"), [(False, "is not DAX .mounted with dax, but"), (None, "is not DAX .a file there")]
)
def test_a_mount_that_fell_back_to_the_page_cache_is_undone(tmp_path: Path, dax: bool | None, message: str) -> None:
    here, commands = pretended(tmp_path)
    commands.dax = dax
    with pytest.raises(EnvironmentProblem, match=message):
        setup.apply(here, Request())
    assert untouched(here, commands)
    commands.dax = False
    assert setup.apply(here, Request(fs="ext4")) == "/mnt/scmsim/ext4"
