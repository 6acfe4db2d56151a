"""Build the MMU state of a checked machine table: the slots of each array, and how each event looks up each page size."""

from typing import Any

import numpy as np

from scmsim.core.counters import SCHEMA
from scmsim.core.errors import UsageError
from scmsim.core.records import CONTIGUOUS, EVENTS, FETCH, FLUSH, LOAD, NTSTORE, ORDER, STORE, WORK
from scmsim.core.units import page_order
from scmsim.mmu import state as layout
from scmsim.mmu.state import ANY, CACHE_LEVELS, INVALIDATION

_Array = dict[str, Any]

_SIDE_OF = {STORE: 1, NTSTORE: 1, FETCH: 2, WORK: 2}  # all other events: 0
_COLUMNS = list(SCHEMA)


def build(table: dict[str, Any]) -> np.ndarray:
    """Return the MMU of a checked machine table.

    Raises UsageError for more arrays than the state can hold.
    """
    tlbs, caches = table["tlb"], table["walk_cache"]
    nested, memory = table.get("nested_tlb", []), table.get("walk_memory", [])
    arrays = [*tlbs, *caches, *nested, *memory]
    if len(arrays) > layout.ARRAYS:
        raise UsageError(f"a machine can have {layout.ARRAYS} TLB arrays and caches, not {len(arrays)}; merge some")
    sets_end = sum(_slots(entry) for entry in arrays)
    slots = sets_end + sum(_slots(entry) >> layout.ROW_SHIFT for entry in arrays if _policy(entry) != layout.LRU)
    if slots > layout.SLOTS:
        raise UsageError(
            f"the arrays of a machine can have {layout.SLOTS} slots together, not {slots}; use 'scmsim mrc' for more"
        )
    state = layout.empty()
    s, first, recent = state[0], 0, sets_end
    for a, entry in enumerate(arrays):
        is_lru = _policy(entry) == layout.LRU
        s["array"][a] = *_geometry(entry, first), *((first, 0) if is_lru else (recent, layout.ROW_SHIFT))
        recent += 0 if is_lru else _slots(entry) >> layout.ROW_SHIFT
        s["array_of"][first >> layout.ROW_SHIFT : first + _slots(entry) >> layout.ROW_SHIFT] = a
        first += _slots(entry)
    s["tlbs"] = len(tlbs)
    before = sum(_slots(entry) for entry in tlbs)
    s["listed"][before >> layout.ROW_SHIFT :] = 1
    held = [(a, order) for a, entry in enumerate(tlbs) for order in _sizes(entry)]
    s["held"] = len(held)
    s["array_held"][: len(held)], s["order_held"][: len(held)] = zip(*held, strict=True)
    s["walk_slots"] = before, before + sum(_slots(entry) for entry in [*caches, *nested])
    for a, entry in enumerate(caches, len(tlbs)):
        s["walk_cache"][CACHE_LEVELS[entry["entry"]]] = a
    if nested:
        s["nested"] = len(tlbs) + len(caches)
    s["caches"] = len(memory)
    for k, entry in enumerate(memory):
        s["cache"][k], s["cache_cycles"][k] = len(arrays) - len(memory) + k, entry["cycles"]
    s["filling"] = layout.FILLS.index(table.get("fill", layout.FILLS[0]))
    _walk(s, table["walk"])
    _invalidate(s, table.get("invalidate", {}))
    _pages(s, tlbs, page_order(table["walk"]["largest_page"]))
    return state


def _lanes(entry: _Array) -> int:
    """Return the slots of a set: 8, or a multiple of 16."""
    return 8 if entry["ways"] <= 8 else -(-int(entry["ways"]) // 16) * 16


def _slots(entry: _Array) -> int:
    return int(entry["entries"]) // int(entry["ways"]) * _lanes(entry)


def _geometry(entry: _Array, first: int) -> tuple[int, ...]:
    sets = entry["entries"] // entry["ways"]
    mask = sets - 1 if sets & (sets - 1) == 0 else -1
    fold = sets.bit_length() - 1 if entry.get("index") == "xor" else 62
    return first, sets, mask, fold, _lanes(entry), entry["ways"], _policy(entry)


def _policy(entry: _Array) -> int:
    return layout.POLICIES.index(entry.get("policy", "lru"))


def _sizes(entry: _Array) -> list[int]:
    """Return log2 of the page sizes that an array holds, coalesced sizes included."""
    pages = entry.get("pages", [])
    sizes = list(range(12, 31)) if ANY in pages else [page_order(text) for text in pages]
    return sorted({*sizes, _coalesced(entry)} if 12 in sizes else sizes)


def _coalesced(entry: _Array) -> int:
    """Return log2 of the bytes that an entry for 4 KiB pages maps if neighbours are contiguous."""
    return 11 + int(entry.get("coalesce", 1)).bit_length()


def _walk(s: np.void, walk: dict[str, Any]) -> None:
    s["levels"] = walk["levels"]
    bits = [*walk.get("level_bits", [9] * (walk["levels"] - 1)), *[9] * layout.LEVELS]
    s["shift"][1:] = 12 + np.cumsum([0, *bits])[: layout.LEVELS + 1]
    s["memory_cycles"] = walk.get("ref_cycles", walk.get("memory_cycles", 0))
    s["scm_cycles"] = walk.get("scm_cycles", s["memory_cycles"])
    s["walkers"] = walk.get("walkers", 1)
    s["nested_levels"] = walk.get("nested_levels", 0)
    s["nested_order"] = page_order(walk.get("nested_page", "4KiB"))
    s["nested_leaf"] = _leaf(s, int(s["nested_order"]))
    s["track_bits"], s["update_cycles"] = walk.get("hardware_bits", False), walk.get("update_cycles", 0)


def _invalidate(s: np.void, table: dict[str, Any]) -> None:
    ceiling = table.get("ceiling", 33)
    given = {"cores": 1, "program_cpus": 1, "ceiling": ceiling, "kernel_ceiling": ceiling, "pcid": 1, **table}
    for key in INVALIDATION:
        s[key] = given.get(key, 0)


def _leaf(s: np.void, order: int) -> int:
    """Return the level of the page table that maps a page."""
    return int(max(level for level in range(1, s["levels"] + 1) if level == 1 or s["shift"][level] <= order))


def _pages(s: np.void, tlbs: list[_Array], largest: int) -> None:
    """Fill in how events of each code look up pages of each size."""
    held = [_sizes({**entry, "coalesce": 1}) for entry in tlbs]
    for split, who in ((1, "load"), (0, "fetch")):
        for order in range(12, 31):
            a, piece = _array(tlbs, held, ("second_level_for", who), (order, False))
            s["stlb_of"][split][order] = a if piece == order else -1
    for side in range(len(layout.SIDES)):
        codes = [code for code in range(len(EVENTS)) if _SIDE_OF.get(code, 0) == side]
        for contiguous in (0, CONTIGUOUS):
            for order in range(12, ORDER + 1):
                kind = (min(order, largest), contiguous > 0)
                s["page"][codes, contiguous | order] = _page(s, tlbs, held, side, kind)
            s["page"][codes, contiguous : contiguous + 12] = s["page"][codes[0], contiguous | 12]
    t = s["array"][s["page"]["l1"]]
    s["page"]["recent"], s["page"]["stride"] = t["recent"], t["lanes"] >> t["recent_shift"]
    s["page"]["set_mask"], s["page"]["fold"] = t["mask"], t["fold"]
    s["page"]["low"] = s["page"]["order"] | np.where((t["mask"] < 0) | s["track_bits"].astype(bool), layout.NEVER, 0)
    s["page"]["by_width"] = -1
    s["page"]["by_width"][[FLUSH, WORK]] = 0
    s["page"]["retired"] = -1
    for code, field in ((LOAD, "loads"), (STORE, "stores"), (NTSTORE, "stores")):
        s["page"]["retired"][code] = _COLUMNS.index(f"mem_inst_retired_all_{field}")


def _page(s: np.void, tlbs: list[_Array], held: list[list[int]], side: int, kind: tuple[int, bool]) -> np.void:
    """Return how one side looks up a page of a size, with or without contiguous neighbours."""
    order, contiguous = kind
    if side == layout.SIDES.index("fetch"):
        order = min(order, 21)  # 1 GiB pages of instructions have no counters, and Linux has none
    who, page = layout.SIDES[side], np.zeros(1, layout.PAGE)[0]
    page["l1"], page["order"] = _array(tlbs, held, ("first_level_for", who), (order, contiguous))
    page["stlb"], page["stlb_order"] = _array(tlbs, held, ("second_level_for", who), (order, contiguous))
    page["leaf"], page["walk_order"] = min(_leaf(s, order), 3), order
    page["column"] = _COLUMNS.index(("dtlb_load_lookups", "dtlb_store_lookups", "itlb_lookups")[side])
    page["split"], page["store"] = who != "fetch", who == "store"
    return page


def _array(tlbs: list[_Array], held: list[list[int]], who: tuple[str, str], kind: tuple[int, bool]) -> tuple[int, int]:
    """Return (array that holds a page, or -1; log2 of the bytes that one entry of the array maps of this page).

    A page may take several smaller entries: an entry maps the largest size that any array has and the page can hold.
    If a 4 KiB page has contiguous neighbours, an entry of a coalescing array maps several pages.
    """
    (key, side), (order, contiguous) = who, kind
    best = (-1, 12)
    for a, (entry, sizes) in enumerate(zip(tlbs, held, strict=True)):
        if side not in entry.get(key, []):
            continue
        if contiguous and order == 12 and 12 in sizes:
            return a, _coalesced(entry)
        fits = [size for size in sizes if size <= order]
        if fits and (best[0] < 0 or fits[-1] > best[1]):
            best = (a, fits[-1])
    return best
