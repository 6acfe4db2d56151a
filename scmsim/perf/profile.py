"""Profile a program by `perf record` with call graphs, and reduce the samples to shares by symbol and by mechanism.

`sites/*.toml` maps kernel functions to mechanisms (the `site` names of a file system's models).  The innermost frame that
the map names decides the mechanism of a sample, so a lock or a memset counts for the mechanism that called it.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scmsim.core import registry, schema, toml
from scmsim.core.errors import EnvironmentProblem, unknown
from scmsim.perf.machine import Machine
from scmsim.perf.script import Profile, Table, read
from scmsim.perf.stat import STDERR, TEMPORARY, Perf, check_permission, run
from scmsim.result import Run

PROGRAM, ELSEWHERE = "(program)", "(kernel, elsewhere)"
FIELDS = "comm,tid,time,period,event,ip,sym,dso"

_NAMES = schema.listed(schema.text)
_MAP = schema.table(
    {"summary": schema.text, "source": schema.text, "models": _NAMES, "sites": schema.named(_NAMES)},
    {"models": "name the models whose mechanisms these are", "sites": "give the functions of each mechanism"},
)
_read = toml.reader(_MAP)

Rules = Mapping[str, Sequence[tuple[str, str]]]  # symbol -> (caller or "", site), the rules with a caller first


@dataclass
class Sites:
    """A profile, its events by mechanism (`own[event][site]`), and perf's message about lost samples."""

    profile: Profile
    own: dict[str, dict[str, int]]
    lost: str = ""

    def share(self, event: str, site: str) -> float:
        """Return the percentage of the event's total that a mechanism caused."""
        total = sum(self.own[event].values())
        return 100 * self.own[event].get(site, 0) / total if total else 0.0


def map_for(fs: str) -> str:
    """Return the name of the map for a file system's model; raises UnknownName for a model without one."""
    names = maps()
    if fs not in names:
        raise unknown("file system with a map of its functions", fs, sorted(names))
    return names[fs]


def maps() -> dict[str, str]:
    """Return a dict of map names, by name of the map and by name of each model that the map covers."""
    names = registry.names("sites")
    return {
        **{name: name for name in names},
        **{model: name for name in names for model in _read(registry.path("sites", name))["models"]},
    }


def rules(name: str) -> Rules:
    """Return the rules of the map `name`."""
    found: dict[str, list[tuple[str, str]]] = {}
    for site, entries in _read(registry.path("sites", name))["sites"].items():
        for entry in entries:
            symbol, _, caller = entry.partition(" < ")
            found.setdefault(symbol, []).append((caller, site))
    return {symbol: sorted(each, key=lambda rule: not rule[0]) for symbol, each in found.items()}


def site_of(frames: Sequence[tuple[str, str, bool]], by: Rules) -> str:
    """Return the mechanism of a sample, from its frames (symbol, dso, kernel), innermost first."""
    symbols = [plain(symbol) for symbol, _, _ in frames]
    for depth, symbol in enumerate(symbols):
        for caller, site in by.get(symbol, ()):
            if not caller or caller in symbols[depth + 1 :]:
                return site
    return ELSEWHERE if frames and frames[0][2] else PROGRAM


def plain(symbol: str) -> str:
    """Return a symbol without what the compiler and perf add: "f.isra.12.constprop.30" -> "f", "f[nd_pmem]" -> "f"."""
    return re.split(r"[.\[]", symbol, maxsplit=1)[0] or symbol


def reduced(text: str | Iterable[str], fs: str | None = None) -> Sites:
    """Return the events in the output of `perf script` by symbol and by mechanism.

    `fs` is the model or map whose mechanisms to use; without it only program and kernel are distinguished.
    Raises UnknownName for a file system without a map; UsageError if no sample names a symbol.
    """
    table = _BySite(rules(map_for(fs)) if fs else {})
    read(text, table)
    own = {event: dict(sorted(by.items(), key=lambda item: -item[1])) for event, by in table.sites.items()}
    return Sites(table.profile(), own)


class _BySite(Table):
    """Table that also counts each sample's mechanism as the sample is read."""

    def __init__(self, by: Rules) -> None:
        super().__init__()
        self.by = by
        self.sites: dict[str, dict[str, int]] = {}

    def end_sample(self) -> None:
        if self.frames:
            counts = self.sites.setdefault(self.event, {})
            site = site_of(self.frames, self.by)
            counts[site] = counts.get(site, 0) + self.period
        super().end_sample()


def record(command: Sequence[str], event: str, fs: str | None, *, period: int = 0, graph: str = "fp") -> Sites:
    """Run a program (argv, no shell) under `perf record` and reduce its samples; its output goes to standard error.

    `event` is perf's name or raw code.  `period` is the number of events per sample (0: perf chooses).  `graph` is how perf walks
    the stack: fp, dwarf or lbr.
    Raises EnvironmentProblem if perf is missing, cannot sample the event here, or took no sample.
    """
    check_permission("all", Machine())
    perf = Perf()
    why = perf.why_not(event)
    if why:
        raise EnvironmentProblem(f"{why}; a machine without a PMU samples --event cpu-clock or page-faults")
    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as folder:
        data, messages = os.path.join(folder, "perf.data"), os.path.join(folder, "messages")
        rate = ["-c", str(period)] if period else []
        argv = [perf.path, "record", "-q", "-o", data, "-e", event, *rate, "--call-graph", graph, "--", *command]
        run(argv, None, own_group=False, stdout=STDERR)
        if not os.path.exists(data):
            raise EnvironmentProblem("perf record wrote nothing; see its message above")
        with open(messages, "wb") as stderr:
            shown = subprocess.Popen(
                [perf.path, "script", "-i", data, "-F", FIELDS],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                errors="replace",
                env={**os.environ, "LC_ALL": "C"},
            )
        with shown:
            assert shown.stdout is not None
            found = reduced(shown.stdout, fs)
        with open(messages, errors="replace") as said:
            found.lost = " ".join(line.strip() for line in said if "lost" in line)[:200]
        return found


def as_run(found: Sites, fs: str, command: Sequence[str], fields: Mapping[str, Sequence[str]]) -> Run:
    """Return the profile as a Run: `sites` has the events by mechanism, `groups` by symbol, `counters` in total.

    `fields` has the counter fields that each event supplies.
    """
    made = Run(fs, params={"command": " ".join(command)})
    for event, by_site in found.own.items():
        for name in fields[event]:
            made.events[name] = event
            made.counters[name] = found.profile.events[event]
            for site, count in by_site.items():
                made.sites.setdefault(site, {})[name] = count
    for row in found.profile.rows:
        for name in fields[row.event] if row.own else ():
            group = made.groups.setdefault(row.symbol, {})
            group[name] = group.get(name, 0) + row.own
    if found.lost:
        made.warnings.append(f"perf lost samples: {found.lost}")
    made.warnings.append("counts are the events of the samples taken: shares can be compared, totals cannot")
    return made
