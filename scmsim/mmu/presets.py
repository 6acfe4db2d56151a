"""Machine files (TOML) -> checked tables -> the state of the MMU.

A machine file has a `summary`; `[[tlb]]` arrays; `[[walk_cache]]` arrays, which hold page-table entries that refer to tables;
`[[walk_memory]]` tables, the caches that serve page-table entries; and the tables `[walk]`, `[invalidate]` and `[time]`, whose
numbers have their sources in `[walk.source]`, `[invalidate.source]` and `[time.source]`.  `docs/guide/mmu.md` explains the keys.
A source starts with its kind: `vendor`, `measured`, `estimate` or `as printed`.  If a level has no array for a page size, the
array for the next smaller size holds the page in pieces.
"""

import functools
import os
import pathlib
import pickle
from typing import TYPE_CHECKING, Any

from scmsim.core import registry, toml
from scmsim.core.errors import UsageError, expect
from scmsim.core.schema import Broken, located
from scmsim.mmu import host, rules
from scmsim.mmu import state as layout
from scmsim.mmu.build import build
from scmsim.mmu.state import ANY

if TYPE_CHECKING:
    import numpy as np


_checked = toml.reader(rules.machine(sources=True))


def read(name: str) -> dict[str, Any]:
    """Return the checked table of a machine: a name of `registry.names("machine")`, "host" or the path of a TOML file.

    Raises EnvironmentProblem if "host" does not report its TLBs, and UsageError, which lists every mistake, for a file that
    is missing, is not TOML, or has mistakes.
    """
    if name == host.NAME:
        seen: dict[str, Any] = rules.machine(sources=True)(host.table(host.look()))
        return seen
    file = pathlib.Path(name) if name.endswith(".toml") or "/" in name else registry.path("machine", name)
    return _checked(file)


def timing(name: "str | dict[str, Any]") -> dict[str, float]:
    """Return the numbers of a machine's [time] table, by key.

    The keys are ghz, cpi, stlb_hit_cycles, walk_hidden (0..1), copy_gb_s, syscall_ns, and optionally load_gb_s, lines_in_flight.
    """
    table = name if isinstance(name, dict) else read(name)
    return {key: value for key, value in table.get("time", {}).items() if key != "source"}


def machine(name: "str | os.PathLike[str] | dict[str, Any]") -> "np.ndarray":
    """Return the MMU of a machine, with empty TLBs; a table may lack sources and [time], because counting ignores them.

    Raises UsageError as `read` does, also for mistakes in a table.
    """
    expect("machine", name, (str, os.PathLike, dict), "the name of one machine, a TOML file or its table")
    if isinstance(name, dict):
        table = {"walk_cache": [], **name}
        check(table)
    else:
        table = read(os.fspath(name))
    state = layout.empty()
    state.view("u1")[:] = _built(pickle.dumps(table)).view("u1")
    return state


@functools.lru_cache(16)
def _built(table: bytes) -> "np.ndarray":
    """Return the MMU of a pickled table; cached because the replays of a sweep often share machines, and building takes 5 ms."""
    return build(pickle.loads(table))


def check(table: dict[str, Any]) -> None:
    """Raise UsageError with every mistake of a machine's table; entries that counting does not need may be missing."""
    try:
        rules.machine(sources=False)(table)
    except Broken as broken:
        said = (f"machine table: {located(at, rule)}" for at, rule in broken.mistakes)
        raise UsageError("\n".join(said)) from None


def plain(first: str, second: str | None = None, policy: str = "lru") -> dict[str, Any]:
    """Return the table of a machine with only one or two TLB arrays for every page size, given as "ENTRIESxWAYS".

    Raises UsageError for a text that is not of this form or an impossible shape.
    """
    table: dict[str, Any] = {"summary": "plain", "tlb": [], "walk_cache": [], "walk": {"levels": 4, "ref_cycles": 0}}
    table["walk"].update(largest_page="1GiB", source={})
    for level, text in (("first", first), ("second", second)):
        if text is None:
            continue
        entries, _, ways = text.lower().partition("x")
        if not (entries.isdecimal() and ways.isdecimal() and len(text) < 20):
            raise UsageError(f"{text!r} is not a TLB; write entries x ways, e.g. 64x4 or 1536x12")
        try:
            shape = rules.array({"entries": int(entries), "ways": int(ways), "policy": policy})
        except UsageError as error:
            raise UsageError(f"{text!r}: {error}") from None
        shape |= {"name": level, "pages": [ANY], "source": "as given", f"{level}_level_for": list(layout.SIDES)}
        table["tlb"].append(shape)
    return table
