"""Validation rules for the contents of a machine's table."""

from collections.abc import Mapping
from typing import Any

from scmsim.cache.state import FILLS, FLUSHES, LEVELS, LINE, check_fills
from scmsim.core.errors import UsageError
from scmsim.core.schema import Mistakes, Rule, flag, listed, named, number, one_of, table, text, then, whole
from scmsim.core.units import page_order, parse_bytes
from scmsim.mmu import state as layout
from scmsim.mmu.state import ANY, CACHE_LEVELS

_CYCLES = whole(0, 1 << 40)
_MOST_CACHE = 1 << 31  # bytes
_SOURCES = named(text, form="must be a table of the sources, by key")
_TIMES: dict[str, Rule] = {
    "ghz": number(1e-3, 1e3),
    "cpi": number(0, 1e3),
    "stlb_hit_cycles": number(0, 1e6),
    "walk_hidden": number(0, 1),  # a share: more than 1 would make times negative
    "copy_gb_s": number(1e-6, 1e9),
    "syscall_ns": number(0, 1e12),
}
_TIMES_PERHAPS: dict[str, Rule] = {"load_gb_s": number(1e-6, 1e9), "lines_in_flight": whole(1, 1 << 20)}
_LEVELS_FOR = ("first_level_for", "second_level_for")


def machine(sources: bool) -> Rule:
    """Return the rule for a machine's table; without `sources`, the sources, names, summary and [time] may be missing."""
    labelled = ("name", "source") if sources else ()
    fields = {
        "summary": text,
        "fill": one_of("rule of filling", layout.FILLS),
        "tlb": _arrays("tlb", {"name": text, "pages": listed(_page_of_array), **_FOR}, ("pages", *labelled), sources),
        "walk_cache": _arrays(
            "walk_cache", {"entry": one_of("entry", CACHE_LEVELS)}, ("entry", *labelled[1:]), sources
        ),
        "walk_memory": _arrays("walk_memory", {"name": text, "cycles": _CYCLES}, ("cycles", *labelled), sources),
        "nested_tlb": _arrays("nested_tlb", {}, labelled[1:], sources),
        "cache": _caches(sources),
        "flush": one_of("write-back instruction", FLUSHES),
        "walk": _numbers(_WALK, ("levels", "largest_page"), sources),
        "invalidate": _numbers(_INVALIDATE, (), sources),
        "time": _numbers(_TIMES | _TIMES_PERHAPS, tuple(_TIMES), sources),
    }
    needed = ("tlb", "walk_cache", "walk", *(("summary", "time") if sources else ()))
    return then(table(fields, needed), _together)


def _shaped(entry: dict[str, Any]) -> dict[str, Any]:
    entries, ways = entry["entries"], entry["ways"]
    sets, coalesce = entries // ways, entry.get("coalesce", 1)
    mistakes = Mistakes()
    if entries % ways:
        mistakes.note(("ways",), f"{ways} does not divide entries = {entries}")
    if sets & (sets - 1) and entry.get("index") == "xor":
        mistakes.note(("index",), f"an xor index needs a power of two, and entries / ways = {sets} sets")
    if ways & (ways - 1) and entry.get("policy") == "tree-plru":
        mistakes.note(("policy",), f"tree-plru needs a power of two, not ways = {ways} (bit-plru takes any number)")
    if coalesce & (coalesce - 1):
        mistakes.note(("coalesce",), f"{coalesce} is not a power of two up to 512 pages")
    mistakes.done()
    return entry


def _arrays(kind: str, more: Mapping[str, Rule], needed: tuple[str, ...], sources: bool) -> Rule:
    """Return the rule for the [[tables]] of a kind of array."""
    fields = {**_SHAPE, "index": one_of("index", ("linear", "xor")), "source": _source if sources else text, **more}
    form = f"must be written as [[{kind}]] tables"
    return listed(then(table(fields, ("entries", "ways", *needed), form), _shaped), form)


def _caches(sources: bool) -> Rule:
    """Return the rule for the [[cache]] tables: the levels of the data caches, nearest first."""
    form = "must be written as [[cache]] tables"
    fields = {
        "name": text,
        "size": _cache_bytes,
        "ways": whole(1, 1 << 10),
        "fill": one_of("rule of filling", FILLS),
        "cycles": _CYCLES,
        "source": _source if sources else text,
    }
    needed = ("size", "ways", *(("name", "cycles", "source") if sources else ()))
    return then(listed(then(table(fields, needed, form), _divided), form), _levels)


def _cache_bytes(value: Any) -> Any:
    if not LINE <= parse_bytes(value) <= _MOST_CACHE:
        raise UsageError(f"{value!r} is not the size of a cache; use 64 bytes to 2GiB")
    return value


def _divided(entry: dict[str, Any]) -> dict[str, Any]:
    """Check that a level's size is a whole number of sets."""
    if parse_bytes(entry["size"]) % (LINE * entry["ways"]):
        mistakes = Mistakes()
        mistakes.note(("size",), f"{entry['size']!r} is not a multiple of {entry['ways']} ways of {LINE} bytes")
        mistakes.done()
    return entry


def _levels(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Check the number of cache levels, and the rule by which each level is filled."""
    if not 1 <= len(entries) <= LEVELS:
        raise UsageError(
            f"give 1 to {LEVELS} levels, not {len(entries)}; leave the tables out if the caches are not known"
        )
    check_fills(entries)
    return entries


def _numbers(fields: Mapping[str, Rule], needed: tuple[str, ...], sources: bool) -> Rule:
    """Return the rule for a table of numbers; if `sources`, its `source` must state the source of each number."""

    def sourced(kept: dict[str, Any]) -> dict[str, Any]:
        mistakes = Mistakes()
        for key in kept.keys() - {"source"}:
            if not str(kept["source"].get(key, "")).strip():
                mistakes.note(("source", key), f"is missing; say where {key} comes from")
        mistakes.done()
        return kept

    rule = table({**fields, "source": _SOURCES}, (*needed, *(("source",) if sources else ())))
    return then(rule, sourced) if sources else rule


def _together(kept: dict[str, Any]) -> dict[str, Any]:
    """Check the rules that concern several keys at once."""
    walk, mistakes = kept["walk"], Mistakes()
    lines, flat = len(kept.get("walk_memory", [])), "ref_cycles" in walk
    if lines > layout.CACHES or flat == bool(lines) or (lines and "memory_cycles" not in walk):
        rule = f"give ref_cycles, or memory_cycles and one to {layout.CACHES} [[walk_memory]] caches"
        mistakes.note(("walk",), rule)
    if len(walk.get("level_bits", [9] * (walk["levels"] - 1))) != walk["levels"] - 1:
        mistakes.note(("walk", "level_bits"), "give log2 of a table's entries, 1 to 12, for each level but the last")
    entries = [entry["entry"] for entry in kept["walk_cache"]]
    for i, entry in enumerate(entries):
        if entry in entries[:i]:
            rule = f"there is an array for {entry!r} already; use {', '.join(CACHE_LEVELS)}, each once"
            mistakes.note(("walk_cache", i, "entry"), rule)
    if len(kept.get("nested_tlb", [])) > 1:
        mistakes.note(("nested_tlb",), "a machine has at most one nested TLB; leave the others out")
    for key in _LEVELS_FOR:
        for side in layout.SIDES:
            _check_side(kept["tlb"], key, side, mistakes)
    mistakes.done()
    return kept


def _check_side(tlbs: list[dict[str, Any]], key: str, side: str, mistakes: Mistakes) -> None:
    """Check that the arrays of one level and side hold 4 KiB pages, and that no page size has two arrays."""
    sizes = [text for entry in tlbs if side in entry.get(key, []) for text in entry["pages"]]
    orders = [text if text == ANY else page_order(text) for text in sizes]
    if len(orders) > len(set(orders)):
        mistakes.note(("tlb",), f"two arrays have the same page size and {key} = {side!r}")
    if 12 not in orders and ANY not in orders and (orders or key == "first_level_for"):
        mistakes.note(("tlb",), f"no array has 4KiB pages and {key} = {side!r}")


def _page(value: Any) -> Any:
    page_order(value)
    return value


def _page_of_array(value: Any) -> Any:
    return value if value == ANY else _page(value)


def _source(value: Any) -> str:
    if not text(value).strip():
        raise UsageError("is empty; say where the numbers come from")
    return str(value)


_SHAPE: dict[str, Rule] = {
    "entries": whole(1, 1 << 20),
    "ways": whole(1, 1 << 20),
    "policy": one_of("policy", layout.POLICIES),
}
array = then(table(_SHAPE), _shaped)  # rule for the entries, ways and policy of an array
_SIDES = listed(one_of("side", layout.SIDES))
_FOR: dict[str, Rule] = {"coalesce": whole(1, 512), **dict.fromkeys(_LEVELS_FOR, _SIDES)}
_WALK: dict[str, Rule] = {
    "levels": whole(1, layout.LEVELS),
    "largest_page": _page,
    "level_bits": listed(whole(1, 12)),
    "walkers": whole(1, layout.WALKERS),
    "nested_levels": whole(0, layout.LEVELS),  # 0: no virtual machine
    "nested_page": _page,
    "hardware_bits": flag,
    **dict.fromkeys(("ref_cycles", "memory_cycles", "scm_cycles", "update_cycles"), _CYCLES),
}
_INVALIDATE = dict.fromkeys(layout.INVALIDATION, _CYCLES) | dict.fromkeys(("cores", "program_cpus"), whole(1, 1 << 20))
