"""Measure counters and metrics of any program, which runs once for each pass over the events and for each repeat."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from scmsim.core.errors import EnvironmentProblem
from scmsim.perf import hardware
from scmsim.perf.backend import Backend
from scmsim.perf.counts import Counts, combined, from_stat
from scmsim.perf.to_result import finish, inside
from scmsim.result import Run
from scmsim.result.metrics import TABLE7
from scmsim.result.tables.counts import lines


class Counted(NamedTuple):
    """Runs of a program (one per repeat), and the first nonzero exit status (0 if none)."""

    runs: list[Run]
    status: int


def count(backend: Backend, command: Sequence[str], *, label: str, repeats: int, allow_multiplexing: bool) -> Counted:
    """Count a program (argv, no shell) from start to end; `label` is the result's `fs`, by which results are compared.

    `allow_multiplexing`: accept values that perf extrapolated.
    Raises EnvironmentProblem if perf fails, or if an event was not on a counter all the time and this is not allowed.
    """
    runs, status = [], 0
    for repeat in range(1, repeats + 1):
        found = []
        for events in backend.passes:
            ran = backend.program(command, events)
            status = status or ran.status
            if not ran.stat.strip():
                raise EnvironmentProblem(f"perf counted nothing, exit status {ran.status}; see its message above")
            found.append(from_stat(ran.stat, events, allow_multiplexing))
        runs.append(_run(backend, label, repeat, found))
    return Counted(runs, status)


def _run(backend: Backend, label: str, repeat: int, passes: Sequence[Counts]) -> Run:
    events = hardware.events_of(backend.passes)
    found = combined(passes)
    run = Run(
        label,
        counters=found.values,
        groups={mode: dict(counts) for mode, counts in found.modes.items()},
        warnings=[f"{name}: scaled by perf, on a counter for {percent:g} %" for name, percent in found.scaled.items()],
        cell={"repeat": repeat},
        events={name: events[name] for name in found.values if name in events},
    )
    finish(run, {**backend.why_absent, **found.why_absent})
    run.metrics |= inside([counts.values for counts in passes])
    return run


def table(runs: Sequence[Run]) -> list[str]:
    """Return lines of text: counters and metrics as means with their spread, then absent figures with the reasons."""
    shown = [_figure(name, [r.counters[name] for r in runs if name in r.counters]) for name in _every(runs, "counters")]
    for name in _every(runs, "metrics"):
        found = [value for run in runs if (value := run.metrics.get(name)) is not None]
        shown += [_figure(name, found)] if found else []
    reasons: dict[str, list[str]] = {}
    for name, why in runs[0].why_absent.items():
        why = "not all of its counters are there" if name in TABLE7 else re.sub(r"^perf: \S+ ", "perf: ", why)
        reasons.setdefault(why, []).append(name)
    return [*lines(shown), *(f"absent, {why}: {', '.join(names)}" for why, names in reasons.items())]


def _every(runs: Sequence[Run], table: str) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in getattr(run, table)))


def _figure(name: str, values: Sequence[float]) -> tuple[str, str, str]:
    """Return a figure's name, mean and spread."""
    average = sum(values) / len(values)
    deviation = (sum((value - average) ** 2 for value in values) / (len(values) - 1)) ** 0.5 if len(values) > 1 else 0.0
    shown = f"{average:,.0f}" if all(isinstance(value, int) for value in values) else f"{average:,.4g}"
    return name, shown, f"+- {100 * deviation / abs(average):.1f} %" if len(values) > 1 and average else ""
