"""Matrices, back ends and a stand-in for perf that the tests of the harness share."""

import json
import os
import pathlib
import shutil
import stat
import sys

import pytest

from scmsim.core import registry
from scmsim.perf import cells, runner, to_result
from scmsim.perf.backend import Backend
from scmsim.perf.machine import Machine
from scmsim.perf.matrix import Matrix, Target

needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None or Machine().paranoia() > 1,
    reason="perf is not installed, or may not count the kernel",
)
ONE_CELL = {"operations": ("write",), "units": (1 << 12,), "repeats": 1, "backend": "perf"}

SMALL = """
[fs.a]
dir = "{a}"
[fs.b]
dir = "{b}"
[matrix]
operations = ["write", "read"]
file_sizes = ["64KiB"]
units = ["4KiB", "48KiB"]
repeats = 2
total = "128KiB"
"""

# Answers like perf on a CPU with a PMU: runs the program, serves --control, and counts 1000 of every event.
PERF = """#!{python} -IS
import os, subprocess, sys, threading
arguments = sys.argv[1:]
if arguments[0] == "--version":
    print("perf version 6.99-test")
    sys.exit(0)
split = arguments.index("--")
options, command = arguments[1:split], arguments[split + 1 :]
value = dict(zip(options[:-1], options[1:]))
events = value["-e"].split(",") if "/" not in value["-e"] else [value["-e"]]
environment = os.environ
unknown = [event for event in events if event in environment.get("TEST_UNKNOWN", "").split()]
if unknown:
    print("event syntax error:", unknown[0], file=sys.stderr)
    sys.exit(129)
if "--control" in value:
    log = environment.get("TEST_LOG")
    if log:
        print(value["-e"], file=open(log, "a"))
    ctl, ack = value["--control"].removeprefix("fifo:").split(",")
    requests, answers = os.open(ctl, os.O_RDWR), os.open(ack, os.O_RDWR)
    def serve():
        while os.read(requests, 64):
            os.write(answers, b"ack\\n\\0")
    threading.Thread(target=serve, daemon=True).start()
status = subprocess.call(command)
share = environment.get("TEST_RUNNING", "100.00")
lines = []
for event in events:
    shown = "<not supported>" if event in environment.get("TEST_MISSING", "").split() else "1000.000000"
    lines.append('{{"counter-value" : "%s", "unit" : "", "event" : "%s", "event-runtime" : 5, "pcnt-running" : %s, '
                 '"metric-value" : 0.0, "metric-unit" : "(null)"}}\\n' % (shown, event, share))
out = open(value["-o"], "w") if "-o" in value else sys.stderr
out.writelines(lines)
out.flush()
sys.exit(status)
"""


def program(folder: pathlib.Path, name: str, text: str) -> pathlib.Path:
    """An executable script in `folder`."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def stand_in(folder: pathlib.Path) -> pathlib.Path:
    """The stand-in for perf, in `folder`."""
    return program(folder, "perf", PERF.format(python=sys.executable))


def only(folder: pathlib.Path, *names: str) -> str:
    """A PATH with nothing but these programs of the machine (and what is in `folder` already)."""
    folder.mkdir(exist_ok=True)
    for name in names:
        found = next(path for part in os.environ["PATH"].split(":") if (path := pathlib.Path(part) / name).is_file())
        (folder / name).symlink_to(found)
    return str(folder)


def matrix(folder: pathlib.Path, **more: object) -> Matrix:
    """A small matrix over two directories that exist."""
    places = [folder / "a", folder / "b"]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    values = {
        "targets": tuple(Target(place.name, str(place)) for place in places),
        "file_sizes": (1 << 16,),
        "units": (1 << 12, 48 << 10),
        "operations": ("write", "read"),
        "repeats": 2,
        "total": 1 << 17,
        "backend": "fake",
        **more,
    }
    return Matrix(**values)  # type: ignore[arg-type]


def config(folder: pathlib.Path, more: str = "") -> pathlib.Path:
    """The file of the same small matrix."""
    for name in "ab":
        (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / "matrix.toml"
    path.write_text(SMALL.format(a=folder / "a", b=folder / "b") + more)
    return path


def backend(small: Matrix, out: pathlib.Path) -> Backend:
    """Start the back end of a matrix that writes into `out`."""
    found: Backend = registry.load("backend", small.backend).start(runner.request(small, str(out)))
    return found


def measure(small: Matrix, out: pathlib.Path) -> int:
    """Measure the cells that are not in `out` yet; return how many."""
    found = backend(small, out)
    with cells.opened(out, runner.identity(small, found)) as store:
        return runner.run(small, found, store)


def result(small: Matrix, out: pathlib.Path) -> to_result.Result:
    """Return the result of the cells in `out`."""
    found = backend(small, out)
    with cells.opened(out, runner.identity(small, found)) as store:
        return to_result.result(small, found, store)


def records(out: pathlib.Path) -> dict[str, dict]:
    """Return the records of the cells in `out`, by cell."""
    return {path.stem: json.loads(path.read_bytes()) for path in (out / "cells").iterdir()}
