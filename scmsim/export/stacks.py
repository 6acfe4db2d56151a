"""Write costs by mechanism for profilers: collapsed stacks (flamegraph.pl, inferno) and speedscope.

A stack is "run;mechanism", and its weight a count.  Formats: https://github.com/brendangregg/FlameGraph (README, "Fold stacks")
and https://www.speedscope.app/file-format-schema.json, profiles of type `sampled`.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from scmsim import __version__
from scmsim.core.counters import SCHEMA
from scmsim.core.errors import UsageError, unknown
from scmsim.core.text import printable
from scmsim.result import Run

DEFAULT = (
    "instructions",
    "dtlb_load_misses_walk_completed",
    "dtlb_store_misses_walk_completed",
    "pm_stored_bytes",
    "flushes",
)
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def chosen(runs: Sequence[Run], counters: Sequence[str]) -> list[str]:
    """Return the counters to write: `counters`, or DEFAULT if it is empty, without those that no run counts by mechanism.

    Raises UsageError for an unknown counter, or if no run has any of these counters by mechanism.
    """
    for name in counters:
        if name not in SCHEMA:
            raise unknown("counter", name, SCHEMA)
    had = {name for run in runs for counts in run.sites.values() for name, count in counts.items() if count}
    found = [name for name in counters or DEFAULT if name in had]
    if not found:
        raise UsageError(
            f"no run counted {', '.join(counters or DEFAULT)} by mechanism; use 'scmsim replay' or 'scmsim perf profile'"
        )
    return found


def folded(runs: Sequence[Run], counter: str) -> str:
    """Return the collapsed stacks of one counter: one line per mechanism with a count."""
    return "".join(
        f"{_frame(_name(run, runs))};{_frame(site)} {count}\n" for run in runs for site, count in _weights(run, counter)
    )


def speedscope(runs: Sequence[Run], counters: Sequence[str], name: str) -> str:
    """Return a speedscope file with a profile for each run and counter."""
    frames: dict[str, int] = {}
    profiles: list[dict[str, Any]] = []
    for run in runs:
        label = _name(run, runs)
        for counter in counters:
            weights = [*_weights(run, counter)]
            if not weights:
                continue
            stacks = [[frames.setdefault(each, len(frames)) for each in (label, site)] for site, _ in weights]
            counts = [count for _, count in weights]
            unit = "bytes" if SCHEMA[counter].unit == "bytes" else "none"
            profiles.append(
                {"type": "sampled", "name": f"{label}: {counter}", "unit": unit, "startValue": 0, "endValue": sum(counts),
                 "samples": stacks, "weights": counts}
            )  # fmt: skip
    table = {
        "$schema": _SCHEMA, "name": name, "exporter": f"scmsim {__version__}", "activeProfileIndex": 0,
        "shared": {"frames": [{"name": each} for each in frames]}, "profiles": profiles,
    }  # fmt: skip
    return json.dumps(table, ensure_ascii=False) + "\n"


def _weights(run: Run, counter: str) -> Iterator[tuple[str, int]]:
    for site, counts in run.sites.items():
        if counts.get(counter):
            yield site, counts[counter]


def _name(run: Run, runs: Sequence[Run]) -> str:
    """Return a label that distinguishes a run: its file system, and each of these that differs among the runs.

    These are the machine, the paging, the medium and the values of the cell (for example a sweep's parameters).
    """
    parts = [run.fs]
    for key in ("machine", "paging", "medium"):
        if len({other.names()[key] for other in runs}) > 1:
            parts.append(str(run.names()[key]))
    parts += [f"{key} {value}" for key, value in run.cell.items() if len({str(o.cell.get(key)) for o in runs}) > 1]
    return " ".join(parts)


def _frame(name: str) -> str:
    return printable(name).replace(";", ",")
