"""Runs of `scmsim capture` as a program of its own."""

import subprocess
import sys
from typing import Any

from scmsim.core.errors import EnvironmentProblem

CAPTURE = (sys.executable, "-m", "scmsim", "capture")


def can_trace(backend: Any) -> bool:
    """Return whether a back end of the capture works here."""
    try:
        backend.probe()
    except EnvironmentProblem:
        return False
    return True


def capture(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run `scmsim capture` with these arguments."""
    argv = [*CAPTURE, *map(str, args)]
    return subprocess.run(argv, **{"capture_output": True, "text": True, "timeout": 300, **options})  # type: ignore[call-overload,no-any-return]
