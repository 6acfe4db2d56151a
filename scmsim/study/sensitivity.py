"""Compute how time, page walks and the order of the file systems change if one number of a replay is halved or doubled.

The numbers are the latency and the bandwidth of the medium and the entries of every TLB; the page size that maps persistent memory
is changed too.  Latency and bandwidth change only the estimated time, so they need no replay unless page tables are in the medium.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scmsim import system as systems
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import BULK
from scmsim.core.units import parse_bytes
from scmsim.fs.mapping import mechanisms
from scmsim.medium import read as read_medium
from scmsim.mmu import presets
from scmsim.paging import _choice as choice
from scmsim.pipeline import machine_table, models_of, replay
from scmsim.result import Run
from scmsim.result.tables import layout
from scmsim.result.tables.figures import ABSENT, dtlb_walks, number, time_per_call
from scmsim.result.tables.summary import comparable

PAGES = {"base-4k": "4KiB", "directmap-2m": "2MiB"}  # paging policies that are compared -> the page size of each
_FACTORS = {"half": 0.5, "double": 2.0}
NOT_APPLICABLE = (
    f"{ABSENT}: does not apply (the machine lacks such pages, the file system is in DRAM or maps memory itself, the MMU's model "
    "has too few slots for the TLBs, or no time is estimated)"
)
_MOST = 3  # maximum number of pairs of file systems in one sentence
_BANDWIDTHS = ("read_gb_s", "write_gb_s")
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One change: what is changed, to what value, and the arguments of `replay` that it overrides."""

    what: str
    to: str
    arguments: Mapping[str, Any]

    @property
    def phrase(self) -> str:
        """Return the change as the start of a sentence."""
        return f"on pages of {self.to}" if self.what == "page size" else f"with {self.to} the {self.what}"


@dataclass(frozen=True)
class Effect:
    """A change and its runs, one for each file system; None if the change does not apply to the file system."""

    change: Change
    runs: list[Run | None]


@dataclass(frozen=True)
class Sensitivity:
    """The effects of all changes on one combination of machine, paging and medium, and the unchanged runs."""

    base: list[Run]
    effects: list[Effect]
    replays: int

    def order(self, effect: Effect | None = None) -> list[int]:
        """Return the indices of the comparable runs by time, shortest first; runs of equal time keep their order."""
        runs = self._runs(effect)
        kept = [i for i in self._comparable() if time_per_call(runs[i]) is not None]
        return sorted(kept, key=lambda i: float(time_per_call(runs[i]) or 0))

    def swaps(self, effect: Effect) -> list[tuple[int, int]]:
        """Return the pairs of runs whose order by time the change reverses; the run that is faster after it comes first."""
        before, after = ([float(time_per_call(run) or 0) for run in self._runs(each)] for each in (None, effect))
        known = self.order()
        return [(a, b) for a in known for b in known if before[a] > before[b] and after[a] < after[b]]

    def _runs(self, effect: Effect | None) -> list[Run]:
        if effect is None:
            return self.base
        return [changed or own for changed, own in zip(effect.runs, self.base, strict=True)]

    def _comparable(self) -> list[int]:
        charged = [run for run in self.base if run.is_charged and not _without_time(run)]
        sound = {id(run) for run in comparable(charged)}
        return [i for i, run in enumerate(self.base) if id(run) in sound]


def sensitivity(base: Sequence[Run], arguments: Arguments) -> Sensitivity:
    """Return the effect of each change on the runs that `replay(**arguments)` returned."""
    machine, medium = machine_table(arguments["machine"]), read_medium(arguments["medium"])
    effects, replays = [], 0
    for change in _changes(machine, medium):
        told = [_applies(change, run, machine) for run in base]
        again = [run.fs for run, applies in zip(base, told, strict=True) if applies and _needs_replay(change, run)]
        replayed = iter(_replayed(change, again, arguments)) if again else iter(())
        replays += len(again)
        runs: list[Run | None] = []
        for run, applies in zip(base, told, strict=True):
            if not applies:
                runs.append(None)
            else:
                runs.append(next(replayed) if _needs_replay(change, run) else _timed(run, change, arguments))
        effects.append(Effect(change, runs))
    return Sensitivity(list(base), effects, replays)


def _changes(machine: dict[str, Any], medium: dict[str, Any]) -> Iterator[Change]:
    for to, factor in _FACTORS.items():
        yield Change("medium latency", to, {"medium": _slower(medium, factor)})
    for to, factor in _FACTORS.items():
        yield Change("medium bandwidth", to, {"medium": _wider(medium, factor)})
    for to, factor in _FACTORS.items():
        tlbs = [resized(array, factor) for array in machine["tlb"]]
        yield Change("TLB entries", to, {"machine": {**machine, "tlb": tlbs}})
    for policy, page in PAGES.items():
        yield Change("page size", page, {"paging": policy})


def _slower(medium: dict[str, Any], factor: float) -> dict[str, Any]:
    return {key: value * factor if key.endswith("_ns") else value for key, value in medium.items()}


def _wider(medium: dict[str, Any], factor: float) -> dict[str, Any]:
    wider = {key: value * factor if key in _BANDWIDTHS else value for key, value in medium.items()}
    return {**wider, **({"curves": medium["curves"].widened(factor)} if "curves" in medium else {})}


def resized(array: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return a TLB with `factor` times the entries, by changing the number of sets, or of ways if there is one set.

    The ways are also halved if the number of sets is odd and the number of ways is even.

    A fully associative TLB stays fully associative.  Half of an odd number is rounded down, to at least one entry.
    """
    ways, sets = array["ways"], array["entries"] // array["ways"]
    if sets == 1 or (factor < 1 and sets % 2 and ways % 2 == 0):
        ways = max(1, int(ways * factor))
    else:
        sets = int(sets * factor)
    return {**array, "ways": ways, "entries": sets * ways}


def _applies(change: Change, run: Run, machine: dict[str, Any]) -> bool:
    """Return whether a change can be made to a run."""
    if change.what == "TLB entries":
        try:
            presets.machine(change.arguments["machine"])
        except UsageError:  # more TLB entries than the MMU's state can hold
            return False
        return True
    if change.what != "page size":
        return not _without_time(run)
    in_dram = set(registry.load("fs", run.fs).SITES.values()) == {"none"}
    has_pages = parse_bytes(change.to) <= parse_bytes(machine["walk"]["largest_page"])
    return has_pages and not in_dram and run.paging != choice.OWN


def _without_time(run: Run) -> bool:
    """Return whether a run lacks its estimated time or a term of that time."""
    return not run.time_ns or any(name.startswith("time_ns.") for name in run.why_absent)


def _needs_replay(change: Change, run: Run) -> bool:
    """Return whether a change affects counts: it changes TLBs or pages, or walks wait for the medium that it changes."""
    walks_wait = change.what == "medium latency" and run.counters.get("page_walker_loads_scm", 0) > 0
    return walks_wait or "medium" not in change.arguments


def _timed(run: Run, change: Change, arguments: Arguments) -> Run:
    """Return a run with times estimated from its counts and the changed medium."""
    kinds = {**registry.load("fs", run.fs).SITES, **mechanisms.SITES}
    system = systems.read(arguments.get("system", systems.ALONE))
    machine = systems.on_machine(system, machine_table(arguments["machine"]))
    bulk = [site for site, kind in kinds.items() if kind in BULK]
    return dataclasses.replace(run).derive(presets.timing(machine), change.arguments["medium"], bulk)


def _replayed(change: Change, names: list[str], arguments: Arguments) -> list[Run]:
    """Return the runs of the named file systems with a change."""
    given = {**arguments, "fs": names, "accesses": None, "accesses_format": None}
    before = models_of(arguments["fs"], arguments["machine"], arguments["paging"]) - {*arguments["fs"]}
    after = {**given, **change.arguments}
    params = {name: mine for name, mine in given["params"].items() if name in names}
    policies = models_of(names, after["machine"], after["paging"]) - {*names}
    for policy in policies:  # keep the user's parameters of the old policy that the new policy has too
        known = registry.literals("paging", policy).get("PARAMS", {})
        for own in sorted(before, key=lambda name: name == policy):
            kept = {key: value for key, value in given["params"].get(own, {}).items() if key in known}
            params[policy] = {**params.get(policy, {}), **kept}
    return replay(**{**after, "params": params}).runs


def table(found: Sensitivity) -> dict[str, Any]:
    """Return the sensitivity for JSON; null where a change does not apply or a percentage has no base."""
    return {
        "machine": found.base[0].machine,
        "medium": found.base[0].medium,
        "replays": found.replays,
        "order": [found.base[i].fs for i in found.order()],
        "changes": [
            {
                "what": effect.change.what,
                "to": effect.change.to,
                "runs": [_figures(own, run) for own, run in zip(found.base, effect.runs, strict=True)],
                "order": [found.base[i].fs for i in found.order(effect)],
                "swaps": [[found.base[a].fs, found.base[b].fs] for a, b in found.swaps(effect)],
            }
            for effect in found.effects
        ],
    }


_FIGURES: dict[str, Callable[[Run], Any]] = {"time": time_per_call, "walks": dtlb_walks}


def _figures(own: Run, run: Run | None) -> dict[str, Any]:
    figures: dict[str, Any] = {"fs": own.fs}
    for name, value in _FIGURES.items():
        figures[name] = None if run is None else value(run)
        figures[f"{name}_percent"] = None if run is None else percent(value(own), value(run))
    return figures


def percent(before: float | None, after: float | None) -> float | None:
    """Return the change in percent of `before`; None if a value is absent, or if only `before` is 0."""
    if before is None or after is None or (before == 0 and after != 0):
        return None
    return 100 * (after - before) / before if before else 0.0


def text(found: Sensitivity, markdown: bool = False, width: int | None = None) -> str:
    """Return a table of the changes in percent, and a sentence on the order of the file systems by time."""
    head = ["", *(f"{run.fs}, {name}" for run in found.base for name in _FIGURES)]
    rows = [
        [
            f"{effect.change.what}: {effect.change.to}",
            *(
                _cell(value(own), None if run is None else value(run))
                for own, run in zip(found.base, effect.runs, strict=True)
                for value in _FIGURES.values()
            ),
        ]
        for effect in found.effects
    ]
    drawn = layout.markdown([head, *rows]) if markdown else layout.grid([head, *rows], width)
    first = found.base[0]
    title = (
        f"sensitivity on {first.machine}, {first.medium}: change of the time per call (estimate) and of dTLB walks, %"
    )
    missing = [NOT_APPLICABLE] if any(None in effect.runs for effect in found.effects) else []
    told = "\n".join([*sentences(found), *missing, f"({found.replays} more replays)"])
    return f"{title}\n{chr(10) * markdown}{drawn}\n\n{told}"


def _cell(before: float | None, after: float | None) -> str:
    share = percent(before, after)
    if share is None:
        return ABSENT if before is None or after is None else f"0 to {number(after)}"
    return "0" if abs(share) < 0.05 else f"{share:+,.1f}"


def sentences(found: Sensitivity) -> list[str]:
    """Return sentences on the order of the file systems by time: that it holds, or which changes reverse a pair."""
    order = [found.base[i].fs for i in found.order()]
    if len(order) < 2:
        return (
            [] if len(found.base) < 2 else ["the order by time is not compared: fewer than two runs did the same work"]
        )
    told = []
    for effect in found.effects:
        pairs = [f"{found.base[a].fs} comes before {found.base[b].fs}" for a, b in found.swaps(effect)]
        if pairs:
            more = f" and {len(pairs) - _MOST} more pairs" if len(pairs) > _MOST else ""
            told.append(f"{effect.change.phrase}, {', '.join(pairs[:_MOST])}{more}")
    if not told:
        return [f"the order by time holds for all {len(found.effects)} changes: {', '.join(order)}"]
    return [f"order by time, shortest first: {', '.join(order)}", *told]
