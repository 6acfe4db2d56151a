"""Fake back end, which returns recorded or made-up perf output, with realistic errors, for tests and to preview a matrix.

Made-up counts depend only on the cell and the seed, so a run that was killed and resumed yields the same counts as an
uninterrupted run. The counts are not predictions.
"""

import json
import pathlib
import random
import time
from collections.abc import Sequence

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.units import parse_param
from scmsim.perf import events, hardware
from scmsim.perf.backend import Backend, Request, Task
from scmsim.perf.counts import Event
from scmsim.perf.stat import Ran

SUMMARY = "made-up or recorded answers of perf, with noise and faults; measures nothing"
PARAMS = {
    "events": ("skylake", "text", "event table whose events it pretends to count"),
    "noise": ("3", "percent", "standard deviation of a count over repeats"),
    "missing": ("", "text", "counter fields that the CPU pretends not to have, separated by commas"),
    "multiplexed": ("0", "percent", "share of the runs whose events were on a counter for only part of the time"),
    "dies_after": ("0", "runs", "number of runs after which perf is killed; 0: never"),
    "full_after": ("0", "runs", "number of runs after which the file system is full; 0: never"),
    "delay": ("0ns", "time", "time that a run takes"),
    "seed": ("1", "number", "seed of the noise"),
    "recorded": ("", "text", "file with the perf stat output to return for every run"),
}
_MAX_RECORDED = 1 << 20

# field -> (counts per call, counts per 1000 bytes): round numbers of a plausible magnitude
_SHAPES = {
    "instructions": (2000, 70),
    "cycles": (1500, 160),
    "mem_inst_retired_all_loads": (600, 20),
    "mem_inst_retired_all_stores": (350, 18),
    "l1d_replacement": (40, 15),
    "page_faults": (0, 0),
}
_OTHER = (2, 1)
_FS_FACTOR = {"ext4": 1.0, "ext4-dax": 0.8, "nova": 0.6}


def start(request: Request) -> Backend:
    """Return a back end that answers without measuring.

    Raises UsageError for a recorded answer that cannot be read, or a table that does not exist.
    """
    params = {key: parse_param(request.params.get(key, default), unit) for key, (default, unit, _) in PARAMS.items()}
    table = events.table(str(params["events"]))
    missing = [name for name in str(params["missing"]).split(",") if name]
    choice = hardware.choose(table, request, lambda event: None)
    for name in missing:
        if name not in choice.names:
            raise UsageError(f"fake.missing: {name!r} is not counted here; choose from {', '.join(choice.names)}")
    fake = _Fake({key: value for key, value in params.items() if isinstance(value, int)}, missing, _recorded(params))
    return Backend(
        passes=choice.passes,
        why_absent=choice.why_absent,
        facts={"backend": "fake", "table": table.name, "events": choice.names, "fake": params},
        measure=fake.measure,
        program=fake.program,
        warnings=["the fake back end measures nothing: these counts are made up"],
        runs_programs=False,
    )


class _Fake:
    def __init__(self, params: dict[str, int], missing: Sequence[str], recorded: str | None) -> None:
        self.params, self.missing, self.recorded = params, missing, recorded
        self.runs = 0

    def measure(self, task: Task, counted: tuple[Event, ...], number: int) -> Ran:
        """Return the answer of perf stat -j for one pass of a task."""
        self.runs += 1
        if self.params.get("delay"):
            time.sleep(self.params["delay"] / 1e9)
        if 0 < self.params.get("dies_after", 0) < self.runs:
            raise EnvironmentProblem("perf was killed by SIGKILL; run the same command again")
        if 0 < self.params.get("full_after", 0) < self.runs:
            return Ran("", "", 1, "loop: write: errno 28\n")
        draw = random.Random(f"{self.params.get('seed', 1)}/{task.key}/{number}")
        loop = json.dumps({"elapsed_ns": round(task.calls * (1000 + task.length / 2) * draw.gauss(1, 0.02))})
        if self.recorded is not None:
            return Ran(self.recorded, loop, 0, "")
        share = 75.0 if draw.random() * 100 < self.params.get("multiplexed", 0) else 100.0
        return Ran("".join(self._line(event, task, share, draw) for event in counted), loop, 0, "")

    def program(self, command: Sequence[str], counted: tuple[Event, ...]) -> Ran:
        """Return the answer for a program, which is not run."""
        return self.measure(Task(" ".join(command), command, calls=1000, length=4096), counted, 0)

    def _line(self, event: Event, task: Task, share: float, draw: random.Random) -> str:
        """Return one line as perf 6.1 writes it."""
        calls, kilobytes = _SHAPES.get(event.field, _OTHER)
        factor = (
            _FS_FACTOR.get(task.fs, 1.0)
            * (0.7 if "read" in task.operation else 1.0)
            * {"u": 0.1, "k": 0.9}.get(event.mode, 1)
        )
        noise = max(0.0, draw.gauss(1, self.params.get("noise", 0) / 100))
        value = round(task.calls * (calls + kilobytes * task.length / 1000) * factor * noise)
        shown = "<not supported>" if event.field in self.missing else f"{value}.000000"
        return (
            f'{{"counter-value" : "{shown}", "unit" : "", "event" : {json.dumps(event.asked())}, "event-runtime" : 1000000, '
            f'"pcnt-running" : {share:.2f}, "metric-value" : 0.000000, "metric-unit" : "(null)"}}\n'
        )


def _recorded(params: dict[str, int | str]) -> str | None:
    if not params["recorded"]:
        return None
    path = pathlib.Path(str(params["recorded"]))
    try:
        with path.open("rb") as file:
            return file.read(_MAX_RECORDED).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"fake.recorded: {str(path)!r} cannot be read: {error}; give the output of perf stat -j"
        ) from None
