"""Write a report's texts about all its runs: the replayed traces (at the top) and the origin of the counts (at the bottom)."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from scmsim.core.text import printable, shortened, words
from scmsim.result import Result, Run, names
from scmsim.result.cells import harness

_MOST_NAMED = 3  # maximum number of traces that are named
_WIDTH = 60  # maximum shown length of a trace's name, characters
SIMULATED = (
    "Simulated counts follow from structure, instructions, loads and stores from fitted costs; times are estimates."
)


def asked(result: Result) -> str:
    """Return text on the trace or workload and the shared settings, e.g. "varmail.parquet, 6,721 calls; machine i7-8700k"."""
    runs = result.runs
    calls = {run.calls for run in runs}
    of = [*_traces(result), *([f"{calls.pop():,} calls"] if len(calls) == 1 else [])]
    values = {name: {run.names()[name] for run in runs} for name in ("machine", "paging", "medium")}
    shared = [
        f"{name} {printable(str(*found))}" for name, found in values.items() if len(found) == 1 and None not in found
    ]
    return "; ".join(filter(None, [", ".join(of), ", ".join(shared)]))


def _traces(result: Result) -> list[str]:
    """Return a list with the names of the replayed traces, or the workload, as one text; empty if neither is recorded."""
    inputs = result.manifest.get("inputs")
    found = [os.path.basename(str(name)) for name in inputs] if isinstance(inputs, dict) else []
    found = found or list(
        dict.fromkeys(names.said("trace", run.cell["trace"]) for run in result.runs if "trace" in run.cell)
    )
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        return [", ".join(shortened(name, _WIDTH) for name in found[:_MOST_NAMED]) + more]
    workload = result.manifest.get("workload")
    return [shortened(f"workload {words(workload)}", 3 * _WIDTH)] if workload else []


def made_up(result: Result) -> list[str]:
    """Return, for the top of the report, the sentence that the counts are made up; [] if they are not made up."""
    return [who(harness(result))] if harness(result).get("backend") == "fake" else []


def trust(result: Result) -> str:
    """Return sentences on the origin of the numbers."""
    kinds = {names.is_measured(run) for run in result.runs}
    said = {False: SIMULATED, True: who(harness(result))}
    return " ".join(text for kind, text in said.items() if kind in kinds)


def who(about: Mapping[str, Any]) -> str:
    """Return a sentence on the origin of the measured counts, from a manifest's `harness`."""
    by, formats = about.get("backend"), about.get("formats")
    if by == "fake":
        return "The measured counts are made up by the fake back end, to try the tools."
    if by == "lab" or formats == ["lab"]:
        emulator = f" {printable(str(about['qemu']))}" if about.get("qemu") else ""
        return f"Measured counts are those of a real kernel in an emulated machine (QEMU{emulator}), not of a processor's PMU."
    if by == "lab tlb":
        return "Measured counts are those of a real kernel's addresses in the simulated TLB, not of a processor's PMU."
    if by == "software":
        return "Measured counts are the kernel's software events and clocks, not a processor's PMU."
    if by in ("perf", "import", "profile"):
        return "Measured counts are perf's."
    return "The result does not record how its counts were measured."


def merged(
    manifests: Sequence[Mapping[str, Any]], runs: Sequence[Sequence[Run]], paths: Sequence[str]
) -> dict[str, Any]:
    """Return a manifest for several results on one page: names, all inputs, and the common harness of measured results."""
    inputs = {name: one for each in manifests for name, one in _table(each.get("inputs")).items()}
    measured = [each for each, part in zip(manifests, runs, strict=True) if any(map(names.is_measured, part))]
    found = [each["harness"] for each in measured if isinstance(each.get("harness"), dict)]
    same = found[0] if found and all(who(one) == who(found[0]) for one in found) and len(found) == len(measured) else {}
    about = {"results": list(paths), "inputs": inputs, "harness": same}
    return {name: value for name, value in about.items() if value}


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
