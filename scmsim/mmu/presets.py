"""Machine files (TOML) -> checked tables -> the state record of the MMU.

A machine file has `summary`; `[[tlb]]` arrays with `name`, `pages`, `entries`, `ways`, `index` ("linear", or "xor":
the two lowest groups of page-number bits xor-ed), `first_level_for` and `second_level_for` (load, store, fetch),
`source`; `[[walk_cache]]` with `entry` (pde, pdpte, pml4e), `entries`, `ways`, `source`; `[walk]` and `[time]`, whose
numbers have their sources in `[walk.source]` and `[time.source]`.  A source starts with what it is: vendor, measured,
estimate, as printed.  Where a level has no array for a page size, the next smaller size holds the page in pieces.
"""

import difflib
import pathlib
import tomllib
from typing import Any

import numpy as np

from scmsim import registry
from scmsim.counters import SCHEMA
from scmsim.errors import UsageError
from scmsim.mmu import state as layout
from scmsim.records import EVENTS, FETCH, FLUSH, LOAD, NTSTORE, STORE, WORK
from scmsim.units import parse_bytes

_PAGES = {1 << order: code for code, order in enumerate(layout.ORDERS)}
_CACHE_LEVELS = {"pde": 2, "pdpte": 3, "pml4e": 4}
_Types = dict[str, type | tuple[type, ...]]
_KEYS: dict[str, _Types] = {
    "": {"summary": str, "tlb": list, "walk_cache": list, "walk": dict, "time": dict},
    "tlb": {"name": str, "pages": list, "entries": int, "ways": int, "source": str},
    "walk_cache": {"entry": str, "entries": int, "ways": int, "source": str},
    "walk": {"levels": int, "largest_page": (str, int), "ref_cycles": int, "source": dict},
    "time": dict.fromkeys(("ghz", "cpi", "stlb_hit_cycles", "walk_hidden", "copy_gb_s", "syscall_ns"), (int, float)),
}
_OPTIONAL: dict[str, _Types] = {
    "tlb": {"index": str, "first_level_for": list, "second_level_for": list},
    "time": {"source": dict},
}


class _Bad(Exception):
    """A key and what is wrong with it."""


def read(name: str) -> dict[str, Any]:
    """Checked table of a machine: a name of `registry.names("machine")` or the path of a TOML file.

    Raises UsageError with file and key for a file that is missing, is not TOML or does not describe a machine.
    """
    file = pathlib.Path(name) if name.endswith(".toml") or "/" in name else registry.path("machine", name)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        check(table)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read ({error.strerror}); give a machine's name or a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not a TOML file: {error}") from None
    except _Bad as bad:
        raise UsageError(f"{file}: {bad}") from None
    return table


def timing(name: str) -> dict[str, float]:
    """Numbers of a machine's [time] table: ghz, cpi, stlb_hit_cycles, walk_hidden (0..1), copy_gb_s, syscall_ns."""
    return {key: value for key, value in read(name)["time"].items() if key != "source"}


def machine(name: str) -> np.recarray:
    """Fresh state record of a machine, all its TLBs empty."""
    return build(read(name))


def check(table: dict[str, Any]) -> None:
    """Raise _Bad for the first key that is missing, unknown, of a wrong type or without a source."""
    _keys("", table, "")
    for kind in ("tlb", "walk_cache"):
        for i, entry in enumerate(table[kind]):
            where = f"{kind}[{i}]."
            if not isinstance(entry, dict):
                raise _Bad(f"{kind} must be written as [[{kind}]] tables")
            _keys(kind, entry, where)
            _geometry(entry, where)
            if not entry["source"].strip():
                raise _Bad(f"{where}source is empty; say where the numbers come from")
    for kind in ("walk", "time"):
        _keys(kind, table[kind], f"{kind}.")
        for key in table[kind]:
            if key != "source" and not str(table[kind].get("source", {}).get(key, "")).strip():
                raise _Bad(f"{kind}.source.{key} is missing; say where {kind}.{key} comes from")
    _walk(table)
    _tlbs(table["tlb"])


def _keys(kind: str, entry: dict[str, Any], where: str) -> None:
    needed, optional = _KEYS[kind], _OPTIONAL.get(kind, {})
    for key, value in entry.items():
        known = {**needed, **optional}
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"use {', '.join(known)}"
            raise _Bad(f"{where}{key} is unknown; {hint}")
        if not isinstance(value, known[key]) or isinstance(value, bool):
            raise _Bad(f"{where}{key} = {value!r} has the wrong type")
    for key in needed:
        if key not in entry:
            raise _Bad(f"{where}{key} is missing")


def _geometry(entry: dict[str, Any], where: str) -> None:
    entries, ways = entry["entries"], entry["ways"]
    if ways < 1 or entries < 1 or entries % ways:
        raise _Bad(f"{where}ways = {ways} does not divide entries = {entries}")
    sets = entries // ways
    if sets & (sets - 1):
        raise _Bad(f"{where}entries / ways = {sets} sets; it must be a power of two")
    if entry.get("index", "linear") not in ("linear", "xor"):
        raise _Bad(f"{where}index = {entry['index']!r}; use linear or xor")


def _walk(table: dict[str, Any]) -> None:
    walk, seen = table["walk"], set()
    if walk["levels"] not in (4, 5):
        raise _Bad(f"walk.levels = {walk['levels']}; use 4 or 5")
    if walk["ref_cycles"] < 0:
        raise _Bad(f"walk.ref_cycles = {walk['ref_cycles']}; it must not be negative")
    _size(walk["largest_page"], "walk.largest_page")
    for i, entry in enumerate(table["walk_cache"]):
        if entry["entry"] not in _CACHE_LEVELS or entry["entry"] in seen:
            raise _Bad(f"walk_cache[{i}].entry = {entry['entry']!r}; use {', '.join(_CACHE_LEVELS)}, each once")
        seen.add(entry["entry"])


def _tlbs(tlbs: list[dict[str, Any]]) -> None:
    for i, entry in enumerate(tlbs):
        for text in entry["pages"]:
            _size(text, f"tlb[{i}].pages")
        for key in ("first_level_for", "second_level_for"):
            for side in entry.get(key, []):
                if side not in layout.SIDES:
                    raise _Bad(f"tlb[{i}].{key} = {side!r}; use {', '.join(layout.SIDES)}")
    for key in ("first_level_for", "second_level_for"):
        for side in layout.SIDES:
            sizes = [_size(text, "") for entry in tlbs if side in entry.get(key, []) for text in entry["pages"]]
            if len(sizes) > len(set(sizes)):
                raise _Bad(f"tlb: two arrays have the same page size and {key} = {side!r}")
            if 0 not in sizes and (sizes or key == "first_level_for"):
                raise _Bad(f"tlb: no array has 4KiB pages and {key} = {side!r}")


def _size(text: Any, where: str) -> int:
    """Size code of a page size."""
    try:
        return _PAGES[parse_bytes(text)]
    except (UsageError, KeyError, TypeError):
        raise _Bad(f"{where} = {text!r}; use 4KiB, 2MiB or 1GiB") from None


def build(table: dict[str, Any]) -> np.recarray:
    """State record of a checked machine table."""
    state = layout.empty()
    s = state[0]
    tlbs, caches = table["tlb"], table["walk_cache"]
    s.arrays, s.caches = len(tlbs), len(tlbs) + len(caches)
    s.levels, s.ref_cycles = table["walk"]["levels"], table["walk"]["ref_cycles"]
    if s.caches > layout.ARRAYS:
        raise UsageError(f"a machine can have {layout.ARRAYS} TLB arrays and walk caches, not {s.caches}; merge some")
    row = 0
    for a, entry in enumerate(tlbs + caches):
        row = _place(state, a, entry, row)
    for a, entry in enumerate(caches, len(tlbs)):
        s.cache[_CACHE_LEVELS[entry["entry"]]] = a
    largest = _size(table["walk"]["largest_page"], "walk.largest_page")
    for code in range(len(EVENTS)):
        for size in range(len(layout.ORDERS)):
            page = _page(state, table, code, min(size, largest))
            state.page[0, code, (0, 21, 30)[size] :] = page
    return state


def _place(state: np.recarray, a: int, entry: dict[str, Any], row: int) -> int:
    """Give array `a` its rows of the pool, from `row` on; returns the next free row."""
    sets, ways = entry["entries"] // entry["ways"], entry["ways"]
    spread = max(-(-ways // layout.SLOTS) - 1, 0).bit_length()
    end = row + (sets << spread)
    if end > layout.ROWS:
        raise UsageError(f"the TLBs need more than {layout.ROWS} rows of {layout.SLOTS} slots; use fewer sets")
    fold = sets.bit_length() - 1 if entry.get("index") == "xor" else 62
    state.array[0, a] = (row, sets - 1, fold, spread, ways)
    if ways > layout.NARROW:
        state.lru[0, row:end] = 0
    return end


def _page(state: np.recarray, table: dict[str, Any], code: int, size: int) -> np.void:
    """What events of one code do to pages of one size."""
    side = {STORE: 1, NTSTORE: 1, FETCH: 2, WORK: 2}.get(code, 0)
    if side == 2:
        size = min(size, 1)  # there are no counters for instructions on 1 GiB pages, nor does Linux have any
    near, piece = _array(table, "first_level_for", side, size)
    far, far_piece = _array(table, "second_level_for", side, size)
    page = np.zeros(1, layout.PAGE).view(np.recarray)[0]
    for field in state.array.dtype.names:
        page[field] = state.array[0, near][field]
    page.order, page.far_order = layout.ORDERS[piece], layout.ORDERS[far_piece]
    page.near, page.code, page.far, page.far_code = near, piece, far, far_piece
    page.keep = layout.ADDRESS >> page.order << page.order
    page.leaf = size + 1
    columns = list(SCHEMA)
    page.column = columns.index(("dtlb_load_lookups", "dtlb_store_lookups", "itlb_lookups")[side])
    page.split = side < 2
    page.by_width = 0 if code in (FLUSH, WORK) else -1
    kept = ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores")
    page.retired = columns.index(kept[side]) if code in (LOAD, STORE, NTSTORE) else -1
    return page


def _array(table: dict[str, Any], key: str, side: int, size: int) -> tuple[int, int]:
    """Array (-1 = none) and piece for a page of one size: the largest size up to it that the level has an array for."""
    best = (-1, 0)
    for a, entry in enumerate(table["tlb"]):
        for text in entry["pages"] if layout.SIDES[side] in entry.get(key, []) else ():
            piece = _size(text, "")
            if piece <= size and (best[0] < 0 or piece > best[1]):
                best = (a, piece)
    return best
