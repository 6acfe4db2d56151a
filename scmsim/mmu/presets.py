"""Machine files (TOML) -> checked tables -> the state of the MMU.

A machine file has `summary`; `[[tlb]]` arrays; `[[walk_cache]]` arrays of page-table entries that refer to tables;
`[[walk_memory]]`, the caches that serve page-table entries; `[walk]`, `[invalidate]` and `[time]`, whose numbers have their
sources in `[walk.source]` and so on.  `docs/mmu.md` explains the keys.  A source starts with what it is: vendor, measured,
estimate, as printed.  Where a level has no array for a page size, the next smaller size holds the page in pieces.
"""

import difflib
import os
import pathlib
from typing import TYPE_CHECKING, Any

from scmsim.core import registry, toml
from scmsim.core.errors import UsageError, expect
from scmsim.core.units import page_order
from scmsim.mmu import state as layout
from scmsim.mmu.build import build
from scmsim.mmu.state import ANY, CACHE_LEVELS

if TYPE_CHECKING:
    import numpy as np

_Types = dict[str, type | tuple[type, ...]]
_ARRAY: _Types = {"entries": int, "ways": int, "source": str}
_KEYS: dict[str, _Types] = {
    "": {"summary": str, "tlb": list, "walk_cache": list, "walk": dict, "time": dict},
    "tlb": {"name": str, "pages": list, **_ARRAY},
    "walk_cache": {"entry": str, **_ARRAY},
    "walk_memory": {"name": str, "cycles": int, **_ARRAY},
    "nested_tlb": _ARRAY,
    "walk": {"levels": int, "largest_page": (str, int), "source": dict},
    "invalidate": {"source": dict},
    "time": dict.fromkeys(("ghz", "cpi", "stlb_hit_cycles", "walk_hidden", "copy_gb_s", "syscall_ns"), (int, float)),
}
_OPTIONAL: dict[str, _Types] = {
    "": {"fill": str, "walk_memory": list, "nested_tlb": list, "invalidate": dict},
    "tlb": {"index": str, "policy": str, "coalesce": int, "first_level_for": list, "second_level_for": list},
    "walk_cache": {"index": str, "policy": str},
    "walk_memory": {"index": str, "policy": str},
    "nested_tlb": {"index": str, "policy": str},
    "walk": {
        "ref_cycles": int, "memory_cycles": int, "scm_cycles": int, "walkers": int, "level_bits": list,
        "nested_levels": int, "nested_page": (str, int), "hardware_bits": bool, "update_cycles": int,
    },
    "invalidate": dict.fromkeys(("cores", "ceiling", "invlpg_cycles", "flush_cycles", "shootdown_cycles", "pcid"), int),
    "time": {"source": dict},
}  # fmt: skip
_LISTS = ("tlb", "walk_cache", "walk_memory", "nested_tlb")


class _Bad(Exception):
    """A key and what is wrong with it."""


def read(name: str) -> dict[str, Any]:
    """Checked table of a machine: a name of `registry.names("machine")` or the path of a TOML file.

    Raises UsageError with file and key for a file that is missing, is not TOML or does not describe a machine.
    """
    file = pathlib.Path(name) if name.endswith(".toml") or "/" in name else registry.path("machine", name)
    _, table = toml.read(file)
    try:
        check(table)
    except _Bad as bad:
        raise UsageError(f"{file}: {bad}") from None
    return table


def timing(name: "str | dict[str, Any]") -> dict[str, float]:
    """Numbers of a machine's [time] table: ghz, cpi, stlb_hit_cycles, walk_hidden (0..1), copy_gb_s, syscall_ns."""
    table = name if isinstance(name, dict) else read(name)
    return {key: value for key, value in table.get("time", {}).items() if key != "source"}


def machine(name: "str | os.PathLike[str] | dict[str, Any]") -> "np.ndarray":
    """Fresh MMU of a machine, all its TLBs empty; a table may lack what has no part in counting: sources, [time].

    Raises UsageError as `read` does, for a table too.
    """
    expect("machine", name, (str, os.PathLike, dict), "the name of one machine, a TOML file or its table")
    if not isinstance(name, dict):
        return build(read(os.fspath(name)))
    table = {"walk_cache": [], **name}
    try:
        check(table, sources=False)
    except _Bad as bad:
        raise UsageError(f"machine table: {bad}") from None
    return build(table)


def plain(first: str, second: str | None = None, policy: str = "lru") -> dict[str, Any]:
    """Table of a machine that is nothing but one or two TLB arrays for every page size, given as "ENTRIESxWAYS".

    Raises UsageError for a text that is not of this form or a shape that cannot be.
    """
    table: dict[str, Any] = {"summary": "plain", "tlb": [], "walk_cache": [], "walk": {"levels": 4, "ref_cycles": 0}}
    table["walk"].update(largest_page="1GiB", source={})
    for level, text in (("first", first), ("second", second)):
        if text is None:
            continue
        entries, _, ways = text.lower().partition("x")
        if not (entries.isdecimal() and ways.isdecimal() and len(text) < 20):
            raise UsageError(f"{text!r} is not a TLB; write entries x ways, e.g. 64x4 or 1536x12")
        shape = {"name": level, "pages": [ANY], "entries": int(entries), "ways": int(ways), "policy": policy}
        table["tlb"].append({**shape, "source": "as given", f"{level}_level_for": list(layout.SIDES)})
        try:
            _geometry(table["tlb"][-1], "")
        except _Bad as bad:
            raise UsageError(f"{text!r}: {bad}") from None
    return table


def check(table: dict[str, Any], *, sources: bool = True) -> None:
    """Raise _Bad for the first key that is missing, unknown, of a wrong type or without a source.

    Without `sources`, they, [time] and the summary may be missing.
    """
    _keys("", table, "", () if sources else ("summary", "time"))
    for kind in _LISTS:
        for i, entry in enumerate(table.get(kind, [])):
            where = f"{kind}[{i}]."
            if not isinstance(entry, dict):
                raise _Bad(f"{kind} must be written as [[{kind}]] tables")
            _keys(kind, entry, where, () if sources else ("source", "name"))
            _geometry(entry, where)
            if sources and not entry["source"].strip():
                raise _Bad(f"{where}source is empty; say where the numbers come from")
    for kind in ("walk", "invalidate", "time"):
        if kind not in table:
            continue
        _keys(kind, table[kind], f"{kind}.", () if sources else ("source",))
        for key in table[kind]:
            if sources and key != "source" and not str(table[kind].get("source", {}).get(key, "")).strip():
                raise _Bad(f"{kind}.source.{key} is missing; say where {kind}.{key} comes from")
            if isinstance(table[kind][key], int) and table[kind][key] < 0:
                raise _Bad(f"{kind}.{key} = {table[kind][key]}; it must not be negative")
    _choice(table.get("fill", layout.FILLS[0]), layout.FILLS, "fill")
    _walk(table)
    _tlbs(table["tlb"])


def _keys(kind: str, entry: dict[str, Any], where: str, spared: tuple[str, ...] = ()) -> None:
    needed, optional = _KEYS[kind], _OPTIONAL.get(kind, {})
    for key, value in entry.items():
        known = {**needed, **optional}
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"use {', '.join(known)}"
            raise _Bad(f"{where}{key} is unknown; {hint}")
        if not isinstance(value, known[key]) or (isinstance(value, bool) and known[key] is not bool):
            raise _Bad(f"{where}{key} = {value!r} has the wrong type")
    for key in needed:
        if key not in entry and key not in spared:
            raise _Bad(f"{where}{key} is missing")


def _choice(value: Any, allowed: tuple[str, ...], where: str) -> None:
    if value not in allowed:
        raise _Bad(f"{where} = {value!r}; use {', '.join(allowed)}")


def _geometry(entry: dict[str, Any], where: str) -> None:
    entries, ways = entry["entries"], entry["ways"]
    if ways < 1 or entries < 1 or entries % ways:
        raise _Bad(f"{where}ways = {ways} does not divide entries = {entries}")
    if entries > 1 << 20:
        raise _Bad(f"{where}entries = {entries}; at most {1 << 20} are simulated")
    sets = entries // ways
    _choice(entry.get("index", "linear"), ("linear", "xor"), f"{where}index")
    _choice(entry.get("policy", "lru"), layout.POLICIES, f"{where}policy")
    if sets & (sets - 1) and entry.get("index") == "xor":
        raise _Bad(f"{where}entries / ways = {sets} sets; an xor index needs a power of two")
    if ways & (ways - 1) and entry.get("policy") == "tree-plru":
        raise _Bad(f"{where}ways = {ways}; tree-plru needs a power of two (bit-plru takes any number)")
    coalesce = entry.get("coalesce", 1)
    if coalesce < 1 or coalesce & (coalesce - 1) or coalesce > 512:
        raise _Bad(f"{where}coalesce = {coalesce}; use a power of two up to 512 pages")


def _walk(table: dict[str, Any]) -> None:
    walk, seen = table["walk"], set()
    if not 1 <= walk["levels"] <= layout.LEVELS:
        raise _Bad(f"walk.levels = {walk['levels']}; use 1 to {layout.LEVELS}")
    if not 1 <= walk.get("walkers", 1) <= layout.WALKERS:
        raise _Bad(f"walk.walkers = {walk['walkers']}; use 1 to {layout.WALKERS}")
    if not 0 <= walk.get("nested_levels", 0) <= layout.LEVELS:
        raise _Bad(f"walk.nested_levels = {walk['nested_levels']}; use 0 (no virtual machine) to {layout.LEVELS}")
    lines, flat = len(table.get("walk_memory", [])), "ref_cycles" in walk
    if lines > layout.CACHES or flat == bool(lines) or (lines and "memory_cycles" not in walk):
        raise _Bad(f"walk: give ref_cycles, or memory_cycles and one to {layout.CACHES} [[walk_memory]] caches")
    bits = walk.get("level_bits", [9] * (walk["levels"] - 1))
    if len(bits) != walk["levels"] - 1 or not all(isinstance(b, int) and 1 <= b <= 12 for b in bits):
        raise _Bad(f"walk.level_bits = {bits!r}; give for each level but the last log2 of its entries a table, 1 to 12")
    _page_order(walk["largest_page"], "walk.largest_page")
    _page_order(walk.get("nested_page", "4KiB"), "walk.nested_page")
    for i, entry in enumerate(table["walk_cache"]):
        if entry["entry"] not in CACHE_LEVELS or entry["entry"] in seen:
            raise _Bad(f"walk_cache[{i}].entry = {entry['entry']!r}; use {', '.join(CACHE_LEVELS)}, each once")
        seen.add(entry["entry"])
    if len(table.get("nested_tlb", [])) > 1:
        raise _Bad("nested_tlb: there can be only one")


def _tlbs(tlbs: list[dict[str, Any]]) -> None:
    for i, entry in enumerate(tlbs):
        for text in entry["pages"]:
            if text != ANY:
                _page_order(text, f"tlb[{i}].pages")
        for key in ("first_level_for", "second_level_for"):
            for side in entry.get(key, []):
                _choice(side, layout.SIDES, f"tlb[{i}].{key}")
    for key in ("first_level_for", "second_level_for"):
        for side in layout.SIDES:
            sizes = [text for entry in tlbs if side in entry.get(key, []) for text in entry["pages"]]
            orders = [text if text == ANY else page_order(text) for text in sizes]
            if len(orders) > len(set(orders)):
                raise _Bad(f"tlb: two arrays have the same page size and {key} = {side!r}")
            if 12 not in orders and ANY not in orders and (orders or key == "first_level_for"):
                raise _Bad(f"tlb: no array has 4KiB pages and {key} = {side!r}")


def _page_order(text: Any, where: str) -> int:
    try:
        return page_order(text)
    except UsageError as error:
        raise _Bad(f"{where}: {error}") from None
