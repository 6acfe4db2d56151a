"""Independent reference of `scmsim.footprint.interleave`: lists and sets, one operation at a time."""

from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A measured call; `sites` is a set of numbers, `touches` a list of (address, order, is a store)."""

    kind: int
    sites: frozenset[int]
    instructions: int
    touches: list[tuple[int, int, bool]]


def nearest(book: list[Entry], kind: int, known: set[int], sites: set[int], instructions: int) -> Entry:
    """The first of the calls whose mechanisms differ least, then whose instructions are nearest."""
    of_kind = [entry for entry in book if entry.kind == kind] or book
    return min(of_kind, key=lambda entry: (len(entry.sites ^ (sites & known)), abs(entry.instructions - instructions)))


def interleaved(book: list[Entry], known: set[int], kinds: list[int], events: list[dict[str, Any]]) -> list[Any]:
    """Events of one buffer, with touches as tuples (operation, site, address, order, is a store)."""
    out: list[Any] = []
    at = 0
    while at < len(events):
        row = events[at]["op"]
        mine = []
        while at < len(events) and events[at]["op"] == row:
            mine.append(events[at])
            at += 1
        work = sum(event["addr"] for event in mine if event["code"] == "WORK")
        entry = nearest(book, kinds[row], known, {event["site"] for event in mine}, work)
        for number, event in enumerate(mine):
            share = entry.touches[
                len(entry.touches) * number // len(mine) : len(entry.touches) * (number + 1) // len(mine)
            ]
            out += [(row, event["site"], *touch) for touch in share]
            out.append(event)
    return out
