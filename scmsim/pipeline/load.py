"""Estimate the throughput and call time of N cores that run the same calls on one medium.

A run is the work of one core.  Other cores can delay only the part of its estimated time in which it moves bytes at the medium's
full bandwidth; each core spends the rest (instructions, latency, fences) alone.  So N cores are a closed queueing network.  The
medium is one station, and each lock that the calls hold (`core.locks`) is another.  A medium may become slower with more threads
(`crowd` in its file), and a lock always does (`CONTENDED`).  Every thread has its own core; the caller names what else the
threads share.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scmsim.core import registry
from scmsim.core.errors import UsageError, unknown
from scmsim.core.locks import SCOPES, WHOLE, is_short, share
from scmsim.core.records import OPS
from scmsim.medium import read as read_medium
from scmsim.mmu.presets import timing
from scmsim.result.queues import Load, Station, solve
from scmsim.result.run import Run
from scmsim.result.tables.figures import ABSENT
from scmsim.result.time import estimate, media_bytes

MOST = 256  # threads; more would overflow the network's numbers
MEDIUM = "medium"  # name of the station
# How much longer a call holds a lock that another thread waits for: the lock and what it protects move between the caches of two
# cores.  Fitted to calls of processes that share a file or directory on tmpfs, Emerald Rapids (docs/validation/load.md).
CONTENDED = 1.5
CHECKED = ("tmpfs", "ext4", "xfs")  # models whose scaling was compared with a machine's (docs/validation/load.md)
SHARED = tuple(scope for scope in SCOPES if scope != WHOLE)  # what threads may share in addition to the file system


def parse_shared(text: str) -> list[str]:
    """Parse the scopes that threads share, e.g. "file,directory"; raises UsageError for a name not in SHARED."""
    found = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in found:
        if name not in SHARED:
            raise unknown("thing that threads share", name, SHARED)
    return found


def parse(text: str) -> list[int]:
    """Parse numbers of threads: "8", "1..16" or "1,2,4".

    Raises UsageError for another form, or a number that is not 1 to `MOST`.
    """
    found: list[int] = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        ends = [
            int(end) for end in (first, last if dots else first) if end.isascii() and end.isdigit() and len(end) < 6
        ]
        if len(ends) != 2 or not 1 <= ends[0] <= ends[1] <= MOST:
            raise UsageError(f"threads must be like 8, 1..16 or 1,2,4, from 1 to {MOST}, not {text!r}")
        found += range(ends[0], ends[1] + 1)
    return list(dict.fromkeys(found))


def under_load(run: Run, threads: Iterable[int], shared: Sequence[str] = ()) -> list[Load]:
    """Return the throughput and call time for each number of threads that run the calls of a run.

    Parameters
    ----------
    shared : sequence of str
        What the threads share besides the medium and the file system: names of SHARED.

    Raises
    ------
    UsageError
        If the run has no calls or no estimated time, or has calls that hold locks but no breakdown by operation.
    """
    missing = [why for name, why in run.why_absent.items() if name.startswith("time_ns.")]
    if not run.calls or not run.time_ns or missing or run.medium is None:
        why = f"its time is not estimated ({missing[0]})" if missing else "it has no calls whose time is estimated"
        raise UsageError(f"no load of {run.fs}: {why}; replay calls on a machine with a [time] table")
    medium = read_medium(run.medium)
    alone = sum(run.time_ns.values()) / run.calls
    whole = _at_medium(run.counters, medium, run.calls, alone)
    networks = _networks(medium, whole, holds(run, medium, shared))
    found = []
    for count in threads:
        states = [_solved(count, alone, stations, sum(whole)) for stations in networks]
        found.append(min(states, key=lambda state: state.calls_per_ns))
    return found


def _solved(count: int, alone: float, stations: Sequence[Station], at_medium: float) -> Load:
    """Return the state of a network whose first station is the medium; `at_medium` includes the medium's time at the locks."""
    medium, *locks = stations
    under_locks, rest = sum(lock.demand for lock in locks), max(0.0, alone - medium.demand)
    if under_locks > rest:
        # Locks that a call holds together count one after the other, but one thread must not wait for itself.
        locks = [replace(lock, demand=lock.demand * rest / under_locks) for lock in locks]
    state = solve(count, max(0.0, rest - under_locks), [medium, *locks])
    at_locks = max(0.0, at_medium - stations[0].demand)
    return replace(state, busy=state.busy | {MEDIUM: min(1.0, state.busy[MEDIUM] + at_locks * state.calls_per_ns)})


@dataclass(frozen=True)
class Hold:
    """Mean time under a lock per call, ns: `time` in total, `at_medium` the part for (loaded, stored) bytes.

    `together`: whether one turn at the lock serves all threads that wait for it.
    """

    time: float
    at_medium: tuple[float, float]
    together: bool = False

    def speed(self, count: int) -> float:
        """Return the speed at which `count` threads leave the lock, relative to one thread.

        One turn serves the threads that came during the turn before: about half of those at the lock.
        """
        if self.together:
            return (count + 1) / 2
        return 1.0 if count < 2 else 1 / CONTENDED


def _networks(medium: dict[str, Any], whole: tuple[float, float], locks: Mapping[str, Hold]) -> list[list[Station]]:
    """Return two networks of stations: the first counts the medium's time under a lock at the medium, the second at the lock.

    A thread that holds a lock while it waits for the medium occupies two stations, which such a network cannot express.  Each
    of the two networks ignores one of the two queues for that time, so the slower network is the better estimate.
    """
    outside = (
        max(0.0, whole[0] - sum(hold.at_medium[0] for hold in locks.values())),
        max(0.0, whole[1] - sum(hold.at_medium[1] for hold in locks.values())),
    )
    at_medium = [Station(name, max(0.0, hold.time - sum(hold.at_medium)), hold.speed) for name, hold in locks.items()]
    at_locks = [Station(name, hold.time, hold.speed) for name, hold in locks.items()]
    return [[_station(medium, *whole), *at_medium], *([[_station(medium, *outside), *at_locks]] if locks else [])]


def _station(medium: dict[str, Any], loads: float, stores: float) -> Station:
    return Station(MEDIUM, loads + stores, lambda count: _speed(medium, count, loads, stores))


def _at_medium(counters: Mapping[str, Any], medium: Mapping[str, Any], calls: int, most: float) -> tuple[float, float]:
    """Return the time at the medium of loads and of stores per call, ns, together at most `most`."""
    loads = counters.get("pm_loaded_bytes", 0) / medium["read_gb_s"] / calls
    stores = media_bytes(counters, medium["granule"]) / medium["write_gb_s"] / calls
    part = min(1.0, most / (loads + stores)) if loads + stores else 1.0
    return loads * part, stores * part


def declared(fs: str) -> dict[str, Any] | None:
    """Return the locks that a model declares; None if it declares nothing."""
    found: dict[str, Any] | None = registry.literals("fs", fs).get("LOCKS") if fs in registry.names("fs") else None
    return found


def check_sites(fs: str, sites: Sequence[str]) -> None:
    """Raise UsageError if a lock of a model names a mechanism that is not one of the model's `sites`."""
    for name, lock in (declared(fs) or {}).items():
        for site in lock.get("sites", ()):
            if site not in sites:
                raise unknown(f"mechanism of {fs} for its lock {name!r}", site, sites)


def in_common(fs: str, shared: Sequence[str]) -> dict[str, list[str]]:
    """Return the locks for which threads wait, with the calls that hold each.

    A call that holds locks to its end counts at one lock: the one with the widest scope among these.  A call that releases its
    locks before it ends counts at each of them.
    """
    known = {name: lock for name, lock in (declared(fs) or {}).items() if lock["of"] in (WHOLE, *shared)}
    found: dict[str, list[str]] = {}
    taken: set[str] = set()
    for name in sorted(known, key=lambda name: _precedence(known[name])):
        found[name] = [call for call in known[name]["calls"] if call not in taken]
        if not is_short(known[name]):
            taken.update(found[name])
    return {name: calls for name, calls in found.items() if calls}


def _precedence(lock: Mapping[str, Any]) -> tuple[bool, float, int]:
    return is_short(lock), -lock.get("held_ns", 0), SCOPES.index(lock["of"])


def holds(run: Run, medium: Mapping[str, Any], shared: Sequence[str]) -> dict[str, Hold]:
    """Return the time under each lock for which threads that share `shared` wait when they run the calls of a run.

    A call holds its lock for the lock's `held_ns`, for its work at the lock's `sites`, or else from its entry to its end.  The
    duration of a call is its share of the estimated time, in proportion to the time that its counts account for; so is that of
    its work at a site.  The times of a call under all its locks together are at most its duration.
    """
    locks = in_common(run.fs, shared)
    if not locks:
        return {}
    if not run.groups or not run.groups.keys() <= {*OPS}:
        raise UsageError(f"no time of each kind of call of {run.fs}, for its locks; replay by operation (--by op)")
    known = declared(run.fs) or {}
    if any("sites" in known[name] for name in locks) and run.groups.keys() - run.group_sites.keys():
        raise UsageError(f"no time of each mechanism of {run.fs}, for its locks; replay the trace again (--by op)")
    machine = timing(str(run.machine))
    weights = {op: estimate(counts, machine, medium, calls=0).total_ns for op, counts in run.groups.items()}
    body = sum(ns for term, ns in run.time_ns.items() if term not in ("calls", "waits")) / run.calls
    per_weight = body / (sum(weights.values()) or 1)
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in locks}
    for op, counts in run.groups.items():
        whole, parts = per_weight * weights[op], {}
        for name in (name for name, calls in locks.items() if op in calls):
            work, part, time = counts, 1.0, whole
            if "sites" in known[name]:
                work, part = _of_sites(counts, run.group_sites[op], known[name]["sites"]), share(known[name], op)
                time = min(whole, part * per_weight * estimate(work, machine, medium, calls=0).total_ns)
            elif "held_ns" in known[name]:
                time = min(whole, known[name]["held_ns"] * max(1, run.group_operations.get(op, 0)) / run.calls)
                part = time / whole if whole else 0.0
            at_medium = _at_medium(work, medium, run.calls, time / part if part else 0.0)
            parts[name] = (time, part * at_medium[0], part * at_medium[1])
        fits = min(1.0, whole / (sum(time for time, *_ in parts.values()) or 1.0))
        for name, (time, loads, stores) in parts.items():
            found[name].append((fits * time, fits * loads, fits * stores))
    totals = {name: tuple(map(sum, zip(*parts, strict=True))) for name, parts in found.items() if parts}
    return {
        name: Hold(time, (loads, stores), known[name].get("together", False))
        for name, (time, loads, stores) in totals.items()
        if time
    }


def _of_sites(
    counts: Mapping[str, int], parts: Mapping[str, Mapping[str, int]], sites: Iterable[str]
) -> dict[str, int]:
    """Return the sum of the counters of the named sites, with each counter of `counts`, so that an estimate finds it."""
    work = dict.fromkeys(counts, 0)
    for site in sites:
        work |= {name: work[name] + count for name, count in parts.get(site, {}).items()}
    return work


def _speed(medium: Mapping[str, Any], count: int, loads: float, stores: float) -> float:
    """Return the speed of a medium with `count` threads, relative to one thread, for a mix of loads and stores."""
    rows = medium.get("crowd")
    if not rows or loads + stores == 0:
        return 1.0
    slower = [_between([(row[0], row[column]) for row in rows], count) for column in (1, 2)]
    return (loads + stores) / (loads / slower[0] + stores / slower[1])


def _between(points: list[tuple[float, float]], x: float) -> float:
    """Interpolate linearly between points ascending in x; outside of them, return the nearest point's value."""
    for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
        if x <= x1:
            return y0 + (y1 - y0) * max(0.0, x - x0) / (x1 - x0)
    return points[-1][1]


def rows(runs: Iterable[Run], threads: list[int], shared: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return a row for each run and number of threads, for JSON."""
    found = []
    for run in runs:
        (one,) = under_load(run, [1], shared)
        moved = (run.counters.get("pm_loaded_bytes", 0) + run.counters.get("pm_stored_bytes", 0)) / run.calls
        for state in under_load(run, threads, shared):
            found.append({
                "fs": run.fs, "medium": run.medium, "threads": state.threads, "calls_per_s": 1e9 * state.calls_per_ns,
                "call_ns": state.call_ns, "waiting_ns": state.call_ns - one.call_ns, "waiting_at_ns": state.waiting,
                "busy": state.busy, "bytes_per_ns": moved * state.calls_per_ns,
                "locks": None if declared(run.fs) is None else in_common(run.fs, shared),
            })  # fmt: skip
    return found


def table(runs: Sequence[Run], threads: list[int], shared: Sequence[str] = (), markdown: bool = False) -> str:
    """Return a table: for each run and number of threads, calls per second, time of a call, and where it waits."""
    made = rows(runs, threads, shared)
    locks = list(dict.fromkeys(name for row in made for name in row["waiting_at_ns"] if name != MEDIUM))
    head = ["", "medium", "threads", "calls/s", "call, ns", "waiting, ns", *(f"{name} lock, ns" for name in locks)]
    head += ["medium busy, %", "bytes/ns"]
    cells = [
        [
            row["fs"], str(row["medium"]), str(row["threads"]), f"{row['calls_per_s']:,.0f}", f"{row['call_ns']:,.0f}",
            f"{row['waiting_ns']:,.0f}",
            *(f"{row['waiting_at_ns'][name]:,.0f}" if name in row["waiting_at_ns"] else ABSENT for name in locks),
            f"{100 * row['busy'][MEDIUM]:.1f}", f"{row['bytes_per_ns']:.2f}",
        ]
        for row in made
    ]  # fmt: skip
    title = f"threads at once, each on its own core; in common: {', '.join([MEDIUM, WHOLE, *shared])} (estimate)"
    told = "\n".join(sentences(runs, shared))
    if markdown:
        lines = [f"{title}\n", *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells))]
        return "\n".join([*lines, "", told])
    widths = [max(len(row[i]) for row in (head, *cells)) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *cells)
    ]
    return "\n".join([title, *(line.rstrip() for line in lines), told])


def _takes(run: Run, lock: Mapping[str, Any], call: str) -> bool:
    """Return whether the calls of a kind in a run take a lock: a lock with sites only if the calls do work there."""
    sites = lock.get("sites")
    return call in run.groups and (not sites or not {*sites}.isdisjoint(run.group_sites.get(call, {})))


def sentences(runs: Sequence[Run], shared: Sequence[str]) -> list[str]:
    """Return a line for each lock that calls hold (models, calls), for models that declare no locks, and for unchecked models."""
    found: dict[str, list[str]] = {}
    made = dict.fromkeys(run.fs for run in runs)
    for fs in made:
        if declared(fs) is None:
            found.setdefault("locks not modelled: nothing is declared", []).append(fs)
        for name, calls in in_common(fs, shared).items():
            lock = (declared(fs) or {})[name]
            if not any(_takes(run, lock, call) for run in runs if run.fs == fs for call in calls):
                continue
            note = lock.get("note", "")
            found.setdefault(f"{name} lock, held by {', '.join(calls)}{note and f' ({note})'}", []).append(fs)
    told = [f"{', '.join(names)}: {what}" for what, names in found.items()]
    rest = [fs for fs in made if fs not in CHECKED]
    return [
        *told,
        *([f"{', '.join(rest)}: unchecked, no measured scaling was compared with these figures"] * bool(rest)),
    ]
