"""Progress on stderr: rates are measured, compiling is said by those who are missing it, quiet is quiet."""

import time

import pytest

from scmsim.cli import _progress
from scmsim.cli._progress import Compiling, Progress
from scmsim.core import compiling


class Screen:
    """stderr as a terminal, until told otherwise."""

    terminal = True

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.captured, self.text = capsys, ""

    def getvalue(self) -> str:
        self.text += self.captured.readouterr().err
        return self.text


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Screen:
    screen = Screen(capsys)
    monkeypatch.setattr(_progress, "on_terminal", lambda: screen.terminal and not _progress._quiet)
    monkeypatch.setattr(_progress, "_quiet", False)
    monkeypatch.setattr(_progress, "INTERVAL", 0.01)
    return screen


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def lines(screen: Screen) -> list[str]:
    return [line for line in screen.getvalue().split("\r\x1b[K") if line]


def test_a_rate_is_shown_once_it_is_measured(screen: Screen, clock: list[float]) -> None:
    with Progress("patterns") as progress:
        for done in range(5):
            progress("nova-cow append", done, 10)
            clock[0] += 10 if done == 0 else 0.5  # 10 s of compiling, then two a second
    assert lines(screen) == [
        "nova-cow append:   0 %",
        "nova-cow append:  10 %",
        "nova-cow append:  20 %",
        "nova-cow append:  30 %, 2.0 patterns/s, 4 s left",
        "nova-cow append:  40 %, 2.0 patterns/s, 3 s left",
    ]
    assert screen.getvalue().endswith("\r\x1b[K"), "rubbed out"


def test_each_file_system_is_measured_for_itself(screen: Screen, clock: list[float]) -> None:
    with Progress() as progress:
        for fs in ("ext4", "nova-cow"):
            for done in (0, 500_000, 1_000_000):
                progress(fs, done, 1_000_000)
                clock[0] += 2
    assert lines(screen)[3:] == [
        "nova-cow:   0 %",
        "nova-cow:  50 %",
        "nova-cow: 100 %, 250,000 operations/s, 0 s left",
    ]


def test_without_a_total_what_is_done_is_counted(screen: Screen, clock: list[float]) -> None:
    progress = Progress()
    for done in (1000, 3000):
        progress("writing", done, 0)
        clock[0] += 2
    assert lines(screen)[-1] == "writing: 3,000 operations, 1,000 operations/s"


def compiled(watcher: compiling.Watcher, module: str, seconds: float) -> None:
    watcher.begins(module)
    watcher.begins(module)
    watcher.ends()
    time.sleep(seconds)
    watcher.ends()


def test_on_a_terminal_compiling_is_drawn_with_the_model_and_rubbed_out(screen: Screen) -> None:
    with Progress() as progress:
        progress("nova-cow", 0, 100)
        compiled(Compiling(), "scmsim.fs.pmfs.operations", 0.2)
    assert "compiling nova-cow (once after an installation): 1 functions, 0 s" in lines(screen)
    assert screen.getvalue().endswith("\r\x1b[K")


def test_elsewhere_compiling_is_one_line_a_model(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "terminal", False)
    monkeypatch.setattr(_progress, "_SAID_AFTER", 0.0)
    watcher = Compiling()
    for module in (
        "scmsim.fs.pmfs.operations",
        "scmsim.fs.pmfs.tree",
        "scmsim.mmu.replay",
        "scmsim.trace.kernels",
    ):
        compiled(watcher, module, 0.1)
    assert screen.getvalue().splitlines() == [
        f"scmsim: compiling {what} (once after an installation) ..."
        for what in ("the models of pmfs", "the MMU", "the reader of traces")
    ]


def test_quiet_is_quiet(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "_quiet", True)
    with Progress() as progress:
        progress("nova-cow", 0, 100)
        compiled(Compiling(), "scmsim.mmu.replay", 0.1)
    assert screen.getvalue() == ""


def test_a_cache_that_cannot_be_kept_is_one_line(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "terminal", False)
    Compiling().not_kept("/a", "read-only file system")
    assert screen.getvalue().count("\n") == 1 and screen.getvalue().startswith("scmsim: warning: ")
