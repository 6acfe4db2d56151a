"""Do steps that can be undone: how to undo a step is on disk before the step is done, so that a killed process can be undone.

The journal is the marker file of a folder that the harness may use. It is harmless to undo a step that was never done.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import stat
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.perf.machine import Machine

MARKER = ".scmsim-setup.json"
_SCHEMA = 1
_TERMINATED = 143  # 128 + SIGTERM


class Step(NamedTuple):
    """One change of the machine: a command, or a value to write to a file of /proc or /sys.

    `undo` is the journal's entry: a key of `UNDO` and its arguments; empty for a step that leaves nothing to undo.
    """

    why: str
    argv: tuple[str, ...] = ()
    path: str = ""
    value: str = ""
    undo: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the step as a line for a shell."""
        return shlex.join(self.argv) if self.argv else f"echo {shlex.quote(self.value)} > {shlex.quote(self.path)}"


def setting(machine: Machine, path: str, value: str, why: str) -> Step | None:
    """Return the step that sets a file of /proc or /sys; None if it has the value already or is missing."""
    old = machine.text(path)
    if old is None or old == value:
        return None
    return Step(why, path=path, value=value, undo=("write", path, old))


def do(step: Step, machine: Machine) -> None:
    """Do one step; if it fails, raises EnvironmentProblem with the last line of the command's output."""
    if not step.argv:
        try:
            machine.write(step.path, step.value)
        except OSError as error:
            raise EnvironmentProblem(
                f"{step.text!r} failed: {(error.strerror or str(error)).lower()}; are you root?"
            ) from None
        return
    done = machine.run(step.argv)
    if done.status:
        said = done.output.strip().splitlines()
        raise EnvironmentProblem(f"{step.text!r} failed ({done.status}): {said[-1] if said else 'it said nothing'}")


class Journal:
    """The marker file of a folder: the changes made, and how to undo them.

    Raises UsageError for a folder that exists, is not empty, and has no marker.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.file = self.folder / MARKER
        self.entries: list[list[str]] = []
        _check_folder(self.folder)
        self.made = not self.folder.exists()
        if self.file.exists():
            self.entries, self.made = _read(self.file)

    def add(self, entry: Sequence[str]) -> None:
        if entry:
            self.entries.append(list(entry))
            self._save()

    def remove_last(self) -> None:
        self.entries.pop()
        self._save()

    def close(self) -> None:
        """Remove the marker and, if it was made here and is otherwise empty, the folder."""
        with contextlib.suppress(FileNotFoundError):
            self.file.unlink()
        if self.made:
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def _save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.file.with_suffix(".new")
        with open(draft, "w", encoding="utf-8") as file:
            json.dump({"schema": _SCHEMA, "made_folder": self.made, "undo": self.entries}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self.file)


def _check_folder(folder: Path) -> None:
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise UsageError(f"{str(folder)!r} is not a folder, or is a link to one; name an empty or new folder")
    if not (folder / MARKER).exists() and any(folder.iterdir()):
        raise UsageError(
            f"folder {str(folder)!r} holds files and was not made by 'scmsim perf setup'; name an empty one"
        )


def _read(file: Path) -> tuple[list[list[str]], bool]:
    """Return (entries of a marker, whether its folder was made here); raises UsageError for a marker that was altered.

    A marker can make root write files, so it must belong to the caller, and only settings and PMEM devices are accepted.
    """
    try:
        about = file.lstat()
        found: Any = json.loads(file.read_text(encoding="utf-8"))
        entries, made = found["undo"], found["made_folder"]
        mine = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid()
        right = mine and found["schema"] == _SCHEMA and all(_is_credible(entry) for entry in entries)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise UsageError(
            f"marker {str(file)!r} is damaged, belongs to another user or is from another version; undo its steps by hand"
        )
    return [list(entry) for entry in entries], bool(made)


_CREDIBLE = {
    "write": r"write\n/(proc/sys|sys)(/\w[\w.-]*)+\n[\w.-]{1,64}",
    "mount": r"mount\n/dev/pmem\w[\w.]*\n/.+",
    "format": r"format\n/dev/pmem\w[\w.]*\n[0-9a-f-]{36}",
    "folder": r"folder\n/.+",
}


def _is_credible(entry: Any) -> bool:
    return bool(entry) and re.fullmatch(_CREDIBLE.get(entry[0], "(?!)"), "\n".join(entry)) is not None


def carry_out(
    steps: Sequence[Step],
    journal: Journal,
    machine: Machine,
    told: Callable[[str], None],
    confirm: Callable[[], None] = lambda: None,
) -> None:
    """Do all steps or none: if a step or `confirm` fails, or on Ctrl-C or SIGTERM, undo the steps and raise the error."""
    with terminable():
        try:
            for step in steps:
                told(step.text)
                journal.add(step.undo)
                do(step, machine)
            confirm()
        except BaseException:
            roll_back(journal, machine, told)
            raise


def roll_back(journal: Journal, machine: Machine, told: Callable[[str], None]) -> None:
    """Undo all entries of the journal, last first, ignoring Ctrl-C and SIGTERM; keep the entry of a step that fails."""
    with _uninterrupted():
        while journal.entries:
            kind, *arguments = journal.entries[-1]
            try:
                for step in UNDO[kind](machine, *arguments):
                    told(step.text)
                    do(step, machine)
            except EnvironmentProblem as error:
                raise EnvironmentProblem(
                    f"{error}; the remaining steps are recorded, run 'scmsim perf teardown' again"
                ) from None
            journal.remove_last()
        journal.close()


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block by an exception, as Ctrl-C does, so that changes are undone."""

    def leave(number: int, frame: types.FrameType | None) -> None:
        raise SystemExit(_TERMINATED if number == signal.SIGTERM else 128 + number)

    with _handlers(leave, signal.SIGTERM, signal.SIGHUP):
        yield


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    with _handlers(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield


@contextlib.contextmanager
def _handlers(handler: Any, *numbers: int) -> Iterator[None]:
    """Set signal handlers while a block runs.

    Signals that are ignored (nohup) stay ignored; outside the main thread, where Python allows no handlers, nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    old = [(number, signal.signal(number, handler)) for number in heard]
    try:
        yield
    finally:
        for number, before in old:
            signal.signal(number, before)


def _undo_write(machine: Machine, path: str, old: str) -> list[Step]:
    return [Step("as it was", path=path, value=old)] if machine.text(path) not in (None, old) else []


def _undo_mount(machine: Machine, device: str, point: str) -> list[Step]:
    """Return the step that unmounts the device if it is still mounted on this folder."""
    from scmsim.perf.mounts import mounts

    mounted = any(mount.point == point and mount.device == device for mount in mounts(machine))
    return [Step("as it was", ("umount", point))] if mounted else []


def _undo_format(machine: Machine, device: str, uuid: str) -> list[Step]:
    """Return the step that removes the signature of the file system with this UUID, if the device still has it."""
    done = machine.run(["blkid", "--probe", "--output", "value", "--match-tag", "UUID", device])
    return [Step("as it was", ("wipefs", "--all", device))] if done.output.strip() == uuid else []


def _undo_folder(machine: Machine, path: str) -> list[Step]:
    return [Step("as it was", ("rmdir", path))] if machine.path(path).is_dir() else []


UNDO: dict[str, Callable[..., list[Step]]] = {
    "write": _undo_write,
    "mount": _undo_mount,
    "format": _undo_format,
    "folder": _undo_folder,
}
