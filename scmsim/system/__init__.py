"""What else runs on a machine, and how its counts are taken: one TOML file each, of which `alone` says that nothing does.

A replay has the calls of a trace.  A machine has more that takes room in the TLB: timer interrupts, other processes, the program's
own pages, a second page table (KPTI).  And what perf counts of a rep-string depends on the CPU.  Each is a number with a source.
"""

import pathlib
from typing import Any

from scmsim.core import registry, toml
from scmsim.core.schema import Mistakes, Rule, flag, named, number, table, text, then, whole

ALONE = "alone"
_PAGES, _BYTES = whole(0, 1 << 20), number(0, 1e6)
_FIELDS: dict[str, Rule] = {
    "hz": whole(0, 100_000),  # timer interrupts a second of CPU time
    "slice_us": whole(0, 1 << 40),  # CPU time after which another process runs; 0: there is none
    "other_pages": _PAGES,  # of 4 KiB, that the other process touches each time
    "program_pages": _PAGES,  # of 4 KiB, of its own, that the program touches before each system call
    "thread_stacks": flag,  # each thread of the trace has a kernel stack of its own
    "kpti": flag,  # two page tables, for user and kernel
    "pcid": flag,  # address spaces keep their entries, where the CPU can
    "levels": whole(4, 5),  # of the page table, where it is not as the machine's preset says
    "rep_copy_bytes": _BYTES,  # copied by a rep-string for each load or store that is counted; 0: it counts none
    "rep_clear_bytes": _BYTES,  # cleared by a rep-string for each store that is counted
    "rep_lookup_bytes": whole(0, 1 << 20),  # for each look-up of a rep-string; 0: one a page
}
DEFAULTS: dict[str, Any] = dict.fromkeys(_FIELDS, 0) | {"pcid": True, "levels": None}


def _sourced(kept: dict[str, Any]) -> dict[str, Any]:
    """Every number has a source."""
    mistakes, sources = Mistakes(), kept.get("source", {})
    for key in kept.keys() & _FIELDS.keys():
        if not sources.get(key, "").strip():
            mistakes.note(("source", key), f"is missing; say where {key} comes from")
    mistakes.done()
    return kept


_RULE = then(table({"summary": text, "source": named(text), **_FIELDS}, ("summary",)), _sourced)


def on_machine(system: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """The table of a machine on which a system runs: what its kernel makes of what the CPU can."""
    levels, used = system["levels"], machine.get("invalidate", {}).get("pcid", 1) and system["pcid"]
    walk = {**machine["walk"], "levels": levels} if levels else machine["walk"]
    return {**machine, "walk": walk, "invalidate": {**machine.get("invalidate", {}), "pcid": int(used)}}


def surrounds(system: dict[str, Any]) -> bool:
    """Whether anything runs besides the calls."""
    return any(system[name] for name in ("hz", "slice_us", "program_pages", "thread_stacks", "kpti"))


def counts_rep_strings(system: dict[str, Any]) -> bool:
    """Whether rep-strings count for more than a look-up a page."""
    return any(system[name] for name in ("rep_copy_bytes", "rep_clear_bytes", "rep_lookup_bytes"))


def read(name: str) -> dict[str, Any]:
    """Checked table of a system, complete: a name of `registry.names("system")` or the path of a TOML file.

    Raises
    ------
    UsageError
        For a file that is missing, or with every mistake in it.
    """
    file = pathlib.Path(name) if name.endswith(".toml") or "/" in name else registry.path("system", name)
    return {**DEFAULTS, **toml.load(file, _RULE)}
