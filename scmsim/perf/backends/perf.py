"""perf on real hardware: the events of the machine's table in passes that need no multiplexing."""

import pathlib

from scmsim.errors import EnvironmentProblem
from scmsim.perf import hardware
from scmsim.perf.backend import Backend, Request
from scmsim.perf.backends.software import software
from scmsim.perf.stat import Perf, check_permission, pmus

SUMMARY = "perf stat with the CPU's hardware events; without a PMU only what software can count"
PARAMS = {"events": ("", "text", "event table to use instead of the one for this CPU; see 'scmsim list events'")}

CPUINFO = pathlib.Path("/proc/cpuinfo")


def start(request: Request) -> Backend:
    """Find the PMU, the event table and the events that work.

    Raises
    ------
    EnvironmentProblem
        If perf is missing or may not count the kernel; with `require_pmu` also without a PMU or a table for it.
    UnknownName
        For an event table that does not exist.
    """
    check_permission(request.count)
    perf = Perf(request.folder)
    found = pmus()
    table, why = (
        hardware.table_here(str(request.params.get("events", "")), CPUINFO, found) if found else (None, hardware.NO_PMU)
    )
    if table is None and request.require_pmu:
        raise EnvironmentProblem(f"{why}; measure on bare metal, pass the PMU through, or drop --require-pmu")
    extra, why_absent = software(perf, request.count, tracepoints=False)
    if table is None:
        return Backend(
            passes=[extra],
            why_absent={**hardware.absent(request, why), **why_absent},
            facts={"backend": "perf", "perf": perf.version, "pmu": found},
            measure=lambda task, events, number: perf.region(task.command, events, task.timeout_s),
            program=perf.program,
            warnings=[f"{why}: only software events are counted"],
        )
    choice = hardware.choose(table, request, perf.why_not)
    if not choice.passes and request.require_pmu:
        raise EnvironmentProblem("perf counts none of the hardware events here; see 'scmsim perf check'")
    passes = choice.passes or [()]
    passes[0] = (*passes[0], *extra)
    return Backend(
        passes=passes,
        why_absent={**choice.why_absent, **why_absent},
        facts={"backend": "perf", "perf": perf.version, "pmu": found, "table": table.name, "events": choice.names},
        measure=lambda task, events, number: perf.region(task.command, events, task.timeout_s),
        program=perf.program,
    )
