"""The measured program: loop.c, compiled before the run, or loop.py without a C compiler."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from scmsim.core.errors import EnvironmentProblem
from scmsim.perf.matrix import Cell

NAME = "loop"  # name of the compiled program
_HERE = pathlib.Path(__file__).parent
_COMPILERS = ("cc", "gcc", "clang")
_FALLBACK = "the loop runs in Python: user-mode counts include the interpreter, kernel-mode counts are correct"


class Program(NamedTuple):
    """How to start the loop, and a warning if it is not the compiled program."""

    command: list[str]
    warning: str | None

    def arguments(self, cell: Cell, path: str, total: int, *, warm_up: int, drop_caches: bool, cpu: int) -> list[str]:
        """Return the command line that measures a cell on the file `path`; perf's fifos replace the last two words."""
        numbers = cell.file_bytes, cell.length, cell.passes(total), warm_up, int(drop_caches), cpu
        return [*self.command, path, cell.operation, *map(str, numbers), "{ctl}", "{ack}"]


def build(folder: str | os.PathLike[str], compilers: Sequence[str] = _COMPILERS) -> Program:
    """Compile the loop into `folder` and return it; if that fails, return the Python version with the reason as a warning."""
    compiler = next((path for path in map(shutil.which, compilers) if path), None)
    if compiler is None:
        return _python(f"no C compiler ({', '.join(compilers)})")
    program = os.path.join(folder, NAME)
    try:
        done = subprocess.run(
            [compiler, "-O2", "-o", program, str(_HERE / "loop.c")], capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            return _python(f"{compiler} failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[0]}")
        answer = subprocess.run([program, "check"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:  # e.g. a folder mounted noexec
        return _python(f"the compiled loop cannot be run: {str(error).lower()}")
    return Program([program], None) if answer.stdout == "ok\n" else _python("the compiled loop does not run here")


def _python(reason: str) -> Program:
    return Program([sys.executable, "-I", str(_HERE / "loop.py")], f"{reason}; {_FALLBACK}")


def elapsed_ns(stdout: str) -> int:
    """Return the time of the counted loops in ns, from the program's output."""
    try:
        return int(json.loads(stdout)["elapsed_ns"])
    except (ValueError, KeyError, TypeError):
        raise EnvironmentProblem(f"the loop did not report: {stdout[:80]!r}; run the same command again") from None
