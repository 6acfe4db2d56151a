"""Read systems, which describe other activity on a machine and how perf counts there; in the system `alone` nothing else runs.

A replay has only the calls of a trace.  On a real machine, timer interrupts, other processes, the program's own pages and a
second page table (KPTI) also occupy the TLB, and perf's counts for a rep-string depend on the CPU.  A system's TOML file states
each of these as a number with its source.
"""

import pathlib
from typing import Any

from scmsim.core import registry, toml
from scmsim.core.schema import Mistakes, Rule, flag, named, number, table, text, then, whole

ALONE = "alone"
_PAGES, _BYTES = whole(0, 1 << 20), number(0, 1e6)
_FIELDS: dict[str, Rule] = {
    "hz": whole(0, 100_000),  # timer interrupts per second of CPU time
    "slice_us": whole(0, 1 << 40),  # CPU time after which another process runs, us; 0: never
    "other_pages": _PAGES,  # pages of 4 KiB that the other process touches in each time slice
    "program_pages": _PAGES,  # own pages of 4 KiB that the program touches before each system call
    "thread_stacks": flag,  # whether each thread of the trace has its own kernel stack
    "kpti": flag,  # whether user and kernel have separate page tables
    "pcid": flag,  # whether TLB entries survive a change of address space, if the CPU supports it
    "levels": whole(4, 5),  # levels of the page table, if different from the machine's preset
    "rep_copy_bytes": _BYTES,  # bytes that a rep-string copies per counted load or store; 0: none are counted
    "rep_clear_bytes": _BYTES,  # bytes that a rep-string clears per counted store
    "rep_lookup_bytes": whole(0, 1 << 20),  # bytes of a rep-string per TLB look-up; 0: one look-up per page
}
DEFAULTS: dict[str, Any] = dict.fromkeys(_FIELDS, 0) | {"pcid": True, "levels": None}


def _sourced(kept: dict[str, Any]) -> dict[str, Any]:
    """Check that every number has a source."""
    mistakes, sources = Mistakes(), kept.get("source", {})
    for key in kept.keys() & _FIELDS.keys():
        if not sources.get(key, "").strip():
            mistakes.note(("source", key), f"is missing; say where {key} comes from")
    mistakes.done()
    return kept


_RULE = then(table({"summary": text, "source": named(text), **_FIELDS}, ("summary",)), _sourced)


def on_machine(system: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """Return the machine's table with this system's page-table levels and use of PCIDs."""
    levels, used = system["levels"], machine.get("invalidate", {}).get("pcid", 1) and system["pcid"]
    walk = {**machine["walk"], "levels": levels} if levels else machine["walk"]
    return {**machine, "walk": walk, "invalidate": {**machine.get("invalidate", {}), "pcid": int(used)}}


def surrounds(system: dict[str, Any]) -> bool:
    """Return whether a system has any activity in addition to the trace's calls."""
    return any(system[name] for name in ("hz", "slice_us", "program_pages", "thread_stacks", "kpti"))


def counts_rep_strings(system: dict[str, Any]) -> bool:
    """Return whether rep-strings count as loads, stores, or more than one look-up per page."""
    return any(system[name] for name in ("rep_copy_bytes", "rep_clear_bytes", "rep_lookup_bytes"))


def read(name: str) -> dict[str, Any]:
    """Return the checked, complete table of a system: a name of `registry.names("system")` or a TOML file's path.

    Raises
    ------
    UsageError
        If the file is missing or has mistakes; the error lists all of them.
    """
    file = pathlib.Path(name) if name.endswith(".toml") or "/" in name else registry.path("system", name)
    return {**DEFAULTS, **toml.load(file, _RULE)}
