"""Count hardware events with perf: the events of the machine's event table, in passes that need no multiplexing."""

from typing import Any

from scmsim.core.errors import EnvironmentProblem
from scmsim.perf import hardware
from scmsim.perf.backend import Backend, Request
from scmsim.perf.backends.software import software
from scmsim.perf.stat import Perf, check_permission

SUMMARY = "perf stat with the CPU's hardware events; without a PMU only what software can count"
PARAMS = {"events": ("", "text", "event table to use instead of the one for this CPU; see 'scmsim list events'")}


def start(request: Request) -> Backend:
    """Find the PMU, the event table and the events that work, and return the back end.

    Raises EnvironmentProblem if perf is missing or may not count the kernel; with `require_pmu` also without a PMU or a
    table for it; UnknownName for an event table that does not exist.
    """
    check_permission(request.count, request.machine)
    perf = Perf(request.folder)
    table, why = hardware.table_here(str(request.params.get("events", "")), request.machine)
    if table is None and request.require_pmu:
        raise EnvironmentProblem(f"{why}; measure on bare metal, pass the PMU through, or drop --require-pmu")
    extra, why_absent = software(perf, request, tracepoints=False)
    facts: dict[str, Any] = {"backend": "perf", "perf": perf.version, "pmu": request.machine.pmus()}
    warnings = []
    if table is None:
        passes, why_absent = [extra], {**hardware.absent(request, why), **why_absent}
        warnings = [f"{why}: only software events are counted"]
    else:
        choice = hardware.choose(table, request, perf.why_not)
        if not choice.passes and request.require_pmu:
            raise EnvironmentProblem("perf counts none of the hardware events here; see 'scmsim perf check'")
        first, *others = choice.passes or [()]
        passes, why_absent = [(*first, *extra), *others], {**choice.why_absent, **why_absent}
        facts |= {"table": table.name, "events": choice.names}
    return Backend(
        passes=passes,
        why_absent=why_absent,
        facts=facts,
        measure=lambda task, events, number: perf.region(task.command, events, task.timeout_s),
        program=perf.program,
        warnings=warnings,
    )
