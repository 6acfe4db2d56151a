"""Software events and system-call tracepoints: what can be counted without a PMU, as in most virtual machines."""

from scmsim.perf.backend import Backend, Request
from scmsim.perf.counts import Event
from scmsim.perf.stat import Perf, check_permission, why_no_tracepoints

SUMMARY = "page faults, context switches and system calls; needs no hardware counters"
PARAMS: dict[str, tuple[str, str, str]] = {}

# field -> perf's event
EVENTS = {
    "page_faults": "page-faults",
    "minor_faults": "minor-faults",
    "major_faults": "major-faults",
    "context_switches": "context-switches",
    "cpu_migrations": "cpu-migrations",
    "task_clock": "task-clock",
}
TRACEPOINTS = {"raw_syscalls_sys_enter": "raw_syscalls:sys_enter", "raw_syscalls_sys_exit": "raw_syscalls:sys_exit"}
NO_PMU = "not asked for: the software back end counts no hardware events"


def start(request: Request) -> Backend:
    """Look which software events work here.

    Raises
    ------
    EnvironmentProblem
        If perf is missing, or may not count the kernel; with `require_pmu` always.
    """
    from scmsim.errors import EnvironmentProblem
    from scmsim.perf.hardware import absent

    if request.require_pmu:
        raise EnvironmentProblem("the software back end uses no PMU; drop --require-pmu, or take --backend perf")
    check_permission(request.count, request.machine)
    perf = Perf(request.folder)
    events, why_absent = software(perf, request)
    return Backend(
        passes=[events],
        why_absent={**absent(request, NO_PMU), **why_absent},
        facts={"backend": "software", "perf": perf.version, "events": {event.field: event.name for event in events}},
        measure=lambda task, events, number: perf.region(task.command, events, task.timeout_s),
        program=perf.program,
    )


def software(perf: Perf, request: Request, tracepoints: bool = True) -> tuple[tuple[Event, ...], dict[str, str]]:
    """The software events that work here, and why the others do not.  They take no hardware counter."""
    wanted = {**EVENTS, **(TRACEPOINTS if tracepoints else {})}
    why_absent = {}
    forbidden = why_no_tracepoints(request.machine) if tracepoints else None
    mode = "u" if request.count == "user" else ""
    for name, event in wanted.items():
        why = forbidden if name in TRACEPOINTS and forbidden else perf.why_not(event)
        if why:
            why_absent[name] = why
    return tuple(Event(name, event, mode) for name, event in wanted.items() if name not in why_absent), why_absent
