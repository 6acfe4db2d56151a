"""Capture back ends: one file each, with SUMMARY and `capture(command, out, ...)`, which returns a `Captured`."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from scmsim.errors import ScmsimError
from scmsim.trace.formats._report import Report


@dataclass
class Captured:
    """A finished capture: exit status of the command (128 + n if signal n ended it), and what became of its calls."""

    status: int
    report: Report


class CommandError(ScmsimError):
    """The command cannot be started: exit code 127 (not found) or 126 (not executable), as a shell reports it."""

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
