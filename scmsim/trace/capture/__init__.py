"""Capture traces: each back end is a module with SUMMARY and `capture(command, out, ...)`, which returns a `Captured`."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scmsim.core.errors import ScmsimError, UsageError
from scmsim.trace.reading.report import Report

PAGES = (
    4096  # pages of perf's ring buffer per CPU (16 MiB); perf's default lost 15 % of the events of eight busy threads
)


@dataclass
class Options:
    """Options of a capture; a back end raises UsageError for an option that it does not support.

    Attributes
    ----------
    pid : int, optional
        Attach to this process instead of running a command, until the process ends or a signal stops the capture.
    seconds : float, optional
        With `pid`: stop after this many seconds.
    page_touches : bool
        Record the first touches of mapped files as load and store rows.
    anonymize : bool
        Replace names in the trace by hashes with a key that is not kept.
    pages : int
        Size of perf's ring buffer per CPU, in pages of 4 KiB; a power of two.
    facts : dict
        Additional entries of the header, such as a calibration.
    """

    pid: int | None = None
    seconds: float | None = None
    page_touches: bool = False
    anonymize: bool = False
    pages: int = PAGES
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Captured:
    """A finished capture: the command's exit status (128 + n if signal n killed the command) and the conversion report."""

    status: int
    report: Report


class CommandError(ScmsimError):
    """Error of a command that cannot be started: exit code 127 (not found) or 126 (not executable), as in a shell."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def check_command(command: Sequence[str]) -> None:
    """Raise CommandError unless the first word names a program that can be run."""
    name = command[0]
    if shutil.which(name) is not None:
        return
    found = name if os.sep in name and os.path.exists(name) else shutil.which(name, os.F_OK)
    if found is None or os.path.isdir(found):
        where = "" if os.sep in name else " in PATH"
        raise CommandError(f"no command {name!r}{where}; check its spelling or give its path", 127)
    raise CommandError(f"{name!r} is not executable; make it so with 'chmod +x', or name its interpreter first", 126)


def check_target(command: Sequence[str], pid: int | None) -> None:
    """Raise an error unless exactly one of command and pid is given and the program or process exists."""
    if pid is None:
        if not command:
            raise UsageError("no command to run; give it after '--', or a process with --pid")
        check_command(command)
    elif command:
        raise UsageError(f"give either a command or --pid {pid}, not both")
    elif not os.path.isdir(f"/proc/{pid}"):
        raise UsageError(f"no process {pid}; see 'ps -e' for the running processes")
