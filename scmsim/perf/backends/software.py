"""Count software events and system-call tracepoints, which need no PMU, as in most virtual machines."""

from scmsim.core.counters import SOFTWARE
from scmsim.core.errors import EnvironmentProblem
from scmsim.perf.backend import Backend, Request
from scmsim.perf.counts import Event
from scmsim.perf.hardware import absent
from scmsim.perf.stat import Perf, check_permission, why_no_tracepoints

SUMMARY = "page faults, context switches and system calls; needs no hardware counters"
PARAMS: dict[str, tuple[str, str, str]] = {}

NO_PMU = "not asked for: the software back end counts no hardware events"


def start(request: Request) -> Backend:
    """Find the software events that work on this machine, and return the back end.

    Raises EnvironmentProblem if perf is missing, or may not count the kernel; with `require_pmu` always.
    """
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
    """Return (software events that work here, reason by absent field); the events occupy no hardware counter."""
    wanted = {name: counter.event for name, counter in SOFTWARE.items() if counter.event}
    forbidden = why_no_tracepoints(request.machine) if tracepoints else "not counted beside hardware events"
    why_absent = {}
    mode = "u" if request.count == "user" else ""
    for name, event in wanted.items():
        why = (forbidden if ":" in event else None) or perf.why_not(event)
        if why:
            why_absent[name] = why
    return tuple(Event(name, event, mode) for name, event in wanted.items() if name not in why_absent), why_absent
