"""Reduce two results to counts of the same CPU mode (user, kernel, or both), so that they are comparable.

A model covers what the kernel does in the calls of a trace.  A measurement covers a program in user mode, kernel mode, or both;
the modifiers of its events and its groups `user` and `kernel` determine the mode.
"""

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

from scmsim.core.counters import SOFTWARE
from scmsim.perf.event_names import modifier
from scmsim.result import Result, Run

BOTH = "user and kernel"
_MODES = ("kernel", "user")
_MODE_FREE = {
    *SOFTWARE,
    "elapsed_ns",
    "duration_time",
    "task_clock",
    "cpu_clock",
    "page_faults",
    "context_switches",
    "cpu_migrations",
}
_NAMED = 3
_HOW = "count the kernel alone with 'perf stat -e instructions:k' or both apart with 'scmsim perf stat --count split'"


class Aligned(NamedTuple):
    """Two results whose counters count the same CPU mode where possible, and notes on counters that do not."""

    first: Result
    second: Result
    notes: list[str]
    mixed: bool = False  # whether a run has counters of different modes


def is_replay(run: Run) -> bool:
    """Return whether a run was simulated."""
    return bool(run.machine) and not run.events


def kind(result: Result) -> str:
    """Return "simulated" or "measured"; "" if the runs do not record their kind, or are of both kinds."""
    kinds = {"simulated" if is_replay(run) else "measured" if run.events else "" for run in result.runs}
    return kinds.pop() if len(kinds) == 1 else ""


def scope(run: Run, name: str) -> str:
    """Return a counter's mode in a run: "user", "kernel", "user and kernel", or "" if the run does not record it."""
    if is_replay(run):
        mapped = any(run.counters.get(f"mapped_bytes_{size}") for size in ("4k", "2m", "1g"))
        return BOTH if mapped else "kernel"  # user code touches mapped files
    event = run.events.get(name, "")
    if not event or name in _MODE_FREE or " " in event.replace(" + ", "+"):
        return ""
    modes = {mode for mode in _MODES if name in run.groups.get(mode, {})}
    modes = modes or {modifier(one)[1] for one in event.split(" + ")}
    return modes.pop() or BOTH if len(modes) == 1 else BOTH


def aligned(first: Result, second: Result, compared: Iterable[str]) -> Aligned:
    """Return both results with counts of one CPU mode, as far as possible.

    For a comparison with a model, a measurement's kernel counts are used where it has them, counts of only user mode are left out,
    and totals for which there are no kernel counts are kept with a note that they mix modes.  Two measurements are compared in
    their common mode.
    """
    names = list(compared)
    sides = (first, second)
    scopes = [{scope(run, name) for run in side.runs for name in run.counters} - {""} for side in sides]
    if BOTH not in scopes[0] & scopes[1]:
        wanted = next((mode for mode in _MODES if {mode} in scopes), "")
    else:
        wanted = ""
    if not wanted:
        return Aligned(first, second, _differences(sides, names))
    notes: list[str] = []
    runs = [[run if is_replay(run) else _in_mode(run, wanted, names, notes) for run in side.runs] for side in sides]
    mixed = any(len({scope(run, name) for name in run.counters} - {""}) > 1 for of_side in runs for run in of_side)
    if mixed:
        notes.append(
            "counters of one run count different modes, so no metric that is computed from several is compared"
        )
    one, other = (Result(side.manifest, found, side.schema) for side, found in zip(sides, runs, strict=True))
    return Aligned(one, other, notes, mixed)


def _in_mode(run: Run, mode: str, names: list[str], notes: list[str]) -> Run:
    """Return a measured run with counts of one mode where it has them; add notes on counters left out and on mixed modes."""
    counts = dict(run.groups.get(mode, {}))
    others = {name: scope(run, name) for name in run.counters if name not in counts}
    totals = [name for name in names if others.get(name) == BOTH]
    alone = [name for name in names if others.get(name) in _MODES and others[name] != mode]
    if alone:
        notes.append(f"{run.fs!r}: {_listed(alone)} counted in {others[alone[0]]} mode alone, so not compared; {_HOW}")
    if totals:
        notes.append(
            f"{run.fs!r}: {_listed(totals)} counted in user and kernel mode together, unlike the other side's {mode} "
            f"counts, so this comparison mixes modes; {_HOW}"
        )
    kept = {name: count for name, count in run.counters.items() if name not in counts and name not in alone}
    if not counts and len(kept) == len(run.counters):
        return run
    groups = {name: table for name, table in run.groups.items() if name == mode}
    return dataclasses.replace(
        run, counters={**kept, **counts}, groups=groups, metrics={}
    )  # without metrics: those were computed from the totals


def _differences(sides: Iterable[Result], names: list[str]) -> list[str]:
    """Return a note on counters whose modes differ between the sides; [] if there are none."""
    found = [
        {name: {scope(run, name) for run in side.runs if name in run.counters} - {""} for name in names}
        for side in sides
    ]
    differing = [name for name in names if found[0][name] and found[1][name] and found[0][name] != found[1][name]]
    return [f"{_listed(differing)} counted in another mode on each side; {_HOW}"] if differing else []


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more} {'were' if len(names) > 1 else 'was'}"
