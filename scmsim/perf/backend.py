"""Interface of the harness's back ends, each of which is a file in `backends/` with SUMMARY, PARAMS and `start(request)`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scmsim.perf.counts import Event
from scmsim.perf.machine import Machine
from scmsim.perf.stat import Ran


@dataclass(frozen=True)
class Request:
    """A request to a back end: what to count, and how."""

    count: str = "all"  # "all": user and kernel mode together; "split": both separately; "user": user mode alone
    counters: tuple[str, ...] = ()  # counter fields; empty for the fields of the thesis's study (`hardware.fields`)
    # whether one pass counts all events and perf scales their values, instead of passes that need no multiplexing
    multiplexed: bool = False
    # whether to raise EnvironmentProblem without a hardware PMU, instead of counting only software events
    require_pmu: bool = False
    params: dict[str, int | str] = field(default_factory=dict)  # the back end's parameters, as in its PARAMS
    folder: str | None = None  # folder for temporary files; None for the system's
    machine: Machine = field(default_factory=Machine)  # where to look for a PMU and for permission


class Task(NamedTuple):
    """One run of a program: name, command, and amount of work, from which the fake back end makes up its answers."""

    key: str
    command: Sequence[str]
    timeout_s: float | None = None
    calls: int = 0
    length: int = 0
    operation: str = ""
    fs: str = ""


@dataclass
class Backend:
    """A back end that has examined the machine."""

    passes: list[tuple[Event, ...]]  # every task runs once for each pass
    why_absent: dict[str, str]  # counter fields that cannot be counted here, with the reason
    facts: dict[str, Any]  # facts for the manifest: tool, version, event table, the event that counted each field
    # (task, events, number of the pass): counts the region in which a bundled program switches counting on
    measure: Callable[[Task, tuple[Event, ...], int], Ran]
    # (command, events): counts any program from start to end
    program: Callable[[Sequence[str], tuple[Event, ...]], Ran]
    warnings: list[str] = field(default_factory=list)  # warnings for the reader of the result
    runs_programs: bool = True  # False if `measure` only makes up answers, so that nothing is compiled or written
