"""Run the command of an artifact in a process of its own, in a temporary folder; the artifact is only read.

An artifact may come from a stranger, so its index holds no command line but the arguments of one of three commands.
"""

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from scmsim.config import load
from scmsim.core.errors import EnvironmentProblem, UsageError

_ROOT = pathlib.Path(__file__).parents[2]
# Run the same scmsim as this process; `-c` also looks for modules in the current folder, which is not the artifact.
_START = f"import sys; sys.path.append({str(_ROOT)!r}); from scmsim.__main__ import main; main()"


def arguments(kind: str, command: Mapping[str, Any]) -> list[str]:
    """Return the arguments of scmsim for an artifact's command, with paths relative to the artifact.

    Raises UsageError for a command that no artifact has.
    """
    try:
        if kind == "replay":
            return ["replay", _plain(command["file"]), *(f"--costs={_plain(path)}" for path in command["costs"])]
        if kind == "sweep":
            return ["sweep", _plain(command["file"])]
        return ["reproduce", *map(_plain, command["wanted"]), *["--quick"] * bool(command["quick"])]
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            "the artifact's command is not one that scmsim artifact make writes; get the artifact again"
        ) from None


def _plain(word: Any) -> str:
    """Return the word; raise ValueError if it is an option or a path that leaves the artifact."""
    path = pathlib.PurePosixPath(word)
    if not word or word.startswith("-") or path.is_absolute() or ".." in path.parts:
        raise ValueError(word)
    return str(word)


def run(
    folder: pathlib.Path, kind: str, command: Mapping[str, Any], place: pathlib.Path, quiet: bool = False
) -> pathlib.Path:
    """Run the command with `place` as the current folder; return the file or folder of its result.

    Progress and errors of the command go to stderr.

    Raises UsageError or EnvironmentProblem if the command leaves no result.
    """
    words = arguments(kind, command)
    if kind == "replay" and load(folder / command["file"]).out:
        raise UsageError(f"{command['file']!r} of the artifact names a file to write (out); get the artifact again")
    words = [_absolute(folder, word) for word in words] if kind != "reproduce" else words
    out = place / {"replay": "result.json", "sweep": "sweep", "reproduce": "rows.json"}[kind]
    words += ["-o", str(out)] if kind == "sweep" else ["--json"]
    printed = pathlib.Path(os.devnull) if kind == "sweep" else out
    with printed.open("wb") as stdout:
        whole = [sys.executable, "-c", _START, *["-q"] * quiet, *words]
        done = subprocess.run(whole, cwd=place, stdout=stdout, check=False)
    if not out.exists() or out.is_file() and not out.stat().st_size:
        kind_of = EnvironmentProblem if done.returncode == EnvironmentProblem.exit_code else UsageError
        raise kind_of(f"the artifact's command gave no result (exit code {done.returncode}); its error is above")
    return out


def _absolute(folder: pathlib.Path, word: str) -> str:
    """Return a word with its path, if it names a file of the artifact, made absolute."""
    option, equals, path = word.rpartition("=")
    file = folder.absolute() / path
    return f"{option}{equals}{file}" if file.is_file() else word
