"""Interface of the harness' back ends: one file each in `backends/`, with SUMMARY, PARAMS and `start(request)`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scmsim.perf.counts import Event
from scmsim.perf.machine import Machine
from scmsim.perf.stat import Ran


@dataclass(frozen=True)
class Request:
    """A request to a back end: what to count, and how.

    Attributes
    ----------
    count : "all", "split" or "user"
        User and kernel together, both separately, or user mode alone.
    counters : tuple of str
        Counter fields; empty for the fields of the thesis' study (`hardware.fields`).
    multiplexed : bool
        Whether one pass counts all events and perf scales their values, instead of passes that need no multiplexing.
    require_pmu : bool
        Whether to raise EnvironmentProblem without a hardware PMU, instead of counting only software events.
    params : dict
        The back end's parameters, as in its PARAMS.
    folder : str or None
        Folder for temporary files; None for the system's.
    machine : Machine
        Where to look for a PMU and for permission.
    """

    count: str = "all"
    counters: tuple[str, ...] = ()
    multiplexed: bool = False
    require_pmu: bool = False
    params: dict[str, int | str] = field(default_factory=dict)
    folder: str | None = None
    machine: Machine = field(default_factory=Machine)


class Task(NamedTuple):
    """One run of a program: its name, its command, and its work (from which the fake back end makes up answers)."""

    key: str
    command: Sequence[str]
    timeout_s: float | None = None
    calls: int = 0
    length: int = 0
    operation: str = ""
    fs: str = ""


@dataclass
class Backend:
    """A back end that has examined the machine.

    Attributes
    ----------
    passes : list of tuple of Event
        Every task runs once for each pass.
    why_absent : dict
        Counter fields that cannot be counted here, with the reason.
    facts : dict
        Facts for the manifest: tool, version, event table, the event that counted each field.
    measure : callable(task, events, number of the pass) -> Ran
        Counts the region in which a bundled program switches counting on.
    program : callable(command, events) -> Ran
        Counts any program from start to end.
    warnings : list of str
        Warnings for the reader of the result.
    runs_programs : bool
        False if `measure` only makes up answers: nothing is compiled, no directory is touched.
    """

    passes: list[tuple[Event, ...]]
    why_absent: dict[str, str]
    facts: dict[str, Any]
    measure: Callable[[Task, tuple[Event, ...], int], Ran]
    program: Callable[[Sequence[str], tuple[Event, ...]], Ran]
    warnings: list[str] = field(default_factory=list)
    runs_programs: bool = True
